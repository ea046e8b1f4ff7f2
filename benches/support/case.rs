//! A problem with its tensors: runs, and checks against the f64 reference.

use crate::{Direction, MaskKind, Problem, Result, data::Repeating, problem::WINDOW};
use fused_attention::{
    Accumulate, Causal, Device, Element, Explanation, GradientInputs, Mask, RowLengths,
    ScaledMaskedSoftmax, SoftmaxInputs, Stream, Tensor, backward_tile_names,
    reference::{
        softmax::{Saved, SoftmaxProblem},
        tolerance::{check_gradient, check_output},
    },
    tile_names,
};

/// What scores are multiplied by.
pub const SCALE: f64 = 0.125;

/// Rows of a problem that are compared with the reference.
const CHECKED_ROWS: usize = 7;

/// Device memory for problems, one after the other.
pub struct Buffers<T: Accumulate> {
    scores: Repeating<T>,
    /// Gradients of probabilities.
    gradients: Repeating<T>,
    /// Added to scores.
    addends: Repeating<T>,
    excluded: Repeating<u8>,
    /// Tensors of x's size, each an allocation of its own, as a caller's are.
    elements: Vec<Tensor<T>>,
    bytes: Tensor<u8>,
    /// From where to where copies go that the problems are compared with.
    yardstick: [Tensor<T>; 2],
}

impl<T: Accumulate> Buffers<T> {
    /// Memory that is enough for each of these problems.
    ///
    /// # Errors
    /// There is not enough.
    pub fn for_problems(device: &Device, problems: &[Problem]) -> Result<Self> {
        let of_a_size = |size: usize| -> Result<Tensor<T>> { Ok(device.empty(&[size])?) };
        let copied = || of_a_size(most(problems, copied_bytes).div_ceil(size_of::<T>()));
        let tensors = 0..most(problems, Problem::tensors);
        let buffers = Buffers {
            scores: Repeating::normal(1),
            gradients: Repeating::normal(2),
            addends: Repeating::normal(3),
            excluded: Repeating::ones(4, 1.0 / 3.0),
            elements: tensors.map(|_| of_a_size(tensor_size(problems))).collect::<Result<_>>()?,
            bytes: device.empty(&[most(problems, Problem::mask_bytes)])?,
            yardstick: [copied()?, copied()?],
        };
        buffers.scores.fill(&buffers.yardstick[0])?;
        buffers.excluded.fill(&buffers.bytes)?;
        Ok(buffers)
    }

    /// The device memory that [`Buffers::for_problems`] takes.
    pub fn bytes_for(problems: &[Problem]) -> usize {
        tensor_size(problems) * most(problems, Problem::tensors) * size_of::<T>()
            + most(problems, Problem::mask_bytes)
            + 2 * most(problems, copied_bytes)
    }
}

fn most(problems: &[Problem], size: impl Fn(&Problem) -> usize) -> usize {
    problems.iter().map(size).max().unwrap_or(0)
}

/// Elements of a tensor that holds each of the problems'.
fn tensor_size(problems: &[Problem]) -> usize {
    aligned(most(problems, Problem::elements))
}

/// A number of elements after which the next tensor is aligned as an allocation is.
fn aligned(elements: usize) -> usize {
    elements.next_multiple_of(256)
}

/// Half of what a copy of as many bytes as a problem moves reads and writes.
fn copied_bytes(problem: &Problem) -> usize {
    problem.bytes() / 2
}

/// A problem with its tensors.
pub struct Case<'a, T: Accumulate> {
    /// The problem.
    pub problem: Problem,
    /// Its options.
    pub softmax: ScaledMaskedSoftmax,
    buffers: &'a Buffers<T>,
    /// Scores, or probabilities.
    source: Tensor<T>,
    /// Probabilities, or the gradient of scores.
    output: Tensor<T>,
    /// Of the probabilities, in a backward.
    gradient: Option<Tensor<T>>,
    /// Added to scores.
    additive: Option<Tensor<T>>,
    excluded: Option<Tensor<u8>>,
    /// Where in the buffers the bytes begin.
    first_byte: usize,
    lengths: Option<RowLengths>,
}

impl<'a, T: Accumulate> Case<'a, T> {
    /// The problem on buffers that were made for it.
    ///
    /// # Errors
    /// They were not.
    pub fn new(buffers: &'a Buffers<T>, problem: Problem) -> Result<Self> {
        Self::nth(buffers, problem, 0)
    }

