//! Matrix operands of wgmma in shared memory.

use crate::{
    fault::fault,
    machine::{Machine, Site},
    order::{Actor, By},
    tensor_map::swizzle,
    tensor_sums::LANES,
};
use std::panic::Location;

/// Elements of an operand along k.
pub(crate) const DEPTH: usize = 16;

/// A matrix operand in shared memory: its descriptor, and whether its rows run along m or n rather
/// than along k.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// The matrix descriptor, as in PTX.
    pub descriptor: u64,
    /// Its rows run along m or n.
    pub transposed: bool,
}

/// Checks what a descriptor is made of: an address, and the distances in bytes. One that doesn't
/// count is not checked.
#[track_caller]
pub fn check_layout(addr: u32, descriptor: u64, leading: u32, stride: u32, transposed: bool) {
    let at = Location::caller();
    let operand = Operand { descriptor, transposed };
    let bits = operand.swizzle_bits();
    let align = if bits == 0 { 16 } else { 128 << bits };
    if !addr.is_multiple_of(align) {
        fault!(
            at,
            Misaligned,
            "wgmma: the operand's address {addr:#x} isn't a multiple of {align}"
        );
    }
    let distances = [("leading", leading, transposed || bits == 0), ("stride", stride, true)];
    for (name, bytes, counts) in distances {
        if counts && (!bytes.is_multiple_of(16) || bytes >= 1 << 18) {
            fault!(
                at,
                Instruction,
                "wgmma: {bytes} {name} bytes, where multiples of 16 below 2^18 are allowed"
            );
        }
    }
}

impl Operand {
    /// The rows' length is 16 << this many bytes.
    fn swizzle_bits(self) -> u32 {
        match self.descriptor >> 62 {
            0 => 0,
            code => 4 - code as u32,
        }
    }

    /// Where the 16-byte piece is that begins at `mn`, a multiple of 8, of row `k`; or, if rows
    /// run along k, at `k`, a multiple of 8, of row `mn`.
    fn piece(self, mn: u32, k: u32) -> u32 {
        let field = |shift: u32| (self.descriptor >> shift & 0x3fff) as u32 * 16;
        let (start, leading, stride) = (field(0), field(16), field(32));
        let bits = self.swizzle_bits();
        let width = 16 << bits;
        let offset = match (self.transposed, bits) {
            (false, 0) => mn / 8 * stride + mn % 8 * width + k / 8 * leading,
            (false, _) => mn / 8 * stride + mn % 8 * width + k * 2,
            (true, 0) => mn / 8 * stride + k / 8 * leading + k % 8 * width,
            (true, _) => mn * 2 / width * leading + mn * 2 % width + k / 8 * stride + k % 8 * width,
        };
        swizzle(start + offset, bits)
    }

    /// Rows `mn..mn + 8` of the operand, transposed: by k.
    pub(crate) fn fetch(
        self,
        m: &mut Machine,
        mn: usize,
        widen: fn(u32) -> [f32; 2],
        actor: &Actor,
        at: Site,
    ) -> [[f32; LANES]; DEPTH] {
        let mut matrix = [[0.; LANES]; DEPTH];
        let mut piece = |mn: usize, k: usize| -> [f32; 8] {
            let addr = self.piece(mn as u32, k as u32);
            let bytes = m.smem_read(By::Queue(actor), addr, 16, 16, at);
            let mut elements = [0.; 8];
            for (pair, bytes) in elements.chunks_exact_mut(2).zip(bytes.chunks_exact(4)) {
                let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                pair.copy_from_slice(&widen(word));
            }
            elements
        };
        if self.transposed {
            for (k, row) in matrix.iter_mut().enumerate() {
                *row = piece(mn, k);
            }
        } else {
            for (i, half) in (0..LANES).flat_map(|i| [(i, 0), (i, DEPTH / 2)]) {
                for (row, element) in matrix[half..].iter_mut().zip(piece(mn + i, half)) {
                    row[i] = element;
                }
            }
        }
        matrix
    }
}
