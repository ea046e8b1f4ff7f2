//! What hides parts of rows: tensors of masks, row lengths, banks of masks.

use crate::{Device, Element, Error, RawTensor, Result, Tensor};

/// Which columns of which rows are hidden, beside the causal range and the window that are options.
///
/// All that is given applies together. Tensors broadcast to the shape of x: sizes of 1 and missing
/// dimensions in front repeat, without a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mask<'a> {
    bytes: Option<(Placed<'a>, Polarity)>,
    additive: Option<Placed<'a>>,
    lengths: Option<&'a RowLengths>,
    bank: Option<&'a BankIndex>,
}

/// What a nonzero byte of a mask means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Polarity {
    /// Nonzero: masked.
    Exclude,
    /// Nonzero: visible.
    Keep,
}

#[derive(Debug, Clone, Copy)]
struct Placed<'a> {
    raw: RawTensor,
    device: &'a Device,
}

impl<'a> Mask<'a> {
    /// Hides nothing.
    pub fn none() -> Self {
        Mask::default()
    }

    /// A byte for each element: nonzero hides it (Megatron's convention).
    pub fn exclude(mask: &'a Tensor<u8>) -> Self {
        Mask::none().and_bytes(mask, Polarity::Exclude)
    }

    /// A byte for each element: nonzero shows it (PyTorch's convention).
    pub fn keep(mask: &'a Tensor<u8>) -> Self {
        Mask::none().and_bytes(mask, Polarity::Keep)
    }

    /// A number for each element, added to the scaled score; -inf hides. Of x's type, or f32 for f16 and
    /// bf16. A
    /// scaled score of -inf stays that, whatever is added.
    pub fn additive<T: Element>(mask: &'a Tensor<T>) -> Self {
        Mask::none().and_additive(mask)
    }

    fn and_bytes(self, mask: &'a Tensor<u8>, polarity: Polarity) -> Self {
        let placed = Placed { raw: mask.into(), device: mask.device() };
        Mask { bytes: Some((placed, polarity)), ..self }
    }

    /// As [`Mask::additive`], beside what is there already.
    pub fn and_additive<T: Element>(self, mask: &'a Tensor<T>) -> Self {
        Mask { additive: Some(Placed { raw: mask.into(), device: mask.device() }), ..self }
    }

    /// Hides the columns from the row's length on.
    pub fn lengths(self, lengths: &'a RowLengths) -> Self {
        Mask { lengths: Some(lengths), ..self }
    }

    /// The byte mask and the additive mask are banks, with a dimension in front that the index
    /// chooses from.
    pub fn from_bank(self, index: &'a BankIndex) -> Self {
        Mask { bank: Some(index), ..self }
    }

    /// As pointers, once everything that the host knows of has been checked: devices, and the
    /// values of lengths and indices for rows of `columns`.
    pub(crate) fn to_raw(self, device: &Device, columns: usize) -> Result<RawMask> {
        if let Some((placed, _)) = self.bytes {
            device.check_same("mask", placed.device)?;
        }
        if let Some(placed) = self.additive {
            device.check_same("additive mask", placed.device)?;
        }
        let lengths = self.lengths.map(|lengths| lengths.to_raw(device, "lengths", columns));
        let lengths = lengths.transpose()?;
        if let Some(bank) = self.bank {
            device.check_same("bank index", bank.tensor.device())?;
            let sizes = self.bytes.map(|(placed, _)| placed.raw).into_iter();
            for raw in sizes.chain(self.additive.map(|placed| placed.raw)) {
                let size = raw.shape.first().copied().unwrap_or(0);
                bank.values.check(0..=size as i64 - 1, |index, value| {
                    Error::BankIndexOutOfRange { index, value, bank: size }
                })?;
            }
        }
        Ok(RawMask {
            bytes: self.bytes.map(|(placed, polarity)| (placed.raw, polarity)),
            additive: self.additive.map(|placed| placed.raw),
            lengths,
            bank_index: self.bank.map(|bank| RawTensor::from(&bank.tensor)),
        })
    }
}

