//! The numbers of a softmax problem, and what is right for them.

use super::{Bank, SoftmaxCase, masks::draw};
use crate::random::Random;
use fused_attention::{
    Accumulate, Dtype, Per, Polarity,
    reference::{
        softmax::{Softmax, SoftmaxProblem},
        tolerance::Unfused,
    },
};

/// A problem's numbers.
pub(super) struct Data<T> {
    pub x: Vec<T>,
    pub bytes: Option<Vec<u8>>,
    /// Rounded to the mask's type.
    pub additive: Option<Vec<f64>>,
    /// With their shape.
    pub lengths: Option<(Vec<i32>, Vec<usize>)>,
    pub bank_index: Option<Vec<i32>>,
}

impl<T: Accumulate> Data<T> {
    pub fn draw(case: &SoftmaxCase) -> Self {
        let mut random = Random::new(case.seed);
        let count = case.shape.iter().product();
        let mut x: Vec<T> =
            (0..count).map(|_| T::from_f64(draw(&mut random, case.values))).collect();
        for &(i, value) in &case.edits {
            x[i] = T::from_f64(value);
        }
        let bytes = case.bytes.as_ref();
        let bytes = bytes.map(|mask| mask.draw(&mut random, &case.banked(&mask.shape)));
        let additive = case.additive.as_ref();
        let additive = additive.map(|mask| mask.draw::<T>(&mut random, &case.banked(&mask.shape)));
        let columns = case.matrix().1;
        let lengths = case.lengths.as_ref().map(|lengths| {
            let shape = match (lengths.per, &lengths.shape) {
                (Per::Batch, _) => vec![case.batch()],
                (Per::Row, Some(shape)) => shape.clone(),
                (Per::Row, None) => case.shape[..case.shape.len() - 1].to_vec(),
            };
            let values = lengths.values.clone().unwrap_or_else(|| {
                (0..shape.iter().product()).map(|_| random.below(columns + 1) as i32).collect()
            });
            (values, shape)
        });
        let bank_index = case.bank.as_ref().map(|bank| {
            bank.index.clone().unwrap_or_else(|| {
                (0..case.batch()).map(|_| random.below(bank.size) as i32).collect()
            })
        });
        Data { x, bytes, additive, lengths, bank_index }
    }

    /// The reference in f64.
    pub fn reference(&self, case: &SoftmaxCase) -> Softmax {
        let x: Vec<f64> = self.x.iter().map(|x| x.to_f64()).collect();
        let (rows, columns) = (case.rows(), case.matrix().1);
        let mut solved = self.with_problem(case, &x, |problem| problem.solve());
        if columns == 0 {
            solved.lse = vec![f64::NEG_INFINITY; rows];
        }
        // A row without a mask of its own in the bank.
        if let (Some(bank), Some(index)) = (&case.bank, &self.bank_index) {
            let rows_per_batch = rows / case.batch().max(1);
            for row in 0..rows {
                let index = index[row / rows_per_batch];
                if !(0..bank.size as i32).contains(&index) {
                    solved.p[row * columns..][..columns].fill(f64::NAN);
                    solved.lse[row] = f64::NAN;
                }
            }
        }
        solved
    }

    /// The same without fusion, in the type that the kernel accumulates in.
    pub fn unfused(&self, case: &SoftmaxCase) -> Unfused<T> {
        let x: Vec<f64> = self.x.iter().map(|x| x.to_f64()).collect();
        self.with_problem(case, &x, |problem| problem.solve_unfused())
    }

    pub fn with_problem<R>(
        &self,
        case: &SoftmaxCase,
        x: &[f64],
        f: impl FnOnce(SoftmaxProblem<'_>) -> R,
    ) -> R {
        let (rows, columns) = case.matrix();
        let at = |matrix: usize, i: usize, j: usize| (matrix * rows + i) * columns + j;
        let bank = case.bank.as_ref().zip(self.bank_index.as_deref());
        let added: Option<Vec<f64>> =
            case.additive.as_ref().zip(self.additive.as_ref()).map(|(mask, values)| {
                mask_indices(&mask.shape, &case.shape, bank)
                    .into_iter()
                    .map(|i| values[i])
                    .collect()
            });
        let hidden: Option<Vec<bool>> =
            case.bytes.as_ref().zip(self.bytes.as_ref()).map(|(mask, bytes)| {
                let hides = |i: usize| (bytes[i] != 0) == (mask.polarity == Polarity::Exclude);
                mask_indices(&mask.shape, &case.shape, bank).into_iter().map(hides).collect()
            });
        let lengths: Option<Vec<usize>> = self.lengths.as_ref().map(|(values, shape)| {
            let row_shape = &case.shape[..case.shape.len() - 1];
            let rows_per_batch = case.rows() / case.batch().max(1);
            let index: Vec<usize> = match case.lengths.as_ref().map(|lengths| lengths.per) {
                Some(Per::Batch) => (0..case.rows()).map(|row| row / rows_per_batch).collect(),
                _ => broadcast(shape, row_shape),
            };
            index.into_iter().map(|i| values[i].clamp(0, columns as i32) as usize).collect()
        });
        let additive = |matrix, i, j| added.as_ref().map_or(0.0, |added| added[at(matrix, i, j)]);
        let excluded =
            |matrix, i, j| hidden.as_ref().is_some_and(|hidden| hidden[at(matrix, i, j)]);
        let length = |matrix: usize, i: usize| {
            lengths.as_ref().map_or(columns, |lengths| lengths[matrix * rows + i])
        };
        let mut problem = SoftmaxProblem::new(x, rows, columns);
        problem.scale =
            if T::DTYPE == Dtype::F64 { case.scale } else { f64::from(case.scale as f32) };
        problem.window = case.window.unwrap_or((-1, -1));
        problem.causal = case.causal;
        problem.diagonal = case.diagonal;
        if case.additive.is_some() {
            problem.additive = Some(&additive);
        }
        if case.bytes.is_some() {
            problem.excluded = Some(&excluded);
        }
        if case.lengths.is_some() {
            problem.lengths = Some(&length);
        }
        f(problem)
    }
}

/// For each element of a tensor of shape `to`, the index of its element in a mask of shape `from`, or
/// in the bank of such masks that it comes from.
pub(crate) fn mask_indices(
    from: &[usize],
    to: &[usize],
    bank: Option<(&Bank, &[i32])>,
) -> Vec<usize> {
    let mut indices = broadcast(from, to);
    if let Some((bank, index)) = bank {
        let size: usize = from.iter().product();
        let per_batch = (indices.len() / index.len().max(1)).max(1);
        for (i, element) in indices.iter_mut().enumerate() {
            // What a row outside of the bank adds does not matter.
            let index = index[i / per_batch].clamp(0, bank.size as i32 - 1);
            *element += index as usize * size;
        }
    }
    indices
}

/// For each element of a tensor of shape `to`, the index in one of shape `from` that broadcasts.
pub(crate) fn broadcast(from: &[usize], to: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; to.len()];
    let mut stride = 1;
    for (dim, &size) in from.iter().enumerate().rev() {
        strides[to.len() - from.len() + dim] = if size == 1 { 0 } else { stride };
        stride *= size;
    }
    let mut indices = vec![0];
    for (&size, &stride) in to.iter().zip(&strides) {
        indices =
            indices.iter().flat_map(|&index| (0..size).map(move |i| index + i * stride)).collect();
    }
    indices
}
