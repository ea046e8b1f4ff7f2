//! The sizes of products, and what is written out for each: elements, and the instructions.

#[cfg(target_arch = "nvptx64")]
use super::{Element, Order};

/// A thread's registers of the sums of 64 x N: `[f32; N / 2]` for every N that there is, the multiples
/// of 8 up to 256.
pub trait Shape: Copy + sealed::Sealed {
    /// Of each element, by its number and what it is, what it is to be.
    #[doc(hidden)]
    fn map_elements(self, f: impl FnMut(usize, f32) -> f32) -> Self;

    /// Calls the closure with each element's number and value.
    #[doc(hidden)]
    fn for_each_element(&self, f: impl FnMut(usize, f32));

    /// A product with a in shared memory.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn start_shared<E: Element, A: Order, B: Order>(a: u64, b: u64) -> Self;

    /// A product with a in registers.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn start_registers<E: Element, B: Order>(a: [u32; 4], b: u64) -> Self;

    /// Adds a product with a in shared memory, after a fence if `FENCE`.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn add_shared<E: Element, A: Order, B: Order, const FENCE: bool>(
        self,
        keep: bool,
        a: u64,
        b: u64,
    ) -> Self;

    /// Adds a product with a in registers, after a fence if `FENCE`.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn add_registers<E: Element, B: Order, const FENCE: bool>(
        self,
        keep: bool,
        a: [u32; 4],
        b: u64,
    ) -> Self;

    /// Waits until at most `PENDING` groups are under way. The registers go through the
    /// instruction, so that nothing reads them before.
    ///
    /// # Safety
    /// That of [`InFlight::wait`](super::InFlight::wait).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn wait<const PENDING: u32>(self) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

/// The instruction, with the registers `$sums` as `$direction`.
#[cfg(target_arch = "nvptx64")]
macro_rules! wgmma {
    (
        $E:ident, $fence:literal, $n:tt, $direction:ident $sums:ident [$first:tt $($i:tt)*],
        $a:literal, $orders:literal, $operands:tt
    ) => {
        if $E::IS_BF16 {
            wgmma!(
                @ "bf16.bf16", $fence, $n, $direction $sums [$first $($i)*], $a, $orders, $operands
            )
        } else {
            wgmma!(
                @ "f16.f16", $fence, $n, $direction $sums [$first $($i)*], $a, $orders, $operands
            )
        }
    };
    (
        @ $types:literal, $fence:literal, $n:tt, $direction:ident $sums:ident [$first:tt $($i:tt)*],
        $a:literal, $orders:literal, ($($operands:tt)*)
    ) => {
        core::arch::asm!(
            concat!(
                "{{ .reg .pred p; setp.ne.b32 p, {keep}, 0; ", $fence,
                "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $types,
                " {{{", $first, "}", $(", {", $i, "}",)* "}}, ", $a, ", {b}, p, 1, 1, ", $orders,
                "; }}",
            ),
            $direction(reg32) $sums[$first],
            $($direction(reg32) $sums[$i],)*
            $($operands)*,
            options(nostack),
        )
    };
}

