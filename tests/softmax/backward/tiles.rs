//! Tiles: each runs for every element type and source, under every schedule; and which is chosen.

use super::super::tiles::{devices, lengths};
use cuda_emulator::{AsyncTiming, Emulator};
use fused_attention::{
    Accumulate, Causal, Device, GradientInputs, Mask, Per, ScaledMaskedSoftmax,
    backward_tile_names, reference::softmax::Saved,
};
use half::{bf16, f16};
use kernels::{
    softmax::entries::BACKWARD_VARIANTS,
    tiles::{Residence, Sharing},
};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{AdditiveMask, BackwardCase, ByteMask, Lengths, SoftmaxCase},
};

/// A problem for each kind of kernel, and one whose visible range is narrowed.
fn problems(rows: usize, length: usize) -> [BackwardCase; 4] {
    let case = SoftmaxCase::new(&[rows, length]);
    let bytes = Some(ByteMask { hidden_rows: 0.3, ..ByteMask::new(&[rows, length]) });
    let additive = Some(AdditiveMask { hidden_rows: 0.3, ..AdditiveMask::new(&[rows, length]) });
    let lengths = Some(Lengths::random(Per::Row));
    let ranged =
        SoftmaxCase { causal: Some(Causal::BottomRight), lengths, seed: 4, ..case.clone() };
    let masked = SoftmaxCase { additive, bytes, ..case.clone() };
    [
        BackwardCase::new(Saved::Probabilities, case.clone()),
        BackwardCase::new(Saved::Probabilities, ranged),
        BackwardCase::new(Saved::Scores, case),
        BackwardCase::new(Saved::Scores, masked),
    ]
}

fn every_tile<T: Accumulate>() {
    let mut seed = size_of::<T>() as u64;
    for variant in BACKWARD_VARIANTS {
        let tile = &variant.tile;
        let x = if tile.aligned { Placement::Contiguous } else { Placement::Offset(1) };
        // The gradient is on the grid of the other input, or it is not.
        let dp = if tile.aligned { [x, x] } else { [x, Placement::Offset(2)] };
        // Warps take several rows, and the last of them not all.
        let rows = if tile.sharing == Sharing::Warp { 7 } else { 2 };
        for length in lengths::<T>(tile, false) {
            for (i, case) in problems(rows, length).into_iter().enumerate() {
                seed += 2;
                let forward = SoftmaxCase { x, seed, ..case.forward };
                let case = BackwardCase { forward, dp: dp[i % 2], ..case };
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
        for variant in BACKWARD_VARIANTS {
            let tile = &variant.tile;
            let x = if tile.aligned { Placement::Contiguous } else { Placement::Offset(1) };
            for length in lengths::<T>(tile, true).split_off(2) {
                let case = SoftmaxCase { x, ..SoftmaxCase::new(&[1, length]) };
                for case in super::from_either(case) {
                    case.solve::<T>().with_tile(tile.name).assert_right(device);
                }
            }
        }
    });
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

/// Copies that arrive as late as they may.
#[test]
fn staged_rows_that_arrive_late() {
    let late = Emulator::adversarial(3).timing(AsyncTiming::Late).race_check(true);
    let device = Device::emulator_with(late);
    for variant in BACKWARD_VARIANTS.iter().filter(|v| v.tile.residence == Residence::SharedMemory)
    {
        let tile = &variant.tile;
        let x = if tile.aligned { Placement::Contiguous } else { Placement::Offset(1) };
        for length in lengths::<f32>(tile, true).split_off(2) {
            let case = SoftmaxCase { x, ..SoftmaxCase::new(&[2, length]) };
            for case in super::from_either(case) {
                case.solve::<f32>().with_tile(tile.name).assert_right(&device);
            }
        }
    }
}

#[test]
fn the_table() {
    let names: Vec<_> = backward_tile_names().collect();
    let expected: Vec<_> = BACKWARD_VARIANTS.iter().map(|variant| variant.tile.name).collect();
    assert_eq!(names, expected);
    for variant in BACKWARD_VARIANTS {
        let tile = variant.tile;
        assert!(!tile.reason.is_empty(), "{}", tile.name);
        for kernel in variant.kernels.as_flattened() {
            let name = kernel.name();
            assert_eq!(kernel.bounds().threads, tile.threads, "{name}");
            let (plain, masked, of_f64, _) = tile.blocks_per_sm;
            let blocks = match name {
                _ if name.contains("_f64_") => of_f64,
                _ if name.contains("_masked_scores_") => masked,
                _ => plain,
            };
            assert_eq!(kernel.bounds().blocks_per_sm, blocks, "{name}");
            // Pairs of 16-bit floats are converted by instructions of sm_80.
            let at_least = if name.contains("f16_") { tile.arch.max("sm_80") } else { tile.arch };
            assert_eq!(kernel.arch(), at_least, "{name}");
            assert!(name.starts_with("softmax_backward_") && name.ends_with(tile.name), "{name}");
        }
    }
    // Something takes every row, on the grid or off it, on every GPU.
    let last = BACKWARD_VARIANTS.last().expect("a tile").tile;
    assert!(
        last.residence == Residence::Streamed && !last.aligned && last.arch == "sm_70",
        "{last:?}"
    );
}

/// The explanation names the kernel for what was saved and how it is masked, and masks of elements
/// do not matter to probabilities. The kernel can be loaded ahead by that name.
#[test]
fn explanations() {
    on_every_backend(|device| {
        let x = device.zeros::<f16>(&[5, 40]).unwrap();
        let (dp, dx) = (device.zeros(&[5, 40]).unwrap(), device.zeros(&[5, 40]).unwrap());
        // Off the grid of vectors, for whom reads it.
        let memory = device.zeros::<u8>(&[5 * 40 + 1]).unwrap();
        let bytes = memory.narrow(0, 1, 200).unwrap().reshape(&[5, 40]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0).causal(Causal::TopLeft);
        let scores = GradientInputs::from_scores(&x, &dp);
        let masked = Mask::exclude(&bytes);
        let from_p = GradientInputs::from_probabilities(&x, &dp).mask(masked);
        for (inputs, kind, aligned) in [
            (from_p, "probabilities", true),
            (scores, "scores", true),
            (scores.mask(masked), "masked_scores", false),
        ] {
            let found = softmax.explain_backward(inputs, &dx).unwrap();
            assert_eq!(found.kernel, format!("softmax_backward_f16_{kind}_{}", found.tile));
            let tile = BACKWARD_VARIANTS.iter().find(|variant| variant.tile.name == found.tile);
            assert_eq!(tile.expect("a tile").tile.aligned, aligned, "{found}");
            assert_eq!(found.launches.len(), 1, "{found}");
            device.prepare(&[found.kernel]).unwrap();
        }
        let forced = softmax.with_tile(backward_tile_names().last().unwrap()).unwrap();
        let found = forced.explain_backward(scores, &dx).unwrap();
        assert_eq!(found.passed_over.len(), BACKWARD_VARIANTS.len() - 1);
        assert!(found.to_string().contains("the options ask for"), "{found}");
    });
}
