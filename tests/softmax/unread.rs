//! What lengths, windows and a causal mask hide is not read: it need not even be memory.

use cuda_emulator::FaultKind;
use fused_attention::{
    Accumulate, Causal, Device, Dtype, Error, Per, Polarity, RawForward, RawMask, RawTensor,
    Scalar, ScaledMaskedSoftmax, Tensor, tile_names,
};
use half::{bf16, f16};
use std::{collections::HashSet, ops::Range};

/// Lengths of rows for every tile.
const COLUMNS: [usize; 7] = [64, 500, 1000, 4000, 60_000, 100_000, 300_000];

/// A row as it would be with all its columns, of which only the visible ones exist.
pub(super) struct Row<T> {
    pub memory: Tensor<T>,
    pub raw: RawTensor,
}

impl<T: Scalar> Row<T> {
    /// Only the columns `exists` of `columns` have memory.
    pub fn new(device: &Device, columns: usize, exists: Range<usize>, values: &[T]) -> Self {
        let memory = device.upload(values, &[exists.len()]).unwrap();
        let before = (exists.start * size_of::<T>()) as u64;
        let start = memory.pointer().wrapping_sub(before);
        let raw = RawTensor::contiguous(start, T::DTYPE, &[1, columns]).unwrap();
        Row { memory, raw }
    }
}

/// A row of NaN that is not where the rest of other rows would be: there may be other memory.
pub(super) fn elsewhere<T: Accumulate>(
    device: &Device,
    columns: usize,
    rows: &[RawTensor],
) -> Tensor<T> {
    let mut elsewhere = Vec::new();
    loop {
        let y = device.upload(&vec![T::from_f64(f64::NAN); columns], &[1, columns]).unwrap();
        if !rows.iter().any(|row| row.overlaps(&(&y).into()).unwrap()) {
            return y;
        }
        elsewhere.push(y);
    }
}

/// Runs one row of which `visible` is all that options and lengths show, with no memory beside it
/// but what is in the same vectors of 8 elements.
fn check<T: Accumulate>(
    softmax: ScaledMaskedSoftmax,
    length: Option<i32>,
    columns: usize,
    visible: Range<usize>,
) -> Result<(), Error> {
    let device = Device::emulator();
    let exists = visible.start / 8 * 8..visible.end.next_multiple_of(8).min(columns);
    // Neighbours in the same vector may be read, and must not count.
    let only_visible = |value: f64, j: usize| if visible.contains(&j) { value } else { f64::NAN };
    let numbers: Vec<T> = exists.clone().map(|j| T::from_f64(only_visible(0.0, j))).collect();
    let wide: Vec<f32> = exists.clone().map(|j| only_visible(0.0, j) as f32).collect();
    let x = Row::new(&device, columns, exists.clone(), &numbers);
    let bytes = Row::new(&device, columns, exists.clone(), &vec![0u8; exists.len()]);
    let additive = Row::new(&device, columns, exists.clone(), &numbers);
    let wide_additive = Row::new(&device, columns, exists.clone(), &wide);
    let rows = [x.raw, bytes.raw, additive.raw, wide_additive.raw];
    let y = elsewhere::<T>(&device, columns, &rows);
    let lengths = length.map(|length| device.upload(&[length], &[1]).unwrap());
    let lengths = lengths.as_ref().map(|lengths| (RawTensor::from(lengths), Per::Batch));
    let bytes = Some((bytes.raw, Polarity::Exclude)).filter(|_| !bytes.memory.is_empty());
    let additives = if T::DTYPE == Dtype::F64 {
        vec![None, Some(additive.raw)]
    } else {
        vec![None, Some(additive.raw), Some(wide_additive.raw)]
    };
    for bytes in [None, bytes] {
        for &additive in &additives {
            let mask = RawMask { bytes, additive, lengths, bank_index: None };
            let raw = RawForward { x: x.raw, y: (&y).into(), lse: None, scale: None, mask };
            // SAFETY: on the emulator, which stops accesses beyond the tensors that there are.
            unsafe { softmax.forward_raw(&device.default_stream(), &raw) }?;
            let share = 1.0 / visible.len() as f64;
            for (j, y) in y.to_vec().unwrap().into_iter().enumerate() {
                let expected = if visible.contains(&j) { share } else { 0.0 };
                assert!((y.to_f64() - expected).abs() <= 0.01 * share, "column {j}: {y:?}");
            }
            y.copy_from(&vec![T::from_f64(f64::NAN); columns]).unwrap();
        }
    }
    Ok(())
}

