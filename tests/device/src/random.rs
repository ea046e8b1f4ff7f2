//! Random numbers.

use cuda_std::{global, kernel, random, thread::thread_idx_x};

/// The words of each thread's counter and key.
#[kernel(launch_bounds(64, 1))]
pub unsafe fn philox4x32_10(counters: *const [u32; 4], keys: *const [u32; 2], to: *mut [u32; 4]) {
    let i = thread_idx_x() as usize;
    // SAFETY: elements of the thread's own.
    unsafe {
        let (counter, key) =
            (global::load_cached(counters.add(i)), global::load_cached(keys.add(i)));
        global::store(to.add(i), random::philox4x32_10(counter, key));
    }
}
