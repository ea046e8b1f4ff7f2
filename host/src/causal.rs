//! Where the diagonal of a causal mask lies.

/// Which corner of the scores the causal diagonal goes through; they differ when there are not as
/// many queries as keys. A window's bounds count from the same diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Causal {
    /// Query i sees the keys up to i.
    TopLeft,
    /// Query i sees the keys up to i + keys - queries: the last query sees them all.
    BottomRight,
}

impl Causal {
    /// The key on the diagonal, for query 0.
    pub fn offset(self, queries: usize, keys: usize) -> i64 {
        match self {
            Causal::TopLeft => 0,
            Causal::BottomRight => keys as i64 - queries as i64,
        }
    }
}
