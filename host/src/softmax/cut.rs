//! Whether a tile can run a problem, and how it is cut for it.

use super::{tuning::TunedMask, turns::Turns};
use crate::{Dtype, LaunchConfig, choice::runs_on};
use kernels::{
    reduction,
    softmax::{
        ring,
        row_threads::{Block, Cluster},
        stage::{MAX_SLOTS, SLOTS_IN_TURNS, slots_of},
    },
    tiles::{Residence, Sharing, SoftmaxTile},
};

/// What the choice of a tile depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub dtype: Dtype,
    pub rows: u64,
    pub columns: u64,
    /// Every vector of every row, of its masks and of its output is one aligned access.
    pub aligned: bool,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Tensors that are read whole: x; or two in the backward.
    pub tensors: u64,
    /// What hides parts of rows.
    pub mask: TunedMask,
    /// Neighbouring rows that share all their masks.
    pub sharers: u64,
}

/// How many threads take a row, in a tile that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Threads of a block.
    pub threads: u32,
    /// Lanes of a warp for each row, log2.
    pub row_lanes_log2: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Stretches of a row that each block keeps in shared memory.
    pub slots: u32,
    /// Slots for stretches of the next row, where rows are taken in turn.
    pub slots_ahead: u32,
    /// How rows are taken in turn.
    pub turns: Turns,
    /// Bytes of shared memory for each block.
    pub shared_bytes: u32,
}

impl Cut {
    /// The launch for so many rows.
    pub fn config(self, sharing: Sharing, rows: u32) -> LaunchConfig {
        let Cut { threads, row_lanes_log2, cluster, turns, shared_bytes, .. } = self;
        let rows = rows - turns.groups(rows) * (turns.rows - 1);
        let config = match sharing {
            Sharing::Warp => LaunchConfig::new(rows.div_ceil(threads >> row_lanes_log2), threads),
            Sharing::Block => LaunchConfig::new(rows, threads),
            Sharing::Cluster => LaunchConfig::new(rows * cluster, threads).cluster(cluster),
        };
        config.shared_bytes(shared_bytes)
    }
}

/// The elements of a 16-byte vector.
pub(super) fn lanes(dtype: Dtype) -> u64 {
    16 / dtype.size() as u64
}

/// The largest cluster that every device with clusters can run.
const PORTABLE_CLUSTER: u64 = 8;

/// The largest cluster.
fn max_cluster((major, _): (u32, u32)) -> u64 {
    // Data-centre GPUs of Hopper and Blackwell also run clusters of 16.
    if matches!(major, 9 | 10) { 16 } else { PORTABLE_CLUSTER }
}

/// Can a tile run the problem, by a kernel for architecture `arch`, which takes rows that share masks in
/// turn or one at a time? If so, how it is cut, else why
/// not.
pub(super) fn cut(
    tile: &SoftmaxTile,
    arch: &str,
    in_turns: bool,
    demand: &Demand,
) -> Result<Cut, String> {
    let SoftmaxTile { vectors, threads, aligned, sharing, residence, .. } = *tile;
    runs_on(arch, demand.capability)?;
    if aligned && !demand.aligned {
        return Err("rows, masks or output are not all on 16-byte boundaries".to_owned());
    }
    let lanes = lanes(demand.dtype);
    // A row off the grid may touch one vector more than it fills.
    let lead = if aligned { 0 } else { lanes - 1 };
    let row_vectors = demand.columns.saturating_add(lead).div_ceil(lanes);
    let needed_threads = row_vectors.div_ceil(vectors.into()).max(1);
    let most = u64::from(threads);
    match residence {
        Residence::Registers => {}
        Residence::Streamed => {
            let threads = whole_warps(needed_threads.min(most)).min(threads);
            return Ok(in_blocks(threads, 1));
        }
        Residence::SharedMemory => return staged(tile, in_turns, row_vectors, demand),
        Residence::Ring => return Ok(ring(tile, row_vectors, demand)),
    }
    let row_threads = match sharing {
        Sharing::Warp => 32,
        Sharing::Block => most,
        Sharing::Cluster => most * max_cluster(demand.capability),
    };
    if needed_threads > row_threads {
        let columns = row_threads * lanes * u64::from(vectors) - lead;
        return Err(format!("holds rows of up to {columns} columns, not {}", demand.columns));
    }
    Ok(match sharing {
        Sharing::Warp => {
            // Edges off the grid are taken one by one, each by a lane of its own.
            let least = if aligned { 1 } else { lanes };
            let row_lanes_log2 = needed_threads.max(least).next_power_of_two().trailing_zeros();
            let turns = match in_turns {
                true => Turns::of(demand, tile, 1 << row_lanes_log2, threads),
                false => Turns::NONE,
            };
            Cut { row_lanes_log2, turns, shared_bytes: 0, ..in_blocks(threads, 1) }
        }
        Sharing::Block => {
            let threads = whole_warps(needed_threads);
            let one = in_blocks(threads, 1);
            match in_turns {
                true => Cut {
                    turns: Turns::of(demand, tile, threads.into(), threads),
                    shared_bytes: reduction::block::SHARED_BYTES_IN_TURNS,
                    ..one
                },
                false => one,
            }
        }
        Sharing::Cluster => {
            let cluster = needed_threads.div_ceil(most).next_power_of_two().max(2);
            in_blocks(whole_warps(needed_threads.div_ceil(cluster)), cluster as u32)
        }
    })
}

