//! Attention by the C interface, bit for bit what the Rust interface computes.

use crate::{
    abi::{fa_attention_forward_tensors, fa_attention_options, fa_diagonal, fa_tensor},
    api::{Emulator, api},
    mirror::MirroredAttention,
};
use fused_attention::{
    Attention, Causal, Device, Element, Per, Polarity, RawAttention, RawDropoutSeed, RawMask,
    RawSequences, RawTensor, Scalar, Tensor,
};
use half::{bf16, f16};
use std::ptr::{null, null_mut};

/// Batch entries, query heads, queries and elements; half as many K/V heads, and keys.
const Q: [usize; 4] = [2, 4, 9, 64];
const KV: [usize; 4] = [2, 2, 33, 64];

/// A tensor of the emulator with these elements.
fn filled<T: Scalar>(shape: &[usize], element: impl Fn(usize) -> T) -> Tensor<T> {
    let values: Vec<T> = (0..shape.iter().product()).map(element).collect();
    Device::emulator().upload(&values, shape).unwrap()
}

/// Numbers from -2 to 2, in an order that no mask repeats.
fn numbers<T: Element>(shape: &[usize], seed: usize) -> Tensor<T> {
    filled(shape, |i| T::from_f64(((i + seed) * 7919 % 401) as f64 / 100.0 - 2.0))
}

fn raw<T: Scalar>(tensor: &Tensor<T>) -> RawTensor {
    tensor.into()
}

fn plain() -> (Attention, fa_attention_options) {
    let options = fa_attention_options {
        struct_size: size_of::<fa_attention_options>(),
        scale: 0.0,
        has_scale: 0,
        is_causal: 0,
        diagonal: fa_diagonal::BottomRight as u32,
        has_window: 0,
        window_left: 0,
        window_right: 0,
        softcap: 0.0,
        dropout: 0.0,
    };
    (Attention::new(), options)
}

/// A call, and the tensors that it always has.
struct Call<T> {
    tensors: RawAttention,
    inputs: [Tensor<T>; 3],
    o: Tensor<T>,
    lse: Tensor<f32>,
}

impl<T: Element> Call<T> {
    fn new() -> Self {
        let inputs = [numbers(&Q, 0), numbers(&KV, 1), numbers(&KV, 2)];
        let o = filled(&Q, |_| T::from_f64(9.0));
        let lse = filled(&Q[..3], |_| 9.0f32);
        let [q, k, v] = inputs.each_ref().map(raw);
        let tensors = RawAttention {
            q,
            k,
            v,
            o: raw(&o),
            lse: Some(raw(&lse)),
            scale: None,
            mask: RawMask::default(),
            query_lengths: None,
            query_sequences: None,
            key_sequences: None,
            slopes: None,
            dropout_seed: None,
        };
        Call { tensors, inputs, o, lse }
    }

    /// The bits of both outputs that `run` leaves of poisoned ones.
    fn results(&self, run: impl FnOnce(&RawAttention)) -> Vec<u64> {
        self.o.copy_from(&vec![T::from_f64(9.0); self.o.len()]).unwrap();
        self.lse.copy_from(&vec![9.0; self.lse.len()]).unwrap();
        run(&self.tensors);
        let o = self.o.to_vec().unwrap().into_iter().map(|o| o.to_f64().to_bits());
        o.chain(self.lse.to_vec().unwrap().into_iter().map(|lse| f64::from(lse).to_bits()))
            .collect()
    }

    /// Calls by both interfaces, and compares.
    #[track_caller]
    fn compare(&self, (rust, c): (Attention, fa_attention_options)) {
        let expected = self.results(|call| {
            let stream = Device::emulator().default_stream();
            // SAFETY: the tensors are alive, and nobody else's.
            unsafe { rust.forward_raw(&stream, call) }.unwrap();
        });
        let found = self.results(|call| {
            let device = Emulator::open();
            let tensors = MirroredAttention::new(&device, call);
            // SAFETY: as above; the structs are those of the source.
            api().check(unsafe {
                (api().fa_attention_forward)(device.handle(), &c, &tensors.tensors, null_mut())
            });
            tensors.copy_back();
        });
        assert!(found == expected, "{found:?}\nis not\n{expected:?}");
        assert!(!found.contains(&9f64.to_bits()), "something is not written");
    }
}

