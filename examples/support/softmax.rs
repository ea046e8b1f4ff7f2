//! A softmax of tensors from a file, compared with the reference, and its time.

use crate::{
    tensor_file::{FileError, OwnedTensor, Stored, StoredTensor, TensorFile},
    timing::{Timing, measure},
};
use fused_attention::{
    Accumulate, Causal, Device, Element, Error, GradientInputs, Mask, ScaledMaskedSoftmax,
    SoftmaxInputs, Tensor,
    reference::{
        softmax::{ElementFn, MaskFn, Saved, SoftmaxProblem},
        tolerance::{Deviation, Mismatch, check_gradient, check_lse, check_output},
    },
};
use half::{bf16, f16};
use safetensors::Dtype;

pub use fused_attention::Polarity;

/// Which tensors of a file, and what to do with them.
#[derive(Debug, Clone)]
pub struct SoftmaxRequest<'a> {
    /// The tensor of scores, of any shape; its last dimension holds the keys.
    pub scores: &'a str,
    /// The tensor that masks them, of a shape that broadcasts to that of the scores: bytes or
    /// bools that hide, or numbers that are added.
    pub mask: Option<&'a str>,
    /// What nonzero bytes mean.
    pub polarity: Polarity,
    /// What scores are multiplied by.
    pub scale: f64,
    /// Hide the keys to the right of the diagonal.
    pub causal: Option<Causal>,
}

impl SoftmaxRequest<'_> {
    /// The request in words.
    ///
    /// # Errors
    /// The file does not have what is asked for.
    pub fn describe(&self, file: &TensorFile) -> Result<String, FileError> {
        let scores = file.tensor(self.scores)?;
        let mut words = format!("{}: {} {scores}, scale {}", file.name(), self.scores, self.scale);
        if let Some(name) = self.mask {
            let mask = file.tensor(name)?;
            let meaning = match (mask.dtype, self.polarity) {
                (Dtype::U8 | Dtype::BOOL, Polarity::Exclude) => "nonzero hides",
                (Dtype::U8 | Dtype::BOOL, Polarity::Keep) => "nonzero shows",
                _ => "added",
            };
            words += &format!(", {name} {mask} ({meaning})");
        }
        match self.causal {
            None => {}
            Some(Causal::TopLeft) => words += ", causal from the top left",
            Some(_) => words += ", causal to the bottom right",
        }
        Ok(words)
    }
}

