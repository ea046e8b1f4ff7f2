//! The architectures that kernels are built for.

use std::{fmt, str::FromStr};

/// An architecture that kernels are built for.
///
/// ```
/// use cuda_ptx::Arch;
/// assert_eq!(Arch::Sm90a.name(), "sm_90a");
/// assert!(Arch::Sm80.runs_on(9, 0), "PTX of an older architecture runs on a newer device");
/// assert!(!Arch::Sm90a.runs_on(10, 0), "an `a` architecture runs on that one device only");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// Volta and later: warp shuffles with masks.
    Sm70,
    /// Ampere and later: cp.async, bf16, mma with 16-bit inputs.
    Sm80,
    /// Hopper and later: clusters, distributed shared memory, bulk copies.
    Sm90,
    /// Hopper only: wgmma and register reallocation.
    Sm90a,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Arch; 4] = [Arch::Sm70, Arch::Sm80, Arch::Sm90, Arch::Sm90a];

    /// The name in PTX's `.target`, and of the folder that holds its entries.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Sm70 => "sm_70",
            Arch::Sm80 => "sm_80",
            Arch::Sm90 => "sm_90",
            Arch::Sm90a => "sm_90a",
        }
    }

    /// The PTX version that its modules are written in, as major and minor number: the lowest
    /// that has the instructions used, because a driver refuses a version newer than itself.
    pub const fn ptx_version(self) -> (u32, u32) {
        match self {
            Arch::Sm70 | Arch::Sm80 => (7, 4),
            Arch::Sm90 | Arch::Sm90a => (8, 1),
        }
    }

    /// The compute capability of the oldest device that it is for, as major and minor number: machine
    /// code for it is that device's.
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Arch::Sm70 => (7, 0),
            Arch::Sm80 => (8, 0),
            Arch::Sm90 | Arch::Sm90a => (9, 0),
        }
    }

    /// Whether its modules run on a device of this compute capability.
    pub const fn runs_on(self, major: u32, minor: u32) -> bool {
        match self {
            Arch::Sm70 => major >= 7,
            Arch::Sm80 => major >= 8,
            Arch::Sm90 => major >= 9,
            Arch::Sm90a => major == 9 && minor == 0,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`Arch::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture {0:?}: expected one of sm_70, sm_80, sm_90, sm_90a")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let known = Arch::ALL.into_iter().find(|arch| arch.name() == name);
        known.ok_or_else(|| UnknownArch(name.to_owned()))
    }
}
