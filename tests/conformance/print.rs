//! Output of kernels, on the emulator: kernels built ahead of time do not print.

use conformance_kernels::arguments::print;
use fused_attention::{Device, LaunchConfig};
use std::process::Command;

/// Set in the process whose output the test reads.
const INNER: &str = "CONFORMANCE_PRINT";

#[test]
fn lines_name_block_and_thread() {
    if std::env::var_os(INNER).is_some() {
        let device = Device::emulator();
        // SAFETY: no memory.
        unsafe { super::harness::launch(&device, &print, LaunchConfig::new(2, 32), (2,)) };
        return;
    }
    let name = std::thread::current().name().expect("tests run in named threads").to_owned();
    let mut inner = Command::new(std::env::current_exe().unwrap());
    inner.args([name.as_str(), "--exact", "--nocapture"]).env(INNER, "1");
    let output = String::from_utf8(inner.output().unwrap().stdout).unwrap();
    for block in 0..2 {
        for thread in 0..2 {
            let (place, number) =
                (format!("block ({block}, 0, 0) thread ({thread}, 0, 0)"), u64::MAX);
            let line = format!("{place}: 100% of {thread}, -{thread}, 0.5 and {number}\n");
            let line = line.replace("-0,", "0,");
            assert_eq!(output.matches(&line).count(), 1, "{line:?} in {output}");
        }
    }
    assert_eq!(output.matches("100% of").count(), 4, "{output}");
}
