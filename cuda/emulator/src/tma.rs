//! Bulk copies: ranges of bytes, and tiles of tensors, between global and shared memory.

use crate::{
    asynchronous::{Deferred, commit_group, issue, wait_group},
    emulator::AsyncTiming,
    fault::fault,
    global,
    machine::{self, Machine, Site},
    order::{Actor, By, Meeting, Proxy},
    shared_memory::in_cluster,
    tensor_map::{PIECE, Piece, Tile, Tiled},
};
use cuda_launch::TensorMap;
use std::{mem, panic::Location};

/// What is written to shared memory.
enum Source {
    Value([u8; 16], usize),
    Range { from: *const u8, bytes: u32 },
    Tile(Tile),
}

/// A bulk copy to shared memory in flight.
pub(crate) struct BulkCopy {
    to: u32,
    source: Source,
    mbarrier: u32,
    actor: Actor,
    at: Site,
}

impl BulkCopy {
    fn perform(self, m: &mut Machine) {
        let BulkCopy { to, source, mbarrier, actor, at } = self;
        // The completion of st.async is a release in the cluster.
        let releases = matches!(source, Source::Value(..));
        let bytes = match source {
            Source::Value(value, size) => {
                let to = m.smem_write(By::Queue(&actor), to, size, size, at);
                to.copy_from_slice(&value[..size]);
                size as u32
            }
            Source::Range { from, bytes } => {
                // SAFETY: valid by promise to `bulk_load`.
                let range = unsafe { std::slice::from_raw_parts(from, bytes as usize) };
                let size = bytes as usize;
                m.smem_write(By::Queue(&actor), to, size, 16, at).copy_from_slice(range);
                bytes
            }
            Source::Tile(tile) => {
                for Piece { addr, global, inside } in tile.pieces(to) {
                    let mut bytes = [0; PIECE];
                    let (from, len) = (global.wrapping_add(inside.start), inside.len());
                    // SAFETY: within the tensor, which is valid by promise to `tma_load`.
                    unsafe {
                        let to = bytes[inside].as_mut_ptr();
                        from.cast_const().copy_to_nonoverlapping(to, len);
                    }
                    m.smem_write(By::Queue(&actor), addr, PIECE, PIECE, at).copy_from_slice(&bytes);
                }
                tile.bytes()
            }
        };
        let publish = |open: &mut Meeting| match releases {
            true => open.released(&actor),
            false => open.finished(&actor),
        };
        m.complete_tx(mbarrier, bytes, publish, at);
    }
}

/// The running thread issues a copy to shared memory that reports to a barrier.
fn issue_load(to: u32, source: Source, mbarrier: u32, at: Site) {
    machine::with(|m| {
        let mbarrier = in_cluster(mbarrier, m.rank);
        issue_load_of(m, to, source, mbarrier, at);
    });
}

/// Of the running thread, with the barrier's address in the cluster's window.
fn issue_load_of(m: &mut Machine, to: u32, source: Source, mbarrier: u32, at: Site) {
    let (queue, me) = (m.mbarrier(mbarrier, at).queue, m.me());
    let proxy = match source {
        Source::Value(..) => Proxy::Generic,
        Source::Range { .. } | Source::Tile(_) => Proxy::Async,
    };
    let actor = m.order.issue(queue, [me].into_iter(), proxy, m.rank);
    // The barrier's initialisation must have been made visible to the async proxy, too.
    m.smem_read(By::Queue(&actor), mbarrier, 8, 8, at);
    let copy = BulkCopy { to, source, mbarrier, actor, at };
    match m.at_once() {
        true => copy.perform(m),
        false => m.bulk.push(copy),
    }
}

/// `st.async.shared::cluster.mbarrier::complete_tx::bytes`: stores `value`, of up to 16 bytes, and
/// reports to a barrier of the same block.
#[track_caller]
pub fn store_async<T: Copy>(to: u32, value: T, mbarrier: u32) {
    let (mut bytes, size) = ([0; 16], size_of::<T>());
    // SAFETY: the value's bytes; `bytes` has room for them, or the slice panics.
    unsafe {
        bytes[..size].as_mut_ptr().copy_from_nonoverlapping((&raw const value).cast::<u8>(), size);
    }
    issue_load(to, Source::Value(bytes, size), mbarrier, Location::caller());
}

fn check_source(from: *const u8, bytes: u32, at: Site) {
    if bytes == 0 || !bytes.is_multiple_of(16) {
        fault!(at, Instruction, "cp.async.bulk: {bytes} bytes, where multiples of 16 are allowed");
    }
    if !(from as usize).is_multiple_of(16) {
        fault!(at, Misaligned, "cp.async.bulk: the source {from:p} isn't aligned to 16 bytes");
    }
    global::check_range(from, bytes as usize, at);
}

/// `cp.async.bulk.prefetch.L2.global`, which only has to be legal.
#[track_caller]
pub fn bulk_prefetch(from: *const u8, bytes: u32) {
    check_source(from, bytes, Location::caller());
}

