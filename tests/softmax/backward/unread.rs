//! What lengths, windows and a causal mask hide is not read: it need not even be memory.

use super::super::unread::{Row, elsewhere, ways_to_hide};
use cuda_emulator::FaultKind;
use fused_attention::{
    Accumulate, Device, Dtype, Error, Per, Polarity, RawBackward, RawMask, RawSaved, RawTensor,
    ScaledMaskedSoftmax, backward_tile_names,
};
use half::{bf16, f16};
use std::{collections::HashSet, ops::Range};

/// Lengths of rows for every tile.
const COLUMNS: [usize; 4] = [64, 500, 4000, 60_000];

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
    let row = |value: &dyn Fn(usize) -> f64| {
        let seen = |j: usize| if visible.contains(&j) { value(j) } else { f64::NAN };
        let numbers: Vec<T> = exists.clone().map(|j| T::from_f64(seen(j))).collect();
        Row::new(&device, columns, exists.clone(), &numbers)
    };
    // A uniform row: the gradients alternate, so that their mean is 0 or 1 / n.
    let share = 1.0 / visible.len() as f64;
    let gradient = |j: usize| if (j - visible.start).is_multiple_of(2) { 1.0 } else { -1.0 };
    let (p, x, dp) = (row(&|_| share), row(&|_| 0.0), row(&gradient));
    let bytes = Row::new(&device, columns, exists.clone(), &vec![0u8; exists.len()]);
    let dx = elsewhere::<T>(&device, columns, &[p.raw, x.raw, dp.raw, bytes.raw]);
    let lengths = length.map(|length| device.upload(&[length], &[1]).unwrap());
    let lengths = lengths.as_ref().map(|lengths| (RawTensor::from(lengths), Per::Batch));
    let element_masks = (Some((bytes.raw, Polarity::Exclude)), Some(x.raw));
    // Probabilities have masks of elements in them: not even those that do not exist are read.
    let nowhere = |dtype| RawTensor::contiguous(4096, dtype, &[1, columns]).unwrap();
    let nowhere = (Some((nowhere(Dtype::U8), Polarity::Keep)), Some(nowhere(T::DTYPE)));
    let mean = if visible.len().is_multiple_of(2) { 0.0 } else { share };
    for (saved, (bytes, additive)) in [
        (RawSaved::Probabilities(p.raw), nowhere),
        (RawSaved::Scores(x.raw), (None, None)),
        (RawSaved::Scores(x.raw), element_masks),
    ] {
        if visible.is_empty() && additive == Some(x.raw) {
            // Null pointers.
            continue;
        }
        let mask = RawMask { bytes, additive, lengths, bank_index: None };
        let raw = RawBackward { saved, dp: dp.raw, dx: (&dx).into(), scale: None, mask };
        // SAFETY: on the emulator, which stops accesses beyond the tensors that there are.
        unsafe { softmax.backward_raw(&device.default_stream(), &raw) }?;
        for (j, dx) in dx.to_vec().unwrap().into_iter().enumerate() {
            let expected = if visible.contains(&j) { share * (gradient(j) - mean) } else { 0.0 };
            let near = (dx.to_f64() - expected).abs() <= 0.01 * share;
            assert!(near || visible.is_empty() && dx.to_f64() == 0.0, "column {j}: {dx:?}");
        }
        dx.copy_from(&vec![T::from_f64(f64::NAN); columns]).unwrap();
    }
    Ok(())
}

/// Every way to hide, in every tile that can run it.
fn every_tile<T: Accumulate>() {
    let mut run = HashSet::new();
    for tile in backward_tile_names() {
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
    let never: Vec<_> = backward_tile_names().filter(|tile| !run.contains(tile)).collect();
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
        // Far beyond there may be a buffer of another test, which is gone by the time it is read.
        let expected = [FaultKind::OutOfBounds, FaultKind::IllegalAccess];
        assert!(expected.contains(&fault.kind()), "{fault}");
    }
}

/// A row that a byte for the whole row hides is not read either, where the byte is.
#[test]
fn a_row_that_one_byte_hides_is_not_read() {
    let device = Device::emulator();
    for columns in COLUMNS {
        let first_row = device.upload(&vec![1f32; columns], &[1, columns]).unwrap();
        let gradients: Vec<f32> = (0..columns).map(|j| j as f32).collect();
        let first_gradient = device.upload(&gradients, &[1, columns]).unwrap();
        let dx = device.upload(&vec![f32::NAN; 2 * columns], &[2, columns]).unwrap();
        let bytes = device.upload(&[0u8, 1], &[2, 1]).unwrap();
        // The second rows do not exist.
        let two = |pointer| RawTensor::contiguous(pointer, Dtype::F32, &[2, columns]).unwrap();
        let (x, dp) = (two(first_row.pointer()), two(first_gradient.pointer()));
        if [x, dp].iter().any(|raw| raw.overlaps(&(&dx).into()).unwrap()) {
            continue;
        }
        let mask =
            RawMask { bytes: Some(((&bytes).into(), Polarity::Exclude)), ..RawMask::default() };
        let saved = RawSaved::Scores(x);
        let raw = RawBackward { saved, dp, dx: (&dx).into(), scale: None, mask };
        let softmax = ScaledMaskedSoftmax::new(1.0);
        // SAFETY: as in `check`.
        unsafe { softmax.backward_raw(&device.default_stream(), &raw) }.unwrap();
        let dx = dx.to_vec().unwrap();
        assert!(dx[0] < 0.0 && dx[columns - 1] > 0.0);
        assert!(dx[columns..].iter().all(|&dx| dx == 0.0));
    }
}
