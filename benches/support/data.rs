//! Numbers and bytes that repeat, so that the host knows every element of tensors that it never
//! holds in full.

use crate::gpu;
use fused_attention::{DeviceKind, Element, Result, Scalar, Tensor};

/// Distinct elements. Odd, so that the rows of usual lengths begin everywhere in it.
const DISTINCT: usize = (1 << 20) + 7;

/// SplitMix64, as numbers from 0 to 1.
fn uniform(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53)
    }
}

/// Elements that repeat from the front of a tensor on.
pub(crate) struct Repeating<T> {
    distinct: Vec<T>,
}

impl<T: Element> Repeating<T> {
    /// Normal numbers with mean 0 and deviation 1, by Box and Muller.
    pub fn normal(seed: u64) -> Self {
        let mut uniform = uniform(seed);
        let normal = |_| {
            let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
            T::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        };
        Repeating { distinct: (0..DISTINCT).map(normal).collect() }
    }
}

impl Repeating<u8> {
    /// Bytes, each 1 with this probability, else 0.
    pub fn ones(seed: u64, probability: f64) -> Self {
        let mut uniform = uniform(seed);
        let byte = |_| u8::from(uniform() < probability);
        Repeating { distinct: (0..DISTINCT).map(byte).collect() }
    }
}

impl<T: Scalar> Repeating<T> {
    /// One element everywhere.
    pub fn constant(element: T) -> Self {
        Repeating { distinct: vec![element] }
    }

    /// The element at an index of the tensor.
    pub fn at(&self, index: usize) -> T {
        self.distinct[index % self.distinct.len()]
    }

    /// Fills a contiguous tensor. Only the distinct elements go over the bus.
    pub fn fill(&self, tensor: &Tensor<T>) -> Result<()> {
        let count = tensor.len();
        let flat = tensor.reshape(&[count])?;
        if !matches!(tensor.device().kind(), DeviceKind::Cuda { .. }) {
            let all: Vec<T> = (0..count).map(|index| self.at(index)).collect();
            return flat.copy_from(&all);
        }
        let mut filled = count.min(self.distinct.len());
        flat.narrow(0, 0, filled)?.copy_from(&self.distinct[..filled])?;
        let (pointer, stream) = (flat.pointer(), tensor.device().default_stream());
        while filled < count {
            let more = filled.min(count - filled);
            let (to, bytes) = (pointer + (filled * size_of::<T>()) as u64, more * size_of::<T>());
            // SAFETY: both ranges are in the tensor, one behind the other.
            unsafe { gpu::copy(&stream, to, pointer, bytes) };
            filled += more;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal_and_bytes_as_likely_as_asked_for() {
        let numbers = Repeating::<f32>::normal(1).distinct;
        let mean = |f: &dyn Fn(f64) -> f64| {
            numbers.iter().map(|&x| f(x.into())).sum::<f64>() / numbers.len() as f64
        };
        assert!(mean(&|x| x).abs() < 0.01);
        assert!((mean(&|x| x * x) - 1.0).abs() < 0.01);
        let ones = Repeating::ones(2, 0.3).distinct.iter().filter(|&&byte| byte == 1).count();
        assert!((ones as f64 / DISTINCT as f64 - 0.3).abs() < 0.01);
    }
}
