//! Products by a warpgroup.

use super::harness::{Buffer, First, Random, assert_same_bits, conformance_on, launch};
use conformance_kernels::wgmma::{self, Placement, Problem};
use cuda_ptx::Arch;
use fused_attention::{Device, Kernel, LaunchConfig};
use half::{bf16, f16};

const M: usize = 64;
/// Along k: two instructions.
const K: usize = 32;
const THREADS: usize = 128;

/// Which of a factor's elements are neighbours in shared memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    K,
    Mn,
}

/// How a factor of `mn` x [`K`] lies in shared memory.
#[derive(Debug, Clone, Copy)]
struct Factor {
    order: Order,
    /// 16, 32, 64 or 128.
    row_bytes: usize,
    mn: usize,
}

impl Factor {
    /// Bytes from a block of 8 rows to the next ones: along the leading and the stride dimension.
    fn distances(self) -> (usize, usize) {
        let block = 8 * self.row_bytes;
        match (self.order, self.row_bytes) {
            // Along k, then along m or n.
            (Order::K, 16) => (self.mn / 8 * block, block),
            (Order::Mn, 16) => (block, K / 8 * block),
            // The first does not count.
            (Order::K, _) => (0x70, block),
            // Along m or n, then along k.
            (Order::Mn, _) => (K / 8 * block, block),
        }
    }

    fn bytes(self) -> usize {
        let per_row = self.row_bytes / 2;
        match self.order {
            Order::K => self.mn * self.row_bytes * K.div_ceil(per_row),
            Order::Mn => K * self.row_bytes * self.mn.div_ceil(per_row),
        }
    }

    /// Where an element is, from the factor's first byte, which is aligned to 1024.
    fn place(self, mn: usize, k: usize) -> usize {
        let (width, (leading, stride)) = (self.row_bytes, self.distances());
        let offset = match (self.order, width) {
            (Order::K, 16) => k / 8 * leading + mn / 8 * stride + mn % 8 * width + 2 * k % width,
            (Order::Mn, 16) => k / 8 * leading + mn / 8 * stride + k % 8 * width + 2 * mn % width,
            (Order::K, _) => {
                2 * k / width * self.mn * width + mn / 8 * stride + mn % 8 * width + 2 * k % width
            }
            (Order::Mn, _) => {
                2 * mn / width * leading + k / 8 * stride + k % 8 * width + 2 * mn % width
            }
        };
        let pieces = width / 16;
        offset ^ (offset / 128 % pieces * 16)
    }

    /// From the first 16 elements along k to the others.
    fn advance(self) -> usize {
        match (self.order, self.row_bytes) {
            (_, 16) => 2 * self.distances().0,
            (Order::K, 32) => self.mn * 32,
            (Order::K, _) => 32,
            (Order::Mn, _) => 2 * self.distances().1,
        }
    }

    fn placement(self, offset: usize) -> Placement {
        let (leading, stride) = self.distances();
        Placement {
            offset: offset as u32,
            row_bytes: self.row_bytes as u32,
            leading_bytes: leading as u32,
            stride_bytes: stride as u32,
            advance: self.advance() as u32,
        }
    }
}

/// A kernel, and what it multiplies.
struct Case {
    kernel: &'static Kernel<(Problem,)>,
    /// None: in registers.
    a: Option<Order>,
    b: Order,
    n: usize,
    narrow: fn(f32) -> u16,
}

fn to_bf16(x: f32) -> u16 {
    bf16::from_f32(x).to_bits()
}

fn to_f16(x: f32) -> u16 {
    f16::from_f32(x).to_bits()
}

/// Row and column of element `i` of a thread's sums.
fn place_of_sum(thread: usize, i: usize) -> (usize, usize) {
    let lane = thread % 32;
    (thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2)
}

/// What the threads have of a 64 x n matrix of sums.
fn of_sums(n: usize, sum: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let elements = (0..THREADS).flat_map(|thread| (0..n / 2).map(move |i| (thread, i)));
    let sum = |(row, column)| sum(row, column);
    elements.map(|(thread, i)| sum(place_of_sum(thread, i))).collect()
}

/// Elements of the factors, and of what their product is added to.
struct Numbers<'a> {
    a: &'a dyn Fn(usize, usize) -> f32,
    b: &'a dyn Fn(usize, usize) -> f32,
    c: &'a dyn Fn(usize, usize) -> f32,
}

