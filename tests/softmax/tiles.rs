//! Tiles: each runs for every element type and mask, under every schedule; and which is chosen.

use cuda_emulator::{AsyncTiming, Emulator, Schedule};
use fused_attention::{
    Accumulate, Causal, Device, Mask, RawForward, RawTensor, ScaledMaskedSoftmax, SoftmaxInputs,
    tile_names,
};
use half::{bf16, f16};
use kernels::{
    softmax::entries::FORWARD_VARIANTS,
    tiles::{Residence, Sharing, SoftmaxTile},
};
use support::{
    gpus, on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, ByteMask, Lengths, SoftmaxCase},
};

/// The largest portable cluster.
const CLUSTER: usize = 8;

/// Columns that `threads` threads of a tile hold.
fn columns<T>(tile: &SoftmaxTile, threads: usize) -> usize {
    threads * tile.vectors as usize * (16 / size_of::<T>())
}

/// Threads of a row, at most.
fn row_threads(tile: &SoftmaxTile) -> usize {
    match tile.sharing {
        Sharing::Warp => 32,
        Sharing::Block => tile.threads as usize,
        Sharing::Cluster => CLUSTER * tile.threads as usize,
    }
}

/// Lengths for a tile: a few threads' worth; several warps, the last in part; and, where
/// `largest`, all that it holds, or several stretches of it.
pub(super) fn lengths<T>(tile: &SoftmaxTile, largest: bool) -> Vec<usize> {
    let lanes = 16 / size_of::<T>();
    let middle = if tile.sharing == Sharing::Warp { 19 } else { 5 * 32 - 13 };
    let off_grid = if tile.aligned { 0 } else { 1 };
    let mut lengths = vec![3 * lanes + off_grid, columns::<T>(tile, middle) + off_grid];
    if largest {
        let all = columns::<T>(tile, row_threads(tile));
        // Off the grid, a row may touch a vector more than it fills.
        lengths.push(if tile.aligned { all } else { all - lanes + 1 });
        if tile.residence != Residence::Registers {
            lengths.push(2 * all + 5 * lanes + off_grid);
        }
    }
    lengths
}

/// A problem of each mask kind.
fn problems(rows: usize, length: usize) -> [SoftmaxCase; 4] {
    let case = SoftmaxCase::new(&[rows, length]);
    let bytes = Some(ByteMask { hidden_rows: 0.3, ..ByteMask::new(&[rows, length]) });
    let additive = Some(AdditiveMask { hidden_rows: 0.3, ..AdditiveMask::new(&[rows, length]) });
    let lengths = Some(Lengths::random(fused_attention::Per::Row));
    [
        case.clone(),
        SoftmaxCase { bytes: bytes.clone(), ..case.clone() },
        SoftmaxCase { additive: additive.clone(), bytes, ..case.clone() },
        SoftmaxCase { causal: Some(Causal::BottomRight), lengths, ..case },
    ]
}

/// The emulators to run under, and the GPUs.
pub(super) fn devices(seed: u64) -> Vec<(String, Device)> {
    let shuffled = Emulator::default().schedule(Schedule::Shuffled { seed }).race_check(true);
    let late = Emulator::adversarial(seed + 1).timing(AsyncTiming::Late);
    [Emulator::default().race_check(true), shuffled, late]
        .into_iter()
        .map(|emulator| (format!("{emulator:?}"), Device::emulator_with(emulator)))
        .chain(gpus().into_iter().map(|gpu| (gpu.to_string(), gpu)))
        .collect()
}

