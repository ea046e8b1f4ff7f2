//! Where a thread is in its block and grid.

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $emulated:ident . $axis:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> u32 {
            dual! {
                // SAFETY: reads a special register.
                ptx: unsafe { core::arch::nvptx::$intrinsic() as u32 },
                emulator: cuda_emulator::thread::$emulated().$axis,
            }
        }
    )*};
}

indices! {
    /// The thread's index in its block, along x.
    thread_idx_x, _thread_idx_x, thread_idx.x;
    /// The block's index in the grid, along x.
    block_idx_x, _block_idx_x, block_idx.x;
    /// Threads in a block, along x.
    block_dim_x, _block_dim_x, block_dim.x;
    /// Blocks in the grid, along x.
    grid_dim_x, _grid_dim_x, grid_dim.x;
}
