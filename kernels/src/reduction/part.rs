//! What a part of a row's threads knows of it, as it is merged and exchanged.

use crate::numbers::Accumulator;
use cuda_std::{cluster, shared, warp::lane_id};

/// What is known of a part of a row.
pub trait Part: Copy {
    /// What it is computed in.
    type Number: Accumulator;

    /// Nothing seen yet.
    const EMPTY: Self;
    /// Numbers that make it up.
    const NUMBERS: u32;

    /// Merges the parts held by each group of `lanes` neighbouring lanes of a warp. `coefficient`
    /// turns a difference of scores into an exponent.
    ///
    /// # Safety
    /// All lanes of the warp must call together, with the same `lanes`: a power of two up to 32.
    unsafe fn merge_lanes(self, coefficient: Self::Number, lanes: u32) -> Self;

    /// Calls `store` with each of its numbers and its index.
    fn each(self, store: impl FnMut(u32, Self::Number));

    /// The part of which `load` gives each number by its index.
    fn from_each(load: impl FnMut(u32) -> Self::Number) -> Self;
}

/// Bytes from one stored part to the next: up to three numbers of 8 bytes.
pub const SLOT_BYTES: u32 = 24;

/// Stores a part in slot `slot` of this block's shared memory.
///
/// # Safety
/// As for [`shared::store`], of a whole slot.
#[inline(always)]
pub unsafe fn store<P: Part>(part: P, slots: u32, slot: u32) {
    part.each(|i, number| shared::store(slots + SLOT_BYTES * slot + 8 * i, number));
}

/// Bytes that [`send_to_block`] sends.
#[inline(always)]
pub fn sent_bytes<P: Part>() -> u32 {
    P::NUMBERS * size_of::<P::Number>() as u32
}

/// Sends a part to slot `slot` of the shared memory of the cluster's block `rank`, whose barrier at
/// `barrier` expects [`sent_bytes`] for it.
///
/// # Safety
/// As for [`cluster::store_async`], of a whole slot.
#[inline(always)]
pub unsafe fn send_to_block<P: Part>(part: P, slots: u32, slot: u32, barrier: u32, rank: u32) {
    let to = cluster::map_shared(slots + SLOT_BYTES * slot, rank);
    let barrier = cluster::map_shared(barrier, rank);
    part.each(|i, number| cluster::store_async(to + 8 * i, number, barrier));
}

/// Merges the parts in the first `count` slots, for every lane.
///
/// # Safety
/// All lanes of the warp must call together; `count` is at most 32, and the slots hold parts.
#[inline(always)]
pub unsafe fn merge_stored<P: Part>(coefficient: P::Number, slots: u32, count: u32) -> P {
    let lane = lane_id();
    let mut part = P::EMPTY;
    if lane < count {
        part = P::from_each(|i| shared::load(slots + SLOT_BYTES * lane + 8 * i));
    }
    part.merge_lanes(coefficient, 32)
}
