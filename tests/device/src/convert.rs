//! Conversions to and from 16 bits. These kernels run in many blocks, and take the number of
//! elements.

use cuda_std::{bits, convert, global, kernel, thread};

macro_rules! conversions {
    ($($kernel:ident, $arch:literal: |$x:ident: $From:ty| -> $To:ty $f:block)*) => {$(
        /// The conversion of each element.
        #[kernel(launch_bounds(256, 1), arch = $arch)]
        pub unsafe fn $kernel(from: *const $From, to: *mut $To, count: u32) {
            let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
            if i < count {
                // SAFETY: elements of the thread's own.
                unsafe {
                    let $x = global::load_cached(from.add(i as usize));
                    global::store(to.add(i as usize), $f);
                }
            }
        }
    )*};
}

conversions! {
    // Each value of 16 bits, its f16 and its bf16.
    widen, "sm_70": |x: u32| -> [f32; 2] {
        [convert::f16_to_f32(x as u16), convert::bf16_to_f32(x as u16)]
    }
    // A pair of f16 and a pair of bf16.
    unpack, "sm_70": |x: u32| -> [f32; 4] {
        let ([a, b], [c, d]) = (convert::unpack_f16x2(x), convert::unpack_bf16x2(x));
        [a, b, c, d]
    }
    // The maxima of pairs of f16, and of pairs of bf16.
    maxima, "sm_80": |x: [u32; 2]| -> [u32; 2] {
        [convert::max_f16x2(x[0], x[1]), convert::max_bf16x2(x[0], x[1])]
    }
    // Bytes of a pair of words: picked from both; top bits spread over 16 bits, and over 32.
    permute, "sm_70": |x: [u32; 2]| -> [u32; 4] {
        [
            bits::permute::<0x4172>(x[0], x[1]),
            bits::permute::<0x9988>(x[0], x[1]),
            bits::permute::<0xbbaa>(x[0], x[1]),
            bits::permute::<0xeeee>(x[0], x[1]),
        ]
    }
    // Bytes of a pair of words, picked by the second one.
    permute_by, "sm_70": |x: [u32; 2]| -> u32 {
        bits::permute_by(x[0], x[1], x[1])
    }
    // One value to f16 and bf16; packed with its negation.
    narrow_sm_70, "sm_70": |x: f32| -> [u32; 4] {
        narrow(x)
    }
    narrow_sm_80, "sm_80": |x: f32| -> [u32; 4] {
        narrow(x)
    }
}

#[inline(always)]
fn narrow(x: f32) -> [u32; 4] {
    [
        convert::f32_to_f16(x) as u32,
        convert::f32_to_bf16(x) as u32,
        convert::pack_f16x2(x, -0.5 * x),
        convert::pack_bf16x2(x, -0.5 * x),
    ]
}
