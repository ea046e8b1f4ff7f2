//! Products by a warpgroup. These kernels run in one warpgroup.

use cuda_std::{
    fence, global, kernel, shared,
    thread::{self, thread_idx_x},
    warp, warpgroup,
    wgmma::{
        self, Accumulator, Element, KMajor, Layout, Left, MnMajor, Operand, Order, Shape, Swizzle,
    },
};
use half::{bf16, f16};

/// Where a factor of 32 elements along k lies in shared memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Placement {
    /// The first byte, from the start.
    pub offset: u32,
    /// Bytes of a row: 16, 32, 64 or 128.
    pub row_bytes: u32,
    /// As in `Layout`.
    pub leading_bytes: u32,
    /// As in `Layout`.
    pub stride_bytes: u32,
    /// From the first 16 elements along k to the others.
    pub advance: u32,
}

/// What a product is made of, and where it goes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Problem {
    /// What shared memory is to hold.
    pub image: *const [u32; 4],
    /// How much that is, in units of 16 bytes.
    pub pieces: u32,
    /// The left factor.
    pub a: Placement,
    /// The right factor.
    pub b: Placement,
    /// Each thread's registers of the left factor, twice 4 words.
    pub registers: *const [u32; 4],
    /// Each thread's elements of what is added to.
    pub c: *const f32,
    /// Each thread's elements of the product alone.
    pub product: *mut f32,
    /// Each thread's elements of c plus the product, or of the product alone.
    pub sum: *mut f32,
    /// Whether c counts.
    pub keep: u32,
}

impl Placement {
    #[inline(always)]
    fn operand<E: Element, O: Order>(&self) -> Operand<E, O> {
        let swizzle = match self.row_bytes {
            16 => Swizzle::None,
            32 => Swizzle::Bytes32,
            64 => Swizzle::Bytes64,
            _ => Swizzle::Bytes128,
        };
        let (leading_bytes, stride_bytes) = (self.leading_bytes, self.stride_bytes);
        let layout = Layout { swizzle, leading_bytes, stride_bytes };
        Operand::new(shared::dynamic() + self.offset, layout)
    }
}

/// Fills shared memory, for products to see.
#[inline(always)]
unsafe fn fill(image: *const [u32; 4], pieces: u32) {
    let mut piece = thread_idx_x();
    // SAFETY: as many values as the caller says; the fence and the barrier let products see them.
    unsafe {
        while piece < pieces {
            let value: [u32; 4] = global::load_cached(image.add(piece as usize));
            shared::store(shared::dynamic() + 16 * piece, value);
            piece += thread::block_dim_x();
        }
        fence::proxy_async();
        thread::sync_threads();
    }
}

#[inline(always)]
unsafe fn load<const R: usize>(from: *const f32) -> Accumulator<R>
where
    [f32; R]: Shape,
{
    // SAFETY: `R` elements for each thread.
    let load = |i| unsafe { global::load(from.add(thread_idx_x() as usize * R + i)) };
    Accumulator::zero().map(|i, _| load(i))
}

#[inline(always)]
unsafe fn store<const R: usize>(to: *mut f32, sums: &Accumulator<R>)
where
    [f32; R]: Shape,
{
    // SAFETY: `R` elements for each thread.
    sums.for_each(|i, sum| unsafe { global::store(to.add(thread_idx_x() as usize * R + i), sum) });
}

/// The product of 64 x 32 by 32 x N, in two steps: of its own, and added to c.
#[inline(always)]
unsafe fn multiply<const R: usize, E: Element, B: Order>(
    problem: &Problem,
    a: [impl Left<E>; 2],
    b: Operand<E, B>,
) where
    [f32; R]: Shape,
{
    let next = b.advance(problem.b.advance);
    // SAFETY: a whole warpgroup; both factors were made visible.
    unsafe {
        let product = Accumulator::<R>::product(a[0], b).add_product(a[1], next);
        wgmma::commit();
        store(problem.product, &product.wait::<0>());

        let sum = load::<R>(problem.c).add_product_if(problem.keep != 0, a[0], b);
        let sum = sum.add_product(a[1], next);
        wgmma::commit();
        store(problem.sum, &sum.wait::<0>());
    }
}

macro_rules! of_shared {
    ($($kernel:ident: $registers:literal, $E:ty, $A:ty, $B:ty;)*) => {$(
        /// `multiply`, with both factors in shared memory.
        #[kernel(launch_bounds(128, 1), arch = "sm_90a")]
        pub unsafe fn $kernel(problem: Problem) {
            // SAFETY: promised by this kernel's caller.
            unsafe {
                fill(problem.image, problem.pieces);
                let a: Operand<$E, $A> = problem.a.operand();
                let b: Operand<$E, $B> = problem.b.operand();
                multiply::<$registers, $E, $B>(&problem, [a, a.advance(problem.a.advance)], b);
            }
        }
    )*};
}