impl Case {
    /// Multiplies on every backend, with rows of so many bytes, and has `check` look at the product
    /// and at the product added to c, or not.
    fn multiply(
        &self,
        numbers: &Numbers<'_>,
        row_bytes: (usize, usize),
        keep: bool,
        check: impl Fn(&Device, &[f32], &[f32]),
    ) {
        let &Case { kernel, a: order_a, b: order_b, n, narrow } = self;
        let Numbers { a, b, c } = *numbers;
        let factor_b = Factor { order: order_b, row_bytes: row_bytes.1, mn: n };
        // What is in no factor is NaN, in every type.
        let mut image = vec![0xff_u8; factor_b.bytes().next_multiple_of(1024)];
        let put = |image: &mut [u8], at: usize, x: f32| {
            image[at..at + 2].copy_from_slice(&narrow(x).to_le_bytes());
        };
        for (k, j) in (0..K).flat_map(|k| (0..n).map(move |j| (k, j))) {
            put(&mut image, factor_b.place(j, k), b(k, j));
        }
        let begin_a = image.len();
        let factor_a = Factor { order: order_a.unwrap_or(Order::K), row_bytes: row_bytes.0, mn: M };
        if order_a.is_some() {
            image.resize(begin_a + factor_a.bytes(), 0xff);
            for (i, k) in (0..M).flat_map(|i| (0..K).map(move |k| (i, k))) {
                put(&mut image, begin_a + factor_a.place(i, k), a(i, k));
            }
        }
        let registers = (0..THREADS).flat_map(|thread| {
            let (row, t) = (thread / 32 * 16 + thread % 32 / 4, thread % 4);
            [0, 16].map(|step| {
                [0, 1, 2, 3].map(|i| {
                    let k = step + 2 * t + i / 2 * 8;
                    let half = |half| narrow(a(row + i % 2 * 8, k + half)) as u32;
                    half(0) | half(1) << 16
                })
            })
        });
        let registers: Vec<[u32; 4]> = registers.collect();
        let pieces: Vec<[u32; 4]> = image
            .chunks_exact(16)
            .map(|piece| {
                let word = |i: usize| piece[4 * i..4 * i + 4].try_into().map(u32::from_le_bytes);
                [0, 1, 2, 3].map(|i| word(i).expect("four bytes"))
            })
            .collect();
        conformance_on(Arch::Sm90a, |device| {
            let image = Buffer::new(device, &pieces);
            let registers = Buffer::new(device, &registers);
            let c = Buffer::new(device, &of_sums(n, c));
            let [product, sum] = [(); 2].map(|()| Buffer::empty(device, M * n));
            let problem = Problem {
                image: image.pointer(),
                pieces: pieces.len() as u32,
                a: factor_a.placement(begin_a),
                b: factor_b.placement(0),
                registers: registers.pointer(),
                c: c.pointer(),
                product: product.pointer_mut(),
                sum: sum.pointer_mut(),
                keep: keep as u32,
            };
            let config =
                LaunchConfig::new(1, THREADS as u32).shared_bytes(16 * pieces.len() as u32);
            // SAFETY: as many values as the kernel takes, and memory for the image.
            unsafe { launch(device, kernel, config, (problem,)) };
            check(device, &product.to_vec(), &sum.to_vec());
        });
    }

    /// Checks whole numbers, whose sums are exact.
    fn check(&self, row_bytes: (usize, usize)) {
        let a = |row: usize, k: usize| (row * 7 + k * 5) as f32 % 17. - 8.;
        let b = |k: usize, column: usize| (k * 3 + column * 11) as f32 % 13. - 6.;
        let c = |row: usize, column: usize| (row * 300 + column) as f32 * 16.;
        let exact =
            |row: usize, column: usize| (0..K).map(|k| a(row, k) * b(k, column)).sum::<f32>();
        let product = of_sums(self.n, exact);
        let what = format!("{}, rows of {row_bytes:?} bytes", self.kernel.name());
        for keep in [true, false] {
            let sum = of_sums(self.n, |row, column| {
                exact(row, column) + if keep { c(row, column) } else { 0. }
            });
            let numbers = Numbers { a: &a, b: &b, c: &c };
            self.multiply(&numbers, row_bytes, keep, |_, found_product, found_sum| {
                assert_same_bits(found_product, &product, &what);
                assert_same_bits(found_sum, &sum, &what);
            });
        }
    }
}

