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
    mma::{pair, wide},
    order::{Actor, By, Proxy},
    rendezvous::{Collective, meet},
    tma::swizzle,
};
use std::{ops::Range, panic::Location};

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
    group: usize,
    tile: usize,
    a: Left,
    b: Operand,
    accumulate: bool,
    actor: Actor,
    at: Site,
}

enum Left {
    Shared(Operand),
    /// The registers of each lane.
    Registers(Box<[[u32; 4]; 32]>),
}

/// A matrix operand in shared memory: its descriptor, and whether its rows run along m or n rather
/// than along k.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// The matrix descriptor, as in PTX.
    pub descriptor: u64,
    /// Its rows run along m or n.
    pub transposed: bool,
}

impl Operand {
    /// Rows `mn` of the operand, which is 16 deep; transposed.
    fn fetch(self, m: &mut Machine, mn: Range<usize>, actor: &Actor, at: Site) -> [Vec<f32>; 16] {
        let field = |shift: u32| (self.descriptor >> shift & 0x3fff) as u32 * 16;
        let (start, leading, stride) = (field(0), field(16), field(32));
        let bits = match self.descriptor >> 62 {
            0 => 0,
            code => 4 - code as u32,
        };
        let width = 16 << bits;
        let mut matrix = [const { Vec::new() }; 16];
        let mut chunk = |addr: u32| -> [f32; 8] {
            let bytes = m.smem_read(By::Queue(actor), swizzle(addr, bits), 16, 16, at);
            std::array::from_fn(|i| wide(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])))
        };
        if self.transposed {
            for k in 0..16u32 {
                for i in (mn.start as u32..mn.end as u32).step_by(8) {
                    let (repeat, inner) = (i * 2 / width, i * 2 % width);
                    let values =
                        chunk(start + repeat * leading + k / 8 * stride + k % 8 * width + inner);
                    matrix[k as usize].extend(values);
                }
            }
        } else {
            for i in mn.start as u32..mn.end as u32 {
                for half in 0..2 {
                    // Without a swizzle, the two halves of k are in core matrices of their own.
                    let along = if bits == 0 { half * leading } else { half * 16 };
                    let values = chunk(start + i / 8 * stride + i % 8 * width + along);
                    for (k, value) in values.into_iter().enumerate() {
                        matrix[half as usize * 8 + k].push(value);
                    }
                }
            }
        }
        matrix
    }
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

