//! Loops over register arrays.
//!
//! An array stays in registers only if each of its indices is a constant before LLVM splits
//! aggregates into scalars; otherwise it lands in local memory. `unroll!` writes the loop out, so
//! that this holds by construction and needs no compiler flag.

/// `unroll!(i in COUNT { .. })`: the body once for each `i` in `0..COUNT`, `COUNT` a constant of
/// at most 8.
#[macro_export]
macro_rules! unroll {
    ($i:ident in $count:expr => $body:block) => {
        $crate::unroll!(@ $i $count, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $count:expr, $body:block, $($constant:literal)*) => {
        const { assert!($count <= 8) };
        $(
            if $constant < $count {
                let $i: usize = $constant;
                $body
            }
        )*
    };
}