/// What came of it.
#[derive(Debug)]
pub struct SoftmaxReport {
    /// The kernel, how it is cut, and why.
    pub plan: String,
    /// The same for the backward.
    pub backward_plan: String,
    /// How far the result is from the reference, if that is within the tolerance.
    pub check: Result<Deviation, Mismatch>,
    /// The same for the backward's result, where the scores themselves are the gradient of the
    /// probabilities.
    pub backward_check: Result<Deviation, Mismatch>,
    /// The time of a run.
    pub time: Timing,
    /// The probabilities, of the scores' type and shape.
    pub probabilities: OwnedTensor,
    /// The log-sum-exp of each row.
    pub lse: OwnedTensor,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file does not have what is asked for.
    #[error(transparent)]
    File(#[from] FileError),

    /// The library refuses the problem, or the device fails.
    #[error(transparent)]
    Library(#[from] Error),

    /// Scores of a type that there is no softmax of.
    #[error("{name} of {file} holds {found}; scores are F16, BF16, F32 or F64")]
    ScoresDtype {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// Its type.
        found: Dtype,
    },

    /// A mask of a type that does not mask.
    #[error("{name} of {file} holds {found}; a mask is U8, BOOL, F32 or of the scores' {scores}")]
    MaskDtype {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// Its type.
        found: Dtype,
        /// The scores' type.
        scores: Dtype,
    },
}

/// Computes the softmax on a device, compares it with the reference in f64, and measures it.
///
/// # Errors
/// The file does not have what is asked for, the library refuses it, or the device fails. A wrong
/// result is no error here: the report says so.
pub fn run(
    device: &Device,
    file: &TensorFile,
    request: &SoftmaxRequest<'_>,
) -> Result<SoftmaxReport, Refusal> {
    let scores = file.tensor(request.scores)?;
    let mask = request.mask.map(|name| file.tensor(name)).transpose()?;
    if let (Some(mask), Some(name)) = (&mask, request.mask) {
        let adds = mask.dtype == scores.dtype || mask.dtype == Dtype::F32;
        if !adds && !matches!(mask.dtype, Dtype::U8 | Dtype::BOOL) {
            let (file, name) = (file.name().to_owned(), name.to_owned());
            return Err(Refusal::MaskDtype { file, name, found: mask.dtype, scores: scores.dtype });
        }
    }
    let run = match scores.dtype {
        Dtype::F16 => run_as::<f16>,
        Dtype::BF16 => run_as::<bf16>,
        Dtype::F32 => run_as::<f32>,
        Dtype::F64 => run_as::<f64>,
        found => {
            let (file, name) = (file.name().to_owned(), request.scores.to_owned());
            return Err(Refusal::ScoresDtype { file, name, found });
        }
    };
    Ok(run(device, request, &scores, mask.as_ref())?)
}

fn run_as<T>(
    device: &Device,
    request: &SoftmaxRequest<'_>,
    scores: &StoredTensor<'_>,
    mask: Option<&StoredTensor<'_>>,
) -> Result<SoftmaxReport, Error>
where
    T: Accumulate<Accumulator: Stored> + Stored,
{
    let x = device.upload(&scores.elements::<T>(), &scores.shape)?;
    let uploaded = UploadedMask::new(device, mask)?;
    let mut softmax = ScaledMaskedSoftmax::new(request.scale);
    if let Some(causal) = request.causal {
        softmax = softmax.causal(causal);
    }
    let mask_on_device = uploaded.as_mask(request.polarity);
    let inputs = SoftmaxInputs::new(&x).mask(mask_on_device);
    let (y, lse) = softmax.forward_with_lse(inputs)?;
    let (probabilities, log_sums) = (y.to_vec()?, lse.to_vec()?);
    let plan = softmax.explain(inputs, &y)?.to_string();
    let gradients = GradientInputs::from_probabilities(&y, &x).mask(mask_on_device);
    let dx = softmax.backward(gradients)?;
    let backward_plan = softmax.explain_backward(gradients, &dx)?.to_string();
    let dx = dx.to_vec()?;
    let stream = device.default_stream();
    let time = measure(device, || softmax.forward_into(&stream, inputs, &y, Some(&lse)))?;
    let found = Found { p: &probabilities, lse: &log_sums, dx: &dx };
    let (check, backward_check) = check(request, scores, mask, found);
    Ok(SoftmaxReport {
        plan,
        backward_plan,
        check,
        backward_check,
        time,
        probabilities: OwnedTensor::new(&probabilities, &scores.shape),
        lse: OwnedTensor::new(&log_sums, lse.shape()),
    })
}

/// A mask on the device, by its type there.
enum UploadedMask {
    None,
    Bytes(Tensor<u8>),
    F16(Tensor<f16>),
    Bf16(Tensor<bf16>),
    F32(Tensor<f32>),
    F64(Tensor<f64>),
}

impl UploadedMask {
    fn new(device: &Device, mask: Option<&StoredTensor<'_>>) -> Result<Self, Error> {
        let Some(mask) = mask else { return Ok(UploadedMask::None) };
        let shape = &mask.shape;
        Ok(match mask.dtype {
            Dtype::F16 => UploadedMask::F16(device.upload(&mask.elements(), shape)?),
            Dtype::BF16 => UploadedMask::Bf16(device.upload(&mask.elements(), shape)?),
            Dtype::F32 => UploadedMask::F32(device.upload(&mask.elements(), shape)?),
            Dtype::F64 => UploadedMask::F64(device.upload(&mask.elements(), shape)?),
            _ => UploadedMask::Bytes(device.upload(&mask.elements(), shape)?),
        })
    }

    fn as_mask(&self, polarity: Polarity) -> Mask<'_> {
        match (self, polarity) {
            (UploadedMask::None, _) => Mask::none(),
            (UploadedMask::Bytes(mask), Polarity::Exclude) => Mask::exclude(mask),
            (UploadedMask::Bytes(mask), Polarity::Keep) => Mask::keep(mask),
            (UploadedMask::F16(mask), _) => Mask::additive(mask),
            (UploadedMask::Bf16(mask), _) => Mask::additive(mask),
            (UploadedMask::F32(mask), _) => Mask::additive(mask),
            (UploadedMask::F64(mask), _) => Mask::additive(mask),
        }
    }
}

/// What a device has computed.
struct Found<'a, T: Accumulate> {
    p: &'a [T],
    lse: &'a [T::Accumulator],
    dx: &'a [T],
}

