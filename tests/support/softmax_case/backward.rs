//! Softmax backward problems: a forward, and the gradient of what it gives.

use super::{SoftmaxCase, Values, data::Data, masks::draw};
use crate::{
    placement::{Placed, Placement},
    random::Random,
};
use fused_attention::{
    Accumulate, Device, GradientInputs, Tensor,
    reference::{
        softmax::{Saved, Softmax, SoftmaxProblem},
        tolerance::{Unfused, check_gradient},
    },
};

/// A backward problem.
#[derive(Debug, Clone, PartialEq)]
pub struct BackwardCase {
    /// The forward. `x` is how what it left lies in memory, `y` how the result does, `tile` one of
    /// the backward's.
    pub forward: SoftmaxCase,
    /// What it left.
    pub saved: Saved,
    /// How the gradient of the probabilities lies in memory.
    pub dp: Placement,
    /// What it holds.
    pub dp_values: Values,
    /// Elements of it that hold something else, by their number in row-major order. From scores,
    /// those whose probability is nearly or quite 0 without being hidden stay as they are.
    pub dp_edits: Vec<(usize, f64)>,
    /// Which input the result takes the place of.
    pub in_place: Option<InPlace>,
}

/// An input that the result is written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// What the forward left.
    Saved,
    /// The gradient of the probabilities.
    Gradient,
}

/// Either source.
pub const SOURCES: [Saved; 2] = [Saved::Probabilities, Saved::Scores];

impl BackwardCase {
    /// The backward of a forward, with tensors that lie in memory without gaps but for those that
    /// the forward says otherwise of.
    pub fn new(saved: Saved, forward: SoftmaxCase) -> Self {
        BackwardCase {
            forward,
            saved,
            dp: Placement::default(),
            dp_values: Values::default(),
            dp_edits: Vec::new(),
            in_place: None,
        }
    }

    /// Runs the problem and compares the result with the reference.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    #[track_caller]
    pub fn assert_right<T: Accumulate>(&self, device: &Device) {
        self.solve::<T>().assert_right(device);
    }

    /// The problem with its numbers and what is right for them.
    pub fn solve<T: Accumulate>(&self) -> SolvedBackward<T> {
        let case = &self.forward;
        let forward = Data::<T>::draw(case);
        let Softmax { p, .. } = forward.reference(case);
        let source = match self.saved {
            Saved::Probabilities => p.iter().map(|&p| T::from_f64(p)).collect(),
            Saved::Scores => forward.x.clone(),
        };
        let mut random = Random::new(!case.seed);
        let mut dp: Vec<T> =
            p.iter().map(|_| T::from_f64(draw(&mut random, self.dp_values))).collect();
        if !self.dp_edits.is_empty() {
            let x: Vec<f64> = forward.x.iter().map(|x| x.to_f64()).collect();
            let (rows, columns) = case.matrix();
            forward.with_problem(case, &x, |problem| {
                for &(i, value) in &self.dp_edits {
                    let (row, j) = (i / columns, i % columns);
                    let vanishes = self.saved == Saved::Scores
                        && p[i] < 1e-30
                        && !problem.is_hidden(row / rows, row % rows, j);
                    if !vanishes {
                        dp[i] = T::from_f64(value);
                    }
                }
            });
        }
        let widened = |numbers: &[T]| numbers.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
        let (numbers, gradient) = (widened(&source), widened(&dp));
        let (expected, unfused) =
            forward.with_problem(case, &numbers, |problem: SoftmaxProblem<'_>| {
                let unfused = problem.solve_backward_unfused(self.saved, &gradient);
                (problem.solve_backward(self.saved, &gradient), unfused)
            });
        SolvedBackward { case: self.clone(), forward, p, source, dp, expected, unfused }
    }
}

/// A backward problem with its numbers, and what is right for them.
pub struct SolvedBackward<T> {
    /// The problem.
    pub case: BackwardCase,
    forward: Data<T>,
    /// The probabilities, by the reference of the forward.
    pub p: Vec<f64>,
    source: Vec<T>,
    dp: Vec<T>,
    /// The reference in f64.
    pub expected: Vec<f64>,
    unfused: Unfused<T>,
}

impl<T: Accumulate> SolvedBackward<T> {
    /// The same numbers for this tile.
    pub fn with_tile(mut self, tile: &'static str) -> Self {
        self.case.forward.tile = Some(tile);
        self
    }

    /// Makes the masks of elements hide everything, and their bank's index point outside of it,
    /// whatever the reference has been told.
    pub fn spoil_masks(&mut self) {
        let Data { bytes, additive, bank_index, .. } = &mut self.forward;
        bytes.iter_mut().flatten().for_each(|byte| *byte = 1);
        additive.iter_mut().flatten().for_each(|number| *number = f64::NAN);
        bank_index.iter_mut().flatten().for_each(|index| *index = -1);
        if let Some(bank) = &mut self.case.forward.bank {
            // The host would refuse the index.
            bank.on_device = true;
        }
    }

    /// Compares the result of a device with the reference.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    #[track_caller]
    pub fn assert_right(&self, device: &Device) {
        if let Err(message) = self.check(device) {
            panic!("{} on {device}: {message}\n{:?}", T::DTYPE, self.case);
        }
    }

    /// Compares the result of a device with the reference.
    ///
    /// # Errors
    /// How they differ, or why the library refuses the problem.
    pub fn check(&self, device: &Device) -> Result<(), String> {
        let dx = self.run(device)?;
        let columns = self.case.forward.matrix().1;
        check_gradient(&dx, &self.expected, &self.unfused, columns)
            .map(drop)
            .map_err(|mismatch| mismatch.to_string())
    }

    /// The result of a device.
    ///
    /// # Errors
    /// The library refuses the problem, or wrote elsewhere.
    pub fn run(&self, device: &Device) -> Result<Vec<T>, String> {
        let BackwardCase { forward: case, dp, in_place, .. } = &self.case;
        let nan = T::from_f64(f64::NAN);
        let place = |placement: Placement, values: &[T], gap: T| {
            Placed::new(device, placement, values, &case.shape, gap)
        };
        let text = |error: fused_attention::Error| error.to_string();
        let source = place(case.x, &self.source, nan).map_err(text)?;
        let dp = place(*dp, &self.dp, nan).map_err(text)?;
        // Elements that nobody writes show, and so does what is written around them.
        let unwritten = vec![nan; self.dp.len()];
        let separate = place(case.y, &unwritten, T::from_f64(5.5)).map_err(text)?;
        let dx = match in_place {
            Some(InPlace::Saved) => &source,
            Some(InPlace::Gradient) => &dp,
            None => &separate,
        };
        self.launch(device, &source.tensor, &dp.tensor, &dx.tensor).map_err(text)?;
        dx.read()
    }

    fn launch(
        &self,
        device: &Device,
        source: &Tensor<T>,
        dp: &Tensor<T>,
        dx: &Tensor<T>,
    ) -> fused_attention::Result<()> {
        let case = &self.case.forward;
        self.forward.with_mask(case, device, |mask, scale| {
            let inputs = match self.case.saved {
                Saved::Probabilities => GradientInputs::from_probabilities(source, dp),
                Saved::Scores => GradientInputs::from_scores(source, dp),
            };
            let mut inputs = inputs.mask(mask);
            if let Some(scale) = scale {
                inputs = inputs.scale(scale);
            }
            case.options().backward_into(&device.default_stream(), inputs, dx)
        })
    }
}
