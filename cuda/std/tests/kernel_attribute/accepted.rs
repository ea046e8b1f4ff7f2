//! Kernels from macros, with attributes, and with structs by value.

#![allow(unexpected_cfgs)]

use cuda_launch::{Kernel, LaunchConfig, Launcher};
use cuda_std::kernel;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Shape {
    pub rows: u64,
    pub columns: u32,
}

#[inline(always)]
unsafe fn body<T: Copy, const N: usize>(_values: *mut T, _shape: Shape) {}

macro_rules! instances {
    ($($(#[$doc:meta])* $name:ident: $T:ty, $n:literal, $threads:literal;)*) => {$(
        $(#[$doc])*
        #[kernel(launch_bounds($threads, 1), arch = "sm_80")]
        pub unsafe fn $name(values: *mut $T, shape: Shape) {
            unsafe { body::<$T, $n>(values, shape) }
        }
    )*};
}

instances! {
    /// Documented.
    instance_f32: f32, 4, 128;
    #[allow(dead_code)]
    instance_f64: f64, 2, 1024;
}

#[kernel(launch_bounds(32, 32),)]
unsafe fn reassigns(mut count: u32, _: bool) {
    count += 1;
    let _ = count;
}

fn launches<L: Launcher>(launcher: &L, shape: Shape) -> Result<(), L::Error> {
    let config = LaunchConfig::new(1, 32);
    unsafe {
        launcher.launch(&instance_f32, config, (std::ptr::null_mut(), shape))?;
        launcher.launch(&reassigns, config, (3, true))
    }
}

fn main() {
    let kernel: &Kernel<(*mut f64, Shape)> = &instance_f64;
    assert_eq!(kernel.name(), "instance_f64");
    assert_eq!(kernel.bounds().threads, 1024);
    assert_eq!(kernel.arch(), "sm_80");
    let _ = launches::<Nowhere>;
}

struct Nowhere;

impl Launcher for Nowhere {
    type Error = ();

    unsafe fn launch<Args: cuda_launch::KernelArgs>(
        &self,
        _: &Kernel<Args>,
        _: LaunchConfig,
        _: Args,
    ) -> Result<(), ()> {
        Ok(())
    }
}