const fn of_width(kernel: &'static Kernel<(Problem,)>, n: usize) -> Case {
    Case { kernel, a: Some(Order::K), b: Order::K, n, narrow: to_bf16 }
}

#[test]
fn products_of_every_width() {
    let cases = [
        of_width(&wgmma::wgmma_n8, 8),
        of_width(&wgmma::wgmma_n16, 16),
        of_width(&wgmma::wgmma_n32, 32),
        of_width(&wgmma::wgmma_n64, 64),
        of_width(&wgmma::wgmma_n96, 96),
        of_width(&wgmma::wgmma_n128, 128),
        of_width(&wgmma::wgmma_n176, 176),
        of_width(&wgmma::wgmma_n192, 192),
        of_width(&wgmma::wgmma_n256, 256),
        Case { b: Order::Mn, ..of_width(&wgmma::wgmma_n256_mn, 256) },
        Case { a: None, b: Order::Mn, ..of_width(&wgmma::wgmma_registers_n256, 256) },
    ];
    for case in &cases {
        case.check((128, 128));
    }
}

#[test]
fn products_of_every_order_and_swizzle() {
    let case = |kernel, a, b, narrow| Case { kernel, a, b, n: 64, narrow };
    let (k, mn) = (Order::K, Order::Mn);
    let cases = [
        case(&wgmma::wgmma_n64, Some(k), k, to_bf16),
        case(&wgmma::wgmma_bf16_k_mn, Some(k), mn, to_bf16),
        case(&wgmma::wgmma_bf16_mn_k, Some(mn), k, to_bf16),
        case(&wgmma::wgmma_bf16_mn_mn, Some(mn), mn, to_bf16),
        case(&wgmma::wgmma_f16_k_k, Some(k), k, to_f16),
        case(&wgmma::wgmma_f16_k_mn, Some(k), mn, to_f16),
        case(&wgmma::wgmma_f16_mn_k, Some(mn), k, to_f16),
        case(&wgmma::wgmma_f16_mn_mn, Some(mn), mn, to_f16),
        case(&wgmma::wgmma_registers_bf16_k, None, k, to_bf16),
        case(&wgmma::wgmma_registers_bf16_mn, None, mn, to_bf16),
        case(&wgmma::wgmma_registers_f16_k, None, k, to_f16),
        case(&wgmma::wgmma_registers_f16_mn, None, mn, to_f16),
    ];
    for case in &cases {
        for of_a in [16, 32, 64, 128] {
            for of_b in [16, 32, 64, 128] {
                if case.a.is_some() || of_a == 16 {
                    case.check((of_a, of_b));
                }
            }
        }
    }
}

/// Numbers of all sizes, against the exact sum, and against the emulator's on the GPU that it stands
/// for.
///
/// The bound is that of an adder which takes at least 4 products at a time, as in the test of
/// `mma`'s sums.
#[test]
fn sums_are_as_exact_as_tensor_cores_add() {
    let f16s = Case {
        kernel: &wgmma::wgmma_f16_k_k,
        a: Some(Order::K),
        b: Order::K,
        n: 64,
        narrow: to_f16,
    };
    for case in [of_width(&wgmma::wgmma_n64, 64), f16s] {
        for seed in 0..10 {
            let mut random = Random(200 + seed);
            let mut number = |bits: i32| {
                let size = 2f64.powi((random.unit() * 24.) as i32 - 12);
                let fraction = (random.unit() * 2f64.powi(bits)).floor() * 0.5f64.powi(bits);
                let sign = if random.unit() < 0.5 { -1. } else { 1. };
                (sign * (1. + fraction) * size) as f32
            };
            let mut numbers = |count, bits| (0..count).map(|_| number(bits)).collect::<Vec<f32>>();
            let (a, b, c) = (numbers(M * K, 7), numbers(K * 64, 7), numbers(M * 64, 23));
            let elements = Numbers {
                a: &|row, k| a[row * K + k],
                b: &|k, column| b[k * 64 + column],
                c: &|row, column| c[row * 64 + column],
            };
            let first = First::default();
            case.multiply(&elements, (128, 128), true, |device, _, found| {
                first.assert_same(device, found, case.kernel.name());
                for (i, found) in found.iter().enumerate() {
                    let (row, column) = place_of_sum(i / 32, i % 32);
                    let products =
                        (0..K).map(|k| a[row * K + k] as f64 * b[k * 64 + column] as f64);
                    let first = c[row * 64 + column] as f64;
                    let (sum, sizes) = products
                        .fold((first, first.abs()), |(sum, sizes), p| (sum + p, sizes + p.abs()));
                    let bound = K as f64 / 4. * 6. * 0.5f64.powi(23) * sizes;
                    assert!(
                        (*found as f64 - sum).abs() <= bound,
                        "{}, row {row}, column {column}: {found}, not {sum} +- {bound}",
                        case.kernel.name()
                    );
                }
            });
        }
    }
}

