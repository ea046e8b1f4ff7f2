//! From options and the forms of tensors to launches; what only depends on those is done once.

use super::{
    call::{Call, Operation},
    cut::{Cut, Demand},
    forms::{self, Masks},
    launch::{Entry, Launch},
    options::ScaledMaskedSoftmax,
    rows::{self, MAX_ROWS, OPERANDS, Operand, RowDimension, Slice},
    tile_choice::{Candidate, dtype_index},
    tuning::{self, TunedMask},
    turns::Turns,
};
use crate::{
    Device, DeviceKind, Error, Explanation, RawTensor, Result,
    choice::{Choice, Wish, choose},
};
use kernels::{
    softmax::{
        entries::{BACKWARD_VARIANTS, FORWARD_VARIANTS},
        problem::{self, Divisor, MAX_ROW_DIMENSIONS, SoftmaxForward},
    },
    tiles::Residence,
};
use std::{
    hash::{Hash, Hasher},
    ptr::{null, null_mut},
};

/// All that a plan depends on: options, shapes, strides, alignments, the device.
/// Tensors stand here with the low bits of their pointer only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanKey {
    pub options: ScaledMaskedSoftmax,
    pub device: DeviceKind,
    pub capability: (u32, u32),
    pub call: Call,
}

impl Hash for PlanKey {
    /// What tells nearly all problems apart. The rest is only compared, which takes less time.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Call { operation, source, .. } = &self.call;
        (self.options, operation, source.dtype, source.shape, source.strides).hash(state);
    }
}

/// How a problem is launched.
pub(super) struct Plan {
    pub entry: Entry,
    pub launches: Vec<Launch>,
    pub explanation: Explanation,
}

/// Checks the forms of all tensors and finds the launches.
pub(super) fn make(key: &PlanKey, device: &Device) -> Result<Plan> {
    let PlanKey { options, capability, call, .. } = key;
    let (operation, dtype) = (call.operation, call.source.dtype);
    let Some(dtype_index) = dtype_index(dtype) else {
        return Err(Error::UnsupportedDtype { tensor: operation.source(), found: dtype });
    };
    forms::check(call)?;
    let masks = Masks::of(options, call)?;
    let dimensions = row_dimensions(call, &masks);
    let rows = dimensions.iter().fold(1u64, |rows, d| rows.saturating_mul(d.size));
    // A diagonal wants the query dimension first.
    let has_diagonal = options.range.has_diagonal();
    let ordered = match has_diagonal {
        true => dimensions,
        false => rows::neighbours_share_masks(dimensions),
    };
    let merged = rows::merge(&ordered, has_diagonal);
    let demand = Demand {
        dtype,
        rows,
        columns: call.source.shape.last().copied().unwrap_or(0) as u64,
        aligned: masks.are_aligned(call),
        capability: *capability,
        tensors: 1 + u64::from(call.gradient.is_some()),
        mask: masks.class(options),
        sharers: match operation {
            Operation::Forward if !has_diagonal => rows::sharers(&merged),
            _ => 1,
        },
    };
    let choose = |wish| choose(candidates(operation, dtype_index, &demand), wish, &demand);
    let tuned = match options.tile {
        Some(_) => None,
        None => tuning::tiles(operation, &demand)?
            .find_map(|tile| choose(Some(Wish::Tuning(tile))).ok()),
    };
    let is_tuned = tuned.is_some();
    let Choice { candidate, cut, passed_over } = tuned
        .map_or_else(|| choose(options.tile.map(Wish::Options)), Ok)
        .map_err(|tried| tried.into_error(operation.name()))?;
    let Candidate { tile, entry, .. } = candidate;
    // Rows without columns have nothing but their lse.
    let is_empty = demand.rows == 0 || demand.columns == 0 && call.lse.is_none();
    let slices = if is_empty { Vec::new() } else { rows::slices(&merged, MAX_ROWS) };
    let template = template(key, &masks, &merged, cut);
    let mut gradient_strides = [0; MAX_ROW_DIMENSIONS];
    for (to, from) in gradient_strides.iter_mut().zip(&merged) {
        *to = from.strides[Operand::Gradient as usize];
    }
    let launch = |slice: Slice| {
        let mut config = cut.config(tile.sharing, slice.rows);
        if tile.residence == Residence::Ring {
            // Clusters that take rows in turn: as many as run at once.
            let resident = entry.resident_clusters(device, config)?.max(1);
            config.grid.x = config.grid.x.min(resident.saturating_mul(config.cluster));
        }
        let problem = with_slice(template, &slice, cut.turns);
        Ok(Launch { config, problem, gradient_strides, slice })
    };
    let launches = slices.into_iter().map(launch).collect::<Result<Vec<_>>>()?;
    let explanation = Explanation {
        kernel: entry.name(),
        tile: tile.name,
        reason: tile.reason,
        is_tuned,
        launches: launches.iter().map(|launch| launch.config).collect(),
        passed_over,
    };
    Ok(Plan { entry, launches, explanation })
}

