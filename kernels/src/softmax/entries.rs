//! The instances of the softmax: direction x element type x masks or source x tile, from the
//! tables in [`crate::tiles`].
//!
//! Entries are named `softmax_forward_<element>_<mask>_<tile>` and
//! `softmax_backward_<element>_<source>_<tile>`.

use super::{
    backward::backward,
    backward_staged::backward_staged,
    backward_streamed::backward_streamed,
    forward::forward,
    forward_ring::forward_ring,
    forward_staged::forward_staged,
    forward_streamed::forward_streamed,
    gradient::{Probabilities, Scores},
    mask::{Additive, Bytes, Ranged, Unmasked},
    problem::{SoftmaxBackward, SoftmaxForward},
    row_threads::{Block, Cluster, Warp},
};
use crate::{softmax_backward_tiles, softmax_forward_tiles};
use cuda_std::kernel;
use half::{bf16, f16};
use pastey::paste;

type RangedScores = Scores<Ranged>;
type MaskedScores = Scores<Additive>;

macro_rules! forward_entries {
    ($(($tile:ident, $preference:expr, $Sharing:ident, $Residence:ident, $vectors:tt, $aligned:tt,
        $threads:tt, $blocks:tt, $arch:tt, $reason:tt))*) => {
        $(
            entries_of_tile! {
                forward $tile $Sharing $Residence $vectors $aligned $threads $blocks $arch;
                f16 (unmasked Unmasked plain) (ranged Ranged plain)
                    (bytes Bytes masked) (additive Additive masked);
                bf16 (unmasked Unmasked plain) (ranged Ranged plain)
                    (bytes Bytes masked) (additive Additive masked);
                f32 (unmasked Unmasked plain) (ranged Ranged plain)
                    (bytes Bytes masked) (additive Additive masked);
                f64 (unmasked Unmasked plain) (ranged Ranged plain)
                    (bytes Bytes masked) (additive Additive masked);
            }
        )*
    };
}

macro_rules! backward_entries {
    ($(($tile:ident, $preference:expr, $Sharing:ident, $Residence:ident, $vectors:tt, $aligned:tt,
        $threads:tt, $blocks:tt, $arch:tt, $reason:tt))*) => {
        $(
            entries_of_tile! {
                backward $tile $Sharing $Residence $vectors $aligned $threads $blocks $arch;
                f16 (probabilities Probabilities plain) (scores RangedScores plain)
                    (masked_scores MaskedScores masked);
                bf16 (probabilities Probabilities plain) (scores RangedScores plain)
                    (masked_scores MaskedScores masked);
                f32 (probabilities Probabilities plain) (scores RangedScores plain)
                    (masked_scores MaskedScores masked);
                f64 (probabilities Probabilities plain) (scores RangedScores plain)
                    (masked_scores MaskedScores masked);
            }
        )*
    };
}

macro_rules! entries_of_tile {
    ($direction:ident $tile:ident $Sharing:ident $Residence:ident $vectors:tt $aligned:tt
        $threads:tt $blocks:tt $arch:tt;
        $($Element:ident $(($kind:ident $Kind:ident $masked:ident))*;)*) => {
        $($(entry! {
            $Element $arch;
            $masked $blocks;
            $direction $tile $Sharing $Residence $vectors $aligned $threads $Element $kind $Kind
        })*)*
    };
}

