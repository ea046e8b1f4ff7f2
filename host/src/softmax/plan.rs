//! From options and the forms of tensors to launches; what only depends on those is done once.

use super::{
    mask::{Per, Polarity},
    options::{ScaledMaskedSoftmax, accumulator},
    raw::RawForward,
    rows::{self, MAX_ROWS, OPERANDS, Operand, RowDimension, Slice},
    tile_choice::{Choice, Cut, Demand, choose, dtype_index, lanes},
};
use crate::{Causal, Dtype, Error, Kernel, LaunchConfig, RawTensor, Result};
use kernels::{
    reduction,
    softmax::problem::{self, Divisor, MAX_ROW_DIMENSIONS, SoftmaxForward, flags},
    tiles::Sharing,
};
use std::{fmt, ptr::null};

/// All that a plan depends on: options, shapes, strides, alignments, the device's architecture.
/// Tensors stand here with the low bits of their pointer only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    options: ScaledMaskedSoftmax,
    capability: (u32, u32),
    x: RawTensor,
    y: RawTensor,
    lse: Option<RawTensor>,
    scale: Option<RawTensor>,
    bytes: Option<(RawTensor, Polarity)>,
    additive: Option<RawTensor>,
    lengths: Option<(RawTensor, Per)>,
    bank_index: Option<RawTensor>,
}

impl PlanKey {
    pub fn new(
        options: &ScaledMaskedSoftmax,
        tensors: &RawForward,
        capability: (u32, u32),
    ) -> PlanKey {
        let form = |raw: RawTensor| RawTensor { pointer: raw.pointer % 16, ..raw };
        let RawForward { x, y, lse, scale, mask } = *tensors;
        PlanKey {
            options: *options,
            capability,
            x: form(x),
            y: form(y),
            lse: lse.map(form),
            scale: scale.map(form),
            bytes: mask.bytes.map(|(raw, polarity)| (form(raw), polarity)),
            additive: mask.additive.map(form),
            lengths: mask.lengths.map(|(raw, per)| (form(raw), per)),
            bank_index: mask.bank_index.map(form),
        }
    }
}

/// How a problem is launched.
pub(super) struct Plan {
    pub kernel: &'static Kernel<(SoftmaxForward,)>,
    pub launches: Vec<(LaunchConfig, SoftmaxForward, Slice)>,
    pub explanation: Explanation,
}

// SAFETY: the pointers in a plan's problems are null; they are set in each call's own copy.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

/// Which variant runs a problem, how, and why not the others.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The entry that is launched.
    pub kernel: &'static str,
    /// Its tile's name.
    pub tile: &'static str,
    /// Why the tile is as it is.
    pub reason: &'static str,
    /// Each launch: one, unless there are more rows than a launch takes.
    pub launches: Vec<LaunchConfig>,
    /// The tiles before it in the table, and why they were passed over.
    pub passed_over: Vec<(&'static str, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: tile {} ({})", self.kernel, self.tile, self.reason)?;
        if let Some(LaunchConfig { grid, block, cluster, shared_bytes }) = self.launches.first() {
            write!(f, "; grid {grid}, block {block}, cluster {cluster}, ")?;
            write!(f, "{shared_bytes} bytes of shared memory")?;
        }
        if self.launches.len() != 1 {
            write!(f, "; {} launches", self.launches.len())?;
        }
        for alike in self.passed_over.chunk_by(|(_, a), (_, b)| a == b) {
            let tiles: Vec<_> = alike.iter().map(|(tile, _)| *tile).collect();
            write!(f, "; not {}: {}", tiles.join(", "), alike[0].1)?;
        }
        Ok(())
    }
}

