//! What runs a problem, in words.

use crate::LaunchConfig;
use std::fmt;

/// Which variant runs a problem, how, and why not the others.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The entry that is launched.
    pub kernel: &'static str,
    /// Its tile's name.
    pub tile: &'static str,
    /// Why the tile is as it is.
    pub reason: &'static str,
    /// Whether the file that `FUSED_ATTENTION_TUNING` names prefers it.
    pub is_tuned: bool,
    /// Each launch: one, unless there are more rows than a launch takes.
    pub launches: Vec<LaunchConfig>,
    /// The tiles before it in the table, and why they were passed over.
    pub passed_over: Vec<(&'static str, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: tile {} ({})", self.kernel, self.tile, self.reason)?;
        if let Some(LaunchConfig { grid, block, cluster, shared_bytes }) = self.launches.first() {
            write!(f, "; grid {grid}, block {block}, cluster {cluster}, ")?;
            write!(f, "{shared_bytes} bytes of shared memory")?;
        }
        if self.is_tuned {
            f.write_str("; preferred by the tuning file")?;
        }
        if self.launches.len() != 1 {
            write!(f, "; {} launches", self.launches.len())?;
        }
        for alike in self.passed_over.chunk_by(|(_, a), (_, b)| a == b) {
            let tiles: Vec<_> = alike.iter().map(|(tile, _)| *tile).collect();
            write!(f, "; not {}: {}", tiles.join(", "), alike[0].1)?;
        }
        Ok(())
    }
}
