//! Copies of tiles of tensors between global and shared memory, by one instruction of one thread.
//! From sm_90, PTX 8.0.
//!
//! A [`TensorMap`] says what tensor, of 2 to 5 dimensions, what tile, and how it lies in shared memory.
//! The host makes it; a kernel takes it by value, as an argument that it finds by
//! [`tensor_map!`](crate::tensor_map). Coordinates are the elements that a tile begins with, that of
//! the first dimension, whose elements are neighbours, first: there a multiple of 16 bytes. They may be
//! past the end, and those of loads negative: what is outside of the tensor is 0 in shared memory, and is
//! not stored to global memory. Stores are cut off at whole 16 bytes only: past the end of rows that are
//! no multiple of that, they would overwrite what is behind.
//!
//! Loads report to an [`mbarrier`](crate::mbarrier), whose phase must expect all the bytes of a tile
//! ([`arrive_expect_tx`](crate::mbarrier::arrive_expect_tx)), those outside too. Stores form groups
//! of the thread that issues them, closed by [`commit`], for which [`wait_read`] and [`wait`] wait.
//!
//! Where one thread of a warp copies beside convergent instructions, it does so by [`load_if`] and
//! [`store_if`], which need no branch: see `docs/device-code.md`.

#[cfg(not(target_arch = "nvptx64"))]
pub use cuda_launch::TensorMap;

/// A tensor in global memory and the tile that a copy takes from it.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone, Copy)]
// The hardware wants 64, which the compiler cannot give a kernel's argument: `cuda_builder` does.
#[repr(C, align(16))]
pub struct TensorMap([u64; 16]);

/// Where a tile begins, in each dimension of its tensor: `[i32; 2]` to `[i32; 5]`. In the first it
/// begins at a multiple of 16 bytes: at another, the hardware stops the kernel.
pub trait Coordinates: Copy + sealed::Sealed {
    /// The instruction.
    ///
    /// # Safety
    /// That of [`load_if`].
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_if(self, condition: bool, to: u32, map: *const TensorMap, mbarrier: u32);

    /// The instruction.
    ///
    /// # Safety
    /// That of [`load_multicast_if`].
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn load_multicast_if(
        self,
        condition: bool,
        to: u32,
        map: *const TensorMap,
        mbarrier: u32,
        blocks: u16,
    );

    /// The instruction.
    ///
    /// # Safety
    /// That of [`store_if`].
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn store_if(self, condition: bool, map: *const TensorMap, from: u32);

    /// As the emulator has them.
    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[doc(hidden)]
    fn as_slice(&self) -> &[i32];
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! coordinates {
    ($($count:literal, $dimensions:literal, $list:literal, [$($x:ident)+];)*) => {$(
        impl sealed::Sealed for [i32; $count] {}

        impl Coordinates for [i32; $count] {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_if(self, condition: bool, to: u32, map: *const TensorMap, mbarrier: u32) {
                let [$($x),+] = self;
                // SAFETY: the caller's.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred p; setp.ne.u32 p, {condition}, 0;",
                        concat!(
                            "@p cp.async.bulk.tensor.", $dimensions, ".shared::cluster.global.tile",
                            ".mbarrier::complete_tx::bytes [{to}], [{map}, ", $list,
                            "], [{mbarrier}]; }}",
                        ),
                        condition = in(reg32) condition as u32,
                        to = in(reg32) to,
                        map = in(reg64) map,
                        mbarrier = in(reg32) mbarrier,
                        $($x = in(reg32) $x,)+
                        options(nostack),
                    );
                }
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_multicast_if(
                self,
                condition: bool,
                to: u32,
                map: *const TensorMap,
                mbarrier: u32,
                blocks: u16,
            ) {
                let [$($x),+] = self;
                // SAFETY: the caller's.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred p; setp.ne.u32 p, {condition}, 0;",
                        concat!(
                            "@p cp.async.bulk.tensor.", $dimensions, ".shared::cluster.global.tile",
                            ".mbarrier::complete_tx::bytes.multicast::cluster [{to}], [{map}, ",
                            $list, "], [{mbarrier}], {blocks}; }}",
                        ),
                        condition = in(reg32) condition as u32,
                        to = in(reg32) to,
                        map = in(reg64) map,
                        mbarrier = in(reg32) mbarrier,
                        blocks = in(reg16) blocks,
                        $($x = in(reg32) $x,)+
                        options(nostack),
                    );
                }
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_if(self, condition: bool, map: *const TensorMap, from: u32) {
                let [$($x),+] = self;
                // SAFETY: the caller's.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred p; setp.ne.u32 p, {condition}, 0;",
                        concat!(
                            "@p cp.async.bulk.tensor.", $dimensions, ".global.shared::cta.tile",
                            ".bulk_group [{map}, ", $list, "], [{from}]; }}",
                        ),
                        condition = in(reg32) condition as u32,
                        from = in(reg32) from,
                        map = in(reg64) map,
                        $($x = in(reg32) $x,)+
                        options(nostack),
                    );
                }
            }

