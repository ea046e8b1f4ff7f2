//! The warpgroup's asynchronous matrix instruction.
//!
//! Each of the four warps computes 16 of the 64 rows, and waits for its own only.
//!
//! The accumulators are registers that mustn't be touched while it runs. Here they are taken away:
//! the tensor core keeps their values, and each register is left holding a signalling NaN that
//! names the tile. Waiting with the registers in hand redeems them. The token survives being moved
//! about but no arithmetic, so touching an accumulator early is noticed.

use crate::{
    fault::fault,
    machine::{self, Machine, Site},
    matrix_operand::DEPTH,
    mma::{pair, pair_f16},
    order::{Actor, Proxy},
    rendezvous::{Collective, meet},
    sites,
    tensor_sums::{Adder, LANES},
};
use std::panic::Location;

pub use crate::matrix_operand::{Operand, check_layout};

/// The type of the factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factors {
    /// f16.
    F16,
    /// bf16.
    Bf16,
}

impl Factors {
    /// What two of them in a word are.
    fn widen(self) -> fn(u32) -> [f32; 2] {
        match self {
            Factors::F16 => pair_f16,
            Factors::Bf16 => pair,
        }
    }
}

/// The left factor, as one thread gives it.
#[derive(Debug, Clone, Copy)]
pub enum Left {
    /// In shared memory.
    Shared(Operand),
    /// The thread's registers.
    Registers([u32; 4]),
}

/// A warp's share of its warpgroup's tensor core.
#[derive(Default)]
pub(crate) struct TensorCore {
    agent: Option<usize>,
    /// Lanes that have executed wgmma.fence since they last waited.
    fenced: u32,
    /// Groups committed by each lane: they needn't commit in step.
    commits: [usize; 32],
    /// Not yet carried out, in order of issue.
    ops: Vec<Op>,
    /// The step of the queue that each group ends with.
    last_steps: Vec<u32>,
    tiles: Vec<Tile>,
}

/// The accumulators of a warp: 16 rows of n.
struct Tile {
    n: usize,
    values: Vec<f32>,
    /// The last group that works on it.
    group: usize,
    /// Lanes that have yet to take their registers back.
    owed: u32,
}

struct Op {
    factors: Factors,
    group: usize,
    tile: usize,
    a: WarpLeft,
    b: Operand,
    accumulate: bool,
    actor: Actor,
    at: Site,
}

/// The left factor, as a warp gives it.
enum WarpLeft {
    Shared(Operand),
    /// The registers of each lane.
    Registers(Box<[[u32; 4]; 32]>),
}

/// Row and column of accumulator `i` of a lane.
fn place(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2)
}

const TOKEN: u32 = 0x7fa0_0000;

fn token(tile: usize) -> f32 {
    f32::from_bits(TOKEN | tile as u32)
}

fn token_of(register: f32) -> Option<usize> {
    let bits = register.to_bits();
    (bits & 0xfff0_0000 == TOKEN).then_some((bits & 0xf_ffff) as usize)
}