    /// How many problems of a size the buffers hold side by side.
    pub fn places(buffers: &Buffers<T>, problem: Problem) -> usize {
        let in_elements = buffers.elements[0].len() / aligned(problem.elements()).max(1);
        match problem.mask_bytes() {
            0 => in_elements,
            bytes => in_elements.min(buffers.bytes.len() / aligned(bytes)),
        }
    }

    /// The problem on a part of buffers that hold it several times, from 0 on.
    ///
    /// # Errors
    /// They do not.
    pub fn nth(buffers: &'a Buffers<T>, problem: Problem, place: usize) -> Result<Self> {
        let device = buffers.bytes.device();
        let first_byte = place * aligned(problem.mask_bytes());
        let view = |number: usize| {
            let start = place * aligned(problem.elements());
            buffers.elements[number].narrow(0, start, problem.elements())?.reshape(&problem.shape)
        };
        let excluded = problem.mask_shape().map(|shape| {
            buffers.bytes.narrow(0, first_byte, problem.mask_bytes())?.reshape(&shape)
        });
        let lengths = (problem.mask == MaskKind::Lengths).then(|| {
            let lengths = (0..problem.shape[0]).map(|batch| problem.length(batch) as i32);
            RowLengths::per_batch(device, &lengths.collect::<Vec<_>>())
        });
        let softmax = ScaledMaskedSoftmax::new(SCALE);
        let softmax = match problem.mask {
            MaskKind::Causal => softmax.causal(Causal::BottomRight),
            MaskKind::Window => softmax.window(WINDOW as i64, 0),
            _ => softmax,
        };
        let is_backward = problem.direction != Direction::Forward;
        let is_additive = problem.mask == MaskKind::Additive;
        let case = Case {
            problem,
            softmax,
            buffers,
            source: view(0)?,
            output: view(1)?,
            gradient: is_backward.then(|| view(2)).transpose()?,
            additive: is_additive.then(|| view(problem.tensors() - 1)).transpose()?,
            excluded: excluded.transpose()?,
            first_byte,
            lengths: lengths.transpose()?,
        };
        if let Some(additive) = &case.additive {
            buffers.addends.fill(additive)?;
        }
        if problem.direction == Direction::Backward {
            // The scores are only needed for the probabilities.
            let scores = SoftmaxInputs::new(&case.output).mask(case.mask());
            buffers.scores.fill(&case.output)?;
            softmax.forward_into(&device.default_stream(), scores, &case.source, None)?;
        } else {
            buffers.scores.fill(&case.source)?;
        }
        if let Some(gradient) = &case.gradient {
            buffers.gradients.fill(gradient)?;
        }
        Ok(case)
    }

    /// With another tile than the preferred one, if it can run the problem.
    ///
    /// # Errors
    /// There is no such tile.
    pub fn with_tile(&self, tile: &str) -> Result<Option<ScaledMaskedSoftmax>> {
        let softmax = self.softmax.with_tile(tile)?;
        Ok(self.explain(&softmax).is_ok().then_some(softmax))
    }

