//! Products of matrices by a warp (`mma.sync`). From sm_80.
//!
//! A warp computes `d = a b + c`; its lanes hold the matrices. With `g = lane / 4` and
//! `t = lane % 4`, and pairs of 16-bit elements with the first in the low half:
//!
//! | matrix | size | lane's element `i` | row | column |
//! |---|---|---|---|---|
//! | a, 16 bits | 16 x 16 | half `h` of word `i` | `g + 8 (i % 2)` | `2 t + h + 8 (i / 2)` |
//! | b, 16 bits | 16 x 8 | half `h` of word `i` | `2 t + h + 8 i` | `g` |
//! | a, tf32 | 16 x 8 | word `i` | `g + 8 (i % 2)` | `t + 4 (i / 2)` |
//! | b, tf32 | 8 x 8 | word `i` | `t + 4 i` | `g` |
//! | c, d, f32 | 16 x 8 | element `i` | `g + 8 (i / 2)` | `2 t + i % 2` |
//!
//! So d of one product, rounded to pairs, is half of a's columns in the next: words 0 and 1 of a are
//! elements 0 and 1, 2 and 3 of a tile of d, words 2 and 3 those of the tile to its right.

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident, $ptx:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Convergent: the whole warp.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            dual! { ptx: ptx::$ptx(a, b, c), emulator: cuda_emulator::mma::$name(a, b, c) }
        }
    )*};
}

products! {
    /// 16 x 16 by 16 x 8, of f16, accumulated in f32 (`mma.sync.m16n8k16`).
    m16n8k16_f16, f16;
    /// 16 x 16 by 16 x 8, of bf16, accumulated in f32 (`mma.sync.m16n8k16`).
    m16n8k16_bf16, bf16;
    /// 16 x 8 by 8 x 8, of f32 of which only the upper 19 bits count, accumulated in f32
    /// (`mma.sync.m16n8k8`).
    m16n8k8_tf32, tf32;
}

#[cfg(target_arch = "nvptx64")]
mod ptx {
    use crate::intrinsics;

    macro_rules! by_intrinsic {
        ($($name:ident: $intrinsic:ident;)*) => {$(
            #[inline(always)]
            pub unsafe fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
                // SAFETY: the caller's.
                let d = unsafe {
                    intrinsics::$intrinsic(
                        a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3],
                    )
                };
                d.array()
            }
        )*};
    }

    by_intrinsic! {
        bf16: mma_m16n8k16_bf16;
        tf32: mma_m16n8k8_tf32;
    }

    /// LLVM's intrinsic takes vectors of halves, which Rust passes to no foreign function.
    #[inline(always)]
    pub unsafe fn f16(
        a: [u32; 4],
        b: [u32; 2],
        [mut w, mut x, mut y, mut z]: [f32; 4],
    ) -> [f32; 4] {
        // SAFETY: the caller's.
        unsafe {
            core::arch::asm!(
                concat!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{w}, {x}, {y}, {z}}}, ",
                    "{{{}, {}, {}, {}}}, {{{}, {}}}, {{{w}, {x}, {y}, {z}}};",
                ),
                in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                in(reg32) b[0], in(reg32) b[1],
                w = inout(reg32) w, x = inout(reg32) x, y = inout(reg32) y, z = inout(reg32) z,
                options(nomem, nostack),
            );
        }
        [w, x, y, z]
    }
}
