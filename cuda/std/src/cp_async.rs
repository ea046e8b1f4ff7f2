//! Asynchronous copies from global to shared memory, by each thread for itself. From sm_80.
//!
//! A thread's copies form groups, closed by [`commit`]. [`wait`] makes the thread's own copies
//! visible to itself; a barrier after it, to the block.

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal, $code:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Reads only the first `bytes_read` bytes, and fills the rest with zeros.
        ///
        /// # Safety
        /// Both addresses are aligned to the copy's size. `from` is valid for `bytes_read` bytes
        /// of global memory until the copy has been waited for; until then nobody touches the
        /// bytes at `to`. `bytes_read` is at most the copy's size.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(to: u32, from: *const u8, bytes_read: u32) {
            dual! {
                ptx: core::arch::asm!(
                    concat!("cp.async.", $code, ".shared.global [{}], [{}], ", $bytes, ", {};"),
                    in(reg32) to, in(reg64) from, in(reg32) bytes_read, options(nostack),
                ),
                emulator: cuda_emulator::copy::cp_async(to, from, $bytes, bytes_read as usize),
            }
        }
    )*};
}

copies! {
    /// Copies 16 bytes, past L1.
    copy_16, 16, "cg";
    /// Copies 8 bytes.
    copy_8, 8, "ca";
    /// Copies 4 bytes.
    copy_4, 4, "ca";
}

/// Closes a group of the thread's copies since the last one.
#[inline(always)]
pub fn commit() {
    dual! {
        ptx: core::arch::asm!("cp.async.commit_group;", options(nostack)),
        emulator: cuda_emulator::copy::commit(),
    }
}

/// Waits until at most `PENDING` of the thread's groups, the last ones, are still under way.
#[inline(always)]
pub fn wait<const PENDING: u32>() {
    dual! {
        ptx: core::arch::asm!("cp.async.wait_group {};", const PENDING, options(nostack)),
        emulator: cuda_emulator::copy::wait(PENDING as usize),
    }
}
