//! Matrices between shared memory and registers, and their products.

use super::harness::{Buffer, First, Random, assert_same_bits, conformance_from, launch};
use conformance_kernels::matrix;
use fused_attention::{Device, Kernel, LaunchConfig};
use half::{bf16, f16};

/// A warp, with 16 bytes of shared memory for each lane.
fn one_warp() -> LaunchConfig {
    LaunchConfig::new(1, 32).shared_bytes(32 * 16)
}

/// Element (row, column) of the `matrix`-th matrix whose row `i` is row `i ^ swap`.
fn element(rows: &[[u32; 4]], swap: usize, matrix: usize, row: usize, column: usize) -> u16 {
    let words = rows[(8 * matrix + row) ^ swap];
    (words[column / 2] >> (column % 2 * 16)) as u16
}

/// The place of a half of a lane's word in its matrix: row, column.
fn place(lane: usize, half: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, lane % 4 * 2 + half);
    if transposed { (column, row) } else { (row, column) }
}

type Load = Kernel<(*const [u32; 4], *mut u32, u32)>;
type Store = Kernel<(*const u32, *mut [u32; 4], u32)>;

#[test]
fn lanes_get_their_parts_of_matrices() {
    let kernels: [(&Load, usize, bool); 6] = [
        (&matrix::load_1, 1, false),
        (&matrix::load_2, 2, false),
        (&matrix::load_4, 4, false),
        (&matrix::load_1_transposed, 1, true),
        (&matrix::load_2_transposed, 2, true),
        (&matrix::load_4_transposed, 4, true),
    ];
    conformance_from((8, 0), |device| {
        let rows: Vec<[u32; 4]> = Random(31).values(32);
        for (kernel, count, transposed) in kernels {
            for swap in [0, 5, 19] {
                let from = Buffer::new(device, &rows);
                let to = Buffer::<u32>::empty(device, 32 * count);
                let args = (from.pointer(), to.pointer_mut(), swap as u32);
                // SAFETY: as many values as the kernel takes.
                unsafe { launch(device, kernel, one_warp(), args) };
                let word = |i: usize| {
                    let halves = [0, 1].map(|half| {
                        let (row, column) = place(i / count, half, transposed);
                        element(&rows, swap, i % count, row, column) as u32
                    });
                    halves[0] | halves[1] << 16
                };
                let expected: Vec<u32> = (0..32 * count).map(word).collect();
                assert_same_bits(&to.to_vec(), &expected, kernel.name());
            }
        }
    });
}

#[test]
fn lanes_put_their_parts_into_matrices() {
    let kernels: [(&Store, usize, bool); 6] = [
        (&matrix::store_1, 1, false),
        (&matrix::store_2, 2, false),
        (&matrix::store_4, 4, false),
        (&matrix::store_1_transposed, 1, true),
        (&matrix::store_2_transposed, 2, true),
        (&matrix::store_4_transposed, 4, true),
    ];
    conformance_from((9, 0), |device| {
        for (kernel, count, transposed) in kernels {
            for swap in [0, 5, 19] {
                let words: Vec<u32> = Random(32).values(32 * count);
                let from = Buffer::new(device, &words);
                let to = Buffer::<[u32; 4]>::empty(device, 32);
                let args = (from.pointer(), to.pointer_mut(), swap as u32);
                // SAFETY: as many values as the kernel takes.
                unsafe { launch(device, kernel, one_warp(), args) };
                let mut expected = [[0u32; 4]; 32];
                for (i, word) in words.iter().enumerate() {
                    for half in 0..2 {
                        let (row, column) = place(i / count, half, transposed);
                        let value = (word >> (16 * half)) & 0xffff;
                        expected[(8 * (i % count) + row) ^ swap][column / 2] |=
                            value << (column % 2 * 16);
                    }
                }
                assert_same_bits(&to.to_vec(), &expected, kernel.name());
            }
        }
    });
}

type Product = Kernel<(*const [u32; 4], *const [u32; 2], *const [f32; 4], *mut [f32; 4])>;

