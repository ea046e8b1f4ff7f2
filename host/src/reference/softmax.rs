//! Scaled masked softmax, forward and backward.

mod backward;

pub use backward::Saved;

use super::tolerance::Unfused;
use crate::{Accumulate, Causal, Dtype, Element};

/// A value for each element, by matrix, row and column.
pub type ElementFn<'a> = &'a dyn Fn(usize, usize, usize) -> f64;

/// A condition for each element, by matrix, row and column.
pub type MaskFn<'a> = &'a dyn Fn(usize, usize, usize) -> bool;

/// A length for each row, by matrix and row.
pub type LengthFn<'a> = &'a dyn Fn(usize, usize) -> usize;

/// Scores and what hides them. The scores are matrices of `rows` x `columns`, one after the
/// other; leading dimensions are flattened into the number of the matrix.
///
/// The element in row i and column j has the score `x * scale + additive` (-inf if `x * scale` is),
/// and is visible if
///
/// - j is below the row's length (the number of columns, where no lengths are given),
/// - j <= i + d with a causal mask,
/// - i + d - left <= j <= i + d + right with a window (left, right), of which a negative bound
///   does not limit,
/// - and `excluded` is not true for it.
///
/// d is 0 if the diagonal runs through the top left corner, else the row's length minus the number
/// of rows.
#[derive(Clone, Copy)]
pub struct SoftmaxProblem<'a> {
    /// The scores before scaling, in row-major order.
    pub x: &'a [f64],
    /// Rows of a matrix: the queries.
    pub rows: usize,
    /// Columns of a matrix: the keys.
    pub columns: usize,
    /// What the scores are multiplied by.
    pub scale: f64,
    /// Added to each scaled score.
    pub additive: Option<ElementFn<'a>>,
    /// Whether an element is hidden.
    pub excluded: Option<MaskFn<'a>>,
    /// Whether later keys are hidden, and later than what.
    pub causal: Option<Causal>,
    /// How many columns left and right of the diagonal are visible; negative: all.
    pub window: (i64, i64),
    /// Where the window's diagonal runs if there is no causal mask, which says so too.
    pub diagonal: Causal,
    /// How many columns a row has.
    pub lengths: Option<LengthFn<'a>>,
}

/// What softmax computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Softmax {
    /// The probabilities, in the order of the scores.
    pub p: Vec<f64>,
    /// The natural logarithm of the sum of the exponentials of each row's visible scores.
    pub lse: Vec<f64>,
}

impl<'a> SoftmaxProblem<'a> {
    /// Scores with scale 1 and without masks.
    pub fn new(x: &'a [f64], rows: usize, columns: usize) -> Self {
        SoftmaxProblem {
            x,
            rows,
            columns,
            scale: 1.0,
            additive: None,
            excluded: None,
            causal: None,
            window: (-1, -1),
            diagonal: Causal::BottomRight,
            lengths: None,
        }
    }

    /// Whether an element takes part in its row.
    pub fn is_visible(&self, matrix: usize, i: usize, j: usize) -> bool {
        self.is_in_range(matrix, i, j)
            && !self.excluded.is_some_and(|excluded| excluded(matrix, i, j))
    }

    /// Whether an element weighs nothing, whatever else is in its row: it is invisible, or its score
    /// -inf.
    pub fn is_hidden(&self, matrix: usize, i: usize, j: usize) -> bool {
        let x = self.x[(matrix * self.rows + i) * self.columns + j];
        !self.is_visible(matrix, i, j) || self.score(x, matrix, i, j) == f64::NEG_INFINITY
    }

    /// Whether an element is inside its row's length, the causal range and the window.
    pub fn is_in_range(&self, matrix: usize, i: usize, j: usize) -> bool {
        let length = self.lengths.map_or(self.columns, |length| length(matrix, i));
        let alignment = self.causal.unwrap_or(self.diagonal);
        let diagonal = i as i64 + alignment.offset(self.rows, length);
        let past_diagonal = j as i64 - diagonal;
        let (left, right) = self.window;
        j < length
            && (self.causal.is_none() || past_diagonal <= 0)
            && (left < 0 || -past_diagonal <= left)
            && (right < 0 || past_diagonal <= right)
    }

    /// The probabilities exp(score - lse) of the visible elements, 0 elsewhere, and each row's lse.
    ///
    /// A row that sees nothing, or only scores of -inf, is 0 with an lse of -inf. In a row with a
    /// visible score that is NaN or +inf, every element and the lse are NaN. Rows without columns
    /// are not counted: there is no lse for them.
    ///
    /// # Panics
    /// `x` is not a whole number of matrices.
    pub fn solve(&self) -> Softmax {
        let size = self.rows * self.columns;
        let whole = if size == 0 { self.x.is_empty() } else { self.x.len().is_multiple_of(size) };
        assert!(whole, "{} scores in matrices of {}", self.x.len(), size);
        let mut result = Softmax { p: Vec::with_capacity(self.x.len()), lse: Vec::new() };
        // A chunk of 0 would not do; without columns there is no element either.
        for (number, x) in self.x.chunks_exact(self.columns.max(1)).enumerate() {
            let (matrix, i) = (number / self.rows, number % self.rows);
            let score =
                |(j, &x)| self.is_visible(matrix, i, j).then(|| self.score(x, matrix, i, j));
            let scores: Vec<Option<f64>> = x.iter().enumerate().map(score).collect();
            let (maximum, sum) = exponentials(scores.iter().copied().flatten());
            // exp(score - lse), but right where lse is so large that ln(sum) is lost in it.
            let probability = |score: &Option<f64>| match *score {
                None if maximum.is_nan() => f64::NAN,
                None => 0.0,
                // -inf - -inf would be NaN.
                Some(_) if maximum == f64::NEG_INFINITY => 0.0,
                Some(score) => (score - maximum).exp() / sum,
            };
            result.p.extend(scores.iter().map(probability));
            result.lse.push(maximum + sum.ln());
        }
        result
    }