/// Terms of which each is cut off wholly, though together they are more than the sum's last bit.
#[test]
fn terms_far_below_the_largest_are_lost() {
    let sign = |row: usize| if row.is_multiple_of(2) { 1f32 } else { -1. };
    let numbers = Numbers {
        a: &|row, _| sign(row) * 2f32.powi(-13),
        b: &|_, _| 2f32.powi(-13),
        c: &|row, _| sign(row),
    };
    let expected = of_sums(64, |row, _| sign(row));
    of_width(&wgmma::wgmma_n64, 64).multiply(&numbers, (128, 128), true, |_, _, found| {
        assert_same_bits(found, &expected, "sums");
    });
}

#[test]
fn products_take_turns() {
    let (rows, depth) = (16, 16);
    for turns in [1, 2, 3, 6] {
        let whole = |i: usize| (i % 5) as f32 - 2.;
        let q = |i: usize, d: usize| whole(i * 3 + d);
        let k = |j: usize, d: usize| whole(j * 7 + d * 2);
        let v = |j: usize, d: usize| whole(j * 2 + d * 3 + 1);
        // Rows of 32 bytes, in blocks of 8.
        let place = |row: usize, column: usize| {
            let offset = row * 32 + column * 2;
            offset ^ (offset / 128 % 2 * 16)
        };
        let part = rows * 32;
        let mut image = vec![0u8; M * 32 + 2 * turns * part];
        let mut put = |at: usize, x: f32| {
            image[at..at + 2].copy_from_slice(&to_bf16(x).to_le_bytes());
        };
        for d in 0..depth {
            (0..M).for_each(|i| put(place(i, d), q(i, d)));
            for j in 0..turns * rows {
                let begin = M * 32 + j / rows * 2 * part;
                put(begin + place(j % rows, d), k(j, d));
                put(begin + part + place(j % rows, d), v(j, d));
            }
        }
        let words: Vec<u32> = image
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        // All of them are whole numbers, exact in bf16 below 256.
        let expected = of_sums(16, |row, column| {
            let score = |j: usize| (0..depth).map(|d| q(row, d) * k(j, d)).sum::<f32>();
            (0..turns * rows).map(|j| score(j) * v(j, column)).sum()
        });
        conformance_on(Arch::Sm90a, |device| {
            let (from, to) = (Buffer::new(device, &words), Buffer::empty(device, M * 16));
            let args = (from.pointer().cast(), to.pointer_mut(), turns as u32);
            let config = LaunchConfig::new(1, THREADS as u32).shared_bytes(image.len() as u32);
            // SAFETY: as many values as the kernel takes, and memory for the image.
            unsafe { launch(device, &wgmma::wgmma_chain, config, args) };
            assert_same_bits(&to.to_vec(), &expected, &format!("{turns} turns"));
        });
    }
}

#[test]
fn registers_go_from_one_warpgroup_to_another() {
    let values: Vec<f32> = (0..256).map(|i| (i * 37 % 101) as f32).collect();
    let expected: Vec<f32> = (0..256)
        .map(|i| match i {
            ..128 => values[i],
            _ => (0..128).map(|j| values[(i + j) % 256]).sum(),
        })
        .collect();
    conformance_on(Arch::Sm90a, |device| {
        let (from, to) = (Buffer::new(device, &values), Buffer::empty(device, 256));
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: as many values as threads.
        unsafe { launch(device, &wgmma::set_max_registers, LaunchConfig::new(1, 256), args) };
        assert_same_bits(&to.to_vec(), &expected, "sums");
    });
}
