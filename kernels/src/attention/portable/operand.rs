//! The products of each element type.

use super::{key_order, swizzle::Swizzle};
use crate::{
    attention::{bias::BiasElement, online_softmax::Fragment},
    marks,
    numbers::Element,
};
use cuda_std::{convert, hint, matrix, mma, shared};
use half::{bf16, f16};

/// An element type that tensor cores multiply.
///
/// A *step* of a product is what two chunks of a row hold: 16 elements of 16 bits, or 8 of f32.
pub trait Operand: BiasElement + Element<Accumulator = f32> {
    /// Fragments of probabilities in a step of the second product.
    const FRAGMENTS: usize;

    /// a b + c, of 16 rows and a step by a step and 8 columns.
    ///
    /// # Safety
    /// Convergent: the whole warp.
    unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment;

    /// Is a product made of parts, small and large?
    const SPLITS: bool = false;

    /// The same of a product's small parts, or of its large one: all there is, where it has none.
    ///
    /// # Safety
    /// As for [`Operand::multiply`].
    #[inline(always)]
    #[track_caller]
    unsafe fn multiply_part<const SMALL: bool>(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
        Self::multiply(a, b, c)
    }

    /// The same for the second product: values may come out unchanged, where a row sees one key.
    ///
    /// # Safety
    /// As for [`Operand::multiply`].
    #[inline(always)]
    #[track_caller]
    unsafe fn accumulate(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
        Self::multiply(a, b, c)
    }

    /// Probabilities as the left operand of the second product: the step's first fragment and its
    /// last.
    fn left(first: Fragment, last: Fragment) -> [u32; 4];

    /// That operand with zeros for what is not marked as kept, a word of marks for each of the two
    /// rows.
    fn keep(left: [u32; 4], kept: [u32; 2]) -> [u32; 4];

    /// The right operands of the second product, for 16 columns from column `16 * pair` on and the
    /// step whose first row of values is at `row`. `layout` is that of keys.
    ///
    /// # Safety
    /// Convergent: the whole warp. The rows must be there.
    unsafe fn right(layout: Swizzle, row: u32, lane: u32, pair: usize) -> [[u32; 2]; 2];

    /// Puts two neighbouring columns of a lane's row of output, those of fragment `n`, into shared
    /// memory: `row` is the address of the row's first chunk in the first group.
    ///
    /// # Safety
    /// The place must be free.
    unsafe fn stage(layout: Swizzle, row: u32, lane: u32, n: usize, columns: [f32; 2]);
}

