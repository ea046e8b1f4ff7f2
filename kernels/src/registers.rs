//! Loops over register arrays.
//!
//! An array stays in registers only if each of its indices is a constant before LLVM splits
//! aggregates into scalars; otherwise it lands in local memory. `unroll!` writes the loop out, so
//! that this holds by construction and needs no compiler flag.

/// `unroll!(i in COUNT => { .. })`: the body once for each `i` in `0..COUNT`, `COUNT` a constant of
/// at most 8; with `unroll!(i in COUNT, up to 32 => { .. })` of at most 32, and likewise with 16, 4
/// and 2. The body is compiled as many times, so nested loops should say how few they need.
#[macro_export]
macro_rules! unroll {
    ($i:ident in 2 => $body:block) => {
        $crate::unroll!($i in 2, up to 2 => $body)
    };
    ($i:ident in 4 => $body:block) => {
        $crate::unroll!($i in 4, up to 4 => $body)
    };
    ($i:ident in $count:expr => $body:block) => {
        $crate::unroll!(@ $i $count, $body, 8: 0 1 2 3 4 5 6 7)
    };
    ($i:ident in $count:expr, up to 2 => $body:block) => {
        $crate::unroll!(@ $i $count, $body, 2: 0 1)
    };
    ($i:ident in $count:expr, up to 4 => $body:block) => {
        $crate::unroll!(@ $i $count, $body, 4: 0 1 2 3)
    };
    ($i:ident in $count:expr, up to 16 => $body:block) => {
        $crate::unroll!(@ $i $count, $body, 16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($i:ident in $count:expr, up to 32 => $body:block) => {
        $crate::unroll!(
            @ $i $count, $body,
            32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        )
    };
    (@ $i:ident $count:expr, $body:block, $most:literal: $($constant:literal)*) => {
        const { assert!($count <= $most) };
        $(
            if $constant < $count {
                let $i: usize = $constant;
                $body
            }
        )*
    };
}
