//! What a softmax problem's tensors hold, as data.

use crate::placement::Placement;
use fused_attention::{Dtype, Per, Polarity};

/// What numbers a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Values {
    /// Normal, with mean 0 and deviation 1.
    #[default]
    Normal,
    /// Normal, times a factor.
    Scaled(f64),
    /// Uniform between two numbers.
    Between(f64, f64),
    /// One of two numbers.
    Either(f64, f64),
    /// The same number everywhere.
    Constant(f64),
}

/// A byte mask.
#[derive(Debug, Clone, PartialEq)]
pub struct ByteMask {
    /// Sizes, which broadcast to x's; without the bank's.
    pub shape: Vec<usize>,
    /// Whether nonzero hides or shows.
    pub polarity: Polarity,
    /// The share of elements that are hidden.
    pub hidden: f64,
    /// The share of the mask's rows that are hidden as a whole.
    pub hidden_rows: f64,
    /// Repeat sizes of 1 by strides of 0, instead of leaving that to the library.
    pub expanded: bool,
    /// How it lies in memory.
    pub placement: Placement,
}

impl ByteMask {
    /// A mask of this shape, in which nonzero hides, for a third of the elements.
    pub fn new(shape: &[usize]) -> Self {
        ByteMask {
            shape: shape.to_vec(),
            polarity: Polarity::Exclude,
            hidden: 0.3,
            hidden_rows: 0.0,
            expanded: false,
            placement: Placement::default(),
        }
    }
}

/// An additive mask.
#[derive(Debug, Clone, PartialEq)]
pub struct AdditiveMask {
    /// Sizes, which broadcast to x's; without the bank's.
    pub shape: Vec<usize>,
    /// f32, whatever x is (but for f64).
    pub wide: bool,
    /// What it holds where it does not hide.
    pub values: Values,
    /// The share of elements that are -inf.
    pub hidden: f64,
    /// The share of the mask's rows that are -inf as a whole.
    pub hidden_rows: f64,
    /// Repeat sizes of 1 by strides of 0, instead of leaving that to the library.
    pub expanded: bool,
    /// How it lies in memory.
    pub placement: Placement,
}

impl AdditiveMask {
    /// A mask of this shape, of x's type, of normal numbers and a third of -inf.
    pub fn new(shape: &[usize]) -> Self {
        AdditiveMask {
            shape: shape.to_vec(),
            wide: false,
            values: Values::default(),
            hidden: 0.3,
            hidden_rows: 0.0,
            expanded: false,
            placement: Placement::default(),
        }
    }

    /// Whether it is f32 where x is not.
    pub fn is_f32(&self, x: Dtype) -> bool {
        self.wide && x != Dtype::F64
    }
}

/// Row lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Lengths {
    /// What there is one for.
    pub per: Per,
    /// The lengths; none: drawn at random, one for each batch entry or row.
    pub values: Option<Vec<i32>>,
    /// Sizes of lengths for each row, which broadcast to x's; none: one length for each.
    pub shape: Option<Vec<usize>>,
    /// Do not let the host see the values.
    pub on_device: bool,
}

impl Lengths {
    /// Drawn at random.
    pub fn random(per: Per) -> Self {
        Lengths { per, values: None, shape: None, on_device: false }
    }

    /// These.
    pub fn given(per: Per, values: &[i32]) -> Self {
        Lengths { values: Some(values.to_vec()), ..Lengths::random(per) }
    }
}

/// Banks that the element masks come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Bank {
    /// Masks in each bank.
    pub size: usize,
    /// The index for each batch entry; none: drawn at random.
    pub index: Option<Vec<i32>>,
    /// Do not let the host see the indices.
    pub on_device: bool,
}

impl Bank {
    /// Of this many, with indices at random.
    pub fn random(size: usize) -> Self {
        Bank { size, index: None, on_device: false }
    }
}
