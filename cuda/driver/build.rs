//! Lets the linker find a libcuda.

fn main() {
    // cust asks for `-lcuda`. The stub is empty: the functions are this crate's.
    let stub = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("stub/lib64");
    println!("cargo::rustc-link-search=native={}", stub.display());
    println!("cargo::rerun-if-changed=build.rs");
}