/// Which of a variant's kernels takes masks of a class: of the forward's none, a visible range, bytes,
/// additive; of the backward's probabilities, scores without element masks and with.
fn kernel_kind(operation: Operation, mask: TunedMask) -> usize {
    match (operation, mask) {
        (Operation::Forward, TunedMask::None) | (Operation::BackwardFromProbabilities, _) => 0,
        (Operation::Forward, TunedMask::Range) => 1,
        (Operation::Forward, TunedMask::Bytes) => 2,
        (Operation::Forward, TunedMask::Additive) => 3,
        (Operation::BackwardFromScores, TunedMask::None | TunedMask::Range) => 1,
        (Operation::BackwardFromScores, _) => 2,
    }
}

/// The operation's table, with the entries for an element type and a problem.
fn candidates(
    operation: Operation,
    dtype_index: usize,
    demand: &Demand,
) -> Box<dyn Iterator<Item = Candidate>> {
    let kind = kernel_kind(operation, demand.mask);
    let shares = demand.mask == TunedMask::Bytes && demand.sharers > 1;
    match operation {
        Operation::Forward => Box::new(FORWARD_VARIANTS.iter().map(move |variant| {
            let in_turns = variant.in_turns[dtype_index].filter(|_| shares);
            let entry = in_turns.unwrap_or(variant.kernels[dtype_index][kind]);
            let (entry, in_turns) = (Entry::Forward(entry), in_turns.is_some());
            Candidate { tile: &variant.tile, entry, in_turns }
        })),
        _ => Box::new(BACKWARD_VARIANTS.iter().map(move |variant| Candidate {
            tile: &variant.tile,
            entry: Entry::Backward(variant.kernels[dtype_index][kind]),
            in_turns: false,
        })),
    }
}

/// The leading dimensions, innermost first, with the stride of each operand.
fn row_dimensions(call: &Call, masks: &Masks) -> Vec<RowDimension> {
    let stride = |raw: &Option<RawTensor>, dim: usize| raw.as_ref().map_or(0, |r| r.strides[dim]);
    let leading = call.source.rank() - 1;
    let dimension = |dim: usize| {
        let mut strides = [0; OPERANDS];
        strides[Operand::Source as usize] = call.source.strides[dim];
        strides[Operand::Output as usize] = call.output.strides[dim];
        strides[Operand::Bytes as usize] = stride(&masks.elements.bytes, dim);
        strides[Operand::Additive as usize] = stride(&masks.elements.additive, dim);
        strides[Operand::Lengths as usize] = stride(&masks.lengths, dim);
        strides[Operand::BankIndex as usize] = stride(&masks.bank_index, dim);
        strides[Operand::Gradient as usize] = stride(&call.gradient, dim);
        strides[Operand::Lse as usize] = stride(&call.lse, dim);
        RowDimension { size: call.source.shape[dim] as u64, strides }
    };
    (0..leading).rev().map(dimension).collect()
}

/// The kernel's problem without pointers, and without the rows of a launch.
fn template(key: &PlanKey, masks: &Masks, dimensions: &[RowDimension], cut: Cut) -> SoftmaxForward {
    let shape = &key.call.source.shape;
    let queries = shape.len().checked_sub(2).map_or(1, |dim| shape[dim]);
    let mut problem = SoftmaxForward {
        x: null(),
        y: null_mut(),
        lse: null_mut(),
        scale_pointer: null(),
        scale: key.options.scale(),
        bytes: null(),
        additive: null(),
        lengths: null(),
        bank_index: null(),
        bank_size: masks.elements.bank_size,
        flags: masks.flags,
        bytes_bank: masks.elements.bytes_bank,
        additive_bank: masks.elements.additive_bank,
        columns: shape.last().copied().unwrap_or(0) as u64,
        window_left: key.options.range.left,
        window_right: key.options.range.right(),
        queries: queries as u64,
        first_query: 0,
        rows: 0,
        row_lanes_log2: cut.row_lanes_log2,
        rank: 0,
        slots: cut.slots,
        slots_ahead: cut.slots_ahead,
        turns: cut.turns.rows,
        groups: 0,
        dimensions: [problem::RowDimension::NONE; MAX_ROW_DIMENSIONS],
    };
    for (to, from) in problem.dimensions.iter_mut().zip(dimensions) {
        *to = problem::RowDimension {
            size: Divisor::new(0),
            x: from.strides[Operand::Source as usize],
            y: from.strides[Operand::Output as usize],
            bytes: from.strides[Operand::Bytes as usize],
            additive: from.strides[Operand::Additive as usize],
            lengths: from.strides[Operand::Lengths as usize],
            bank_index: from.strides[Operand::BankIndex as usize],
            lse: from.strides[Operand::Lse as usize],
        };
    }
    problem
}

/// The problem of one launch.
fn with_slice(mut problem: SoftmaxForward, slice: &Slice, turns: Turns) -> SoftmaxForward {
    problem.rows = slice.rows;
    problem.groups = turns.groups(slice.rows);
    problem.first_query = slice.first_query;
    problem.rank = slice.sizes.len() as u32;
    for (dimension, &size) in problem.dimensions.iter_mut().zip(&slice.sizes) {
        dimension.size = Divisor::new(size);
    }
    problem
}