            #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
            #[inline(always)]
            fn as_slice(&self) -> &[i32] {
                self
            }
        }
    )*};
}

coordinates! {
    2, "2d", "{{{x}, {y}}}", [x y];
    3, "3d", "{{{x}, {y}, {z}}}", [x y z];
    4, "4d", "{{{x}, {y}, {z}, {u}}}", [x y z u];
    5, "5d", "{{{x}, {y}, {z}, {u}, {v}}}", [x y z u v];
}

/// Brings a tensor map to where copies look for it, and waits for nothing (`prefetch.tensormap`).
///
/// # Safety
/// `map` comes from [`tensor_map!`](crate::tensor_map), and has been made for this device.
#[inline(always)]
#[track_caller]
pub unsafe fn prefetch(map: *const TensorMap) {
    dual! {
        ptx: core::arch::asm!("prefetch.tensormap [{}];", in(reg64) map, options(nostack)),
        emulator: cuda_emulator::copy::prefetch_tensor_map(map),
    }
}

/// Loads the tile at these coordinates, and tells the barrier of the block's own at `mbarrier` when it
/// is there.
///
/// # Safety
/// `map` comes from [`tensor_map!`](crate::tensor_map), has been made for this device, and has as
/// many dimensions as there are coordinates. Its tensor is valid, and nobody stores there, until the
/// phase has ended. `to` is aligned to 128, and to 8 rows of the swizzle's length; until the phase
/// has ended nobody touches the tile there, and what threads did there before is ordered before by
/// [`proxy_async`](crate::fence::proxy_async). The barrier's initialisation is, too.
#[inline(always)]
#[track_caller]
pub unsafe fn load(to: u32, map: *const TensorMap, coordinates: impl Coordinates, mbarrier: u32) {
    // SAFETY: the caller's.
    unsafe { load_if(true, to, map, coordinates, mbarrier) }
}

/// [`load`] where `condition` holds, without a branch.
///
/// # Safety
/// As for [`load`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_if(
    condition: bool,
    to: u32,
    map: *const TensorMap,
    coordinates: impl Coordinates,
    mbarrier: u32,
) {
    dual! {
        ptx: coordinates.load_if(condition, to, map, mbarrier),
        emulator: if condition {
            cuda_emulator::copy::tma_load(to, map, coordinates.as_slice(), mbarrier);
        },
    }
}

/// Loads the tile at these coordinates into several blocks of the cluster, those whose ranks' bits are
/// set in `blocks`, and tells a barrier in each: the tile and the barrier are at the same addresses of
/// all of them. For kernels compiled for sm_90a: the assembler says that it may be slow elsewhere.
///
/// # Safety
/// As for [`load`], in each of the blocks, which have all started and not ended.
#[inline(always)]
#[track_caller]
pub unsafe fn load_multicast(
    to: u32,
    map: *const TensorMap,
    coordinates: impl Coordinates,
    mbarrier: u32,
    blocks: u16,
) {
    // SAFETY: the caller's.
    unsafe { load_multicast_if(true, to, map, coordinates, mbarrier, blocks) }
}

/// [`load_multicast`] where `condition` holds, without a branch.
///
/// # Safety
/// As for [`load_multicast`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn load_multicast_if(
    condition: bool,
    to: u32,
    map: *const TensorMap,
    coordinates: impl Coordinates,
    mbarrier: u32,
    blocks: u16,
) {
    dual! {
        ptx: coordinates.load_multicast_if(condition, to, map, mbarrier, blocks),
        emulator: if condition {
            cuda_emulator::copy::tma_load_multicast(
                to, map, coordinates.as_slice(), mbarrier, blocks,
            );
        },
    }
}

