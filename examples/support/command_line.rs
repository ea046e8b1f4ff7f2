//! What the programs' command lines and exit codes share.

use clap::ValueEnum;
use fused_attention::Causal;
use std::{fmt::Display, process::ExitCode};

/// Which corners the diagonal of a causal mask connects.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Diagonal {
    /// It ends in the bottom right one.
    BottomRight,
    /// It starts in the top left one.
    TopLeft,
}

impl From<Diagonal> for Causal {
    fn from(diagonal: Diagonal) -> Self {
        match diagonal {
            Diagonal::BottomRight => Causal::BottomRight,
            Diagonal::TopLeft => Causal::TopLeft,
        }
    }
}

/// 0 if the result is right, 1 if it is wrong, 2 if there is none; why, on stderr.
pub fn exit_code<E: Display>(is_right: Result<bool, E>) -> ExitCode {
    match is_right {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(refusal) => {
            eprintln!("error: {refusal}");
            ExitCode::from(2)
        }
    }
}