    /// The probabilities without fusion: each step rounded to what T is accumulated in, and the
    /// result to T. How far that is from [`SoftmaxProblem::solve`] says how far a kernel may be.
    pub fn solve_unfused<T: Accumulate>(&self) -> Unfused<T> {
        let mut result = Unfused::default();
        for (number, row) in self.x.chunks(self.columns.max(1)).enumerate() {
            let (p, error) = self.unfused_row::<T>(number, row);
            result.values.extend(p.iter().map(|&p| T::from_f64(p)));
            result.row_errors.push(error);
        }
        result
    }

    /// The probabilities of the row of this number, each step rounded to what T is accumulated in,
    /// and how far the rounding of scores may move them, as a share.
    fn unfused_row<T: Accumulate>(&self, number: usize, row: &[f64]) -> (Vec<f64>, f64) {
        let round = |x: f64| T::Accumulator::from_f64(x).to_f64();
        let scale = round(self.scale);
        let (matrix, i) = (number / self.rows, number % self.rows);
        let score = |(j, &x): (usize, &f64)| {
            let mut score = round(x * scale);
            if let Some(additive) = self.additive
                && score != f64::NEG_INFINITY
            {
                score = round(score + additive(matrix, i, j));
            }
            if self.is_visible(matrix, i, j) { score } else { f64::NEG_INFINITY }
        };
        let scores: Vec<f64> = row.iter().enumerate().map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let power = |score: f64| round(round(score - max).exp());
        let powers: Vec<f64> = scores.iter().map(|&score| power(score)).collect();
        let sum = powers.iter().fold(0.0, |sum, power| round(sum + power));
        let seen = max > f64::NEG_INFINITY || max.is_nan();
        let p = powers.iter().map(|&power| if seen { round(power / sum) } else { 0.0 });
        let largest = row.iter().enumerate().zip(&scores).filter_map(|((j, &x), &score)| {
            // What is this far below the maximum weighs nothing.
            let counts = score > max - 100.0 && !self.is_exact::<T>(x, matrix, i, j);
            counts.then_some(score.abs())
        });
        let error = 4.0 * epsilon::<T::Accumulator>() * largest.fold(0.0, f64::max);
        (p.collect(), error.min(MOST))
    }

    /// Whether the score is a number of the type that T is accumulated in, so that no order of
    /// steps rounds it.
    fn is_exact<T: Accumulate>(&self, x: f64, matrix: usize, i: usize, j: usize) -> bool {
        let product = x * self.scale;
        let additive = self.additive.map_or(0.0, |additive| additive(matrix, i, j));
        let score = product + additive;
        if T::DTYPE != Dtype::F64 {
            let fits = |x: f64| T::Accumulator::from_f64(x).to_f64() == x;
            return fits(product) && fits(score);
        }
        // What the product and the sum have lost (Knuth's sum of two).
        let of_additive = score - product;
        let lost = (product - (score - of_additive)) + (additive - of_additive);
        x.mul_add(self.scale, -product) == 0.0 && lost == 0.0
    }

    fn score(&self, x: f64, matrix: usize, i: usize, j: usize) -> f64 {
        match (x * self.scale, self.additive) {
            (f64::NEG_INFINITY, _) | (_, None) => x * self.scale,
            (scaled, Some(additive)) => scaled + additive(matrix, i, j),
        }
    }
}

/// What the rounding of scores may move a row by, at most: where it moves one by more, the problem
/// is no test of anything.
pub(super) const MOST: f64 = 1.0 / 64.0;

/// The unit in the last place of 1.
pub(super) fn epsilon<A: Element>() -> f64 {
    if A::DTYPE == Dtype::F64 { f64::EPSILON } else { f32::EPSILON.into() }
}

/// The maximum, and the sum of exp(score - maximum): -inf and 0 without finite scores, NaN with a
/// score of NaN or +inf.
pub(super) fn exponentials(scores: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let broken = |score: f64| score.is_nan() || score == f64::INFINITY;
    if scores.clone().any(broken) {
        return (f64::NAN, f64::NAN);
    }
    let maximum = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    if maximum == f64::NEG_INFINITY {
        return (maximum, 0.0);
    }
    (maximum, sum(scores.map(|score| (score - maximum).exp())))
}

/// A sum as exact as one of few terms (Neumaier's compensated summation), or infinite or NaN.
pub(super) fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    if sum.is_finite() { sum + lost } else { sum }
}

#[cfg(test)]
mod tests;
