//! From options and the forms of tensors to a launch; what only depends on those is done once.

use super::{
    forms::{Forms, OutputTypes, Sizes, check_count, strides},
    launch::Launch,
    options::Attention,
    raw::RawAttention,
    sequences::RawSequences,
    tile_choice::{Cut, Demand, Features, candidates},
};
use crate::{
    Causal, Error, Explanation, RawTensor, Result,
    choice::{Choice, Wish, choose},
};
use kernels::{
    attention::{
        hopper::cut::APART_UP_TO,
        problem::{AttentionForward, MAX_SEQUENCE, Strides, flags},
        schedule::Schedule,
    },
    softmax::problem::Divisor,
    tiles::AttentionTile,
};
use std::ptr::{null, null_mut};

/// The operation's name in errors.
pub(super) const OPERATION: &str = "attention forward";

/// All that a plan depends on: options, shapes, strides, alignments, the device's architecture, shared
/// memory and multiprocessors.
/// Tensors stand here with the low bits of their pointer only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    pub options: Attention,
    pub capability: (u32, u32),
    pub shared_bytes: u32,
    pub multiprocessors: u32,
    pub call: RawAttention,
}

/// How a problem is launched.
pub(super) struct Plan {
    pub launch: Launch,
    pub workspace_bytes: usize,
    pub explanation: Explanation,
}

/// What explanations call the faster entries of a tile.
const PLAIN: &str = "its plain entry";

/// Blocks of one launch, at most.
const MAX_BLOCKS: u64 = (1 << 31) - 1;

/// Blocks for each multiprocessor that take tiles in turn, where those of one batch entry take longer
/// than those of another: a multiprocessor takes the next block when it has ended one. Under a causal
/// mask, with every row counted, the last blocks end within a tenth of the mean so, by the order in which
/// tiles are taken; half as many end a quarter behind it, and more take longer to begin.
///
/// Tiles beyond the rows that there are cost a block some dozens of instructions each, a launch none:
/// few, unless one sequence is hundreds of times as long as most.
const UNEVEN_BLOCKS: u32 = 8;

/// K and V of the heads that are worked on at the same time should stay in the L2 cache, which has
/// this many bytes at least where it matters.
const CACHED_BYTES: usize = 16 << 20;

/// Checks the forms of all tensors and finds the launch.
pub(super) fn make(key: &PlanKey) -> Result<Plan> {
    let PlanKey { options, capability, shared_bytes, multiprocessors, call } = key;
    let forms = Forms::of(call, OutputTypes::of(call.q.dtype))?;
    let template = template(options, call, &forms)?;
    let drops = template.dropped != 0;
    let (capability, shared_bytes) = (*capability, *shared_bytes);
    let Forms { dtype, sizes, .. } = forms;
    let demand = Demand {
        dtype,
        sizes,
        drops,
        tensors: [call.q, call.k, call.v, call.o],
        capability,
        shared_bytes,
    };
    let (features, not_plain) = features(&template, call, &forms);
    let wish = options.tile.map(Wish::Options);
    let Choice { candidate, cut, mut passed_over } =
        choose(candidates(dtype, features), wish, &demand)
            .map_err(|tried| tried.into_error(OPERATION))?;
    let (tile, (entry, cut)) = (candidate.tile, cut);
    let (mut problem, mut blocks) = with_cut(template, &forms, cut)?;
    if entry.takes_turns() && blocks > 0 {
        problem.schedule = in_turns(&problem, tile, is_uneven(call, &sizes), *multiprocessors);
        blocks = problem.schedule.blocks().into();
    }
    let config = Cut::config(blocks, &candidate);
    let plain = || candidates(dtype, Features::Plain).find(|other| other.tile.name == tile.name);
    let not_plain = not_plain.filter(|_| plain().is_some_and(|plain| plain.exists()));
    passed_over.extend(not_plain.map(|reason| (PLAIN, reason.to_owned())));
    let explanation = Explanation {
        kernel: entry.name(),
        tile: tile.name,
        reason: tile.reason,
        is_tuned: false,
        launches: if blocks == 0 { Vec::new() } else { vec![config] },
        passed_over,
    };
    let launch = Launch { entry, config, problem };
    Ok(Plan { launch, workspace_bytes: 0, explanation })
}

