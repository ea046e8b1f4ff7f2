//! The Python binding and the script beside it, by their own tests.

use crate::build::{root, shared_library};
use std::{io::ErrorKind, process::Command};

/// The oldest Python that they are for.
const OLDEST: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

#[test]
fn the_python_tests_pass() {
    match Command::new("python3").args(["-c", OLDEST]).status() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return eprintln!("skipped: there is no python3");
        }
        status if !status.as_ref().is_ok_and(|status| status.success()) => {
            return eprintln!("skipped: python3 is older than 3.10");
        }
        _ => {}
    }
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "--verbose", "python"])
        .env("FUSED_ATTENTION_LIBRARY", shared_library())
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let ran = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(ran >= 20, "only {ran} tests ran:\n{said}");
}
