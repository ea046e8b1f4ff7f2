//! What goes wrong with tiles, products by warpgroups and their registers.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "nothing promises that these kernels are right: what they do wrong must be stopped"
)]

use super::{emulators, fault, run};
use cuda_emulator::{
    Buffer, Emulator, FaultKind, LaunchConfig, Launcher, SiteRecorder, SyncSite, barrier, copy,
    fence, mbarrier, shared, thread::thread_idx, warp,
};
use cuda_std::{
    kernel, tensor_map,
    tma::TensorMap,
    wgmma::{self, Accumulator, KMajor, Layout, Operand, Swizzle},
};
use fused_attention::{TensorDimension, TensorElement, TensorTiling, TileSwizzle};
use half::bf16;

/// A map of tiles of 8 x 32 f32, 128 bytes a row, of a matrix of as many rows and columns.
fn map(matrix: &Buffer<f32>) -> TensorMap {
    let dimensions = [
        TensorDimension { size: 32, stride: 4, tile: 32 },
        TensorDimension { size: 8, stride: 128, tile: 8 },
    ];
    let tiling = TensorTiling {
        address: matrix.as_ptr() as u64,
        element: TensorElement::F32,
        dimensions: &dimensions,
        swizzle: TileSwizzle::Bytes128,
    };
    copy::encode(&tiling).expect("tiles of whole rows")
}

const TILE_BYTES: u32 = 1024;

/// Loads a tile to `offset`, or to `blocks` if there are any, after it has checked in. Without
/// `fenced`, nothing lets the copy see the barrier's initialisation.
#[kernel(launch_bounds(32, 1))]
unsafe fn loads(
    map: TensorMap,
    offset: u32,
    dimensions: u32,
    column: i32,
    blocks: u32,
    fenced: bool,
) {
    let map = tensor_map!(loads, 0, map);
    let bar = shared::dynamic() + 2 * TILE_BYTES;
    if thread_idx().x == 0 {
        mbarrier::init(bar, 1);
        if fenced {
            fence::proxy_async();
        }
        mbarrier::arrive(bar, TILE_BYTES);
        let (to, at) = (shared::dynamic() + offset, &[column, 0, 0][..dimensions as usize]);
        match blocks {
            0 => unsafe { copy::tma_load(to, map, at, bar) },
            _ => unsafe { copy::tma_load_multicast(to, map, at, bar, blocks as u16) },
        }
        mbarrier::wait(bar, 0);
    }
}

#[test]
fn loads_of_tiles_are_checked() {
    let matrix = Buffer::from(vec![1f32; 256]);
    let map = map(&matrix);
    let config = LaunchConfig::new(1, 32).shared_bytes(2 * TILE_BYTES + 8);
    let checked = Emulator::default().race_check(true);
    for emulator in emulators() {
        run(&emulator, &loads, config, (map, 0, 2, 0, 0, true));
        run(&emulator, &loads, config, (map, TILE_BYTES, 2, 0, 1, true));
    }
    let expect = |args, kind, message: &str| {
        let found = fault(&checked, &loads, config, args);
        assert_eq!(found.kind(), kind, "{found}");
        assert!(found.message().contains(message), "{found}");
    };
    expect((map, 128, 2, 0, 0, true), FaultKind::Misaligned, "must be a multiple of 1024");
    expect(
        (map, 2 * TILE_BYTES, 2, 0, 0, true),
        FaultKind::OutOfBounds,
        "outside of shared memory",
    );
    expect((map, 0, 3, 0, 0, true), FaultKind::Instruction, "3 coordinates for a tensor of 2");
    expect((map, 0, 2, 0, 0b10, true), FaultKind::Cluster, "the blocks 0b10 of a cluster of 1");
    expect((map, 0, 2, 0, 0, false), FaultKind::DataRace, "TMA or wgmma");
    expect((map, 0, 2, -3, 0, true), FaultKind::Instruction, "begins -12 bytes from the beginning");
    let no_map = TensorMap::from_words([7; 16]);
    expect((no_map, 0, 2, 0, 0, true), FaultKind::Instruction, "there is no tensor map");
}

