//! Rows that share their masks, which the same threads take one after the other and read once.

use super::by_hand::{self, compare};
use cuda_emulator::{AsyncTiming, Emulator, Schedule};
use fused_attention::{
    Causal, Device, Dtype, LaunchConfig, Launcher, Mask, Polarity, RawForward, RawMask, RawTensor,
    RowLengths, ScaledMaskedSoftmax, SoftmaxInputs, Tensor,
};
use kernels::{
    reduction,
    softmax::{
        entries::{FORWARD_VARIANTS, ForwardVariant},
        problem::{Divisor, SoftmaxForward, flags},
        stage::SLOTS_IN_TURNS,
    },
    tiles::{Residence, Sharing},
};
use support::{
    gpus,
    random::Random,
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

/// Groups of rows, and rows of each.
const GROUPS: usize = 3;
const TURNS: [usize; 3] = [2, 3, 5];

/// Threads of a block that shares a row with others, or has it alone.
const THREADS: u32 = 64;

/// Blocks of a cluster.
const BLOCKS: u32 = 2;

/// The tiles that take rows in turn.
fn variants() -> impl Iterator<Item = &'static ForwardVariant> {
    FORWARD_VARIANTS.iter().filter(|variant| variant.in_turns[2].is_some())
}

/// A problem on a device, and what another tile makes of it.
struct Problem {
    columns: usize,
    turns: usize,
    /// Groups of rows in turn; the other rows are taken one by one.
    groups: u32,
    /// A nonzero byte means visible.
    keep: bool,
    x: Tensor<f32>,
    bytes: Tensor<u8>,
    lengths: Tensor<i32>,
    expected: (Vec<f32>, Vec<f32>),
}

impl Problem {
    fn new(device: &Device, columns: usize, turns: usize, keep: bool, visible: usize) -> Self {
        let mut random = Random::new((columns + turns) as u64);
        let count = GROUPS * turns * columns;
        let mut numbers: Vec<f32> = (0..count).map(|_| random.normal() as f32).collect();
        numbers[columns + columns / 2] = f32::NAN;
        let x = device.upload(&numbers, &[GROUPS, turns, columns]).unwrap();
        // The last group sees nothing.
        let seen = (GROUPS - 1) * columns;
        let byte = |i| if i < seen { u8::from(random.normal() > 0.0) } else { u8::from(!keep) };
        let bytes: Vec<u8> = (0..GROUPS * columns).map(byte).collect();
        let bytes = device.upload(&bytes, &[GROUPS, 1, columns]).unwrap();
        let lengths = device.upload(&[visible as i32], &[1]).unwrap();
        let row_lengths =
            RowLengths::per_row(device, &vec![visible as i32; GROUPS * turns], &[GROUPS, turns]);
        let mask = if keep { Mask::keep(&bytes) } else { Mask::exclude(&bytes) };
        let row_lengths = row_lengths.unwrap();
        let mask = mask.lengths(&row_lengths);
        let softmax = ScaledMaskedSoftmax::new(0.5).with_tile("streamed4").unwrap();
        let (y, lse) = softmax.forward_with_lse(SoftmaxInputs::new(&x).mask(mask)).unwrap();
        let expected = (y.to_vec().unwrap(), lse.to_vec().unwrap());
        Problem { columns, turns, groups: GROUPS as u32, keep, x, bytes, lengths, expected }
    }

    /// What a tile makes of it in turns, on a device that shares its memory.
    fn check(
        &self,
        device: &Device,
        variant: &ForwardVariant,
        (slots, slots_ahead): (u32, u32),
    ) -> Result<(), String> {
        let rows = GROUPS * self.turns;
        let shape = [rows, self.columns];
        let y = device.upload(&vec![7.5; rows * self.columns], &shape).unwrap();
        let lse = device.upload(&vec![7.5; rows], &[rows]).unwrap();
        let groups = self.groups;
        let mut problem = SoftmaxForward {
            lse: lse.pointer() as *mut _,
            bytes: self.bytes.pointer() as *const _,
            lengths: self.lengths.pointer() as *const _,
            flags: if self.keep { flags::KEEP } else { 0 },
            rank: 2,
            slots,
            slots_ahead,
            turns: self.turns as u32,
            groups,
            ..by_hand::forward(&self.x, &y, (rows, self.columns), 0.5)
        };
        let stride = self.columns as i64;
        let [of_turns, of_groups, ..] = &mut problem.dimensions;
        (of_turns.size, of_turns.lse) = (Divisor::new(self.turns as u32), 1);
        of_groups.size = Divisor::new(GROUPS as u32);
        (of_groups.x, of_groups.y) =
            (of_turns.x * self.turns as i64, of_turns.y * self.turns as i64);
        (of_groups.bytes, of_groups.lse) = (stride, self.turns as i64);
        let slot = 16 * variant.tile.vectors * THREADS;
        let staged = SLOTS_IN_TURNS + (slots + slots_ahead) * slot + slots * 4 * THREADS;
        // What is not in a group is taken row by row.
        let blocks = groups + (GROUPS as u32 - groups) * self.turns as u32;
        let config = match (variant.tile.sharing, variant.tile.residence) {
            (Sharing::Warp, _) => LaunchConfig::new(blocks.div_ceil(4), 128),
            (Sharing::Block, Residence::Registers) => LaunchConfig::new(blocks, 2 * THREADS)
                .shared_bytes(reduction::block::SHARED_BYTES_IN_TURNS),
            (Sharing::Block, _) => LaunchConfig::new(blocks, THREADS).shared_bytes(staged),
            (Sharing::Cluster, _) => {
                LaunchConfig::new(blocks * BLOCKS, THREADS).cluster(BLOCKS).shared_bytes(staged)
            }
        };
        let kernel = variant.in_turns[2].expect("a tile of those that do");
        // SAFETY: the tensors have these rows.
        let launched = unsafe { device.default_stream().launch(kernel, config, (problem,)) };
        launched.map_err(|error| error.to_string())?;
        let (y, lse) = (y.to_vec().unwrap(), lse.to_vec().unwrap());
        compare(&y, &self.expected.0).map_err(|error| format!("y {error}"))?;
        compare(&lse, &self.expected.1).map_err(|error| format!("lse {error}"))
    }
}

