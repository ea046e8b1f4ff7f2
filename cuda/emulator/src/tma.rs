//! Bulk copies: ranges of bytes, and tiles of matrices, between global and shared memory.

use crate::{
    asynchronous::{Deferred, commit_group, issue, wait_group},
    emulator::AsyncTiming,
    fault::fault,
    global,
    machine::{self, Machine, Site},
    order::{Actor, By, Meeting, Proxy},
    shared_memory::in_cluster,
};
use std::{mem, panic::Location, ptr::null_mut};

/// How the 16-byte chunks of a tile are permuted, as in tensor maps and matrix descriptors: in
/// rows of 16 << bits bytes, chunk numbers are xored with the number of the 128-byte line.
pub(crate) fn swizzle(addr: u32, bits: u32) -> u32 {
    addr ^ (addr >> 7 & ((1 << bits) - 1)) << 4
}

/// A tensor map: opaque, like CUtensorMap.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct TensorMap([u64; 16]);

/// What the emulator keeps in a [`TensorMap`]: a row-major matrix in global memory, and the tile
/// that a copy takes from it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Matrix {
    /// The first element: a multiple of 16.
    pub base: *const u8,
    /// Bytes of an element.
    pub element: u32,
    /// 0 for no swizzle, else 1, 2, 3 for rows of 32, 64, 128 bytes.
    pub swizzle_bits: u32,
    /// Elements of a row.
    pub cols: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes from one row to the next: a multiple of 16.
    pub pitch: u64,
    /// Elements of a tile's row: a multiple of 16 bytes, and no more than a swizzled row has.
    pub box_cols: u32,
    /// Rows of a tile.
    pub box_rows: u32,
}

impl Matrix {
    /// The tensor map that kernels take.
    ///
    /// # Panics
    /// The matrix or the tile isn't aligned as its fields say.
    pub fn encode(self) -> TensorMap {
        const { assert!(size_of::<Matrix>() <= size_of::<TensorMap>()) };
        let width = self.box_cols * self.element;
        assert!(
            width.is_multiple_of(16)
                && self.pitch.is_multiple_of(16)
                && (self.base as usize).is_multiple_of(16)
        );
        assert!(self.swizzle_bits == 0 || width <= 16 << self.swizzle_bits);
        let mut map = TensorMap([0; 16]);
        // SAFETY: it fits, by the assertion.
        unsafe { (&raw mut map).cast::<Matrix>().write(self) };
        map
    }

    /// The 16-byte chunks of the box at (`col`, `row`): the address of each in the tile at `tile`,
    /// and in global memory each byte's, null outside of the matrix.
    fn chunks(self, tile: u32, col: i32, row: i32) -> impl Iterator<Item = (u32, [*mut u8; 16])> {
        let width = self.box_cols * self.element;
        let row_bytes = (self.cols * self.element as u64) as i64;
        (0..self.box_rows * width).step_by(16).map(move |i| {
            let y = row as i64 + (i / width) as i64;
            let x = col as i64 * self.element as i64 + (i % width) as i64;
            let inside = |x| (0..row_bytes).contains(&x) && (0..self.rows as i64).contains(&y);
            let global = std::array::from_fn(|byte| match x + byte as i64 {
                x if inside(x) => {
                    self.base.wrapping_offset((y * self.pitch as i64 + x) as isize).cast_mut()
                }
                _ => null_mut(),
            });
            (swizzle(tile + i, self.swizzle_bits), global)
        })
    }

    /// Reads a map made by `encode`, and checks a tile's address.
    unsafe fn decode(map: *const TensorMap, tile: u32, at: Site) -> Matrix {
        // SAFETY: the caller's.
        let matrix = unsafe { map.cast::<Matrix>().read() };
        // Rows of 128 bytes repeat their swizzle after 1024 bytes, of 64 after 512, ...
        let align = 128 << matrix.swizzle_bits;
        if !tile.is_multiple_of(align) {
            fault!(
                at,
                Misaligned,
                "TMA: the tile's address {tile:#x} must be a multiple of {align}"
            );
        }
        let row = matrix.cols * matrix.element as u64;
        let len = matrix.rows.saturating_sub(1) * matrix.pitch + row;
        global::check_range(matrix.base, len as usize, at);
        matrix
    }
}

/// What is written to shared memory.
enum Source {
    Value([u8; 16], usize),
    Range { from: *const u8, bytes: u32 },
    Tile { matrix: Matrix, col: i32, row: i32 },
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
            Source::Tile { matrix, col, row } => {
                for (addr, global) in matrix.chunks(to, col, row) {
                    // SAFETY: within the matrix, which is valid by promise to `tma_load`.
                    let bytes = global.map(|p| if p.is_null() { 0 } else { unsafe { p.read() } });
                    m.smem_write(By::Queue(&actor), addr, 16, 16, at).copy_from_slice(&bytes);
                }
                matrix.box_cols * matrix.element * matrix.box_rows
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
        let (queue, me) = (m.mbarrier(mbarrier, at).queue, m.me());
        let proxy = match source {
            Source::Value(..) => Proxy::Generic,
            _ => Proxy::Async,
        };
        let actor = m.order.issue(queue, [me].into_iter(), proxy, m.rank);
        // The barrier's initialisation must have been made visible to the async proxy, too.
        m.smem_read(By::Queue(&actor), mbarrier, 8, 8, at);
        let copy = BulkCopy { to, source, mbarrier, actor, at };
        match m.at_once() {
            true => copy.perform(m),
            false => m.bulk.push(copy),
        }
    });
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

/// `cp.async.bulk.tensor.2d.shared.global.tile.mbarrier`
///
/// # Safety
/// `map` must be valid, and its matrix until the copy has completed.
#[track_caller]
pub unsafe fn tma_load(to: u32, map: *const TensorMap, col: i32, row: i32, mbarrier: u32) {
    let at = Location::caller();
    // SAFETY: promised.
    let matrix = unsafe { Matrix::decode(map, to, at) };
    issue_load(to, Source::Tile { matrix, col, row }, mbarrier, at);
}

/// A TMA store in flight.
pub(crate) struct BulkStore {
    from: u32,
    matrix: Matrix,
    col: i32,
    row: i32,
    done: bool,
    actor: Actor,
    at: Site,
}

impl Deferred for BulkStore {
    fn perform(&mut self, m: &mut Machine) {
        if mem::replace(&mut self.done, true) {
            return;
        }
        for (addr, global) in self.matrix.chunks(self.from, self.col, self.row) {
            let bytes = m.smem_read(By::Queue(&self.actor), addr, 16, 16, self.at);
            for (p, byte) in global.into_iter().zip(bytes).filter(|(p, _)| !p.is_null()) {
                // SAFETY: within the matrix, which is valid by promise to `tma_store`.
                unsafe { p.write(*byte) };
            }
        }
    }

    fn actor(&self) -> &Actor {
        &self.actor
    }
}

/// `cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group`
///
/// # Safety
/// `map` must be valid, and its matrix, for writes, until the store has been waited for.
#[track_caller]
pub unsafe fn tma_store(map: *const TensorMap, col: i32, row: i32, from: u32) {
    let at = Location::caller();
    // SAFETY: promised.
    let matrix = unsafe { Matrix::decode(map, from, at) };
    issue(
        |t| &mut t.stores,
        Proxy::Async,
        |actor| BulkStore { from, matrix, col, row, done: false, actor, at },
    );
}

/// `cp.async.bulk.commit_group`
#[track_caller]
pub fn bulk_commit() {
    commit_group(|t| &mut t.stores, "cp.async.bulk.commit_group", Location::caller());
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
