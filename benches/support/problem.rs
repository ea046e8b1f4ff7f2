//! The problems that are measured, and the bytes that each must move.

use clap::ValueEnum;
use fused_attention::Dtype;
use std::{fmt, ops::Range};

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Direction {
    /// The softmax.
    Forward,
    /// Its gradient, from the probabilities.
    Backward,
    /// Its gradient, from the scores.
    BackwardFromScores,
}

/// What hides parts of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum MaskKind {
    /// Nothing.
    None,
    /// A byte for each element.
    Bytes,
    /// Bytes that all heads share.
    Heads,
    /// A number of x's type for each element, added to the scaled score.
    Additive,
    /// All keys right of the diagonal.
    Causal,
    /// All keys right of the diagonal, and those more than 1024 to its left.
    Window,
    /// All keys from a length on, one for each batch entry, spread evenly.
    Lengths,
}

/// An element type that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ElementType {
    /// IEEE, 16 bits.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// IEEE, 32 bits.
    F32,
    /// IEEE, 64 bits.
    F64,
}

impl ElementType {
    /// The library's name for it.
    pub fn dtype(self) -> Dtype {
        match self {
            ElementType::F16 => Dtype::F16,
            ElementType::Bf16 => Dtype::Bf16,
            ElementType::F32 => Dtype::F32,
            ElementType::F64 => Dtype::F64,
        }
    }
}

macro_rules! display {
    ($($Type:ty),*) => {
        $(impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value().expect("no value is skipped");
                f.pad(value.get_name())
            }
        })*
    };
}
display!(Direction, MaskKind, ElementType);

/// Keys left of the diagonal that a window shows.
pub const WINDOW: usize = 1024;

/// The heads of problems whose shape is not given.
const HEADS: usize = 8;

/// A softmax to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// What is computed.
    pub direction: Direction,
    /// Of which elements.
    pub element: ElementType,
    /// Batch entries, heads, queries, keys.
    pub shape: [usize; 4],
    /// What is hidden.
    pub mask: MaskKind,
}

impl Problem {
    /// A problem of rows of `columns` and about `elements` elements.
    pub fn of_columns(
        direction: Direction,
        element: ElementType,
        mask: MaskKind,
        columns: usize,
        elements: usize,
    ) -> Self {
        let rows = (elements / columns).max(1);
        let shape = match mask {
            MaskKind::None | MaskKind::Bytes | MaskKind::Additive => [1, 1, rows, columns],
            MaskKind::Heads => {
                let queries = (rows / HEADS).clamp(1, columns);
                [(rows / HEADS / queries).max(1), HEADS, queries, columns]
            }
            // The diagonal of a square hides half of it.
            MaskKind::Causal | MaskKind::Window => [(rows / columns).max(1), 1, columns, columns],
            MaskKind::Lengths => [HEADS, 1, (rows / HEADS).max(1), columns],
        };
        Problem { direction, element, shape, mask }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.shape[..3].iter().product()
    }

    /// Columns of a row.
    pub fn columns(&self) -> usize {
        self.shape[3]
    }

