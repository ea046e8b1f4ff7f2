//! Communication within a warp. `mask` has a bit for each lane that takes part.

/// The mask of all the lanes.
pub const FULL_MASK: u32 = !0;

/// The thread's lane in its warp, in a block of one dimension.
#[inline(always)]
pub fn lane_id() -> u32 {
    dual! {
        ptx: asm!(reg32 -> u32: "mov.u32 {}, %laneid;", options(pure, nomem, nostack)),
        emulator: cuda_emulator::thread::linear() % 32,
    }
}

/// A value of one or two registers, which lanes can exchange.
pub trait Word: Copy {
    /// Does it take two registers?
    const WIDE: bool;
    /// Its bits, the first register lowest.
    fn to_registers(self) -> u64;
    /// The value of these bits.
    fn from_registers(bits: u64) -> Self;
    /// [`cluster::store_async`](crate::cluster::store_async).
    ///
    /// # Safety
    /// That function's.
    #[cfg(target_arch = "nvptx64")]
    unsafe fn store_async(addr: u32, value: Self, mbarrier: u32);
}

macro_rules! words {
    ($($T:ty, $wide:literal, $to:expr, $from:expr;)*) => {$(
        impl Word for $T {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn to_registers(self) -> u64 {
                let to: fn($T) -> u64 = $to;
                to(self)
            }
            #[inline(always)]
            fn from_registers(bits: u64) -> Self {
                let from: fn(u64) -> $T = $from;
                from(bits)
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_async(addr: u32, value: Self, mbarrier: u32) {
                // SAFETY: the caller's.
                unsafe {
                    if $wide {
                        core::arch::asm!(
                            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [{}], {}, [{}];",
                            in(reg32) addr, in(reg64) value.to_registers(), in(reg32) mbarrier,
                            options(nostack),
                        );
                    } else {
                        core::arch::asm!(
                            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [{}], {}, [{}];",
                            in(reg32) addr, in(reg32) value.to_registers() as u32,
                            in(reg32) mbarrier, options(nostack),
                        );
                    }
                }
            }
        }
    )*};
}

words! {
    u32, false, |x| x as u64, |x| x as u32;
    i32, false, |x| x as u32 as u64, |x| x as i32;
    f32, false, |x| x.to_bits() as u64, |x| f32::from_bits(x as u32);
    u64, true, |x| x, |x| x;
    f64, true, f64::to_bits, f64::from_bits;
}

macro_rules! shuffles {
    ($(
        $(#[$doc:meta])*
        $name:ident($lanes:ident), $intrinsic:ident, $clamp:literal, $emulated:literal,
        $source:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Convergent: the lanes in `mask`, the caller's own and the source's among them.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Word>(mask: u32, value: T, $lanes: u32) -> T {
            let bits = value.to_registers();
            dual! {
                ptx: {
                    let low = crate::intrinsics::$intrinsic(mask, bits as u32, $lanes, $clamp);
                    let high = if T::WIDE {
                        crate::intrinsics::$intrinsic(mask, (bits >> 32) as u32, $lanes, $clamp)
                    } else {
                        0
                    };
                    T::from_registers((high as u64) << 32 | low as u64)
                },
                emulator: {
                    let own = lane_id();
                    let source: fn(u32, u32) -> u32 = $source;
                    let source = match source(own, $lanes) {
                        lane @ ..32 => lane,
                        _ => own,
                    };
                    let low = cuda_emulator::warp::shuffle($emulated, mask, bits as u32, source);
                    let high = if T::WIDE {
                        cuda_emulator::warp::shuffle($emulated, mask, (bits >> 32) as u32, source)
                    } else {
                        0
                    };
                    T::from_registers((high as u64) << 32 | low as u64)
                },
            }
        }
    )*};
}

shuffles! {
    /// The value of lane `own ^ lanes` (`shfl.sync.bfly`).
    shuffle_xor(lanes), shfl_bfly, 31, "shfl.sync.bfly", |own, lanes| own ^ lanes;
    /// The value of lane `own - lanes`, or one's own below lane 0 (`shfl.sync.up`).
    shuffle_up(lanes), shfl_up, 0, "shfl.sync.up", u32::wrapping_sub;
    /// The value of lane `own + lanes`, or one's own beyond lane 31 (`shfl.sync.down`).
    shuffle_down(lanes), shfl_down, 31, "shfl.sync.down", u32::wrapping_add;
    /// The value of lane `lane % 32` (`shfl.sync.idx`).
    shuffle_idx(lane), shfl_idx, 31, "shfl.sync.idx", |_, lane| lane % 32;
}

/// Is the predicate true in all the lanes of the mask (`vote.sync.all`)?
///
/// # Safety
/// Convergent: the lanes in `mask`, the caller's own among them.
#[inline(always)]
#[track_caller]
pub unsafe fn vote_all(mask: u32, predicate: bool) -> bool {
    dual! {
        ptx: crate::intrinsics::vote_all(mask, predicate),
        emulator: cuda_emulator::warp::ballot(mask, predicate) == mask,
    }
}

/// Is the predicate true in any lane of the mask (`vote.sync.any`)?
///
/// # Safety
/// Convergent: the lanes in `mask`, the caller's own among them.
#[inline(always)]
#[track_caller]
pub unsafe fn vote_any(mask: u32, predicate: bool) -> bool {
    dual! {
        ptx: crate::intrinsics::vote_any(mask, predicate),
        emulator: cuda_emulator::warp::ballot(mask, predicate) != 0,
    }
}

/// A bit for each lane of the mask in which the predicate is true (`vote.sync.ballot`).
///
/// # Safety
/// Convergent: the lanes in `mask`, the caller's own among them.
#[inline(always)]
#[track_caller]
pub unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
    dual! {
        ptx: crate::intrinsics::vote_ballot(mask, predicate),
        emulator: cuda_emulator::warp::ballot(mask, predicate),
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $emulated:literal, $f:expr;)*) => {$(
        $(#[$doc])*
        /// From sm_80.
        ///
        /// # Safety
        /// Convergent: the lanes in `mask`, the caller's own among them.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(mask: u32, value: u32) -> u32 {
            dual! {
                ptx: crate::intrinsics::$intrinsic(value, mask),
                emulator: cuda_emulator::warp::reduce($emulated, mask, value, $f),
            }
        }
    )*};
}

