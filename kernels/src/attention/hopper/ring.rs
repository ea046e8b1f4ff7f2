//! Tiles on their way from those who fill stages in shared memory to the consumers.

use cuda_std::{
    mbarrier,
    warp::{self, FULL_MASK},
};

/// The barrier of tiles that the producer has something to do to: their copies report to it, and not to
/// that of their stage.
#[derive(Clone, Copy)]
pub struct Detour {
    barrier: u32,
    /// The parity of the phase in which the next one is there.
    parity: u32,
}

impl Detour {
    /// Bytes of the barrier, and of what keeps others aligned.
    pub const BARRIERS: u32 = 16;

    /// With its barrier there.
    #[inline(always)]
    pub fn new(barrier: u32) -> Self {
        Detour { barrier, parity: 0 }
    }

    /// Makes the barrier.
    ///
    /// # Safety
    /// As for [`Ring::init`].
    #[inline(always)]
    pub unsafe fn init(self) {
        mbarrier::init(self.barrier, 1);
    }

    /// Waits for the tile that has been begun.
    ///
    /// # Safety
    /// Convergent: the producer's warp, once for each tile.
    #[inline(always)]
    pub unsafe fn wait(&mut self) {
        mbarrier::wait(self.barrier, self.parity);
        self.parity ^= 1;
    }
}

/// A ring of stages for one tile each, as one of the parties sees it: it stands at the stage that the
/// party fills, or reads, next.
///
/// A stage has two barriers. *Full* has phases of an arrival of each warp that fills it and, if it is
/// the producer, of all the bytes of a tile, unless these report to a [`Detour`]; *empty* of an arrival
/// of each warp that reads.
#[derive(Clone, Copy)]
pub struct Ring {
    /// The first stage.
    tiles: u32,
    /// Stages.
    stages: u32,
    /// Bytes of a tile.
    bytes: u32,
    /// The first stage's barriers.
    barriers: u32,
    /// The stage's number.
    stage: u32,
    /// The parity of the phase in which the stage is full.
    parity: u32,
}

impl Ring {
    /// Bytes of a stage's barriers.
    pub const BARRIERS: u32 = 16;

    /// The ring of so many stages for so many bytes, at its first stage.
    #[inline(always)]
    pub fn new((tiles, stages): (u32, u32), bytes: u32, barriers: u32) -> Self {
        Ring { tiles, stages, bytes, barriers, stage: 0, parity: 0 }
    }

    /// Makes the barriers, for so many warps that fill a stage and that read it.
    ///
    /// # Safety
    /// One thread of the block, once, and a fence and a barrier follow.
    #[inline(always)]
    pub unsafe fn init(self, (writers, readers): (u32, u32)) {
        let mut stage = 0;
        while stage < self.stages {
            let full = self.barriers + stage * Self::BARRIERS;
            mbarrier::init(full, writers);
            mbarrier::init(full + 8, readers);
            stage += 1;
        }
    }

    /// Where the stage's tile is.
    #[inline(always)]
    pub fn tile(&self) -> u32 {
        self.tiles + self.stage * self.bytes
    }

    #[inline(always)]
    fn full(&self) -> u32 {
        self.barriers + self.stage * Self::BARRIERS
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        self.full() + 8
    }

    /// Waits until nobody reads the stage, and announces its next tile: the barrier that its copies
    /// report to. `speaks` in one lane.
    ///
    /// # Safety
    /// Convergent: the producer's warp, which copies a whole tile then.
    #[inline(always)]
    pub unsafe fn begin(&self, speaks: bool) -> u32 {
        self.announce(speaks, self.full())
    }

    /// The same; by a detour, if the tile `detours`: the producer [waits](Detour::wait) for it and
    /// [finishes](Ring::finish) it.
    ///
    /// # Safety
    /// As for [`Ring::begin`].
    #[inline(always)]
    pub unsafe fn begin_by(&self, speaks: bool, detours: bool, detour: Detour) -> u32 {
        self.announce(speaks, if detours { detour.barrier } else { self.full() })
    }

    /// Waits until nobody reads the stage.
    ///
    /// # Safety
    /// Convergent: the whole warp, one of those that fill it.
    #[inline(always)]
    pub unsafe fn claim(&self) {
        mbarrier::wait(self.empty(), self.parity ^ 1);
        // Or the phase could be over, and the next one too, before a lane has seen its end.
        warp::sync_warp(FULL_MASK);
    }

    #[inline(always)]
    unsafe fn announce(&self, speaks: bool, told: u32) -> u32 {
        self.claim();
        mbarrier::arrive_expect_tx_if(speaks, told, self.bytes);
        told
    }

    /// The stage is full, as far as the warp fills it. `speaks` in one lane.
    ///
    /// # Safety
    /// Convergent: the whole warp, which has claimed the stage and filled it, or begun its tile by a
    /// detour and done what it had to do, and whose lanes have met since.
    #[inline(always)]
    pub unsafe fn finish(&self, speaks: bool) {
        mbarrier::arrive_if(speaks, self.full());
    }

    /// Waits until the stage's tile is there.
    ///
    /// # Safety
    /// A consumer, which has not released it.
    #[inline(always)]
    pub unsafe fn wait(&self) {
        mbarrier::wait(self.full(), self.parity);
    }

    /// Gives the stage back, and goes on to the next: `speaks` in one lane of each warp.
    ///
    /// # Safety
    /// The whole warp, of a consumer, which has waited for the tile and is done with it.
    #[inline(always)]
    pub unsafe fn release(&mut self, speaks: bool) {
        mbarrier::arrive_if(speaks, self.empty());
        self.advance();
    }

    /// Passes over a tile that the warp does not read.
    ///
    /// # Safety
    /// Convergent: the whole warp, of a consumer. `speaks` as for [`Ring::release`].
    #[inline(always)]
    pub unsafe fn pass(&mut self, speaks: bool) {
        self.wait();
        // As for who claims one.
        warp::sync_warp(FULL_MASK);
        self.release(speaks);
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}