    /// Elements of a tensor.
    pub fn elements(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Tensors of as many elements that take part.
    pub fn tensors(&self) -> usize {
        let masks = usize::from(self.mask == MaskKind::Additive);
        masks + if self.direction == Direction::Forward { 2 } else { 3 }
    }

    /// The shape of the byte mask, if there is one.
    pub fn mask_shape(&self) -> Option<[usize; 4]> {
        let [batch, _, queries, columns] = self.shape;
        match self.mask {
            MaskKind::Bytes => Some(self.shape),
            MaskKind::Heads => Some([batch, 1, queries, columns]),
            _ => None,
        }
    }

    /// Distinct bytes of the byte mask.
    pub fn mask_bytes(&self) -> usize {
        self.mask_shape().map_or(0, |shape| shape.iter().product())
    }

    /// The row of the byte mask that a row takes.
    pub fn mask_row(&self, row: usize) -> Option<usize> {
        let [_, heads, queries, _] = self.shape;
        match self.mask {
            MaskKind::Bytes => Some(row),
            MaskKind::Heads => Some(row / (heads * queries) * queries + row % queries),
            _ => None,
        }
    }

    /// How many columns a batch entry sees.
    pub fn length(&self, batch: usize) -> usize {
        match self.mask {
            MaskKind::Lengths => self.columns() * (batch + 1) / self.shape[0],
            _ => self.columns(),
        }
    }

    /// The columns that a row may see, a byte mask apart.
    pub fn visible(&self, batch: usize, query: usize) -> Range<usize> {
        let [_, _, queries, columns] = self.shape;
        let end = (query + 1 + columns).saturating_sub(queries);
        match self.mask {
            MaskKind::Causal => 0..end,
            MaskKind::Window => end.saturating_sub(WINDOW + 1)..end,
            _ => 0..self.length(batch),
        }
    }

    /// How many elements can be seen.
    pub fn visible_elements(&self) -> usize {
        let [batches, heads, queries, _] = self.shape;
        let of_batch = |batch| {
            let of_query = |query| self.visible(batch, query).len();
            match self.mask {
                MaskKind::Causal | MaskKind::Window => (0..queries).map(of_query).sum(),
                _ => queries * of_query(0),
            }
        };
        heads * (0..batches).map(of_batch).sum::<usize>()
    }

    /// The bytes that must be moved: of inputs what can be seen, each distinct byte of a mask, and
    /// the whole output.
    pub fn bytes(&self) -> usize {
        let size = self.element.dtype().size();
        let inputs = if self.direction == Direction::Forward { 1 } else { 2 };
        // What masks hide, probabilities have already as zeros.
        let masks = match (self.direction, self.mask) {
            (Direction::Backward, _) => 0,
            (_, MaskKind::Additive) => self.elements() * size,
            _ => self.mask_bytes(),
        };
        let lengths = match self.mask {
            MaskKind::Lengths => self.shape[0] * size_of::<i32>(),
            _ => 0,
        };
        (inputs * self.visible_elements() + self.elements()) * size + masks + lengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Backward, BackwardFromScores, Forward};

    fn problem(direction: Direction, mask: MaskKind, shape: [usize; 4]) -> Problem {
        Problem { direction, element: ElementType::Bf16, shape, mask }
    }

    #[test]
    fn without_a_mask_each_tensor_counts_once() {
        let shape = [2, 3, 5, 7];
        let elements = 2 * 3 * 5 * 7;
        assert_eq!(problem(Forward, MaskKind::None, shape).bytes(), 2 * 2 * elements);
        assert_eq!(problem(Backward, MaskKind::None, shape).bytes(), 3 * 2 * elements);
        let from_scores = problem(BackwardFromScores, MaskKind::None, shape);
        assert_eq!(from_scores.bytes(), 3 * 2 * elements);
        let f64 = Problem { element: ElementType::F64, ..from_scores };
        assert_eq!(f64.bytes(), 3 * 8 * elements);
    }

    #[test]
    fn shared_bytes_of_a_mask_count_once() {
        let shape = [2, 3, 5, 7];
        let elements = 2 * 3 * 5 * 7;
        assert_eq!(problem(Forward, MaskKind::Bytes, shape).bytes(), 5 * elements);
        assert_eq!(problem(Forward, MaskKind::Heads, shape).bytes(), 4 * elements + elements / 3);
        assert_eq!(problem(BackwardFromScores, MaskKind::Bytes, shape).bytes(), 7 * elements);
        assert_eq!(problem(Forward, MaskKind::Additive, shape).bytes(), 6 * elements);
        // From probabilities it is not read.
        assert_eq!(problem(Backward, MaskKind::Bytes, shape).bytes(), 6 * elements);
    }

    #[test]
    fn heads_share_the_rows_of_a_mask() {
        let heads = problem(Forward, MaskKind::Heads, [2, 3, 5, 7]);
        let mask_rows = [0, 4, 5, 14, 15, 29].map(|row| heads.mask_row(row).unwrap());
        assert_eq!(mask_rows, [0, 4, 0, 4, 5, 9]);
    }

    #[test]
    fn hidden_inputs_do_not_count() {
        // 1 + 2 + 3 + 4 of 16.
        let causal = problem(Forward, MaskKind::Causal, [3, 1, 4, 4]);
        assert_eq!(causal.bytes(), 3 * 2 * (10 + 16));
        // More queries than keys: the first two see nothing.
        assert_eq!(problem(Backward, MaskKind::Causal, [1, 1, 5, 3]).visible_elements(), 6);
        let wide = problem(Forward, MaskKind::Window, [1, 1, 4 * WINDOW, 4 * WINDOW]);
        assert_eq!(wide.visible(0, 4 * WINDOW - 1), 3 * WINDOW - 1..4 * WINDOW);
        assert_eq!(wide.visible(0, 3), 0..4);
        let whole = WINDOW + 1;
        assert_eq!(wide.visible_elements(), whole * (4 * WINDOW) - whole * WINDOW / 2);
        // Lengths of 2, 4, 6 and 8.
        let lengths = problem(Forward, MaskKind::Lengths, [4, 2, 3, 8]);
        assert_eq!(lengths.visible_elements(), 2 * 3 * (2 + 4 + 6 + 8));
        assert_eq!(lengths.bytes(), 2 * 120 + 4 * 4 + 2 * 4 * 2 * 3 * 8);
    }

    #[test]
    fn shapes_are_about_as_large_as_asked_for() {
        let of = |mask, columns| {
            Problem::of_columns(Forward, ElementType::F16, mask, columns, 1 << 28).shape
        };
        assert_eq!(of(MaskKind::None, 2000), [1, 1, 134_217, 2000]);
        assert_eq!(of(MaskKind::None, 1 << 30), [1, 1, 1, 1 << 30]);
        assert_eq!(of(MaskKind::Heads, 1024), [32, 8, 1024, 1024]);
        assert_eq!(of(MaskKind::Heads, 1 << 17), [1, 8, 256, 1 << 17]);
        assert_eq!(of(MaskKind::Causal, 4096), [16, 1, 4096, 4096]);
        assert_eq!(of(MaskKind::Window, 1 << 15), [1, 1, 1 << 15, 1 << 15]);
        assert_eq!(of(MaskKind::Lengths, 4096), [8, 1, 8192, 4096]);
    }

    #[test]
    fn names_are_those_of_records() {
        assert_eq!(BackwardFromScores.to_string(), "backward_from_scores");
        assert_eq!(MaskKind::Heads.to_string(), "heads");
        assert_eq!(ElementType::Bf16.to_string(), ElementType::Bf16.dtype().name());
    }
}
