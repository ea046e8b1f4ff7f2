//! Shapes and strides at the ends of their types: typed errors and right rows, never a panic.

use fused_attention::{
    Dims, Dtype, Error, Mask, Polarity, RawForward, RawMask, RawTensor, ScaledMaskedSoftmax,
};
use support::on_every_backend;

fn forward(x: RawTensor, y: RawTensor) -> RawForward {
    RawForward { x, y, lse: None, scale: None, mask: RawMask::default() }
}

/// An index below 0 is outside of every bank, also of one with more masks than an i32 counts.
#[test]
fn a_negative_index_into_a_bank_of_more_than_2_31_masks() {
    on_every_backend(|device| {
        let stream = device.default_stream();
        let x = device.upload(&[1.0f32, 2.0], &[1, 2]).unwrap();
        let y = device.zeros::<f32>(&[1, 2]).unwrap();
        let index = device.upload(&[i32::MIN], &[1]).unwrap();
        let bytes = device.zeros::<u8>(&[2]).unwrap();
        // The masks of the bank are all the same two bytes; index times stride would leave them.
        let bank = |stride| {
            let shape = [(1usize << 31) + 8, 2];
            RawTensor::new(bytes.pointer(), Dtype::U8, &shape, &[stride, 1]).unwrap()
        };
        let mut tensors = forward((&x).into(), (&y).into());
        tensors.mask.bytes = Some((bank(0), Polarity::Exclude));
        tensors.mask.bank_index = Some((&index).into());
        // SAFETY: memory of the device, as large as the shapes say.
        unsafe { ScaledMaskedSoftmax::new(1.0).forward_raw(&stream, &tensors) }.unwrap();
        assert!(y.to_vec().unwrap().iter().all(|y| y.is_nan()));
    });
}

#[test]
fn a_stride_is_missing() {
    on_every_backend(|device| {
        let stream = device.default_stream();
        let y = RawTensor::contiguous(8192, Dtype::F32, &[2, 3, 4]).unwrap();
        let x = RawTensor { pointer: 4096, strides: Dims::new(&[1]).unwrap(), ..y };
        let found = ScaledMaskedSoftmax::new(1.0).explain_raw(&stream, &forward(x, y)).unwrap_err();
        assert!(
            matches!(found, Error::RankMismatch { tensor: "x", expected: 3, found: 1 }),
            "{found:?}"
        );
    });
}

#[test]
fn sizes_that_no_memory_has() {
    on_every_backend(|device| {
        let stream = device.default_stream();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let x = RawTensor::new(4096, Dtype::F32, &[usize::MAX], &[1]).unwrap();
        let tensors = forward(x, RawTensor { pointer: 8192, ..x });
        // SAFETY: refused.
        let error = unsafe { softmax.forward_raw(&stream, &tensors) }.unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error:?}");

        // Without rows there is nothing to do, however long they would be.
        let x = device.empty::<f32>(&[0, 1 << 60]).unwrap();
        assert!(softmax.forward(&x, Mask::none()).unwrap().is_empty());
    });
}

/// Rows without columns have nothing but an lse, and are not launched for none.
#[test]
fn rows_without_columns_are_not_launched() {
    on_every_backend(|device| {
        let x = device.empty::<f32>(&[1 << 36, 0]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let found = softmax
            .explain_raw(&device.default_stream(), &forward((&x).into(), (&x).into()))
            .unwrap();
        assert!(found.launches.is_empty());
        assert!(softmax.forward(&x, Mask::none()).unwrap().is_empty());
    });
}
