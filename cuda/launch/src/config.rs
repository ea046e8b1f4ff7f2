//! How large a launch is.

use core::fmt;

/// An extent or an index in three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// The fastest dimension.
    pub x: u32,
    /// The middle dimension.
    pub y: u32,
    /// The slowest dimension.
    pub z: u32,
}

impl Dim3 {
    /// How many indices this extent has.
    pub const fn count(self) -> usize {
        self.x as usize * self.y as usize * self.z as usize
    }

    /// The `i`-th index of this extent, x fastest.
    pub const fn at(self, i: usize) -> Dim3 {
        let (x, y) = (self.x as usize, self.y as usize);
        Dim3 { x: (i % x) as u32, y: (i / x % y) as u32, z: (i / x / y) as u32 }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Dim3 { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Dim3 { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Dim3 { x, y, z }
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Blocks in a cluster, along x; 1: no clusters. Divides `grid.x`.
    pub cluster: u32,
    /// Bytes of dynamic shared memory for each block.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// A launch without clusters and without dynamic shared memory.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        LaunchConfig { grid: grid.into(), block: block.into(), cluster: 1, shared_bytes: 0 }
    }

    /// With `bytes` of dynamic shared memory for each block.
    pub fn shared_bytes(self, bytes: u32) -> Self {
        LaunchConfig { shared_bytes: bytes, ..self }
    }

    /// With clusters of `blocks` blocks, neighbours along x.
    pub fn cluster(self, blocks: u32) -> Self {
        LaunchConfig { cluster: blocks, ..self }
    }
}
