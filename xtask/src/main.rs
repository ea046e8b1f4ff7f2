//! Automation: building and checking the kernels, set-up, bundles.
fn main() {}
