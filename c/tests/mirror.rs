//! Tensors of the Rust interface, mirrored in memory of the C interface's emulator.

use crate::{
    abi::{
        FA_MAX_RANK, fa_attention_forward_tensors, fa_dtype, fa_mask, fa_per, fa_polarity,
        fa_sequences, fa_softmax_backward_tensors, fa_softmax_forward_tensors, fa_tensor,
    },
    api::{Emulator, api},
};
use fused_attention::{
    Dtype, Per, Polarity, RawAttention, RawBackward, RawDropoutSeed, RawForward, RawMask, RawSaved,
    RawSequences, RawTensor,
};
use std::{
    ffi::c_void,
    ptr::{self, copy_nonoverlapping, null, null_mut},
};

/// A tensor with the content, shape, strides and alignment of one that belongs to Rust.
pub struct Mirrored {
    pub tensor: fa_tensor,
    /// Where it is in Rust's memory.
    original: u64,
    memory: *mut c_void,
    first: *mut u8,
    bytes: usize,
}

impl Mirrored {
    /// A mirror of this.
    pub fn new(device: &Emulator, raw: &RawTensor) -> Self {
        const ALIGNMENT: u64 = 256;
        let range = raw.bytes_touched().unwrap();
        let bytes = (range.end - range.start) as usize;
        let mut memory = null_mut();
        let with_margin = bytes + ALIGNMENT as usize;
        // SAFETY: a handle, and an address to be written.
        api().check(unsafe {
            (api().fa_emulator_allocate)(device.handle(), with_margin, &mut memory)
        });
        let first = memory.wrapping_byte_add((range.start % ALIGNMENT) as usize).cast::<u8>();
        // SAFETY: the tensor's bytes, which are the host's, and as much room.
        unsafe { copy_nonoverlapping(range.start as *const u8, first, bytes) };
        let pointer = first.wrapping_add((raw.pointer - range.start) as usize).cast();
        let (mut shape, mut strides) = ([i64::MIN; FA_MAX_RANK], [i64::MIN; FA_MAX_RANK]);
        shape.iter_mut().zip(&*raw.shape).for_each(|(to, &size)| *to = size as i64);
        strides[..raw.rank()].copy_from_slice(&raw.strides);
        let (dtype, rank) = (dtype(raw.dtype) as u32, raw.rank() as u32);
        let tensor = fa_tensor { pointer, dtype, rank, shape, strides };
        Mirrored { tensor, original: range.start, memory, first, bytes }
    }

    /// Copies the content back to Rust's memory.
    pub fn copy_back(&self) {
        // SAFETY: as in `new`.
        unsafe { copy_nonoverlapping(self.first, self.original as *mut u8, self.bytes) };
    }
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        // SAFETY: from `new`; every call has ended.
        unsafe { (api().fa_emulator_free)(self.memory) };
    }
}

fn dtype(dtype: Dtype) -> fa_dtype {
    match dtype {
        Dtype::F16 => fa_dtype::F16,
        Dtype::Bf16 => fa_dtype::Bf16,
        Dtype::F32 => fa_dtype::F32,
        Dtype::F64 => fa_dtype::F64,
        Dtype::U8 => fa_dtype::U8,
        Dtype::I32 => fa_dtype::I32,
        Dtype::I64 => fa_dtype::I64,
        other => panic!("{other} is not in the interface"),
    }
}

/// A mask, and the tensors that it points to.
pub struct MirroredMask {
    pub mask: fa_mask,
    _tensors: [Option<Box<Mirrored>>; 4],
}

