//! Shapes and strides: where the elements of a tensor lie, and views of the same elements.

use crate::{
    Error, Result,
    dims::{Dims, MAX_RANK},
};

/// A shape with a stride, in elements, for each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub shape: Dims<usize>,
    pub strides: Dims<i64>,
}

impl Layout {
    /// Row-major, without gaps.
    pub fn contiguous(shape: &[usize]) -> Result<Self> {
        let shape = Dims::new(shape)?;
        let mut strides = Dims::filled(shape.len(), 1i64);
        let mut stride = 1i64;
        for (dim, &size) in shape.iter().enumerate().rev() {
            strides[dim] = stride;
            // An empty dimension leaves the strides those of a dimension of size 1.
            stride = i64::try_from(size.max(1))
                .ok()
                .and_then(|size| stride.checked_mul(size))
                .ok_or_else(|| too_large(&shape, &[]))?;
        }
        Ok(Layout { shape, strides })
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// How many elements the shape names; elements of stride 0 count each time.
    pub fn element_count(&self) -> Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        let count = self.shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        count.filter(|&n| i64::try_from(n).is_ok()).ok_or_else(|| self.too_large())
    }

    /// The offsets of the first and the last element in memory; none without elements.
    pub fn extent(&self) -> Result<Option<(i64, i64)>> {
        if self.is_empty() {
            return Ok(None);
        }
        let (mut first, mut last) = (0i64, 0i64);
        for (&size, &stride) in self.shape.iter().zip(&*self.strides) {
            let span = i64::try_from(size - 1).ok().and_then(|steps| steps.checked_mul(stride));
            let span = span.ok_or_else(|| self.too_large())?;
            let end = if span < 0 { &mut first } else { &mut last };
            *end = end.checked_add(span).ok_or_else(|| self.too_large())?;
        }
        Ok(Some((first, last)))
    }

