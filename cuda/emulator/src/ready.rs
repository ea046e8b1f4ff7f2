//! Which threads can run, and which of them goes next.

use crate::emulator::Schedule;
use std::collections::VecDeque;

/// SplitMix64: the same seed gives the same run.
#[derive(Default)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// The threads that can run, and the choice among them.
#[derive(Default)]
pub(crate) struct Ready {
    queue: VecDeque<usize>,
    style: Style,
    pub random: Random,
}

/// Shuffled schedules come in several styles, because mistakes show when all threads keep pace as
/// well as when some are far ahead.
#[derive(Default, Clone, Copy)]
enum Style {
    #[default]
    First,
    Last,
    Any,
}

impl Ready {
    /// `threads` can run, as the `cluster`-th of the grid.
    pub fn reset(
        &mut self,
        schedule: Schedule,
        cluster: usize,
        threads: impl Iterator<Item = usize>,
    ) {
        self.queue.clear();
        self.queue.extend(threads);
        (self.style, self.random) = (Style::First, Random::new(cluster as u64));
        if let Schedule::Shuffled { seed } = schedule {
            self.random = Random::new(seed ^ (cluster as u64) << 32);
            self.style = [Style::First, Style::Last, Style::Any][self.random.below(3)];
            for i in (1..self.queue.len()).rev() {
                let j = self.random.below(i + 1);
                self.queue.swap(i, j);
            }
        }
    }

    pub fn push(&mut self, thread: usize) {
        self.queue.push_back(thread);
    }

    /// For a thread that would rather have all the others run first: under [`Style::Last`] one
    /// that polls would otherwise be chosen for ever.
    pub fn push_aside(&mut self, thread: usize) {
        match self.style {
            Style::Last => self.queue.push_front(thread),
            Style::First | Style::Any => self.queue.push_back(thread),
        }
    }

    pub fn pop(&mut self) -> Option<usize> {
        match self.style {
            Style::First => self.queue.pop_front(),
            Style::Last => self.queue.pop_back(),
            Style::Any if self.queue.is_empty() => None,
            Style::Any => {
                let i = self.random.below(self.queue.len());
                self.queue.swap_remove_back(i)
            }
        }
    }
}
