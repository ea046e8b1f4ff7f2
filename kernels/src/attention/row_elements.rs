//! What a thread has of two rows of scores or of output, as products of matrices leave it.

use super::online_softmax::Fragment;
use cuda_std::wgmma::{Accumulator, Shape};

/// Elements of two rows, 0 and 1. Those of a row are pairs of neighbouring columns.
///
/// Closures are written out for each element: its number in the row is a constant in them.
pub trait RowElements {
    /// Calls `f` with the number and value of each element of row `h`, in order.
    fn for_row(&self, h: usize, f: impl FnMut(usize, f32));

    /// Makes each element of row `h` what `f` says.
    fn map_row(&mut self, h: usize, f: impl FnMut(usize, f32) -> f32);
}

/// As `mma.sync` has them.
impl<const COUNT: usize> RowElements for [Fragment; COUNT] {
    #[inline(always)]
    fn for_row(&self, h: usize, mut f: impl FnMut(usize, f32)) {
        unroll!(n in COUNT, up to 32 => {
            unroll!(e in 2 => {
                f(2 * n + e, self[n][2 * h + e]);
            });
        });
    }
    #[inline(always)]
    fn map_row(&mut self, h: usize, mut f: impl FnMut(usize, f32) -> f32) {
        unroll!(n in COUNT, up to 32 => {
            unroll!(e in 2 => {
                self[n][2 * h + e] = f(2 * n + e, self[n][2 * h + e]);
            });
        });
    }
}

/// As `wgmma` has them.
impl<const REGISTERS: usize> RowElements for Accumulator<REGISTERS>
where
    [f32; REGISTERS]: Shape,
{
    #[inline(always)]
    fn for_row(&self, h: usize, mut f: impl FnMut(usize, f32)) {
        self.for_each(|i, element| {
            if i / 2 % 2 == h {
                f(i / 4 * 2 + i % 2, element);
            }
        });
    }
    #[inline(always)]
    fn map_row(&mut self, h: usize, mut f: impl FnMut(usize, f32) -> f32) {
        let of_row = |i| i / 2 % 2 == h;
        *self = self.map(|i, x| if of_row(i) { f(i / 4 * 2 + i % 2, x) } else { x });
    }
}
