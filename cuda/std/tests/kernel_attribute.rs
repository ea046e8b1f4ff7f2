//! What `#[kernel]` and launchers refuse to compile, and in which words.

#[test]
fn misuse_does_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.pass("tests/kernel_attribute/accepted.rs");
    tests.compile_fail("tests/kernel_attribute/refused_*.rs");
}