fn every_tile<T: Accumulate>() {
    let mut seed = size_of::<T>() as u64;
    for variant in FORWARD_VARIANTS {
        let tile = &variant.tile;
        let x = if tile.aligned { Placement::Contiguous } else { Placement::Offset(1) };
        // Warps take several rows, and the last of them not all; clusters of a ring in turn.
        let rows = match (tile.sharing, tile.residence) {
            (Sharing::Warp, _) => 7,
            (_, Residence::Ring) => 5,
            _ => 2,
        };
        for length in lengths::<T>(tile, false) {
            for case in problems(rows, length) {
                seed += 2;
                let case = SoftmaxCase { x, seed, ..case };
                let solved = case.solve::<T>().with_tile(tile.name);
                for (name, device) in devices(seed) {
                    if let Err(error) = solved.check(&device) {
                        panic!("{} of {} on {name}: {error}\n{case:?}", tile.name, T::DTYPE);
                    }
                }
            }
        }
    }
}

#[test]
fn every_tile_f16() {
    every_tile::<f16>();
}

#[test]
fn every_tile_bf16() {
    every_tile::<bf16>();
}

#[test]
fn every_tile_f32() {
    every_tile::<f32>();
}

#[test]
fn every_tile_f64() {
    every_tile::<f64>();
}

/// As long as they can be.
fn longest_rows<T: Accumulate>() {
    on_every_backend(|device| {
        for variant in FORWARD_VARIANTS {
            let tile = &variant.tile;
            let x = if tile.aligned { Placement::Contiguous } else { Placement::Offset(1) };
            for length in lengths::<T>(tile, true).split_off(2) {
                let case = SoftmaxCase { x, ..SoftmaxCase::new(&[1, length]) };
                case.solve::<T>().with_tile(tile.name).assert_right(device);
            }
        }
    });
}

#[test]
fn longest_rows_f16() {
    longest_rows::<f16>();
}

#[test]
fn longest_rows_bf16() {
    longest_rows::<bf16>();
}

#[test]
fn longest_rows_f32() {
    longest_rows::<f32>();
}

#[test]
fn longest_rows_f64() {
    longest_rows::<f64>();
}

/// The order of preference, as it is documented.
#[test]
fn the_table() {
    let names: Vec<_> = tile_names().collect();
    let expected: Vec<_> = FORWARD_VARIANTS.iter().map(|variant| variant.tile.name).collect();
    assert_eq!(names, expected);
    for variant in FORWARD_VARIANTS {
        let tile = variant.tile;
        assert!(!tile.reason.is_empty(), "{}", tile.name);
        let of_turns = variant.in_turns.iter().flatten();
        for kernel in variant.kernels.as_flattened().iter().chain(of_turns) {
            assert_eq!(kernel.bounds().threads, tile.threads, "{}", kernel.name());
            let (unmasked, masked, of_f64, in_turns) = tile.blocks_per_sm;
            let is_masked = ["_bytes_", "_additive_"].iter().any(|m| kernel.name().contains(m));
            let blocks = match kernel.name() {
                name if name.contains("_f64_") => of_f64,
                name if name.contains("_shared_") => in_turns,
                _ if is_masked => masked,
                _ => unmasked,
            };
            assert_eq!(kernel.bounds().blocks_per_sm, blocks, "{}", kernel.name());
            // Pairs of 16-bit floats are converted by instructions of sm_80.
            let is_16_bit = kernel.name().contains("f16_");
            let at_least = if is_16_bit { tile.arch.max("sm_80") } else { tile.arch };
            assert_eq!(kernel.arch(), at_least, "{}", kernel.name());
            assert!(kernel.name().ends_with(tile.name), "{}", kernel.name());
        }
    }
    // Something takes every row, on the grid or off it, on every GPU.
    let last = FORWARD_VARIANTS.last().expect("a tile").tile;
    assert!(
        last.residence == Residence::Streamed && !last.aligned && last.arch == "sm_70",
        "{last:?}"
    );
}

/// What explain says of so many rows of so many columns, whose x begins `offset` elements into its
/// memory.
#[track_caller]
fn explain<T: Accumulate>(device: &Device, [rows, columns]: [usize; 2], offset: usize) -> String {
    let y = device.zeros::<T>(&[rows, columns]).unwrap();
    let memory = device.zeros::<T>(&[rows * columns + offset]).unwrap();
    let x = memory.narrow(0, offset, rows * columns).unwrap().reshape(&[rows, columns]).unwrap();
    let softmax = ScaledMaskedSoftmax::new(1.0);
    softmax.explain(SoftmaxInputs::new(&x), &y).unwrap().tile.to_owned()
}

