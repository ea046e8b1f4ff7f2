//! What the L2 cache is told about the lines of an access. From sm_80.

/// Which lines are to be evicted before others.
#[derive(Clone, Copy)]
pub struct Policy(#[cfg(target_arch = "nvptx64")] u64);

impl Policy {
    /// Lines are evicted after all others.
    ///
    /// Worth it for what a kernel reads only once, too: kernels that read and write as fast as
    /// memory allows are 3 % faster on an H200, and those that follow them not slower.
    #[inline(always)]
    pub fn evict_last() -> Self {
        dual! {
            ptx: {
                let policy: u64;
                // SAFETY: only makes a number.
                unsafe {
                    core::arch::asm!(
                        "createpolicy.fractional.L2::evict_last.b64 {}, 1.0;",
                        out(reg64) policy, options(pure, nomem, nostack),
                    );
                }
                Policy(policy)
            },
            emulator: Policy(),
        }
    }

    /// The operand of instructions.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn operand(self) -> u64 {
        self.0
    }
}
