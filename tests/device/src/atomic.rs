//! Atomic operations and fences. These kernels run in many blocks.

use cuda_std::{
    atomic, fence, global, kernel, shared,
    thread::{self, thread_idx_x},
};

#[inline(always)]
fn global_index() -> usize {
    (thread::block_idx_x() * thread::block_dim_x() + thread_idx_x()) as usize
}

/// Everyone's value into one sum, one maximum and one sum of floats. `from` has an element for
/// each thread of the grid.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn atomics(from: *const u32, sum: *mut u32, max: *mut u32, float: *mut f32) {
    // SAFETY: an element of the thread's own; only atomic operations on the others.
    unsafe {
        let value = global::load_cached(from.add(global_index()));
        atomic::add_u32(sum, value);
        atomic::max_u32(max, value);
        atomic::add_f32(float, (value % 16) as f32);
    }
}

/// Each thread's ticket: what the sum was before its own 1. `to` has an element for each thread
/// of the grid.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn tickets(counter: *mut u32, to: *mut u32) {
    // SAFETY: an element of the thread's own; only atomic operations on the counter.
    unsafe {
        let ticket = atomic::add_u32(counter, 1);
        global::store(to.add(global_index()), ticket);
    }
}

/// A chain: each thread puts its number plus 1 into the cell, and writes down whom it found.
#[kernel(launch_bounds(128, 1))]
pub unsafe fn exchanges(cell: *mut u32, to: *mut u32) {
    let i = global_index();
    // SAFETY: an element of the thread's own; only atomic operations on the cell.
    unsafe {
        let found = atomic::exchange_u32(cell, i as u32 + 1);
        global::store(to.add(i), found);
    }
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
