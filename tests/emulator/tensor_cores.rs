//! Matrix instructions, and tiles by TMA.

use super::{emulators, fault, run};
use cuda_emulator::{
    Buffer, Emulator, FaultKind, LaunchConfig, barrier, copy, fence, global, mbarrier,
    mma::{self, narrow, wide},
    shared,
    thread::{block_idx, thread_idx},
    warp,
    wgmma::{self, Factors, Left},
};
use cuda_std::{kernel, tma::TensorMap};
use fused_attention::{TensorDimension, TensorElement, TensorTiling, TileSwizzle};

const TILE: u32 = 64;
const TILE_BYTES: u32 = TILE * TILE * 2;
const STAGES: u32 = 3;
const STAGE_BYTES: u32 = 2 * TILE_BYTES;

/// An operand with rows of 64 bf16 along k, in the 128-byte swizzle.
fn operand(addr: u32) -> wgmma::Operand {
    let descriptor = (addr >> 4) as u64 | 1 << 16 | (1024 >> 4) << 32 | 1 << 62;
    wgmma::Operand { descriptor, transposed: false }
}

/// What `gemm` forgets.
const NOTHING: u32 = 0;
const PROXY_FENCE: u32 = 1;
const FULL_WAIT: u32 = 2;
const EMPTY_WAIT: u32 = 3;
const TENSOR_WAIT: u32 = 4;
const TENSOR_FENCE: u32 = 5;
const COMMIT: u32 = 6;

/// c = a bᵀ: a warp copies tiles, a warpgroup multiplies them. Forgets one thing.
#[kernel(launch_bounds(160, 1))]
unsafe fn gemm(
    a: *const TensorMap,
    b: *const TensorMap,
    c: *mut f32,
    n: u32,
    k: u32,
    forgets: u32,
) {
    let (row, col, thread) = (block_idx().y * TILE, block_idx().x * TILE, thread_idx().x);
    let base = shared::dynamic();
    let full = |stage: u32| base + STAGES * STAGE_BYTES + stage * 16;
    let empty = |stage: u32| full(stage) + 8;
    if thread == 0 {
        for stage in 0..STAGES {
            mbarrier::init(full(stage), 1);
            mbarrier::init(empty(stage), 128);
        }
        if forgets != PROXY_FENCE {
            fence::proxy_async();
        }
    }
    barrier::sync(0, None);
    if thread == 128 {
        for i in 0..k / TILE {
            let (stage, parity) = (i % STAGES, i / STAGES % 2);
            let to = base + stage * STAGE_BYTES;
            if forgets != EMPTY_WAIT {
                mbarrier::wait(empty(stage), parity ^ 1);
            }
            mbarrier::arrive(full(stage), STAGE_BYTES);
            let depth = (i * TILE) as i32;
            // SAFETY: the maps and their matrices outlive the launch.
            unsafe {
                copy::tma_load(to, a, &[depth, row as i32], full(stage));
                copy::tma_load(to + TILE_BYTES, b, &[depth, col as i32], full(stage));
            }
        }
    }
    if thread >= 128 {
        return;
    }
    let mut sums = [0f32; 32];
    for i in 0..k / TILE {
        let (stage, parity) = (i % STAGES, i / STAGES % 2);
        let from = base + stage * STAGE_BYTES;
        if forgets != FULL_WAIT {
            mbarrier::wait(full(stage), parity);
        }
        if forgets != TENSOR_FENCE {
            wgmma::fence();
        }
        for part in 0..4 {
            let (a, b) = (operand(from + 32 * part), operand(from + TILE_BYTES + 32 * part));
            wgmma::multiply(Factors::Bf16, &mut sums, Left::Shared(a), b, true, false);
        }
        if forgets != COMMIT {
            wgmma::commit();
        }
        if forgets != TENSOR_WAIT {
            wgmma::wait(0, &mut sums);
        }
        mbarrier::arrive(empty(stage), 0);
    }
    for (i, sum) in sums.into_iter().enumerate() {
        let (i, lane, warp) = (i as u32, thread % 32, thread / 32);
        let row = row + warp * 16 + lane / 4 + i / 2 % 2 * 8;
        let col = col + i / 4 * 8 + lane % 4 * 2 + i % 2;
        // SAFETY: one thread for each element.
        unsafe { global::store(c.add((row * n + col) as usize), sum) };
    }
}