#[test]
fn every_type() {
    Call::<f16>::new().compare(plain());
    Call::<bf16>::new().compare(plain());
    Call::<f32>::new().compare(plain());
}

#[test]
fn options() {
    let (rust, c) = plain();
    let call = Call::<f16>::new();
    call.compare((rust.scale(0.3), fa_attention_options { has_scale: 1, scale: 0.3, ..c }));
    call.compare((rust.softcap(2.5), fa_attention_options { softcap: 2.5, ..c }));
    for (corner, diagonal) in
        [(Causal::TopLeft, fa_diagonal::TopLeft), (Causal::BottomRight, fa_diagonal::BottomRight)]
    {
        let c = fa_attention_options { diagonal: diagonal as u32, ..c };
        call.compare((rust.causal(corner), fa_attention_options { is_causal: 1, ..c }));
        let window = fa_attention_options { has_window: 1, window_left: 3, window_right: -1, ..c };
        call.compare((rust.diagonal(corner).window(3, -1), window));
    }
}

#[test]
fn all_that_hides_and_changes_scores() {
    let (bytes, bias) = (filled(&[3, 9, 33], |i| (i % 3) as u8), numbers::<f32>(&[3, 1, 33], 5));
    let index = filled(&[2], |i| [2, 1][i]);
    let lengths = filled(&[2], |i| [30, 7][i]);
    let query_lengths = filled(&[2], |i| [4, 9][i]);
    let (slopes, scale) = (filled(&[4], |i| i as f32 / 8.0), filled(&[1], |_| 0.25f32));
    let mut call = Call::<bf16>::new();
    call.tensors.mask = RawMask {
        bytes: Some((raw(&bytes), Polarity::Exclude)),
        additive: Some(raw(&bias)),
        lengths: Some((raw(&lengths), Per::Batch)),
        bank_index: Some(raw(&index)),
    };
    call.tensors.query_lengths = Some(raw(&query_lengths));
    call.tensors.slopes = Some(raw(&slopes));
    call.tensors.scale = Some(raw(&scale));
    call.compare(plain());
}

#[test]
fn dropout() {
    let (rust, c) = plain();
    let options = (rust.dropout(0.3), fa_attention_options { dropout: 0.3, ..c });
    let (seed, offset) = (filled(&[1], |_| -5i64), filled(&[1], |_| 77i64));
    let mut call = Call::<f16>::new();
    let on_device = RawDropoutSeed::OnDevice { seed: raw(&seed), offset: raw(&offset) };
    let given = RawDropoutSeed::Given { seed: -5i64 as u64, offset: 77 };
    for dropout_seed in [on_device, given] {
        call.tensors.dropout_seed = Some(dropout_seed);
        call.compare(options);
    }
}

#[test]
fn packed_sequences() {
    let mut call = Call::<f16>::new();
    let [q, k, v] = &call.inputs;
    let (q, k) = (q.reshape(&[8, 9, 64]).unwrap(), k.reshape(&[4, 33, 64]).unwrap());
    let (v, o) = (v.reshape(&[4, 33, 64]).unwrap(), call.o.reshape(&[8, 9, 64]).unwrap());
    let lse = call.lse.reshape(&[8, 9]).unwrap();
    let (queries, keys) = (filled(&[3], |i| [0, 2, 9][i]), filled(&[3], |i| [0, 30, 33][i]));
    let sequences =
        |offsets: &Tensor<i32>, longest| Some(RawSequences { offsets: raw(offsets), longest });
    call.tensors = RawAttention {
        q: raw(&q),
        k: raw(&k),
        v: raw(&v),
        o: raw(&o),
        lse: Some(raw(&lse)),
        query_sequences: sequences(&queries, 7),
        key_sequences: sequences(&keys, 30),
        ..call.tensors
    };
    call.compare(plain());
}