fn whole_warps(threads: u64) -> u32 {
    threads.next_multiple_of(32) as u32
}

/// Whole blocks for a row, which keep nothing in shared memory.
fn in_blocks(threads: u32, cluster: u32) -> Cut {
    let shared_bytes = match cluster {
        1 => reduction::block::SHARED_BYTES,
        _ => reduction::cluster::SHARED_BYTES,
    };
    Cut {
        threads,
        row_lanes_log2: 5,
        cluster,
        slots: 0,
        slots_ahead: 0,
        turns: Turns::NONE,
        shared_bytes,
    }
}

/// Vectors of a row that a thread is given, about, where blocks keep the row in shared memory: as
/// many as let 768 threads, in several blocks, share a multiprocessor, so that one block's loads
/// overlap another's passes; with fewer threads finding the row would take less time. Of rows with
/// element masks, which have to arrive as well, a block takes half as many, unless rows share them.
fn vectors_of_a_thread(sharing: Sharing, in_turns: bool, mask: TunedMask) -> u64 {
    match (sharing, mask) {
        (Sharing::Block, TunedMask::Bytes | TunedMask::Additive) if !in_turns => 8,
        _ => 16,
    }
}

/// A multiprocessor's shared memory, and what the system takes of it for each block.
const SHARED_BYTES: u64 = 228 << 10;
const SYSTEM_BYTES: u64 = 1 << 10;

/// The cut of a tile that keeps rows in shared memory: as few blocks as let several of them share a
/// multiprocessor; more if rows are few; what does not fit is read twice, if rows are too long for
/// that, as what is read twice then comes from the L2 cache. One block takes no more than lets
/// several of it share one.
fn staged(
    tile: &SoftmaxTile,
    in_turns: bool,
    row_vectors: u64,
    demand: &Demand,
) -> Result<Cut, String> {
    let mut threads = u64::from(tile.threads);
    let thread_vectors = vectors_of_a_thread(tile.sharing, in_turns, demand.mask);
    if tile.sharing == Sharing::Block {
        let wanted = (row_vectors * demand.tensors).div_ceil(thread_vectors);
        threads = wanted.next_multiple_of(32).clamp(32, threads);
    }
    let stretch_vectors = threads * u64::from(tile.vectors);
    let slot_bytes = 16 * stretch_vectors * demand.tensors;
    let stretches = row_vectors.div_ceil(stretch_vectors).max(1);
    let kept = |cluster: u64| stretches.div_ceil(cluster);
    // A stretch more may be needed than the row has vectors for.
    let budget = (16 * thread_vectors + 32) * threads;
    let fits = |cluster: u64| kept(cluster) * slot_bytes <= budget;
    if tile.sharing == Sharing::Block && !fits(1) {
        let columns = budget / slot_bytes * stretch_vectors * lanes(demand.dtype);
        return Err(format!("holds rows of up to {columns} columns, not {}", demand.columns));
    }
    let mut cluster = 1;
    if tile.sharing == Sharing::Cluster {
        let max_cluster = max_cluster(demand.capability);
        cluster = 2;
        while cluster < max_cluster && !fits(cluster) {
            cluster *= 2;
        }
        // Few rows would leave multiprocessors idle.
        while cluster < max_cluster
            && 2 * cluster <= stretches
            && demand.rows.saturating_mul(2 * cluster) <= MULTIPROCESSORS
        {
            cluster *= 2;
        }
    }
    // Several blocks on a multiprocessor, if there are so many.
    let alone = demand.rows.saturating_mul(cluster) <= MULTIPROCESSORS;
    let mut sharers = if alone { 1 } else { u64::from(blocks_per_sm(tile, in_turns, demand)) };
    if in_turns {
        // Of smaller blocks there are more.
        sharers = sharers * u64::from(tile.threads) / threads;
    }
    let available = |first| SHARED_BYTES / sharers - SYSTEM_BYTES - u64::from(first);
    let slots_at = match tile.sharing {
        Sharing::Cluster => slots_of::<Cluster>(threads as u32),
        _ => slots_of::<Block>(threads as u32),
    };
    let most = (available(slots_at).max(budget) / slot_bytes).clamp(1, MAX_SLOTS.into());
    let slots = kept(cluster).min(most);
    let threads = threads as u32;
    let cut = Cut {
        threads,
        row_lanes_log2: 5,
        cluster: cluster as u32,
        slots: slots as u32,
        slots_ahead: 0,
        turns: Turns::NONE,
        shared_bytes: slots_at + (slots * slot_bytes) as u32,
    };
    if !in_turns {
        return Ok(cut);
    }
    // Masks are kept beside the rows, and as much of the next row as there is room for.
    let mask_bytes = slots * 4 * u64::from(threads);
    let room = available(SLOTS_IN_TURNS).saturating_sub(mask_bytes) / slot_bytes;
    let all_slots = room.min(2 * slots).min(MAX_SLOTS.into()).max(slots);
    Ok(Cut {
        slots_ahead: (all_slots - slots) as u32,
        turns: Turns::of(demand, tile, u64::from(threads) * cluster, threads),
        shared_bytes: SLOTS_IN_TURNS + (all_slots * slot_bytes + mask_bytes) as u32,
        ..cut
    })
}

