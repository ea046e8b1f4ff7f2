//! Attention: softmax of scaled products of queries and keys, times values.

mod dropout;
mod unfused;

pub use dropout::Dropout;
pub use unfused::row_error;

use super::softmax::{exponentials, sum};
use crate::Causal;

/// Queries, keys or values: numbers, and how far a step along each dimension goes in them.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The numbers.
    pub numbers: &'a [f64],
    /// To the next batch entry.
    pub batch: usize,
    /// To the next head.
    pub head: usize,
    /// To the next row.
    pub row: usize,
    /// Numbers in a row.
    pub dim: usize,
}

impl<'a> Rows<'a> {
    /// By batch entry, `heads`, `rows` and `dim`, one after the other.
    pub fn contiguous(numbers: &'a [f64], heads: usize, rows: usize, dim: usize) -> Self {
        Rows { numbers, batch: heads * rows * dim, head: rows * dim, row: dim, dim }
    }

    fn get(&self, batch: usize, head: usize, row: usize) -> &'a [f64] {
        &self.numbers[batch * self.batch + head * self.head + row * self.row..][..self.dim]
    }
}

/// A value for each score, by batch entry, query head, query and key.
pub type ScoreFn<'a> = &'a dyn Fn(usize, usize, usize, usize) -> f64;

/// A condition for each score, by batch entry, query head, query and key.
pub type HiddenFn<'a> = &'a dyn Fn(usize, usize, usize, usize) -> bool;

/// A length for each batch entry.
pub type SequenceFn<'a> = &'a dyn Fn(usize) -> usize;

/// A value for each batch entry and query head.
pub type HeadFn<'a> = &'a dyn Fn(usize, usize) -> f64;

/// Queries, keys and values, and what hides scores. Packed sequences are batch entries with
/// lengths.
///
/// With query i, key j, and Sq and Sk the lengths of the batch entry's queries and keys, the score is
///
/// `s_ij = softcap(scale * q_i . k_j) + bias_ij - slope * |i + Sk - Sq - j|`,
/// `softcap(x) = c tanh(x / c)`.
///
/// It is visible if i and j are within the lengths, and
///
/// - j <= i + d with a causal mask,
/// - i + d - left <= j <= i + d + right with a window (left, right), of which a negative bound
///   does not limit,
/// - and `excluded` is not true for it.
///
/// d is 0 if the diagonal runs through the top left corner, else Sk - Sq.
#[derive(Clone, Copy)]
pub struct AttentionProblem<'a> {
    /// Queries, by query head.
    pub q: Rows<'a>,
    /// Keys, by K/V head.
    pub k: Rows<'a>,
    /// Values, by K/V head.
    pub v: Rows<'a>,
    /// Batch entries.
    pub batch: usize,
    /// Query heads, a multiple of the K/V heads: as many successive ones share each of those.
    pub heads: usize,
    /// K/V heads.
    pub kv_heads: usize,
    /// Queries of a batch entry, or the most of any.
    pub queries: usize,
    /// Keys of a batch entry, or the most of any.
    pub keys: usize,
    /// What products of queries and keys are multiplied by.
    pub scale: f64,
    /// What scaled products stay below in magnitude.
    pub softcap: Option<f64>,
    /// Added to each score.
    pub bias: Option<ScoreFn<'a>>,
    /// ALiBi's slopes.
    pub slopes: Option<HeadFn<'a>>,
    /// Whether a score is hidden.
    pub excluded: Option<HiddenFn<'a>>,
    /// Whether later keys are hidden, and later than what.
    pub causal: Option<Causal>,
    /// How many keys left and right of the diagonal are visible; negative: all.
    pub window: (i64, i64),
    /// Where the window's diagonal runs if there is no causal mask, which says so too.
    pub diagonal: Causal,
    /// How many queries a batch entry has.
    pub query_lengths: Option<SequenceFn<'a>>,
    /// How many keys a batch entry has.
    pub key_lengths: Option<SequenceFn<'a>>,
    /// Which probabilities count as 0.
    pub dropout: Option<Dropout>,
}

/// What attention computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// The output, by batch entry, query head, query and element of a value.
    pub o: Vec<f64>,
    /// The natural logarithm of the sum of the exponentials of each row's visible scores, before
    /// dropout, by batch entry, query head and query.
    pub lse: Vec<f64>,
}

/// One query's part of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionRow {
    /// Its output.
    pub o: Vec<f64>,
    /// Its log-sum-exp.
    pub lse: f64,
}

impl<'a> AttentionProblem<'a> {
    /// One batch entry of one head, with `queries` and `keys`, scale 1 and nothing hidden.
    pub fn new(q: Rows<'a>, k: Rows<'a>, v: Rows<'a>, queries: usize, keys: usize) -> Self {
        AttentionProblem {
            q,
            k,
            v,
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries,
            keys,
            scale: 1.0,
            softcap: None,
            bias: None,
            slopes: None,
            excluded: None,
            causal: None,
            window: (-1, -1),
            diagonal: Causal::BottomRight,
            query_lengths: None,
            key_lengths: None,
            dropout: None,
        }
    }

