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
    mask::{Additive, Bytes, Ranged, SharedBytes, Unmasked},
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
            entries_in_turns! {
                $Residence $aligned;
                forward $tile $Sharing $Residence $vectors $aligned $threads $blocks $arch
            }
        )*
    };
}

// Of rows on the 16-byte grid, which threads or shared memory hold. f64 takes more registers than
// there are.
macro_rules! entries_in_turns {
    (Registers true; $($tile:tt)*) => { entries_in_turns! { @ $($tile)* } };
    (SharedMemory true; $($tile:tt)*) => { entries_in_turns! { @ $($tile)* } };
    (@ $($tile:tt)*) => {
        entries_of_tile! {
            $($tile)*;
            f16 (shared_bytes SharedBytes in_turns);
            bf16 (shared_bytes SharedBytes in_turns);
            f32 (shared_bytes SharedBytes in_turns);
        }
    };
    ($Residence:ident $aligned:tt; $($tile:tt)*) => {};
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
    (f64 $arch:tt; $masked:tt ($plain:tt, $with_masks:tt, $blocks:tt, $turns:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    ($Element:ident $arch:tt; $($rest:tt)*) => { entry! { @ $arch $($rest)* } };
    (@ $arch:tt plain ($blocks:tt, $masked:tt, $f64:tt, $turns:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@ $arch:tt masked ($plain:tt, $blocks:tt, $f64:tt, $turns:tt); $($rest:tt)*) => {
        entry! { @@ $arch $blocks $($rest)* }
    };
    (@ $arch:tt in_turns ($plain:tt, $masked:tt, $f64:tt, $blocks:tt); $($rest:tt)*) => {
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
        /// By element type: of rows that share byte masks, where the tile takes such in turn.
        pub in_turns: [Option<&'static Kernel<(SoftmaxForward,)>>; 4],
    }

    /// A row of the backward's table with its entries.
    pub struct BackwardVariant {
        /// How the kernel is cut.
        pub tile: SoftmaxTile,
        /// By element type (f16, bf16, f32, f64), then source (probabilities, scores without
        /// element masks, scores with them).
        pub kernels: [[&'static Kernel<(SoftmaxBackward,)>; 3]; 4],
    }

    macro_rules! tile {
        ($tile:ident, $preference:expr, $Sharing:ident, $Residence:ident, $vectors:tt, $aligned:tt,
            $threads:tt, $blocks:tt, $arch:tt, $reason:tt) => {
            SoftmaxTile {
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
            }
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

    macro_rules! kernels_in_turns {
        (Registers true $tile:ident) => { kernels_in_turns!(@ $tile f16 bf16 f32) };
        (SharedMemory true $tile:ident) => { kernels_in_turns!(@ $tile f16 bf16 f32) };
        (@ $tile:ident $($Element:ident)*) => {
            paste! { [$(Some(&[<softmax_forward_ $Element _shared_bytes_ $tile>])),*, None] }
        };
        ($Residence:ident $aligned:tt $tile:ident) => { [None; 4] };
    }

    macro_rules! forward_variants {
        ($(($tile:ident, $preference:expr, $Sharing:ident, $Residence:ident, $vectors:tt,
            $aligned:tt, $($rest:tt)*))*) => {
            /// All of them, in order of preference.
            pub static FORWARD_VARIANTS: &[ForwardVariant] = &[$(
                ForwardVariant {
                    tile: tile!(
                        $tile, $preference, $Sharing, $Residence, $vectors, $aligned, $($rest)*
                    ),
                    kernels: kernels!(
                        forward $tile; f16 bf16 f32 f64; (unmasked ranged bytes additive)
                    ),
                    in_turns: kernels_in_turns!($Residence $aligned $tile),
                },
            )*];
        };
    }

    macro_rules! backward_variants {
        ($(($tile:ident, $($rest:tt)*))*) => {
            /// All of them, in order of preference.
            pub static BACKWARD_VARIANTS: &[BackwardVariant] = &[$(
                BackwardVariant {
                    tile: tile!($tile, $($rest)*),
                    kernels: kernels!(
                        backward $tile; f16 bf16 f32 f64; (probabilities scores masked_scores)
                    ),
                },
            )*];
        };
    }

    softmax_forward_tiles!(forward_variants);
    softmax_backward_tiles!(backward_variants);
}