macro_rules! halves {
    ($($T:ident: $multiply:ident, $pack:ident;)*) => {$(
        impl Operand for $T {
            const FRAGMENTS: usize = 2;

            #[inline(always)]
            #[track_caller]
            unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
                mma::$multiply(a, b, c)
            }
            #[inline(always)]
            fn left(first: Fragment, last: Fragment) -> [u32; 4] {
                [
                    convert::$pack(first[0], first[1]),
                    convert::$pack(first[2], first[3]),
                    convert::$pack(last[0], last[1]),
                    convert::$pack(last[2], last[3]),
                ]
            }
            #[inline(always)]
            fn keep(left: [u32; 4], kept: [u32; 2]) -> [u32; 4] {
                let [upper, lower] = kept.map(marks::halves);
                [left[0] & upper[0], left[1] & lower[0], left[2] & upper[1], left[3] & lower[1]]
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn right(layout: Swizzle, row: u32, lane: u32, pair: usize) -> [[u32; 2]; 2] {
                let [a, b, c, d] =
                    matrix::load_4_transposed(row + layout.values(lane, 2 * pair as u32));
                [[a, b], [c, d]]
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn stage(layout: Swizzle, row: u32, lane: u32, n: usize, columns: [f32; 2]) {
                let to = layout.along(row, n as u32) + lane % 4 * 4;
                shared::store(to, convert::$pack(columns[0], columns[1]));
            }
        }
    )*};
}

halves! {
    f16: m16n8k16_f16, pack_f16x2;
    bf16: m16n8k16_bf16, pack_bf16x2;
}

/// An f32 as the sum of two tf32, but for 2^-22 of it: each is rounded to the 10 bits of a tf32's
/// fraction. The second keeps lower bits, which do not count in a product.
#[inline(always)]
fn split(x: u32) -> (u32, u32) {
    // Half of the last place that counts; the carry does the rest.
    const HALF: u32 = 0x1000;
    let large = x.wrapping_add(HALF) & !0x1fff;
    let rest = f32::from_bits(x) - f32::from_bits(large);
    (large, rest.to_bits().wrapping_add(HALF))
}

/// Three products of tf32 for one of f32: that of the two small parts would not count. The second
/// product has a fourth, of what the two parts of a value lack.
///
/// Tensor cores cut off what has no place in a sum, always towards zero, which adds up: they sum
/// few products, and small parts before large ones; such sums are added by additions, which round.
impl Operand for f32 {
    const FRAGMENTS: usize = 1;
    const SPLITS: bool = true;

    #[inline(always)]
    #[track_caller]
    unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
        Self::multiply_part::<false>(a, b, Self::multiply_part::<true>(a, b, c))
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn multiply_part<const SMALL: bool>(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
        let (a, b) = (a.map(split), b.map(split));
        let large = a.map(|(large, _)| large);
        let of_b = b.map(|(large, _)| large);
        if SMALL {
            let c = mma::m16n8k8_tf32(a.map(|(_, small)| small), of_b, c);
            mma::m16n8k8_tf32(large, b.map(|(_, small)| small), c)
        } else {
            mma::m16n8k8_tf32(large, of_b, c)
        }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn accumulate(a: [u32; 4], b: [u32; 2], c: Fragment) -> Fragment {
        let rest = b.map(|b| {
            let (large, small) = split(b);
            let of_large = f32::from_bits(b) - f32::from_bits(large);
            (of_large - f32::from_bits(small & !0x1fff)).to_bits()
        });
        let rests = mma::m16n8k8_tf32(a.map(|a| split(a).0), rest, [0.0; 4]);
        let step = Self::multiply(a, b, rests);
        // Not only where the output is used next: until then, steps would take registers.
        hint::opaque([0, 1, 2, 3].map(|i| c[i] + step[i]))
    }
    /// What stands in column 2 t of the fragment is in column t of the operand, what stands in column
    /// 2 t + 1 in column t + 4: a sum has no order.
    #[inline(always)]
    fn left(first: Fragment, _: Fragment) -> [u32; 4] {
        [first[0].to_bits(), first[2].to_bits(), first[1].to_bits(), first[3].to_bits()]
    }
    #[inline(always)]
    fn keep(left: [u32; 4], kept: [u32; 2]) -> [u32; 4] {
        let [upper, lower] = kept.map(marks::words);
        [left[0] & upper[0], left[1] & lower[0], left[2] & upper[1], left[3] & lower[1]]
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn right(layout: Swizzle, row: u32, lane: u32, pair: usize) -> [[u32; 2]; 2] {
        let (g, t) = (lane / 4, lane % 4);
        let at = |key: u32, n: u32| {
            let column = layout.address(g % 4 * 4, key, g / 4);
            shared::load::<u32>(row + layout.along(column, 4 * pair as u32 + 2 * n))
        };
        let (even, odd) = (key_order::key(2 * t), key_order::key(2 * t + 1));
        [[at(even, 0), at(odd, 0)], [at(even, 1), at(odd, 1)]]
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn stage(layout: Swizzle, row: u32, lane: u32, n: usize, columns: [f32; 2]) {
        let t = lane % 4;
        let to = layout.along(row ^ (t / 2 * 16), 2 * n as u32) + t % 2 * 8;
        shared::store(to, columns);
    }
}
