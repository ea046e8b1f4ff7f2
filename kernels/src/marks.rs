//! Marks: the top bit of each byte of a word says something of one of four elements, the first in
//! the lowest byte. The other bits are of no meaning.

use cuda_std::bits::permute;

/// All bits of the bytes but the top ones.
const LOW_SEVEN: u32 = 0x7f7f_7f7f;

/// Marks the bytes that are not zero.
#[inline(always)]
pub fn nonzero(bytes: u32) -> u32 {
    ((bytes & LOW_SEVEN) + LOW_SEVEN) | bytes
}

/// Marks the bytes that are at least `limit`.
#[inline(always)]
pub fn at_least(bytes: u32, limit: Limit) -> u32 {
    let low_seven = (bytes | !LOW_SEVEN) - limit.low_seven;
    // Both top bits, or one, as the limit's own is set or not.
    (bytes & low_seven) | ((bytes | low_seven) & limit.either)
}

/// What bytes are compared with.
#[derive(Clone, Copy)]
pub struct Limit {
    low_seven: u32,
    either: u32,
}

impl Limit {
    /// Of a number up to 255.
    #[inline(always)]
    pub fn new(limit: u32) -> Self {
        Limit {
            low_seven: (limit & 0x7f) * 0x0101_0101,
            either: if limit & 0x80 == 0 { !0 } else { 0 },
        }
    }
}

/// All ones or zeros for each element.
#[inline(always)]
pub fn words(marks: u32) -> [u32; 4] {
    [
        permute::<0x8888>(marks, marks),
        permute::<0x9999>(marks, marks),
        permute::<0xaaaa>(marks, marks),
        permute::<0xbbbb>(marks, marks),
    ]
}

/// The same in half a word.
#[inline(always)]
pub fn halves(marks: u32) -> [u32; 2] {
    [permute::<0x9988>(marks, marks), permute::<0xbbaa>(marks, marks)]
}

/// Marks up to eight elements that have a bit each.
#[inline(always)]
pub fn of_bits(elements: u32) -> [u32; 2] {
    // Element i's bit at i meets the factor's bit at 7 (i + 1), and only that, at 8 i + 7.
    let spread = |four: u32| (four & 15).wrapping_mul(0x1020_4080);
    [spread(elements), spread(elements >> 4)]
}

/// A bit for each element that is marked: undoes [`of_bits`].
#[inline(always)]
fn bits_of(marks: [u32; 2]) -> u32 {
    // Mark i, at 8 i + 7, meets the factor's bit at 7 (3 - i), and only that, at 28 + i.
    let gather = |four: u32| (four & 0x8080_8080).wrapping_mul(0x0020_4081) >> 28;
    gather(marks[0]) | gather(marks[1]) << 4
}

/// What is marked of up to eight vectors, a bit for each element: the marks in an eighth of the registers.
#[inline(always)]
pub fn to_bits<const VECTORS: usize>(marks: [[u32; 2]; VECTORS]) -> [u32; 2] {
    let mut bits = [0; 2];
    unroll!(v in VECTORS => {
        bits[v / 4] |= bits_of(marks[v]) << (8 * (v % 4));
    });
    bits
}

/// Undoes [`to_bits`].
#[inline(always)]
pub fn from_bits<const VECTORS: usize>(bits: [u32; 2]) -> [[u32; 2]; VECTORS] {
    let mut marks = [[0; 2]; VECTORS];
    unroll!(v in VECTORS => {
        marks[v] = of_bits(bits[v / 4] >> (8 * (v % 4)));
    });
    marks
}
