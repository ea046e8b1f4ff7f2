//! Matrices between shared memory and registers, and their products. These kernels run in one warp.

use cuda_std::{global, kernel, matrix, mma, shared, thread::thread_idx_x, warp};

macro_rules! loads {
    ($($kernel:ident: $load:ident, $count:literal;)*) => {$(
        /// What each lane gets of matrices whose row `i` is value `i ^ swap`.
        #[kernel(launch_bounds(32, 1), arch = "sm_80")]
        pub unsafe fn $kernel(from: *const [u32; 4], to: *mut u32, swap: u32) {
            let i = thread_idx_x();
            // SAFETY: elements of the thread's own; shared memory of 16 bytes a lane, ordered by the
            // barrier of a whole warp.
            unsafe {
                let row: [u32; 4] = global::load_cached(from.add(i as usize));
                shared::store(shared::dynamic() + 16 * i, row);
                warp::sync_warp(warp::FULL_MASK);
                let words = matrix::$load(shared::dynamic() + 16 * (i ^ swap));
                let to = to.add($count * i as usize);
                let mut word = 0;
                while word < $count {
                    global::store(to.add(word), words[word]);
                    word += 1;
                }
            }
        }
    )*};
}

loads! {
    load_1: load_1, 1;
    load_2: load_2, 2;
    load_4: load_4, 4;
    load_1_transposed: load_1_transposed, 1;
    load_2_transposed: load_2_transposed, 2;
    load_4_transposed: load_4_transposed, 4;
}

macro_rules! stores {
    ($($kernel:ident: $store:ident, $count:literal;)*) => {$(
        /// The rows, row `i` at value `i ^ swap`, of matrices of which each lane has a part.
        #[kernel(launch_bounds(32, 1), arch = "sm_90")]
        pub unsafe fn $kernel(from: *const u32, to: *mut [u32; 4], swap: u32) {
            let i = thread_idx_x();
            // SAFETY: elements of the thread's own; shared memory of 16 bytes a lane, ordered by the
            // barriers of a whole warp.
            unsafe {
                shared::store(shared::dynamic() + 16 * i, [0u32; 4]);
                warp::sync_warp(warp::FULL_MASK);
                let from = from.add($count * i as usize);
                let mut words = [0; $count];
                let mut word = 0;
                while word < $count {
                    words[word] = global::load_cached(from.add(word));
                    word += 1;
                }
                matrix::$store(shared::dynamic() + 16 * (i ^ swap), words);
                warp::sync_warp(warp::FULL_MASK);
                let row: [u32; 4] = shared::load(shared::dynamic() + 16 * i);
                global::store(to.add(i as usize), row);
            }
        }
    )*};
}

stores! {
    store_1: store_1, 1;
    store_2: store_2, 2;
    store_4: store_4, 4;
    store_1_transposed: store_1_transposed, 1;
    store_2_transposed: store_2_transposed, 2;
    store_4_transposed: store_4_transposed, 4;
}

macro_rules! products {
    ($($kernel:ident: $product:ident;)*) => {$(
        /// The product of the lanes' a and b, plus c.
        #[kernel(launch_bounds(32, 1), arch = "sm_80")]
        pub unsafe fn $kernel(
            a: *const [u32; 4],
            b: *const [u32; 2],
            c: *const [f32; 4],
            d: *mut [f32; 4],
        ) {
            let i = thread_idx_x() as usize;
            // SAFETY: elements of the thread's own; a whole warp.
            unsafe {
                let (a, b) = (global::load_cached(a.add(i)), global::load_cached(b.add(i)));
                let product = mma::$product(a, b, global::load_cached(c.add(i)));
                global::store(d.add(i), product);
            }
        }
    )*};
}

products! {
    m16n8k16_f16: m16n8k16_f16;
    m16n8k16_bf16: m16n8k16_bf16;
    m16n8k8_tf32: m16n8k8_tf32;
}
