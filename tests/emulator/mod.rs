//! The emulator: what it finds in broken kernels, and that it finds nothing in right ones.