/// [`Mask`], as pointers with shapes and strides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RawMask {
    /// A byte for each element, and what nonzero means.
    pub bytes: Option<(RawTensor, Polarity)>,
    /// A number for each element, of x's type, or f32 for f16 and bf16.
    pub additive: Option<RawTensor>,
    /// i32: how many columns a row sees at most. Values below 0 count as 0, values beyond the row
    /// as the row's length.
    pub lengths: Option<(RawTensor, Per)>,
    /// i32, one for each index of x's first dimension: which mask of the bank it takes. A row
    /// whose index is outside of the bank becomes NaN; computed from scores, its gradient is 0.
    pub bank_index: Option<RawTensor>,
}

/// What there is one length for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Per {
    /// Each index of the first dimension: shape `[batch]`.
    Batch,
    /// Each row: a shape that broadcasts to x's without the last dimension.
    Row,
}

/// How many columns of its rows each batch entry, or each row, sees.
#[derive(Debug, Clone)]
pub struct RowLengths {
    tensor: Tensor<i32>,
    per: Per,
    values: Extremes,
}

impl RowLengths {
    /// A length for each index of x's first dimension.
    ///
    /// # Errors
    /// No memory.
    pub fn per_batch(device: &Device, lengths: &[i32]) -> Result<Self> {
        let tensor = device.upload(lengths, &[lengths.len()])?;
        Ok(RowLengths { tensor, per: Per::Batch, values: Extremes::of(lengths) })
    }

    /// A length for each row; `shape` broadcasts to x's without its last dimension.
    ///
    /// # Errors
    /// Not as many lengths as the shape holds, or no memory.
    pub fn per_row(device: &Device, lengths: &[i32], shape: &[usize]) -> Result<Self> {
        let tensor = device.upload(lengths, shape)?;
        Ok(RowLengths { tensor, per: Per::Row, values: Extremes::of(lengths) })
    }

    /// Lengths that are on the device already. The host does not know them: values below 0 count
    /// as 0, values beyond the row as the row's length.
    pub fn on_device(tensor: Tensor<i32>, per: Per) -> Self {
        RowLengths { tensor, per, values: Extremes::default() }
    }

    /// As a pointer, once the values that the host knows have been checked for rows of `columns`.
    pub(crate) fn to_raw(
        &self,
        device: &Device,
        tensor: &'static str,
        columns: usize,
    ) -> Result<(RawTensor, Per)> {
        device.check_same(tensor, self.tensor.device())?;
        self.values.check(0..=columns as i64, |index, length| Error::LengthBeyondRow {
            index,
            length,
            row: columns,
        })?;
        Ok(((&self.tensor).into(), self.per))
    }
}

/// Which mask of a bank each index of x's first dimension takes.
#[derive(Debug, Clone)]
pub struct BankIndex {
    tensor: Tensor<i32>,
    values: Extremes,
}

impl BankIndex {
    /// An index into the bank for each index of x's first dimension.
    ///
    /// # Errors
    /// No memory.
    pub fn per_batch(device: &Device, index: &[i32]) -> Result<Self> {
        let tensor = device.upload(index, &[index.len()])?;
        Ok(BankIndex { tensor, values: Extremes::of(index) })
    }

    /// Indices that are on the device already, shape `[batch]`. The host does not know them: rows
    /// whose index is outside of the bank become NaN; computed from scores, their gradient is 0.
    pub fn on_device(tensor: Tensor<i32>) -> Self {
        BankIndex { tensor, values: Extremes::default() }
    }
}

/// The smallest and the largest of values that the host knows, and where they stand.
#[derive(Debug, Clone, Copy, Default)]
struct Extremes {
    smallest: Option<(usize, i64)>,
    largest: Option<(usize, i64)>,
}

impl Extremes {
    fn of(values: &[i32]) -> Self {
        let numbered = || values.iter().map(|&value| i64::from(value)).enumerate();
        Extremes {
            smallest: numbered().min_by_key(|&(_, value)| value),
            largest: numbered().max_by_key(|&(_, value)| value),
        }
    }

    fn check(
        self,
        range: std::ops::RangeInclusive<i64>,
        error: impl Fn(usize, i64) -> Error,
    ) -> Result<()> {
        let known = self.smallest.into_iter().chain(self.largest);
        match known.into_iter().find(|(_, value)| !range.contains(value)) {
            Some((index, value)) => Err(error(index, value)),
            None => Ok(()),
        }
    }
}
