//! Launches: what is refused before it reaches a device, and what a device reports.

use crate::conformance::harness::{Buffer, conformance};
use conformance_kernels::{
    arguments::nothing,
    memory::{memory_f32, memory_u32},
};
use cuda_ptx::PtxLibrary;
use cuda_std::kernel;
use fused_attention::{Device, DeviceKind, Error, LaunchConfig, Launcher, Stream};
use std::{
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
};
use support::{allocations::allocations, gpus};

/// In no library.
#[kernel(launch_bounds(32, 1))]
unsafe fn never_built() {}

/// Reads what is not there.
#[kernel(launch_bounds(32, 1))]
unsafe fn reads_null(from: *const u32) {
    // SAFETY: it is not.
    let value: u32 = unsafe { cuda_std::global::load(from) };
    std::hint::black_box(value);
}

/// A library of this PTX, by entry, for the oldest architecture.
pub fn library(files: &[(&str, &str)]) -> &'static PtxLibrary {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("ptx-{}-{number}", std::process::id()));
    let of_arch = folder.join("sm_70");
    std::fs::create_dir_all(&of_arch).unwrap();
    for (entry, ptx) in files {
        std::fs::write(of_arch.join(format!("{entry}.ptx")), ptx).unwrap();
    }
    let archive = cuda_ptx::pack_folder(Path::new(&folder)).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    Box::leak(Box::new(PtxLibrary::new(archive.leak())))
}

/// An entry that does nothing, in this version of PTX.
pub fn empty_entry(version: &str, name: &str) -> String {
    format!(
        ".version {version}\n.target sm_70\n.address_size 64\n.visible .entry {name}()\n{{\n\
         ret;\n}}\n"
    )
}

fn launch_nothing(device: &Device, config: LaunchConfig) -> Result<(), Error> {
    // SAFETY: the kernel touches no memory.
    unsafe { device.default_stream().launch(&nothing, config, ()) }
}

#[test]
fn a_launch_computes() {
    conformance(|device| {
        let input: Vec<u32> = (0..64).map(|i| i * i).collect();
        let from = Buffer::new(device, &input);
        let to = Buffer::empty(device, 4 * 64);
        let config = LaunchConfig::new(1, 64).shared_bytes(64 * 4);
        let args = (from.pointer(), to.pointer_mut());
        // SAFETY: an element for each thread, and four.
        unsafe { device.default_stream().launch(&memory_u32, config, args) }.unwrap();
        device.synchronize().unwrap();
        let result: Vec<u32> = to.to_vec();
        assert!((0..64).all(|i| result[4 * i] == input[i]), "{result:?}");
    });
}

#[test]
fn an_impossible_launch_is_refused_with_the_reason() {
    conformance(|device| {
        let most = device.shared_bytes_per_block();
        let refused = [
            (LaunchConfig::new(1, 33), "33 threads"),
            (LaunchConfig::new(1, 0), "0 threads"),
            (LaunchConfig::new((1, 65536), 32), "65535"),
            (LaunchConfig::new((1, 1, 65536), 32), "65535"),
            (LaunchConfig::new(1 << 31, 32), "2^31 - 1"),
            (LaunchConfig::new(3, 32).cluster(2), "cluster"),
            (LaunchConfig::new(3, 32).cluster(0), "cluster"),
            (LaunchConfig::new(1, 32).shared_bytes(most + 1), "shared memory"),
        ];
        for (config, words) in refused {
            let error = launch_nothing(device, config).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("nothing") && text.contains(words), "{text}");
            let Error::InvalidLaunch { kernel: "nothing", config: found, .. } = error else {
                panic!("{text}")
            };
            assert_eq!(found, config);
        }
        launch_nothing(device, LaunchConfig::new(1, 32)).unwrap();
        device.synchronize().unwrap();
    });
}

#[test]
fn a_grid_without_blocks_is_no_work() {
    conformance(|device| {
        launch_nothing(device, LaunchConfig::new(0, 32)).unwrap();
        launch_nothing(device, LaunchConfig::new((5, 0), 32)).unwrap();
    });
}

