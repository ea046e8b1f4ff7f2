//! One value for each dimension of a tensor, without an allocation.

use crate::{Error, Result};
use std::{fmt, hash, ops};

/// The largest number of dimensions a tensor can have.
pub const MAX_RANK: usize = 8;

/// Up to [`MAX_RANK`] values, one for each dimension; a slice otherwise.
#[derive(Clone, Copy)]
pub struct Dims<T> {
    rank: u8,
    values: [T; MAX_RANK],
}

impl<T: Copy + Default> Dims<T> {
    /// The values of a slice.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] values.
    pub fn new(values: &[T]) -> Result<Self> {
        if values.len() > MAX_RANK {
            return Err(Error::RankTooLarge { rank: values.len(), limit: MAX_RANK });
        }
        let mut dims = Dims { rank: values.len() as u8, values: [T::default(); MAX_RANK] };
        dims.values[..values.len()].copy_from_slice(values);
        Ok(dims)
    }

    /// `rank` times the same value.
    ///
    /// # Panics
    /// `rank` is above [`MAX_RANK`].
    pub fn filled(rank: usize, value: T) -> Self {
        assert!(rank <= MAX_RANK, "rank {rank} is above {MAX_RANK}");
        let mut dims = Dims { rank: rank as u8, values: [T::default(); MAX_RANK] };
        dims.values[..rank].fill(value);
        dims
    }
}

impl<T> ops::Deref for Dims<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..self.rank as usize]
    }
}

impl<T> ops::DerefMut for Dims<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.rank as usize]
    }
}

impl<T: PartialEq> PartialEq for Dims<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Dims<T> {}

impl<T: hash::Hash> hash::Hash for Dims<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
