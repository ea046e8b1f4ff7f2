//! Random numbers that a counter determines.

/// Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011): four
/// random words for each counter and key.
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut low, mut high]) = (counter, key);
    let mut round = 0;
    while round < 10 {
        let (left, right) = (a as u64 * 0xd251_1f53, c as u64 * 0xcd9e_8d57);
        (a, b, c, d) = (
            (right >> 32) as u32 ^ b ^ low,
            right as u32,
            (left >> 32) as u32 ^ d ^ high,
            left as u32,
        );
        low = low.wrapping_add(0x9e37_79b9);
        high = high.wrapping_add(0xbb67_ae85);
        round += 1;
    }
    [a, b, c, d]
}
