//! Devices: which there are, and what is said where there is none.

use fused_attention::{Device, DeviceKind, Error};
use support::{gpus, on_every_backend};

#[test]
fn the_emulator_is_always_there() {
    let device = Device::emulator();
    assert_eq!(device.kind(), DeviceKind::Emulator);
    assert_eq!(Device::available()[0].kind(), DeviceKind::Emulator);
    device.synchronize().unwrap();
}

#[test]
fn gpus_are_numbered_from_zero() {
    for (ordinal, device) in gpus().into_iter().enumerate() {
        assert_eq!(device.kind(), DeviceKind::Cuda { ordinal: ordinal as u32 });
        let (major, _) = device.compute_capability();
        assert!(major >= 7, "{device}: {:?}", device.compute_capability());
        assert!(device.multiprocessors() > 0 && device.shared_bytes_per_block() >= 48 << 10);
        assert!(!device.name().is_empty());
    }
}

#[test]
fn without_a_driver_there_is_a_typed_error() {
    match Device::cuda(0) {
        Ok(device) => eprintln!("skipped: this machine has {device}"),
        Err(Error::NoSuchDevice { ordinal: 0, count: 0 }) => {
            eprintln!("skipped: this machine has a driver, but no GPU");
        }
        Err(error) => {
            assert!(matches!(&error, Error::NoDriver { reason } if reason.contains("libcuda")));
            // It stays so, and says so again.
            let again = Device::cuda(0).unwrap_err();
            assert_eq!(error.to_string(), again.to_string());
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_counted() {
    let count = gpus().len() as u32;
    if count > 0 {
        let error = Device::cuda(count).unwrap_err();
        let Error::NoSuchDevice { ordinal, count: found } = error else { panic!("{error}") };
        assert_eq!((ordinal, found), (count, count));
    }
}

#[test]
fn emulators_share_the_hosts_memory() {
    let adversarial = Device::emulator_with(fused_attention::Emulator::adversarial(1));
    assert!(adversarial.shares_memory_with(&Device::emulator()));
    assert!(Device::emulator().check_same("x", &adversarial).is_ok());
}

#[test]
fn memory_of_another_device_is_refused() {
    for gpu in gpus() {
        let error = gpu.check_same("x", &Device::emulator()).unwrap_err();
        let Error::DeviceMismatch { tensor: "x", expected, found } = error else {
            panic!("{error}")
        };
        assert_eq!((expected, found), (gpu.to_string(), "emulator (CPU emulator)".to_owned()));
    }
}

#[test]
fn a_device_opened_twice_is_the_same() {
    on_every_backend(|device| {
        let again = match device.kind() {
            DeviceKind::Cuda { ordinal } => Device::cuda(ordinal).unwrap(),
            _ => Device::emulator(),
        };
        let tensor = again.upload(&[1i32, 2, 3], &[3]).unwrap();
        assert!(device.shares_memory_with(tensor.device()));
    });
}
