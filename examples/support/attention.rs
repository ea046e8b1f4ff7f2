//! Attention of tensors from a file, compared with the reference, and its time.

use crate::{
    tensor_file::{FileError, OwnedTensor, Stored, StoredTensor, TensorFile},
    timing::{Timing, measure},
};
use fused_attention::{
    Attention, AttentionInputs, Causal, Device, Element, Error, RowLengths,
    reference::{
        attention::{AttentionProblem, Rows},
        tolerance::{Deviation, Mismatch, check_lse, check_output},
    },
};
use half::{bf16, f16};
use safetensors::Dtype;

/// Which tensors of a file, and what to do with them.
#[derive(Debug, Clone)]
pub struct AttentionRequest<'a> {
    /// The tensors of queries, keys and values: batch, heads, rows, elements.
    pub tensors: [&'a str; 3],
    /// The tensor that says how many rows of each batch entry count: I32.
    pub lengths: Option<&'a str>,
    /// What products of queries and keys are multiplied by.
    pub scale: Option<f64>,
    /// Hide the keys to the right of the diagonal.
    pub causal: Option<Causal>,
    /// Show only keys so far left of the diagonal, and so far right of it.
    pub window: Option<(i64, i64)>,
}

impl AttentionRequest<'_> {
    /// The request in words.
    ///
    /// # Errors
    /// The file does not have what is asked for.
    pub fn describe(&self, file: &TensorFile) -> Result<String, FileError> {
        let mut words = format!("{}:", file.name());
        for name in self.tensors.iter().chain(&self.lengths) {
            words += &format!(" {name} {},", file.tensor(name)?);
        }
        words += &match self.scale {
            Some(scale) => format!(" scale {scale}"),
            None => " scale 1/sqrt(elements)".to_owned(),
        };
        match self.causal {
            None => {}
            Some(Causal::TopLeft) => words += ", causal from the top left",
            Some(_) => words += ", causal to the bottom right",
        }
        if let Some((left, right)) = self.window {
            words += &format!(", window ({left}, {right})");
        }
        Ok(words)
    }

    fn options(&self) -> Attention {
        let mut attention = Attention::new();
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some((left, right)) = self.window {
            attention = attention.window(left, right);
        }
        if let Some(causal) = self.causal {
            attention = attention.causal(causal);
        }
        attention
    }
}

/// What came of it.
#[derive(Debug)]
pub struct AttentionReport {
    /// The kernel, how it is cut, and why.
    pub plan: String,
    /// How far the result is from the reference, if that is within the tolerance.
    pub check: Result<Deviation, Mismatch>,
    /// The time of a run.
    pub time: Timing,
    /// The output, of q's type.
    pub o: OwnedTensor,
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

    /// A tensor of another type than the others, or one that there is no attention of.
    #[error("{name} of {file} holds {found}; expected {expected}")]
    Dtype {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// Its type.
        found: Dtype,
        /// What it should hold.
        expected: String,
    },
}

/// Computes attention on a device, compares it with the reference in f64, and measures it.
///
/// # Errors
/// The file does not have what is asked for, the library refuses it, or the device fails. A wrong
/// result is no error here: the report says so.
pub fn run(
    device: &Device,
    file: &TensorFile,
    request: &AttentionRequest<'_>,
) -> Result<AttentionReport, Refusal> {
    let refuse = |name: &str, found, expected: &str| {
        let (file, name) = (file.name().to_owned(), name.to_owned());
        Err(Refusal::Dtype { file, name, found, expected: expected.to_owned() })
    };
    let [q, k, v] = request.tensors;
    let tensors = [file.tensor(q)?, file.tensor(k)?, file.tensor(v)?];
    let dtype = tensors[0].dtype;
    for (name, tensor) in request.tensors.iter().zip(&tensors) {
        if tensor.dtype != dtype {
            return refuse(name, tensor.dtype, &format!("{dtype} as in {q}"));
        }
    }
    let lengths = request.lengths.map(|name| file.tensor(name)).transpose()?;
    if let (Some(lengths), Some(name)) = (&lengths, request.lengths)
        && lengths.dtype != Dtype::I32
    {
        return refuse(name, lengths.dtype, "I32");
    }
    let lengths: Option<Vec<i32>> = lengths.map(|lengths| lengths.elements());
    let lengths = lengths.as_deref();
    Ok(match dtype {
        Dtype::F16 => run_as::<f16>(device, request, &tensors, lengths)?,
        Dtype::BF16 => run_as::<bf16>(device, request, &tensors, lengths)?,
        Dtype::F32 => run_as::<f32>(device, request, &tensors, lengths)?,
        found => return refuse(q, found, "F16, BF16 or F32"),
    })
}

fn run_as<T: Element + Stored>(
    device: &Device,
    request: &AttentionRequest<'_>,
    tensors: &[StoredTensor<'_>; 3],
    lengths: Option<&[i32]>,
) -> Result<AttentionReport, Error> {
    let upload = |tensor: &StoredTensor<'_>| device.upload(&tensor.elements::<T>(), &tensor.shape);
    let [q, k, v] = tensors;
    let (q, k, v) = (upload(q)?, upload(k)?, upload(v)?);
    let attention = request.options();
    let on_device = lengths.map(|lengths| RowLengths::per_batch(device, lengths)).transpose()?;
    let mut inputs = AttentionInputs::new(&q, &k, &v);
    if let Some(lengths) = &on_device {
        inputs = inputs.lengths(lengths).query_lengths(lengths);
    }
    let output = attention.forward(&inputs)?;
    let (o, lse) = (output.o.to_vec()?, output.lse.to_vec()?);
    let plan = attention.explain(&inputs, &output.o)?.to_string();
    let stream = device.default_stream();
    let run = || attention.forward_into(&stream, &inputs, &output.o, Some(&output.lse));
    Ok(AttentionReport {
        plan,
        check: check(request, tensors, lengths, &o, &lse),
        time: measure(device, run)?,
        o: OwnedTensor::new(&o, output.o.shape()),
        lse: OwnedTensor::new(&lse, output.lse.shape()),
    })
}

/// Compares with the reference. The library has found the shapes right.
fn check<T: Element>(
    request: &AttentionRequest<'_>,
    tensors: &[StoredTensor<'_>; 3],
    lengths: Option<&[i32]>,
    o: &[T],
    lse: &[f32],
) -> Result<Deviation, Mismatch> {
    let numbers = tensors.each_ref().map(|tensor| tensor.numbers());
    let rows = |i: usize| {
        let shape = &tensors[i].shape;
        Rows::contiguous(&numbers[i], shape[1], shape[2], shape[3])
    };
    let (q_shape, k_shape) = (&tensors[0].shape, &tensors[1].shape);
    let head_dim = q_shape[3];
    let scale = request.scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt());
    let length = |batch: usize| lengths.map_or(usize::MAX, |lengths| lengths[batch] as usize);
    let problem = AttentionProblem {
        batch: q_shape[0],
        heads: q_shape[1],
        kv_heads: k_shape[1],
        // The kernel has the scale in f32.
        scale: f64::from(scale as f32),
        causal: request.causal,
        window: request.window.unwrap_or((-1, -1)),
        query_lengths: Some(&length),
        key_lengths: Some(&length),
        ..AttentionProblem::new(rows(0), rows(1), rows(2), q_shape[2], k_shape[2])
    };
    let expected = problem.solve();
    let value_dim = tensors[2].shape[3];
    let deviation = check_output(o, &expected.o, &problem.solve_unfused::<T>(), value_dim)?;
    check_lse(lse, &expected.lse)?;
    Ok(deviation)
}
