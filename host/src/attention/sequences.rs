//! Sequences of several lengths that lie one after the other.

use crate::{Device, Error, RawTensor, Result, Tensor};

/// Where packed sequences begin in a tensor of the dimensions heads, rows, elements: sequence b has
/// the rows from its offset to the next one. Some may be empty.
#[derive(Debug, Clone)]
pub struct PackedSequences {
    offsets: Tensor<i32>,
    longest: usize,
    /// The rows that they take, if the host knows.
    end: Option<usize>,
}

impl PackedSequences {
    /// Offsets for each sequence, and one more for the last one's end.
    ///
    /// # Errors
    /// [`Error::BadSequenceOffsets`], or no memory.
    pub fn new(device: &Device, offsets: &[i32]) -> Result<Self> {
        if let Some(index) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            let (value, next) = (offsets[index], offsets[index + 1]);
            return Err(Error::BadSequenceOffsets { index, value, next });
        }
        match offsets.first() {
            Some(&first) if first >= 0 => {}
            first => {
                let value = first.copied().unwrap_or(0);
                return Err(Error::BadSequenceOffsets { index: 0, value, next: value });
            }
        }
        let longest = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max();
        let end = offsets.last().map(|&end| end as usize);
        let offsets = device.upload(offsets, &[offsets.len()])?;
        Ok(PackedSequences { offsets, longest: longest.unwrap_or(0), end })
    }

    /// Offsets that are on the device already, and the length of the longest sequence, or more. Rows
    /// of queries beyond `longest` are not computed.
    ///
    /// # Safety
    /// When work with them runs, the offsets must ascend from 0 or more to no more than the rows of
    /// the tensors that they are used for, and no sequence be longer than `longest`.
    pub unsafe fn on_device(offsets: Tensor<i32>, longest: usize) -> Self {
        PackedSequences { offsets, longest, end: None }
    }

    /// As pointers, for a tensor of this name and so many rows.
    pub(super) fn to_raw(
        &self,
        device: &Device,
        tensor: &'static str,
        rows: usize,
    ) -> Result<RawSequences> {
        device.check_same("offsets", self.offsets.device())?;
        match self.end {
            Some(end) if end > rows => Err(Error::SequencesBeyondRows { tensor, end, rows }),
            _ => Ok(RawSequences { offsets: (&self.offsets).into(), longest: self.longest }),
        }
    }
}

/// [`PackedSequences`], as a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawSequences {
    /// i32, contiguous: the first row of each sequence, and the last one's end.
    pub offsets: RawTensor,
    /// The length of the longest, or more.
    pub longest: usize,
}
