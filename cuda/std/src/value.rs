//! What one load or store instruction moves.

/// A scalar, or a vector of 2 or 4 scalars up to 16 bytes, that one instruction loads or stores.
///
/// A vector must be aligned to its whole size, unlike the array type that it is in Rust.
pub trait Value: Copy + access::Access + 'static {}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod access {
    /// Keeps `Value` closed.
    pub trait Access {}
    impl<T: super::Value> Access for T {}
}

#[cfg(target_arch = "nvptx64")]
pub(crate) mod access {
    /// The instructions, by state space: without one a load is generic, and slower.
    ///
    /// Loads of what is constant while the kernel runs (`nc`) are pure, so that they may be moved
    /// and merged; all others keep their order.
    pub trait Access: Sized {
        unsafe fn load_shared(addr: u32) -> Self;
        unsafe fn store_shared(addr: u32, value: Self);
        unsafe fn load_cluster(addr: u32) -> Self;
        unsafe fn store_cluster(addr: u32, value: Self);
        unsafe fn load_global(addr: *const Self) -> Self;
        unsafe fn load_global_nc(addr: *const Self) -> Self;
        unsafe fn store_global(addr: *mut Self, value: Self);
        unsafe fn load_global_if(condition: bool, addr: *const Self, value: Self) -> Self;
        unsafe fn load_global_nc_if(condition: bool, addr: *const Self, value: Self) -> Self;
    }
}

/// A load into the registers `$part`, of the class `$class`.
#[cfg(target_arch = "nvptx64")]
macro_rules! load {
    (
        $code:expr, $addr:ident in $addr_class:ident,
        options($($option:ident),+), $Part:ty, $class:ident, [$($part:ident)+], $value:expr
    ) => {{
        $(let $part: $Part;)+
        // SAFETY: the caller's.
        unsafe {
            core::arch::asm!(
                $code,
                $($part = out($class) $part,)+
                addr = in($addr_class) $addr,
                options($($option),+),
            )
        }
        $value
    }};
}

/// A store of the registers `$part`, of the class `$class`.
#[cfg(target_arch = "nvptx64")]
macro_rules! store {
    ($code:expr, $addr:ident in $addr_class:ident, $class:ident, [$($part:ident)+], $parts:expr) => {{
        let ($($part,)+) = $parts;
        // SAFETY: the caller's.
        unsafe {
            core::arch::asm!(
                $code,
                $($part = in($class) $part,)+
                addr = in($addr_class) $addr,
                options(nostack),
            )
        }
    }};
}

/// A load into the registers `$part` where `condition` holds; else they keep `$parts`.
#[cfg(target_arch = "nvptx64")]
macro_rules! load_if {
    (
        $code:expr, $condition:ident, $addr:ident,
        options($($option:ident),+), $class:ident, [$($part:ident)+], $value:expr, $parts:expr
    ) => {{
        let ($(mut $part,)+) = $parts;
        // SAFETY: the caller's.
        unsafe {
            core::arch::asm!(
                "{{ .reg .pred p; setp.ne.u32 p, {condition}, 0;",
                $code,
                "}}",
                $($part = inout($class) $part,)+
                condition = in(reg32) $condition as u32,
                addr = in(reg64) $addr,
                options($($option),+),
            )
        }
        $value
    }};
}

#[cfg(target_arch = "nvptx64")]
macro_rules! access {
    (
        $kind:literal, $registers:literal, ($Part:ty, $class:ident, $parts:tt),
        $pattern:pat, $from:expr, $to:expr;
        loads { $($load:ident, $ld:literal, $LdAddr:ty, $ld_class:ident, $options:tt;)* }
        stores { $($store:ident, $st:literal, $StAddr:ty, $st_class:ident;)* }
        loads_if { $($load_if:ident, $ld_if:literal, $options_if:tt;)* }
    ) => {
        $(
            #[inline(always)]
            unsafe fn $load(addr: $LdAddr) -> Self {
                load!(
                    concat!($ld, ".", $kind, " ", $registers, ", [{addr}];"),
                    addr in $ld_class, options $options, $Part, $class, $parts, $from
                )
            }
        )*
        $(
            #[inline(always)]
            unsafe fn $store(addr: $StAddr, $pattern: Self) {
                store!(
                    concat!($st, ".", $kind, " [{addr}], ", $registers, ";"),
                    addr in $st_class, $class, $parts, $to
                )
            }
        )*
        $(
            #[inline(always)]
            unsafe fn $load_if(condition: bool, addr: *const Self, $pattern: Self) -> Self {
                load_if!(
                    concat!("@p ", $ld_if, ".", $kind, " ", $registers, ", [{addr}];"),
                    condition, addr, options $options_if, $class, $parts, $from, $to
                )
            }
        )*
    };
}

macro_rules! values {
    ($(
        $T:ty: $kind:literal, $registers:literal, $layout:tt, $pattern:pat, $from:expr, $to:expr;
    )*) => {$(
        impl Value for $T {}

        #[cfg(target_arch = "nvptx64")]
        impl access::Access for $T {
            access! {
                $kind, $registers, $layout, $pattern, $from, $to;
                loads {
                    load_shared, "ld.shared", u32, reg32, (readonly, nostack);
                    load_cluster, "ld.shared::cluster", u32, reg32, (readonly, nostack);
                    load_global, "ld.global", *const Self, reg64, (readonly, nostack);
                    load_global_nc, "ld.global.nc", *const Self, reg64, (pure, nomem, nostack);
                }
                stores {
                    store_shared, "st.shared", u32, reg32;
                    store_cluster, "st.shared::cluster", u32, reg32;
                    store_global, "st.global", *mut Self, reg64;
                }
                loads_if {
                    load_global_nc_if, "ld.global.nc", (pure, nomem, nostack);
                    load_global_if, "ld.global", (readonly, nostack);
                }
            }
        }
    )*};
}

values! {
    u8: "u8", "{a}", (u32, reg32, [a]), value, a as u8, (value as u32,);
    u16: "b16", "{a}", (u16, reg16, [a]), value, a, (value,);
    u32: "b32", "{a}", (u32, reg32, [a]), value, a, (value,);
    i32: "b32", "{a}", (i32, reg32, [a]), value, a, (value,);
    f32: "b32", "{a}", (f32, reg32, [a]), value, a, (value,);
    u64: "b64", "{a}", (u64, reg64, [a]), value, a, (value,);
    f64: "b64", "{a}", (f64, reg64, [a]), value, a, (value,);
    [u32; 2]: "v2.b32", "{{{a}, {b}}}", (u32, reg32, [a b]), [x, y], [a, b], (x, y);
    [f32; 2]: "v2.b32", "{{{a}, {b}}}", (f32, reg32, [a b]), [x, y], [a, b], (x, y);
    [u64; 2]: "v2.b64", "{{{a}, {b}}}", (u64, reg64, [a b]), [x, y], [a, b], (x, y);
    [f64; 2]: "v2.b64", "{{{a}, {b}}}", (f64, reg64, [a b]), [x, y], [a, b], (x, y);
    [u32; 4]: "v4.b32", "{{{a}, {b}, {c}, {d}}}", (u32, reg32, [a b c d]),
        [x, y, z, w], [a, b, c, d], (x, y, z, w);
    [f32; 4]: "v4.b32", "{{{a}, {b}, {c}, {d}}}", (f32, reg32, [a b c d]),
        [x, y, z, w], [a, b, c, d], (x, y, z, w);
}