impl MirroredMask {
    /// A mirror of this.
    pub fn new(device: &Emulator, mask: &RawMask) -> Self {
        let RawMask { bytes, additive, lengths, bank_index } = mask;
        let bytes_and_lengths = (bytes.map(|(raw, _)| raw), lengths.map(|(raw, _)| raw));
        let all = [bytes_and_lengths.0, *additive, bytes_and_lengths.1, *bank_index];
        let tensors = all.map(|raw| raw.map(|raw| Box::new(Mirrored::new(device, &raw))));
        let [bytes, additive, lengths, bank_index] = tensors.each_ref().map(pointer);
        let polarity = mask.bytes.map_or(0, |(_, polarity)| match polarity {
            Polarity::Exclude => fa_polarity::Exclude as u32,
            Polarity::Keep => fa_polarity::Keep as u32,
        });
        let lengths_per = mask.lengths.map_or(0, |(_, per)| match per {
            Per::Batch => fa_per::Batch as u32,
            Per::Row => fa_per::Row as u32,
        });
        let struct_size = size_of::<fa_mask>();
        let mask =
            fa_mask { struct_size, bytes, additive, lengths, bank_index, polarity, lengths_per };
        MirroredMask { mask, _tensors: tensors }
    }
}

/// The structs of a forward call, and the tensors that they point to.
pub struct MirroredForward {
    pub tensors: fa_softmax_forward_tensors,
    outputs: [Option<Box<Mirrored>>; 2],
    _inputs: [Option<Box<Mirrored>>; 2],
    _mask: Box<MirroredMask>,
}

impl MirroredForward {
    /// A mirror of this call.
    pub fn new(device: &Emulator, call: &RawForward) -> Self {
        let mirror = |raw: RawTensor| Box::new(Mirrored::new(device, &raw));
        let RawForward { x, y, lse, scale, mask } = *call;
        let (outputs, inputs) = ([Some(y), lse], [Some(x), scale]);
        let (outputs, inputs) = (outputs.map(|o| o.map(mirror)), inputs.map(|i| i.map(mirror)));
        let mask = Box::new(MirroredMask::new(device, &mask));
        let tensors = fa_softmax_forward_tensors {
            struct_size: size_of::<fa_softmax_forward_tensors>(),
            x: pointer(&inputs[0]),
            y: pointer(&outputs[0]),
            lse: pointer(&outputs[1]),
            scale: pointer(&inputs[1]),
            mask: &mask.mask,
        };
        MirroredForward { tensors, outputs, _inputs: inputs, _mask: mask }
    }

    /// Copies the outputs back to Rust's memory.
    pub fn copy_back(&self) {
        self.outputs.iter().flatten().for_each(|output| output.copy_back());
    }
}

/// The structs of a backward call, and the tensors that they point to.
pub struct MirroredBackward {
    pub tensors: fa_softmax_backward_tensors,
    output: Box<Mirrored>,
    inputs: [Option<Box<Mirrored>>; 4],
    _mask: Box<MirroredMask>,
}

impl MirroredBackward {
    /// A mirror of this call.
    pub fn new(device: &Emulator, call: &RawBackward) -> Self {
        let mirror = |raw: RawTensor| Box::new(Mirrored::new(device, &raw));
        let RawBackward { saved, dp, dx, scale, mask } = *call;
        let (p, x) = match saved {
            RawSaved::Probabilities(p) => (Some(p), None),
            RawSaved::Scores(x) => (None, Some(x)),
            other => panic!("{other:?} is not in the interface"),
        };
        let inputs = [p, x, Some(dp), scale].map(|raw| raw.map(mirror));
        let (output, mask) = (mirror(dx), Box::new(MirroredMask::new(device, &mask)));
        let [p, x, dp, scale] = inputs.each_ref().map(pointer);
        let tensors = fa_softmax_backward_tensors {
            struct_size: size_of::<fa_softmax_backward_tensors>(),
            p,
            x,
            dp,
            dx: &output.tensor,
            scale,
            mask: &mask.mask,
        };
        MirroredBackward { tensors, output, inputs, _mask: mask }
    }

    /// Copies the output back to Rust's memory.
    pub fn copy_back(&self) {
        self.output.copy_back();
    }

