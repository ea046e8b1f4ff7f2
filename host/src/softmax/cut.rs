//! Whether a tile can run a problem, and how it is cut for it.

use crate::{Dtype, LaunchConfig};
use kernels::{
    reduction,
    softmax::stage::{MAX_SLOTS, SLOTS},
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
    /// Bytes of shared memory for each block.
    pub shared_bytes: u32,
}

impl Cut {
    /// The launch for so many rows.
    pub fn config(self, sharing: Sharing, rows: u32) -> LaunchConfig {
        let Cut { threads, row_lanes_log2, cluster, shared_bytes, .. } = self;
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

/// Can a tile run the problem, by a kernel for architecture `arch`? If so, how it is cut, else why
/// not.
pub(super) fn cut(tile: &SoftmaxTile, arch: &str, demand: &Demand) -> Result<Cut, String> {
    let SoftmaxTile { vectors, threads, aligned, sharing, residence, .. } = *tile;
    let (major, minor) = demand.capability;
    if capability_of(arch) > (major, minor) {
        return Err(format!("needs {arch}, the device is sm_{major}{minor}"));
    }
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
        Residence::SharedMemory => return Ok(staged(tile, row_vectors, demand)),
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
            Cut { threads, row_lanes_log2, cluster: 1, slots: 0, shared_bytes: 0 }
        }
        Sharing::Block => in_blocks(whole_warps(needed_threads), 1),
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
    Cut { threads, row_lanes_log2: 5, cluster, slots: 0, shared_bytes }
}

/// Threads of a block that keeps its part of a row in shared memory: enough for several blocks on
/// a multiprocessor.
const STAGED_THREADS: u64 = 256;

/// Shared memory for the slots of a block of which three fit on a multiprocessor.
const SLOTS_OF_THREE: u64 = 72 << 10;

/// Shared memory for the slots of a block that has a multiprocessor for itself.
const SLOTS_OF_ONE: u64 = (227 << 10) - SLOTS as u64;

/// The cut of a tile that keeps rows in shared memory: as few blocks as let three of them share a
/// multiprocessor, so that one's loads overlap another's passes; more if rows are few; a
/// multiprocessor for each block, and what does not fit read twice, if rows are too long for that.
fn staged(tile: &SoftmaxTile, row_vectors: u64, demand: &Demand) -> Cut {
    let max_cluster = max_cluster(demand.capability);
    let stretch_vectors = |threads: u64| threads * u64::from(tile.vectors);
    let slot_bytes = |threads: u64| 16 * stretch_vectors(threads) * demand.tensors;
    let stretches = |threads: u64| row_vectors.div_ceil(stretch_vectors(threads)).max(1);

    let kept = |cluster: u64, threads: u64| stretches(threads).div_ceil(cluster);
    let fits =
        |cluster: u64| kept(cluster, STAGED_THREADS) * slot_bytes(STAGED_THREADS) <= SLOTS_OF_THREE;
    let mut cluster = 1;
    while cluster < max_cluster && !fits(cluster) {
        cluster *= 2;
    }
    let threads = if fits(cluster) { STAGED_THREADS } else { tile.threads.into() };
    // Few rows would leave multiprocessors idle.
    while cluster < max_cluster
        && 2 * cluster <= stretches(threads)
        && demand.rows.saturating_mul(2 * cluster) <= MULTIPROCESSORS
    {
        cluster *= 2;
    }
    let most = (SLOTS_OF_ONE / slot_bytes(threads)).min(MAX_SLOTS.into());
    let slots = kept(cluster, threads).min(most);
    Cut {
        threads: threads as u32,
        row_lanes_log2: 5,
        cluster: cluster as u32,
        slots: slots as u32,
        shared_bytes: SLOTS + (slots * slot_bytes(threads)) as u32,
    }
}

/// Of a large GPU, about.
const MULTIPROCESSORS: u64 = 132;

/// `sm_90a` as (9, 0).
fn capability_of(arch: &str) -> (u32, u32) {
    let digits = arch.trim_start_matches("sm_").trim_end_matches('a');
    let number: u32 = digits.parse().unwrap_or(u32::MAX);
    (number / 10, number % 10)
}