    /// The number of queries and of keys of a batch entry.
    pub fn lengths(&self, batch: usize) -> (usize, usize) {
        let or = |length: Option<SequenceFn>, most: usize| {
            length.map_or(most, |length| length(batch).min(most))
        };
        (or(self.query_lengths, self.queries), or(self.key_lengths, self.keys))
    }

    /// Whether a key takes part in a query's row.
    pub fn is_visible(&self, batch: usize, head: usize, i: usize, j: usize) -> bool {
        let (queries, keys) = self.lengths(batch);
        let alignment = self.causal.unwrap_or(self.diagonal);
        let past_diagonal = j as i64 - (i as i64 + alignment.offset(queries, keys));
        let (left, right) = self.window;
        i < queries
            && j < keys
            && (self.causal.is_none() || past_diagonal <= 0)
            && (left < 0 || -past_diagonal <= left)
            && (right < 0 || past_diagonal <= right)
            && !self.excluded.is_some_and(|excluded| excluded(batch, head, i, j))
    }

    /// The score of a key in a query's row, visible or not.
    pub fn score(&self, batch: usize, head: usize, i: usize, j: usize) -> f64 {
        let (q, k) = (self.q.get(batch, head, i), self.k.get(batch, self.kv_head(head), j));
        let product: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum();
        let scaled = self.scale * product;
        let capped = self.softcap.map_or(scaled, |cap| cap * (scaled / cap).tanh());
        capped + self.bias_of(batch, head, i, j) - self.penalty(batch, head, i, j)
    }

    /// The output and the log-sum-exp of a query.
    ///
    /// A query that sees nothing, or only scores of -inf, or that is beyond its batch entry's length,
    /// gives 0 and -inf. One with a visible score that is NaN or +inf gives NaN.
    pub fn row(&self, batch: usize, head: usize, i: usize) -> AttentionRow {
        let (seen, lse) = self.probabilities(batch, head, i);
        let o = (0..self.v.dim).map(|d| {
            sum(seen.iter().map(|&(j, p)| {
                let kept = self.kept(batch, head, i, j);
                // What is dropped is multiplied by 0, as what weighs nothing is.
                kept * p * self.v.get(batch, self.kv_head(head), j)[d]
            }))
        });
        let o = if lse == f64::NEG_INFINITY { vec![0.0; self.v.dim] } else { o.collect() };
        AttentionRow { o, lse }
    }

    /// All rows.
    pub fn solve(&self) -> Attention {
        let mut result = Attention { o: Vec::new(), lse: Vec::new() };
        self.for_each_row(|batch, head, i| {
            let AttentionRow { o, lse } = self.row(batch, head, i);
            result.o.extend(o);
            result.lse.push(lse);
        });
        result
    }

    /// The visible keys with their probabilities before dropout, and the row's log-sum-exp.
    fn probabilities(&self, batch: usize, head: usize, i: usize) -> (Vec<(usize, f64)>, f64) {
        let visible = |&j: &usize| self.is_visible(batch, head, i, j);
        let mut seen: Vec<(usize, f64)> =
            (0..self.keys).filter(visible).map(|j| (j, self.score(batch, head, i, j))).collect();
        let (maximum, sum) = exponentials(seen.iter().map(|&(_, score)| score));
        for (_, score) in &mut seen {
            // exp(score - lse), but right where lse is so large that ln(sum) is lost in it; and
            // -inf - -inf would be NaN.
            *score = match maximum {
                f64::NEG_INFINITY => 0.0,
                maximum => (*score - maximum).exp() / sum,
            };
        }
        (seen, maximum + sum.ln())
    }

    /// 0 for a probability that is dropped, else what it is multiplied by.
    fn kept(&self, batch: usize, head: usize, i: usize, j: usize) -> f64 {
        self.dropout.map_or(1.0, |dropout| dropout.factor(batch * self.heads + head, i, j))
    }

    fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    fn bias_of(&self, batch: usize, head: usize, i: usize, j: usize) -> f64 {
        self.bias.map_or(0.0, |bias| bias(batch, head, i, j))
    }

    /// What ALiBi subtracts.
    fn penalty(&self, batch: usize, head: usize, i: usize, j: usize) -> f64 {
        let (queries, keys) = self.lengths(batch);
        let distance = (i as i64 + keys as i64 - queries as i64 - j as i64).abs();
        self.slopes.map_or(0.0, |slope| slope(batch, head) * distance as f64)
    }

    fn for_each_row(&self, mut f: impl FnMut(usize, usize, usize)) {
        for batch in 0..self.batch {
            for head in 0..self.heads {
                (0..self.queries).for_each(|i| f(batch, head, i));
            }
        }
    }
}

#[cfg(test)]
mod tests;
