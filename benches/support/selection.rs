//! Which problems are measured, from the command line.

use crate::{Direction, ElementType, MaskKind, Problem};
use clap::{Args, ValueEnum};

/// Row lengths that are measured without masks: powers of two, and one that is none.
pub const COLUMNS: [usize; 13] =
    [128, 256, 512, 1024, 2000, 2048, 4096, 8192, 16384, 32768, 65536, 131_072, 1 << 20];

/// Row lengths that are measured with masks.
pub const MASKED_COLUMNS: [usize; 9] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072];

/// Row lengths off the 16-byte grid, and one just on it.
pub const ODD_COLUMNS: [usize; 5] = [1000, 1001, 4095, 16383, 50259];

/// Square scores of attention, with a mask that heads share: sides.
pub const CLASSIC_COLUMNS: [usize; 4] = [512, 1024, 2048, 4096];

/// Bytes of x, about, unless others are asked for.
const TOTAL_BYTES: usize = 1 << 29;

/// Batch entries and numbers of heads of those.
const CLASSIC_BATCH: usize = 32;
const CLASSIC_HEADS: [usize; 2] = [12, 16];

/// A group of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// Every row length, without masks, f16, bf16 and f32.
    Lengths,
    /// Row lengths off the 16-byte grid, without masks, bf16 and f32.
    Odd,
    /// Every mask but the additive one, bf16.
    Masks,
    /// Scores of 32 batch entries and 12 or 16 heads, f16, with a mask that heads share.
    Classic,
}

/// Which problems are measured. What is given takes the place of what the sets measure by
/// themselves (lengths that of `lengths`, `odd` and `masks` alike); the classic set only leaves out
/// what is not named.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Groups of problems.
    #[arg(long = "set", value_delimiter = ',', default_value = "lengths,odd,masks,classic")]
    sets: Vec<Set>,
    /// What is computed.
    #[arg(long = "direction", value_delimiter = ',', default_value = "forward,backward")]
    directions: Vec<Direction>,
    /// Element types.
    #[arg(long = "dtype", value_delimiter = ',')]
    elements: Vec<ElementType>,
    /// Masks.
    #[arg(long = "mask", value_delimiter = ',')]
    masks: Vec<MaskKind>,
    /// Row lengths.
    #[arg(long, value_delimiter = ',')]
    columns: Vec<usize>,
    /// Bytes of x, about, outside of the classic set. Records tell those that are not the usual number.
    #[arg(long, default_value_t = TOTAL_BYTES)]
    total_bytes: usize,
}

