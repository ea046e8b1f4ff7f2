//! Everything that is refused: by its own error, with its values, before anything is written.

mod forms;
mod memory;
mod values;

use fused_attention::{
    Device, Dtype, Error, Per, Polarity, RawForward, RawTensor, ScaledMaskedSoftmax, Tensor,
};
use support::on_every_backend;

const SHAPE: [usize; 3] = [2, 3, 8];
const STRIDES: [i64; 3] = [24, 8, 1];
const UNTOUCHED: f32 = 7.0;

/// A problem that is right, to be made wrong in one thing.
struct Problem {
    device: Device,
    x: Tensor<f32>,
    y: Tensor<f32>,
    lse: Tensor<f32>,
    scale: Tensor<f32>,
    bytes: Tensor<u8>,
    additive: Tensor<f32>,
    lengths: Tensor<i32>,
    index: Tensor<i32>,
}

impl Problem {
    fn new(device: &Device) -> Self {
        let filled = |shape: &[usize]| {
            device.upload(&vec![UNTOUCHED; shape.iter().product()], shape).unwrap()
        };
        Problem {
            x: device.zeros(&SHAPE).unwrap(),
            y: filled(&SHAPE),
            lse: filled(&SHAPE[..2]),
            scale: filled(&[1]),
            bytes: device.zeros(&[2, 2, 3, 8]).unwrap(),
            additive: device.zeros(&[2, 2, 3, 8]).unwrap(),
            lengths: device.zeros(&[2]).unwrap(),
            index: device.zeros(&[2]).unwrap(),
            device: device.clone(),
        }
    }

    /// All of it.
    fn full(&self) -> RawForward {
        let mut tensors = self.plain();
        tensors.scale = Some((&self.scale).into());
        tensors.mask.bytes = Some(((&self.bytes).into(), Polarity::Exclude));
        tensors.mask.additive = Some((&self.additive).into());
        tensors.mask.lengths = Some(((&self.lengths).into(), Per::Batch));
        tensors.mask.bank_index = Some((&self.index).into());
        tensors
    }

    /// Without masks.
    fn plain(&self) -> RawForward {
        RawForward {
            x: (&self.x).into(),
            y: (&self.y).into(),
            lse: Some((&self.lse).into()),
            scale: None,
            mask: Default::default(),
        }
    }

    /// The error of a call with these tensors; nothing may be written.
    #[track_caller]
    fn refuse(&self, softmax: ScaledMaskedSoftmax, tensors: RawForward) -> Error {
        // SAFETY: what is right of the tensors is memory of the device, and the rest is refused.
        let result = unsafe { softmax.forward_raw(&self.device.default_stream(), &tensors) };
        let error = result.expect_err("should have been refused");
        self.check_untouched();
        error
    }

    #[track_caller]
    fn check_untouched(&self) {
        self.device.synchronize().unwrap();
        assert_eq!(self.y.to_vec().unwrap(), [UNTOUCHED; 48]);
        assert_eq!(self.lse.to_vec().unwrap(), [UNTOUCHED; 6]);
    }
}

/// On every backend: a call whose tensors `$change` has made wrong gives `$error`.
macro_rules! refused {
    ($(|$tensors:ident, $problem:ident| $change:expr => $error:pat,)*) => {
        on_every_backend(|device| {
            let problem = Problem::new(device);
            $({
                let mut tensors = problem.full();
                let change = |$tensors: &mut RawForward, $problem: &Problem| {
                    let _ = $problem;
                    $change
                };
                change(&mut tensors, &problem);
                let error = problem.refuse(ScaledMaskedSoftmax::new(1.0), tensors);
                assert!(matches!(&error, $error), "{}: {error:?}", stringify!($change));
            })*
        });
    };
}
use refused;

fn raw(pointer: u64, dtype: Dtype, shape: &[usize], strides: &[i64]) -> RawTensor {
    RawTensor::new(pointer, dtype, shape, strides).unwrap()
}

/// The same memory in another form.
fn reshaped(tensor: RawTensor, shape: &[usize], strides: &[i64]) -> RawTensor {
    raw(tensor.pointer, tensor.dtype, shape, strides)
}

fn of_dtype(tensor: RawTensor, dtype: Dtype) -> RawTensor {
    RawTensor { dtype, ..tensor }
}

#[test]
fn the_problem_is_right() {
    on_every_backend(|device| {
        let problem = Problem::new(device);
        let softmax = ScaledMaskedSoftmax::new(1.0);
        for tensors in [problem.plain(), problem.full()] {
            // SAFETY: the tensors are the problem's, on the stream's device.
            unsafe { softmax.forward_raw(&device.default_stream(), &tensors) }.unwrap();
            assert!(problem.y.to_vec().unwrap().iter().all(|&y| y < 1.0));
        }
    });
}
