//! Launching kernels on the emulator.

use crate::{
    emulator::Emulator,
    fault::{Fault, FaultKind, Raised, Report},
    machine::Machine,
    panics,
    registry::Buffers,
    scheduler::{self, Call},
    sites::SyncSite,
    source,
    stacks::Permit,
    trap,
};
use cuda_launch::{Dim3, Kernel, KernelArgs, LaunchConfig, Launcher};
use rayon::prelude::*;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Dynamic shared memory that a block can have, in bytes: that of Hopper.
pub const MAX_SHARED_BYTES: u32 = 227 << 10;

/// Why a launch was refused before any thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An extent of the grid is zero.
    #[error("the grid {grid} is empty")]
    EmptyGrid {
        /// The grid.
        grid: Dim3,
    },
    /// An extent of the grid is beyond what CUDA allows.
    #[error("the grid {grid} is too large: at most (2147483647, 65535, 65535)")]
    GridTooLarge {
        /// The grid.
        grid: Dim3,
    },
    /// An extent of the block is zero.
    #[error("the block {block} is empty")]
    EmptyBlock {
        /// The block.
        block: Dim3,
    },
    /// The block has more threads than the kernel is compiled for, or than CUDA allows.
    #[error(
        "the block {block} is too large: at most {limit} threads (the launch bounds), 64 along z"
    )]
    BlockTooLarge {
        /// The block.
        block: Dim3,
        /// The kernel's launch bounds.
        limit: u32,
    },
    /// More shared memory than a multiprocessor has.
    #[error("{bytes} bytes of shared memory are too many: at most {MAX_SHARED_BYTES}")]
    SharedMemoryTooLarge {
        /// The bytes asked for.
        bytes: u32,
    },
    /// Clusters have 1 to 16 blocks (the default limit on hardware is 8).
    #[error("a cluster of {cluster} blocks: 1 to 16 are possible")]
    ClusterSize {
        /// The blocks asked for.
        cluster: u32,
    },
    /// The grid isn't made of whole clusters.
    #[error("a grid of {grid} blocks isn't made of whole clusters of {cluster} along x")]
    PartialCluster {
        /// The grid.
        grid: Dim3,
        /// Blocks in a cluster.
        cluster: u32,
    },
}

fn validate(config: LaunchConfig, limit: u32) -> Result<(), LaunchError> {
    let LaunchConfig { grid, block, cluster, shared_bytes } = config;
    let empty = |extent: Dim3| extent.x == 0 || extent.y == 0 || extent.z == 0;
    if empty(grid) {
        return Err(LaunchError::EmptyGrid { grid });
    }
    if grid.x > i32::MAX as u32 || grid.y > 0xffff || grid.z > 0xffff {
        return Err(LaunchError::GridTooLarge { grid });
    }
    if empty(block) {
        return Err(LaunchError::EmptyBlock { block });
    }
    let limit = limit.min(1024);
    let threads = block.x as u64 * block.y as u64 * block.z.min(65) as u64;
    if threads > limit as u64 || block.z > 64 {
        return Err(LaunchError::BlockTooLarge { block, limit });
    }
    if shared_bytes > MAX_SHARED_BYTES {
        return Err(LaunchError::SharedMemoryTooLarge { bytes: shared_bytes });
    }
    if !(1..=16).contains(&cluster) {
        return Err(LaunchError::ClusterSize { cluster });
    }
    if !grid.x.is_multiple_of(cluster) {
        return Err(LaunchError::PartialCluster { grid, cluster });
    }
    Ok(())
}

impl Launcher for Emulator {
    type Error = Fault;

    unsafe fn launch<Args: KernelArgs>(
        &self,
        kernel: &Kernel<Args>,
        config: LaunchConfig,
        args: Args,
    ) -> Result<(), Fault> {
        let refused = |error: LaunchError| {
            Fault::new(Report {
                kernel: kernel.name(),
                seed: None,
                kind: FaultKind::Refused(error),
                block: None,
                thread: None,
                location: None,
                message: error.to_string(),
            })
        };
        validate(config, kernel.bounds().threads).map_err(refused)?;
        args.with_pointers(|pointers| {
            // SAFETY: the pointers are to the arguments that the kernel's type names; that they
            // are right for the kernel is the caller's promise.
            let call = unsafe { Call::new(kernel.entry(), pointers.as_ptr()) };
            Grid { emulator: self, kernel: kernel.name(), config }.run(call)
        })
    }
}

/// A launch under way.
struct Grid<'a> {
    emulator: &'a Emulator,
    kernel: &'static str,
    config: LaunchConfig,
}

impl Grid<'_> {
    /// Runs all clusters, those of a grid in parallel. Of several faults it is the one of the
    /// lowest cluster, so that the same launch reports the same.
    fn run(&self, call: Call) -> Result<(), Fault> {
        trap::install();
        panics::install();
        let buffers = Buffers::now();
        let clusters = self.config.grid.count() / self.config.cluster as usize;
        let lowest = AtomicUsize::new(usize::MAX);
        let faults = Mutex::new(Vec::new());
        let sites = Mutex::new(Vec::new());
        let machine = || Box::new(Machine::new(self.emulator, self.config, buffers.clone()));
        let run = |m: &mut Box<Machine>, cluster: usize| {
            if cluster > lowest.load(Relaxed) {
                return;
            }
            match self.run_cluster(m, cluster, call) {
                Ok(Some(seen)) => lock(&sites).push((cluster, seen)),
                Ok(None) => {}
                Err(fault) => {
                    lowest.fetch_min(cluster, Relaxed);
                    lock(&faults).push((cluster, fault));
                }
            }
        };
        if clusters == 1 {
            run(&mut machine(), 0);
        } else {
            (0..clusters).into_par_iter().for_each_init(machine, run);
        }
        let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fault)) = faults.into_iter().min_by_key(|(cluster, _)| *cluster) {
            return Err(fault);
        }
        if let Some(recorder) = &self.emulator.recorder {
            recorder.add(sites.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// Runs one cluster; gives its sites, if they are recorded.
    fn run_cluster(
        &self,
        m: &mut Machine,
        cluster: usize,
        call: Call,
    ) -> Result<Option<Vec<SyncSite>>, Fault> {
        let _permit = Permit::wait(m.blocks.len() * m.block_threads);
        m.reset(cluster);
        scheduler::run(m, call).map_err(|raised| self.fault(m, raised))?;
        Ok(m.sites.take().and_then(|log| log.seen))
    }

    fn fault(&self, m: &Machine, raised: Raised) -> Fault {
        let Raised { kind, at, instruction, message } = raised;
        let location = match (at, instruction) {
            (Some(at), _) => Some(at.into()),
            (None, Some(instruction)) => source::of(instruction),
            (None, None) => panics::last_location(),
        };
        Fault::new(Report {
            kernel: self.kernel,
            seed: self.emulator.seed(),
            kind,
            block: Some(m.blocks[m.rank].idx),
            thread: m.current.map(|t| m.threads[t].idx),
            location,
            message,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