#[test]
fn all_the_shared_memory_of_a_block_can_be_had() {
    conformance(|device| {
        let most = device.shared_bytes_per_block();
        // Up, down again, and up.
        for bytes in [0, 100 << 10, 50 << 10, 100 << 10, most, 49 << 10, most] {
            launch_nothing(device, LaunchConfig::new(1, 32).shared_bytes(bytes)).unwrap();
        }
        device.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_that_is_nowhere_is_named() {
    conformance(|device| {
        // SAFETY: the kernel touches no memory.
        let result =
            unsafe { device.default_stream().launch(&never_built, LaunchConfig::new(1, 32), ()) };
        match device.kind() {
            DeviceKind::Cuda { .. } => {
                for error in [result.unwrap_err(), device.prepare(&["never_built"]).unwrap_err()] {
                    let Error::KernelNotFound { kernel, searched } = error else {
                        panic!("{error}")
                    };
                    assert_eq!((&*kernel, searched.last()), ("never_built", Some(&"sm_70")));
                }
            }
            _ => result.unwrap(),
        }
    });
}

#[test]
fn kernels_can_be_loaded_ahead() {
    conformance(|device| {
        device.prepare(&["nothing", "memory_u32", "nothing"]).unwrap();
        launch_nothing(device, LaunchConfig::new(1, 32)).unwrap();
        device.synchronize().unwrap();
    });
}

#[test]
fn a_fault_on_the_emulator_names_kernel_and_place() {
    let device = Device::emulator();
    // SAFETY: the emulator reports what the kernel does wrong.
    let result = unsafe {
        device.default_stream().launch(&reads_null, LaunchConfig::new(1, 1), (std::ptr::null(),))
    };
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("reads_null") && text.contains("block (0, 0, 0)"), "{text}");
    assert!(matches!(error, Error::EmulatorFault { kernel: "reads_null", .. }), "{text}");
}

#[test]
fn a_driver_too_old_for_the_ptx_says_which_is_needed() {
    for device in gpus() {
        let ptx = empty_entry("42.0", "from_the_future");
        let device = device.with_library(library(&[("from_the_future", &ptx)]));
        let error = device.prepare(&["from_the_future"]).unwrap_err();
        let Error::DriverTooOld { kernel, needed, found } = error else { panic!("{error}") };
        assert_eq!(kernel, "from_the_future");
        assert!(needed.contains("PTX 42.0"), "{needed}");
        assert!(found.split('.').next().unwrap().parse::<u32>().unwrap() >= 11, "{found}");
    }
}

#[test]
fn code_that_the_driver_refuses_comes_with_its_words() {
    for device in gpus() {
        let ptx = empty_entry("7.0", "nonsense").replace("ret", "frobnicate");
        let device = device.with_library(library(&[("nonsense", &ptx)]));
        let error = device.prepare(&["nonsense"]).unwrap_err();
        let Error::ModuleLoad { kernel, code, log } = error else { panic!("{error}") };
        assert_eq!((&*kernel, code.code), ("nonsense", 218));
        assert!(log.contains("frobnicate"), "{log}");
    }
}

#[test]
fn a_launch_allocates_nothing() {
    for device in gpus() {
        let ptx = empty_entry("7.0", "nothing");
        let device = device.with_library(library(&[("nothing", &ptx)]));
        let config = LaunchConfig::new(1, 32).shared_bytes(100 << 10);
        launch_nothing(&device, config).unwrap();
        let stream = device.default_stream();
        let count = allocations(|| {
            // SAFETY: the kernel touches no memory.
            unsafe { stream.launch(&nothing, config, ()) }.unwrap();
        });
        assert_eq!(count, 0);
    }
}

#[test]
fn threads_may_launch_a_kernel_for_the_first_time_together() {
    conformance(|device| {
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let input: Vec<f32> = (0..64).map(|i| (i + 64 * thread) as f32).collect();
                let from = Buffer::new(device, &input);
                let to = Buffer::empty(device, 4 * 64);
                let config = LaunchConfig::new(1, 64).shared_bytes(64 * 4);
                let stream = Stream::new(device).unwrap();
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let args = (from.pointer(), to.pointer_mut());
                    // SAFETY: an element for each thread, and four.
                    unsafe { stream.launch(&memory_f32, config, args) }.unwrap();
                    stream.synchronize().unwrap();
                    let result: Vec<f32> = to.to_vec();
                    assert!((0..64).all(|i| result[4 * i] == input[i]), "{result:?}");
                });
            }
        });
    });
}