#[test]
fn a_tensor_must_still_be_there() {
    let map = map(&Buffer::from(vec![1f32; 256]));
    let config = LaunchConfig::new(1, 32).shared_bytes(2 * TILE_BYTES + 8);
    let found = fault(&Emulator::default(), &loads, config, (map, 0, 2, 0, 0, true));
    assert_eq!(found.kind(), FaultKind::OutOfBounds, "{found}");
}

/// Stores a tile at a row, and forgets what `forgotten` says: 1 the fence, 2 the barrier, 3 to commit, 4
/// to wait.
#[kernel(launch_bounds(256, 1))]
unsafe fn stores(map: TensorMap, row: i32, forgotten: u32) {
    let map = tensor_map!(stores, 0, map);
    shared::store(shared::dynamic() + 4 * thread_idx().x, thread_idx().x as f32);
    if forgotten != 1 {
        fence::proxy_async();
    }
    if forgotten != 2 {
        barrier::sync(0, None);
    }
    if thread_idx().x == 0 {
        unsafe { copy::tma_store(map, &[0, row], shared::dynamic()) };
        if forgotten != 3 {
            copy::bulk_commit();
        }
        if forgotten != 4 {
            copy::bulk_wait_read(0);
        }
    }
}

#[test]
fn what_a_store_of_a_tile_forgets_is_found() {
    let config = LaunchConfig::new(1, 256).shared_bytes(TILE_BYTES);
    for emulator in emulators() {
        let matrix = Buffer::from(vec![-1f32; 256]);
        run(&emulator, &stores, config, (map(&matrix), 0, 0));
        // Row 1 is swizzled by one piece, of four numbers.
        assert_eq!(matrix[..32], std::array::from_fn::<f32, 32, _>(|i| i as f32));
        assert_eq!(matrix[32..40], [36., 37., 38., 39., 32., 33., 34., 35.]);
    }
    let matrix = Buffer::from(vec![-1f32; 256]);
    let checked = Emulator::default().race_check(true);
    let expected = [
        (1, &[FaultKind::DataRace][..]),
        (2, &[FaultKind::DataRace, FaultKind::Uninitialised]),
        (3, &[FaultKind::Instruction]),
        (4, &[FaultKind::Instruction]),
    ];
    for (forgotten, kinds) in expected {
        let found = fault(&checked, &stores, config, (map(&matrix), 0, forgotten));
        assert!(kinds.contains(&found.kind()), "{forgotten}: {found}");
    }
    let found = fault(&checked, &stores, config, (map(&matrix), -1, 0));
    assert_eq!(found.kind(), FaultKind::Instruction, "{found}");
    assert!(found.message().contains("negative coordinate -1"), "{found}");
}

const ROWS: Layout = Layout { swizzle: Swizzle::Bytes32, leading_bytes: 0, stride_bytes: 256 };
const FACTOR_BYTES: u32 = 64 * 32;

/// Adds up two products of a matrix of ones with itself, as two groups, and writes the first element.
/// Waits for all groups but `pending` before it looks. Each warp does something of its own before.
#[kernel(launch_bounds(128, 1))]
unsafe fn two_products(sum: *mut f32, offset: u32, pending_first: bool) {
    let (base, thread) = (shared::dynamic(), thread_idx().x);
    for i in 0..FACTOR_BYTES / 4 / 128 {
        shared::store(base + 4 * (128 * i + thread), 0x3f80_3f80u32);
    }
    fence::proxy_async();
    barrier::sync(0, None);
    for _ in 0..thread / 32 {
        warp::sync(!0);
        warp::ballot(!0, true);
    }
    unsafe {
        let factor = Operand::<bf16, KMajor>::new(base + offset, ROWS);
        let first = Accumulator::<32>::product(factor, factor);
        wgmma::commit();
        let second = Accumulator::<32>::product(factor, factor);
        wgmma::commit();
        // The second is the group that may still be under way.
        let early = if pending_first { first.wait::<1>() } else { second.wait::<1>() };
        cuda_emulator::global::store(sum.add(thread as usize), early.get::<5>());
    }
}

#[test]
fn warps_may_be_out_of_step_before_a_product() {
    for emulator in emulators() {
        let sums = Buffer::from(vec![0f32; 128]);
        let config = LaunchConfig::new(1, 128).shared_bytes(FACTOR_BYTES);
        run(&emulator, &two_products, config, (sums.as_mut_ptr(), 0, true));
        assert_eq!(sums[..], [16.; 128]);
    }
}