    /// Copies what an input holds, which took the output's place, to the output in Rust's memory.
    pub fn copy_back_from(&self, input: *const fa_tensor) {
        let mut inputs = self.inputs.iter().flatten();
        let input = inputs
            .find(|mirrored| ptr::eq(&raw const mirrored.tensor, input))
            .expect("an input of the call");
        assert_eq!(input.bytes, self.output.bytes);
        // SAFETY: as many bytes, the input's and the host's.
        unsafe {
            copy_nonoverlapping(input.first, self.output.original as *mut u8, input.bytes);
        }
    }
}

/// The structs of attention's forward call, and the tensors that they point to.
pub struct MirroredAttention {
    pub tensors: fa_attention_forward_tensors,
    outputs: [Option<Box<Mirrored>>; 2],
    _inputs: [Option<Box<Mirrored>>; 10],
    _sequences: [Option<Box<fa_sequences>>; 2],
    _mask: Box<MirroredMask>,
}

impl MirroredAttention {
    /// A mirror of this call.
    pub fn new(device: &Emulator, call: &RawAttention) -> Self {
        let mirror = |raw: RawTensor| Box::new(Mirrored::new(device, &raw));
        let offsets = |sequences: Option<RawSequences>| sequences.map(|s| s.offsets);
        let (mut seeds, mut given) = ((None, None), (0, 0, 0));
        match call.dropout_seed {
            Some(RawDropoutSeed::OnDevice { seed, offset }) => seeds = (Some(seed), Some(offset)),
            Some(RawDropoutSeed::Given { seed, offset }) => given = (seed, offset, 1),
            Some(other) => panic!("{other:?} is not in the interface"),
            None => {}
        }
        let (query_sequences, key_sequences) = (call.query_sequences, call.key_sequences);
        let outputs = [Some(call.o), call.lse].map(|raw| raw.map(mirror));
        let inputs = [
            Some(call.q),
            Some(call.k),
            Some(call.v),
            call.scale,
            call.query_lengths,
            offsets(query_sequences),
            offsets(key_sequences),
            call.slopes,
            seeds.0,
            seeds.1,
        ]
        .map(|raw| raw.map(mirror));
        let all = inputs.each_ref().map(pointer);
        let [q, k, v, scale, query_lengths, query_offsets, key_offsets, slopes, seed, offset] = all;
        let sequences = [(query_sequences, query_offsets), (key_sequences, key_offsets)];
        let sequences = sequences.map(|(sequences, offsets)| {
            let longest = sequences?.longest as i64;
            let struct_size = size_of::<fa_sequences>();
            Some(Box::new(fa_sequences { struct_size, offsets, longest }))
        });
        let mask = Box::new(MirroredMask::new(device, &call.mask));
        let struct_of = |sequences: &Option<Box<fa_sequences>>| {
            sequences.as_ref().map_or(null(), |sequences| &raw const **sequences)
        };
        let tensors = fa_attention_forward_tensors {
            struct_size: size_of::<fa_attention_forward_tensors>(),
            q,
            k,
            v,
            o: pointer(&outputs[0]),
            lse: pointer(&outputs[1]),
            scale,
            mask: &mask.mask,
            query_lengths,
            query_sequences: struct_of(&sequences[0]),
            key_sequences: struct_of(&sequences[1]),
            slopes,
            seed_tensor: seed,
            offset_tensor: offset,
            seed: given.0,
            offset: given.1,
            has_seed: given.2,
        };
        MirroredAttention { tensors, outputs, _inputs: inputs, _sequences: sequences, _mask: mask }
    }

    /// Copies the outputs back to Rust's memory.
    pub fn copy_back(&self) {
        self.outputs.iter().flatten().for_each(|output| output.copy_back());
    }
}

fn pointer(tensor: &Option<Box<Mirrored>>) -> *const fa_tensor {
    tensor.as_ref().map_or(null(), |mirrored| &mirrored.tensor)
}
