//! The caller's structs of attention, checked.

use crate::{
    abi::{fa_attention_forward_tensors, fa_attention_options, fa_sequences},
    read::{diagonal, mask, optional_tensor, read, tensor},
    status::{Failure, fa_status},
};
use fused_attention::{Attention, RawAttention, RawDropoutSeed, RawSequences};

/// The options.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn options(from: *const fa_attention_options) -> Result<Attention, Failure> {
    // SAFETY: promised.
    let options = unsafe { read("options", from) }?;
    let diagonal = diagonal(options.diagonal)?;
    let mut attention = Attention::new().diagonal(diagonal).dropout(options.dropout);
    if options.has_scale != 0 {
        attention = attention.scale(options.scale);
    }
    if options.has_window != 0 {
        attention = attention.window(options.window_left, options.window_right);
    }
    if options.is_causal != 0 {
        attention = attention.causal(diagonal);
    }
    if options.softcap != 0.0 {
        attention = attention.softcap(options.softcap);
    }
    Ok(attention)
}

/// The tensors of a forward call.
///
/// # Safety
/// As [`read`], for the struct and all that it points to.
pub(crate) unsafe fn forward(
    from: *const fa_attention_forward_tensors,
) -> Result<RawAttention, Failure> {
    // SAFETY: promised.
    unsafe {
        let tensors = read("tensors", from)?;
        Ok(RawAttention {
            q: tensor("q", tensors.q)?,
            k: tensor("k", tensors.k)?,
            v: tensor("v", tensors.v)?,
            o: tensor("o", tensors.o)?,
            lse: optional_tensor("lse", tensors.lse)?,
            scale: optional_tensor("scale", tensors.scale)?,
            mask: mask(tensors.mask)?,
            query_lengths: optional_tensor("query_lengths", tensors.query_lengths)?,
            query_sequences: sequences("query_sequences", tensors.query_sequences)?,
            key_sequences: sequences("key_sequences", tensors.key_sequences)?,
            slopes: optional_tensor("slopes", tensors.slopes)?,
            dropout_seed: dropout_seed(&tensors)?,
        })
    }
}

/// # Safety
/// As [`read`], for the struct and all that it points to.
unsafe fn sequences(
    name: &str,
    from: *const fa_sequences,
) -> Result<Option<RawSequences>, Failure> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: promised.
    let (offsets, longest) = unsafe {
        let fa_sequences { offsets, longest, .. } = read(name, from)?;
        (tensor(&format!("{name}.offsets"), offsets)?, longest)
    };
    let negative =
        |_| Failure::new(fa_status::NegativeSize, format_args!("{name}.longest is {longest}"));
    Ok(Some(RawSequences { offsets, longest: usize::try_from(longest).map_err(negative)? }))
}

/// # Safety
/// The pointers are null or valid.
unsafe fn dropout_seed(
    tensors: &fa_attention_forward_tensors,
) -> Result<Option<RawDropoutSeed>, Failure> {
    // SAFETY: promised.
    let (seed, offset) = unsafe {
        (
            optional_tensor("seed_tensor", tensors.seed_tensor)?,
            optional_tensor("offset_tensor", tensors.offset_tensor)?,
        )
    };
    match (seed, offset, tensors.has_seed != 0) {
        (None, None, false) => Ok(None),
        (None, None, true) => {
            Ok(Some(RawDropoutSeed::Given { seed: tensors.seed, offset: tensors.offset }))
        }
        (Some(seed), Some(offset), false) => Ok(Some(RawDropoutSeed::OnDevice { seed, offset })),
        (Some(_), Some(_), true) => {
            let message =
                "a seed is given as a number and in device memory, and one of them counts";
            Err(Failure::new(fa_status::ConflictingArguments, message))
        }
        _ => {
            let message = "of seed_tensor and offset_tensor one is null";
            Err(Failure::new(fa_status::NullArgument, message))
        }
    }
}