reductions! {
    /// The sum, modulo 2^32, over the lanes of the mask (`redux.sync.add`).
    reduce_add_u32, redux_add, "redux.sync.add", u32::wrapping_add;
    /// The minimum over the lanes of the mask (`redux.sync.min`).
    reduce_min_u32, redux_min, "redux.sync.min", u32::min;
    /// The maximum over the lanes of the mask (`redux.sync.max`).
    reduce_max_u32, redux_max, "redux.sync.max", u32::max;
    /// The bitwise and over the lanes of the mask (`redux.sync.and`).
    reduce_and_u32, redux_and, "redux.sync.and", |a, b| a & b;
    /// The bitwise or over the lanes of the mask (`redux.sync.or`).
    reduce_or_u32, redux_or, "redux.sync.or", |a, b| a | b;
}

/// Waits for the lanes of the mask, and orders their memory accesses (`bar.warp.sync`).
///
/// # Safety
/// Convergent: the lanes in `mask`, the caller's own among them.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    dual! {
        ptx: crate::intrinsics::bar_warp_sync(mask),
        emulator: cuda_emulator::warp::sync(mask),
    }
}

/// True in the lowest lane of the mask.
///
/// Not `elect.sync`, which leaves the choice of the lane to the hardware, and needs sm_90 and PTX
/// 8.0.
#[inline(always)]
pub fn elect(mask: u32) -> bool {
    lane_id() == mask.trailing_zeros()
}