/// Copies a matrix by tiles: one warp loads them, another stores them, by turns.
#[kernel(launch_bounds(64, 1))]
unsafe fn copy_tiles(from: *const TensorMap, to: *const TensorMap, tiles: i32) {
    let (base, row) = (shared::dynamic(), (block_idx().x * TILE) as i32);
    let (bar, lane) = (base + TILE_BYTES, thread_idx().x % 32);
    if thread_idx().x == 0 {
        mbarrier::init(bar, 1);
        fence::proxy_async();
    }
    barrier::sync(0, None);
    for i in 0..tiles {
        let col = i * TILE as i32;
        if thread_idx().x < 32 {
            if i > 0 {
                barrier::sync(1, Some(64));
            }
            if lane == 0 {
                mbarrier::arrive(bar, TILE_BYTES);
                // SAFETY: the map and its matrix outlive the launch.
                unsafe { copy::tma_load(base, from, &[col, row], bar) };
            }
        } else {
            while !mbarrier::test(bar, i as u32 % 2) {}
            if lane == 0 {
                // SAFETY: as above.
                unsafe { copy::tma_store(to, &[col, row], base) };
                copy::bulk_commit();
                copy::bulk_wait(0);
            }
            warp::sync(!0);
            if i + 1 < tiles {
                barrier::arrive(1, 64);
            }
        }
    }
}

/// c = a b for one warp, from 16 x 16 and 16 x 8 bf16 in shared memory, row by row.
#[kernel(launch_bounds(32, 1))]
unsafe fn multiply(a: *const u16, b: *const u16, c: *mut f32) {
    let (base, lane) = (shared::dynamic(), thread_idx().x);
    for i in (lane..16 * 16).step_by(32) {
        // SAFETY: the buffer has as many elements, and nobody writes them.
        shared::store::<u16>(base + 2 * i, unsafe { global::load(a.add(i as usize)) });
    }
    for i in (lane..16 * 8).step_by(32) {
        // SAFETY: as above.
        shared::store::<u16>(base + 512 + 2 * i, unsafe { global::load(b.add(i as usize)) });
    }
    warp::sync(!0);
    let left = mma::ldmatrix(false, base + lane % 16 * 32 + lane / 16 * 16);
    let right = mma::ldmatrix(true, base + 512 + lane % 16 * 16);
    let product = mma::m16n8k16_bf16(left, right, [0.; 4]);
    for (i, value) in product.into_iter().enumerate() {
        let (row, col) = (lane as usize / 4 + i / 2 * 8, lane as usize % 4 * 2 + i % 2);
        // SAFETY: one lane for each element.
        unsafe { global::store(c.add(row * 8 + col), value) };
    }
}

/// Small whole numbers, so that sums are exact in bf16 products and f32 sums.
fn numbers(len: usize, step: usize) -> Buffer<u16> {
    Buffer::from((0..len).map(|i| narrow((i * step % 13) as f32 - 6.)).collect::<Vec<_>>())
}

fn map(matrix: &Buffer<u16>, rows: usize, cols: usize) -> TensorMap {
    let (cols, rows) = (cols as u64, rows as u64);
    let dimensions = [
        TensorDimension { size: cols, stride: 2, tile: TILE },
        TensorDimension { size: rows, stride: 2 * cols, tile: TILE },
    ];
    let tiling = TensorTiling {
        address: matrix.as_ptr() as u64,
        element: TensorElement::Bf16,
        dimensions: &dimensions,
        swizzle: TileSwizzle::Bytes128,
    };
    copy::encode(&tiling).expect("tiles of whole rows")
}

struct Gemm {
    product: Vec<f32>,
    maps: [TensorMap; 2],
    _inputs: [Buffer<u16>; 2],
}

