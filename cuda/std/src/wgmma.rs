//! Products of matrices by a warpgroup (`wgmma`). From sm_90a.
//!
//! A warpgroup is four warps, the first of a number divisible by 4. It multiplies a of 64 x 16 by b
//! of 16 x N elements, N a multiple of 8 up to 256, and adds up in f32. Each thread has a part of the
//! 64 x N sums, an [`Accumulator`] of N / 2 registers. Of thread `t` of the warpgroup, with
//! `g = t % 32 / 4`, the registers `i` hold
//!
//! | matrix | row | column |
//! |---|---|---|
//! | sums, element `i` | `16 (t / 32) + g + 8 (i / 2 % 2)` | `8 (i / 4) + 2 (t % 4) + i % 2` |
//! | a in registers, half `h` of word `i` | `16 (t / 32) + g + 8 (i % 2)` | `2 (t % 4) + h + 8 (i / 2)` |
//!
//! So eight elements of sums, rounded to pairs, are the registers of a in a next product:
//! [`Accumulator::left`]. Otherwise a is an [`Operand`] in shared memory, where b always is.
//!
//! # How they take turns
//! Products run beside the threads that issue them. Those since the last [`commit`] form a group, and
//! a wait waits for all groups but the last few. Meanwhile the registers belong to the tensor core:
//! what issues a product takes the [`Accumulator`] and gives an [`InFlight`], which can only take
//! more products, or wait and be an accumulator again.
//!
//! ```ignore
//! let scores = Accumulator::<64>::product(q, k);        // 64 x 128 scores of 16 dimensions
//! let scores = scores.add_product(q.advance(32), k.advance(32));
//! wgmma::commit();
//! let scores = scores.wait::<0>().map(|_, score| score * scale);
//! ```
//!
//! # What the assembler asks for
//! It serialises products, and `check-ptx` then fails, unless
//! - each call stands in code that the whole warpgroup runs, and is inlined;
//! - a loop that reads accumulators waits for all groups (`wait::<0>`) once in each turn;
//! - no registers are set for an accumulator, or for a, while a product is in flight: begin with
//!   [`Accumulator::product`], not with zeros, and call [`Accumulator::left`] after the wait;
//! - a's registers live until the product has been waited for.
//!
//! Descriptors that differ by constants are computed before a loop and kept in registers, unless
//! their address comes out of [`hint::opaque`](crate::hint::opaque) inside.

mod operand;
mod shape;

pub use operand::{Element, KMajor, Layout, Left, MnMajor, Operand, Order, Swizzle};
pub use shape::Shape;

/// A thread's part of sums that no product is adding to: `REGISTERS` elements of 64 x
/// `2 * REGISTERS`, of which each is found by a constant, so that they stay in registers.
#[derive(Clone, Copy)]
pub struct Accumulator<const REGISTERS: usize>([f32; REGISTERS]);

/// An accumulator that products are adding to. Nothing can be read before [`wait`](InFlight::wait).
#[must_use = "products in flight must be waited for"]
pub struct InFlight<const REGISTERS: usize>([f32; REGISTERS]);

impl<const REGISTERS: usize> Accumulator<REGISTERS>
where
    [f32; REGISTERS]: Shape,
{
    /// Columns of the sums.
    pub const COLUMNS: usize = 2 * REGISTERS;

    /// All elements 0.
    #[inline(always)]
    pub fn zero() -> Self {
        Accumulator([0.; REGISTERS])
    }

    /// Element `I`.
    #[inline(always)]
    pub fn get<const I: usize>(&self) -> f32 {
        const { assert!(I < REGISTERS, "the accumulator has fewer elements") };
        self.0[I]
    }

    /// Of each element, by its number and what it is, what it is to be. The closure is written out
    /// for each: the number is a constant in it.
    #[inline(always)]
    pub fn map(self, f: impl FnMut(usize, f32) -> f32) -> Self {
        Accumulator(self.0.map_elements(f))
    }

    /// Calls the closure with each element's number and value, in order. It is written out for each:
    /// the number is a constant in it.
    #[inline(always)]
    pub fn for_each(&self, f: impl FnMut(usize, f32)) {
        self.0.for_each_element(f);
    }

    /// What the thread has of columns `16 STEP` to `16 STEP + 15`, as the left operand of a product:
    /// `pack` rounds two neighbours of a row to halves of a word, the first to the lower one.
    #[inline(always)]
    pub fn left<const STEP: usize>(&self, pack: impl Fn(f32, f32) -> u32) -> [u32; 4] {
        const { assert!(8 * STEP + 8 <= REGISTERS, "the accumulator has fewer columns") };
        let word = |i: usize| pack(self.0[i], self.0[i + 1]);
        [word(8 * STEP), word(8 * STEP + 2), word(8 * STEP + 4), word(8 * STEP + 6)]
    }

    /// The product a b.
    ///
    /// # Safety
    /// Convergent: the whole warpgroup, with the same descriptors. a and b lie in shared memory as
    /// their layouts say, and what threads stored there is ordered before by
    /// [`proxy_async`](crate::fence::proxy_async) and a barrier. Until the product has been waited
    /// for, nobody stores there.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn product<E: Element, B: Order>(
        a: impl Left<E>,
        b: Operand<E, B>,
    ) -> InFlight<REGISTERS> {
        dual! {
            ptx: InFlight(a.start(b)),
            emulator: {
                let mut sums = [0.; REGISTERS];
                cuda_emulator::wgmma::multiply(
                    E::FACTORS, &mut sums, a.source(), b.source(), false, true,
                );
                InFlight(sums)
            },
        }
    }

    /// Adds the product a b. Orders what the thread did with the sums' registers and a's before it.
    ///
    /// # Safety
    /// As for [`product`](Accumulator::product).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn add_product<E: Element, B: Order>(
        self,
        a: impl Left<E>,
        b: Operand<E, B>,
    ) -> InFlight<REGISTERS> {
        // SAFETY: the caller's.
        unsafe { self.add_product_if(true, a, b) }
    }

    /// Adds the product a b if `keep`; else forgets the sums, as [`product`](Accumulator::product)
    /// does. For loops whose first turn is not to be written apart.
    ///
    /// # Safety
    /// As for [`product`](Accumulator::product); `keep` is the same in the whole warpgroup.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn add_product_if<E: Element, B: Order>(
        self,
        keep: bool,
        a: impl Left<E>,
        b: Operand<E, B>,
    ) -> InFlight<REGISTERS> {
        dual! {
            ptx: InFlight(a.add::<_, _, true>(self.0, keep, b)),
            emulator: {
                let mut sums = self.0;
                cuda_emulator::wgmma::multiply(
                    E::FACTORS, &mut sums, a.source(), b.source(), keep, true,
                );
                InFlight(sums)
            },
        }
    }
}

