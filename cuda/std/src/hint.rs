//! Hints to the optimiser, which compute nothing.

/// A value in registers of 32 or 64 bits each.
pub trait Registers: Copy {
    /// The same value.
    fn opaque(self) -> Self;
}

macro_rules! registers {
    ($($T:ty: $class:ident;)*) => {$(
        impl Registers for $T {
            #[inline(always)]
            fn opaque(self) -> Self {
                dual! {
                    ptx: {
                        let mut value = self;
                        // SAFETY: no instruction at all.
                        unsafe {
                            core::arch::asm!(
                                "/* {0} */", inout($class) value, options(nomem, nostack)
                            );
                        }
                        value
                    },
                    emulator: self,
                }
            }
        }
    )*};
}

registers! {
    u32: reg32;
    f32: reg32;
    i64: reg64;
    f64: reg64;
}

impl<T: Registers, const N: usize> Registers for [T; N] {
    #[inline(always)]
    fn opaque(self) -> Self {
        self.map(Registers::opaque)
    }
}

/// The same value, of which the optimiser no longer knows where it comes from: what is computed
/// from it is computed anew, instead of being kept in registers since it was computed first.
#[inline(always)]
pub fn opaque<T: Registers>(value: T) -> T {
    value.opaque()
}
