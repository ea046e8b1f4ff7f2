//! Random numbers that a counter determines.

use crate::hint;

/// Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011): four
/// random words for each counter and key.
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [words] = philox4x32_10_of([counter], key);
    words
}

/// The same for several counters at a time: what one waits for is computed while the others are.
#[inline(always)]
pub fn philox4x32_10_of<const COUNT: usize>(
    counters: [[u32; 4]; COUNT],
    key: [u32; 2],
) -> [[u32; 4]; COUNT] {
    let (mut words, [mut low, mut high]) = (counters, key);
    // The assembler writes rounds out; the compiler would compute all of their keys beforehand.
    let rounds = if COUNT == 1 { 10 } else { hint::opaque(10u32) };
    let mut round = 0;
    while round < rounds {
        let mut i = 0;
        while i < COUNT {
            let [a, b, c, d] = words[i];
            let (left, right) = (a as u64 * 0xd251_1f53, c as u64 * 0xcd9e_8d57);
            words[i] = [
                (right >> 32) as u32 ^ b ^ low,
                right as u32,
                (left >> 32) as u32 ^ d ^ high,
                left as u32,
            ];
            i += 1;
        }
        low = low.wrapping_add(0x9e37_79b9);
        high = high.wrapping_add(0xbb67_ae85);
        round += 1;
    }
    words
}
