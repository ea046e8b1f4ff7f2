//! The driver's functions with a driver that answers, and without one. What is loaded stays loaded,
//! so each case runs in a process of its own: this binary again, with other libraries to find.

use cuda_driver::{DriverError, calls, symbol};
use std::{
    env,
    ffi::{c_int, c_void},
    path::{Path, PathBuf},
    process::Command,
    ptr::{null_mut, without_provenance_mut},
};

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuParamSetf(function: *mut c_void, offset: c_int, value: f32) -> u32;
    fn cuCtxDetach(context: *mut c_void) -> u32;
}

/// Runs the ignored test of this name with this folder searched first for libraries.
fn run_with_libraries_in(folder: &Path, test: &str) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "{test} did not run: {text}");
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn build_fake_driver(folder: &Path) {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(["--edition", "2024", "-C", "panic=abort", "-o"])
        .arg(folder.join("libcuda.so.1"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/driver.rs"))
        .status();
    assert!(status.unwrap().success(), "the fake driver does not compile");
}

#[test]
fn calls_reach_the_driver_with_their_arguments() {
    let folder = folder("fake");
    build_fake_driver(&folder);
    run_with_libraries_in(&folder, "with_fake_driver");
}

#[test]
#[ignore = "needs the fake driver: run by calls_reach_the_driver_with_their_arguments"]
fn with_fake_driver() {
    let number = without_provenance_mut::<c_void>;
    // The first call goes through the loader, the second one does not.
    for _ in 0..2 {
        // SAFETY: the fake driver's functions only look at the numbers.
        unsafe {
            assert_eq!(cuInit(41), 42);
            assert_eq!(cuParamSetf(number(8), 5, 2.5), 25);
            let digits = calls::cuLaunchKernel(
                number(1),
                2,
                3,
                4,
                5,
                6,
                7,
                8,
                number(9),
                null_mut(),
                null_mut(),
            );
            assert_eq!(digits, 1_234_567_890);
        }
    }
    // SAFETY: not there, so nothing happens.
    assert_eq!(unsafe { cuCtxDetach(null_mut()) }, 500, "CUDA_ERROR_NOT_FOUND");
    let missing = DriverError::NoFunction { name: "cuLaunchKernelEx".into() };
    assert_eq!(calls::launch_kernel_ex().unwrap_err(), missing);
    assert!(symbol(c"cuInit").is_ok());
}

#[test]
fn threads_may_make_the_first_call_together() {
    let folder = folder("fake_threads");
    build_fake_driver(&folder);
    run_with_libraries_in(&folder, "with_fake_driver_in_threads");
}

#[test]
#[ignore = "needs the fake driver: run by threads_may_make_the_first_call_together"]
fn with_fake_driver_in_threads() {
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                // SAFETY: the fake driver's function only looks at the number.
                assert_eq!(unsafe { cuInit(i) }, i + 1);
            });
        }
    });
}

#[test]
fn without_a_driver_every_call_says_so() {
    let folder = folder("broken");
    // Found first, and no library: what a machine without a driver answers, whatever this one has.
    std::fs::write(folder.join("libcuda.so.1"), "not a library").unwrap();
    run_with_libraries_in(&folder, "with_broken_driver");
}

#[test]
#[ignore = "needs a driver that cannot be loaded: run by without_a_driver_every_call_says_so"]
fn with_broken_driver() {
    // SAFETY: nothing is called that would look at the arguments.
    unsafe {
        for _ in 0..2 {
            assert_eq!(cuInit(0), 34, "CUDA_ERROR_STUB_LIBRARY");
            assert_eq!(cuParamSetf(null_mut(), 0, 0.0), 34);
        }
    }
    let loaded = cuda_driver::load();
    let error = loaded.unwrap_err();
    assert!(matches!(error, DriverError::NotLoaded { .. }), "{error}");
    assert!(error.to_string().contains("libcuda.so.1"), "{error}");
    assert_eq!(symbol(c"cuInit").unwrap_err(), error);
}
