//! Packs the prebuilt conformance kernels into the tests.

fn main() -> std::io::Result<()> {
    cuda_ptx::embed("ptx")
}
