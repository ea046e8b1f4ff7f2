//! Attention problems as data, made from a seed.

mod data;
mod solved;
mod uploaded;

pub use self::solved::{AttentionResult, SolvedAttention};

use crate::{
    is_gpu,
    placement::Placement,
    softmax_case::{AdditiveMask, Bank, ByteMask, Values},
};
use fused_attention::{Attention, Causal, Device, Element, reference::attention::Dropout};

/// A problem.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionCase {
    /// Batch entries, where neither side is packed.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// K/V heads.
    pub kv_heads: usize,
    /// Queries, of each batch entry.
    pub queries: usize,
    /// Keys, of each batch entry.
    pub keys: usize,
    /// Elements of queries and keys.
    pub head_dim: usize,
    /// Elements of values.
    pub value_dim: usize,
    /// How q lies in memory.
    pub q: Placement,
    /// How k lies in memory.
    pub k: Placement,
    /// How v lies in memory.
    pub v: Placement,
    /// How the output lies in memory.
    pub o: Placement,
    /// What q and k hold.
    pub values: Values,
    /// Elements that hold something else.
    pub edits: Vec<Edit>,
    /// The scale; none: what the library takes.
    pub scale: Option<f64>,
    /// Give the scale in device memory.
    pub scale_on_device: bool,
    /// The cap.
    pub softcap: Option<f64>,
    /// The causal mask.
    pub causal: Option<Causal>,
    /// The window.
    pub window: Option<(i64, i64)>,
    /// Where the window's diagonal runs, without a causal mask.
    pub diagonal: Causal,
    /// How many queries count.
    pub query_lengths: Option<Vec<i32>>,
    /// How many keys count.
    pub key_lengths: Option<Vec<i32>>,
    /// Where packed queries begin, in place of `batch` and `queries`.
    pub query_offsets: Option<Vec<i32>>,
    /// Where packed keys begin, in place of `batch` and `keys`.
    pub key_offsets: Option<Vec<i32>>,
    /// Do not let the host see lengths, offsets, and indices into banks.
    pub counts_on_device: bool,
    /// The byte mask, of up to four dimensions.
    pub bytes: Option<ByteMask>,
    /// The bias, of up to four dimensions.
    pub bias: Option<AdditiveMask>,
    /// The banks that both come from.
    pub bank: Option<Bank>,
    /// The shape of ALiBi's slopes.
    pub slopes: Option<Vec<usize>>,
    /// The probability of dropout, and its seed and offset.
    pub dropout: Option<(f64, u64, u32)>,
    /// Give the seed in device memory.
    pub seed_on_device: bool,
    /// The tile to take.
    pub tile: Option<&'static str>,
    /// Where the random numbers come from.
    pub seed: u64,
}

/// An element that holds something else than others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edit {
    /// Of which tensor.
    pub operand: Operand,
    /// Its number in row-major order.
    pub element: usize,
    /// What it holds.
    pub value: f64,
}

/// A tensor that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
}

impl AttentionCase {
    /// A problem of this many (batch entries, heads, queries, keys, elements), without masks.
    pub fn new(
        (batch, heads, queries, keys, head_dim): (usize, usize, usize, usize, usize),
    ) -> Self {
        AttentionCase {
            batch,
            heads,
            kv_heads: heads,
            queries,
            keys,
            head_dim,
            value_dim: head_dim,
            q: Placement::default(),
            k: Placement::default(),
            v: Placement::default(),
            o: Placement::default(),
            values: Values::default(),
            edits: Vec::new(),
            scale: None,
            scale_on_device: false,
            softcap: None,
            causal: None,
            window: None,
            diagonal: Causal::BottomRight,
            query_lengths: None,
            key_lengths: None,
            query_offsets: None,
            key_offsets: None,
            counts_on_device: false,
            bytes: None,
            bias: None,
            bank: None,
            slopes: None,
            dropout: None,
            seed_on_device: false,
            tile: None,
            seed: 1,
        }
    }

    /// With a causal mask that ends in the bottom right corner.
    pub fn causal(self) -> Self {
        AttentionCase { causal: Some(Causal::BottomRight), ..self }
    }

    /// Runs the problem and compares output and log-sum-exp with the reference; on a GPU, if the
    /// problem is large, with the definition there.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    #[track_caller]
    pub fn assert_right<T: Element>(&self, device: &Device) {
        self.solve_for::<T>(device).assert_right(device);
    }

    /// The problem with its numbers and what is right for them, by the reference on the CPU.
    pub fn solve<T: Element>(&self) -> SolvedAttention<T> {
        SolvedAttention::by_reference(self.clone())
    }

