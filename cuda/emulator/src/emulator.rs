//! How to emulate: the options of a launch.

use crate::sites::{SiteRecorder, SyncSite};
use std::time::Duration;

/// In which order ready threads run. What a correct kernel computes doesn't depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// First come, first served.
    Fair,
    /// At random, in one of several styles: even, or with some threads far ahead of the others.
    Shuffled {
        /// The same seed gives the same order.
        seed: u64,
    },
}

/// When asynchronous operations (cp.async, TMA, wgmma) touch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncTiming {
    /// When they are issued.
    Eager,
    /// As late as the kernel's waits allow.
    Late,
    /// By chance: some at once, some late, and bulk copies at any time in between.
    Random,
}

/// A GPU made of CPU threads: launches kernels, and says what they do wrong.
///
/// ```
/// use cuda_emulator::{AsyncTiming, Emulator, Schedule};
///
/// let plain = Emulator::default();
/// let strict = Emulator::adversarial(7);
/// let own = Emulator::default()
///     .schedule(Schedule::Shuffled { seed: 7 })
///     .timing(AsyncTiming::Late)
///     .race_check(true);
/// assert_eq!(strict.seed(), own.seed());
/// assert_eq!(plain.seed(), None);
/// ```
#[derive(Debug, Clone)]
pub struct Emulator {
    pub(crate) schedule: Schedule,
    pub(crate) timing: AsyncTiming,
    pub(crate) races: bool,
    pub(crate) stack: usize,
    pub(crate) patience: Duration,
    pub(crate) omitted: Option<SyncSite>,
    pub(crate) recorder: Option<SiteRecorder>,
}

impl Default for Emulator {
    /// A fair schedule, asynchronous operations at once, and all checks but that for data races,
    /// which takes up to twice the time.
    fn default() -> Self {
        Emulator {
            schedule: Schedule::Fair,
            timing: AsyncTiming::Eager,
            races: false,
            stack: 256 << 10,
            patience: Duration::from_secs(20),
            omitted: None,
            recorder: None,
        }
    }
}

impl Emulator {
    /// All the checks, a shuffled schedule, and asynchronous operations late (an even seed) or at
    /// random times (an odd one). Faults name the seed.
    pub fn adversarial(seed: u64) -> Self {
        let timing = if seed.is_multiple_of(2) { AsyncTiming::Late } else { AsyncTiming::Random };
        Emulator::default().schedule(Schedule::Shuffled { seed }).timing(timing).race_check(true)
    }

    /// With the threads of a block in this order.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Emulator { schedule, ..self }
    }

    /// With asynchronous operations at this time.
    pub fn timing(self, timing: AsyncTiming) -> Self {
        Emulator { timing, ..self }
    }

    /// With the check for data races in shared memory, or without.
    pub fn race_check(self, races: bool) -> Self {
        Emulator { races, ..self }
    }

    /// With `bytes` of stack for each CUDA thread. Only what is touched costs memory.
    pub fn stack_bytes(self, bytes: usize) -> Self {
        Emulator { stack: bytes, ..self }
    }

    /// For how long a cluster's threads may do nothing but poll, before that counts as a livelock;
    /// 20 seconds by default.
    pub fn patience(self, patience: Duration) -> Self {
        Emulator { patience, ..self }
    }

    /// Without the synchronisation at `site`: whoever comes there goes on as if it weren't
    /// written. Tests prove with it that the site is needed, and that they would notice. A
    /// [`SiteRecorder`] lists the sites of a launch.
    pub fn omitting(self, site: SyncSite) -> Self {
        Emulator { omitted: Some(site), ..self }
    }

    /// Letting `recorder` know the sites at which kernels synchronise.
    pub fn recording(self, recorder: &SiteRecorder) -> Self {
        Emulator { recorder: Some(recorder.clone()), ..self }
    }

    /// The seed of the schedule, if it is shuffled.
    pub fn seed(&self) -> Option<u64> {
        match self.schedule {
            Schedule::Fair => None,
            Schedule::Shuffled { seed } => Some(seed),
        }
    }
}