// Conversions of 16-bit floats in pairs came with sm_80, bf16 altogether.
macro_rules! entry {
    (f16 "sm_70"; $($rest:tt)*) => { entry! { @ "sm_80" $($rest)* } };
    (bf16 "sm_70"; $($rest:tt)*) => { entry! { @ "sm_80" $($rest)* } };
    (f64 $arch:tt; $masked:tt ($plain:tt, $with_masks:tt, $blocks:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    ($Element:ident $arch:tt; $($rest:tt)*) => { entry! { @ $arch $($rest)* } };
    (@ $arch:tt plain ($blocks:tt, $masked:tt, $f64:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@ $arch:tt masked ($plain:tt, $blocks:tt, $f64:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@@ $arch:tt $blocks:tt $direction:ident $tile:ident $Sharing:ident $Residence:ident
        $vectors:tt $aligned:tt $threads:tt $Element:ident $kind:ident $Kind:ident) => {
        paste! {
            #[doc = concat!(
                "[`", stringify!($direction), "`] of ", stringify!($Element), ", ",
                stringify!($kind), ", tile ", stringify!($tile), "."
            )]
            ///
            /// # Safety
            /// That of the body.
            #[kernel(launch_bounds($threads, $blocks), arch = $arch)]
            pub unsafe fn [<softmax_ $direction _ $Element _ $kind _ $tile>](
                problem: [<Softmax $direction:camel>],
            ) {
                body! { $direction $Residence $Element $Kind $Sharing $vectors $aligned problem }
            }
        }
    };
}

macro_rules! body {
    (forward Registers $E:ident $K:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        forward::<$E, $K, $T, $vectors, $aligned>(&$problem)
    };
    (forward SharedMemory $E:ident $K:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        forward_staged::<$E, $K, $T, $vectors, $aligned>(&$problem)
    };
    // An additive mask beside f64 leaves registers for two vectors: slots are half as large.
    (forward Ring f64 Additive $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        forward_ring::<f64, Additive, 2, $aligned>(&$problem)
    };
    (forward Ring $E:ident $K:ident Cluster $vectors:tt $aligned:tt $problem:ident) => {
        forward_ring::<$E, $K, $vectors, $aligned>(&$problem)
    };
    (forward Streamed $E:ident $K:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        forward_streamed::<$E, $K, $T, $vectors, $aligned>(&$problem)
    };
    (backward Registers $E:ident $S:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        backward::<$E, $S, $T, $vectors, $aligned>(&$problem)
    };
    (backward SharedMemory $E:ident $S:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        backward_staged::<$E, $S, $T, $vectors, $aligned>(&$problem)
    };
    (backward Streamed $E:ident $S:ident $T:ident $vectors:tt $aligned:tt $problem:ident) => {
        backward_streamed::<$E, $S, $T, $vectors, $aligned>(&$problem)
    };
}

softmax_forward_tiles!(forward_entries);
softmax_backward_tiles!(backward_entries);

cuda_std::host_only! {
    use crate::tiles::{Preference, Residence, Sharing, SoftmaxTile};
    use cuda_std::host::Kernel;

    /// A row of the forward's table with its entries.
    pub struct ForwardVariant {
        /// How the kernel is cut.
        pub tile: SoftmaxTile,
        /// By element type (f16, bf16, f32, f64), then masks (none, a visible range, bytes,
        /// additive).
        pub kernels: [[&'static Kernel<(SoftmaxForward,)>; 4]; 4],
    }

    /// A row of the backward's table with its entries.
    pub struct BackwardVariant {
        /// How the kernel is cut.
        pub tile: SoftmaxTile,
        /// By element type (f16, bf16, f32, f64), then source (probabilities, scores without
        /// element masks, scores with them).
        pub kernels: [[&'static Kernel<(SoftmaxBackward,)>; 3]; 4],
    }

    macro_rules! variants {
        ($static:ident $Variant:ident $direction:ident $kinds:tt
            $(($tile:ident, $preference:expr, $Sharing:ident, $Residence:ident, $vectors:tt,
            $aligned:tt, $threads:tt, $blocks:tt, $arch:tt, $reason:tt))*) => {
            /// All of them, in order of preference.
            pub static $static: &[$Variant] = &[$(
                $Variant {
                    tile: SoftmaxTile {
                        name: stringify!($tile),
                        preference: {
                            use Preference::*;
                            $preference
                        },
                        sharing: Sharing::$Sharing,
                        residence: Residence::$Residence,
                        vectors: $vectors,
                        aligned: $aligned,
                        threads: $threads,
                        blocks_per_sm: $blocks,
                        arch: $arch,
                        reason: $reason,
                    },
                    kernels: kernels!($direction $tile; f16 bf16 f32 f64; $kinds),
                },
            )*];
        };
    }

    macro_rules! kernels {
        ($direction:ident $tile:ident; $($Element:ident)*; $kinds:tt) => {
            [$(kernels!(@ $direction $tile $Element $kinds)),*]
        };
        (@ $direction:ident $tile:ident $Element:ident ($($kind:ident)*)) => {
            paste! { [$(&[<softmax_ $direction _ $Element _ $kind _ $tile>]),*] }
        };
    }

    macro_rules! forward_variants {
        ($($row:tt)*) => {
            variants! {
                FORWARD_VARIANTS ForwardVariant forward (unmasked ranged bytes additive) $($row)*
            }
        };
    }

    macro_rules! backward_variants {
        ($($row:tt)*) => {
            variants! {
                BACKWARD_VARIANTS BackwardVariant backward
                (probabilities scores masked_scores) $($row)*
            }
        };
    }

    softmax_forward_tiles!(forward_variants);
    softmax_backward_tiles!(backward_variants);
}