/// The schedule for blocks that take several tiles each, if there are more than multiprocessors.
fn in_turns(
    problem: &AttentionForward,
    tile: &AttentionTile,
    is_uneven: bool,
    multiprocessors: u32,
) -> Schedule {
    let (schedule, tiles) = (problem.schedule, problem.schedule.blocks());
    if is_uneven {
        return schedule.staying(UNEVEN_BLOCKS.saturating_mul(multiprocessors).min(tiles));
    }
    // Where the next tile's q cannot come early, a block that stays saves less than one for each tile,
    // longest first, evens out.
    let one_by_one = tile.head_dim > APART_UP_TO && sees_ever_more(problem);
    if tiles <= multiprocessors || one_by_one {
        return schedule;
    }
    schedule.in_turns(multiprocessors, problem.keys.div_ceil(tile.keys) + 1)
}

/// Does each tile of a row group see more keys than the one before?
fn sees_ever_more(problem: &AttentionForward) -> bool {
    problem.window_right >= 0 && problem.window_left < 0
}

/// Do batch entries have other numbers of rows than one another? Packed sequences are taken to have not,
/// if tensors have as many rows as there are if all are as long as the longest. If they have, and rows
/// are left over, only time is lost.
fn is_uneven(call: &RawAttention, sizes: &Sizes) -> bool {
    let packed = |sequences: Option<RawSequences>, tensor: &RawTensor| {
        sequences.is_some_and(|all| tensor.shape[1] != sizes.batch.saturating_mul(all.longest))
    };
    packed(call.query_sequences, &call.q)
        || packed(call.key_sequences, &call.k)
        || call.query_lengths.is_some()
        || call.mask.lengths.is_some()
}

/// What a kernel must be able to do; and if that is not as little as possible, why.
fn features(
    problem: &AttentionForward,
    call: &RawAttention,
    forms: &Forms,
) -> (Features, Option<&'static str>) {
    let reasons = [
        (!forms.aligned, Features::All, "not all rows of q, k, v and o are on 16-byte boundaries"),
        (problem.softcap != 0.0, Features::All, "there is a softcap"),
        (problem.dropped != 0, Features::All, "there is dropout"),
        (call.mask.bytes.is_some(), Features::Masked, "there is a boolean mask"),
        (call.mask.additive.is_some(), Features::Masked, "there is a bias"),
        (call.slopes.is_some(), Features::Masked, "there are slopes of ALiBi"),
    ];
    let reason = reasons.into_iter().find(|(given, ..)| *given);
    reason.map_or((Features::Plain, None), |(_, features, reason)| (features, Some(reason)))
}

