//! What a softmax problem's tensors hold, as data.

use crate::{placement::Placement, random::Random};
use fused_attention::{Dtype, Element, Per, Polarity};

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

    /// Its bytes, for this shape.
    pub(crate) fn draw(&self, random: &mut Random, shape: &[usize]) -> Vec<u8> {
        hide(random, shape, self.hidden_rows, self.hidden)
            .into_iter()
            .map(|hidden| {
                let set = hidden == (self.polarity == Polarity::Exclude);
                if set { [1, 2, 128, 255][random.below(4)] } else { 0 }
            })
            .collect()
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

    /// Its numbers for this shape, rounded to its type beside tensors of T.
    pub(crate) fn draw<T: Element>(&self, random: &mut Random, shape: &[usize]) -> Vec<f64> {
        let round = |x: f64| {
            if self.is_f32(T::DTYPE) { f64::from(x as f32) } else { T::from_f64(x).to_f64() }
        };
        hide(random, shape, self.hidden_rows, self.hidden)
            .into_iter()
            .map(|hidden| match hidden {
                true => f64::NEG_INFINITY,
                false => round(draw(random, self.values)),
            })
            .collect()
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

pub(crate) fn draw(random: &mut Random, values: Values) -> f64 {
    match values {
        Values::Normal => random.normal(),
        Values::Scaled(factor) => random.normal() * factor,
        Values::Between(low, high) => low + (high - low) * random.uniform(),
        Values::Either(a, b) => {
            if random.chance(0.5) {
                a
            } else {
                b
            }
        }
        Values::Constant(value) => value,
    }
}

/// Which elements of a mask are hidden, some rows as a whole.
fn hide(random: &mut Random, shape: &[usize], of_rows: f64, of_elements: f64) -> Vec<bool> {
    let columns = shape.last().copied().unwrap_or(1);
    let rows: usize = shape.iter().rev().skip(1).product();
    let mut hidden = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        let whole = random.chance(of_rows);
        hidden.extend((0..columns).map(|_| whole || random.chance(of_elements)));
    }
    hidden
}
