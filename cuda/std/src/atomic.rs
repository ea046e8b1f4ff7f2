//! Atomic operations on global memory, relaxed, at the scope of the GPU. Each returns the value
//! before.

macro_rules! atomics {
    ($($T:ty, $class:ident {
        $($(#[$doc:meta])* $name:ident($($operand:ident),+), $code:literal;)*
    })*) => {$($(
        $(#[$doc])*
        ///
        /// # Safety
        /// `to` is aligned and valid for reads and writes in global memory, and all concurrent
        /// accesses to it are atomic.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(to: *mut $T, $($operand: $T),+) -> $T {
            dual! {
                ptx: {
                    let before: $T;
                    core::arch::asm!(
                        concat!("atom.global.", $code, " {before}, [{to}]" $(, ", {", stringify!($operand), "}")+, ";"),
                        before = out($class) before,
                        to = in(reg64) to,
                        $($operand = in($class) $operand,)+
                        options(nostack),
                    );
                    before
                },
                emulator: cuda_emulator::atomic::$name(to, $($operand),+),
            }
        }
    )*)*};
}

atomics! {
    u32, reg32 {
        /// Adds, modulo 2^32.
        add_u32(value), "add.u32";
        /// Keeps the smaller value.
        min_u32(value), "min.u32";
        /// Keeps the larger value.
        max_u32(value), "max.u32";
        /// Bitwise and.
        and_u32(value), "and.b32";
        /// Bitwise or.
        or_u32(value), "or.b32";
        /// Bitwise exclusive or.
        xor_u32(value), "xor.b32";
        /// Puts the value in.
        exchange_u32(value), "exch.b32";
        /// Puts the value in if `compare` is there.
        cas_u32(compare, value), "cas.b32";
    }
    i32, reg32 {
        /// Adds, modulo 2^32.
        add_i32(value), "add.s32";
        /// Keeps the smaller value.
        min_i32(value), "min.s32";
        /// Keeps the larger value.
        max_i32(value), "max.s32";
        /// Puts the value in.
        exchange_i32(value), "exch.b32";
        /// Puts the value in if `compare` is there.
        cas_i32(compare, value), "cas.b32";
    }
    u64, reg64 {
        /// Adds, modulo 2^64.
        add_u64(value), "add.u64";
        /// Keeps the smaller value.
        min_u64(value), "min.u64";
        /// Keeps the larger value.
        max_u64(value), "max.u64";
        /// Puts the value in.
        exchange_u64(value), "exch.b64";
        /// Puts the value in if `compare` is there.
        cas_u64(compare, value), "cas.b64";
    }
    f32, reg32 {
        /// Adds, rounding to nearest; subnormal values count as zero.
        add_f32(value), "add.f32";
        /// Puts the value in.
        exchange_f32(value), "exch.b32";
    }
    f64, reg64 {
        /// Adds, rounding to nearest.
        add_f64(value), "add.f64";
        /// Puts the value in.
        exchange_f64(value), "exch.b64";
    }
}
