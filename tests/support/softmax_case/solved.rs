//! Softmax problems with their numbers: run on a device, compared with the reference.

use super::{SoftmaxCase, data::Data};
use crate::placement::{Placed, Placement};
use fused_attention::{
    Accumulate, Device, Element, ScaledMaskedSoftmax, SoftmaxInputs, Tensor,
    reference::{
        softmax::Softmax,
        tolerance::{Unfused, check_lse, check_output},
    },
};

/// A problem with its numbers, and what is right for them.
pub struct SolvedCase<T> {
    /// The problem.
    pub case: SoftmaxCase,
    pub(super) data: Data<T>,
    /// The reference in f64.
    pub expected: Softmax,
    pub(super) unfused: Unfused<T>,
}

/// Output and log-sum-exp.
pub type Output<T> = (Vec<T>, Vec<<T as Accumulate>::Accumulator>);

impl<T: Accumulate> SolvedCase<T> {
    /// The same numbers for this tile.
    pub fn with_tile(self, tile: &'static str) -> Self {
        SolvedCase { case: SoftmaxCase { tile: Some(tile), ..self.case }, ..self }
    }

    /// Compares output and log-sum-exp of a device with the reference.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    #[track_caller]
    pub fn assert_right(&self, device: &Device) {
        if let Err(message) = self.check(device) {
            panic!("{} on {device}: {message}\n{:?}", T::DTYPE, self.case);
        }
    }

    /// As [`SolvedCase::assert_right`], with these options in place of the problem's.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn assert_right_with(&self, options: ScaledMaskedSoftmax, device: &Device) {
        if let Err(message) = self.check_with(options, device) {
            panic!("{} on {device}: {message}\n{options:?}\n{:?}", T::DTYPE, self.case);
        }
    }

    /// Compares output and log-sum-exp of a device with the reference.
    ///
    /// # Errors
    /// How they differ, or why the library refuses the problem.
    pub fn check(&self, device: &Device) -> Result<(), String> {
        self.check_with(self.case.options(), device)
    }

    fn check_with(&self, options: ScaledMaskedSoftmax, device: &Device) -> Result<(), String> {
        let (y, lse) = self.run_with(options, device)?;
        let columns = self.case.matrix().1;
        check_output(&y, &self.expected.p, &self.unfused, columns)
            .map(drop)
            .and_then(|()| check_lse(&lse, &self.expected.lse))
            .map_err(|mismatch| mismatch.to_string())
    }

    /// Output and log-sum-exp of a device.
    ///
    /// # Errors
    /// The library refuses the problem, or wrote elsewhere.
    pub fn run(&self, device: &Device) -> Result<Output<T>, String> {
        self.run_with(self.case.options(), device)
    }

    fn run_with(&self, options: ScaledMaskedSoftmax, device: &Device) -> Result<Output<T>, String> {
        let case = &self.case;
        let (x, shape, nan) = (&self.data.x, &case.shape, T::from_f64(f64::NAN));
        let text = |error: fused_attention::Error| error.to_string();
        let x = Placed::new(device, case.x, x, shape, nan).map_err(text)?;
        // Elements that nobody writes show, and so does what is written around them.
        let y = Placed::new(device, case.y, &vec![nan; self.data.x.len()], shape, T::from_f64(5.5))
            .map_err(text)?;
        let unwritten = T::Accumulator::from_f64(77.0);
        let lse = Placed::new(
            device,
            Placement::Offset(1),
            &vec![unwritten; case.rows()],
            &shape[..shape.len() - 1],
            unwritten,
        )
        .map_err(text)?;
        self.launch(options, device, &x.tensor, &y.tensor, &lse.tensor).map_err(text)?;
        Ok((y.read()?, lse.read()?))
    }

    fn launch(
        &self,
        options: ScaledMaskedSoftmax,
        device: &Device,
        x: &Tensor<T>,
        y: &Tensor<T>,
        lse: &Tensor<T::Accumulator>,
    ) -> fused_attention::Result<()> {
        self.data.with_mask(&self.case, device, |mask, scale| {
            let mut inputs = SoftmaxInputs::new(x).mask(mask);
            if let Some(scale) = scale {
                inputs = inputs.scale(scale);
            }
            options.forward_into(&device.default_stream(), inputs, y, Some(lse))
        })
    }
}
