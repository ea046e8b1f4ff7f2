//! Vector clocks, cheap where many share nearly the same one.
//!
//! A [`Clock`] is a shared base and a few later entries. The threads that a barrier releases share
//! one base and differ in their own entry only, so the next barrier costs each of them a few
//! instructions instead of a pass over a vector of all threads.

use std::{mem, rc::Rc};

/// Later entries beyond which a clock gets a base of its own.
const MAX_LATER: usize = 16;

/// For each agent the number of its last step that can be seen; 0 for none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    base: Option<Base>,
    later: Vec<(usize, u32)>,
}

type Base = Rc<Vec<u32>>;

/// Two bases that were compared, and whether the second covers the first.
#[derive(Debug, Default)]
pub(crate) struct Comparison(Option<(Base, Base, bool)>);

impl Comparison {
    /// Is `a` nowhere later than `b`? Barriers ask the same of one pair again and again.
    fn covered(&mut self, a: &Base, b: &Base) -> bool {
        match &self.0 {
            Some((x, y, covered)) if Rc::ptr_eq(x, a) && Rc::ptr_eq(y, b) => *covered,
            _ => {
                let covered =
                    a.len() <= b.len() && a.iter().zip(b.iter()).all(|(mine, other)| mine <= other);
                self.0 = Some((a.clone(), b.clone(), covered));
                covered
            }
        }
    }
}

impl Clock {
    pub fn get(&self, agent: usize) -> u32 {
        let later = self.later.iter().find(|entry| entry.0 == agent);
        later.map_or_else(|| self.base_of(agent), |entry| entry.1)
    }

    fn base_of(&self, agent: usize) -> u32 {
        self.base.as_ref().and_then(|base| base.get(agent)).copied().unwrap_or(0)
    }

    pub fn raise(&mut self, agent: usize, to: u32) {
        if let Some(entry) = self.later.iter_mut().find(|entry| entry.0 == agent) {
            entry.1 = entry.1.max(to);
        } else if self.base_of(agent) < to {
            self.later.push((agent, to));
            if self.later.len() > MAX_LATER {
                let mut all = Gathering::default();
                all.add(self);
                *self = all.close();
            }
        }
    }

    pub fn join(&mut self, other: &Clock, comparison: &mut Comparison) {
        let replaces = match (&self.base, &other.base) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(mine), Some(theirs)) if Rc::ptr_eq(mine, theirs) => false,
            (Some(mine), Some(theirs)) if comparison.covered(mine, theirs) => true,
            (Some(mine), Some(theirs)) if comparison.covered(theirs, mine) => false,
            _ => {
                let mut all = Gathering::default();
                all.add(self);
                all.add(other);
                *self = all.close();
                return;
            }
        };
        if replaces {
            self.base = other.base.clone();
            for (agent, step) in mem::take(&mut self.later) {
                self.raise(agent, step);
            }
        }
        for &(agent, step) in &other.later {
            self.raise(agent, step);
        }
    }
}

/// The join of many clocks, while they come in.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    all: Vec<u32>,
    /// The base added last: whoever shares it adds little.
    last: Option<Base>,
}

impl Gathering {
    pub fn add(&mut self, clock: &Clock) {
        if let Some(base) = &clock.base
            && self.last.as_ref().is_none_or(|last| !Rc::ptr_eq(last, base))
        {
            if self.all.len() < base.len() {
                self.all.resize(base.len(), 0);
            }
            for (mine, theirs) in self.all.iter_mut().zip(base.iter()) {
                *mine = (*mine).max(*theirs);
            }
            self.last = Some(base.clone());
        }
        for &(agent, step) in &clock.later {
            self.raise(agent, step);
        }
    }

    pub fn raise(&mut self, agent: usize, to: u32) {
        if self.all.len() <= agent {
            self.all.resize(agent + 1, 0);
        }
        self.all[agent] = self.all[agent].max(to);
    }

    /// The join of all that was added; empties it.
    pub fn close(&mut self) -> Clock {
        let Gathering { all, .. } = mem::take(self);
        Clock { base: (!all.is_empty()).then(|| Rc::new(all)), later: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clocks of a few agents do the same as plain vectors, whatever is joined with what.
    #[test]
    fn clocks_are_vectors() {
        const AGENTS: usize = 40;
        let mut random = crate::ready::Random::new(7);
        let mut comparison = Comparison::default();
        let mut clocks = vec![Clock::default(); 8];
        let mut vectors = vec![vec![0u32; AGENTS]; 8];
        for step in 1..2000u32 {
            let (i, j) = (random.below(8), random.below(8));
            match random.below(3) {
                0 => {
                    let agent = random.below(AGENTS);
                    clocks[i].raise(agent, step);
                    vectors[i][agent] = step;
                }
                1 => {
                    let other = clocks[j].clone();
                    clocks[i].join(&other, &mut comparison);
                    let other = vectors[j].clone();
                    vectors[i].iter_mut().zip(other).for_each(|(a, b)| *a = b.max(*a));
                }
                _ => {
                    let mut all = Gathering::default();
                    all.add(&clocks[i]);
                    all.add(&clocks[j]);
                    clocks[i] = all.close();
                    let other = vectors[j].clone();
                    vectors[i].iter_mut().zip(other).for_each(|(a, b)| *a = b.max(*a));
                }
            }
            for (clock, vector) in clocks.iter().zip(&vectors) {
                assert!((0..AGENTS).all(|agent| clock.get(agent) == vector[agent]));
            }
        }
    }
}