/// By the bytes of a row, on the 16-byte grid and off it, and by the number of rows.
fn choices<T: Accumulate>() {
    on_every_backend(|device| {
        let (size, lanes) = (size_of::<T>(), 16 / size_of::<T>());
        for (tile, rows, bytes) in [
            ("warp4", 1, 1 << 10),
            ("block4", 1, 4 << 10),
            ("staged4", 1, 8 << 10),
            ("staged4", 17, 8 << 10),
            ("staged4", 16, 16 << 10),
            ("staged4", 17, 32 << 10),
            ("cluster4", 16, 128 << 10),
            ("cluster4", 1, 512 << 10),
            ("ring4", 1, 1 << 20),
        ] {
            for columns in [bytes / size, bytes / size / 2 + lanes] {
                let found = explain::<T>(device, [rows, columns], 0);
                assert_eq!(found, tile, "{rows} rows of {columns} of {}", T::DTYPE);
            }
        }
        let columns = (32 << 10) / size - lanes + 1;
        assert_eq!(explain::<T>(device, [1, columns], 1), "ragged_block4");
        assert_eq!(explain::<T>(device, [1, columns / 2 + lanes], 1), "ragged_block4");
        assert_eq!(explain::<T>(device, [1, columns + 1], 1), "ragged_cluster4");
        assert_eq!(explain::<T>(device, [1, (1 << 10) / size], 1), "ragged_warp4");
        assert_eq!(explain::<T>(device, [1, (1 << 10) / size + 1], 1), "ragged_block4");
        assert_eq!(explain::<T>(device, [17, (1 << 20) / size], 1), "ragged_cluster4");
        assert_eq!(explain::<T>(device, [1, (1 << 20) / size + 1], 1), "ragged_streamed4");
    });
}

#[test]
fn choices_f16() {
    choices::<f16>();
}

#[test]
fn choices_bf16() {
    choices::<bf16>();
}

#[test]
fn choices_f32() {
    choices::<f32>();
}

#[test]
fn choices_f64() {
    choices::<f64>();
}

/// The name of the tile for a problem of these forms, all at multiples of 256 bytes.
fn chosen(device: &Device, change: impl FnOnce(&mut RawForward)) -> &'static str {
    let raw = |dtype, shape: &[usize]| RawTensor::contiguous(256, dtype, shape).unwrap();
    let x = raw(fused_attention::Dtype::F16, &[4, 6, 64]);
    let mut tensors = RawForward { x, y: x, lse: None, scale: None, mask: Default::default() };
    change(&mut tensors);
    let softmax = ScaledMaskedSoftmax::new(1.0);
    softmax.explain_raw(&device.default_stream(), &tensors).unwrap().tile
}

