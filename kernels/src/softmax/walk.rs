//! A block's way along a row that is cut into stretches.

/// The stretches of a row that a block takes, one after the other. Stretches are of equal length
/// and begin where vectors do, but for the first, which begins where the row does; the blocks that
/// share a row take them in turn.
#[derive(Clone, Copy)]
pub struct Walk {
    /// Where the stretch would begin on the vector grid.
    grid: i64,
    /// Columns of a stretch.
    length: i64,
    /// Columns from one of the block's stretches to the next.
    step: i64,
    /// Columns of the row.
    columns: i64,
    /// The first column that may be visible, and the one after the last.
    visible: (i64, i64),
}

impl Walk {
    /// Of block `of.0` of the row's `of.1`, over `columns` columns, the first of which lies `lead`
    /// columns behind the vector grid; those of `visible` may be visible.
    #[inline(always)]
    pub fn of(of: (u32, u32), length: i64, lead: i32, columns: i64, visible: (i64, i64)) -> Self {
        let (block, blocks) = (of.0 as i64, of.1 as i64);
        Walk { grid: block * length - lead as i64, length, step: blocks * length, columns, visible }
    }

    /// Is there a stretch left?
    #[inline(always)]
    pub fn is_on_row(self) -> bool {
        self.grid < self.columns
    }

    /// The stretch's first column.
    #[inline(always)]
    pub fn begin(self) -> i64 {
        if self.grid < 0 { 0 } else { self.grid }
    }

    /// The stretch's columns.
    #[inline(always)]
    pub fn length(self) -> i64 {
        let end = self.grid + self.length;
        (if end < self.columns { end } else { self.columns }) - self.begin()
    }

    /// May any of the stretch be visible?
    #[inline(always)]
    pub fn is_seen(self) -> bool {
        self.grid < self.visible.1 && self.grid + self.length > self.visible.0
    }

    /// Is the stretch of full length?
    #[inline(always)]
    pub fn is_full_length(self) -> bool {
        self.grid >= 0 && self.grid + self.length <= self.columns
    }

    /// Is the stretch of full length, and may all of it be visible?
    #[inline(always)]
    pub fn is_full(self) -> bool {
        self.grid >= self.visible.0 && self.grid + self.length <= self.visible.1
    }

    /// The `nth` of the stretches that may be visible, of those from this one on: they follow each other.
    /// It may not exist.
    #[inline(always)]
    pub fn nth_seen(mut self, nth: u32) -> Self {
        while self.is_on_row() && !self.is_seen() {
            self = self.next();
        }
        Walk { grid: self.grid + nth as i64 * self.step, ..self }
    }

    /// The block's next stretch.
    #[inline(always)]
    pub fn next(self) -> Self {
        Walk { grid: self.grid + self.step, ..self }
    }
}
