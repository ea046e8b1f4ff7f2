//! Softmax problems as data, made from a seed.

mod backward;
mod data;
mod masks;
mod solved;
mod uploaded;

pub use self::{
    backward::{BackwardCase, InPlace, SOURCES, SolvedBackward},
    masks::{AdditiveMask, Bank, ByteMask, Lengths, Values},
    solved::{Output, SolvedCase},
};

pub(crate) use self::{
    data::mask_indices,
    masks::draw,
    uploaded::{expand, place},
};

use self::data::Data;
use crate::placement::Placement;
use fused_attention::{Accumulate, Causal, Device, ScaledMaskedSoftmax};

/// A problem.
#[derive(Debug, Clone, PartialEq)]
pub struct SoftmaxCase {
    /// x's shape.
    pub shape: Vec<usize>,
    /// How x lies in memory.
    pub x: Placement,
    /// How y lies in memory.
    pub y: Placement,
    /// What x holds.
    pub values: Values,
    /// Elements of x that hold something else, by their number in row-major order.
    pub edits: Vec<(usize, f64)>,
    /// The scale.
    pub scale: f64,
    /// Give the scale in device memory.
    pub scale_on_device: bool,
    /// The causal mask.
    pub causal: Option<Causal>,
    /// The window.
    pub window: Option<(i64, i64)>,
    /// Where the window's diagonal runs, without a causal mask.
    pub diagonal: Causal,
    /// The byte mask.
    pub bytes: Option<ByteMask>,
    /// The additive mask.
    pub additive: Option<AdditiveMask>,
    /// Row lengths.
    pub lengths: Option<Lengths>,
    /// The banks that both element masks come from.
    pub bank: Option<Bank>,
    /// The tile to take.
    pub tile: Option<&'static str>,
    /// Where the random numbers come from.
    pub seed: u64,
}

impl SoftmaxCase {
    /// A problem of this shape without masks.
    pub fn new(shape: &[usize]) -> Self {
        SoftmaxCase {
            shape: shape.to_vec(),
            x: Placement::default(),
            y: Placement::default(),
            values: Values::default(),
            edits: Vec::new(),
            scale: 0.7,
            scale_on_device: false,
            causal: None,
            window: None,
            diagonal: Causal::BottomRight,
            bytes: None,
            additive: None,
            lengths: None,
            bank: None,
            tile: None,
            seed: 1,
        }
    }

    /// Runs the problem and compares output and log-sum-exp with the reference.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    #[track_caller]
    pub fn assert_right<T: Accumulate>(&self, device: &Device) {
        self.solve::<T>().assert_right(device);
    }

    /// The problem with its numbers and what is right for them.
    pub fn solve<T: Accumulate>(&self) -> SolvedCase<T> {
        let data = Data::<T>::draw(self);
        let (expected, unfused) = (data.reference(self), data.unfused(self));
        SolvedCase { case: self.clone(), data, expected, unfused }
    }

    /// The options that the problem asks for.
    pub fn options(&self) -> ScaledMaskedSoftmax {
        // A scale in device memory takes the place of that of the options, which must not count.
        let scale = if self.scale_on_device { f64::NAN } else { self.scale };
        let mut softmax = ScaledMaskedSoftmax::new(scale).diagonal(self.diagonal);
        if let Some((left, right)) = self.window {
            softmax = softmax.window(left, right);
        }
        if let Some(causal) = self.causal {
            softmax = softmax.causal(causal);
        }
        match self.tile {
            Some(tile) => softmax.with_tile(tile).expect("a tile of the table"),
            None => softmax,
        }
    }

    /// A mask's shape with the bank's dimension.
    pub fn banked(&self, shape: &[usize]) -> Vec<usize> {
        let bank = self.bank.as_ref().map(|bank| bank.size);
        bank.into_iter().chain(shape.iter().copied()).collect()
    }

    /// Queries and keys: x as matrices.
    pub fn matrix(&self) -> (usize, usize) {
        let (&columns, rows) = self.shape.split_last().expect("at least one dimension");
        (rows.last().copied().unwrap_or(1), columns)
    }

    /// The size of the first dimension; 1 if that is the only one.
    pub fn batch(&self) -> usize {
        if self.shape.len() > 1 { self.shape[0] } else { 1 }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len() - 1].iter().product()
    }
}
