//! Which key each column of the score fragments stands for.
//!
//! In a fragment a lane has two neighbouring columns of each 8, but a softmax has no order: columns
//! may stand for any keys, as long as both products agree. Of each 32 keys, fragment n's column c
//! stands for key `8 (c / 2) + 2 n + c % 2`. So the eight scores of a row that a lane has in four
//! fragments are those of 8 neighbouring keys: their mask is one load of 8 bytes, their bias one or
//! two of 16.

use crate::attention::lane_rows::{GROUP, GROUP_KEYS, RUN};

/// The first key of a lane, of the first 32.
#[inline(always)]
pub const fn first(lane: u32) -> u32 {
    lane % 4 * RUN as u32
}

/// From a lane's first key to that of element `e` of a row in fragment `n`.
#[inline(always)]
pub const fn offset(n: usize, e: usize) -> u32 {
    fragment(n) + e as u32
}

/// From the key of a column in the first fragment to that of the same column in fragment `n`.
#[inline(always)]
pub const fn fragment(n: usize) -> u32 {
    (n / GROUP * GROUP_KEYS as usize + n % GROUP * 2) as u32
}

/// The key of a column of the first fragment.
#[inline(always)]
pub const fn key(column: u32) -> u32 {
    column / 2 * RUN as u32 + column % 2
}