const M: usize = 128;
const N: usize = 64;
const K: usize = 320;

impl Gemm {
    fn new() -> Gemm {
        let (a, b) = (numbers(M * K, 5), numbers(N * K, 7));
        let element = |i: usize| {
            let (a, b) = (&a[i / N * K..][..K], &b[i % N * K..][..K]);
            a.iter().zip(b).map(|(a, b)| wide(*a) * wide(*b)).sum()
        };
        let product = (0..M * N).map(element).collect();
        Gemm { product, maps: [map(&a, M, K), map(&b, N, K)], _inputs: [a, b] }
    }

    fn config(&self) -> LaunchConfig {
        let shared_bytes = STAGES * STAGE_BYTES + STAGES * 16;
        let grid = ((N / TILE as usize) as u32, (M / TILE as usize) as u32);
        LaunchConfig::new(grid, 160).shared_bytes(shared_bytes)
    }
}

#[test]
fn a_product_by_tma_and_wgmma() {
    let gemm_case = Gemm::new();
    for emulator in emulators() {
        let c = Buffer::from(vec![f32::NAN; M * N]);
        let [a, b] = &gemm_case.maps;
        let args = (&raw const *a, &raw const *b, c.as_mut_ptr(), N as u32, K as u32, NOTHING);
        run(&emulator, &gemm, gemm_case.config(), args);
        assert!(c[..] == gemm_case.product[..]);
    }
}

#[test]
fn what_a_product_forgets_is_found() {
    let gemm_case = Gemm::new();
    let [a, b] = &gemm_case.maps;
    let c = Buffer::from(vec![f32::NAN; M * N]);
    let args =
        |forgets| (&raw const *a, &raw const *b, c.as_mut_ptr(), N as u32, K as u32, forgets);
    let expected = [
        (PROXY_FENCE, &[FaultKind::DataRace][..]),
        (FULL_WAIT, &[FaultKind::DataRace, FaultKind::Uninitialised]),
        // Phases pass unseen, or a tile is overwritten while it is read.
        (EMPTY_WAIT, &[FaultKind::Deadlock, FaultKind::DataRace]),
        (TENSOR_FENCE, &[FaultKind::Instruction]),
        (COMMIT, &[FaultKind::Instruction]),
        (TENSOR_WAIT, &[FaultKind::Instruction, FaultKind::DataRace]),
    ];
    let checked = Emulator::default().race_check(true);
    for (forgets, kinds) in expected {
        let found = fault(&checked, &gemm, gemm_case.config(), args(forgets));
        assert!(kinds.contains(&found.kind()), "{found}");
    }
}

#[test]
fn tiles_are_copied() {
    let (rows, cols) = (100, 200);
    let from = Buffer::from((0..rows * cols).map(|i| i as u16).collect::<Vec<_>>());
    let map_from = map(&from, rows, cols);
    for emulator in emulators() {
        let to = Buffer::from(vec![0u16; rows * cols]);
        let map_to = map(&to, rows, cols);
        let config = LaunchConfig::new(2, 64).shared_bytes(TILE_BYTES + 8);
        run(&emulator, &copy_tiles, config, (&raw const map_from, &raw const map_to, 4));
        assert!(from[..] == to[..]);
    }
}

#[test]
fn a_product_by_mma() {
    let (a, b) = (numbers(16 * 16, 5), numbers(16 * 8, 7));
    for emulator in emulators() {
        let c = Buffer::from(vec![f32::NAN; 16 * 8]);
        let config = LaunchConfig::new(1, 32).shared_bytes(768);
        run(&emulator, &multiply, config, (a.as_ptr(), b.as_ptr(), c.as_mut_ptr()));
        for (i, value) in c.iter().enumerate() {
            let (row, col) = (i / 8, i % 8);
            let term = |k: usize| wide(a[row * 16 + k]) * wide(b[k * 8 + col]);
            assert_eq!(*value, (0..16).map(term).sum::<f32>(), "row {row}, column {col}");
        }
    }
}