of_shared! {
    wgmma_n8: 4, bf16, KMajor, KMajor;
    wgmma_n16: 8, bf16, KMajor, KMajor;
    wgmma_n32: 16, bf16, KMajor, KMajor;
    wgmma_n64: 32, bf16, KMajor, KMajor;
    wgmma_n96: 48, bf16, KMajor, KMajor;
    wgmma_n128: 64, bf16, KMajor, KMajor;
    wgmma_n176: 88, bf16, KMajor, KMajor;
    wgmma_n192: 96, bf16, KMajor, KMajor;
    wgmma_n256: 128, bf16, KMajor, KMajor;
    wgmma_bf16_k_mn: 32, bf16, KMajor, MnMajor;
    wgmma_bf16_mn_k: 32, bf16, MnMajor, KMajor;
    wgmma_bf16_mn_mn: 32, bf16, MnMajor, MnMajor;
    wgmma_f16_k_k: 32, f16, KMajor, KMajor;
    wgmma_f16_k_mn: 32, f16, KMajor, MnMajor;
    wgmma_f16_mn_k: 32, f16, MnMajor, KMajor;
    wgmma_f16_mn_mn: 32, f16, MnMajor, MnMajor;
    wgmma_n256_mn: 128, bf16, KMajor, MnMajor;
}

macro_rules! of_registers {
    ($($kernel:ident: $registers:literal, $E:ty, $B:ty;)*) => {$(
        /// `multiply`, with the left factor in registers.
        #[kernel(launch_bounds(128, 1), arch = "sm_90a")]
        pub unsafe fn $kernel(problem: Problem) {
            // SAFETY: promised by this kernel's caller; elements of the thread's own.
            unsafe {
                fill(problem.image, problem.pieces);
                let i = 2 * thread_idx_x() as usize;
                let a: [[u32; 4]; 2] = [
                    global::load(problem.registers.add(i)),
                    global::load(problem.registers.add(i + 1)),
                ];
                let b: Operand<$E, $B> = problem.b.operand();
                multiply::<$registers, $E, $B>(&problem, a, b);
            }
        }
    )*};
}

of_registers! {
    wgmma_registers_bf16_k: 32, bf16, KMajor;
    wgmma_registers_bf16_mn: 32, bf16, MnMajor;
    wgmma_registers_f16_k: 32, f16, KMajor;
    wgmma_registers_f16_mn: 32, f16, MnMajor;
    wgmma_registers_n256: 128, bf16, MnMajor;
}

/// Attention's pattern, without its softmax: of q, k and v, the scores q kᵀ are the left factor, in
/// registers, of a product with v. Turn by turn, the next scores are computed beside that product.
/// `q` is 64 x 16, each of `turns` parts of k and v 16 x 16, all in rows of 32 bytes, k along its
/// rows' elements, v along the other: in `image`, one after another. `to` has 8 elements for each
/// thread.
#[kernel(launch_bounds(128, 1), arch = "sm_90a")]
pub unsafe fn wgmma_chain(image: *const [u32; 4], to: *mut f32, turns: u32) {
    const Q_BYTES: u32 = 64 * 32;
    const PART_BYTES: u32 = 16 * 32;
    let layout =
        |leading_bytes| Layout { swizzle: Swizzle::Bytes32, leading_bytes, stride_bytes: 256 };
    let pack = cuda_std::convert::pack_bf16x2;
    // SAFETY: a whole warpgroup; the image is as long as is said, and made visible.
    unsafe {
        fill(image, (Q_BYTES + 2 * turns * PART_BYTES) / 16);
        let q = Operand::<bf16, KMajor>::new(shared::dynamic(), layout(0));
        let part = |i: u32| shared::dynamic() + Q_BYTES + i * PART_BYTES;
        let k = |turn: u32| Operand::<bf16, KMajor>::new(part(2 * turn), layout(0));
        let v = |turn: u32| Operand::<bf16, MnMajor>::new(part(2 * turn + 1), layout(256));

        let scores = Accumulator::<8>::product(q, k(0));
        wgmma::commit();
        let mut left = scores.wait::<0>().left::<0>(pack);
        let mut output = Accumulator::<8>::zero();
        let mut turn = 1;
        while turn < turns {
            let scores = Accumulator::<8>::product(q, k(turn));
            wgmma::commit();
            let growing = output.add_product(left, v(turn - 1));
            wgmma::commit();
            let scores = scores.wait::<1>();
            output = growing.wait::<0>();
            left = scores.left::<0>(pack);
            turn += 1;
        }
        let growing = output.add_product(left, v(turns - 1));
        wgmma::commit();
        wgmma::wait_for_operands::<0>();
        store(to, &growing.wait::<0>());
    }
}

/// The second warpgroup takes registers that the first gives back, and needs them. A thread of the
/// first passes its number on, one of the second the sum of 128 numbers from its own on, of 256.
#[kernel(launch_bounds(256, 1), arch = "sm_90a")]
pub unsafe fn set_max_registers(from: *const f32, to: *mut f32) {
    let i = thread_idx_x() as usize;
    // SAFETY: whole warpgroups; an element for each thread.
    unsafe {
        if warp::shuffle_idx(warp::FULL_MASK, i as u32 / 128, 0) == 0 {
            warpgroup::decrease_registers::<40>();
            global::store(to.add(i), global::load(from.add(i)));
        } else {
            warpgroup::increase_registers::<232>();
            let load = |j, _| global::load(from.add((i + j) % 256));
            let numbers = Accumulator::<128>::zero().map(load);
            let mut sum = 0.;
            numbers.for_each(|_, number| sum += number);
            global::store(to.add(i), sum);
        }
    }
}