    /// Whether the elements stand in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1i64;
        for (&size, &stride) in self.shape.iter().zip(&*self.strides).rev() {
            if size != 1 && stride != expected {
                return self.is_empty();
            }
            expected = expected.saturating_mul(size as i64);
        }
        true
    }

    /// Whether two indices may name the same memory. Judged dimension by dimension from the
    /// smallest stride up, each of which must step over all the smaller ones: rare interleaved
    /// layouts without overlap are reported too.
    pub fn overlaps_itself(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut dims = Dims::filled(self.rank(), (0i64, 0usize));
        for (dim, pair) in dims.iter_mut().enumerate() {
            // A dimension of size 1 takes no step, so its stride says nothing.
            let size = self.shape[dim];
            *pair =
                if size == 1 { (i64::MAX, 1) } else { (self.strides[dim].saturating_abs(), size) };
        }
        dims.sort_unstable();
        let mut reach = 0i128;
        for &(stride, size) in dims.iter().filter(|(_, size)| *size > 1) {
            if i128::from(stride) <= reach {
                return true;
            }
            reach += i128::from(stride) * (size as i128 - 1);
        }
        false
    }

    /// `len` indices of one dimension from `start` on, and the offset of the new first element.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<(Self, i64)> {
        let size = self.size(dim)?;
        if start.checked_add(len).is_none_or(|end| end > size) {
            return Err(Error::OutOfRange { dim, start, len, size });
        }
        let mut view = *self;
        view.shape[dim] = len;
        // An empty view points at no element, so it keeps an address inside the tensor.
        let offset = if view.is_empty() { 0 } else { start as i64 * self.strides[dim] };
        Ok((view, offset))
    }

    /// Two dimensions exchanged.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self> {
        self.size(a)?;
        self.size(b)?;
        let mut view = *self;
        view.shape.swap(a, b);
        view.strides.swap(a, b);
        Ok(view)
    }

    /// The dimensions in another order: dimension `i` of the view is dimension `order[i]`.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        let rank = self.rank();
        let mut seen = [false; MAX_RANK];
        let once = order.iter().all(|&dim| dim < rank && !std::mem::replace(&mut seen[dim], true));
        if order.len() != rank || !once {
            return Err(Error::NotAPermutation { order: order.to_vec(), rank });
        }
        let mut view = *self;
        for (to, &from) in order.iter().enumerate() {
            view.shape[to] = self.shape[from];
            view.strides[to] = self.strides[from];
        }
        Ok(view)
    }

    /// Aligned at the last dimension, sizes of 1 repeated with stride 0, new dimensions in front.
    pub fn expand(&self, tensor: &'static str, shape: &[usize]) -> Result<Self> {
        let to = Dims::new(shape)?;
        let refused = || Error::NotBroadcastable {
            tensor,
            expected: shape.to_vec(),
            found: self.shape.to_vec(),
        };
        let new = shape.len().checked_sub(self.rank()).ok_or_else(refused)?;
        let mut strides = Dims::filled(shape.len(), 0i64);
        for (dim, &size) in self.shape.iter().enumerate() {
            strides[new + dim] = match size {
                _ if size == to[new + dim] => self.strides[dim],
                1 => 0,
                _ => return Err(refused()),
            };
        }
        Ok(Layout { shape: to, strides })
    }

    /// Another shape over the same elements in the same order, where strides can say it.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        let mut to = Layout::contiguous(shape)?;
        let (count, expected) = (self.element_count()?, to.element_count()?);
        if count != expected {
            return Err(Error::LengthMismatch { shape: shape.to_vec(), expected, found: count });
        }
        if count == 0 {
            return Ok(to);
        }
        // Runs of dimensions that step like one are split anew; a new dimension may not straddle
        // two runs.
        let runs = self.runs();
        let mut runs = runs.iter();
        let (mut left, mut stride) = (1usize, 1i64);
        for dim in (0..to.rank()).rev() {
            let size = to.shape[dim];
            if size == 1 {
                continue;
            }
            if left == 1 {
                let Some(&(count, step)) = runs.next() else {
                    return Err(self.not_viewable(shape));
                };
                (left, stride) = (count, step);
            }
            if left % size != 0 {
                return Err(self.not_viewable(shape));
            }
            to.strides[dim] = stride;
            stride = stride.checked_mul(size as i64).ok_or_else(|| self.too_large())?;
            left /= size;
        }
        Ok(to)
    }

    /// The fewest (count, stride) pairs with the same elements in the same order, last first.
    fn runs(&self) -> Vec<(usize, i64)> {
        let mut runs: Vec<(usize, i64)> = Vec::with_capacity(self.rank());
        for (&size, &stride) in self.shape.iter().zip(&*self.strides).rev() {
            match runs.last_mut() {
                _ if size == 1 => {}
                Some((count, step)) if step.checked_mul(*count as i64) == Some(stride) => {
                    *count *= size;
                }
                _ => runs.push((size, stride)),
            }
        }
        runs
    }

    /// Calls `f` with the offset of each element, in row-major order.
    pub fn for_each_offset(&self, mut f: impl FnMut(i64)) {
        fn walk(shape: &[usize], strides: &[i64], offset: i64, f: &mut impl FnMut(i64)) {
            let ([size, shape @ ..], [stride, strides @ ..]) = (shape, strides) else {
                return f(offset);
            };
            for i in 0..*size as i64 {
                walk(shape, strides, offset + i * stride, f);
            }
        }
        walk(&self.shape, &self.strides, 0, &mut f);
    }

    fn size(&self, dim: usize) -> Result<usize> {
        let rank = self.rank();
        self.shape.get(dim).copied().ok_or(Error::NoSuchDimension { dim, rank })
    }

    fn not_viewable(&self, to: &[usize]) -> Error {
        Error::NotViewable {
            shape: self.shape.to_vec(),
            strides: self.strides.to_vec(),
            to: to.to_vec(),
        }
    }

    fn too_large(&self) -> Error {
        too_large(&self.shape, &self.strides)
    }
}

fn too_large(shape: &[usize], strides: &[i64]) -> Error {
    Error::SizeOverflow { shape: shape.to_vec(), strides: strides.to_vec() }
}
