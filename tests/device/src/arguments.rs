//! How arguments reach a kernel.

use cuda_std::{global, kernel, thread::thread_idx_x};

/// An argument by value, of mixed sizes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Affine {
    /// A small field before a large one: padding between.
    pub shift: u8,
    /// The factor.
    pub factor: f64,
    /// A pair, indexed by constants only.
    pub offsets: [u32; 2],
    /// An element for each thread.
    pub from: *const u32,
}

/// `factor * (from[i] << shift) + offsets[0] - offsets[1]`
#[kernel(launch_bounds(32, 1))]
pub unsafe fn by_value(affine: Affine, to: *mut f64) {
    let i = thread_idx_x() as usize;
    // SAFETY: elements of the thread's own.
    unsafe {
        let x: u32 = global::load_cached(affine.from.add(i));
        let scaled = affine.factor * (x << (affine.shift & 31)) as f64;
        global::store(to.add(i), scaled + affine.offsets[0] as f64 - affine.offsets[1] as f64);
    }
}

/// No arguments.
#[kernel(launch_bounds(32, 1))]
pub unsafe fn nothing() {}

/// Twelve arguments, the most there can be; the sum of the others.
#[kernel(launch_bounds(32, 1))]
#[allow(clippy::too_many_arguments)]
pub unsafe fn twelve(
    to: *mut u64,
    a: u8,
    b: u16,
    c: u32,
    d: u64,
    e: i32,
    f: bool,
    g: u8,
    h: u64,
    i: u16,
    j: u32,
    k: u8,
) {
    let small = a as u64 + b as u64 + g as u64 + i as u64 + k as u64 + f as u64;
    let sum = small.wrapping_add(c as u64 + j as u64).wrapping_add(d).wrapping_add(h);
    // SAFETY: the only thread that writes there.
    unsafe {
        if thread_idx_x() == 0 {
            global::store(to, sum.wrapping_add(e as i64 as u64));
        }
    }
}

/// A line from each of the first `lines` threads.
#[cfg(any(not(target_arch = "nvptx64"), feature = "print"))]
#[kernel(launch_bounds(32, 1))]
pub unsafe fn print(lines: u32) {
    let i = thread_idx_x();
    if i < lines {
        cuda_std::println!("100% of {}, {}, {} and {}", i, -(i as i32), 0.5f32, u64::MAX);
    }
}