/// Checks the forms of all tensors and finds the launches.
pub(super) fn make(key: &PlanKey) -> Result<Plan> {
    let (x, y) = (&key.x, &key.y);
    let dtype = x.dtype;
    let Some(dtype_index) = dtype_index(dtype) else {
        return Err(Error::UnsupportedDtype { tensor: "x", found: dtype });
    };
    let Some((&columns, leading)) = x.shape.split_last() else {
        return Err(Error::RankMismatch { tensor: "x", expected: 1, found: 0 });
    };
    let (columns, row_shape) = (columns as u64, leading);
    check_last_stride("x", x, "1")?;
    y.check_dtype("y", dtype)?;
    y.check_shape("y", &x.shape)?;
    check_last_stride("y", y, "1")?;
    if y.overlaps_itself() {
        let (shape, strides) = (y.shape.to_vec(), y.strides.to_vec());
        return Err(Error::SelfOverlappingOutput { output: "y", shape, strides });
    }
    if let Some(lse) = &key.lse {
        lse.check_dtype("lse", accumulator(dtype))?;
        lse.check_shape("lse", row_shape)?;
        if !lse.is_contiguous() {
            return Err(Error::UnsupportedStride {
                tensor: "lse",
                dim: lse.rank().saturating_sub(1),
                found: lse.strides.last().copied().unwrap_or(1),
                expected: "row-major order without gaps",
            });
        }
    }
    if let Some(scale) = &key.scale {
        scale.check_dtype("scale", accumulator(dtype))?;
        if scale.element_count()? != 1 {
            let found = scale.shape.to_vec();
            return Err(Error::ShapeMismatch { tensor: "scale", expected: vec![1], found });
        }
    }

    let mut bits = 0;
    let mut set = |condition: bool, flag: u32| bits |= if condition { flag } else { 0 };
    let banked = key.bank_index.is_some();
    let mut bank_size = u32::MAX;
    let mut bytes_bank = 0;
    let mut bytes = None;
    if let Some((raw, polarity)) = &key.bytes {
        raw.check_dtype("mask", Dtype::U8)?;
        let (mask, bank) = unbanked("mask", raw, banked, &mut bank_size)?;
        let mask = mask.broadcast_to("mask", &x.shape)?;
        bytes_bank = bank;
        set(*polarity == Polarity::Keep, flags::KEEP);
        set(is_broadcast("mask", &mask)?, flags::BYTES_BROADCAST);
        bytes = Some(mask);
    }
    let mut additive_bank = 0;
    let mut additive = None;
    if let Some(raw) = &key.additive {
        if raw.dtype != Dtype::F32 || dtype == Dtype::F64 {
            raw.check_dtype("additive mask", dtype)?;
        }
        let (mask, bank) = unbanked("additive mask", raw, banked, &mut bank_size)?;
        let mask = mask.broadcast_to("additive mask", &x.shape)?;
        additive_bank = bank;
        set(mask.dtype == Dtype::F32, flags::ADDITIVE_F32);
        set(is_broadcast("additive mask", &mask)?, flags::ADDITIVE_BROADCAST);
        additive = Some(mask);
    }
    if banked && bytes.is_none() && additive.is_none() {
        return Err(Error::MissingMaskBank);
    }
    let lengths = match &key.lengths {
        Some((raw, per)) => Some(per_row("lengths", raw, *per, row_shape)?),
        None => None,
    };
    let bank_index = match &key.bank_index {
        Some(raw) => Some(per_row("bank index", raw, Per::Batch, row_shape)?),
        None => None,
    };
    set(key.options.diagonal == Causal::TopLeft, flags::TOP_LEFT);

    // Rows.
    let stride = |raw: &Option<RawTensor>, dim: usize| raw.as_ref().map_or(0, |r| r.strides[dim]);
    let dimensions: Vec<RowDimension> = (0..row_shape.len())
        .rev()
        .map(|dim| {
            let mut strides = [0; OPERANDS];
            strides[Operand::X as usize] = x.strides[dim];
            strides[Operand::Y as usize] = y.strides[dim];
            strides[Operand::Bytes as usize] = stride(&bytes, dim);
            strides[Operand::Additive as usize] = stride(&additive, dim);
            strides[Operand::Lengths as usize] = stride(&lengths, dim);
            strides[Operand::BankIndex as usize] = stride(&bank_index, dim);
            RowDimension { size: row_shape[dim] as u64, strides }
        })
        .collect();
    let row_count = dimensions.iter().fold(1u64, |rows, d| rows.saturating_mul(d.size));
    let is_empty = dimensions.iter().any(|d| d.size == 0);
    let dimensions = rows::merge(&dimensions, key.options.has_diagonal());
    let slices = if is_empty { Vec::new() } else { rows::slices(&dimensions, MAX_ROWS) };

    // Tile.
    let vector = lanes(dtype);
    let aligned = columns.is_multiple_of(vector)
        && x.alignment() >= 16
        && y.alignment() >= 16
        && bytes.as_ref().is_none_or(|mask| {
            bits & flags::BYTES_BROADCAST != 0
                || mask.alignment() >= vector && (bytes_bank as u64).is_multiple_of(vector)
        })
        && additive.as_ref().is_none_or(|mask| {
            let bank_bytes = additive_bank as u64 * mask.dtype.size() as u64;
            bits & flags::ADDITIVE_BROADCAST != 0
                || mask.alignment() >= 16 && bank_bytes.is_multiple_of(16)
        });
    let mask_index = if additive.is_some() { 2 } else { usize::from(bytes.is_some()) };
    let demand = Demand {
        dtype,
        rows: row_count,
        columns,
        aligned,
        capability: key.capability,
        mask: mask_index,
    };
    let Choice { variant, cut, passed_over } = choose(&key.options, &demand).map_err(|tried| {
        let tried: Vec<_> = tried.iter().map(|(tile, why)| format!("{tile}: {why}")).collect();
        Error::NoEligibleTile { operation: "softmax forward", tried: tried.join("; ") }
    })?;
    let kernel = variant.kernels[dtype_index][mask_index];

    // Launches.
    let mut template = SoftmaxForward {
        x: null(),
        y: std::ptr::null_mut(),
        lse: std::ptr::null_mut(),
        scale_pointer: null(),
        scale: key.options.scale(),
        bytes: null(),
        additive: null(),
        lengths: null(),
        bank_index: null(),
        bank_size,
        flags: bits,
        bytes_bank,
        additive_bank,
        columns,
        window_left: key.options.window_left,
        window_right: key.options.columns_right(),
        queries: row_shape.last().copied().unwrap_or(1) as u64,
        first_query: 0,
        rows: 0,
        row_lanes_log2: cut.row_lanes_log2,
        rank: 0,
        dimensions: [EMPTY_DIMENSION; MAX_ROW_DIMENSIONS],
    };
    for (to, from) in template.dimensions.iter_mut().zip(&dimensions) {
        *to = problem::RowDimension {
            size: Divisor::new(0),
            x: from.strides[Operand::X as usize],
            y: from.strides[Operand::Y as usize],
            bytes: from.strides[Operand::Bytes as usize],
            additive: from.strides[Operand::Additive as usize],
            lengths: from.strides[Operand::Lengths as usize],
            bank_index: from.strides[Operand::BankIndex as usize],
        };
    }
    let launches: Vec<_> = slices
        .into_iter()
        .map(|slice| {
            let mut problem = template;
            problem.rows = slice.rows;
            problem.first_query = slice.first_query;
            problem.rank = slice.sizes.len() as u32;
            for (dimension, &size) in problem.dimensions.iter_mut().zip(&slice.sizes) {
                dimension.size = Divisor::new(size);
            }
            (config(variant.tile.sharing, cut, slice.rows), problem, slice)
        })
        .collect();
    let explanation = Explanation {
        kernel: kernel.name(),
        tile: variant.tile.name,
        reason: variant.tile.reason,
        launches: launches.iter().map(|(config, ..)| *config).collect(),
        passed_over,
    };
    Ok(Plan { kernel, launches, explanation })
}

