//! What is refused, with which status: nothing that a caller passes ends the process.

use crate::{
    abi::{fa_device, fa_mask, fa_softmax_forward_tensors, fa_softmax_options, fa_tensor},
    api::{Emulator, api, scaled},
    build::root,
    mirror::{Mirrored, MirroredForward},
};
use fused_attention::{Device, Dtype, RawForward, RawMask, RawTensor, Tensor};
use std::{
    fs,
    ptr::{null, null_mut},
    thread,
};

const SHAPE: [usize; 2] = [4, 24];

/// A call that is right, to be changed in one place, and what it takes.
struct Call {
    device: Emulator,
    options: fa_softmax_options,
    x: fa_tensor,
    y: fa_tensor,
    extra: fa_tensor,
    mask: fa_mask,
    memory: [(Tensor<f32>, Mirrored); 3],
}

impl Call {
    fn new() -> Self {
        let device = Emulator::open();
        let memory = [(); 3].map(|()| {
            let zeros = Device::emulator().zeros::<f32>(&SHAPE).unwrap();
            let mirrored = Mirrored::new(&device, &(&zeros).into());
            (zeros, mirrored)
        });
        let [x, y, extra] = memory.each_ref().map(|(_, mirrored)| mirrored.tensor);
        let mask = fa_mask {
            struct_size: size_of::<fa_mask>(),
            bytes: null(),
            additive: null(),
            lengths: null(),
            bank_index: null(),
            polarity: 0,
            lengths_per: 0,
        };
        Call { device, options: scaled(1.0), x, y, extra, mask, memory }
    }

    /// The status of the forward with these changes, and what it says. Nothing may be written if
    /// it is refused.
    fn status(
        &mut self,
        change: impl FnOnce(&mut fa_softmax_forward_tensors, &mut Call),
    ) -> String {
        let mut tensors = fa_softmax_forward_tensors {
            struct_size: size_of::<fa_softmax_forward_tensors>(),
            x: &self.x,
            y: &self.y,
            lse: null(),
            scale: null(),
            mask: &self.mask,
        };
        change(&mut tensors, self);
        // SAFETY: pointers are null or valid, except where the emulator is to find that out.
        let status = unsafe {
            (api().fa_softmax_forward)(self.device.handle(), &self.options, &tensors, null_mut())
        };
        let name = api().name(status).to_owned();
        if name != "SUCCESS" {
            let (y, mirrored) = &self.memory[1];
            mirrored.copy_back();
            assert!(y.to_vec().unwrap().iter().all(|&y| y == 0.0), "{name}, but written");
            assert_ne!(api().message(), "");
        }
        name
    }
}

/// The status of a right call after a change to it.
fn refused(change: impl FnOnce(&mut fa_softmax_forward_tensors, &mut Call)) -> String {
    let status = Call::new().status(change);
    if status == "SUCCESS" { status } else { format!("{status}: {}", api().message()) }
}

macro_rules! assert_refused {
    ($expected:literal, $change:expr) => {
        let found = refused($change);
        assert!(found.starts_with($expected), "{found}, not {}", $expected);
    };
}

#[test]
fn the_call_itself_is_right() {
    assert_eq!(refused(|_, _| ()), "SUCCESS");
}

#[test]
fn null_pointers() {
    let (call, tensors) = (Call::new(), null());
    // SAFETY: null is allowed.
    let statuses = unsafe {
        let api = api();
        let (options, device) = (&call.options, call.device.handle());
        [
            (api.fa_softmax_forward)(null(), options, tensors, null_mut()),
            (api.fa_softmax_forward)(device, null(), tensors, null_mut()),
            (api.fa_softmax_forward)(device, options, null(), null_mut()),
            (api.fa_softmax_forward_plan)(null(), options, tensors, null_mut(), 0, null_mut()),
            (api.fa_softmax_forward_plan)(device, null(), tensors, null_mut(), 0, null_mut()),
            (api.fa_softmax_forward_plan)(device, options, null(), null_mut(), 0, null_mut()),
            (api.fa_device_create_cuda)(0, null_mut()),
            (api.fa_device_create_emulator)(null_mut()),
            (api.fa_device_describe)(null(), null_mut(), 9, null_mut()),
            (api.fa_emulator_allocate)(device, 9, null_mut()),
            (api.fa_emulator_allocate)(null(), 9, &mut null_mut()),
        ]
    };
    assert_eq!(statuses.map(|status| api().name(status)), ["NULL_ARGUMENT"; 11]);
    assert_eq!(api().message(), "device is null");
    // SAFETY: null is allowed.
    unsafe {
        (api().fa_device_destroy)(null_mut());
        (api().fa_emulator_free)(null_mut());
    }
    assert_refused!("NULL_ARGUMENT: x is null", |tensors, _| tensors.x = null());
    assert_refused!("NULL_ARGUMENT: y is null", |tensors, _| tensors.y = null());
    assert_refused!("NULL_TENSOR: x", |_, call| call.x.pointer = null_mut());
}

