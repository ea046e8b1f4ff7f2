//! Structs of callers that are older or newer than the library.

use crate::{
    abi::{fa_softmax_forward_tensors, fa_softmax_options},
    api::{Emulator, api, scaled},
    mirror::MirroredForward,
};
use fused_attention::{Device, RawForward, RawMask};
use std::ptr::null_mut;

/// Options as a later version has them.
#[repr(C)]
struct Later {
    known: fa_softmax_options,
    unknown: [u64; 3],
}

/// The status of a right call with these options.
fn status(options: &Later, change: impl FnOnce(&mut fa_softmax_forward_tensors)) -> &'static str {
    let device = Device::emulator();
    let tensors = [(); 2].map(|()| device.zeros::<f32>(&[3, 5]).unwrap());
    let [x, y] = tensors.each_ref().map(Into::into);
    let device = Emulator::open();
    let call = RawForward { x, y, lse: None, scale: None, mask: RawMask::default() };
    let mut structs = MirroredForward::new(&device, &call);
    change(&mut structs.tensors);
    // SAFETY: the structs are as large as they say, or the size is refused.
    let status = unsafe {
        (api().fa_softmax_forward)(device.handle(), &options.known, &structs.tensors, null_mut())
    };
    api().name(status)
}

fn later(struct_size: usize, unknown: [u64; 3]) -> Later {
    Later { known: fa_softmax_options { struct_size, ..scaled(1.0) }, unknown }
}

#[test]
fn a_newer_caller_may_not_use_what_is_new() {
    let (known, all) = (size_of::<fa_softmax_options>(), size_of::<Later>());
    assert_eq!(status(&later(known, [1, 1, 1]), |_| ()), "SUCCESS");
    assert_eq!(status(&later(all, [0, 0, 0]), |_| ()), "SUCCESS");
    assert_eq!(status(&later(known + 8, [0, 1, 1]), |_| ()), "SUCCESS");
    assert_eq!(status(&later(all, [0, 0, 1 << 63]), |_| ()), "STRUCT_SIZE");
    assert_eq!(status(&later(known + 1, [1, 0, 0]), |_| ()), "STRUCT_SIZE");
}

#[test]
fn sizes_that_no_version_has() {
    for size in [0, 1, 8, size_of::<fa_softmax_options>() - 1, 5000, usize::MAX] {
        assert_eq!(status(&later(size, [0; 3]), |_| ()), "STRUCT_SIZE");
        let right = later(size_of::<fa_softmax_options>(), [0; 3]);
        assert_eq!(status(&right, |tensors| tensors.struct_size = size), "STRUCT_SIZE");
    }
    let said = api().message();
    assert!(said.contains("fa_softmax_forward_tensors"), "{said}");
}
