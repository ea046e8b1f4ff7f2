//! The factors of a product: where they are, and how they lie there.

use core::marker::PhantomData;
use half::{bf16, f16};

#[cfg(target_arch = "nvptx64")]
use super::Shape;

/// How the 16-byte pieces of an operand's rows are permuted in shared memory, so that reading 8 rows
/// at once meets every bank: in rows of so many bytes, the number of a piece is xored with that of
/// the 128-byte line (modulo the number of pieces in a row). Tensor maps write tiles so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Swizzle {
    /// Rows of 16 bytes, in place.
    None,
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes.
    Bytes128,
}

/// How an operand lies in shared memory.
///
/// Its unit is a block of 8 rows, one after the other, of as many bytes as the [`Swizzle`] has. Rows
/// run along k (16 elements of 2 bytes) if it is [`KMajor`], else ([`MnMajor`]) along m or n. The
/// blocks lie at distances of
///
/// | order | swizzle | `leading_bytes` | `stride_bytes` | 16 further along k |
/// |---|---|---|---|---|
/// | [`KMajor`] | none | next 8 of k | next 8 of m or n | `2 * leading_bytes` |
/// | [`KMajor`] | any other | does not count | next 8 of m or n | 32 bytes, up to the row's end |
/// | [`MnMajor`] | none | next 8 of k | next 8 of m or n | `2 * leading_bytes` |
/// | [`MnMajor`] | any other | next row's length of m or n | next 8 of k | `2 * stride_bytes` |
#[derive(Clone, Copy)]
pub struct Layout {
    /// How rows are permuted.
    pub swizzle: Swizzle,
    /// A multiple of 16, below 2^18.
    pub leading_bytes: u32,
    /// A multiple of 16, below 2^18.
    pub stride_bytes: u32,
}

/// Which elements of an operand are neighbours: [`KMajor`] or [`MnMajor`].
pub trait Order: Copy + sealed::Sealed {
    /// As the instruction has it.
    const TRANSPOSED: u32;
}

/// Rows of an operand run along k, the dimension that is summed over.
#[derive(Clone, Copy)]
pub struct KMajor;

/// Rows of an operand run along m (of a) or n (of b).
#[derive(Clone, Copy)]
pub struct MnMajor;

impl Order for KMajor {
    const TRANSPOSED: u32 = 0;
}

impl Order for MnMajor {
    const TRANSPOSED: u32 = 1;
}

/// The type of factors: f16 or bf16.
pub trait Element: Copy + sealed::Sealed {
    /// Is it bf16?
    const IS_BF16: bool;
    /// As the emulator has it.
    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[doc(hidden)]
    const FACTORS: cuda_emulator::wgmma::Factors;
}

impl Element for f16 {
    const IS_BF16: bool = false;
    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    const FACTORS: cuda_emulator::wgmma::Factors = cuda_emulator::wgmma::Factors::F16;
}

impl Element for bf16 {
    const IS_BF16: bool = true;
    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    const FACTORS: cuda_emulator::wgmma::Factors = cuda_emulator::wgmma::Factors::Bf16;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KMajor {}
    impl Sealed for super::MnMajor {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for [u32; 4] {}
    impl<E, O> Sealed for super::Operand<E, O> {}
}

/// A factor in shared memory: what the instruction calls a matrix descriptor.
pub struct Operand<E, O> {
    descriptor: u64,
    kind: PhantomData<(E, O)>,
}

impl<E, O> Clone for Operand<E, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, O> Copy for Operand<E, O> {}

impl<E: Element, O: Order> Operand<E, O> {
    /// The operand whose first row begins at `addr`, which is aligned to 8 rows of the swizzle's
    /// length: to 1024 bytes, for 128.
    #[inline(always)]
    #[track_caller]
    pub fn new(addr: u32, layout: Layout) -> Self {
        let Layout { swizzle, leading_bytes, stride_bytes } = layout;
        let code: u64 = match swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        let field = |bytes: u32| ((bytes & 0x3_ffff) >> 4) as u64;
        let descriptor =
            field(addr) | field(leading_bytes) << 16 | field(stride_bytes) << 32 | code << 62;
        dual! {
            ptx: Operand { descriptor, kind: PhantomData },
            emulator: {
                cuda_emulator::wgmma::check_layout(
                    addr, descriptor, leading_bytes, stride_bytes, O::TRANSPOSED == 1,
                );
                Operand { descriptor, kind: PhantomData }
            },
        }
    }

    /// The operand that begins `bytes` further, a multiple of 16.
    #[inline(always)]
    #[must_use]
    pub fn advance(self, bytes: u32) -> Self {
        Operand { descriptor: self.descriptor + (bytes >> 4) as u64, ..self }
    }

    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[inline(always)]
    pub(super) fn source(self) -> cuda_emulator::wgmma::Operand {
        let Operand { descriptor, .. } = self;
        cuda_emulator::wgmma::Operand { descriptor, transposed: O::TRANSPOSED == 1 }
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn descriptor(self) -> u64 {
        self.descriptor
    }
}

/// What a can be: an [`Operand`] in shared memory, or each thread's registers.
pub trait Left<E: Element>: Copy + sealed::Sealed {
    /// The product with b.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn start<S: Shape, B: Order>(self, b: Operand<E, B>) -> S;

    /// Sums and the product with b.
    ///
    /// # Safety
    /// That of [`Accumulator::product`](super::Accumulator::product).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn add<S: Shape, B: Order, const FENCE: bool>(
        self,
        sums: S,
        keep: bool,
        b: Operand<E, B>,
    ) -> S;

    /// As the emulator has it.
    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[doc(hidden)]
    fn source(self) -> cuda_emulator::wgmma::Left;
}

impl<E: Element> Left<E> for [u32; 4] {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn start<S: Shape, B: Order>(self, b: Operand<E, B>) -> S {
        // SAFETY: the caller's.
        unsafe { S::start_registers::<E, B>(self, b.descriptor()) }
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn add<S: Shape, B: Order, const FENCE: bool>(
        self,
        sums: S,
        keep: bool,
        b: Operand<E, B>,
    ) -> S {
        // SAFETY: the caller's.
        unsafe { sums.add_registers::<E, B, FENCE>(keep, self, b.descriptor()) }
    }

    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[inline(always)]
    fn source(self) -> cuda_emulator::wgmma::Left {
        cuda_emulator::wgmma::Left::Registers(self)
    }
}

impl<E: Element, A: Order> Left<E> for Operand<E, A> {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn start<S: Shape, B: Order>(self, b: Operand<E, B>) -> S {
        // SAFETY: the caller's.
        unsafe { S::start_shared::<E, A, B>(self.descriptor(), b.descriptor()) }
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn add<S: Shape, B: Order, const FENCE: bool>(
        self,
        sums: S,
        keep: bool,
        b: Operand<E, B>,
    ) -> S {
        // SAFETY: the caller's.
        unsafe { sums.add_shared::<E, A, B, FENCE>(keep, self.descriptor(), b.descriptor()) }
    }

    #[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
    #[inline(always)]
    fn source(self) -> cuda_emulator::wgmma::Left {
        cuda_emulator::wgmma::Left::Shared(Operand::source(self))
    }
}
