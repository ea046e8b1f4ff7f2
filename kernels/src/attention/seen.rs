//! Which keys the rows of a tile see by their visible ranges, and scores of those that they do not.

use super::{mask::VisibleRange, problem::AttentionForward, row_elements::RowElements};

/// Which keys some rows see.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Those that at least one of the rows may see: the first, and the one after the last.
    pub some: (i32, i32),
    /// Those that all of the rows see.
    pub all: (i32, i32),
}

impl Seen {
    /// Of the `count` rows from row `first` on, as far as they count, of a sequence of so many queries
    /// and keys that count.
    #[inline(always)]
    pub fn of(
        problem: &AttentionForward,
        (queries, keys): (i32, i32),
        (first, count): (i32, i32),
    ) -> Self {
        let packed = problem.packed_heads;
        let (rows, range) =
            (queries * packed.value() as i32, VisibleRange::of(problem, queries, keys));
        if first >= rows {
            return Seen { some: (0, 0), all: (0, 0) };
        }
        let last = if first + count < rows { first + count } else { rows } - 1;
        let query = |row: i32| packed.divide(row as u32).0 as i32;
        let (first, last) = (query(first), query(last));
        Seen {
            some: (range.first(first), range.end(last)),
            all: (range.first(last), range.end(first)),
        }
    }

    /// Does any row see any of the `count` keys from `first` on?
    #[inline(always)]
    pub fn sees(&self, first: i32, count: i32) -> bool {
        self.some.0 < first + count && first < self.some.1
    }

    /// Do all rows see all of the `count` keys from `first` on?
    #[inline(always)]
    pub fn sees_all(&self, first: i32, count: i32) -> bool {
        self.all.0 <= first && first + count <= self.all.1
    }
}

/// Hides the scores of row `h` whose keys are before `first` or not before `end`: `key` is that of
/// each element, counted from where these are.
#[inline(always)]
pub fn hide_row(
    scores: &mut impl RowElements,
    h: usize,
    (first, end): (i32, i32),
    key: impl Fn(usize) -> i32,
) {
    scores.map_row(h, |i, score| {
        let key = key(i);
        if key < first || key >= end { f32::NEG_INFINITY } else { score }
    });
}