/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`
///
/// # Safety
/// `from` must be valid for `bytes` bytes until the copy has completed.
#[track_caller]
pub unsafe fn bulk_load(to: u32, from: *const u8, bytes: u32, mbarrier: u32) {
    let at = Location::caller();
    if !to.is_multiple_of(16) {
        fault!(at, Misaligned, "cp.async.bulk: the target {to:#x} isn't aligned to 16 bytes");
    }
    check_source(from, bytes, at);
    issue_load(to, Source::Range { from, bytes }, mbarrier, at);
}

/// `cp.async.bulk.tensor.Nd.shared::cluster.global.tile.mbarrier::complete_tx::bytes`, of the tile
/// that begins at these coordinates.
///
/// # Safety
/// `map` must be valid, and its tensor until the copy has completed.
#[track_caller]
pub unsafe fn tma_load(to: u32, map: *const TensorMap, coordinates: &[i32], mbarrier: u32) {
    let at = Location::caller();
    // SAFETY: promised.
    let tile = unsafe { Tile::of_map(map, coordinates, to, at) };
    issue_load(to, Source::Tile(tile), mbarrier, at);
}

/// The same with `.multicast::cluster`: to the block of each bit in `blocks`, at the same place of its
/// shared memory, and reporting to the barrier at the same place there.
///
/// # Safety
/// That of [`tma_load`].
#[track_caller]
pub unsafe fn tma_load_multicast(
    to: u32,
    map: *const TensorMap,
    coordinates: &[i32],
    mbarrier: u32,
    blocks: u16,
) {
    let at = Location::caller();
    // SAFETY: promised.
    let tile = unsafe { Tile::of_map(map, coordinates, to, at) };
    machine::with(|m| {
        let count = m.blocks.len();
        if blocks == 0 || u32::from(blocks) >> count != 0 {
            fault!(at, Cluster, "TMA: multicast to the blocks {blocks:#b} of a cluster of {count}");
        }
        for rank in (0..count).filter(|rank| blocks >> rank & 1 == 1) {
            let (to, mbarrier) = (in_cluster(to, rank), in_cluster(mbarrier, rank));
            issue_load_of(m, to, Source::Tile(tile), mbarrier, at);
        }
    });
}

/// `prefetch.tensormap`, which only has to be legal.
///
/// # Safety
/// `map` must be valid.
#[track_caller]
pub unsafe fn prefetch_tensor_map(map: *const TensorMap) {
    // SAFETY: promised.
    unsafe { Tiled::of_map(map, Location::caller()) };
}

/// A TMA store in flight.
pub(crate) struct BulkStore {
    from: u32,
    tile: Tile,
    done: bool,
    actor: Actor,
    at: Site,
}

impl Deferred for BulkStore {
    fn perform(&mut self, m: &mut Machine) {
        if mem::replace(&mut self.done, true) {
            return;
        }
        for Piece { addr, global, inside } in self.tile.pieces(self.from) {
            let bytes = m.smem_read(By::Queue(&self.actor), addr, PIECE, PIECE, self.at);
            let bytes = &bytes[inside.clone()];
            // SAFETY: within the tensor, which is valid by promise to `tma_store`.
            unsafe {
                let to = global.wrapping_add(inside.start);
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }

    fn at(&self) -> Site {
        self.at
    }
}

/// `cp.async.bulk.tensor.Nd.global.shared::cta.tile.bulk_group`, of the tile that begins at these
/// coordinates.
///
/// # Safety
/// `map` must be valid, and its tensor, for writes, until the store has been waited for.
#[track_caller]
pub unsafe fn tma_store(map: *const TensorMap, coordinates: &[i32], from: u32) {
    let at = Location::caller();
    // SAFETY: promised.
    let tile = unsafe { Tile::of_map(map, coordinates, from, at) };
    tile.check_store(at);
    issue(
        |t| &mut t.stores,
        Proxy::Async,
        |actor| BulkStore { from, tile, done: false, actor, at },
    );
}

/// `cp.async.bulk.commit_group`
#[track_caller]
pub fn bulk_commit() {
    commit_group(|t| &mut t.stores, "cp.async.bulk.commit_group", Location::caller());
}

/// `cp.async.bulk.wait_group.read`: what the groups waited for have read may be overwritten.
#[track_caller]
pub fn bulk_wait_read(pending: usize) {
    wait_group(|t| &mut t.stores, pending, "cp.async.bulk.wait_group.read", Location::caller());
}

/// `cp.async.bulk.wait_group`
#[track_caller]
pub fn bulk_wait(pending: usize) {
    wait_group(|t| &mut t.stores, pending, "cp.async.bulk.wait_group", Location::caller());
}

/// Performs one of the bulk copies in flight, if any: time passes.
pub(crate) fn progress(m: &mut Machine) -> bool {
    if m.bulk.is_empty() {
        return false;
    }
    let i = m.ready.random.below(m.bulk.len());
    m.bulk.swap_remove(i).perform(m);
    m.polling.interrupt();
    true
}

pub(crate) fn maybe_progress(m: &mut Machine) {
    if !m.bulk.is_empty()
        && m.options.timing == AsyncTiming::Random
        && m.ready.random.below(64) == 0
    {
        progress(m);
    }
}
