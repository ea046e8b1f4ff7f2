//! Which probabilities are dropped.

use crate::reference::philox::philox4x32_10;

/// Dropout: a probability counts as 0 where a random byte is below `dropped`, and is divided by the
/// share that is kept elsewhere.
///
/// One call of Philox decides a patch of 4 x 4 probabilities, whose rows are 8 apart, and whose columns
/// are neighbours: element (a, b) of patch (i', j') is the one of query `i' / 8 * 32 + 8 a + i' % 8`
/// and key `4 j' + b`. Its counter is (i', j', batch * heads + head, offset), its key the seed, and the byte
/// number 4 a + b of the four words, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dropout {
    /// How many of 256 are dropped: below 256.
    pub dropped: u8,
    /// The key of the random numbers.
    pub seed: u64,
    /// The last word of their counter.
    pub offset: u32,
}

impl Dropout {
    /// Of the head of this number among those of all batch entries: whether the probability is kept.
    pub fn keeps(&self, head: usize, i: usize, j: usize) -> bool {
        let counter = [(i / 32 * 8 + i % 8) as u32, (j / 4) as u32, head as u32, self.offset];
        let words = philox4x32_10(counter, [self.seed as u32, (self.seed >> 32) as u32]);
        words[i / 8 % 4].to_le_bytes()[j % 4] >= self.dropped
    }

    /// What a probability is multiplied by.
    pub fn factor(&self, head: usize, i: usize, j: usize) -> f64 {
        if self.keeps(head, i, j) { 256.0 / (256.0 - f64::from(self.dropped)) } else { 0.0 }
    }
}
