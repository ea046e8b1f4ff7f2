//! What a call's tensors must look like, and how they are addressed.

use super::{
    raw::{RawAttention, RawDropoutSeed},
    sequences::RawSequences,
};
use crate::{Dtype, Error, Per, RawTensor, Result, element_masks::ElementMasks};
use kernels::attention::problem::{MAX_SEQUENCE, Strides};

/// The largest head dimension that there are kernels for.
pub(super) const MAX_HEAD_DIM: usize = 256;

/// What the output and the log-sum-exp are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputTypes {
    pub o: Dtype,
    pub lse: Dtype,
}

impl OutputTypes {
    /// Of attention on elements of this type.
    pub fn of(dtype: Dtype) -> Self {
        OutputTypes { o: dtype, lse: Dtype::F32 }
    }
}

/// The sizes of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Batch entries, or packed sequences.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    pub kv_heads: usize,
    /// Queries of a batch entry; of packed sequences of the longest.
    pub queries: usize,
    /// Keys, likewise.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub head_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
}

/// A call whose forms are right.
pub(super) struct Forms {
    /// Of queries, keys and values.
    pub dtype: Dtype,
    pub sizes: Sizes,
    pub masks: ElementMasks,
    /// Each head's slope in each batch entry.
    pub slopes: Option<RawTensor>,
    /// Whether all rows of q, k, v and o begin on a 16-byte boundary.
    pub aligned: bool,
}

impl Forms {
    /// Checks types, shapes and strides of all tensors.
    pub fn of(call: &RawAttention, types: OutputTypes) -> Result<Self> {
        call.tensors().try_for_each(|(name, raw)| raw.check_rank(name))?;
        let dtype = call.q.dtype;
        if !matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32) {
            return Err(Error::UnsupportedDtype { tensor: "q", found: dtype });
        }
        let sizes = sizes(call)?;
        let Sizes { batch, heads, queries, keys, .. } = sizes;
        for (name, raw, of) in [
            ("q", &call.q, dtype),
            ("k", &call.k, dtype),
            ("v", &call.v, dtype),
            ("o", &call.o, types.o),
        ] {
            raw.check_dtype(name, of)?;
            raw.check_last_stride(name, "1")?;
        }
        call.o.check_writable("o")?;
        if let Some(lse) = &call.lse {
            lse.check_dtype("lse", types.lse)?;
            lse.check_shape("lse", &call.o.shape[..call.o.rank() - 1])?;
            lse.check_writable("lse")?;
        }
        check_one("scale", call.scale, Dtype::F32)?;
        if let Some(RawDropoutSeed::OnDevice { seed, offset }) = call.dropout_seed {
            check_one("dropout seed", Some(seed), Dtype::I64)?;
            check_one("dropout offset", Some(offset), Dtype::I64)?;
        }
        let masks = ElementMasks::of(&call.mask, &[batch, heads, queries, keys], dtype, "bias")?;
        if let Some((lengths, per)) = &call.mask.lengths {
            check_per_batch("lengths", *per)?;
            check_list("lengths", lengths, batch)?;
        }
        if let Some(lengths) = &call.query_lengths {
            check_list("query lengths", lengths, batch)?;
        }
        if let Some(index) = &call.mask.bank_index {
            index.check_dtype("bank index", Dtype::I32)?;
            index.check_shape("bank index", &[batch])?;
        }
        let slopes = call.slopes.map(|slopes| {
            slopes.check_dtype("slopes", Dtype::F32)?;
            slopes.broadcast_to("slopes", &[batch, heads])
        });
        let rows = [&call.q, &call.k, &call.v, &call.o];
        let aligned = rows.into_iter().all(|raw| raw.alignment() >= 16);
        Ok(Forms { dtype, sizes, masks, slopes: slopes.transpose()?, aligned })
    }
}