/// The cut of a tile through whose shared memory rows pass one after the other: as many blocks for a
/// row as may be. Two of them share a multiprocessor, if there are so many and they hold all of both rows:
/// so one writes while the other's blocks wait for each other. Else each has one.
fn ring(tile: &SoftmaxTile, row_vectors: u64, demand: &Demand) -> Cut {
    let cut = |sharers| ring_shared_by(sharers, tile, row_vectors, demand);
    let two = cut(2);
    let threads = u64::from(two.threads * two.cluster);
    let kept = row_vectors.div_ceil(threads * u64::from(tile.vectors));
    let alone = demand.rows.saturating_mul(two.cluster.into()) <= MULTIPROCESSORS;
    if !alone && kept <= two.slots.into() { two } else { cut(1) }
}

/// The same with so many blocks on a multiprocessor.
fn ring_shared_by(sharers: u64, tile: &SoftmaxTile, row_vectors: u64, demand: &Demand) -> Cut {
    let threads = whole_warps(row_vectors.min(u64::from(tile.threads) / sharers).max(1));
    let stretch_vectors = u64::from(threads) * u64::from(tile.vectors);
    let slot_bytes = 16 * stretch_vectors;
    let stretches = row_vectors.div_ceil(stretch_vectors).max(1);
    let max_cluster = max_cluster(demand.capability);
    let cluster = stretches.next_power_of_two().clamp(2, max_cluster);
    let of_rows = stretches.div_ceil(cluster).saturating_mul(demand.rows).max(1);
    let available = SHARED_BYTES / sharers - SYSTEM_BYTES - u64::from(ring::SLOTS);
    let slots = (available / slot_bytes).min(of_rows).clamp(1, MAX_SLOTS.into());
    Cut {
        threads,
        row_lanes_log2: 5,
        cluster: cluster as u32,
        slots: slots as u32,
        slots_ahead: 0,
        turns: Turns::NONE,
        shared_bytes: ring::SLOTS + (slots * slot_bytes) as u32,
    }
}

/// Blocks of a tile that fit on a multiprocessor at once, by their registers.
fn blocks_per_sm(tile: &SoftmaxTile, in_turns: bool, demand: &Demand) -> u32 {
    let (plain, masked, of_f64, of_turns) = tile.blocks_per_sm;
    match demand.mask {
        _ if in_turns => of_turns,
        _ if demand.dtype == Dtype::F64 => of_f64,
        TunedMask::None | TunedMask::Range => plain,
        TunedMask::Bytes | TunedMask::Additive => masked,
    }
}

/// Of a large GPU, about.
pub(super) const MULTIPROCESSORS: u64 = 132;
