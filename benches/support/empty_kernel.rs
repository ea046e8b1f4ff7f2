//! A kernel that does nothing: what the driver takes for any launch.

use crate::{Gpu, Result};
use cust::sys::{
    CUfunction, CUmodule, CUresult, cuLaunchKernel, cuModuleGetFunction, cuModuleLoadData,
    cuModuleUnload, cudaError_enum,
};
use std::ptr::null_mut;

const PTX: &[u8] =
    b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n\0";

/// A kernel that does nothing.
pub struct EmptyKernel {
    module: CUmodule,
    function: CUfunction,
}

impl EmptyKernel {
    /// Loads it into the context that `gpu` keeps current.
    ///
    /// # Errors
    /// The driver cannot.
    pub fn load(_gpu: &Gpu) -> Result<Self> {
        let (mut module, mut function): (CUmodule, CUfunction) = (null_mut(), null_mut());
        // SAFETY: a context is current; the text and the name end with a zero; the pointers are to
        // handles to be set.
        unsafe {
            check(cuModuleLoadData(&mut module, PTX.as_ptr().cast()))?;
            check(cuModuleGetFunction(&mut function, module, c"nothing".as_ptr()))?;
        }
        Ok(EmptyKernel { module, function })
    }

    /// Enqueues one block of it, by nothing but the driver's own call.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, gpu: &Gpu) -> Result<()> {
        let stream = gpu.stream.as_raw().cast();
        // SAFETY: the function takes no arguments; the stream is of its context.
        check(unsafe {
            cuLaunchKernel(self.function, 1, 1, 1, 128, 1, 1, 0, stream, null_mut(), null_mut())
        })
    }
}

impl Drop for EmptyKernel {
    fn drop(&mut self) {
        // SAFETY: made by `load`, and waited for by whoever measures. An error has nobody to go to.
        let _ = unsafe { cuModuleUnload(self.module) };
    }
}

fn check(status: CUresult) -> Result<()> {
    match status {
        cudaError_enum::CUDA_SUCCESS => Ok(()),
        status => Err(format!("the driver says {status:?}").into()),
    }
}