/// The operands of a product, of which elements are numbers, and how they are put into words.
struct Operands<'a> {
    /// Elements in a word.
    halves: usize,
    narrow: fn(f32) -> u32,
    /// Row, k.
    a: &'a dyn Fn(usize, usize) -> f32,
    /// k, column.
    b: &'a dyn Fn(usize, usize) -> f32,
    /// Row, column.
    c: &'a dyn Fn(usize, usize) -> f32,
}

/// What the lanes have of a 16 x 8 matrix of sums.
fn of_sums(sum: &dyn Fn(usize, usize) -> f32) -> Vec<[f32; 4]> {
    let lane = |lane: usize| [0, 1, 2, 3].map(|i| sum(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
    (0..32).map(lane).collect()
}

impl Operands<'_> {
    fn depth(&self) -> usize {
        8 * self.halves
    }

    fn word(&self, element: &dyn Fn(usize) -> f32) -> u32 {
        (0..self.halves).fold(0, |word, half| word | (self.narrow)(element(half)) << (16 * half))
    }

    /// Multiplies on every backend, and has `check` look at what each lane gets.
    fn multiply(&self, kernel: &'static Product, check: impl Fn(&Device, &[[f32; 4]])) {
        let (halves, depth) = (self.halves, self.depth());
        // g, t of the lane and where its halves begin.
        let lanes = || (0..32usize).map(|lane| (lane / 4, lane % 4 * halves));
        let of_a = |(g, t): (usize, usize)| {
            [0, 1, 2, 3].map(|i| self.word(&|h| (self.a)(g + i % 2 * 8, t + h + i / 2 * depth / 2)))
        };
        let of_b = |(g, t): (usize, usize)| {
            [0, 1].map(|i| self.word(&|h| (self.b)(t + h + i * depth / 2, g)))
        };
        conformance_from((8, 0), |device| {
            let a = Buffer::new(device, &lanes().map(of_a).collect::<Vec<_>>());
            let b = Buffer::new(device, &lanes().map(of_b).collect::<Vec<_>>());
            let c = Buffer::new(device, &of_sums(self.c));
            let d = Buffer::<[f32; 4]>::empty(device, 32);
            let args = (a.pointer(), b.pointer(), c.pointer(), d.pointer_mut());
            // SAFETY: as many values as lanes.
            unsafe { launch(device, kernel, one_warp(), args) };
            check(device, &d.to_vec());
        });
    }
}

/// Checks a product of whole numbers, which are exact in every type, and whose sums are in f32.
/// `halves` elements are in a word, as `narrow` gives them.
fn check_product(kernel: &'static Product, halves: usize, narrow: fn(f32) -> u32) {
    let a = |row: usize, k: usize| (row * 7 + k * 5) as f32 % 17. - 8.;
    let b = |k: usize, column: usize| (k * 3 + column * 11) as f32 % 13. - 6.;
    let c = |row: usize, column: usize| (row * 8 + column) as f32 * 1024.;
    let expected = of_sums(&|row, column| {
        c(row, column) + (0..8 * halves).map(|k| a(row, k) * b(k, column)).sum::<f32>()
    });
    Operands { halves, narrow, a: &a, b: &b, c: &c }
        .multiply(kernel, |_, found| assert_same_bits(found, &expected, kernel.name()));
}

/// Checks a product of numbers of all sizes against the exact sum, and against the emulator's where
/// the GPU is what it stands for.
///
/// The bound is that of adders which take at least 4 products at a time, align them and the sum so
/// far to the largest, cut what lies beyond the 23 bits of an f32's fraction off each, and truncate
/// their sum to an f32. Each of 5 terms so loses up to 2^-23 of the largest, and the truncation up
/// to 2^-23 of the sum, all of which are at most the sum of sizes.
fn check_inexact_product(kernel: &'static Product, halves: usize, narrow: fn(f32) -> u32) {
    for seed in 0..20 {
        let mut random = Random(100 + seed);
        let mut number = |bits: i32| {
            let size = 2f64.powi((random.unit() * 24.) as i32 - 12);
            let fraction = (random.unit() * 2f64.powi(bits)).floor() * 0.5f64.powi(bits);
            let sign = if random.unit() < 0.5 { -1. } else { 1. };
            (sign * (1. + fraction) * size) as f32
        };
        let depth = 8 * halves;
        // As many bits as bf16 has.
        let a: Vec<f32> = (0..16 * depth).map(|_| number(7)).collect();
        let b: Vec<f32> = (0..depth * 8).map(|_| number(7)).collect();
        let c: Vec<f32> = (0..16 * 8).map(|_| number(23)).collect();
        let operands = Operands {
            halves,
            narrow,
            a: &|row, k| a[row * depth + k],
            b: &|k, column| b[k * 8 + column],
            c: &|row, column| c[row * 8 + column],
        };
        // The sum, and the sum of sizes; f64 has room for all the bits.
        let exact = |row: usize, column: usize| {
            let products = (0..depth).map(|k| a[row * depth + k] as f64 * b[k * 8 + column] as f64);
            products.fold((c[row * 8 + column] as f64, c[row * 8 + column].abs() as f64), |s, p| {
                (s.0 + p, s.1 + p.abs())
            })
        };
        let additions = depth as f64 / 4.;
        let first = First::default();
        operands.multiply(kernel, |device, found| {
            first.assert_same(device, found, kernel.name());
            for (i, found) in found.as_flattened().iter().enumerate() {
                let (lane, i) = (i / 4, i % 4);
                let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                let (sum, sizes) = exact(row, column);
                let bound = additions * 6. * 0.5f64.powi(23) * sizes;
                assert!(
                    (*found as f64 - sum).abs() <= bound,
                    "{}, row {row}, column {column}: {found}, not {sum} +- {bound}",
                    kernel.name()
                );
            }
        });
    }
}

/// Terms of which each is cut off wholly, though together they are more than the sum's last bit:
/// 2^-26 of the largest, for which no tensor core has a place.
fn check_lost_terms(kernel: &'static Product, halves: usize, narrow: fn(f32) -> u32) {
    let sign = |row: usize| if row.is_multiple_of(2) { 1f32 } else { -1. };
    let (a, b) = (|row: usize, _| sign(row) * 2f32.powi(-13), |_, _| 2f32.powi(-13));
    let c = |row: usize, _| sign(row);
    Operands { halves, narrow, a: &a, b: &b, c: &c }
        .multiply(kernel, |_, found| assert_same_bits(found, &of_sums(&c), kernel.name()));
}

#[test]
fn products_of_f16() {
    check_product(&matrix::m16n8k16_f16, 2, |x| f16::from_f32(x).to_bits() as u32);
}

#[test]
fn products_of_bf16() {
    check_product(&matrix::m16n8k16_bf16, 2, |x| bf16::from_f32(x).to_bits() as u32);
}

#[test]
fn products_of_tf32() {
    check_product(&matrix::m16n8k8_tf32, 1, f32::to_bits);
}

/// What a tf32 has no place for is not rounded, but left out.
#[test]
fn tf32_leaves_low_bits_out() {
    check_product(&matrix::m16n8k8_tf32, 1, |x| x.to_bits() | 0x1fff);
}

#[test]
fn sums_are_as_exact_as_tensor_cores_add() {
    check_inexact_product(&matrix::m16n8k16_f16, 2, |x| f16::from_f32(x).to_bits() as u32);
    check_inexact_product(&matrix::m16n8k16_bf16, 2, |x| bf16::from_f32(x).to_bits() as u32);
    check_inexact_product(&matrix::m16n8k8_tf32, 1, f32::to_bits);
}

#[test]
fn terms_far_below_the_largest_are_lost() {
    check_lost_terms(&matrix::m16n8k16_f16, 2, |x| f16::from_f32(x).to_bits() as u32);
    check_lost_terms(&matrix::m16n8k16_bf16, 2, |x| bf16::from_f32(x).to_bits() as u32);
    check_lost_terms(&matrix::m16n8k8_tf32, 1, f32::to_bits);
}
