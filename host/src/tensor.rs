//! Tensors that own their memory, and views of them.

use crate::{Device, Dtype, Error, RawTensor, Result, Scalar, backend::Allocation, layout::Layout};
use std::{marker::PhantomData, sync::Arc};

/// A tensor on a device: shared memory with a shape and strides. Cheap to clone; clones and views
/// are the same elements.
#[derive(Debug, Clone)]
pub struct Tensor<T> {
    storage: Arc<Storage>,
    layout: Layout,
    /// The element at index 0, counted from the start of the storage.
    offset: i64,
    element: PhantomData<T>,
}

#[derive(Debug)]
struct Storage {
    device: Device,
    memory: Box<dyn Allocation>,
}

impl Device {
    /// A tensor with these elements, in row-major order.
    ///
    /// # Errors
    /// Not as many elements as the shape holds, or no memory.
    pub fn upload<T: Scalar>(&self, elements: &[T], shape: &[usize]) -> Result<Tensor<T>> {
        let layout = Layout::contiguous(shape)?;
        let (expected, found) = (layout.element_count()?, elements.len());
        if expected != found {
            return Err(Error::LengthMismatch { shape: shape.to_vec(), expected, found });
        }
        let tensor = self.allocate(layout)?;
        tensor.copy_from(elements)?;
        Ok(tensor)
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros<T: Scalar>(&self, shape: &[usize]) -> Result<Tensor<T>> {
        let layout = Layout::contiguous(shape)?;
        let bytes = byte_count::<T>(&layout)?;
        let tensor = self.allocate(layout)?;
        // SAFETY: the memory is new and of this size.
        unsafe { self.backend().fill(tensor.storage.memory.pointer(), 0, bytes) }?;
        Ok(tensor)
    }

    /// A tensor of whatever the memory holds; on the emulator NaN, or -1.
    ///
    /// # Errors
    /// No memory.
    pub fn empty<T: Scalar>(&self, shape: &[usize]) -> Result<Tensor<T>> {
        self.allocate(Layout::contiguous(shape)?)
    }

    fn allocate<T: Scalar>(&self, layout: Layout) -> Result<Tensor<T>> {
        let memory = self.backend().allocate(byte_count::<T>(&layout)?)?;
        let storage = Arc::new(Storage { device: self.clone(), memory });
        Ok(Tensor { storage, layout, offset: 0, element: PhantomData })
    }
}

fn byte_count<T: Scalar>(layout: &Layout) -> Result<usize> {
    let count = layout.element_count()?;
    let bytes = count.checked_mul(size_of::<T>()).filter(|&n| i64::try_from(n).is_ok());
    bytes.ok_or_else(|| Error::SizeOverflow {
        shape: layout.shape.to_vec(),
        strides: layout.strides.to_vec(),
    })
}

impl<T: Scalar> Tensor<T> {
    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The distance of neighbours in each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.layout.strides
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// How many elements the shape names.
    ///
    /// # Panics
    /// An expanded view of more than 2^63 elements.
    pub fn len(&self) -> usize {
        self.layout.element_count().expect("more than 2^63 elements")
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The type of an element, as a value.
    pub fn dtype(&self) -> Dtype {
        T::DTYPE
    }

    /// The device that holds the elements.
    pub fn device(&self) -> &Device {
        &self.storage.device
    }

    /// The address of the element at index 0.
    pub fn pointer(&self) -> u64 {
        self.address(self.offset)
    }

    /// Whether the elements stand in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// `len` indices of a dimension, from `start` on.
    ///
    /// # Errors
    /// The range ends beyond the dimension.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<Self> {
        let (layout, offset) = self.layout.narrow(dim, start, len)?;
        Ok(Tensor { offset: self.offset + offset, ..self.view(layout) })
    }

    /// Two dimensions exchanged.
    ///
    /// # Errors
    /// A dimension that the tensor does not have.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self> {
        self.layout.transpose(a, b).map(|layout| self.view(layout))
    }

    /// The dimensions in another order: dimension `i` of the view is dimension `order[i]`.
    ///
    /// # Errors
    /// The order does not name each dimension once.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        self.layout.permute(order).map(|layout| self.view(layout))
    }

    /// The elements repeated to a larger shape, by strides of 0: sizes of 1 grow, and dimensions
    /// are added in front.
    ///
    /// # Errors
    /// A size that is neither 1 nor the new one.
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        self.layout.expand("tensor", shape).map(|layout| self.view(layout))
    }

    /// Another shape for the same elements in the same order.
    ///
    /// # Errors
    /// Another number of elements, or [`Error::NotViewable`] if strides cannot say it.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        self.layout.reshape(shape).map(|layout| self.view(layout))
    }

    /// The elements in row-major order. Waits for the default stream; work on streams that do not
    /// synchronise with it must have been waited for.
    ///
    /// # Errors
    /// What went wrong in work enqueued before, or no memory on the host.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let Some((first, last)) = self.layout.extent()? else { return Ok(Vec::new()) };
        let out_of_memory = |count: usize| {
            move |_| Error::OutOfMemory { device: "the host".into(), bytes: count * size_of::<T>() }
        };
        let span = (last - first + 1) as usize;
        let mut memory: Vec<T> = Vec::new();
        memory.try_reserve_exact(span).map_err(out_of_memory(span))?;
        let (from, bytes) = (self.address(self.offset + first), span * size_of::<T>());
        // SAFETY: the span is inside the storage; every pattern of bytes is a value of T.
        unsafe {
            self.device().backend().copy_to_host(memory.as_mut_ptr().cast(), from, bytes)?;
            memory.set_len(span);
        }
        if self.is_contiguous() {
            return Ok(memory);
        }
        let count = self.layout.element_count()?;
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).map_err(out_of_memory(count))?;
        self.layout.for_each_offset(|offset| elements.push(memory[(offset - first) as usize]));
        Ok(elements)
    }

    /// Overwrites the elements, in row-major order, of a tensor without gaps. Returns once the
    /// device has them; work that uses the tensor must have ended.
    ///
    /// # Errors
    /// Not as many elements as the tensor has, or [`Error::NotViewable`] if it has gaps.
    pub fn copy_from(&self, elements: &[T]) -> Result<()> {
        let (expected, found) = (self.layout.element_count()?, elements.len());
        if expected != found {
            let shape = self.shape().to_vec();
            return Err(Error::LengthMismatch { shape, expected, found });
        }
        self.layout.reshape(&[expected])?;
        if expected == 0 {
            return Ok(());
        }
        let bytes = size_of_val(elements);
        // SAFETY: as many elements as the tensor has, which lie one after the other.
        unsafe {
            self.device().backend().copy_from_host(self.pointer(), elements.as_ptr().cast(), bytes)
        }
    }

    fn view(&self, layout: Layout) -> Self {
        Tensor { layout, ..self.clone() }
    }

    fn address(&self, element: i64) -> u64 {
        self.storage.memory.pointer().wrapping_add_signed(element * size_of::<T>() as i64)
    }
}

impl<T: Scalar> From<&Tensor<T>> for RawTensor {
    fn from(tensor: &Tensor<T>) -> Self {
        let Layout { shape, strides } = tensor.layout;
        RawTensor { pointer: tensor.pointer(), dtype: T::DTYPE, shape, strides }
    }
}
