//! Launching kernels on the emulator.

use crate::{
    fault::Fault,
    sched::{Emulator, run_grid},
};
use cuda_launch::{Kernel, KernelArgs, LaunchConfig, Launcher};

impl Launcher for Emulator {
    type Error = Fault;

    unsafe fn launch<Args: KernelArgs>(
        &self,
        kernel: &Kernel<Args>,
        config: LaunchConfig,
        args: Args,
    ) -> Result<(), Fault> {
        let LaunchConfig { grid, block, shared_bytes, .. } = config;
        args.with_pointers(|p| {
            // SAFETY: the pointers are to the arguments that the kernel's type names; their
            // validity for the kernel is the caller's promise.
            unsafe {
                run_grid(self, grid, block, shared_bytes as usize, kernel.entry(), p.as_ptr())
            }
        })
    }
}