/// `wgmma.mma_async.sync.aligned.m64nNk16.f32`, N = 2 R: acc = a b, plus acc if `accumulate`. With a
/// `wgmma.fence.sync.aligned` before it, if `fenced`: for what is known not to be in flight.
#[track_caller]
pub fn multiply<const R: usize>(
    factors: Factors,
    acc: &mut [f32; R],
    a: Left,
    b: Operand,
    accumulate: bool,
    fenced: bool,
) {
    let at = Location::caller();
    let first = machine::with(|m| m.warpgroup(at, "wgmma"));
    let what = Collective {
        name: "wgmma.mma_async",
        at,
        first,
        mask: !0,
        aligned: true,
        orders_memory: false,
    };
    if fenced {
        machine::with(|m| order_registers(m, at));
        if token_of(acc[0]).is_some() {
            fault!(
                at,
                Instruction,
                "wgmma: the accumulator is in flight, and nothing waited for it"
            );
        }
    }
    meet(what, (acc as *mut [f32; R], a, b.descriptor, accumulate), |m, peers| {
        let common = |(_, a, b, accumulate): (_, Left, u64, bool)| match a {
            Left::Shared(a) => (a.descriptor, b, accumulate),
            Left::Registers(_) => (0, b, accumulate),
        };
        let of_first = common(*peers.of(0));
        if (1..128).any(|t| common(*peers.of(t)) != of_first) {
            fault!(
                at,
                Instruction,
                "wgmma: the threads disagree about the matrix descriptors, or whether to add"
            );
        }
        for warp in 0..4 {
            // SAFETY: the owners of the registers sleep.
            let registers = |lane| unsafe { &mut *peers.of(warp * 32 + lane).0 };
            let core = &mut m.tensor_cores[first / 32 + warp];
            let tile = core.take(registers, matches!(a, Left::Registers(_)), at);
            let group = core.commits[0];
            (core.tiles[tile].group, core.tiles[tile].owed) = (group, !0);
            let agent = *core.agent.get_or_insert_with(|| m.order.agent());
            let actor = m.order.issue(
                agent,
                first + warp * 32..first + warp * 32 + 32,
                Proxy::Async,
                m.rank,
            );
            // Groups without operations end where the one before does.
            let before = core.last_steps.last().copied().unwrap_or(0);
            core.last_steps.resize(group + 1, before);
            core.last_steps[group] = actor.step;
            let a = match a {
                Left::Shared(a) => WarpLeft::Shared(a),
                Left::Registers(_) => WarpLeft::Registers(Box::new(std::array::from_fn(|lane| {
                    match peers.of(warp * 32 + lane).1 {
                        Left::Registers(words) => words,
                        Left::Shared(_) => unreachable!("one instruction has one form"),
                    }
                }))),
            };
            core.ops.push(Op { factors, group, tile, a, b, accumulate, actor, at });
            if m.at_once() {
                run(m, first / 32 + warp, group);
            }
        }
    });
}

impl TensorCore {
    /// Takes the accumulators away from their lanes, unless it has them already.
    fn take<'a, const R: usize>(
        &mut self,
        mut registers: impl FnMut(usize) -> &'a mut [f32; R],
        reads_registers: bool,
        at: Site,
    ) -> usize {
        let n = R * 2;
        let held = token_of(registers(0)[0]);
        if self.fenced != !0 && (held.is_none() || reads_registers) {
            fault!(
                at,
                Instruction,
                "wgmma.mma_async without a wgmma.fence since the registers were last accessed"
            );
        }
        let tile = held.unwrap_or(self.tiles.len());
        if held.is_none() {
            self.tiles.push(Tile { n, values: vec![0.; 16 * n], group: 0, owed: 0 });
        }
        for lane in 0..32 {
            for (i, register) in registers(lane).iter_mut().enumerate() {
                if token_of(*register) != held {
                    fault!(
                        at,
                        Instruction,
                        "wgmma: accumulator {i} of lane {lane} isn't of the same tile as the others"
                    );
                }
                if held.is_none() {
                    let (row, col) = place(lane, i);
                    self.tiles[tile].values[row * n + col] = *register;
                }
                *register = token(tile);
            }
        }
        tile
    }
}

/// Carries out a warp's operations in groups up to `last`, in order.
fn run(m: &mut Machine, warp: usize, last: usize) {
    let ops = &mut m.tensor_cores[warp].ops;
    let due = ops.iter().take_while(|op| op.group <= last).count();
    for op in ops.drain(..due).collect::<Vec<_>>() {
        let widen = op.factors.widen();
        let left = match op.a {
            WarpLeft::Shared(a) => {
                let first = m.number(warp * 32) / 32 % 4 * 16;
                let mut left = [[0.; DEPTH]; 16];
                for half in [0, 8] {
                    let columns = a.fetch(m, first + half, widen, &op.actor, op.at);
                    for (k, column) in columns.iter().enumerate() {
                        for (i, element) in column.iter().enumerate() {
                            left[half + i][k] = *element;
                        }
                    }
                }
                left
            }
            WarpLeft::Registers(lanes) => of_registers(&lanes, widen),
        };
        // Out of the machine, which the operand needs.
        let n = m.tensor_cores[warp].tiles[op.tile].n;
        let mut values = std::mem::take(&mut m.tensor_cores[warp].tiles[op.tile].values);
        if !op.accumulate {
            values.fill(0.);
        }
        for first in (0..n).step_by(LANES) {
            let right = op.b.fetch(m, first, widen, &op.actor, op.at);
            for (row, line) in left.iter().zip(values.chunks_exact_mut(n)) {
                let (sums, _) = line[first..].split_first_chunk_mut().expect("n is a multiple");
                Adder::OF_16_BITS.add_products(sums, row, &right);
            }
        }
        m.tensor_cores[warp].tiles[op.tile].values = values;
    }
}

