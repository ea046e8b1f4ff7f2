//! Which keys a query sees by their positions: the options that softmax and attention share.

use crate::Causal;

/// A causal mask and a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VisibleRange {
    /// Hide the keys to the right of the diagonal, whatever the window.
    is_causal: bool,
    /// How many keys left of the diagonal are visible; -1: all.
    pub left: i64,
    /// As `left`, beside the causal mask.
    window_right: i64,
    /// Where the diagonal runs.
    pub diagonal: Causal,
}

impl VisibleRange {
    /// All keys.
    pub const ALL: VisibleRange = VisibleRange {
        is_causal: false,
        left: -1,
        window_right: -1,
        diagonal: Causal::BottomRight,
    };

    pub fn causal(self, diagonal: Causal) -> Self {
        VisibleRange { is_causal: true, diagonal, ..self }
    }

    pub fn window(self, left: i64, right: i64) -> Self {
        let limit = |keys: i64| keys.clamp(-1, i64::MAX / 4);
        VisibleRange { left: limit(left), window_right: limit(right), ..self }
    }

    pub fn with_diagonal(self, diagonal: Causal) -> Self {
        VisibleRange { diagonal, ..self }
    }

    /// How many keys right of the diagonal are visible; negative: all.
    pub fn right(&self) -> i64 {
        if self.is_causal { 0 } else { self.window_right }
    }

    /// Whether the diagonal counts for what a row sees.
    pub fn has_diagonal(&self) -> bool {
        self.left >= 0 || self.right() >= 0
    }
}
