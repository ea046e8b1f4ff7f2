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

    /// Calls `f` with the row, number and value of each element, fragment by fragment: of each row two
    /// elements, of the first before those of the second.
    fn for_each(&self, f: impl FnMut(usize, usize, f32));

    /// Makes each element what `f` says of its row, number and value, in the same order.
    fn map(&mut self, f: impl FnMut(usize, usize, f32) -> f32);
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
    #[inline(always)]
    fn for_each(&self, mut f: impl FnMut(usize, usize, f32)) {
        unroll!(n in COUNT, up to 32 => {
            unroll!(i in 4 => {
                f(i / 2, 2 * n + i % 2, self[n][i]);
            });
        });
    }
    #[inline(always)]
    fn map(&mut self, mut f: impl FnMut(usize, usize, f32) -> f32) {
        unroll!(n in COUNT, up to 32 => {
            unroll!(i in 4 => {
                self[n][i] = f(i / 2, 2 * n + i % 2, self[n][i]);
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
        Accumulator::for_each(self, |i, element| {
            if i / 2 % 2 == h {
                f(i / 4 * 2 + i % 2, element);
            }
        });
    }
    #[inline(always)]
    fn map_row(&mut self, h: usize, mut f: impl FnMut(usize, f32) -> f32) {
        let of_row = |i| i / 2 % 2 == h;
        *self = Accumulator::map(*self, |i, x| if of_row(i) { f(i / 4 * 2 + i % 2, x) } else { x });
    }
    #[inline(always)]
    fn for_each(&self, mut f: impl FnMut(usize, usize, f32)) {
        Accumulator::for_each(self, |i, element| f(i / 2 % 2, i / 4 * 2 + i % 2, element));
    }
    #[inline(always)]
    fn map(&mut self, mut f: impl FnMut(usize, usize, f32) -> f32) {
        *self = Accumulator::map(*self, |i, element| f(i / 2 % 2, i / 4 * 2 + i % 2, element));
    }
}
