//! Loads and stores of each type.

use cuda_std::{Value, global, kernel, shared, thread};

macro_rules! memory {
    ($($kernel:ident, $conditional:ident: $T:ty;)*) => {$(
        /// Each thread's value through `pass_on`.
        #[kernel(launch_bounds(64, 1))]
        pub unsafe fn $kernel(from: *const $T, to: *mut $T) {
            // SAFETY: promised by this kernel's caller.
            unsafe { pass_on(from, to) }
        }

        /// The values of some threads through `pass_on_some`.
        #[kernel(launch_bounds(64, 1))]
        pub unsafe fn $conditional(from: *const $T, otherwise: *const $T, to: *mut $T, some: u32) {
            // SAFETY: promised by this kernel's caller.
            unsafe { pass_on_some(from, otherwise, to, some) }
        }
    )*};
}

memory! {
    memory_u8, conditional_u8: u8;
    memory_u16, conditional_u16: u16;
    memory_u32, conditional_u32: u32;
    memory_i32, conditional_i32: i32;
    memory_f32, conditional_f32: f32;
    memory_u64, conditional_u64: u64;
    memory_f64, conditional_f64: f64;
    memory_u32x2, conditional_u32x2: [u32; 2];
    memory_u32x4, conditional_u32x4: [u32; 4];
    memory_f32x2, conditional_f32x2: [f32; 2];
    memory_f32x4, conditional_f32x4: [f32; 4];
    memory_u64x2, conditional_u64x2: [u64; 2];
    memory_f64x2, conditional_f64x2: [f64; 2];
}

/// `to` has four elements for each thread: its own value by each kind of load of global memory, then
/// its mirror image's by way of shared memory.
#[inline(always)]
unsafe fn pass_on<T: Value>(from: *const T, to: *mut T) {
    let (i, last) = (thread::thread_idx_x(), thread::block_dim_x() - 1);
    let address = |i| shared::dynamic() + i * size_of::<T>() as u32;
    // SAFETY: elements of the thread's own; shared memory of one value for each thread, ordered
    // by the block's barrier.
    unsafe {
        let (from, to) = (from.add(i as usize), to.add(4 * i as usize));
        global::store(to, global::load(from));
        global::store(to.add(1), global::load_cached(from));
        global::store(to.add(2), global::load(to.add(1)));
        shared::store(address(i), global::load(to.add(2)));
        thread::sync_threads();
        global::store(to.add(3), shared::load::<T>(address(last - i)));
    }
}

/// `to` has two elements for each thread: its own value by each kind of conditional load, or the one
/// from `otherwise`, depending on the thread's bit in `some`.
#[inline(always)]
unsafe fn pass_on_some<T: Value>(from: *const T, otherwise: *const T, to: *mut T, some: u32) {
    let i = thread::thread_idx_x();
    let (chosen, i) = (some >> (i % 32) & 1 == 1, i as usize);
    // SAFETY: elements of the thread's own, of which those not chosen do not exist.
    unsafe {
        let other = global::load_cached(otherwise.add(i));
        let from = if chosen { from.add(i) } else { core::ptr::null() };
        global::store(to.add(2 * i), global::load_cached_if(chosen, from, other));
        global::store(to.add(2 * i + 1), global::load_if(chosen, from, other));
    }
}

/// Each thread's value, which it asks for before it loads it.
#[kernel(launch_bounds(64, 1))]
pub unsafe fn fetch(from: *const u32, to: *mut u32) {
    let i = thread::thread_idx_x() as usize;
    // SAFETY: elements of the thread's own.
    unsafe {
        global::fetch(from.add(i).cast());
        global::store(to.add(i), global::load(from.add(i)));
    }
}
