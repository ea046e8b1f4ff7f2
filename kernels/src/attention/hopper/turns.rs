//! Consumers take turns at beginning products.
//!
//! Left alone, consumers fall into step: all have begun their scores, and then all take exponentials,
//! while the tensor cores idle. In turn, one's products follow the other's, and the other takes
//! exponentials meanwhile.

use super::cut::WARPS;
use cuda_std::block;

/// Threads that meet at a barrier: of the consumer whose turn begins, and of the one before.
const THREADS: u32 = 2 * 32 * WARPS;

/// A consumer's place among the block's `consumers`. In each round each of them has one turn, in the
/// order of their numbers.
#[derive(Clone, Copy)]
pub struct Turns {
    /// The consumer's number.
    pub consumer: u32,
    /// How many there are, at least two.
    pub consumers: u32,
}

impl Turns {
    /// The first turn is the first consumer's.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup of each consumer, before its first turn.
    #[inline(always)]
    pub unsafe fn open(self) {
        if self.consumer == self.consumers - 1 {
            self.end();
        }
    }

    /// Waits for the consumer's turn. What its threads have stored in shared memory before is there for all
    /// of them then.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup of each consumer, as often as the others.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin(self) {
        block::barrier_sync(1 + self.consumer, THREADS);
    }

    /// It is the next consumer's turn.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup, after [`Turns::begin`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn end(self) {
        let next = match self.consumers {
            // Without a choice, which would be kept in a register.
            2 => 1 - self.consumer,
            _ if self.consumer + 1 == self.consumers => 0,
            _ => self.consumer + 1,
        };
        block::barrier_arrive(1 + next, THREADS);
    }

    /// Takes back the turn that nobody takes.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup of each consumer, after its last turn.
    #[inline(always)]
    pub unsafe fn close(self) {
        if self.consumer == 0 {
            self.begin();
        }
    }
}
