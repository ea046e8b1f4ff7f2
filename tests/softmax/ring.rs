//! Rows that pass through the shared memory of clusters one after the other: more of them than
//! clusters and fewer, longer than what is kept of them, and of which much or all is hidden.

use super::by_hand::{self, compare};
use cuda_emulator::{AsyncTiming, Emulator, Schedule};
use fused_attention::{
    Causal, Device, Dtype, LaunchConfig, Launcher, Mask, RawForward, RawMask, RawTensor,
    RowLengths, ScaledMaskedSoftmax, SoftmaxInputs, Tensor,
};
use kernels::softmax::{
    entries::FORWARD_VARIANTS,
    problem::{SoftmaxForward, flags},
    ring::SLOTS,
};
use support::{
    gpus,
    random::Random,
    synchronisation::{SEEDS, assert_enough, assert_needed, sites},
};

const ROWS: usize = 7;
const BLOCKS: u32 = 2;
const THREADS: u32 = 64;

/// What hides parts of rows.
#[derive(Debug, Clone, Copy)]
struct Hidden {
    /// Columns visible to the left of the diagonal, which ends with the row's length; negative: all.
    left: i64,
    lengths: Option<[i32; ROWS]>,
    bytes: bool,
    additive: bool,
}

const NOTHING: Hidden = Hidden { left: -1, lengths: None, bytes: false, additive: false };

/// A problem on a device, and what another tile makes of it.
struct Problem {
    columns: usize,
    hidden: Hidden,
    x: Tensor<f32>,
    bytes: Tensor<u8>,
    additive: Tensor<f32>,
    lengths: Tensor<i32>,
    expected: (Vec<f32>, Vec<f32>),
}

impl Problem {
    fn new(device: &Device, columns: usize, hidden: Hidden) -> Self {
        let mut random = Random::new(columns as u64);
        let mut numbers: Vec<f32> = (0..ROWS * columns).map(|_| random.normal() as f32).collect();
        numbers[3 * columns + columns / 2] = f32::NAN;
        let shape = [ROWS, columns];
        let x = device.upload(&numbers, &shape).unwrap();
        let bytes: Vec<u8> = (0..ROWS * columns).map(|_| (random.normal() > 0.0).into()).collect();
        let bytes = device.upload(&bytes, &shape).unwrap();
        let additive: Vec<f32> = (0..ROWS * columns).map(|_| random.normal() as f32).collect();
        let additive = device.upload(&additive, &shape).unwrap();
        let of_rows = hidden.lengths.unwrap_or([columns as i32; ROWS]);
        let lengths = device.upload(&of_rows, &[ROWS]).unwrap();

        let row_lengths = RowLengths::per_row(device, &of_rows, &[ROWS]).unwrap();
        let mut mask = if hidden.bytes { Mask::exclude(&bytes) } else { Mask::none() };
        if hidden.additive {
            mask = mask.and_additive(&additive);
        }
        if hidden.lengths.is_some() {
            mask = mask.lengths(&row_lengths);
        }
        let mut softmax = ScaledMaskedSoftmax::new(0.5).with_tile("streamed4").unwrap();
        if hidden.left >= 0 {
            softmax = softmax.window(hidden.left, -1).diagonal(Causal::BottomRight);
        }
        let (y, lse) = softmax.forward_with_lse(SoftmaxInputs::new(&x).mask(mask)).unwrap();
        let expected = (y.to_vec().unwrap(), lse.to_vec().unwrap());
        Problem { columns, hidden, x, bytes, additive, lengths, expected }
    }

    /// What the ring makes of it on a device that shares its memory, with so many clusters and slots.
    fn run(
        &self,
        device: &Device,
        clusters: u32,
        slots: u32,
    ) -> Result<(Vec<f32>, Vec<f32>), String> {
        let variant = FORWARD_VARIANTS.iter().find(|variant| variant.tile.name == "ring4");
        let variant = variant.expect("a tile of that name");
        let Hidden { left, lengths, bytes, additive } = self.hidden;
        let kind = match (additive, bytes, left >= 0 || lengths.is_some()) {
            (true, ..) => 3,
            (_, true, _) => 2,
            (.., true) => 1,
            _ => 0,
        };
        let y = device.upload(&vec![7.5; ROWS * self.columns], &[ROWS, self.columns]).unwrap();
        let lse = device.upload(&[7.5; ROWS], &[ROWS]).unwrap();
        let stride = self.columns as i64;
        let pointer_if = |condition, pointer: u64| if condition { pointer } else { 0 };
        let mut problem = SoftmaxForward {
            lse: lse.pointer() as *mut _,
            bytes: pointer_if(bytes, self.bytes.pointer()) as *const _,
            additive: pointer_if(additive, self.additive.pointer()) as *const _,
            lengths: pointer_if(lengths.is_some(), self.lengths.pointer()) as *const _,
            flags: flags::ADDITIVE_F32,
            window_left: left,
            slots,
            ..by_hand::forward(&self.x, &y, (ROWS, self.columns), 0.5)
        };
        let [rows, ..] = &mut problem.dimensions;
        (rows.bytes, rows.additive, rows.lengths, rows.lse) = (stride, stride, 1, 1);
        let slot = 16 * THREADS * variant.tile.vectors;
        let config = LaunchConfig::new(clusters * BLOCKS, THREADS)
            .cluster(BLOCKS)
            .shared_bytes(SLOTS + slots * slot);
        let kernel = variant.kernels[2][kind];
        // SAFETY: the tensors have these rows.
        let launched = unsafe { device.default_stream().launch(kernel, config, (problem,)) };
        launched.map_err(|error| error.to_string())?;
        Ok((y.to_vec().unwrap(), lse.to_vec().unwrap()))
    }

