//! The instances of attention: element type x features x tile, from the table in
//! [`crate::tiles`].
//!
//! Entries are named `attention_forward_<element>_<features>_<tile>`; those of the definition in
//! f64 `attention_naive_<element>_exact` and `attention_naive_<element>_rounded`.

use super::{
    features::{Full, Masked, Plain},
    hopper::{self, forward::Maps},
    naive::naive,
    portable::cut::Cut,
    problem::AttentionForward,
};
use crate::{attention_forward_tiles, attention_hopper_forward_tiles};
use cuda_std::{kernel, tensor_map, tma::TensorMap};
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

macro_rules! forward_entries {
    ($(($tile:ident, $preference:expr, $Kind:ident, $head_dim:tt, $value_dim:tt,
        ($fragments:tt, $warps:tt, $depth:tt, $columns:tt, $keys:tt, $masked:tt, $full:tt),
        $threads:tt, $blocks:tt, $arch:tt, $reason:tt))*) => {
        $(
            entries_of_kind! {
                $Kind $tile ($fragments, $warps, $depth, $columns) $keys $masked $full $threads $blocks $arch
            }
        )*
    };
}

macro_rules! entries_of_kind {
    (Half $tile:ident $cut:tt $keys:tt $masked:tt $full:tt $($rest:tt)*) => {
        entries_of_kind! { HalfPlain $tile $cut $keys $masked $full $($rest)* }
        forward_entry! { f16 masked Masked $tile $cut $masked $($rest)* }
        forward_entry! { f16 full Full $tile $cut $full $($rest)* }
        forward_entry! { bf16 masked Masked $tile $cut $masked $($rest)* }
        forward_entry! { bf16 full Full $tile $cut $full $($rest)* }
    };
    (HalfPlain $tile:ident $cut:tt $keys:tt $masked:tt $full:tt $($rest:tt)*) => {
        forward_entry! { f16 plain Plain $tile $cut $keys $($rest)* }
        forward_entry! { bf16 plain Plain $tile $cut $keys $($rest)* }
    };
    (Single $tile:ident $cut:tt $keys:tt $masked:tt $full:tt $($rest:tt)*) => {
        forward_entry! { f32 plain Plain $tile $cut $keys $($rest)* }
        forward_entry! { f32 full Full $tile $cut $full $($rest)* }
    };
}

macro_rules! forward_entry {
    ($Element:ident $features:ident $Features:ident $tile:ident ($($cut:tt)*) $keys:tt
        $threads:tt $blocks:tt $arch:tt) => {
        paste! {
            #[doc = concat!(
                "Attention forward of ", stringify!($Element), ", ", stringify!($features),
                ", tile ", stringify!($tile), ": [`Cut::forward`]."
            )]
            ///
            /// # Safety
            /// That of the body.
            #[kernel(launch_bounds($threads, $blocks), arch = $arch)]
            pub unsafe fn [<attention_forward_ $Element _ $features _ $tile>](
                problem: AttentionForward,
            ) {
                Cut::<{ size_of::<$Element>() as u32 }, $($cut)*, $keys>::forward::<$Element, $Features>(
                    &problem,
                )
            }
        }
    };
}

attention_forward_tiles!(forward_entries);

macro_rules! hopper_entries {
    ($(($tile:ident, $Kind:ident, $preference:expr, $head_dim:tt, $value_dim:tt, $cut:tt, $threads:tt,
        $reason:tt))*) => {
        $(
            hopper_entries_of_kind! { $Kind $tile $cut $threads }
        )*
    };
}

macro_rules! hopper_entries_of_kind {
    (Plain $($rest:tt)*) => {
        hopper_entry! { f16 plain Plain $($rest)* }
        hopper_entry! { bf16 plain Plain $($rest)* }
    };
    (Masked $($rest:tt)*) => {
        hopper_entry! { f16 masked Masked $($rest)* }
        hopper_entry! { f16 full Full $($rest)* }
        hopper_entry! { bf16 masked Masked $($rest)* }
        hopper_entry! { bf16 full Full $($rest)* }
    };
}

