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