/// The rows that the lanes of a warp hold in registers.
fn of_registers(lanes: &[[u32; 4]; 32], widen: fn(u32) -> [f32; 2]) -> [[f32; DEPTH]; 16] {
    let mut left = [[0.; DEPTH]; 16];
    for (lane, words) in lanes.iter().enumerate() {
        for (i, word) in words.iter().enumerate() {
            let (row, k) = (lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8);
            left[row][k..][..2].copy_from_slice(&widen(*word));
        }
    }
    left
}

/// The running thread's warp and lane.
fn warp_lane(m: &Machine, at: Site, name: &str) -> (usize, usize) {
    m.warpgroup(at, name);
    (m.me() / 32, m.me() % 32)
}

fn order_registers(m: &mut Machine, at: Site) {
    let (warp, lane) = warp_lane(m, at, "wgmma.fence");
    m.tensor_cores[warp].fenced |= 1 << lane;
}

/// `wgmma.fence.sync.aligned`
#[track_caller]
pub fn fence() {
    let at = Location::caller();
    if !sites::omitted("wgmma.fence", at) {
        machine::with(|m| order_registers(m, at));
    }
}

/// `wgmma.commit_group.sync.aligned`
#[track_caller]
pub fn commit() {
    let at = Location::caller();
    if sites::omitted("wgmma.commit_group", at) {
        return;
    }
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, at, "wgmma.commit_group");
        m.tensor_cores[warp].commits[lane] += 1;
    });
}

/// Waits until at most `pending` groups are in flight; the last group that isn't.
fn finish(pending: usize, at: Site) -> Option<usize> {
    machine::linger();
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, at, "wgmma.wait_group");
        let core = &mut m.tensor_cores[warp];
        core.fenced &= !(1 << lane);
        let last = core.commits[lane].checked_sub(pending + 1)?;
        run(m, warp, last);
        let me = m.me();
        let core = &mut m.tensor_cores[warp];
        let step = core.last_steps.get(last).or(core.last_steps.last());
        if let (Some(agent), Some(&step)) = (core.agent, step) {
            m.order.finished(agent, step, me);
        }
        Some(last)
    })
}

/// `wgmma.wait_group.sync.aligned pending`: what the operations waited for have read may be
/// overwritten.
#[track_caller]
pub fn wait_for_operands(pending: usize) {
    let at = Location::caller();
    if !sites::omitted("wgmma.wait_group", at) {
        finish(pending, at);
    }
}

/// `wgmma.wait_group.sync.aligned pending`, and the registers of `acc`, whose operations must be
/// among those waited for.
#[track_caller]
pub fn wait<const R: usize>(pending: usize, acc: &mut [f32; R]) {
    let at = Location::caller();
    if sites::omitted("wgmma.wait_group", at) {
        return;
    }
    let last = finish(pending, at);
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, at, "wgmma.wait_group");
        let Some(tile) = token_of(acc[0]) else { return };
        let Tile { n, values, group, owed } = &mut m.tensor_cores[warp].tiles[tile];
        if last.is_none_or(|last| *group > last) {
            fault!(
                at,
                Instruction,
                "wgmma.wait_group {pending}: the accumulator is still in flight, in a group that is                  not waited for, or that no commit has closed"
            );
        }
        for (i, register) in acc.iter_mut().enumerate() {
            if token_of(*register) != Some(tile) {
                fault!(
                    at,
                    Instruction,
                    "wgmma: accumulator {i} was touched while it was in flight"
                );
            }
            let (row, col) = place(lane, i);
            *register = values[row * *n + col];
        }
        *owed &= !(1 << lane);
        if *owed == 0 {
            *values = Vec::new();
        }
    });
}