macro_rules! shape {
    ($registers:tt, $n:tt, [$first:tt $($i:tt)*]) => {
        impl sealed::Sealed for [f32; $registers] {}

        impl Shape for [f32; $registers] {
            #[inline(always)]
            fn map_elements(self, mut f: impl FnMut(usize, f32) -> f32) -> Self {
                [f($first, self[$first]), $(f($i, self[$i])),*]
            }

            #[inline(always)]
            fn for_each_element(&self, mut f: impl FnMut(usize, f32)) {
                f($first, self[$first]);
                $(f($i, self[$i]);)*
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn start_shared<E: Element, A: Order, B: Order>(a: u64, b: u64) -> Self {
                let mut sums = [0.; $registers];
                // SAFETY: the caller's.
                unsafe {
                    wgmma!(
                        E, "wgmma.fence.sync.aligned; ", $n, out sums [$first $($i)*], "{a}",
                        "{order_a}, {order_b}",
                        (
                            keep = const 0, a = in(reg64) a, b = in(reg64) b,
                            order_a = const A::TRANSPOSED, order_b = const B::TRANSPOSED
                        )
                    )
                }
                sums
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn start_registers<E: Element, B: Order>(a: [u32; 4], b: u64) -> Self {
                let mut sums = [0.; $registers];
                // SAFETY: the caller's.
                unsafe {
                    wgmma!(
                        E, "wgmma.fence.sync.aligned; ", $n, out sums [$first $($i)*],
                        "{{{a0}, {a1}, {a2}, {a3}}}", "{order_b}",
                        (
                            keep = const 0, a0 = in(reg32) a[0], a1 = in(reg32) a[1],
                            a2 = in(reg32) a[2], a3 = in(reg32) a[3], b = in(reg64) b,
                            order_b = const B::TRANSPOSED
                        )
                    )
                }
                sums
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn add_shared<E: Element, A: Order, B: Order, const FENCE: bool>(
                self,
                keep: bool,
                a: u64,
                b: u64,
            ) -> Self {
                let mut sums = self;
                // SAFETY: the caller's.
                unsafe {
                    add!(
                        FENCE, E, $n, sums [$first $($i)*], "{a}", "{order_a}, {order_b}",
                        (
                            keep = in(reg32) keep as u32, a = in(reg64) a, b = in(reg64) b,
                            order_a = const A::TRANSPOSED, order_b = const B::TRANSPOSED
                        )
                    )
                }
                sums
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn add_registers<E: Element, B: Order, const FENCE: bool>(
                self,
                keep: bool,
                a: [u32; 4],
                b: u64,
            ) -> Self {
                let mut sums = self;
                // SAFETY: the caller's.
                unsafe {
                    add!(
                        FENCE, E, $n, sums [$first $($i)*], "{{{a0}, {a1}, {a2}, {a3}}}",
                        "{order_b}",
                        (
                            keep = in(reg32) keep as u32, a0 = in(reg32) a[0],
                            a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
                            b = in(reg64) b, order_b = const B::TRANSPOSED
                        )
                    )
                }
                sums
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn wait<const PENDING: u32>(self) -> Self {
                let mut sums = self;
                // SAFETY: the caller's.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "wgmma.wait_group.sync.aligned {pending}; /* {", $first, "}",
                            $(" {", $i, "}",)* " */",
                        ),
                        inout(reg32) sums[$first],
                        $(inout(reg32) sums[$i],)*
                        pending = const PENDING,
                        options(nostack),
                    )
                }
                sums
            }
        }
    };
}

/// The instruction that adds, after a fence if `$FENCE`.
#[cfg(target_arch = "nvptx64")]
macro_rules! add {
    (
        $FENCE:ident, $E:ident, $n:tt, $sums:ident $i:tt, $a:literal, $orders:literal, $operands:tt
    ) => {
        if $FENCE {
            wgmma!(
                $E, "wgmma.fence.sync.aligned; ", $n, inout $sums $i, $a, $orders, $operands
            )
        } else {
            wgmma!($E, "", $n, inout $sums $i, $a, $orders, $operands)
        }
    };
}

/// Registers and columns of each size, and the numbers of the registers that the one before has not.
macro_rules! shapes {
    ([$($before:tt)*]) => {};
    ([$($before:tt)*] $registers:tt $n:tt: $i:tt $j:tt $k:tt $l:tt; $($rest:tt)*) => {
        shape! { $registers, $n, [$($before)* $i $j $k $l] }
        shapes! { [$($before)* $i $j $k $l] $($rest)* }
    };
}

shapes! {
    []
    4 8: 0 1 2 3;
    8 16: 4 5 6 7;
    12 24: 8 9 10 11;
    16 32: 12 13 14 15;
    20 40: 16 17 18 19;
    24 48: 20 21 22 23;
    28 56: 24 25 26 27;
    32 64: 28 29 30 31;
    36 72: 32 33 34 35;
    40 80: 36 37 38 39;
    44 88: 40 41 42 43;
    48 96: 44 45 46 47;
    52 104: 48 49 50 51;
    56 112: 52 53 54 55;
    60 120: 56 57 58 59;
    64 128: 60 61 62 63;
    68 136: 64 65 66 67;
    72 144: 68 69 70 71;
    76 152: 72 73 74 75;
    80 160: 76 77 78 79;
    84 168: 80 81 82 83;
    88 176: 84 85 86 87;
    92 184: 88 89 90 91;
    96 192: 92 93 94 95;
    100 200: 96 97 98 99;
    104 208: 100 101 102 103;
    108 216: 104 105 106 107;
    112 224: 108 109 110 111;
    116 232: 112 113 114 115;
    120 240: 116 117 118 119;
    124 248: 120 121 122 123;
    128 256: 124 125 126 127;
}
