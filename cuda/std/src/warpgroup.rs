//! What a warpgroup does as a whole: four warps, the first of a number divisible by 4. From sm_90a.

/// Gives registers back: each thread of the warpgroup keeps `COUNT`, a multiple of 8 from 24 to 256
/// (`setmaxnreg.dec`).
///
/// The assembler then compiles what follows for so many, if it can tell by the control flow what that
/// is: a kernel does this once in each branch of one condition on the warpgroup's number.
///
/// # Safety
/// Convergent: the whole warpgroup, which has at least `COUNT` registers a thread.
#[inline(always)]
#[track_caller]
pub unsafe fn decrease_registers<const COUNT: u32>() {
    const { assert!(COUNT >= 24 && COUNT <= 256 && COUNT.is_multiple_of(8)) };
    dual! {
        ptx: core::arch::asm!(
            "setmaxnreg.dec.sync.aligned.u32 {};", const COUNT, options(nostack),
        ),
        emulator: cuda_emulator::warp::set_max_registers(COUNT),
    }
}

/// Takes registers that other warpgroups of the block have given back, and waits for them: each thread
/// of the warpgroup has `COUNT` from then on, a multiple of 8 from 24 to 256 (`setmaxnreg.inc`).
///
/// # Safety
/// Convergent: the whole warpgroup, which has at most `COUNT` registers a thread. Others give back as
/// many as that takes.
#[inline(always)]
#[track_caller]
pub unsafe fn increase_registers<const COUNT: u32>() {
    const { assert!(COUNT >= 24 && COUNT <= 256 && COUNT.is_multiple_of(8)) };
    dual! {
        ptx: core::arch::asm!(
            "setmaxnreg.inc.sync.aligned.u32 {};", const COUNT, options(nostack),
        ),
        emulator: cuda_emulator::warp::set_max_registers(COUNT),
    }
}
