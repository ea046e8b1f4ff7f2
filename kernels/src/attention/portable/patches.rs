//! A lane's part of the patches of dropout: four rows 8 apart, or two of them, and the four keys that
//! it has in two neighbouring fragments.

use super::{facts::Facts, key_order, scores::WarpRows};
use crate::attention::{dropout::Dropout, lane_rows::LaneRows};

/// The patches of a lane in a block of keys.
#[derive(Clone, Copy)]
pub struct Patches {
    dropout: Dropout,
    plane: u32,
    /// The lane's first query.
    query: u32,
    /// The lane's first key.
    key: u32,
    /// A warp of 16 rows has the lower half of its patches.
    lower: bool,
}

impl Patches {
    /// Of the block that begins at `first_key`. Heads are not packed.
    ///
    /// # Safety
    /// The facts must be those of the block, and the problem's pointers to seed and offset valid.
    #[inline(always)]
    pub unsafe fn of<const KEYS: usize>(
        rows: &WarpRows<'_, KEYS>,
        facts: Facts,
        first_key: i32,
    ) -> Self {
        let (place, _) = facts.place();
        Patches {
            dropout: Dropout::of(rows.problem),
            plane: place.batch * rows.problem.heads + place.group,
            query: rows.row(0, 0) as u32,
            key: rows.key(first_key) as u32,
            lower: rows.first as u32 / 16 % 2 == 1,
        }
    }

    /// Marks what is kept in fragments `n` and `n + 1`, an even number, for each row the elements of
    /// the first before those of the second.
    #[inline(always)]
    pub fn kept<const M: usize>(&self, n: usize) -> [[u32; 2]; M] {
        let key = self.key + key_order::offset(n, 0);
        let words = self.dropout.patch(self.plane, self.query, key).map(|w| self.dropout.kept(w));
        let mut kept = [[0; 2]; M];
        unroll!(m in M, up to 2 => {
            kept[m] = match m {
                0 if M == 2 || !self.lower => [words[0], words[1]],
                _ => [words[2], words[3]],
            };
        });
        kept
    }
}