    /// As [`AttentionCase::solve`]; if the problem is large, by the definition on a GPU.
    pub fn solve_for<T: Element>(&self, device: &Device) -> SolvedAttention<T> {
        let pairs: usize = self.scores().iter().product();
        if pairs * (self.head_dim + self.value_dim) < 1 << 22 || !is_gpu(device) {
            return self.solve();
        }
        SolvedAttention::by_definition(self.clone(), device)
    }

    /// The options that the problem asks for.
    pub fn options(&self) -> Attention {
        let mut attention = Attention::new().diagonal(self.diagonal);
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if self.scale_on_device {
            // It takes the place of that of the options, which must not count.
            attention = attention.scale(f64::NAN);
        }
        if let Some(cap) = self.softcap {
            attention = attention.softcap(cap);
        }
        if let Some((left, right)) = self.window {
            attention = attention.window(left, right);
        }
        if let Some(causal) = self.causal {
            attention = attention.causal(causal);
        }
        if let Some((probability, ..)) = self.dropout {
            attention = attention.dropout(probability);
        }
        match self.tile {
            Some(tile) => attention.with_tile(tile).expect("a tile of the table"),
            None => attention,
        }
    }

    /// The scale that counts.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (self.head_dim as f64).sqrt()) as f32
    }

    /// Batch entries or packed sequences.
    pub fn sequences(&self) -> usize {
        let offsets = self.query_offsets.as_ref().or(self.key_offsets.as_ref());
        offsets.map_or(self.batch, |offsets| offsets.len() - 1)
    }

    /// Queries of a batch entry; of packed sequences of the longest.
    pub fn most_queries(&self) -> usize {
        most(self.query_offsets.as_deref(), self.queries)
    }

    /// Keys of a batch entry; of packed sequences of the longest.
    pub fn most_keys(&self) -> usize {
        most(self.key_offsets.as_deref(), self.keys)
    }

    /// The shape that masks broadcast to.
    pub fn scores(&self) -> [usize; 4] {
        [self.sequences(), self.heads, self.most_queries(), self.most_keys()]
    }

    /// The shape of q, but for another number of elements.
    pub fn query_shape(&self, elements: usize) -> Vec<usize> {
        shape(self.query_offsets.as_deref(), [self.sequences(), self.heads, self.queries, elements])
    }

    /// The shape of k, but for another number of elements.
    pub fn key_shape(&self, elements: usize) -> Vec<usize> {
        shape(self.key_offsets.as_deref(), [self.sequences(), self.kv_heads, self.keys, elements])
    }

    /// A mask's shape with the bank's dimension.
    pub fn banked(&self, shape: &[usize]) -> Vec<usize> {
        let bank = self.bank.as_ref().map(|bank| bank.size);
        bank.into_iter().chain(shape.iter().copied()).collect()
    }

    /// Where the rows of a batch entry's queries are in the tensor.
    pub fn query_slot(&self, batch: usize) -> std::ops::Range<usize> {
        slot(self.query_offsets.as_deref(), self.queries, batch)
    }

    /// Where the rows of a batch entry's keys are in the tensor.
    pub fn key_slot(&self, batch: usize) -> std::ops::Range<usize> {
        slot(self.key_offsets.as_deref(), self.keys, batch)
    }

    /// The dropout that counts.
    pub fn dropout(&self) -> Option<Dropout> {
        let (probability, seed, offset) = self.dropout?;
        let dropped = (probability * 256.0).round().min(255.0) as u8;
        Some(Dropout { dropped, seed, offset })
    }
}

/// The most rows of packed sequences, else `rows`.
fn most(offsets: Option<&[i32]>, rows: usize) -> usize {
    let longest = |offsets: &[i32]| offsets.windows(2).map(|pair| pair[1] - pair[0]).max();
    offsets.map_or(rows, |offsets| longest(offsets).unwrap_or(0) as usize)
}

/// The shape of a tensor, without batch entries where sequences are packed. The rows go two beyond
/// the last sequence.
fn shape(offsets: Option<&[i32]>, dense: [usize; 4]) -> Vec<usize> {
    let [_, heads, _, elements] = dense;
    match offsets {
        Some(offsets) => vec![heads, *offsets.last().expect("an end") as usize + 2, elements],
        None => dense.to_vec(),
    }
}

fn slot(offsets: Option<&[i32]>, rows: usize, batch: usize) -> std::ops::Range<usize> {
    offsets.map_or(0..rows, |offsets| offsets[batch] as usize..offsets[batch + 1] as usize)
}
