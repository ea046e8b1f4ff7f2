//! Which driver PTX needs.

use crate::Error;
use cuda_driver::calls;

/// PTX versions, the CUDA version that brought each, and the first Linux driver branch with it.
const RELEASES: [(&str, &str, u32); 21] = [
    ("6.0", "9.0", 384),
    ("6.3", "10.0", 410),
    ("6.4", "10.1", 418),
    ("6.5", "10.2", 440),
    ("7.0", "11.0", 450),
    ("7.1", "11.1", 455),
    ("7.2", "11.2", 460),
    ("7.3", "11.3", 465),
    ("7.4", "11.4", 470),
    ("7.5", "11.5", 495),
    ("7.6", "11.6", 510),
    ("7.7", "11.7", 515),
    ("7.8", "11.8", 520),
    ("8.0", "12.0", 525),
    ("8.1", "12.1", 530),
    ("8.2", "12.2", 535),
    ("8.3", "12.3", 545),
    ("8.4", "12.4", 550),
    ("8.5", "12.5", 555),
    ("8.7", "12.8", 570),
    ("9.0", "13.0", 580),
];

/// The driver that this PTX needs, in words.
pub(crate) fn needed_for_ptx(ptx: &str) -> String {
    let version = ptx.lines().find_map(|line| line.trim().strip_prefix(".version"));
    let version = version.unwrap_or_default().trim();
    match RELEASES.iter().find(|release| release.0 == version) {
        Some((_, cuda, branch)) => {
            format!("a driver for CUDA {cuda} (version {branch} or later), for PTX {version}")
        }
        None => format!("a newer driver, for PTX {version}"),
    }
}

/// The error of a kernel that this driver is too old for.
pub(crate) fn driver_too_old(kernel: &str, needed: String) -> Error {
    let mut version = 0;
    // SAFETY: writes one number; where it fails, that stays 0.
    unsafe { calls::cuDriverGetVersion(&mut version) };
    let found = format!("{}.{}", version / 1000, version % 1000 / 10);
    Error::DriverTooOld { kernel: kernel.to_owned(), needed, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_needed_is_named() {
        let ptx = "//\n// generated\n\n.version 7.8\n.target sm_90\n";
        let expected = "a driver for CUDA 11.8 (version 520 or later), for PTX 7.8";
        assert_eq!(needed_for_ptx(ptx), expected);
        assert_eq!(needed_for_ptx(".version 99.0"), "a newer driver, for PTX 99.0");
    }
}
