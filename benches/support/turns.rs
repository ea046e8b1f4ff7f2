//! Implementations that take turns, so that a GPU's clocks and heat are the same for all.

use crate::Gpu;
use std::{thread::sleep, time::Duration};

/// How implementations take turns.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// Rounds.
    pub rounds: usize,
    /// Milliseconds that an implementation takes in a round, about.
    pub milliseconds: f64,
    /// Calls of an implementation in a round, at most: fewer than the driver's queue takes.
    pub most_calls: usize,
    /// Rest before each measurement.
    pub rest: Duration,
}

impl Turns {
    /// Calls in a round, at most, of functions that enqueue one launch or two.
    pub const MOST_CALLS: usize = 500;

    /// The microseconds of a call of each implementation, round by round.
    pub fn measure(&self, gpu: &Gpu, implementations: &[&dyn Fn()]) -> Vec<Vec<f64>> {
        let calls = |run: &&dyn Fn()| {
            run();
            let once = gpu.time(run).as_secs_f64() * 1e3;
            (self.milliseconds / once).ceil().clamp(1.0, self.most_calls as f64) as usize
        };
        let calls: Vec<usize> = implementations.iter().map(calls).collect();
        let mut microseconds = vec![Vec::with_capacity(self.rounds); implementations.len()];
        for _ in 0..self.rounds {
            for ((run, &calls), of_each) in
                implementations.iter().zip(&calls).zip(&mut microseconds)
            {
                sleep(self.rest);
                let time = gpu.time(|| (0..calls).for_each(|_| run()));
                of_each.push(time.as_secs_f64() * 1e6 / calls as f64);
            }
        }
        microseconds
    }
}
