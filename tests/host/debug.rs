//! What `FUSED_ATTENTION_DEBUG` prints. It is read once, so it is set for a process of its own: this
//! binary again.

use conformance_kernels::arguments::nothing;
use fused_attention::{LaunchConfig, Launcher};
use std::process::Command;

/// What the ignored test of this name prints with these switches.
fn output_of(test: &str, switches: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("FUSED_ATTENTION_DEBUG", switches)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn trace_prints_launches_and_their_time() {
    let test = "host::debug::launches_once";
    let traced = output_of(test, "trace");
    let launch = traced.lines().find(|line| line.starts_with("nothing: ")).expect(&traced);
    assert!(launch.contains("grid (2, 1, 1), block (32, 1, 1), cluster 1, 64 bytes"), "{launch}");
    assert!(launch.ends_with(" us"), "{launch}");
    assert!(output_of(test, "nan, trace").contains("nothing: "));
    assert!(!output_of(test, "").contains("nothing: "));
}

#[test]
#[ignore = "prints by a switch: run by trace_prints_launches_and_their_time"]
fn launches_once() {
    crate::conformance::harness::conformance(|device| {
        let config = LaunchConfig::new(2, 32).shared_bytes(64);
        // SAFETY: the kernel touches no memory.
        unsafe { device.default_stream().launch(&nothing, config, ()) }.unwrap();
    });
}
