//! The prebuilt kernels in this library: `host/ptx/`, packed by `build.rs`.

use cuda_ptx::PtxLibrary;

/// Every entry of the crate `kernels`, by architecture and name.
pub(crate) static KERNELS: PtxLibrary =
    PtxLibrary::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx.archive")));

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_ptx::Arch;
    use kernels::attention::entries::HOPPER_FORWARD_VARIANTS;

    #[test]
    fn attention_on_hopper_is_not_left_to_the_driver_to_compile() {
        for variant in HOPPER_FORWARD_VARIANTS {
            for kernel in variant.kernels.iter().flatten().flatten() {
                let code = KERNELS.machine_code(Arch::Sm90a, kernel.name());
                let code = code.unwrap_or_else(|error| panic!("{}: {error}", kernel.name()));
                let code = code.unwrap_or_else(|| panic!("{} has no machine code", kernel.name()));
                assert!(code.starts_with(b"\x7fELF"), "{}", kernel.name());
            }
        }
    }
}
