//! The host's handle of a kernel.

use core::{ffi::c_void, marker::PhantomData};

/// A kernel's function compiled for the host: takes pointers to its arguments, as
/// cuLaunchKernel does, and runs one thread of the grid.
pub type Entry = unsafe fn(*const *const c_void);

/// The block size and occupancy a kernel is compiled for (`.maxntid` and `.minnctapersm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The largest number of threads in a block.
    pub threads: u32,
    /// Blocks that must fit on a multiprocessor at once, which limits registers.
    pub blocks_per_sm: u32,
}

/// The host's handle of a kernel that takes `Args`, a tuple.
#[derive(Debug)]
pub struct Kernel<Args> {
    name: &'static str,
    entry: Entry,
    bounds: LaunchBounds,
    arch: &'static str,
    args: PhantomData<fn(Args)>,
}

impl<Args> Kernel<Args> {
    /// What `#[kernel]` expands to.
    ///
    /// # Safety
    /// `entry` must take pointers to values of the types in `Args`, in order, and `name` must be
    /// the name of an entry with the same parameters, compiled for `arch`.
    pub const unsafe fn new(
        name: &'static str,
        entry: Entry,
        bounds: LaunchBounds,
        arch: &'static str,
    ) -> Self {
        Kernel { name, entry, bounds, arch, args: PhantomData }
    }

    /// The entry's name in PTX, and the stem of its file.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The function that the emulator runs for each thread.
    pub const fn entry(&self) -> Entry {
        self.entry
    }

    /// What the kernel is compiled for.
    pub const fn bounds(&self) -> LaunchBounds {
        self.bounds
    }

    /// The architecture its PTX is compiled for, and the oldest it runs on: `sm_70`, say.
    pub const fn arch(&self) -> &'static str {
        self.arch
    }
}