    /// The names of the tiles of what is computed.
    pub fn tile_names(&self) -> Vec<&'static str> {
        match self.problem.direction {
            Direction::Forward => tile_names().collect(),
            _ => backward_tile_names().collect(),
        }
    }

    /// Which kernel runs the problem, and why.
    ///
    /// # Errors
    /// None can.
    pub fn explain(&self, softmax: &ScaledMaskedSoftmax) -> Result<Explanation> {
        Ok(match self.gradients(self.mask()) {
            Some(inputs) => softmax.explain_backward(inputs, &self.output)?,
            None => softmax.explain(self.scores(self.mask()), &self.output)?,
        })
    }

    /// Enqueues the problem.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn run(&self, softmax: &ScaledMaskedSoftmax, stream: &Stream) -> Result<()> {
        self.run_masked(softmax, self.mask(), stream)
    }

    /// Enqueues the problem without its mask.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn run_unmasked(&self, stream: &Stream) -> Result<()> {
        self.run_masked(&ScaledMaskedSoftmax::new(SCALE), Mask::none(), stream)
    }

    fn run_masked(
        &self,
        softmax: &ScaledMaskedSoftmax,
        mask: Mask<'_>,
        stream: &Stream,
    ) -> Result<()> {
        match self.gradients(mask) {
            Some(inputs) => softmax.backward_into(stream, inputs, &self.output)?,
            None => softmax.forward_into(stream, self.scores(mask), &self.output, None)?,
        }
        Ok(())
    }

    /// From where to where a copy of as many bytes as the problem moves goes, and how many it
    /// reads.
    pub fn copied(&self) -> (u64, u64, usize) {
        let [from, to] = &self.buffers.yardstick;
        (to.pointer(), from.pointer(), copied_bytes(&self.problem))
    }

    /// Device memory of the problem's tensors.
    pub fn tensor_bytes(&self) -> usize {
        self.problem.tensors() * self.problem.elements() * size_of::<T>()
            + self.problem.mask_bytes()
    }

    /// What a forward reads.
    fn scores<'b>(&'b self, mask: Mask<'b>) -> SoftmaxInputs<'b, T> {
        SoftmaxInputs::new(&self.source).mask(mask)
    }

    /// What a backward reads; None if the problem is none.
    fn gradients<'b>(&'b self, mask: Mask<'b>) -> Option<GradientInputs<'b, T>> {
        let gradient = self.gradient.as_ref()?;
        let inputs = match self.problem.direction {
            Direction::BackwardFromScores => GradientInputs::from_scores(&self.source, gradient),
            _ => GradientInputs::from_probabilities(&self.source, gradient),
        };
        Some(inputs.mask(mask))
    }

    fn mask(&self) -> Mask<'_> {
        let mask = self.excluded.as_ref().map_or(Mask::none(), Mask::exclude);
        let mask = match &self.additive {
            Some(additive) => mask.and_additive(additive),
            None => mask,
        };
        match &self.lengths {
            Some(lengths) => mask.lengths(lengths),
            None => mask,
        }
    }

    /// Runs once on a poisoned output, and compares rows at the begin, the end and between with
    /// the reference, by the tests' rule. Gives the largest relative error of a row in norm.
    ///
    /// # Errors
    /// A row is wrong.
    pub fn check(&self, softmax: &ScaledMaskedSoftmax, stream: &Stream) -> Result<f64> {
        let (rows, columns) = (self.problem.rows(), self.problem.columns());
        let between = (1..CHECKED_ROWS - 1).map(|random| random * 7919 % rows);
        let rows: Vec<usize> = [0, rows - 1].into_iter().chain(between).collect();
        let flat = [self.problem.rows(), columns];
        let (source, output) = (self.source.reshape(&flat)?, self.output.reshape(&flat)?);
        Repeating::constant(T::from_f64(f64::NAN)).fill(&self.output)?;
        self.run(softmax, stream)?;
        let mut worst = 0f64;
        for row in rows {
            let elements = |of: &Repeating<T>| -> Vec<f64> {
                (0..columns).map(|j| of.at(row * columns + j).to_f64()).collect()
            };
            let x = match self.problem.direction {
                Direction::Backward => {
                    source.narrow(0, row, 1)?.to_vec()?.iter().map(|p| p.to_f64()).collect()
                }
                _ => elements(&self.buffers.scores),
            };
            let excluded = self.hidden(row);
            let excluded = |_: usize, _: usize, j: usize| excluded[j];
            let mut problem = SoftmaxProblem::new(&x, 1, columns);
            problem.scale = SCALE;
            problem.excluded = Some(&excluded);
            let addends = elements(&self.buffers.addends);
            let additive = |_: usize, _: usize, j: usize| addends[j];
            problem.additive = self.additive.is_some().then_some(&additive);
            let got = output.narrow(0, row, 1)?.to_vec()?;
            let (expected, deviation) = match self.problem.direction {
                Direction::Forward => {
                    let expected = problem.solve().p;
                    let unfused = problem.solve_unfused::<T>();
                    let deviation = check_output(&got, &expected, &unfused, columns);
                    (expected, deviation)
                }
                direction => {
                    let saved = match direction {
                        Direction::Backward => Saved::Probabilities,
                        _ => Saved::Scores,
                    };
                    let dp = elements(&self.buffers.gradients);
                    let expected = problem.solve_backward(saved, &dp);
                    let unfused = problem.solve_backward_unfused::<T>(saved, &dp);
                    let deviation = check_gradient(&got, &expected, &unfused, columns);
                    (expected, deviation)
                }
            };
            let wrong = |what: &str| format!("row {row} of {:?}: {what}", self.problem);
            deviation.map_err(|mismatch| wrong(&mismatch.to_string()))?;
            if expected.iter().any(|value| value.is_nan()) {
                return Err(wrong("inputs that are NaN").into());
            }
            worst = worst.max(relative_error(&got, &expected));
        }
        Ok(worst)
    }

    /// Which elements of a row are hidden.
    fn hidden(&self, row: usize) -> Vec<bool> {
        let [_, heads, queries, columns] = self.problem.shape;
        let (batch, query) = (row / (heads * queries), row % queries);
        let visible = self.problem.visible(batch, query);
        let mask_row = self.problem.mask_row(row);
        let is_excluded = |j: usize| {
            mask_row.is_some_and(|mask_row| {
                self.buffers.excluded.at(self.first_byte + mask_row * columns + j) != 0
            })
        };
        (0..columns).map(|j| !visible.contains(&j) || is_excluded(j)).collect()
    }
}