/// The sizes, from q and v, once they agree with all else.
fn sizes(call: &RawAttention) -> Result<Sizes> {
    let (q_batch, q) = leading("q", &call.q, call.query_sequences.as_ref(), "query offsets")?;
    let (k_batch, k) = leading("k", &call.k, call.key_sequences.as_ref(), "key offsets")?;
    let [heads, q_rows, head_dim] = q;
    let [kv_heads, k_rows, _] = k;
    let batch = q_batch;
    if call.key_sequences.is_some() && k_batch != batch {
        let (expected, found) = (vec![batch + 1], vec![k_batch + 1]);
        return Err(Error::ShapeMismatch { tensor: "key offsets", expected, found });
    }
    let shaped = |packed: bool, rest: [usize; 3]| {
        if packed { rest.to_vec() } else { [vec![batch], rest.to_vec()].concat() }
    };
    let packed_keys = call.key_sequences.is_some();
    call.k.check_shape("k", &shaped(packed_keys, [kv_heads, k_rows, head_dim]))?;
    let value_dim = call.v.shape.last().copied().unwrap_or(0);
    call.v.check_shape("v", &shaped(packed_keys, [kv_heads, k_rows, value_dim]))?;
    let packed_queries = call.query_sequences.is_some();
    call.o.check_shape("o", &shaped(packed_queries, [heads, q_rows, value_dim]))?;
    for (tensor, found) in [("q", head_dim), ("v", value_dim)] {
        if found == 0 || found % 8 != 0 || found > MAX_HEAD_DIM {
            return Err(Error::UnsupportedHeadDim { tensor, found, largest: MAX_HEAD_DIM });
        }
    }
    if heads != 0 && (kv_heads == 0 || heads % kv_heads != 0) {
        return Err(Error::UnevenHeads { heads, kv_heads });
    }
    let queries = call.query_sequences.map_or(q_rows, |sequences| sequences.longest);
    let keys = call.key_sequences.map_or(k_rows, |sequences| sequences.longest);
    check_count("queries of a batch entry", queries as u64, MAX_SEQUENCE.into())?;
    check_count("keys of a batch entry", keys as u64, MAX_SEQUENCE.into())?;
    Ok(Sizes { batch, heads, kv_heads, queries, keys, head_dim, value_dim })
}

/// The batch entries of a tensor of queries or keys, or its packed sequences; and its other
/// dimensions.
fn leading(
    tensor: &'static str,
    raw: &RawTensor,
    sequences: Option<&RawSequences>,
    offsets: &'static str,
) -> Result<(usize, [usize; 3])> {
    let expected = if sequences.is_some() { 3 } else { 4 };
    let mismatch = |tensor, expected, found| Error::RankMismatch { tensor, expected, found };
    let (batch, rest) = match (sequences, &*raw.shape) {
        (None, &[batch, heads, rows, elements]) => (batch, [heads, rows, elements]),
        (Some(sequences), &[heads, rows, elements]) => {
            let list = &sequences.offsets;
            let &[count] = &*list.shape else { return Err(mismatch(offsets, 1, list.rank())) };
            check_list(offsets, list, count.max(1))?;
            (count - 1, [heads, rows, elements])
        }
        _ => return Err(mismatch(tensor, expected, raw.rank())),
    };
    Ok((batch, rest))
}

/// Fails if there is more of something than a kernel counts.
pub(super) fn check_count(what: &'static str, found: u64, limit: u64) -> Result<()> {
    if found > limit {
        return Err(Error::TooMany { what, found, limit });
    }
    Ok(())
}

/// Fails unless lengths are those of batch entries.
pub(super) fn check_per_batch(tensor: &'static str, per: Per) -> Result<()> {
    match per {
        Per::Batch => Ok(()),
        Per::Row => Err(Error::LengthsPerRow { tensor }),
    }
}

/// Fails unless the tensor is so many numbers of i32, one after the other.
fn check_list(tensor: &'static str, raw: &RawTensor, count: usize) -> Result<()> {
    raw.check_dtype(tensor, Dtype::I32)?;
    raw.check_shape(tensor, &[count])?;
    raw.check_last_stride(tensor, "1")
}

/// Fails unless the tensor, if there is one, is one number of this type.
fn check_one(tensor: &'static str, raw: Option<RawTensor>, dtype: Dtype) -> Result<()> {
    let Some(raw) = raw else { return Ok(()) };
    raw.check_dtype(tensor, dtype)?;
    if raw.element_count()? != 1 {
        return Err(Error::ShapeMismatch { tensor, expected: vec![1], found: raw.shape.to_vec() });
    }
    Ok(())
}

/// A tensor's strides, the last of which are those of rows and, but for `without_elements`, of
/// elements.
pub(super) fn strides(raw: &RawTensor, without_elements: bool) -> Strides {
    let skipped = usize::from(!without_elements);
    let mut outward = raw.strides.iter().rev().skip(skipped).copied();
    let mut next = || outward.next().unwrap_or(0);
    let (row, head, batch) = (next(), next(), next());
    Strides { batch, head, row }
}