fn issue<const R: usize>(
    at: Site,
    acc: &mut [f32; R],
    a: Option<[u32; 4]>,
    a_shared: Operand,
    b_shared: Operand,
    accumulate: bool,
) {
    let first = machine::with(|m| m.warpgroup(at, "wgmma"));
    let what = Collective {
        name: "wgmma.mma_async",
        at,
        first,
        mask: !0,
        aligned: true,
        orders_memory: false,
    };
    let operands = (acc as *mut [f32; R], a, a_shared.descriptor, b_shared.descriptor);
    meet(what, operands, |m, peers| {
        let (.., da, db) = *peers.of(0);
        if (1..128).any(|t| (peers.of(t).2, peers.of(t).3) != (da, db)) {
            fault!(at, Instruction, "wgmma: the threads disagree about the matrix descriptors");
        }
        for warp in 0..4 {
            // SAFETY: the owners of the registers sleep.
            let registers = |lane| unsafe { &mut *peers.of(warp * 32 + lane).0 };
            let core = &mut m.tensor_cores[first / 32 + warp];
            let tile = core.take(registers, at);
            let group = core.commits[0];
            (core.tiles[tile].group, core.tiles[tile].owed) = (group, !0);
            let agent = *core.agent.get_or_insert_with(|| m.order.agent());
            let actor = m.order.issue(
                agent,
                first + warp * 32..first + warp * 32 + 32,
                Proxy::Async,
                m.rank,
            );
            core.last_steps.resize(group + 1, 0);
            core.last_steps[group] = actor.step;
            let mut fragment = |lane| peers.of(warp * 32 + lane).1;
            let a = match fragment(0) {
                None => Left::Shared(a_shared),
                Some(_) => Left::Registers(Box::new(std::array::from_fn(|lane| {
                    fragment(lane).expect("one instruction has one form")
                }))),
            };
            core.ops.push(Op { group, tile, a, b: b_shared, accumulate, actor, at });
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
        at: Site,
    ) -> usize {
        if self.fenced != !0 {
            fault!(
                at,
                Instruction,
                "wgmma.mma_async without a wgmma.fence since the registers were last accessed"
            );
        }
        let n = R * 2;
        let held = token_of(registers(0)[0]);
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
        let n = m.tensor_cores[warp].tiles[op.tile].n;
        let quarter = m.number(warp * 32) / 32 % 4;
        let rows = quarter * 16..quarter * 16 + 16;
        let left = match op.a {
            Left::Shared(a) => a.fetch(m, rows, &op.actor, op.at),
            Left::Registers(lanes) => {
                let mut left = [const { Vec::new() }; 16];
                left.iter_mut().for_each(|k| k.resize(16, 0.));
                for (lane, words) in lanes.iter().enumerate() {
                    for (i, word) in words.iter().enumerate() {
                        let (row, k) = (lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8);
                        [left[k][row], left[k + 1][row]] = pair(*word);
                    }
                }
                left
            }
        };
        let right = op.b.fetch(m, 0..n, &op.actor, op.at);
        let values = &mut m.tensor_cores[warp].tiles[op.tile].values;
        for (i, out) in values.chunks_exact_mut(n).enumerate() {
            if !op.accumulate {
                out.fill(0.);
            }
            for (x, line) in left.iter().zip(&right) {
                for (sum, y) in out.iter_mut().zip(line) {
                    *sum += x[i] * y;
                }
            }
        }
    }
}

/// `wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16`, N = 2 R, both operands in shared memory:
/// acc = a b, plus acc if `accumulate`.
#[track_caller]
pub fn mma_ss<const R: usize>(acc: &mut [f32; R], a: Operand, b: Operand, accumulate: bool) {
    issue(Location::caller(), acc, None, a, b, accumulate);
}

/// The same with a in registers.
#[track_caller]
pub fn mma_rs<const R: usize>(acc: &mut [f32; R], a: [u32; 4], b: Operand, accumulate: bool) {
    issue(Location::caller(), acc, Some(a), b, b, accumulate);
}

/// The running thread's warp and lane.
fn warp_lane(m: &Machine, at: Site, name: &str) -> (usize, usize) {
    m.warpgroup(at, name);
    (m.me() / 32, m.me() % 32)
}

/// `wgmma.fence.sync.aligned`
#[track_caller]
pub fn fence() {
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, Location::caller(), "wgmma.fence");
        m.tensor_cores[warp].fenced |= 1 << lane;
    });
}

/// `wgmma.commit_group.sync.aligned`
#[track_caller]
pub fn commit() {
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, Location::caller(), "wgmma.commit_group");
        m.tensor_cores[warp].commits[lane] += 1;
    });
}

/// `wgmma.wait_group.sync.aligned pending`, and the registers of `acc`, whose operations must be
/// among those waited for.
#[track_caller]
pub fn wait<const R: usize>(pending: usize, acc: &mut [f32; R]) {
    let at = Location::caller();
    machine::linger();
    machine::with(|m| {
        let (warp, lane) = warp_lane(m, at, "wgmma.wait_group");
        let core = &mut m.tensor_cores[warp];
        core.fenced &= !(1 << lane);
        let Some(last) = core.commits[lane].checked_sub(pending + 1) else { return };
        run(m, warp, last);
        let me = m.me();
        let core = &mut m.tensor_cores[warp];
        if let (Some(agent), Some(&step)) = (core.agent, core.last_steps.get(last)) {
            m.order.finished(agent, step, me);
        }
        let Some(tile) = token_of(acc[0]) else { return };
        let Tile { n, values, group, owed } = &mut core.tiles[tile];
        if *group > last {
            return; // still in flight: the tokens stay
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