#[test]
fn an_accumulator_in_flight_cannot_be_read() {
    let sums = Buffer::from(vec![0f32; 128]);
    let config = LaunchConfig::new(1, 128).shared_bytes(FACTOR_BYTES);
    for emulator in emulators() {
        let found = fault(&emulator, &two_products, config, (sums.as_mut_ptr(), 0, false));
        assert_eq!(found.kind(), FaultKind::Instruction, "{found}");
        assert!(found.message().contains("still in flight"), "{found}");
    }
}

#[test]
fn operands_are_aligned_to_their_swizzle() {
    let sums = Buffer::from(vec![0f32; 128]);
    let config = LaunchConfig::new(1, 128).shared_bytes(2 * FACTOR_BYTES);
    let args = (sums.as_mut_ptr(), 128, true);
    let found = fault(&Emulator::default(), &two_products, config, args);
    assert_eq!(found.kind(), FaultKind::Misaligned, "{found}");
    assert!(found.message().contains("isn't a multiple of 256"), "{found}");
}

#[test]
fn a_product_needs_a_whole_warpgroup() {
    let sums = Buffer::from(vec![0f32; 128]);
    let config = LaunchConfig::new(1, 96).shared_bytes(FACTOR_BYTES);
    let found = fault(&Emulator::default(), &two_products, config, (sums.as_mut_ptr(), 0, true));
    assert_eq!(found.kind(), FaultKind::Instruction, "{found}");
    assert!(found.message().contains("needs a whole warpgroup"), "{found}");
}

/// Asks for so many registers; all but the last warp if `alone`.
#[kernel(launch_bounds(128, 1))]
unsafe fn registers(count: u32, alone: bool) {
    if !alone || thread_idx().x < 96 {
        warp::set_max_registers(count);
    }
}

#[test]
fn registers_are_asked_for_by_a_warpgroup_in_eights() {
    let config = LaunchConfig::new(1, 128);
    run(&Emulator::default(), &registers, config, (40, false));
    for count in [16, 44, 264] {
        let found = fault(&Emulator::default(), &registers, config, (count, false));
        assert_eq!(found.kind(), FaultKind::Instruction, "{found}");
    }
    let found = fault(&Emulator::default(), &registers, config, (40, true));
    assert_eq!(found.kind(), FaultKind::Divergence, "{found}");
}

/// Leaving out any one commit, wait, fence or barrier of products that take turns is noticed.
#[test]
fn each_synchronisation_of_products_is_needed() {
    use conformance_kernels::wgmma::wgmma_chain;
    const TURNS: u32 = 3;
    let ones = Buffer::from(vec![0x3f80_3f80u32; (64 + 32 * TURNS as usize) * 8]);
    let output = Buffer::from(vec![0f32; 128 * 8]);
    let config = LaunchConfig::new(1, 128).shared_bytes(4 * ones.len() as u32);
    let args = || (ones.as_ptr().cast(), output.as_mut_ptr(), TURNS);
    let recorder = SiteRecorder::default();
    run(&Emulator::default().recording(&recorder), &wgmma_chain, config, args());
    let right = vec![(16 * 16 * TURNS) as f32; 128 * 8];
    assert_eq!(output[..], right[..]);
    let sites = recorder.sites();
    let count = |instruction| sites.iter().filter(|s| s.instruction() == instruction).count();
    assert_eq!(count("wgmma.commit_group"), 4);
    assert_eq!(count("wgmma.wait_group"), 5);
    assert_eq!((count("fence.proxy.async"), count("bar.sync")), (1, 1));
    let is_missed = |site: &SyncSite| {
        let emulator = Emulator::default().race_check(true).omitting(*site);
        // SAFETY: the buffers outlive the launch.
        let result = unsafe { emulator.launch(&wgmma_chain, config, args()) };
        result.is_err() || output[..] != right[..]
    };
    let spare: Vec<_> = sites.into_iter().filter(|site| !is_missed(site)).collect();
    // Of two waits for all groups in a row, the first; it is there to be tested.
    assert_eq!(spare.len(), 1, "{spare:?}");
    assert_eq!(spare[0].instruction(), "wgmma.wait_group");
}