/// How far a row is from what is expected, in norm; 0 for a row of zeros.
fn relative_error<T: Element>(got: &[T], expected: &[f64]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| {
        let pairs = got.iter().zip(expected);
        pairs.map(|(got, &expected)| f(got.to_f64(), expected).powi(2)).sum::<f64>()
    };
    let (error, norm) = (sum(&|got, expected| got - expected), sum(&|_, expected| expected));
    if norm == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use clap::ValueEnum;
    use half::bf16;

    const MASKS: [MaskKind; 7] = [
        MaskKind::None,
        MaskKind::Bytes,
        MaskKind::Heads,
        MaskKind::Additive,
        MaskKind::Causal,
        MaskKind::Window,
        MaskKind::Lengths,
    ];

    fn problem(mask: MaskKind) -> Problem {
        let (direction, element) = (Direction::Forward, ElementType::Bf16);
        Problem { direction, element, shape: [2, 2, 3, 40], mask }
    }

    /// Every direction with every mask.
    fn problems() -> Vec<Problem> {
        let of_direction = |direction| MASKS.map(|mask| Problem { direction, ..problem(mask) });
        Direction::value_variants().iter().copied().flat_map(of_direction).collect()
    }

    #[test]
    fn every_mask_is_what_the_reference_says() {
        let device = Device::emulator();
        let problems = problems();
        let buffers = Buffers::<bf16>::for_problems(&device, &problems).unwrap();
        for problem in problems {
            let case = Case::new(&buffers, problem).unwrap();
            let error = case.check(&case.softmax, &device.default_stream()).unwrap();
            assert!(error > 0.0 && error < 0.01, "{problem:?}: {error}");
        }
    }

    #[test]
    fn a_wrong_result_is_seen() {
        let device = Device::emulator();
        let problems = problems();
        let buffers = Buffers::<bf16>::for_problems(&device, &problems).unwrap();
        for problem in problems {
            let case = Case::new(&buffers, problem).unwrap();
            // No problem here has its diagonal through the top left corner.
            let wrong = ScaledMaskedSoftmax::new(SCALE).causal(Causal::TopLeft);
            let seen = case.check(&wrong, &device.default_stream());
            assert!(seen.is_err(), "{problem:?}: {seen:?}");
        }
    }

    #[test]
    fn problems_stand_side_by_side() {
        let device = Device::emulator();
        let large = Problem { shape: [2, 2, 12, 40], ..problem(MaskKind::Bytes) };
        let buffers = Buffers::<bf16>::for_problems(&device, &[large]).unwrap();
        let small = problem(MaskKind::Bytes);
        assert_eq!(Case::places(&buffers, small), 3);
        for place in 0..3 {
            let case = Case::nth(&buffers, small, place).unwrap();
            case.check(&case.softmax, &device.default_stream()).unwrap();
        }
        assert!(Case::nth(&buffers, small, 4).is_err());
    }

    #[test]
    fn a_copy_fits_its_buffers() {
        let device = Device::emulator();
        for problem in problems() {
            let buffers = Buffers::<bf16>::for_problems(&device, &[problem]).unwrap();
            let case = Case::new(&buffers, problem).unwrap();
            let (to, from, bytes) = case.copied();
            assert_eq!(bytes, problem.bytes() / 2);
            for (memory, at) in buffers.yardstick.iter().zip([from, to]) {
                assert_eq!(memory.pointer(), at);
                assert!(bytes <= 2 * memory.len(), "{problem:?}");
            }
        }
    }
}