const EMPTY_DIMENSION: problem::RowDimension = problem::RowDimension {
    size: Divisor::new(1),
    x: 0,
    y: 0,
    bytes: 0,
    additive: 0,
    lengths: 0,
    bank_index: 0,
};

fn config(sharing: Sharing, cut: Cut, rows: u32) -> LaunchConfig {
    let Cut { threads, row_lanes_log2, cluster } = cut;
    match sharing {
        Sharing::Warp => LaunchConfig::new(rows.div_ceil(threads >> row_lanes_log2), threads),
        Sharing::Block => {
            LaunchConfig::new(rows, threads).shared_bytes(reduction::block::SHARED_BYTES)
        }
        Sharing::Cluster => LaunchConfig::new(rows * cluster, threads)
            .cluster(cluster)
            .shared_bytes(reduction::cluster::SHARED_BYTES),
    }
}

fn check_last_stride(tensor: &'static str, raw: &RawTensor, expected: &'static str) -> Result<()> {
    match raw.last_stride() {
        1 => Ok(()),
        found => Err(Error::UnsupportedStride { tensor, dim: raw.rank() - 1, found, expected }),
    }
}

/// Whether a mask that has x's shape has one element for a whole row.
fn is_broadcast(tensor: &'static str, raw: &RawTensor) -> Result<bool> {
    if raw.last_stride() == 0 {
        return Ok(true);
    }
    check_last_stride(tensor, raw, "1 or 0")?;
    Ok(false)
}

/// A mask without the bank's dimension, and the bank's stride.
fn unbanked(
    tensor: &'static str,
    raw: &RawTensor,
    banked: bool,
    bank_size: &mut u32,
) -> Result<(RawTensor, i64)> {
    if !banked {
        return Ok((*raw, 0));
    }
    let Some((&size, shape)) = raw.shape.split_first() else {
        return Err(Error::RankMismatch { tensor, expected: 1, found: 0 });
    };
    *bank_size = (*bank_size).min(u32::try_from(size).unwrap_or(u32::MAX));
    let mask = RawTensor::new(raw.pointer, raw.dtype, shape, &raw.strides[1..])?;
    Ok((mask, raw.strides[0]))
}

/// A tensor with a number for each batch entry or row, expanded to one for each row.
fn per_row(
    tensor: &'static str,
    raw: &RawTensor,
    per: Per,
    row_shape: &[usize],
) -> Result<RawTensor> {
    raw.check_dtype(tensor, Dtype::I32)?;
    if per == Per::Row {
        return raw.broadcast_to(tensor, row_shape);
    }
    let batch = row_shape.first().copied().unwrap_or(1);
    raw.check_shape(tensor, &[batch])?;
    if row_shape.is_empty() {
        return RawTensor::new(raw.pointer, raw.dtype, &[], &[]);
    }
    let mut strides = vec![0; row_shape.len()];
    strides[0] = raw.strides[0];
    RawTensor::new(raw.pointer, raw.dtype, row_shape, &strides)
}