/// Stores the tile at `from` at these coordinates.
///
/// # Safety
/// `map` comes from [`tensor_map!`](crate::tensor_map), has been made for this device, and has as
/// many dimensions as there are coordinates. None of those is negative, and if the tile reaches past
/// the end of the first dimension, that is a multiple of 16 bytes. The tensor is valid for writes, and
/// nobody else touches the tile there, until it has been waited for. `from` is aligned as for [`load`], and what threads
/// stored there is ordered before by [`proxy_async`](crate::fence::proxy_async) and a barrier. The
/// thread waits for the store's group before it ends.
#[inline(always)]
#[track_caller]
pub unsafe fn store(map: *const TensorMap, coordinates: impl Coordinates, from: u32) {
    // SAFETY: the caller's.
    unsafe { store_if(true, map, coordinates, from) }
}

/// [`store`] where `condition` holds, without a branch.
///
/// # Safety
/// As for [`store`], where `condition` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn store_if(
    condition: bool,
    map: *const TensorMap,
    coordinates: impl Coordinates,
    from: u32,
) {
    dual! {
        ptx: coordinates.store_if(condition, map, from),
        emulator: if condition {
            cuda_emulator::copy::tma_store(map, coordinates.as_slice(), from);
        },
    }
}

/// Closes a group of the thread's stores since the last one.
#[inline(always)]
#[track_caller]
pub fn commit() {
    dual! {
        ptx: core::arch::asm!("cp.async.bulk.commit_group;", options(nostack)),
        emulator: cuda_emulator::copy::bulk_commit(),
    }
}

/// Waits until at most `PENDING` of the thread's groups, the last ones, may still be reading shared
/// memory: what the others store from may be overwritten.
#[inline(always)]
#[track_caller]
pub fn wait_read<const PENDING: u32>() {
    dual! {
        ptx: core::arch::asm!(
            "cp.async.bulk.wait_group.read {};", const PENDING, options(nostack),
        ),
        emulator: cuda_emulator::copy::bulk_wait_read(PENDING as usize),
    }
}

/// Waits until at most `PENDING` of the thread's groups, the last ones, are under way: what the others
/// store is in global memory, for the thread to see.
#[inline(always)]
#[track_caller]
pub fn wait<const PENDING: u32>() {
    dual! {
        ptx: core::arch::asm!("cp.async.bulk.wait_group {};", const PENDING, options(nostack)),
        emulator: cuda_emulator::copy::bulk_wait(PENDING as usize),
    }
}

/// `tensor_map!(kernel, index, argument)`: the address of the tensor map that `kernel` takes as its
/// argument of this index, counted from 0. To be used in that kernel itself, and only so:
/// anything else that is done with the argument copies it to where the hardware cannot use it.
///
/// ```ignore
/// #[kernel(launch_bounds(128, 1), arch = "sm_90")]
/// pub unsafe fn first_tile(from: TensorMap, to: *mut u32) {
///     let from = tensor_map!(first_tile, 0, from);
///     // .. tma::load(address, from, [0, 0], barrier) ..
/// }
/// ```
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! tensor_map {
    ($kernel:ident, $index:literal, $argument:ident) => {{
        let _ = $argument;
        let map: *const $crate::tma::TensorMap;
        // SAFETY: only takes an address, which stays valid while the kernel runs.
        unsafe {
            ::core::arch::asm!(
                concat!(
                    "{{ .reg .b64 param; mov.b64 param, ", stringify!($kernel), "_param_", $index,
                    "; cvta.param.u64 {}, param; }}",
                ),
                out(reg64) map,
                options(pure, nomem, nostack),
            );
        }
        map
    }};
}

/// `tensor_map!(kernel, index, argument)`: the address of the tensor map that `kernel` takes as its
/// argument of this index, counted from 0. To be used in that kernel itself, and only so:
/// anything else that is done with the argument copies it to where the hardware cannot use it.
///
/// ```ignore
/// #[kernel(launch_bounds(128, 1), arch = "sm_90")]
/// pub unsafe fn first_tile(from: TensorMap, to: *mut u32) {
///     let from = tensor_map!(first_tile, 0, from);
///     // .. tma::load(address, from, [0, 0], barrier) ..
/// }
/// ```
#[cfg(not(target_arch = "nvptx64"))]
#[macro_export]
macro_rules! tensor_map {
    ($kernel:ident, $index:literal, $argument:ident) => {
        &raw const $argument
    };
}