    /// Compares that with what is expected.
    fn check(&self, device: &Device, clusters: u32, slots: u32) -> Result<(), String> {
        let (y, lse) = self.run(device, clusters, slots)?;
        compare(&y, &self.expected.0).map_err(|error| format!("y {error}"))?;
        compare(&lse, &self.expected.1).map_err(|error| format!("lse {error}"))
    }
}

/// Columns of a stretch of the tile.
fn stretch() -> usize {
    let tile =
        FORWARD_VARIANTS.iter().map(|variant| variant.tile).find(|tile| tile.name == "ring4");
    THREADS as usize * tile.expect("a tile of that name").vectors as usize * 4
}

fn check(hidden: Hidden, columns: usize) {
    let late = Emulator::adversarial(5).timing(AsyncTiming::Late).race_check(true);
    let shuffled = Emulator::default().schedule(Schedule::Shuffled { seed: 9 }).race_check(true);
    let emulators = [late, shuffled].map(Device::emulator_with);
    for device in emulators.into_iter().chain(gpus()) {
        let problem = Problem::new(&device, columns, hidden);
        for clusters in [1, 2, 3, ROWS as u32] {
            for slots in [1, 2, 5] {
                if let Err(error) = problem.check(&device, clusters, slots) {
                    panic!(
                        "{clusters} clusters, {slots} slots, {columns} columns, {hidden:?}, \
                         {device}: {error}"
                    );
                }
            }
        }
    }
}

/// Of less than a stretch, of as many as there are blocks, of more and of part of one.
#[test]
fn whole_rows() {
    for columns in [8, 2 * stretch(), 5 * stretch() + 12] {
        check(NOTHING, columns);
    }
}

/// Each row sees another number of stretches, from the first on or the last of them.
#[test]
fn rows_of_all_lengths() {
    let columns = 5 * stretch() + 12;
    let lengths = Some(std::array::from_fn(|i| ((i + 1) * columns / ROWS) as i32));
    check(Hidden { lengths, ..NOTHING }, columns);
    check(Hidden { lengths, left: stretch() as i64, ..NOTHING }, columns);
}

#[test]
fn rows_that_see_nothing() {
    let columns = 4 * stretch() + 20;
    let all = columns as i32;
    let some = stretch() as i32 + 5;
    let lengths = |lengths| Hidden { lengths: Some(lengths), ..NOTHING };
    check(lengths([0, all, 0, some, 0, 0, all]), columns);
    check(lengths([all, 0, 0, 0, 3, all, 0]), columns);
    check(lengths([0; ROWS]), columns);
}

#[test]
fn rows_with_element_masks() {
    let columns = 4 * stretch() + 20;
    check(Hidden { bytes: true, ..NOTHING }, columns);
    check(Hidden { bytes: true, additive: true, left: 2 * stretch() as i64, ..NOTHING }, columns);
}

/// Two blocks share a multiprocessor where they hold all of their rows, and there are more rows than
/// multiprocessors take at once.
#[test]
fn blocks_take_half_a_multiprocessor_if_that_is_enough() {
    let stream = Device::emulator().default_stream();
    let threads = |rows: usize, columns: usize| {
        let tensor = |pointer| RawTensor::contiguous(pointer, Dtype::F32, &[rows, columns]);
        let (x, y) = (tensor(1 << 48).unwrap(), tensor(1 << 49).unwrap());
        let tensors = RawForward { x, y, lse: None, scale: None, mask: RawMask::default() };
        let softmax = ScaledMaskedSoftmax::new(1.0).with_tile("ring4").unwrap();
        let launch = softmax.explain_raw(&stream, &tensors).unwrap().launches[0];
        assert_eq!(launch.cluster, 16);
        // Of 228 KiB, less what the system takes for each block.
        let sharers = 512 / launch.block.x;
        assert!(launch.shared_bytes + 1024 <= (228 << 10) / sharers, "{launch:?}");
        launch.block.x
    };
    assert_eq!(threads(1000, 262_144), 256);
    assert_eq!(threads(1000, 393_216), 256);
    assert_eq!(threads(1000, 524_288), 512);
    assert_eq!(threads(8, 262_144), 512);
}

#[test]
fn every_synchronisation_is_needed() {
    let columns = 5 * stretch() + 12;
    let lengths = Some(std::array::from_fn(|i| ((i + 1) * columns / ROWS) as i32));
    // With masks; and without, where sums of rows are begun ahead of them.
    for hidden in [Hidden { lengths, bytes: true, ..NOTHING }, NOTHING] {
        let problem = Problem::new(&Device::emulator(), columns, hidden);
        // Rows that take all slots, and rows that do not.
        let check =
            |device: &Device| [2, 5].iter().try_for_each(|&slots| problem.check(device, 2, slots));
        let sites = sites(check);
        assert_eq!(sites.len(), 13, "{hidden:?}: {sites:#?}");
        assert_needed("ring4", sites, check);
        assert_enough("ring4", SEEDS, check);
    }
}