/// Every way to hide a part of a row without a mask of elements: options, a length, and what is
/// visible.
pub(super) fn ways_to_hide(
    columns: usize,
) -> [(ScaledMaskedSoftmax, Option<usize>, Range<usize>); 6] {
    let plain = ScaledMaskedSoftmax::new(1.0);
    let part = columns / 3 + 5;
    let window = |left: usize, right| plain.window(left as i64, right);
    [
        (plain, Some(part), 0..part),
        (plain, Some(0), 0..0),
        (plain.causal(Causal::TopLeft), None, 0..1),
        // The diagonal of the only query is the last column.
        (window(part, -1), None, columns - 1 - part..columns),
        (window(part, 0), Some(2 * part), part - 1..2 * part),
        (plain.window(-1, part as i64).diagonal(Causal::TopLeft), None, 0..part + 1),
    ]
}

/// Every way to hide, in every tile that can run it.
fn every_tile<T: Accumulate>() {
    let mut run = HashSet::new();
    for tile in tile_names() {
        for columns in COLUMNS {
            for (softmax, length, visible) in ways_to_hide(columns) {
                let length = length.map(|length| length as i32);
                match check::<T>(softmax.with_tile(tile).unwrap(), length, columns, visible) {
                    Ok(()) => _ = run.insert(tile),
                    Err(Error::NoEligibleTile { .. }) => {}
                    Err(error) => panic!("{tile}, {columns} columns, {softmax:?}: {error}"),
                }
            }
        }
    }
    let never: Vec<_> = tile_names().filter(|tile| !run.contains(tile)).collect();
    assert!(never.is_empty(), "{never:?} never ran");
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

/// Were it read, it would show: the same without anything hidden is an access beyond a buffer.
#[test]
fn the_emulator_notices_reads_beyond() {
    for columns in COLUMNS {
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let error = check::<f32>(softmax, None, columns, 0..columns / 2).unwrap_err();
        let Error::EmulatorFault { fault, .. } = error else { panic!("{error}") };
        match fault.kind() {
            FaultKind::OutOfBounds => {
                let location = fault.location().expect("a place in the source");
                let loads = ["softmax/row.rs", "softmax/kept.rs"];
                assert!(loads.iter().any(|file| location.file.ends_with(file)), "{fault}");
            }
            // Far beyond there may be a buffer of another test, which is gone by the time it is
            // read.
            kind => assert_eq!(kind, FaultKind::IllegalAccess, "{fault}"),
        }
    }
}

/// A row that a byte for the whole row hides is not read either.
#[test]
fn a_row_that_one_byte_hides_is_not_read() {
    let device = Device::emulator();
    for columns in COLUMNS {
        let first_row = device.upload(&vec![1f32; columns], &[1, columns]).unwrap();
        let y = device.upload(&vec![f32::NAN; 2 * columns], &[2, columns]).unwrap();
        let bytes = device.upload(&[0u8, 1], &[2, 1]).unwrap();
        // The second row does not exist.
        let x = RawTensor::contiguous(first_row.pointer(), Dtype::F32, &[2, columns]).unwrap();
        let mask =
            RawMask { bytes: Some(((&bytes).into(), Polarity::Exclude)), ..RawMask::default() };
        let raw = RawForward { x, y: (&y).into(), lse: None, scale: None, mask };
        let softmax = ScaledMaskedSoftmax::new(1.0);
        // SAFETY: as in `check`.
        unsafe { softmax.forward_raw(&device.default_stream(), &raw) }.unwrap();
        let y = y.to_vec().unwrap();
        assert!(y[..columns].iter().all(|&y| y > 0.0));
        assert!(y[columns..].iter().all(|&y| y == 0.0));
    }
}
