//! The instances of the softmax forward: element type x mask x tile, from the table in
//! [`crate::tiles`].
//!
//! Entries are named `softmax_forward_<element>_<mask>_<tile>`.

use super::{
    forward::forward,
    forward_streamed::forward_streamed,
    mask::{Additive, Bytes, Unmasked},
    problem::SoftmaxForward,
    row_threads::{Block, Cluster, Warp},
};
use crate::softmax_forward_tiles;
use cuda_std::kernel;
use half::{bf16, f16};
use pastey::paste;

macro_rules! entries {
    ($(($tile:ident, $preference:expr, $Sharing:ident, $body:ident, $vectors:tt, $aligned:tt, $threads:tt, $blocks:tt,
        $arch:tt, $reason:tt))*) => {
        $(
            entries_of_tile! {
                $tile $Sharing $body $vectors $aligned $threads $blocks $arch;
                (f16 unmasked Unmasked) (f16 bytes Bytes) (f16 additive Additive)
                (bf16 unmasked Unmasked) (bf16 bytes Bytes) (bf16 additive Additive)
                (f32 unmasked Unmasked) (f32 bytes Bytes) (f32 additive Additive)
                (f64 unmasked Unmasked) (f64 bytes Bytes) (f64 additive Additive)
            }
        )*
    };
}

macro_rules! entries_of_tile {
    ($tile:ident $Sharing:ident $body:ident $vectors:tt $aligned:tt $threads:tt $blocks:tt
        $arch:tt; $(($Element:ident $mask:ident $Mask:ident))*) => {
        $(entry! {
            $Element $arch;
            $mask $blocks;
            $tile $Sharing $body $vectors $aligned $threads $Element $mask $Mask
        })*
    };
}

// Conversions of 16-bit floats in pairs came with sm_80, bf16 altogether.
macro_rules! entry {
    (f16 "sm_70"; $($rest:tt)*) => { entry! { @ "sm_80" $($rest)* } };
    (bf16 "sm_70"; $($rest:tt)*) => { entry! { @ "sm_80" $($rest)* } };
    ($Element:ident $arch:tt; $($rest:tt)*) => { entry! { @ $arch $($rest)* } };
    (@ $arch:tt unmasked ($blocks:tt, $masked:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@ $arch:tt $mask:ident ($unmasked:tt, $blocks:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@@ $arch:tt $blocks:tt $tile:ident $Sharing:ident $body:ident $vectors:tt $aligned:tt
        $threads:tt $Element:ident $mask:ident $Mask:ident) => {
        paste! {
            #[doc = concat!(
                "[`", stringify!($body), "`] of ", stringify!($Element), ", mask ",
                stringify!($mask), ", tile ", stringify!($tile), "."
            )]
            ///
            /// # Safety
            /// That of the body.
            #[kernel(launch_bounds($threads, $blocks), arch = $arch)]
            pub unsafe fn [<softmax_forward_ $Element _ $mask _ $tile>](problem: SoftmaxForward) {
                $body::<$Element, $Mask, $Sharing, $vectors, $aligned>(&problem)
            }
        }
    };
}

softmax_forward_tiles!(entries);

cuda_std::host_only! {
    use crate::tiles::{Preference, Sharing, SoftmaxTile};
    use cuda_std::host::Kernel;

    /// A row of the table with its entries.
    pub struct ForwardVariant {
        /// How the kernel is cut.
        pub tile: SoftmaxTile,
        /// By element type (f16, bf16, f32, f64), then mask (none, bytes, additive).
        pub kernels: [[&'static Kernel<(SoftmaxForward,)>; 3]; 4],
    }

    macro_rules! variants {
        ($(($tile:ident, $preference:expr, $Sharing:ident, $body:ident, $vectors:tt, $aligned:tt, $threads:tt,
            $blocks:tt, $arch:tt, $reason:tt))*) => {
            paste! {
                /// All of them, in order of preference.
                pub static FORWARD_VARIANTS: &[ForwardVariant] = &[$(
                    ForwardVariant {
                        tile: SoftmaxTile {
                            name: stringify!($tile),
                            preference: {
                                use Preference::*;
                                $preference
                            },
                            sharing: Sharing::$Sharing,
                            vectors: $vectors,
                            aligned: $aligned,
                            streamed: variants!(@streamed $body),
                            threads: $threads,
                            blocks_per_sm: $blocks,
                            arch: $arch,
                            reason: $reason,
                        },
                        kernels: [
                            [
                                &[<softmax_forward_f16_unmasked_ $tile>],
                                &[<softmax_forward_f16_bytes_ $tile>],
                                &[<softmax_forward_f16_additive_ $tile>],
                            ],
                            [
                                &[<softmax_forward_bf16_unmasked_ $tile>],
                                &[<softmax_forward_bf16_bytes_ $tile>],
                                &[<softmax_forward_bf16_additive_ $tile>],
                            ],
                            [
                                &[<softmax_forward_f32_unmasked_ $tile>],
                                &[<softmax_forward_f32_bytes_ $tile>],
                                &[<softmax_forward_f32_additive_ $tile>],
                            ],
                            [
                                &[<softmax_forward_f64_unmasked_ $tile>],
                                &[<softmax_forward_f64_bytes_ $tile>],
                                &[<softmax_forward_f64_additive_ $tile>],
                            ],
                        ],
                    },
                )*];
            }
        };
        (@streamed forward) => { false };
        (@streamed forward_streamed) => { true };
    }

    softmax_forward_tiles!(variants);
}
