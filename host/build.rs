//! Packs the prebuilt kernels into the library.

fn main() -> std::io::Result<()> {
    cuda_ptx::embed("ptx")
}
