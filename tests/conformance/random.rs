//! Random numbers: the vectors that Random123 publishes.

use super::harness::{Buffer, assert_same_bits, conformance, launch};
use conformance_kernels::random;
use fused_attention::LaunchConfig;

const VECTORS: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn philox_gives_the_published_words() {
    conformance(|device| {
        let counters = Buffer::new(device, &VECTORS.map(|(counter, ..)| counter));
        let keys = Buffer::new(device, &VECTORS.map(|(_, key, _)| key));
        let to = Buffer::<[u32; 4]>::empty(device, VECTORS.len());
        let args = (counters.pointer(), keys.pointer(), to.pointer_mut());
        let config = LaunchConfig::new(1, VECTORS.len() as u32);
        // SAFETY: as many values as threads.
        unsafe { launch(device, &random::philox4x32_10, config, args) };
        assert_same_bits(&to.to_vec(), &VECTORS.map(|(.., words)| words), "words");
    });
}