/// Columns that a tile takes in a test: of rows in registers most that fit, of others several
/// stretches and a part of one.
fn columns(variant: &ForwardVariant) -> usize {
    let tile = variant.tile;
    let stretch = THREADS as usize * tile.vectors as usize * 4;
    match (tile.sharing, tile.residence) {
        (Sharing::Warp, _) => 32 * tile.vectors as usize * 4 - 12,
        (_, Residence::Registers) => 2 * stretch - 20,
        (Sharing::Cluster, _) => 5 * stretch + 12,
        _ => 3 * stretch + 12,
    }
}

fn check(keep: bool, visible: impl Fn(usize) -> usize) {
    let late = Emulator::adversarial(5).timing(AsyncTiming::Late).race_check(true);
    let shuffled = Emulator::default().schedule(Schedule::Shuffled { seed: 9 }).race_check(true);
    let emulators = [late, shuffled].map(Device::emulator_with);
    for device in emulators.into_iter().chain(gpus()) {
        for variant in variants() {
            let columns = columns(variant);
            for turns in TURNS {
                let mut problem = Problem::new(&device, columns, turns, keep, visible(columns));
                // All rows in groups, or some left over: a warp's are all in groups, or none.
                let is_warp = variant.tile.sharing == Sharing::Warp;
                problem.groups -= u32::from(!is_warp && turns == 3);
                for slots in [(1, 0), (2, 1), (2, 2), (4, 0), (4, 3)] {
                    if let Err(error) = problem.check(&device, variant, slots) {
                        panic!("{}, {turns} turns, {slots:?} slots: {error}", variant.tile.name);
                    }
                }
            }
        }
    }
}

#[test]
fn masks_of_all_columns() {
    check(false, |columns| columns);
    check(true, |columns| columns);
}

#[test]
fn masks_of_rows_that_end_early() {
    check(false, |columns| columns / 2 + 1);
    check(false, |_| 0);
}

/// A plan lets rows take turns, where they share their masks and there are enough of them.
#[test]
fn heads_that_share_masks_take_turns() {
    let stream = Device::emulator().default_stream();
    let blocks = |shape: [usize; 4], heads_of_mask: usize, causal: bool| {
        let tensor = |pointer, dtype, shape: &[usize]| {
            RawTensor::contiguous(pointer, dtype, shape).expect("a shape that can be")
        };
        let [batch, _, queries, columns] = shape;
        let bytes = [batch, heads_of_mask, queries, columns];
        let bytes = tensor(1 << 50, Dtype::U8, &bytes).broadcast_to("bytes", &shape).unwrap();
        let (x, y) = (tensor(1 << 48, Dtype::F16, &shape), tensor(1 << 49, Dtype::F16, &shape));
        let mask = RawMask { bytes: Some((bytes, Polarity::Exclude)), ..RawMask::default() };
        let mut softmax = ScaledMaskedSoftmax::new(1.0);
        if causal {
            softmax = softmax.causal(Causal::BottomRight);
        }
        let tensors = RawForward { x, y, lse: None, scale: None, mask };
        let explanation = softmax.explain_raw(&stream, &tensors).unwrap();
        explanation.launches[0].grid.x
    };
    for columns in [512, 1024, 2048, 4096, 16384, 131072] {
        let queries = (1 << 20) / columns * 64;
        let eight = [16, 8, queries, columns];
        assert!(blocks(eight, 8, false) > 2 * blocks(eight, 1, false), "{columns}");
        // The diagonal hides other columns of each row.
        assert_eq!(blocks(eight, 8, true), blocks(eight, 1, true), "{columns}");
        let twelve = [16, 12, queries, columns];
        assert!(blocks(twelve, 12, false) > 2 * blocks(twelve, 1, false), "{columns}");
        if columns > 4096 {
            continue;
        }
        // Too few for the GPU.
        let few = [1, 7, 4, columns];
        assert_eq!(blocks(few, 7, false), blocks(few, 1, false), "{columns}");
    }
}

#[test]
fn every_synchronisation_is_needed() {
    for variant in variants() {
        let (tile, columns) = (variant.tile, columns(variant));
        let problem = Problem::new(&Device::emulator(), columns, 3, false, columns);
        let check = |device: &Device| problem.check(device, variant, (2, 1));
        let sites = sites(check);
        if tile.sharing == Sharing::Warp {
            // Its lanes exchange by shuffles, which synchronise themselves.
            continue;
        }
        let expected = match (tile.sharing, tile.residence) {
            (_, Residence::Registers) => 1,
            (Sharing::Block, _) => 6,
            _ => 10,
        };
        assert_eq!(sites.len(), expected, "{}: {sites:#?}", tile.name);
        assert_needed(tile.name, sites, check);
        assert_enough(tile.name, SEEDS, check);
    }
}