/// Compares the forward, and the backward, with the reference.
fn check<T>(
    request: &SoftmaxRequest<'_>,
    scores: &StoredTensor<'_>,
    mask: Option<&StoredTensor<'_>>,
    found: Found<'_, T>,
) -> (Result<Deviation, Mismatch>, Result<Deviation, Mismatch>)
where
    T: Accumulate<Accumulator: Stored> + Stored,
{
    let x = scores.numbers();
    let (leading, columns) = match &*scores.shape {
        [leading @ .., columns] => (leading, *columns),
        [] => (&[][..], 1),
    };
    let rows = leading.last().copied().unwrap_or(1);
    let numbers = mask.map(StoredTensor::numbers).unwrap_or_default();
    let value = |matrix: usize, i: usize, j: usize| {
        let flat = (matrix * rows + i) * columns + j;
        numbers[broadcast_index(flat, &scores.shape, mask.map_or(&[], |mask| &mask.shape))]
    };
    let excluded =
        |matrix, i, j| (value(matrix, i, j) != 0.0) == (request.polarity == Polarity::Exclude);
    let mut problem = SoftmaxProblem::new(&x, rows, columns);
    // The kernel has the scale in its accumulator's type.
    problem.scale = T::Accumulator::from_f64(request.scale).to_f64();
    problem.causal = request.causal;
    match mask.map(|mask| mask.dtype) {
        None => {}
        Some(Dtype::U8 | Dtype::BOOL) => problem.excluded = Some(&excluded as MaskFn<'_>),
        Some(_) => problem.additive = Some(&value as ElementFn<'_>),
    }
    let reference = problem.solve();
    let unfused = problem.solve_unfused::<T>();
    let mut forward = check_output(found.p, &reference.p, &unfused, columns);
    if columns > 0 {
        let lse = check_lse(found.lse, &reference.lse);
        forward = forward.and_then(|deviation| lse.map(|()| deviation));
    }
    let p: Vec<f64> = found.p.iter().map(|p| p.to_f64()).collect();
    let problem = SoftmaxProblem { x: &p, ..problem };
    let expected = problem.solve_backward(Saved::Probabilities, &x);
    let unfused = problem.solve_backward_unfused::<T>(Saved::Probabilities, &x);
    (forward, check_gradient(found.dx, &expected, &unfused, columns))
}

/// Where the element numbered `flat` in a tensor of shape `to` is in one of shape `from`, which
/// broadcasts to it.
fn broadcast_index(mut flat: usize, to: &[usize], from: &[usize]) -> usize {
    let (mut index, mut stride) = (0, 1);
    for (&size, &own) in to.iter().rev().zip(from.iter().rev()) {
        if own != 1 {
            index += flat % size * stride;
        }
        flat /= size;
        stride *= own;
    }
    index
}
