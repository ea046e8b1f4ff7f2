//! Where a thread is in its block and grid, and the barrier of the whole block.

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $emulated:ident . $axis:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> u32 {
            dual! {
                ptx: core::arch::nvptx::$intrinsic() as u32,
                emulator: cuda_emulator::thread::$emulated().$axis,
            }
        }
    )*};
}

indices! {
    /// The thread's index in its block, along x.
    thread_idx_x, _thread_idx_x, thread_idx.x;
    /// The thread's index in its block, along y.
    thread_idx_y, _thread_idx_y, thread_idx.y;
    /// The thread's index in its block, along z.
    thread_idx_z, _thread_idx_z, thread_idx.z;
    /// The block's index in the grid, along x.
    block_idx_x, _block_idx_x, block_idx.x;
    /// The block's index in the grid, along y.
    block_idx_y, _block_idx_y, block_idx.y;
    /// The block's index in the grid, along z.
    block_idx_z, _block_idx_z, block_idx.z;
    /// Threads in a block, along x.
    block_dim_x, _block_dim_x, block_dim.x;
    /// Threads in a block, along y.
    block_dim_y, _block_dim_y, block_dim.y;
    /// Threads in a block, along z.
    block_dim_z, _block_dim_z, block_dim.z;
    /// Blocks in the grid, along x.
    grid_dim_x, _grid_dim_x, grid_dim.x;
    /// Blocks in the grid, along y.
    grid_dim_y, _grid_dim_y, grid_dim.y;
    /// Blocks in the grid, along z.
    grid_dim_z, _grid_dim_z, grid_dim.z;
}

/// Waits for all the threads of the block, and orders their memory accesses (`bar.sync 0`).
///
/// # Safety
/// Convergent: all the threads of the block.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    dual! {
        ptx: crate::intrinsics::barrier_sync_all(0),
        emulator: cuda_emulator::barrier::sync(0, None),
    }
}
