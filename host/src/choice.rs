//! Which tile of a table runs a problem, and why: *may* it run it, apart from *is it the best*.

use crate::Error;

/// A row of a table of tiles, with what runs it.
pub(crate) trait Candidate: Copy {
    /// What the choice depends on.
    type Demand;
    /// How the tile is cut for a problem.
    type Cut;

    /// The tile's name.
    fn tile(&self) -> &'static str;

    /// Can the tile run the problem? If so, how it is cut, else why not.
    fn cut(&self, demand: &Self::Demand) -> Result<Self::Cut, String>;

    /// Is the tile preferred to those after it for the problem? If not, why.
    fn preferred(&self, demand: &Self::Demand) -> Result<(), String>;
}

/// What runs a problem, and what was passed over.
pub(crate) struct Choice<C: Candidate> {
    pub candidate: C,
    pub cut: C::Cut,
    /// The tiles before it in the table, and why.
    pub passed_over: Vec<(&'static str, String)>,
}

/// Who wants a tile, and which.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
    Options(&'static str),
    Tuning(&'static str),
}

/// Each tile, and why it cannot run the problem.
#[derive(Debug)]
pub(crate) struct Tried(Vec<(&'static str, String)>);

impl Tried {
    /// The error of an operation that no tile can run.
    pub fn into_error(self, operation: &'static str) -> Error {
        let tried: Vec<_> = self.0.iter().map(|(tile, why)| format!("{tile}: {why}")).collect();
        Error::NoEligibleTile { operation, tried: tried.join("; ") }
    }
}

/// The first candidate that can run the problem and is preferred for it, else the first that can;
/// the one that is wished for, if there is a wish.
pub(crate) fn choose<C: Candidate>(
    candidates: impl Iterator<Item = C>,
    wish: Option<Wish>,
    demand: &C::Demand,
) -> Result<Choice<C>, Tried> {
    let mut passed_over = Vec::new();
    let mut fallback = None;
    for candidate in candidates {
        let tile = candidate.tile();
        let reason = match wish {
            Some(Wish::Options(wanted)) if wanted != tile => {
                format!("the options ask for {wanted}")
            }
            Some(Wish::Tuning(wanted)) if wanted != tile => {
                format!("the tuning file prefers {wanted}")
            }
            _ => match (candidate.cut(demand), candidate.preferred(demand)) {
                (Ok(cut), Ok(())) => return Ok(Choice { candidate, cut, passed_over }),
                (Ok(cut), Err(reason)) => {
                    let place = passed_over.len();
                    fallback.get_or_insert((candidate, cut, place));
                    reason
                }
                (Err(reason), _) => reason,
            },
        };
        passed_over.push((tile, reason));
    }
    let Some((candidate, cut, place)) = fallback else { return Err(Tried(passed_over)) };
    passed_over.truncate(place);
    Ok(Choice { candidate, cut, passed_over })
}

/// Whether code for architecture `arch` runs on a device of this compute capability; if not, why. That
/// for an architecture with an `a` runs on no other.
pub(crate) fn runs_on(arch: &str, (major, minor): (u32, u32)) -> Result<(), String> {
    let name = arch.trim_start_matches("sm_");
    let digits = name.trim_end_matches('a');
    let number: u32 = digits.parse().unwrap_or(u32::MAX);
    let needed = (number / 10, number % 10);
    let runs = if digits == name { needed <= (major, minor) } else { needed == (major, minor) };
    if !runs {
        return Err(format!("needs {arch}, the device is sm_{major}{minor}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::runs_on;

    #[test]
    fn code_runs_on_its_architecture_and_later_ones() {
        assert!(runs_on("sm_80", (8, 0)).is_ok());
        assert!(runs_on("sm_80", (9, 0)).is_ok());
        assert!(runs_on("sm_90", (8, 9)).is_err());
    }

    #[test]
    fn code_for_one_architecture_runs_on_no_other() {
        assert!(runs_on("sm_90a", (9, 0)).is_ok());
        assert!(runs_on("sm_90a", (8, 9)).is_err());
        assert!(runs_on("sm_90a", (10, 0)).is_err());
    }
}
