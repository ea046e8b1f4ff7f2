//! Which tile of queries a block computes.

use crate::softmax::problem::Divisor;

/// The order in which the blocks of a launch, in one dimension, take the tiles of queries.
///
/// A *row group* is what tiles are cut from: the queries of one head of one batch entry; or, where
/// heads are packed, those of all the query heads that share a K/V head. Row groups take turns in
/// sets of equal size, so that those whose K and V the cache holds at once are few, and so are the
/// tiles that are left when others have ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Row groups in a set.
    set: Divisor,
    /// Tiles in a row group.
    tiles: Divisor,
    /// Row groups in a batch entry.
    groups: Divisor,
    /// Of the last tile first: with a causal mask it sees most keys.
    last_first: u32,
}

/// What a block computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The batch entry.
    pub batch: u32,
    /// The row group within it: the query head, or the K/V head where heads are packed.
    pub group: u32,
    /// The tile within the row group.
    pub tile: u32,
}

impl Schedule {
    /// For `batch` entries of `groups` row groups of `tiles` tiles each, taken in sets of up to
    /// `set` row groups; the last tiles first if `last_first`.
    pub const fn new(batch: u32, groups: u32, tiles: u32, set: u32, last_first: bool) -> Self {
        let all = batch as u64 * groups as u64;
        let mut set = if set == 0 { 1 } else { set };
        while !all.is_multiple_of(set as u64) {
            set -= 1;
        }
        Schedule {
            set: Divisor::new(set),
            tiles: Divisor::new(tiles),
            groups: Divisor::new(groups),
            last_first: last_first as u32,
        }
    }

    /// What block number `block` computes.
    #[inline(always)]
    pub const fn place(&self, block: u32) -> Place {
        let (rest, in_set) = self.set.divide(block);
        let (set, tile) = self.tiles.divide(rest);
        let (batch, group) = self.groups.divide(set * self.set.value() + in_set);
        let tile = if self.last_first != 0 { self.tiles.value() - 1 - tile } else { tile };
        Place { batch, group, tile }
    }
}
