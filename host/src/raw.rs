//! Tensors as pointers with shapes and strides: what other libraries hand over.

use crate::{Dtype, Error, Result, dims::Dims, layout::Layout};
use std::{borrow::Borrow, ops::Range};

/// A tensor in memory that the library does not own: a device pointer with a shape and strides.
///
/// On a GPU `pointer` is a device address, on the emulator a host address. The memory must stay
/// alive until the work enqueued with it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawTensor {
    /// The address of the element at index 0.
    pub pointer: u64,
    /// The type of an element.
    pub dtype: Dtype,
    /// The size of each dimension.
    pub shape: Dims<usize>,
    /// The distance of neighbours in each dimension, in elements.
    pub strides: Dims<i64>,
}

/// The most outputs of a call.
const MAX_OUTPUTS: usize = 8;

/// Checks pointers and memory of a call's tensors, given with their names in errors, of which the
/// first `outputs` are written. Those overlap with no other, but with inputs that `is_in_place` lets
/// pass.
///
/// # Errors
/// A pointer is wrong, or an output overlaps with another tensor.
///
/// # Panics
/// More outputs than [`MAX_OUTPUTS`].
pub(crate) fn check_memory<R: Borrow<RawTensor>>(
    tensors: impl Iterator<Item = (&'static str, R)>,
    outputs: usize,
    is_in_place: impl Fn(&str, &RawTensor) -> bool,
) -> Result<()> {
    assert!(outputs <= MAX_OUTPUTS, "{outputs} outputs");
    let mut written: [(&str, Range<u64>); MAX_OUTPUTS] = [const { ("", 0..0) }; MAX_OUTPUTS];
    for (i, (name, raw)) in tensors.enumerate() {
        let raw = raw.borrow();
        let touched = raw.checked_bytes(name)?;
        for (output, of_output) in &written[..outputs.min(i)] {
            if have_common(of_output, &touched) && !is_in_place(name, raw) {
                return Err(Error::OverlappingOutput { output, other: name });
            }
        }
        if i < outputs {
            written[i] = (name, touched);
        }
    }
    Ok(())
}

/// Whether two ranges of addresses have one in common.
fn have_common(a: &Range<u64>, b: &Range<u64>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

impl RawTensor {
    /// A tensor with a stride, in elements, for each dimension.
    ///
    /// # Errors
    /// More dimensions than [`MAX_RANK`](crate::MAX_RANK), or not as many strides as sizes.
    pub fn new(pointer: u64, dtype: Dtype, shape: &[usize], strides: &[i64]) -> Result<Self> {
        let (shape, strides) = (Dims::new(shape)?, Dims::new(strides)?);
        if shape.len() != strides.len() {
            let (expected, found) = (shape.len(), strides.len());
            return Err(Error::RankMismatch { tensor: "strides", expected, found });
        }
        Ok(RawTensor { pointer, dtype, shape, strides })
    }

    /// A tensor in row-major order without gaps.
    ///
    /// # Errors
    /// More dimensions than [`MAX_RANK`](crate::MAX_RANK), or more than 2^63 elements.
    pub fn contiguous(pointer: u64, dtype: Dtype, shape: &[usize]) -> Result<Self> {
        let Layout { shape, strides } = Layout::contiguous(shape)?;
        Ok(RawTensor { pointer, dtype, shape, strides })
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// How many elements the shape names; those of stride 0 count each time.
    ///
    /// # Errors
    /// More than 2^63.
    pub fn element_count(&self) -> Result<usize> {
        self.layout().element_count()
    }

    /// The addresses from the first byte of any element to the end of the last; empty without
    /// elements.
    ///
    /// # Errors
    /// The range does not fit 64 bits.
    pub fn bytes_touched(&self) -> Result<Range<u64>> {
        let Some((first, last)) = self.layout().extent()? else {
            return Ok(self.pointer..self.pointer);
        };
        let size = self.dtype.size() as i64;
        let address = |element: i64| self.pointer.checked_add_signed(element.checked_mul(size)?);
        let range = address(first).zip(last.checked_add(1).and_then(address));
        let overflow =
            || Error::SizeOverflow { shape: self.shape.to_vec(), strides: self.strides.to_vec() };
        range.map(|(start, end)| start..end).ok_or_else(overflow)
    }

    /// Whether the byte ranges that the two tensors touch have a byte in common.
    ///
    /// # Errors
    /// A range does not fit 64 bits.
    pub fn overlaps(&self, other: &RawTensor) -> Result<bool> {
        Ok(have_common(&self.bytes_touched()?, &other.bytes_touched()?))
    }

    /// Whether several indices name the same memory, as with a stride of 0. Layouts whose
    /// dimensions interleave count as overlapping even where no two elements meet.
    pub fn overlaps_itself(&self) -> bool {
        self.layout().overlaps_itself()
    }

    /// The largest power of two, up to 256, that divides the address and, in bytes, every stride
    /// but the last dimension's. Dimensions of size 1 take no step and do not count.
    pub fn alignment(&self) -> u64 {
        let size = self.dtype.size() as u64;
        let outer = self.rank().saturating_sub(1);
        let strides = self.shape.iter().zip(&*self.strides).take(outer);
        let steps = strides.filter(|&(&size, _)| size > 1).map(|(_, &stride)| stride);
        let bits = steps
            .fold(self.pointer, |bits, stride| bits | stride.unsigned_abs().wrapping_mul(size));
        1 << bits.trailing_zeros().min(8)
    }

    /// The stride of the last dimension; 1 where that takes no step.
    pub fn last_stride(&self) -> i64 {
        match (self.shape.last(), self.strides.last()) {
            (Some(&size), Some(&stride)) if size > 1 => stride,
            _ => 1,
        }
    }

    /// Whether the elements stand in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout().is_contiguous()
    }

    /// The same elements repeated to a larger shape: sizes of 1 become strides of 0, and missing
    /// dimensions are added in front. `tensor` is the argument's name, for the error.
    ///
    /// # Errors
    /// A size is neither 1 nor the other's.
    pub fn broadcast_to(&self, tensor: &'static str, shape: &[usize]) -> Result<Self> {
        let Layout { shape, strides } = self.layout().expand(tensor, shape)?;
        Ok(RawTensor { shape, strides, ..*self })
    }

    /// Fails unless there is a stride for each size.
    ///
    /// # Errors
    /// [`Error::RankMismatch`].
    pub fn check_rank(&self, tensor: &'static str) -> Result<()> {
        let (expected, found) = (self.shape.len(), self.strides.len());
        if expected == found {
            return Ok(());
        }
        Err(Error::RankMismatch { tensor, expected, found })
    }

    /// Fails unless the tensor can be addressed: a pointer that is neither null nor below the
    /// alignment of an element, and a range of bytes within 64 bits.
    ///
    /// # Errors
    /// [`Error::NullPointer`], [`Error::BelowElementAlignment`] or [`Error::SizeOverflow`].
    pub fn check(&self, tensor: &'static str) -> Result<()> {
        self.checked_bytes(tensor).map(drop)
    }

    /// [`RawTensor::bytes_touched`], after [`RawTensor::check`].
    fn checked_bytes(&self, tensor: &'static str) -> Result<Range<u64>> {
        self.check_rank(tensor)?;
        if self.is_empty() {
            return Ok(self.pointer..self.pointer);
        }
        if self.pointer == 0 {
            return Err(Error::NullPointer { tensor });
        }
        if !self.pointer.is_multiple_of(self.dtype.size() as u64) {
            let RawTensor { pointer, dtype, .. } = *self;
            return Err(Error::BelowElementAlignment { tensor, pointer, dtype });
        }
        self.bytes_touched()
    }

    /// Fails unless the element type is `expected`.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`].
    pub fn check_dtype(&self, tensor: &'static str, expected: Dtype) -> Result<()> {
        let found = self.dtype;
        if found == expected {
            return Ok(());
        }
        Err(Error::DtypeMismatch { tensor, expected, found })
    }

    /// Fails unless the shape is `expected`.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn check_shape(&self, tensor: &'static str, expected: &[usize]) -> Result<()> {
        if *self.shape == *expected {
            return Ok(());
        }
        let (expected, found) = (expected.to_vec(), self.shape.to_vec());
        Err(Error::ShapeMismatch { tensor, expected, found })
    }

    /// Fails unless the last dimension's stride is 1, or the dimension takes no step; `expected` is
    /// what the call can work with.
    pub(crate) fn check_last_stride(
        &self,
        tensor: &'static str,
        expected: &'static str,
    ) -> Result<()> {
        match self.last_stride() {
            1 => Ok(()),
            found => {
                Err(Error::UnsupportedStride { tensor, dim: self.rank() - 1, found, expected })
            }
        }
    }

    /// Fails if the tensor, an output, shares memory with `input`.
    ///
    /// # Errors
    /// [`Error::OverlappingOutput`].
    pub fn check_disjoint(
        &self,
        output: &'static str,
        input: &RawTensor,
        other: &'static str,
    ) -> Result<()> {
        if self.overlaps(input)? {
            return Err(Error::OverlappingOutput { output, other });
        }
        Ok(())
    }

    /// Fails if several elements of the tensor, an output, are the same memory.
    ///
    /// # Errors
    /// [`Error::SelfOverlappingOutput`].
    pub fn check_writable(&self, output: &'static str) -> Result<()> {
        if self.overlaps_itself() {
            let (shape, strides) = (self.shape.to_vec(), self.strides.to_vec());
            return Err(Error::SelfOverlappingOutput { output, shape, strides });
        }
        Ok(())
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout { shape: self.shape, strides: self.strides }
    }
}