/// The kernel's problem without pointers, and before it is cut.
pub(super) fn template(
    options: &Attention,
    call: &RawAttention,
    forms: &Forms,
) -> Result<AttentionForward> {
    let Sizes { heads, kv_heads, queries, keys, head_dim, value_dim, .. } = forms.sizes;
    let masks = &forms.masks;
    let softcap = options.checked_softcap()?;
    let dropped = options.checked_dropped()?;
    if dropped != 0 && call.dropout_seed.is_none() {
        return Err(Error::MissingDropoutSeed { dropped });
    }
    check_count("query heads", heads as u64, i32::MAX as u64)?;
    let set = |condition: bool, flag: u32| if condition { flag } else { 0 };
    let window = |keys: i64| keys.min(MAX_SEQUENCE.into()) as i32;
    let slopes = forms.slopes.map_or([0; 2], |raw| [raw.strides[0], raw.strides[1]]);
    let score_strides =
        |raw: &Option<_>| raw.as_ref().map_or(Strides::default(), |raw| strides(raw, false));
    Ok(AttentionForward {
        q: null(),
        k: null(),
        v: null(),
        o: null_mut(),
        lse: null_mut(),
        q_strides: strides(&call.q, false),
        k_strides: strides(&call.k, false),
        v_strides: strides(&call.v, false),
        o_strides: strides(&call.o, false),
        lse_strides: call.lse.map_or(Strides::default(), |lse| strides(&lse, true)),
        q_offsets: null(),
        k_offsets: null(),
        q_lengths: null(),
        k_lengths: null(),
        mask: null(),
        mask_strides: score_strides(&masks.bytes),
        mask_bank: masks.bytes_bank,
        bias: null(),
        bias_strides: score_strides(&masks.additive),
        bias_bank: masks.additive_bank,
        bank_index: null(),
        bank_index_stride: call.mask.bank_index.map_or(0, |raw| raw.strides[0]),
        slopes: null(),
        slopes_batch: slopes[0],
        slopes_head: slopes[1],
        seed_pointer: null(),
        offset_pointer: null(),
        seed: 0,
        offset: 0,
        dropped,
        scale_pointer: null(),
        scale: options.scale_for(head_dim),
        softcap,
        softcap_inverse: softcap.recip(),
        bank_size: masks.bank_size,
        flags: set(masks.keep, flags::KEEP)
            | set(masks.bytes_broadcast, flags::MASK_BROADCAST)
            | set(masks.additive_f32, flags::BIAS_F32)
            | set(masks.additive_broadcast, flags::BIAS_BROADCAST)
            | set(options.range.diagonal == Causal::TopLeft, flags::TOP_LEFT)
            | set(!forms.aligned, flags::UNALIGNED)
            | set(!masks.bytes_broadcast && masks.bytes_aligned(8), flags::MASK_ALIGNED)
            | set(!masks.additive_broadcast && masks.additive_aligned(), flags::BIAS_ALIGNED),
        window_left: window(options.range.left),
        window_right: window(options.range.right()),
        queries: queries as u32,
        keys: keys as u32,
        head_dim: head_dim as u32,
        value_dim: value_dim as u32,
        heads: heads as u32,
        heads_per_kv: Divisor::new((heads / kv_heads.max(1)) as u32),
        packed_heads: Divisor::new(1),
        schedule: Schedule::new(1, 1, 1, 1, false),
    })
}

/// The problem as it is cut, and how many blocks that makes.
pub(super) fn with_cut(
    problem: AttentionForward,
    forms: &Forms,
    cut: Cut,
) -> Result<(AttentionForward, u64)> {
    let Sizes { batch, heads, kv_heads, keys, head_dim, value_dim, .. } = forms.sizes;
    let Cut { packed_heads, groups, tiles } = cut;
    let blocks = cut.blocks(batch);
    check_count("tiles of queries", blocks, MAX_BLOCKS)?;
    if blocks == 0 {
        return Ok((problem, 0));
    }
    let last_first = sees_ever_more(&problem);
    // Multiprocessors that read the same blocks of K and V at the same time read them from memory, and
    // mostly from the L2 cache, once. So where all tiles see the same keys those of one K/V head go
    // together; where they do not, those of as many as the cache holds, the longest first.
    let head_bytes = keys * (head_dim + value_dim) * forms.dtype.size();
    let heads_at_once = if last_first { (CACHED_BYTES / head_bytes.max(1)).max(1) } else { 1 };
    let groups_of_head = (heads / kv_heads) / packed_heads;
    let set = heads_at_once.saturating_mul(groups_of_head).min(batch * groups);
    let schedule = Schedule::new(batch as u32, groups as u32, tiles as u32, set as u32, last_first);
    Ok((
        AttentionForward { packed_heads: Divisor::new(packed_heads as u32), schedule, ..problem },
        blocks,
    ))
}
