//! Elementary functions. These kernels run in many blocks, and take the number of elements.

use cuda_std::{global, kernel, math, thread};

macro_rules! functions {
    ($($kernel:ident: $f:expr, $T:ty, $arch:literal;)*) => {$(
        /// The function of each element.
        #[kernel(launch_bounds(256, 1), arch = $arch)]
        pub unsafe fn $kernel(from: *const $T, to: *mut $T, count: u32) {
            let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
            if i < count {
                let f: fn($T) -> $T = $f;
                // SAFETY: elements of the thread's own.
                unsafe {
                    let x = global::load_cached(from.add(i as usize));
                    global::store(to.add(i as usize), f(x));
                }
            }
        }
    )*};
}

functions! {
    exp2: math::exp2, f32, "sm_70";
    log2: math::log2, f32, "sm_70";
    rcp: math::rcp, f32, "sm_70";
    fma: |x| math::fma(x, x, -1.0), f32, "sm_70";
    tanh: math::tanh, f32, "sm_80";
    exp_f64: math::exp_f64, f64, "sm_70";
    ln_f64: math::ln_f64, f64, "sm_70";
}
