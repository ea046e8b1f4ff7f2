//! The gradient of the scores, from that of the probabilities.

use super::{SoftmaxProblem, epsilon, sum};
use crate::{Accumulate, Element, reference::tolerance::Unfused};
use std::borrow::Cow;

/// What a problem's `x` holds, for its backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Saved {
    /// Probabilities, as a forward left them: what the additive mask and `excluded` hide is 0 in
    /// them, so that those do not count.
    Probabilities,
    /// Scores before scaling, from which the probabilities are computed again.
    Scores,
}

impl SoftmaxProblem<'_> {
    /// The gradient of the scores before scaling, where `dp` is that of the probabilities:
    /// `dx = p * scale * (dp - sum_j p_j dp_j)`, row by row.
    ///
    /// What is outside of a row's length, causal range and window is 0, and does not count whatever
    /// it holds. Where p is 0, dp counts as 0, whatever it holds; elsewhere NaN in p or in dp makes
    /// the rest of its row NaN. (A kernel that computes p from scores may see that they vanish only
    /// when it has taken dp in: where p of a finite score is 0 and dp is not finite, it may give
    /// NaN.)
    ///
    /// # Panics
    /// `x` is not a whole number of matrices, or `dp` not of its length.
    pub fn solve_backward(&self, saved: Saved, dp: &[f64]) -> Vec<f64> {
        let p = self.probabilities(saved, dp);
        let mut dx = vec![0.0; p.len()];
        self.for_each_row(&p, dp, |begin, row| {
            let mean = sum(row.iter().map(|&(_, p, dp)| p * dp));
            for &(j, p, dp) in row {
                dx[begin + j] = p * self.scale * (dp - mean);
            }
        });
        dx
    }

    /// The same without fusion: each step rounded to what T is accumulated in, and the result to T.
    ///
    /// # Panics
    /// As for [`SoftmaxProblem::solve_backward`].
    pub fn solve_backward_unfused<T: Accumulate>(&self, saved: Saved, dp: &[f64]) -> Unfused<T> {
        let round = |x: f64| T::Accumulator::from_f64(x).to_f64();
        let (exact, mut rounded) = (self.probabilities(saved, dp), Vec::new());
        let mut result = Unfused::from(vec![T::from_f64(0.0); dp.len()]);
        for (number, row) in self.x.chunks(self.columns.max(1)).enumerate() {
            let (p, error) = match saved {
                Saved::Probabilities => (row.to_vec(), 0.0),
                Saved::Scores => self.unfused_row::<T>(number, row),
            };
            rounded.extend(p);
            result.row_errors.push(error + ROUNDINGS * epsilon::<T::Accumulator>());
        }
        let scale = round(self.scale);
        self.for_each_row(&rounded, dp, |begin, row| {
            let add = |sum: f64, &(_, p, dp): &(usize, f64, f64)| round(sum + round(p * dp));
            let mean = row.iter().fold(0.0, add);
            for &(j, p, dp) in row {
                let dx = round(round(p * scale) * round(dp - mean));
                result.values[begin + j] = T::from_f64(dx);
            }
        });
        // The parts of a gradient, which may cancel one another.
        let mut weights = vec![0.0; dp.len()];
        self.for_each_row(&exact, dp, |begin, row| {
            let of_mean: f64 = row.iter().map(|&(_, p, dp)| (p * dp).abs()).sum();
            for &(j, p, dp) in row {
                weights[begin + j] = (p * self.scale).abs() * (dp.abs() + 2.0 * of_mean);
            }
        });
        Unfused { weights, ..result }
    }

    fn probabilities(&self, saved: Saved, dp: &[f64]) -> Cow<'_, [f64]> {
        assert_eq!(self.x.len(), dp.len());
        match saved {
            Saved::Probabilities => self.x.into(),
            Saved::Scores => self.solve().p.into(),
        }
    }

    /// Calls `f` for each row, with the number of its first element and, of each element in the
    /// row's range, the column, p, and dp where that counts.
    fn for_each_row(&self, p: &[f64], dp: &[f64], mut f: impl FnMut(usize, &[(usize, f64, f64)])) {
        for begin in (0..p.len()).step_by(self.columns.max(1)) {
            let number = begin / self.columns;
            let (matrix, i) = (number / self.rows, number % self.rows);
            let row: Vec<_> = (0..self.columns)
                .filter(|&j| self.is_in_range(matrix, i, j))
                .map(|j| {
                    let p = p[begin + j];
                    (j, p, if p == 0.0 { 0.0 } else { dp[begin + j] })
                })
                .collect();
            f(begin, &row);
        }
    }
}

/// Units in the last place that rounding may take from the parts of a gradient.
const ROUNDINGS: f64 = 8.0;

#[cfg(test)]
mod tests;
