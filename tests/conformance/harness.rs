//! Buffers and launches for the tests of primitives.

use cuda_ptx::{Arch, PtxLibrary};
use cuda_std::Value;
use fused_attention::{Device, Kernel, KernelArgs, LaunchConfig, Launcher, Tensor};
use std::{cell::OnceCell, fmt::Debug, marker::PhantomData};

/// The kernels of `tests/device`, as PTX.
pub static KERNELS: PtxLibrary =
    PtxLibrary::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx.archive")));

/// Runs a test on every backend.
pub fn conformance(test: impl Fn(&Device)) {
    conformance_from((7, 0), test);
}

/// Runs a test on every backend of this compute capability or a later one.
pub fn conformance_from(capability: (u32, u32), test: impl Fn(&Device)) {
    support::on_every_backend(|device| {
        if device.compute_capability() < capability {
            eprintln!("skipped on {device}: needs compute capability {capability:?}");
            return;
        }
        test(&device.clone().with_library(&KERNELS));
    });
}

/// Runs a test on every backend that this architecture's PTX runs on.
pub fn conformance_on(arch: Arch, test: impl Fn(&Device)) {
    support::on_every_backend(|device| {
        let (major, minor) = device.compute_capability();
        if !arch.runs_on(major, minor) {
            eprintln!("skipped on {device}: needs {arch}");
            return;
        }
        test(&device.clone().with_library(&KERNELS));
    });
}

/// Runs a kernel to its end.
///
/// # Safety
/// The kernel's own.
pub unsafe fn launch<Args: KernelArgs>(
    device: &Device,
    kernel: &Kernel<Args>,
    config: LaunchConfig,
    args: Args,
) {
    // SAFETY: the caller's.
    unsafe { device.default_stream().launch(kernel, config, args) }.unwrap();
    device.synchronize().unwrap();
}

/// Values in global memory.
pub struct Buffer<T> {
    bytes: Tensor<u8>,
    values: PhantomData<T>,
}

impl<T: Value> Buffer<T> {
    pub fn new(device: &Device, values: &[T]) -> Self {
        // SAFETY: a `Value` is plain numbers, without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        let bytes = device.upload(bytes, &[bytes.len()]).unwrap();
        Buffer { bytes, values: PhantomData }
    }

    /// Uninitialised values.
    pub fn empty(device: &Device, count: usize) -> Self {
        let bytes = device.empty(&[count * size_of::<T>()]).unwrap();
        Buffer { bytes, values: PhantomData }
    }

    pub fn pointer(&self) -> *const T {
        self.bytes.pointer() as *const T
    }

    pub fn pointer_mut(&self) -> *mut T {
        self.bytes.pointer() as *mut T
    }

    pub fn to_vec(&self) -> Vec<T> {
        let bytes = self.bytes.to_vec().unwrap();
        let values = bytes.chunks_exact(size_of::<T>());
        // SAFETY: a `Value` is plain numbers, and any bytes are one.
        values.map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }).collect()
    }
}

/// Random numbers: Steele, Lea and Flood's splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (0.5f64).powi(53)
    }

    /// Values with random bits.
    pub fn values<T: Value>(&mut self, count: usize) -> Vec<T> {
        let value = |_| {
            let bits = [self.bits(), self.bits()];
            const { assert!(size_of::<T>() <= 16) };
            // SAFETY: any bytes are a `Value`, of which the 16 are enough.
            unsafe { bits.as_ptr().cast::<T>().read() }
        };
        (0..count).map(value).collect()
    }
}

/// Fails at the first value whose bits differ: NaNs and zeros have several.
pub fn assert_same_bits<T: Value + Debug>(found: &[T], expected: &[T], what: &str) {
    // SAFETY: a `Value` is plain numbers, without padding.
    let bytes = |value: &T| unsafe {
        std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()).to_vec()
    };
    assert_eq!(found.len(), expected.len(), "{what}: how many values");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(bytes(found), bytes(expected), "{what}, value {i}: {found:?}, not {expected:?}");
    }
}

/// What the first backend computed, the emulator, for others to be compared with.
#[derive(Default)]
pub struct First<T>(OnceCell<Vec<T>>);

impl<T: Value + Debug> First<T> {
    /// Fails if this is not the first backend, is of the emulator's compute capability, and has found
    /// other bits.
    pub fn assert_same(&self, device: &Device, found: &[T], what: &str) {
        let first = self.0.get_or_init(|| found.to_vec());
        if device.compute_capability() == (9, 0) {
            assert_same_bits(found, first, what);
        }
    }
}