/// The status of a right call after a change to it.
fn status(
    change: impl FnOnce(&mut fa_attention_options, &mut fa_attention_forward_tensors),
) -> &'static str {
    let call = Call::<f16>::new();
    let device = Emulator::open();
    let mut structs = MirroredAttention::new(&device, &call.tensors);
    let (_, mut options) = plain();
    change(&mut options, &mut structs.tensors);
    // SAFETY: the structs are those of the source, or what is wrong with them is refused.
    let status = unsafe {
        (api().fa_attention_forward)(device.handle(), &options, &structs.tensors, null_mut())
    };
    api().name(status)
}

#[test]
fn what_is_refused() {
    assert_eq!(status(|_, _| ()), "SUCCESS");
    assert_eq!(status(|o, _| o.diagonal = 2), "UNKNOWN_VALUE");
    assert_eq!(status(|o, _| o.struct_size = 63), "STRUCT_SIZE");
    assert_eq!(status(|o, _| o.softcap = -1.0), "BAD_SOFTCAP");
    assert_eq!(status(|o, _| o.dropout = 1.0), "BAD_DROPOUT");
    assert_eq!(status(|o, _| o.dropout = 0.5), "MISSING_DROPOUT_SEED");
    assert_eq!(status(|_, t| t.struct_size = 127), "STRUCT_SIZE");
    assert_eq!(status(|_, t| t.q = null()), "NULL_ARGUMENT");
    assert_eq!(status(|_, t| t.o = t.q), "OVERLAPPING_OUTPUT");
    assert_eq!(status(|_, t| t.seed_tensor = t.lse), "NULL_ARGUMENT");
    assert_eq!(status(|_, t| t.query_lengths = t.q), "DTYPE_MISMATCH");
    let both = status(|_, t| {
        (t.seed_tensor, t.offset_tensor, t.has_seed) = (t.lse, t.lse, 1);
    });
    assert_eq!(both, "CONFLICTING_ARGUMENTS");
    let with_heads = |tensor: *const fa_tensor, heads: i64| {
        // SAFETY: the structs are alive, and a copy of one stays so.
        let mut copy = unsafe { *tensor };
        (copy.shape[1], copy.strides[1]) = (heads, 0);
        &*Box::leak(Box::new(copy)) as *const fa_tensor
    };
    let uneven = status(|_, t| (t.k, t.v) = (with_heads(t.k, 3), with_heads(t.v, 3)));
    assert_eq!(uneven, "UNEVEN_HEADS");
    assert!(api().message().contains("4 query heads"), "{}", api().message());
}

#[test]
fn a_plan_says_what_rust_says() {
    let call = Call::<f16>::new();
    let (rust, c) = plain();
    let stream = Device::emulator().default_stream();
    let expected = rust.explain_raw(&stream, &call.tensors).unwrap().to_string();
    let device = Emulator::open();
    let structs = MirroredAttention::new(&device, &call.tensors);
    let (mut text, mut length, mut bytes) = (vec![0u8; 4096], 0, usize::MAX);
    // SAFETY: there is room for as many bytes.
    api().check(unsafe {
        let plan = api().fa_attention_forward_plan;
        let to = text.as_mut_ptr().cast();
        plan(device.handle(), &c, &structs.tensors, to, text.len(), &mut length)
    });
    assert_eq!(text[..length], *expected.as_bytes());
    // SAFETY: a number is written.
    api().check(unsafe {
        (api().fa_attention_forward_workspace)(device.handle(), &c, &structs.tensors, &mut bytes)
    });
    assert_eq!(bytes, 0);
}
