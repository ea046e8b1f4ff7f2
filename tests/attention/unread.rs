//! Blocks of keys that lengths, windows and a causal mask hide as a whole are not read: they need
//! not even be memory. So work without effect is not done.

use cuda_emulator::FaultKind;
use fused_attention::{
    Attention, Causal, Device, Dtype, Error, Per, RawAttention, RawMask, RawTensor, Tensor,
};
use half::f16;
use std::ops::Range;

const DIM: usize = 64;

/// No more keys than this beside visible ones are in a block.
const BLOCK: usize = 128;

/// Rows of which only those of `exists` have memory.
fn rows(memory: &Tensor<f16>, rows: usize, exists: &Range<usize>) -> RawTensor {
    let before = (exists.start * DIM * size_of::<f16>()) as u64;
    let start = memory.pointer().wrapping_sub(before);
    RawTensor::contiguous(start, Dtype::F16, &[1, 1, rows, DIM]).unwrap()
}

/// An output that is not where other rows would be: there may be other memory.
fn elsewhere(device: &Device, queries: usize, rows: &[RawTensor]) -> Tensor<f16> {
    let mut elsewhere = Vec::new();
    loop {
        let o = device.zeros::<f16>(&[1, 1, queries, DIM]).unwrap();
        if !rows.iter().any(|row| row.overlaps(&(&o).into()).unwrap()) {
            return o;
        }
        elsewhere.push(o);
    }
}

/// Runs a problem of which the queries see only the keys `visible`, without memory for keys that
/// are more than a block away.
fn check(
    attention: Attention,
    (queries, keys): (usize, usize),
    length: Option<i32>,
    visible: Range<usize>,
) -> Result<(), Error> {
    let device = Device::emulator();
    // Blocks end at multiples of their size; keys beyond the length have no memory at all.
    let end = length.map_or(keys, |length| length as usize);
    let exists = visible.start / BLOCK * BLOCK..visible.end.next_multiple_of(BLOCK).min(end);
    let ones = |rows: usize| vec![f16::ONE; rows * DIM];
    let upload = |rows: usize| device.upload(&ones(rows), &[1, 1, rows, DIM]).unwrap();
    let (q, k, v) = (upload(queries), upload(exists.len()), upload(exists.len()));
    let (k_rows, v_rows) = (rows(&k, keys, &exists), rows(&v, keys, &exists));
    let o = elsewhere(&device, queries, &[k_rows, v_rows]);
    let lengths = length.map(|length| device.upload(&[length], &[1]).unwrap());
    let lengths = lengths.as_ref().map(|lengths| (RawTensor::from(lengths), Per::Batch));
    let raw = RawAttention {
        q: (&q).into(),
        k: k_rows,
        v: v_rows,
        o: (&o).into(),
        lse: None,
        scale: None,
        mask: RawMask { lengths, ..RawMask::default() },
        query_lengths: None,
        query_sequences: None,
        key_sequences: None,
        slopes: None,
        dropout_seed: None,
    };
    // SAFETY: on the emulator, which stops accesses beyond the tensors that there are.
    unsafe { attention.forward_raw(&device.default_stream(), &raw) }?;
    assert!(o.to_vec().unwrap().iter().all(|&o| o == f16::ONE || visible.is_empty()));
    Ok(())
}

#[test]
fn hidden_blocks_are_not_read() {
    let plain = Attention::new();
    let (few, many) = (30, 2000);
    for attention in [plain, plain.softcap(3.0)] {
        check(attention, (few, many), Some(700), 0..700).unwrap();
        check(attention, (few, many), Some(0), 0..0).unwrap();
        check(attention.causal(Causal::TopLeft), (few, many), None, 0..few).unwrap();
        // The diagonal of the last query is the last key.
        check(attention.window(50, 0), (few, many), None, many - few - 50..many).unwrap();
        let window = attention.window(50, 40).diagonal(Causal::TopLeft);
        check(window, (few, many), None, 0..few + 40).unwrap();
        check(attention.window(50, 0), (few, many), Some(900), 900 - few - 50..900).unwrap();
    }
}

/// Were they read, it would show.
#[test]
fn the_emulator_notices_reads_beyond() {
    let error = check(Attention::new(), (30, 2000), None, 0..700).unwrap_err();
    let Error::EmulatorFault { fault, .. } = error else { panic!("{error}") };
    let kinds = [FaultKind::OutOfBounds, FaultKind::IllegalAccess];
    assert!(kinds.contains(&fault.kind()), "{fault}");
}
