//! A program that uses `fused-attention`, and the driver beside it.

use fused_attention::Device;

fn main() {
    let (count, worst) = external::check_devices().expect("a device that is there works");
    assert!(worst < 1e-6, "{worst} from the reference");
    let names: Vec<_> = Device::available().iter().map(Device::to_string).collect();
    println!("fused-attention: {count} devices: {}", names.join(", "));
    assert_eq!(cfg!(feature = "emulator"), names.iter().any(|name| name.contains("emulator")));
    #[cfg(feature = "cuda")]
    beside_us();
}

/// The driver through cust, through a handle of our own, and from a shared library that contains
/// `fused-attention` itself: all see the same GPUs, and none is in the other's way.
#[cfg(feature = "cuda")]
fn beside_us() {
    use libloading::{Library, Symbol};

    let ours = (0..).take_while(|&ordinal| Device::cuda(ordinal).is_ok()).count();

    let through_cust = cust::init(cust::CudaFlags::empty())
        .and_then(|()| cust::device::Device::num_devices())
        .map_or(0, |count| count as usize);
    println!("cust: {through_cust} GPUs");
    assert_eq!(through_cust, ours);

    // SAFETY: the driver's functions, by their signatures.
    let through_handle = unsafe { Library::new("libcuda.so.1") }.map_or(0, |driver| unsafe {
        let init: Symbol<unsafe extern "C" fn(u32) -> i32> = driver.get(b"cuInit").unwrap();
        let count: Symbol<unsafe extern "C" fn(*mut i32) -> i32> =
            driver.get(b"cuDeviceGetCount").unwrap();
        let mut found = 0;
        if init(0) == 0 {
            assert_eq!(count(&mut found), 0);
        }
        found as usize
    });
    println!("libcuda.so.1: {through_handle} GPUs");
    assert_eq!(through_handle, ours);

    let program = std::env::current_exe().expect("the program has a path");
    let path = program.with_file_name("libexternal.so");
    // SAFETY: the library of this package, and its function.
    unsafe {
        let library = Library::new(&path).expect("the shared library is beside the program");
        let count: Symbol<extern "C" fn() -> i32> = library.get(b"external_device_count").unwrap();
        assert_eq!(count() as usize, Device::available().len());
        for hidden in ["cuInit", "cuLaunchKernel", "cuMemAlloc_v2", "cuGetProcAddress"] {
            assert!(library.get::<*const ()>(hidden.as_bytes()).is_err(), "{hidden} is exported");
        }
    }
    println!("libexternal.so: the same devices, and no function of the driver is exported");
}