macro_rules! hopper_entry {
    ($Element:ident $features:ident $Features:ident $tile:ident ($($cut:tt)*) $threads:tt) => {
        paste! {
            #[doc = concat!(
                "Attention forward of ", stringify!($Element), ", ", stringify!($features),
                ", tile ", stringify!($tile), ": [`hopper::cut::Cut::forward`]."
            )]
            ///
            /// # Safety
            /// That of the body.
            #[kernel(launch_bounds($threads, 1), arch = "sm_90a")]
            pub unsafe fn [<attention_forward_ $Element _ $features _ $tile>](
                q: TensorMap,
                k: TensorMap,
                v: TensorMap,
                o: TensorMap,
                problem: AttentionForward,
            ) {
                let maps = Maps {
                    q: tensor_map!([<attention_forward_ $Element _ $features _ $tile>], 0, q),
                    k: tensor_map!([<attention_forward_ $Element _ $features _ $tile>], 1, k),
                    v: tensor_map!([<attention_forward_ $Element _ $features _ $tile>], 2, v),
                    o: tensor_map!([<attention_forward_ $Element _ $features _ $tile>], 3, o),
                };
                hopper::cut::Cut::<$($cut)*>::forward::<$Element, $Features>(&problem, maps)
            }
        }
    };
}

attention_hopper_forward_tiles!(hopper_entries);

