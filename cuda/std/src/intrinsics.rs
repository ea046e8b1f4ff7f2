//! LLVM's names for instructions.
//!
//! Convergent instructions must come from here: LLVM knows that they may be neither duplicated
//! nor moved into a branch, which it does not know of inline assembly. A misspelt name compiles,
//! to a call of an unknown function that the driver rejects.

#[allow(improper_ctypes)]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    pub fn barrier_sync_all(id: u32);
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    pub fn barrier_sync(id: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
    pub fn barrier_arrive(id: u32, threads: u32);
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub fn bar_warp_sync(mask: u32);

    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub fn shfl_bfly(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub fn shfl_up(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub fn shfl_down(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;

    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub fn vote_ballot(mask: u32, predicate: bool) -> u32;

    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub fn redux_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub fn redux_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    pub fn redux_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    pub fn redux_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    pub fn redux_or(value: u32, mask: u32) -> u32;

    #[link_name = "llvm.nvvm.barrier.cluster.arrive.aligned"]
    pub fn cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"]
    pub fn cluster_arrive_relaxed();
    #[link_name = "llvm.nvvm.barrier.cluster.wait.aligned"]
    pub fn cluster_wait();

    #[link_name = "llvm.nvvm.membar.gl"]
    pub fn membar_gl();
    #[link_name = "llvm.nvvm.membar.cta"]
    pub fn membar_cta();

    #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
    pub fn ex2_approx_ftz(x: f32) -> f32;
    #[link_name = "llvm.nvvm.lg2.approx.ftz.f"]
    pub fn lg2_approx_ftz(x: f32) -> f32;
    #[link_name = "llvm.nvvm.rcp.approx.ftz.f"]
    pub fn rcp_approx_ftz(x: f32) -> f32;
    #[link_name = "llvm.fma.f32"]
    pub fn fma_f32(a: f32, b: f32, c: f32) -> f32;
    #[link_name = "llvm.fma.f64"]
    pub fn fma_f64(a: f64, b: f64, c: f64) -> f64;
}

/// What `mma` yields.
#[repr(C)]
pub struct Accumulators(f32, f32, f32, f32);

macro_rules! products {
    ($($name:ident, $link_name:literal;)*) => {
        #[allow(clippy::too_many_arguments)]
        unsafe extern "unadjusted" {$(
            #[link_name = $link_name]
            pub fn $name(
                a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32,
                c0: f32, c1: f32, c2: f32, c3: f32,
            ) -> Accumulators;
        )*}
    };
}

products! {
    mma_m16n8k16_bf16, "llvm.nvvm.mma.m16n8k16.row.col.bf16";
    mma_m16n8k8_tf32, "llvm.nvvm.mma.m16n8k8.row.col.tf32";
}

impl Accumulators {
    /// As an array.
    #[inline(always)]
    pub fn array(self) -> [f32; 4] {
        [self.0, self.1, self.2, self.3]
    }
}
