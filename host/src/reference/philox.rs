//! Philox4x32-10, the counter-based random numbers of dropout (Salmon, Moraes, Dror and Shaw,
//! "Parallel random numbers: as easy as 1, 2, 3", 2011).

/// Four random words that belong to a counter and a key.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const ROUNDS: u32 = 10;
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    // The golden ratio and the square root of 3 less 1.
    const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let (mut words, mut key) = (counter, key);
    for _ in 0..ROUNDS {
        let [a, b, c, d] = words;
        let (product, other) = (wide(MULTIPLIERS[0], a), wide(MULTIPLIERS[1], c));
        words = [other.0 ^ b ^ key[0], other.1, product.0 ^ d ^ key[1], product.1];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    words
}

/// The upper and the lower half of a product.
fn wide(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    ((product >> 32) as u32, product as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Random123 publishes for this generator.
    #[test]
    fn published_vectors() {
        let vectors = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in vectors {
            assert_eq!(philox4x32_10(counter, key), expected, "{counter:x?}");
        }
    }
}