cuda_std::host_only! {
    use crate::tiles::{AttentionPreference, AttentionTile};
    use cuda_std::host::Kernel;

    /// A row of the forward's tables with its entries, which take `Arguments`.
    pub struct AttentionForwardVariant<Arguments: 'static> {
        /// How the kernel is cut.
        pub tile: AttentionTile,
        /// By element type (f16, bf16, f32); then plain, with masks, or with all features. With f32,
        /// masks are among all features.
        pub kernels: [[Option<&'static Kernel<Arguments>>; 3]; 3],
    }

    /// What a portable kernel takes.
    pub type PortableArguments = (AttentionForward,);

    /// What a kernel for Hopper takes: the maps of q, k, v and o, and the problem.
    pub type HopperArguments = (TensorMap, TensorMap, TensorMap, TensorMap, AttentionForward);

    macro_rules! forward_variants {
        ($(($tile:ident, $preference:expr, $Kind:ident, $head_dim:tt, $value_dim:tt,
            ($fragments:tt, $warps:tt, $depth:tt, $columns:tt, $keys:tt, $masked:tt, $full:tt),
            $threads:tt, $blocks:tt, $arch:tt, $reason:tt))*) => {
            /// All portable ones, in order of preference.
            pub static ATTENTION_FORWARD_VARIANTS:
                &[AttentionForwardVariant<PortableArguments>] = &[$(
                AttentionForwardVariant {
                    tile: AttentionTile {
                        name: stringify!($tile),
                        preference: {
                            use AttentionPreference::*;
                            $preference
                        },
                        head_dim: $head_dim,
                        value_dim: $value_dim,
                        rows: <cut_of_kind!($Kind $fragments, $warps, $depth, $columns, $keys)>::ROWS,
                        keys: <cut_of_kind!($Kind $fragments, $warps, $depth, $columns, $keys)>::KEY_COUNT,
                        threads: $threads,
                        blocks_per_sm: $blocks,
                        shared_bytes: [
                            <cut_of_kind!($Kind $fragments, $warps, $depth, $columns, $keys)>::SHARED_BYTES,
                            <cut_of_kind!($Kind $fragments, $warps, $depth, $columns, $masked)>::SHARED_BYTES_WITH_MASKS,
                            <cut_of_kind!($Kind $fragments, $warps, $depth, $columns, $full)>::SHARED_BYTES_WITH_MASKS,
                        ],
                        arch: $arch,
                        reason: $reason,
                    },
                    kernels: kernels_of_kind!($Kind $tile),
                },
            )*];
        };
    }

    macro_rules! cut_of_kind {
        (Half $($cut:tt)*) => { Cut<2, $($cut)*> };
        (HalfPlain $($cut:tt)*) => { Cut<2, $($cut)*> };
        (Single $($cut:tt)*) => { Cut<4, $($cut)*> };
    }

    macro_rules! kernels_of_kind {
        (Half $tile:ident) => {
            paste! {[
                [
                    Some(&[<attention_forward_f16_plain_ $tile>]),
                    Some(&[<attention_forward_f16_masked_ $tile>]),
                    Some(&[<attention_forward_f16_full_ $tile>]),
                ],
                [
                    Some(&[<attention_forward_bf16_plain_ $tile>]),
                    Some(&[<attention_forward_bf16_masked_ $tile>]),
                    Some(&[<attention_forward_bf16_full_ $tile>]),
                ],
                [None; 3],
            ]}
        };
        (HalfPlain $tile:ident) => {
            paste! {[
                [Some(&[<attention_forward_f16_plain_ $tile>]), None, None],
                [Some(&[<attention_forward_bf16_plain_ $tile>]), None, None],
                [None; 3],
            ]}
        };
        (Single $tile:ident) => {
            paste! {[
                [None; 3],
                [None; 3],
                [
                    Some(&[<attention_forward_f32_plain_ $tile>]),
                    Some(&[<attention_forward_f32_full_ $tile>]),
                    Some(&[<attention_forward_f32_full_ $tile>]),
                ],
            ]}
        };
    }

    attention_forward_tiles!(forward_variants);

    macro_rules! hopper_variants {
        ($(($tile:ident, $Kind:ident, $preference:expr, $head_dim:tt, $value_dim:tt, ($($cut:tt)*),
            $threads:tt, $reason:tt))*) => {
            /// All for Hopper, in order of preference.
            pub static HOPPER_FORWARD_VARIANTS:
                &[AttentionForwardVariant<HopperArguments>] = &[$(
                AttentionForwardVariant {
                    tile: AttentionTile {
                        name: stringify!($tile),
                        preference: {
                            use AttentionPreference::*;
                            $preference
                        },
                        head_dim: $head_dim,
                        value_dim: $value_dim,
                        rows: hopper::cut::Cut::<$($cut)*>::ROWS,
                        keys: hopper::cut::Cut::<$($cut)*>::KEYS,
                        threads: $threads,
                        blocks_per_sm: 1,
                        shared_bytes: [
                            hopper::cut::Cut::<$($cut)*>::SHARED_BYTES,
                            hopper::cut::Cut::<$($cut)*>::SHARED_BYTES_WITH_MASKS,
                            hopper::cut::Cut::<$($cut)*>::SHARED_BYTES_WITH_MASKS,
                        ],
                        arch: "sm_90a",
                        reason: $reason,
                    },
                    kernels: hopper_kernels!($Kind $tile),
                },
            )*];
        };
    }

    macro_rules! hopper_kernels {
        (Plain $tile:ident) => { kernels_of_kind!(HalfPlain $tile) };
        (Masked $tile:ident) => {
            paste! {[
                [
                    None,
                    Some(&[<attention_forward_f16_masked_ $tile>]),
                    Some(&[<attention_forward_f16_full_ $tile>]),
                ],
                [
                    None,
                    Some(&[<attention_forward_bf16_masked_ $tile>]),
                    Some(&[<attention_forward_bf16_full_ $tile>]),
                ],
                [None; 3],
            ]}
        };
    }

    attention_hopper_forward_tiles!(hopper_variants);

    /// The definition in f64, by element type (f16, bf16, f32); then exact, or rounded at every step.
    pub static NAIVE: [[&Kernel<(AttentionForward,)>; 2]; 3] = [
        [&attention_naive_f16_exact, &attention_naive_f16_rounded],
        [&attention_naive_bf16_exact, &attention_naive_bf16_rounded],
        [&attention_naive_f32_exact, &attention_naive_f32_rounded],
    ];
}
