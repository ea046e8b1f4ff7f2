//! Attention without fusion, in the types that a kernel works in.

use super::AttentionProblem;
use crate::{
    Dtype, Element,
    reference::{
        softmax::{MOST, epsilon},
        tolerance::Unfused,
    },
};

/// How far rounding may move the values of a row, as a share of their weights (the sums of |p v|), if
/// its scores are made of no more than `largest`: of a product of q and k that is the sum of |q k|, however
/// much of it cancels.
///
/// The sum of what roundings do to a few probabilities may be nothing by chance, in one computation, and
/// much in another: so it is no part of what computations have in common. Scores are good for four units
/// in the last place of what they are made of: the error of a dot product, in any order, is a share of
/// the sum of |q k| (Higham, "Accuracy and Stability of Numerical Algorithms", equation 3.5), and three
/// products of tf32 for one of f32 leave out two units of that. Probabilities are rounded to 16 bits,
/// half a unit; with f32 they and v are two numbers of tf32 each, of 22 bits together.
pub fn row_error<T: Element>(largest: f64) -> f64 {
    let probabilities = match T::DTYPE {
        Dtype::Bf16 => 2f64.powi(-9),
        Dtype::F16 => 2f64.powi(-12),
        _ => 2f64.powi(-21),
    };
    (4.0 * epsilon::<f32>() * largest).min(MOST) + probabilities
}

impl AttentionProblem<'_> {
    /// The output without fusion: each step in f32, and scores before biases, probabilities and
    /// output rounded to T, as where each is a tensor of T. How far that is from [`AttentionProblem::solve`] says how far a
    /// kernel may be.
    pub fn solve_unfused<T: Element>(&self) -> Unfused<T> {
        let mut result = Unfused::default();
        self.for_each_row(|batch, head, i| {
            let row = self.row_unfused::<T>(batch, head, i);
            result.values.extend(row.values);
            result.row_errors.extend(row.row_errors);
            result.weights.extend(row.weights);
        });
        result
    }

    /// As [`AttentionProblem::solve_unfused`], of one query.
    pub fn row_unfused<T: Element>(&self, batch: usize, head: usize, i: usize) -> Unfused<T> {
        let mut seen: Vec<(usize, f32)> = Vec::new();
        // Of each score, how large what it is made of is.
        let mut sizes: Vec<f32> = Vec::new();
        for j in (0..self.keys).filter(|&j| self.is_visible(batch, head, i, j)) {
            let (score, size) = self.score_unfused::<T>(batch, head, i, j);
            seen.push((j, score));
            sizes.push(size);
        }
        let maximum = seen.iter().fold(f32::NEG_INFINITY, |max, &(_, score)| max.max(score));
        let mut values = vec![0f32; self.v.dim];
        let mut weights = vec![0f64; self.v.dim];
        // What is this far below the maximum weighs nothing.
        let counts = |score: f32| score > maximum - 100.0;
        let largest = seen.iter().zip(&sizes).filter(|((_, score), _)| counts(*score));
        let largest = largest.fold(0f32, |largest, (_, &size)| largest.max(size));
        if maximum > f32::NEG_INFINITY {
            let sum: f32 = seen.iter().map(|&(_, score)| (score - maximum).exp()).sum();
            for &(j, score) in &seen {
                let p = (score - maximum).exp() / sum;
                let p = T::from_f64(f64::from(p) * self.kept(batch, head, i, j)).to_f64();
                let v = self.v.get(batch, self.kv_head(head), j);
                for ((value, weight), &v) in values.iter_mut().zip(&mut weights).zip(v) {
                    *value += p as f32 * v as f32;
                    *weight += p * v.abs();
                }
            }
        }
        Unfused {
            values: values.into_iter().map(|value| T::from_f64(value.into())).collect(),
            row_errors: vec![row_error::<T>(largest.into())],
            weights,
        }
    }

    /// The score in f32, and what it is made of, as [`row_error`] counts it; 0 if it is exact.
    fn score_unfused<T: Element>(
        &self,
        batch: usize,
        head: usize,
        i: usize,
        j: usize,
    ) -> (f32, f32) {
        let (q, k) = (self.q.get(batch, head, i), self.k.get(batch, self.kv_head(head), j));
        let product = q.iter().zip(k).fold(0f32, |sum, (&q, &k)| sum + q as f32 * k as f32);
        let size = q.iter().zip(k).fold(0f32, |sum, (&q, &k)| sum + (q * k).abs() as f32);
        let scaled = self.scale as f32 * product;
        let capped = self.softcap.map_or(scaled, |cap| {
            let cap = cap as f32;
            cap * (scaled / cap).tanh()
        });
        let bias = self.bias_of(batch, head, i, j) as f32;
        let penalty = self.penalty(batch, head, i, j) as f32;
        let score = T::from_f64(capped.into()).to_f64() as f32 + bias - penalty;
        let parts = [self.scale as f32 * size, bias, penalty];
        let size = parts.into_iter().fold(0f32, |size, x| size.max(x.abs()));
        let is_exact = || f64::from(score) == self.score(batch, head, i, j);
        // Small scores hardly move, exact or not.
        (score, if !size.is_finite() || size > 32.0 && is_exact() { 0.0 } else { size })
    }
}
