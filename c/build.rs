//! Names the shared library, so that what is linked with it asks for it by name, not by path.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfused_attention.so");
    println!("cargo::rerun-if-changed=build.rs");
}