impl<const REGISTERS: usize> InFlight<REGISTERS>
where
    [f32; REGISTERS]: Shape,
{
    /// Adds the product a b, after those before.
    ///
    /// # Safety
    /// As for [`Accumulator::product`]. If a is in registers, they were written before the
    /// thread's last [`fence`], or last product that began with an [`Accumulator`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn add_product<E: Element, B: Order>(
        self,
        a: impl Left<E>,
        b: Operand<E, B>,
    ) -> InFlight<REGISTERS> {
        dual! {
            ptx: InFlight(a.add::<_, _, false>(self.0, true, b)),
            emulator: {
                let mut sums = self.0;
                cuda_emulator::wgmma::multiply(
                    E::FACTORS, &mut sums, a.source(), b.source(), true, false,
                );
                InFlight(sums)
            },
        }
    }

    /// Waits until at most `PENDING` groups of the thread's, the last ones, are under way: none of
    /// them may add to this accumulator, whose sums are then there. What the groups before have read
    /// from shared memory may be overwritten.
    ///
    /// # Safety
    /// Convergent: the whole warp. A [`commit`] has closed the group of the last product that adds
    /// to this accumulator, and at most `PENDING` groups have been closed after it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait<const PENDING: u32>(self) -> Accumulator<REGISTERS> {
        dual! {
            ptx: Accumulator(self.0.wait::<PENDING>()),
            emulator: {
                let mut sums = self.0;
                cuda_emulator::wgmma::wait(PENDING as usize, &mut sums);
                Accumulator(sums)
            },
        }
    }
}

impl<const REGISTERS: usize> crate::hint::Registers for Accumulator<REGISTERS>
where
    [f32; REGISTERS]: Shape,
{
    #[inline(always)]
    fn opaque(self) -> Self {
        self.map(|_, element| crate::hint::opaque(element))
    }
}

/// Orders what the thread did with registers before the products that it issues next: needed for
/// registers of a that have been written since it last issued a product with an [`Accumulator`]
/// (`wgmma.fence`).
///
/// # Safety
/// Convergent: the whole warp.
#[inline(always)]
#[track_caller]
pub unsafe fn fence() {
    dual! {
        ptx: core::arch::asm!("wgmma.fence.sync.aligned;", options(nostack)),
        emulator: cuda_emulator::wgmma::fence(),
    }
}

/// Closes a group of the products since the last one (`wgmma.commit_group`).
///
/// # Safety
/// Convergent: the whole warp.
#[inline(always)]
#[track_caller]
pub unsafe fn commit() {
    dual! {
        ptx: core::arch::asm!("wgmma.commit_group.sync.aligned;", options(nostack)),
        emulator: cuda_emulator::wgmma::commit(),
    }
}

/// Waits until at most `PENDING` groups of the thread's, the last ones, are under way: what the
/// others have read from shared memory may be overwritten. Accumulators stay in flight.
///
/// # Safety
/// Convergent: the whole warp.
#[inline(always)]
#[track_caller]
pub unsafe fn wait_for_operands<const PENDING: u32>() {
    dual! {
        ptx: core::arch::asm!(
            "wgmma.wait_group.sync.aligned {};", const PENDING, options(nostack),
        ),
        emulator: cuda_emulator::wgmma::wait_for_operands(PENDING as usize),
    }
}
