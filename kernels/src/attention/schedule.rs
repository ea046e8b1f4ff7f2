//! Which tile of queries a block computes.

use crate::softmax::problem::Divisor;
use cuda_std::hint::{self, Registers};

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
    /// Blocks that take several.
    staying: u32,
    /// How many pairs each of these takes at most. What is left other blocks take one by one.
    rounds: u32,
}

/// What the number and the place of a tile take is then computed anew for each, and not kept in
/// registers.
impl Registers for Schedule {
    #[inline(always)]
    fn opaque(self) -> Self {
        let Schedule { set, tiles, groups, last_first, count, half, paired, staying, rounds } =
            self;
        let [set, tiles, groups, half] = hint::opaque([set, tiles, groups, half]);
        let [last_first, count, paired, staying, rounds] =
            hint::opaque([last_first, count, paired, staying, rounds]);
        Schedule { set, tiles, groups, last_first, count, half, paired, staying, rounds }
    }
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
        let count = all as u32 * tiles;
        while !all.is_multiple_of(set as u64) {
            set -= 1;
        }
        Schedule {
            set: Divisor::new(set),
            tiles: Divisor::new(tiles),
            groups: Divisor::new(groups),
            last_first: last_first as u32,
            count,
            half: Divisor::new(1),
            paired: 0,
            staying: count,
            rounds: u32::MAX,
        }
    }

    /// The same for `staying` blocks that take several tiles each.
    pub const fn staying(self, staying: u32) -> Self {
        Schedule { staying, ..self }
    }

    /// The same for `staying` blocks, as many as run at once, that take several tiles each: where
    /// tiles see ever more keys, in pairs of a set that see as many together, `pair_blocks` blocks of
    /// keys. If they could not all take as many pairs by far, blocks that follow take the last ones,
    /// tile by tile.
    pub const fn in_turns(self, staying: u32, pair_blocks: u32) -> Self {
        let of_set = self.set.value() as u64 * self.tiles.value() as u64;
        if self.last_first == 0 || !of_set.is_multiple_of(2) {
            return self.staying(staying);
        }
        let (rounds, left) = (self.count / 2 / staying, self.count / 2 % staying);
        // To begin a block costs about as much as a block of keys, and three or so are begun.
        let idle = (staying - left) as u64 * pair_blocks as u64 / staying as u64;
        let rounds = if left > 0 && rounds > 1 && idle >= 8 { rounds - 1 } else { u32::MAX };
        Schedule { half: Divisor::new((of_set / 2) as u32), paired: 1, staying, rounds, ..self }
    }

    /// The blocks of the launch.
    pub const fn blocks(&self) -> u32 {
        let taken = self.staying as u64 * self.rounds as u64;
        if self.paired == 0 || taken >= self.count as u64 / 2 {
            return self.staying;
        }
        self.staying + self.count - 2 * taken as u32
    }

    /// The number of the tile that block `block` takes at its turn number `turn`: none after its last.
    #[inline(always)]
    pub const fn number(&self, block: u32, turn: u32) -> Option<u32> {
        if self.paired == 0 {
            let number = block + turn * self.staying;
            return if number < self.count { Some(number) } else { None };
        }
        let pairs = self.count / 2;
        let (pair, is_second) = if block < self.staying {
            if turn / 2 >= self.rounds {
                return None;
            }
            (block + turn / 2 * self.staying, turn % 2 == 1)
        } else {
            if turn > 0 {
                return None;
            }
            // First tiles in order, then second ones from the last on: longest first.
            let (begin, nth) = (self.rounds * self.staying, block - self.staying);
            if begin + nth < pairs {
                (begin + nth, false)
            } else {
                (2 * pairs - begin - 1 - nth, true)
            }
        };
        if pair >= pairs {
            return None;
        }
        let (set, first) = self.half.divide(pair);
        let of_set = 2 * self.half.value();
        Some(set * of_set + if is_second { of_set - 1 - first } else { first })
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
