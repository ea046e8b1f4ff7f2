//! Lengths, indices and names that are out of range.

use super::{Problem, refused, reshaped};
use fused_attention::{
    BankIndex, Error, Mask, Polarity, RawForward, RowLengths, ScaledMaskedSoftmax, SoftmaxInputs,
};
use half::f16;
use support::on_every_backend;

#[test]
fn banks() {
    refused! {
        |t, _p| (t.mask.bytes, t.mask.additive) = (None, None) => Error::MissingMaskBank,
        // The bank's dimension does not count among those that broadcast.
        |t, p| t.mask.bytes =
                Some((reshaped((&p.bytes).into(), &[2, 3], &[3, 1]), Polarity::Keep)) =>
            Error::NotBroadcastable { tensor: "mask", .. },
    }
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for (values, wrong) in
            [([0, 2], (1, 2)), ([-1, 0], (0, -1)), ([1, i32::MAX], (1, i32::MAX))]
        {
            let index = BankIndex::per_batch(device, &values).unwrap();
            let mask = Mask::exclude(&problem.bytes).from_bank(&index);
            let inputs = SoftmaxInputs::new(&problem.x).mask(mask);
            let (stream, softmax) = (device.default_stream(), ScaledMaskedSoftmax::new(1.0));
            let error = softmax.forward_into(&stream, inputs, &problem.y, None).unwrap_err();
            problem.check_untouched();
            let Error::BankIndexOutOfRange { index, value, bank: 2 } = error else {
                panic!("{error:?}");
            };
            assert_eq!((index, value), (wrong.0, i64::from(wrong.1)));
        }
    });
}

#[test]
fn lengths() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        for (values, wrong) in
            [([0, 9], (1, 9)), ([-1, 8], (0, -1)), ([8, i32::MIN], (1, i32::MIN))]
        {
            let by_row = values.map(|length| [length; 3]).concat();
            for (lengths, rows) in [
                (RowLengths::per_batch(device, &values).unwrap(), 1),
                (RowLengths::per_row(device, &by_row, &[2, 3]).unwrap(), 3),
            ] {
                let inputs = SoftmaxInputs::new(&problem.x).mask(Mask::none().lengths(&lengths));
                let (stream, softmax) = (device.default_stream(), ScaledMaskedSoftmax::new(1.0));
                let error = softmax.forward_into(&stream, inputs, &problem.y, None).unwrap_err();
                problem.check_untouched();
                let Error::LengthBeyondRow { index, length, row: 8 } = error else {
                    panic!("{error:?}");
                };
                assert_eq!((index / rows, length), (wrong.0, i64::from(wrong.1)));
            }
        }
        let error = RowLengths::per_row(device, &[1, 2], &[2, 3]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 6, found: 2, .. }), "{error:?}");
    });
}

#[test]
fn tiles() {
    let error = ScaledMaskedSoftmax::new(1.0).with_tile("warp3").unwrap_err();
    let Error::NoSuchTile { tile, known } = &error else { panic!("{error:?}") };
    assert_eq!(tile, "warp3");
    assert!(known.contains("warp4") && known.contains("ragged_streamed4"), "{known}");
    on_every_backend(|device| {
        // Rows of 7: off the 16-byte grid.
        let x = device.zeros::<f16>(&[2, 7]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0).with_tile("warp4").unwrap();
        let error = softmax.forward(&x, Mask::none()).unwrap_err();
        let Error::NoEligibleTile { operation: "softmax forward", tried } = &error else {
            panic!("{error:?}")
        };
        assert!(tried.contains("warp4: rows, masks or output are not all on 16-byte"), "{tried}");
        assert!(tried.contains("streamed4: the options ask for warp4"), "{tried}");
        // More than the tile holds.
        let x = device.zeros::<f16>(&[2, 1032]).unwrap();
        let error = softmax.forward(&x, Mask::none()).unwrap_err();
        assert!(error.to_string().contains("rows of up to 1024 columns, not 1032"), "{error}");
        // Nothing was written.
        let problem = Problem::new(device);
        problem.refuse(softmax.with_tile("ragged_cluster4").unwrap(), {
            let mut tensors = problem.full();
            tensors.y = tensors.x;
            tensors
        });
    });
}
