//! Asynchronous copies to shared memory.

use cuda_std::{
    bulk_copy, cache::Policy, cp_async, fence, global, kernel, mbarrier, shared, thread,
};

/// Each thread copies 16 bytes, 8 and 4, each in a group of its own and of which only the first
/// `bytes_read` are read, and takes each back after the wait for its group.
#[kernel(launch_bounds(64, 1), arch = "sm_80")]
pub unsafe fn cp_async(
    from: *const [u32; 4],
    to_16: *mut [u32; 4],
    to_8: *mut [u32; 2],
    to_4: *mut u32,
    bytes_read: u32,
) {
    let i = thread::thread_idx_x() as usize;
    let slot = shared::dynamic() + 32 * i as u32;
    let clip = |size: u32| if bytes_read < size { bytes_read } else { size };
    // SAFETY: elements of the thread's own; shared memory of 32 bytes a thread.
    unsafe {
        let from = from.add(i).cast::<u8>();
        cp_async::copy_16(slot, from, clip(16));
        cp_async::commit();
        cp_async::copy_8(slot + 16, from, clip(8));
        cp_async::commit();
        cp_async::copy_4(slot + 24, from, clip(4));
        cp_async::commit();
        cp_async::wait::<2>();
        global::store(to_16.add(i), shared::load::<[u32; 4]>(slot));
        cp_async::wait::<1>();
        global::store(to_8.add(i), shared::load::<[u32; 2]>(slot + 16));
        cp_async::wait::<0>();
        global::store(to_4.add(i), shared::load::<u32>(slot + 24));
    }
}

/// A tile of the block's, shared after the wait by a barrier: the mirror image.
#[kernel(launch_bounds(64, 1), arch = "sm_80")]
pub unsafe fn cp_async_tile(from: *const [u32; 4], to: *mut [u32; 4]) {
    let (i, last) = (thread::thread_idx_x(), thread::block_dim_x() - 1);
    // SAFETY: elements of the thread's own; shared memory of 16 bytes a thread, ordered by the
    // wait and the block's barrier.
    unsafe {
        let from = from.add(i as usize).cast::<u8>();
        cp_async::copy_16(shared::dynamic() + 16 * i, from, 16);
        cp_async::commit();
        cp_async::wait::<0>();
        thread::sync_threads();
        let value: [u32; 4] = shared::load(shared::dynamic() + 16 * (last - i));
        global::store(to.add(i as usize), value);
    }
}

/// The block's values, which its first thread asks for in one piece.
#[kernel(launch_bounds(64, 1), arch = "sm_90")]
pub unsafe fn bulk_prefetch(from: *const [u32; 4], to: *mut [u32; 4]) {
    let (i, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: an element for each thread, to be read, and one of the thread's own.
    unsafe {
        if i == 0 {
            bulk_copy::prefetch(from.cast(), 16 * threads);
        }
        global::store(to.add(i as usize), global::load(from.add(i as usize)));
    }
}

/// The block's values, copied in bulk by its first thread in pieces of `bytes` bytes: the mirror image.
#[kernel(launch_bounds(64, 1), arch = "sm_90")]
pub unsafe fn bulk_copy_tile(from: *const [u32; 4], to: *mut [u32; 4], bytes: u32) {
    let (i, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let (barrier, values) = (shared::dynamic(), shared::dynamic() + 16);
    // SAFETY: elements of the thread's own; shared memory of 16 bytes a thread behind the barrier,
    // whose one phase expects all that is copied.
    unsafe {
        if i == 0 {
            mbarrier::init(barrier, 1);
            fence::proxy_async();
            mbarrier::arrive_expect_tx(barrier, 16 * threads);
            let mut begin = 0;
            while begin < 16 * threads {
                let piece = from.cast::<u8>().add(begin as usize);
                bulk_copy::load(values + begin, piece, bytes, barrier, Policy::evict_last());
                begin += bytes;
            }
        }
        thread::sync_threads();
        mbarrier::wait(barrier, 0);
        let value: [u32; 4] = shared::load(values + 16 * (threads - 1 - i));
        global::store(to.add(i as usize), value);
    }
}