impl Selection {
    /// All problems, each once.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for &direction in &self.directions {
            for &set in &self.sets {
                for problem in self.of_set(set, direction) {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        problems
    }

    /// The bytes of x that were asked for, if without them this problem would have been another one.
    pub fn unusual_bytes(&self, problem: &Problem) -> Option<u64> {
        let Problem { direction, element, mask, .. } = *problem;
        let elements = TOTAL_BYTES / element.dtype().size();
        let usual = Problem::of_columns(direction, element, mask, problem.columns(), elements);
        let is_classic = || self.of_set(Set::Classic, direction).contains(problem);
        (usual != *problem && !is_classic()).then_some(self.total_bytes as u64)
    }

    fn of_set(&self, set: Set, direction: Direction) -> Vec<Problem> {
        use ElementType::{Bf16, F16, F32};
        match set {
            Set::Lengths => {
                self.of_columns(direction, &[F16, Bf16, F32], &[MaskKind::None], &COLUMNS)
            }
            Set::Odd => self.of_columns(direction, &[Bf16, F32], &[MaskKind::None], &ODD_COLUMNS),
            Set::Masks => {
                let measured = |mask: &&MaskKind| {
                    let is_named = self.masks.contains(mask);
                    **mask != MaskKind::None && (**mask != MaskKind::Additive || is_named)
                };
                let all = MaskKind::value_variants().iter();
                let masks: Vec<MaskKind> = all.filter(measured).copied().collect();
                self.of_columns(direction, &[Bf16], &masks, &MASKED_COLUMNS)
            }
            Set::Classic => {
                let named = |problem: &Problem| {
                    let Problem { element, mask, .. } = problem;
                    names(&self.elements, element)
                        && names(&self.masks, mask)
                        && names(&self.columns, &problem.columns())
                };
                let sides = CLASSIC_COLUMNS.into_iter();
                let shapes = sides
                    .flat_map(|side| CLASSIC_HEADS.map(|heads| [CLASSIC_BATCH, heads, side, side]));
                let mask = MaskKind::Heads;
                shapes
                    .map(|shape| Problem { direction, element: F16, shape, mask })
                    .filter(named)
                    .collect()
            }
        }
    }

    fn of_columns(
        &self,
        direction: Direction,
        elements: &[ElementType],
        masks: &[MaskKind],
        columns: &[usize],
    ) -> Vec<Problem> {
        let elements = if self.elements.is_empty() { elements } else { &self.elements };
        let columns = if self.columns.is_empty() { columns } else { &self.columns };
        let mut problems = Vec::new();
        for &element in elements {
            let count = self.total_bytes / element.dtype().size();
            for &mask in masks.iter().filter(|mask| names(&self.masks, mask)) {
                problems.extend(
                    columns.iter().map(|&columns| {
                        Problem::of_columns(direction, element, mask, columns, count)
                    }),
                );
            }
        }
        problems
    }
}

/// Whether a list names something; an empty one names everything.
fn names<T: PartialEq>(list: &[T], item: &T) -> bool {
    list.is_empty() || list.contains(item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        selection: Selection,
    }

    fn problems(arguments: &str) -> Vec<Problem> {
        let words = ["program"].into_iter().chain(arguments.split_whitespace());
        Program::parse_from(words).selection.problems()
    }

    #[test]
    fn everything_without_arguments() {
        let all = problems("--direction forward");
        let unmasked = 3 * COLUMNS.len() + 2 * ODD_COLUMNS.len();
        assert_eq!(all.len(), unmasked + 5 * MASKED_COLUMNS.len() + 8);
        let both = problems("");
        assert_eq!(both.len(), 2 * all.len());
        assert_eq!(both[..all.len()], all);
    }

    #[test]
    fn what_is_named_takes_the_place_of_the_usual() {
        let few = problems(
            "--direction forward --set lengths --dtype f64 --columns 77,78 --total-bytes 61600",
        );
        assert_eq!(few.len(), 2);
        assert_eq!(few[0].shape, [1, 1, 100, 77]);
        assert_eq!(few[0].element, ElementType::F64);
        assert_eq!(problems("--direction forward --mask none --columns 4096 --dtype f32").len(), 1);
        let causal = problems("--direction backward --mask causal --columns 4096");
        assert_eq!(causal.len(), 1);
        assert_eq!(causal[0].shape, [16, 1, 4096, 4096]);
    }

    #[test]
    fn unusual_sizes_are_told() {
        let bytes_of = |arguments: &str| -> Vec<Option<u64>> {
            let words = ["program"].into_iter().chain(arguments.split_whitespace());
            let selection = Program::parse_from(words).selection;
            selection.problems().iter().map(|problem| selection.unusual_bytes(problem)).collect()
        };
        let one = "--direction forward --columns 4096 --dtype f16 --mask";
        assert_eq!(bytes_of(&format!("{one} bytes")), [None]);
        assert_eq!(bytes_of(&format!("{one} bytes --total-bytes 1000000")), [Some(1_000_000)]);
        // And two of the classic set.
        let heads = bytes_of(&format!("{one} heads --total-bytes 1000000"));
        assert_eq!(heads, [Some(1_000_000), None, None]);
        // A square takes more than either.
        let square = "--direction forward --columns 131072 --dtype bf16 --mask causal";
        assert_eq!(bytes_of(&format!("{square} --total-bytes 1000000")), [None]);
    }

    #[test]
    fn the_classic_set_is_only_cut_down() {
        let classic = problems("--direction forward --set classic --columns 1024,2000");
        let shapes: Vec<_> = classic.iter().map(|problem| problem.shape).collect();
        assert_eq!(shapes, [[32, 12, 1024, 1024], [32, 16, 1024, 1024]]);
        assert!(problems("--set classic --dtype f32").is_empty());
    }
}
