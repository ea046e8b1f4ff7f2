//! Tensors that lie in memory in other ways than row-major without gaps.

use fused_attention::{Device, Result, Scalar, Tensor};

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Row-major, without gaps, at an aligned address.
    #[default]
    Contiguous,
    /// Row-major, beginning this many elements into its memory.
    Offset(usize),
    /// The middle of longer rows: this many elements are left out at each end.
    Sliced(usize),
    /// The middle one of three tensors whose rows alternate.
    Packed,
    /// The leading dimensions in reverse order in memory.
    Permuted,
    /// The last two leading dimensions exchanged in memory: rows before heads.
    RowsFirst,
}

/// A tensor, and all of the memory that it is a part of.
#[derive(Debug)]
pub struct Placed<T> {
    /// The tensor.
    pub tensor: Tensor<T>,
    memory: Tensor<T>,
    /// Where in the memory each element is, in row-major order.
    positions: Vec<usize>,
    gap: T,
}

impl<T: Scalar> Placed<T> {
    /// A tensor with these elements; the rest of its memory holds `gap`.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        device: &Device,
        placement: Placement,
        values: &[T],
        shape: &[usize],
        gap: T,
    ) -> Result<Self> {
        let count = values.len();
        let rows = shape.len().saturating_sub(1);
        let fill = |shape: &[usize]| device.upload(&vec![gap; shape.iter().product()], shape);
        let (memory, tensor) = match placement {
            _ if shape.is_empty() || count == 0 => {
                let memory = fill(shape)?;
                (memory.clone(), memory)
            }
            Placement::Contiguous => {
                let memory = fill(shape)?;
                (memory.clone(), memory)
            }
            Placement::Offset(offset) => {
                let memory = fill(&[count + 2 * offset])?;
                (memory.clone(), memory.narrow(0, offset, count)?.reshape(shape)?)
            }
            Placement::Sliced(margin) => {
                let mut wide = shape.to_vec();
                wide[rows] += 2 * margin;
                let memory = fill(&wide)?;
                (memory.clone(), memory.narrow(rows, margin, shape[rows])?)
            }
            Placement::Packed => {
                let mut three = shape.to_vec();
                three.insert(rows, 3);
                let memory = fill(&three)?;
                (memory.clone(), memory.narrow(rows, 1, 1)?.reshape(shape)?)
            }
            Placement::Permuted | Placement::RowsFirst => {
                let mut order: Vec<_> = (0..=rows).collect();
                match placement {
                    Placement::Permuted => order[..rows].reverse(),
                    _ => order[rows.saturating_sub(2)..rows].reverse(),
                }
                let stored: Vec<_> = order.iter().map(|&dim| shape[dim]).collect();
                let memory = fill(&stored)?;
                (memory.clone(), memory.permute(&order)?)
            }
        };
        let first = (tensor.pointer() - memory.pointer()) as usize / size_of::<T>();
        let mut positions = vec![first];
        for (&size, &stride) in tensor.shape().iter().zip(tensor.strides()) {
            let steps = (0..size).map(|i| i * stride as usize);
            positions = positions
                .iter()
                .flat_map(|&position| steps.clone().map(move |step| position + step))
                .collect();
        }
        let mut all = vec![gap; memory.len()];
        for (&position, &value) in positions.iter().zip(values) {
            all[position] = value;
        }
        memory.copy_from(&all)?;
        Ok(Placed { tensor, memory, positions, gap })
    }

    /// The tensor's elements, if the rest of its memory still is what it was.
    ///
    /// # Errors
    /// What else was written.
    pub fn read(&self) -> std::result::Result<Vec<T>, String> {
        let all = self.memory.to_vec().map_err(|error| error.to_string())?;
        let mut inside = vec![false; all.len()];
        self.positions.iter().for_each(|&position| inside[position] = true);
        let bits = |value: &T| format!("{value:?}");
        let gap = bits(&self.gap);
        match (0..all.len()).find(|&i| !inside[i] && bits(&all[i]) != gap) {
            Some(i) => Err(format!("element {i} of the memory is not the tensor's, and written")),
            None => Ok(self.positions.iter().map(|&position| all[position]).collect()),
        }
    }
}