#[test]
fn numbers_that_no_enumeration_has() {
    for garbage in [0, 8, u32::MAX] {
        let dtype = refused(|_, call| call.x.dtype = garbage);
        let expected = format!("x.dtype is {garbage}, not one of 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(dtype, format!("UNKNOWN_VALUE: {expected}"));
        assert_refused!("UNKNOWN_VALUE: mask.polarity", |_, call| {
            call.mask.polarity = garbage;
            call.mask.bytes = &call.extra;
        });
        assert_refused!("UNKNOWN_VALUE: mask.lengths_per", |_, call| {
            call.mask.lengths_per = garbage;
            call.mask.lengths = &call.extra;
        });
    }
    for garbage in [2, u32::MAX] {
        assert_refused!("UNKNOWN_VALUE: options.diagonal", |_, c| c.options.diagonal = garbage);
        assert_refused!("UNKNOWN_VALUE: options.reserved", |_, c| c.options.reserved = garbage);
    }
    // What is not read may be anything.
    let unread = refused(|_, call| {
        (call.mask.polarity, call.mask.lengths_per) = (77, 78);
        (call.options.window_left, call.options.window_right) = (0, 0);
    });
    assert_eq!(unread, "SUCCESS");
}

#[test]
fn forms() {
    assert_refused!("RANK_TOO_LARGE", |_, call| call.x.rank = 9);
    assert_refused!("RANK_TOO_LARGE", |_, call| call.x.rank = u32::MAX);
    assert_refused!("RANK_MISMATCH", |_, call| call.x.rank = 0);
    assert_refused!("NEGATIVE_SIZE: y.shape[1] is -3", |_, call| call.y.shape[1] = -3);
    assert_refused!("SHAPE_MISMATCH", |_, call| call.y.shape[0] = 3);
    assert_refused!("UNSUPPORTED_STRIDE", |_, call| call.x.strides[1] = 2);
    assert_refused!("DTYPE_MISMATCH", |_, call| call.y.dtype = 1);
    assert_refused!("UNSUPPORTED_DTYPE", |_, call| call.x.dtype = 6);
    assert_refused!("SELF_OVERLAPPING_OUTPUT", |_, call| call.y.strides[0] = 0);
    assert_refused!("OVERLAPPING_OUTPUT", |_, call| call.y.pointer = call.x.pointer);
    assert_refused!("BELOW_ELEMENT_ALIGNMENT", |_, call| {
        call.x.pointer = call.x.pointer.wrapping_byte_add(1);
    });
    assert_refused!("SIZE_OVERFLOW", |_, call| {
        (call.x.shape[0], call.y.shape[0]) = (i64::MAX, i64::MAX);
    });
    assert_refused!("SHAPE_MISMATCH: scale", |tensors, call| tensors.scale = &call.extra);
    assert_refused!("MISSING_MASK_BANK", |_, call| {
        (call.extra.dtype, call.extra.rank, call.extra.shape[0]) = (6, 1, 4);
        call.mask.bank_index = &call.extra;
    });
    let broadcast = refused(|_, call| {
        call.extra.shape[1] = 23;
        call.mask.additive = &call.extra;
    });
    assert_eq!(
        broadcast,
        "SHAPE_MISMATCH: additive mask of shape [4, 23] does not broadcast to [4, 24]"
    );
}

#[test]
fn what_a_kernel_does_wrong() {
    assert_refused!("EMULATOR_FAULT", |_, call| {
        call.x.pointer = 0x1000 as *mut _;
    });
}

#[test]
fn devices_that_are_not_there() {
    let mut device: *mut fa_device = null_mut();
    // SAFETY: a handle is written, or not.
    let status = unsafe { (api().fa_device_create_cuda)(9999, &mut device) };
    assert!(["NO_DRIVER", "NO_SUCH_DEVICE"].contains(&api().name(status)), "{}", api().message());
    assert!(device.is_null());
}

#[test]
fn the_emulator_describes_itself() {
    let (device, mut text, mut length) = (Emulator::open(), [0u8; 12], 0);
    // SAFETY: there is room for as many bytes.
    let status = unsafe {
        let to = text.as_mut_ptr().cast();
        (api().fa_device_describe)(device.handle(), to, text.len(), &mut length)
    };
    api().check(status);
    assert_eq!((&text, length), (b"emulator (C\0", "emulator (CPU emulator)".len()));
}

#[test]
fn failures_are_each_thread_s_own() {
    assert_refused!("RANK_TOO_LARGE", |_, call| call.x.rank = 9);
    let before = api().message();
    let other = thread::spawn(|| {
        let fresh = api().message();
        assert_refused!("NEGATIVE_SIZE", |_, call| call.x.shape[0] = -1);
        fresh
    });
    assert_eq!(other.join().unwrap(), "");
    assert_eq!(api().message(), before);
    assert_eq!(refused(|_, _| ()), "SUCCESS");
    assert_eq!(api().message(), before, "success leaves it");
}

#[test]
fn every_status_has_its_name() {
    let header = fs::read_to_string(root().join("include/fused_attention.h")).unwrap();
    let mut count = 0;
    for line in header.lines().map(str::trim).filter(|line| line.starts_with("FA_STATUS_")) {
        let (name, code) = line.trim_end_matches(',').split_once(" = ").unwrap();
        assert_eq!(api().name(code.parse().unwrap()), &name["FA_STATUS_".len()..]);
        count += 1;
    }
    assert!(count > 30, "{count} statuses found");
    assert_eq!([-1, 5, i32::MIN].map(|code| api().name(code)), ["OTHER"; 3]);
}

#[test]
fn empty_tensors_need_no_memory() {
    let empty = RawTensor::contiguous(0, Dtype::F32, &[0, 24]).unwrap();
    let call = RawForward { x: empty, y: empty, lse: None, scale: None, mask: RawMask::default() };
    let device = Emulator::open();
    let tensors = MirroredForward::new(&device, &call);
    // SAFETY: there is no memory.
    api().check(unsafe {
        (api().fa_softmax_forward)(device.handle(), &scaled(1.0), &tensors.tensors, null_mut())
    });
}
