//! Atomic operations and fences. These kernels run in many blocks.

use cuda_std::{
    atomic, fence, global, kernel, shared,
    thread::{self, thread_idx_x},
};

#[inline(always)]
fn global_index() -> usize {
    (thread::block_idx_x() * thread::block_dim_x() + thread_idx_x()) as usize
}

macro_rules! atomics {
    ($($kernel:ident: $T:ty;)*) => {$(
        /// Each thread applies its value to the cell, and writes down what it found there. `from`
        /// and `found` have an element for each thread of the grid.
        #[kernel(launch_bounds(128, 1))]
        pub unsafe fn $kernel(from: *const $T, cell: *mut $T, found: *mut $T) {
            let i = global_index();
            // SAFETY: elements of the thread's own; only atomic operations on the cell.
            unsafe {
                let value = global::load_cached(from.add(i));
                global::store(found.add(i), atomic::$kernel(cell, value));
            }
        }
    )*};
}

atomics! {
    add_u32: u32;
    min_u32: u32;
    max_u32: u32;
    and_u32: u32;
    or_u32: u32;
    xor_u32: u32;
    exchange_u32: u32;
    add_i32: i32;
    min_i32: i32;
    max_i32: i32;
    exchange_i32: i32;
    add_u64: u64;
    min_u64: u64;
    max_u64: u64;
    exchange_u64: u64;
    add_f32: f32;
    exchange_f32: f32;
    add_f64: f64;
    exchange_f64: f64;
}

macro_rules! compare_and_swaps {
    ($($kernel:ident: $T:ty;)*) => {$(
        /// Each thread puts its value into the cell if `compare` is there, and writes down what
        /// it found. `from` and `found` have an element for each thread of the grid.
        #[kernel(launch_bounds(128, 1))]
        pub unsafe fn $kernel(from: *const $T, cell: *mut $T, found: *mut $T, compare: $T) {
            let i = global_index();
            // SAFETY: elements of the thread's own; only atomic operations on the cell.
            unsafe {
                let value = global::load_cached(from.add(i));
                global::store(found.add(i), atomic::$kernel(cell, compare, value));
            }
        }
    )*};
}

compare_and_swaps! {
    cas_u32: u32;
    cas_i32: i32;
    cas_u64: u64;
}

/// Each block writes its sum; the last one to finish adds the sums up, in order. `from` has an
/// element for each thread of the grid, `sums` one for each block.
#[kernel(launch_bounds(32, 1))]
pub unsafe fn last_block_sums(from: *const u32, sums: *mut u32, finished: *mut u32, to: *mut u32) {
    // SAFETY: elements of the thread's own; 4 bytes of shared memory a thread, ordered by the
    // block's barrier; the fences on both sides of the counter order the sums.
    unsafe {
        let i = thread_idx_x();
        let value: u32 = global::load_cached(from.add(global_index()));
        shared::store(shared::dynamic() + 4 * i, value);
        fence::threadfence_block();
        thread::sync_threads();
        if i == 0 {
            let mut sum = 0u32;
            for j in 0..thread::block_dim_x() {
                sum = sum.wrapping_add(shared::load(shared::dynamic() + 4 * j));
            }
            global::store(sums.add(thread::block_idx_x() as usize), sum);
            fence::threadfence();
            if atomic::add_u32(finished, 1) == thread::grid_dim_x() - 1 {
                fence::threadfence();
                let mut total = 0u32;
                for block in 0..thread::grid_dim_x() {
                    total = total.wrapping_add(global::load(sums.add(block as usize)));
                }
                global::store(to, total);
            }
        }
    }
}
