//! The instances of attention: element type x features x tile, from the table in
//! [`crate::tiles`].
//!
//! Entries are named `attention_forward_<element>_<features>_<tile>`; those of the definition in
//! f64 `attention_naive_<element>_exact` and `attention_naive_<element>_rounded`.

use super::{naive::naive, problem::AttentionForward};
use cuda_std::kernel;
use half::{bf16, f16};
use pastey::paste;

macro_rules! naive_entries {
    ($($Element:ident)*) => { paste! {$(
        #[doc = concat!("[`naive`] of ", stringify!($Element), ".")]
        ///
        /// # Safety
        /// That of the body.
        #[kernel(launch_bounds(128, 1))]
        pub unsafe fn [<attention_naive_ $Element _exact>](problem: AttentionForward) {
            naive::<$Element, false>(&problem)
        }

        #[doc = concat!("[`naive`] of ", stringify!($Element), ", rounded at every step.")]
        ///
        /// # Safety
        /// That of the body.
        #[kernel(launch_bounds(128, 1))]
        pub unsafe fn [<attention_naive_ $Element _rounded>](problem: AttentionForward) {
            naive::<$Element, true>(&problem)
        }
    )*}};
}

naive_entries!(f16 bf16 f32);

cuda_std::host_only! {
    use crate::tiles::AttentionTile;
    use cuda_std::host::Kernel;

    /// A row of the forward's table with its entries.
    pub struct AttentionForwardVariant {
        /// How the kernel is cut.
        pub tile: AttentionTile,
        /// By element type (f16, bf16, f32), where it has that; then plain, or with all features.
        pub kernels: [Option<[&'static Kernel<(AttentionForward,)>; 2]>; 3],
    }

    /// All of them, in order of preference.
    pub static ATTENTION_FORWARD_VARIANTS: &[AttentionForwardVariant] = &[];

    /// The definition in f64, by element type (f16, bf16, f32); then exact, or rounded at every step.
    pub static NAIVE: [[&Kernel<(AttentionForward,)>; 2]; 3] = [
        [&attention_naive_f16_exact, &attention_naive_f16_rounded],
        [&attention_naive_bf16_exact, &attention_naive_bf16_rounded],
        [&attention_naive_f32_exact, &attention_naive_f32_rounded],
    ];
}
