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
    /// Tiles in all.
    count: u32,
    /// Half the tiles of a set, if blocks take them in pairs: the first with the last, and so on.
    half: Divisor,
    /// Whether they do.
    paired: u32,
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
            count: all as u32 * tiles,
            half: Divisor::new(1),
            paired: 0,
        }
    }

    /// The same for blocks that take several tiles, as many each: where tiles see ever more keys, in
    /// pairs of a set that see as many together, if the set has such.
    pub const fn in_turns(self) -> Self {
        let of_set = self.set.value() as u64 * self.tiles.value() as u64;
        if self.last_first == 0 || !of_set.is_multiple_of(2) {
            return self;
        }
        Schedule { half: Divisor::new((of_set / 2) as u32), paired: 1, ..self }
    }

    /// The number of the tile that block `block` of `blocks` takes at its turn number `turn`: none
    /// after its last.
    #[inline(always)]
    pub const fn number(&self, (block, blocks): (u32, u32), turn: u32) -> Option<u32> {
        if self.paired == 0 {
            let number = block + turn * blocks;
            return if number < self.count { Some(number) } else { None };
        }
        let pair = block + turn / 2 * blocks;
        if pair >= self.count / 2 {
            return None;
        }
        let (set, first) = self.half.divide(pair);
        let of_set = 2 * self.half.value();
        let in_set = if turn.is_multiple_of(2) { first } else { of_set - 1 - first };
        Some(set * of_set + in_set)
    }

    /// What tile number `number` is: that of the block, where each takes one.
    #[inline(always)]
    pub const fn place(&self, number: u32) -> Place {
        let (rest, in_set) = self.set.divide(number);
        let (set, tile) = self.tiles.divide(rest);
        let (batch, group) = self.groups.divide(set * self.set.value() + in_set);
        let tile = if self.last_first != 0 { self.tiles.value() - 1 - tile } else { tile };
        Place { batch, group, tile }
    }
}