/// Whatever a vector touches counts for its alignment: bases, strides, masks, banks.
#[test]
fn alignment_of_every_tensor() {
    use fused_attention::{Dtype, Polarity::Keep};
    let raw = |pointer, dtype, shape: &[usize], strides: &[i64]| {
        RawTensor::new(pointer, dtype, shape, strides).unwrap()
    };
    let strides = |query: i64| [6 * query, query, 1];
    const SHAPE: [usize; 3] = [4, 6, 64];
    on_every_backend(|device| {
        let (on, off) = ("warp4", "ragged_warp4");
        let x = |pointer, query| raw(pointer, Dtype::F16, &SHAPE, &strides(query));
        for (x, tile) in [(x(256, 64), on), (x(272, 72), on), (x(258, 64), off), (x(256, 65), off)]
        {
            assert_eq!(chosen(device, |t| t.x = x), tile, "{x:?}");
            assert_eq!(chosen(device, |t| t.y = x), tile, "{x:?}");
        }
        // Masks of bytes are read eight at a time.
        let bytes = |pointer, query| raw(pointer, Dtype::U8, &SHAPE, &strides(query));
        for (mask, tile) in [
            (bytes(256, 64), on),
            (bytes(264, 72), on),
            (bytes(260, 64), off),
            (bytes(256, 68), off),
            (raw(257, Dtype::U8, &SHAPE, &[6, 1, 0]), on),
            (raw(257, Dtype::U8, &[4, 6, 1], &[6, 1, 1]), on),
        ] {
            assert_eq!(chosen(device, |t| t.mask.bytes = Some((mask, Keep))), tile, "{mask:?}");
        }
        for dtype in [Dtype::F16, Dtype::F32] {
            let mask = |pointer, query| raw(pointer, dtype, &SHAPE, &strides(query));
            for (mask, tile) in [
                (mask(256, 64), on),
                (mask(264, 64), off),
                (mask(256, 66), off),
                (raw(260, dtype, &SHAPE, &[6, 1, 0]), on),
            ] {
                assert_eq!(chosen(device, |t| t.mask.additive = Some(mask)), tile, "{mask:?}");
            }
        }
        // A bank whose masks are not a whole number of vectors apart.
        for (step, tile) in [(64, on), (72, on), (65, off)] {
            let mask = raw(256, Dtype::U8, &[3, 64], &[step, 1]);
            let tile_of = chosen(device, |t| {
                t.mask.bytes = Some((mask, Keep));
                t.mask.bank_index = Some(raw(256, Dtype::I32, &[4], &[1]));
            });
            assert_eq!(tile_of, tile, "{step}");
        }
    });
}

/// The explanation says what is launched and why the tiles before it are not.
#[test]
fn explanations() {
    on_every_backend(|device| {
        let x = device.zeros::<f16>(&[5, 40]).unwrap();
        let y = device.zeros::<f16>(&[5, 40]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let found = softmax.explain(SoftmaxInputs::new(&x), &y).unwrap();
        assert_eq!(found.kernel, "softmax_forward_f16_unmasked_warp4");
        assert!(found.passed_over.is_empty());
        // Five vectors, four a lane, take two lanes, so that a block of 128 has 64 rows.
        let [launch] = found.launches[..] else { panic!("{found}") };
        assert_eq!((launch.grid.count(), launch.block.count(), launch.cluster), (1, 128, 1));

        let x = device.zeros::<f32>(&[5, 20_000]).unwrap();
        let bytes = device.zeros::<u8>(&[5, 20_000]).unwrap();
        let y = device.zeros::<f32>(&[5, 20_000]).unwrap();
        let inputs = SoftmaxInputs::new(&x).mask(Mask::exclude(&bytes));
        let found = softmax.explain(inputs, &y).unwrap();
        assert_eq!(found.kernel, "softmax_forward_f32_bytes_cluster4");
        let tried: Vec<_> = found.passed_over.iter().map(|(tile, _)| *tile).collect();
        assert_eq!(tried, ["warp4", "block4", "block8", "staged4"]);
        let text = found.to_string();
        assert!(
            text.contains(
                "not block4, block8: holds rows of up to 8192 columns, not 20000; \
                 not staged4: holds rows of up to 4096 columns, not 20000"
            ),
            "{text}"
        );
        let [launch] = found.launches[..] else { panic!("{found}") };
        // 5000 vectors, 4 a thread of 128: ten stretches. Eight blocks for each of five rows.
        assert_eq!((launch.grid.count(), launch.block.count(), launch.cluster), (40, 128, 8));

        let forced = softmax.with_tile("streamed4").unwrap();
        let found = forced.explain(inputs, &y).unwrap();
        assert_eq!((found.tile, found.passed_over.len()), ("streamed4", 6));
        let text = found.to_string();
        assert!(text.contains("staged4, cluster4, ring4: the options ask for streamed4"), "{text}");
    });
}
