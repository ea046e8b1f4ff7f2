//! Softmax problems as data: made from a seed, run on a device, compared with the reference.

use crate::random::Random;
use fused_attention::{
    Accumulate, BankIndex, Causal, Device, Dtype, Element, Mask, Per, RowLengths,
    ScaledMaskedSoftmax, SoftmaxInputs, Tensor, reference,
    reference::tolerance::{check_lse, check_output},
};

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Row-major, without gaps, at an aligned address.
    #[default]
    Contiguous,
    /// Row-major, beginning one element into its memory.
    OddOffset,
    /// The middle of longer rows: this many elements are left out at each end.
    Sliced(usize),
    /// The first two of several dimensions exchanged in memory.
    Transposed,
}

/// What numbers x holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Values {
    /// Normal, with mean 0 and deviation 1.
    #[default]
    Normal,
    /// Normal, times a factor.
    Scaled(f64),
    /// The same number everywhere.
    Constant(f64),
}

/// A byte mask.
#[derive(Debug, Clone, PartialEq)]
pub struct ByteMask {
    /// Sizes, which broadcast to x's; without the bank's.
    pub shape: Vec<usize>,
    /// Nonzero means visible.
    pub keep: bool,
    /// The share of elements that are hidden.
    pub hidden: f64,
    /// Repeat one element along rows by a stride of 0.
    pub expand_columns: bool,
}

/// An additive mask.
#[derive(Debug, Clone, PartialEq)]
pub struct AdditiveMask {
    /// Sizes, which broadcast to x's; without the bank's.
    pub shape: Vec<usize>,
    /// f32, whatever x is.
    pub wide: bool,
    /// The share of elements that are -inf.
    pub hidden: f64,
}

/// A problem.
#[derive(Debug, Clone, PartialEq)]
pub struct SoftmaxCase {
    /// x's shape.
    pub shape: Vec<usize>,
    /// How x lies in memory.
    pub placement: Placement,
    /// What x holds.
    pub values: Values,
    /// The scale.
    pub scale: f64,
    /// Give the scale in device memory.
    pub scale_on_device: bool,
    /// The causal mask.
    pub causal: Option<Causal>,
    /// The window.
    pub window: Option<(i64, i64)>,
    /// The byte mask.
    pub bytes: Option<ByteMask>,
    /// The additive mask.
    pub additive: Option<AdditiveMask>,
    /// Row lengths, drawn at random.
    pub lengths: Option<Per>,
    /// Both element masks come from banks of this many.
    pub bank: Option<usize>,
    /// The tile to take.
    pub tile: Option<&'static str>,
    /// Where the random numbers come from.
    pub seed: u64,
}

impl SoftmaxCase {
    /// A problem of this shape without masks.
    pub fn new(shape: &[usize]) -> Self {
        SoftmaxCase {
            shape: shape.to_vec(),
            placement: Placement::default(),
            values: Values::default(),
            scale: 0.7,
            scale_on_device: false,
            causal: None,
            window: None,
            bytes: None,
            additive: None,
            lengths: None,
            bank: None,
            tile: None,
            seed: 1,
        }
    }

    /// Runs the problem and compares output and log-sum-exp with the reference.
    ///
    /// # Panics
    /// They differ, or the library refuses the problem.
    pub fn assert_right<T: Accumulate>(&self, device: &Device) {
        if let Err(message) = self.check::<T>(device) {
            panic!("{} on {device}: {message}\n{self:?}", T::DTYPE);
        }
    }

    /// Runs the problem and compares output and log-sum-exp with the reference.
    ///
    /// # Errors
    /// How they differ, or why the library refuses the problem.
    pub fn check<T: Accumulate>(&self, device: &Device) -> Result<(), String> {
        let data = Data::<T>::draw(self);
        let run = || self.run::<T>(device, &data);
        let (y, lse) = run().map_err(|error| error.to_string())?;
        let expected = data.solve(self);
        let columns = self.shape.last().copied().unwrap_or(1).max(1);
        check_output(&y, &expected.p, &data.solve_unfused(self), columns)
            .map_err(|mismatch| mismatch.to_string())?;
        if self.shape.last() == Some(&0) {
            let empty = lse.iter().all(|lse| lse.to_f64() == f64::NEG_INFINITY);
            return if empty { Ok(()) } else { Err("lse of empty rows is not -inf".into()) };
        }
        check_lse(&lse, &expected.lse).map_err(|mismatch| mismatch.to_string())
    }

    /// The options that the problem asks for.
    pub fn options(&self) -> ScaledMaskedSoftmax {
        let mut softmax = ScaledMaskedSoftmax::new(if self.scale_on_device {
            // Must not count.
            f64::NAN
        } else {
            self.scale
        });
        if let Some((left, right)) = self.window {
            softmax = softmax.window(left, right);
        }
        if let Some(causal) = self.causal {
            softmax = softmax.causal(causal);
        }
        match self.tile {
            Some(tile) => softmax.with_tile(tile).expect("a tile of the table"),
            None => softmax,
        }
    }

    fn run<T: Accumulate>(
        &self,
        device: &Device,
        data: &Data<T>,
    ) -> fused_attention::Result<(Vec<T>, Vec<T::Accumulator>)> {
        let x = self.place(device, &data.x)?;
        let scale = device.upload(&[T::Accumulator::from_f64(self.scale)], &[1])?;
        let bytes = match (&self.bytes, &data.bytes) {
            (Some(mask), Some(bytes)) => {
                let mut shape = self.banked(&mask.shape);
                let tensor = device.upload(bytes, &shape)?;
                let last = shape.len() - 1;
                if mask.expand_columns && shape[last] == 1 {
                    shape[last] = self.shape[self.shape.len() - 1];
                    Some(tensor.expand(&shape)?)
                } else {
                    Some(tensor)
                }
            }
            _ => None,
        };
        let narrow = |mask: &AdditiveMask, values: &[f64]| {
            let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
            device.upload(&values, &self.banked(&mask.shape))
        };
        let widened = |mask: &AdditiveMask, values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
            device.upload(&values, &self.banked(&mask.shape))
        };
        let (mut additive, mut wide_additive) = (None, None);
        if let (Some(mask), Some(values)) = (&self.additive, &data.additive) {
            if mask.wide && T::DTYPE != Dtype::F64 {
                wide_additive = Some(widened(mask, values)?);
            } else {
                additive = Some(narrow(mask, values)?);
            }
        }
        let lengths = match (&data.lengths, self.lengths) {
            (Some(lengths), Some(Per::Batch)) => Some(RowLengths::per_batch(device, lengths)?),
            (Some(lengths), Some(Per::Row)) => {
                let rows = &self.shape[..self.shape.len() - 1];
                Some(RowLengths::per_row(device, lengths, rows)?)
            }
            _ => None,
        };
        let index = match &data.bank_index {
            Some(index) => Some(BankIndex::per_batch(device, index)?),
            None => None,
        };
        let mut mask = match (&bytes, self.bytes.as_ref().is_some_and(|mask| mask.keep)) {
            (Some(bytes), true) => Mask::keep(bytes),
            (Some(bytes), false) => Mask::exclude(bytes),
            (None, _) => Mask::none(),
        };
        if let Some(additive) = &additive {
            mask = mask.and_additive(additive);
        }
        if let Some(additive) = &wide_additive {
            mask = mask.and_additive(additive);
        }
        if let Some(lengths) = &lengths {
            mask = mask.lengths(lengths);
        }
        if let Some(index) = &index {
            mask = mask.from_bank(index);
        }
        let mut inputs = SoftmaxInputs::new(&x).mask(mask);
        if self.scale_on_device {
            inputs = inputs.scale(&scale);
        }
        // Poisoned: an element that nobody writes shows.
        let nan = vec![T::from_f64(f64::NAN); data.x.len()];
        let y = self.place(device, &nan)?;
        let rows = self.shape[..self.shape.len() - 1].to_vec();
        let count = rows.iter().product();
        let lse = device.upload(&vec![T::Accumulator::from_f64(77.0); count], &rows)?;
        self.options().forward_into(&device.default_stream(), inputs, &y, Some(&lse))?;
        Ok((y.to_vec()?, lse.to_vec()?))
    }

    /// A tensor of x's shape with these elements, as the problem's placement has it.
    fn place<T: Element>(
        &self,
        device: &Device,
        values: &[T],
    ) -> fused_attention::Result<Tensor<T>> {
        let shape = &self.shape;
        let last = shape.len() - 1;
        let nan = T::from_f64(f64::NAN);
        match self.placement {
            Placement::Contiguous => device.upload(values, shape),
            Placement::OddOffset => {
                let mut memory = vec![nan; values.len() + 1];
                memory[1..].copy_from_slice(values);
                let flat = device.upload(&memory, &[memory.len()])?;
                flat.narrow(0, 1, values.len())?.reshape(shape)
            }
            Placement::Sliced(margin) => {
                let (columns, mut wide) = (shape[last], shape.clone());
                wide[last] += 2 * margin;
                let mut memory = Vec::with_capacity(wide.iter().product());
                for row in values.chunks(columns.max(1)) {
                    memory.extend(std::iter::repeat_n(nan, margin));
                    memory.extend_from_slice(row);
                    memory.extend(std::iter::repeat_n(nan, margin));
                }
                memory.resize(wide.iter().product(), nan);
                device.upload(&memory, &wide)?.narrow(last, margin, columns)
            }
            Placement::Transposed if shape.len() < 3 => device.upload(values, shape),
            Placement::Transposed => {
                let (a, b) = (shape[0], shape[1]);
                let inner: usize = shape[2..].iter().product();
                let mut memory = Vec::with_capacity(values.len());
                for j in 0..b {
                    for i in 0..a {
                        memory.extend_from_slice(&values[(i * b + j) * inner..][..inner]);
                    }
                }
                let mut exchanged = shape.clone();
                exchanged.swap(0, 1);
                device.upload(&memory, &exchanged)?.transpose(0, 1)
            }
        }
    }

    fn banked(&self, shape: &[usize]) -> Vec<usize> {
        self.bank.into_iter().chain(shape.iter().copied()).collect()
    }

    /// Queries and keys: x as matrices.
    fn matrix(&self) -> (usize, usize) {
        let rank = self.shape.len();
        let rows = if rank > 1 { self.shape[rank - 2] } else { 1 };
        (rows, self.shape[rank - 1])
    }
}

/// A problem's numbers.
struct Data<T> {
    x: Vec<T>,
    bytes: Option<Vec<u8>>,
    additive: Option<Vec<f64>>,
    lengths: Option<Vec<i32>>,
    bank_index: Option<Vec<i32>>,
}

impl<T: Accumulate> Data<T> {
    fn draw(case: &SoftmaxCase) -> Self {
        let mut random = Random::new(case.seed);
        let count: usize = case.shape.iter().product();
        let draw = |random: &mut Random| match case.values {
            Values::Normal => random.normal(),
            Values::Scaled(factor) => random.normal() * factor,
            Values::Constant(value) => value,
        };
        let x = (0..count).map(|_| T::from_f64(draw(&mut random))).collect();
        let bytes = case.bytes.as_ref().map(|mask| {
            let count: usize = case.banked(&mask.shape).iter().product();
            let byte = |random: &mut Random| {
                let set = random.chance(mask.hidden) != mask.keep;
                if set { [1, 2, 255][random.below(3)] } else { 0 }
            };
            (0..count).map(|_| byte(&mut random)).collect()
        });
        let additive = case.additive.as_ref().map(|mask| {
            let count: usize = case.banked(&mask.shape).iter().product();
            let value = |random: &mut Random| {
                if random.chance(mask.hidden) { f64::NEG_INFINITY } else { random.normal() }
            };
            let round = |x: f64| match (mask.wide, T::DTYPE) {
                (true, dtype) if dtype != Dtype::F64 => f64::from(x as f32),
                _ => T::from_f64(x).to_f64(),
            };
            (0..count).map(|_| round(value(&mut random))).collect()
        });
        let (batch, columns) =
            (case.shape.first().copied().unwrap_or(1), *case.shape.last().unwrap());
        let batch = if case.shape.len() > 1 { batch } else { 1 };
        let lengths = case.lengths.map(|per| {
            let rows = case.shape[..case.shape.len() - 1].iter().product();
            let count = if per == Per::Batch { batch } else { rows };
            (0..count).map(|_| random.below(columns + 1) as i32).collect()
        });
        let bank_index =
            case.bank.map(|bank| (0..batch).map(|_| random.below(bank) as i32).collect());
        Data { x, bytes, additive, lengths, bank_index }
    }

    /// The index into a mask of this shape, which broadcasts to x's, for an element of x.
    fn mask_index(
        &self,
        case: &SoftmaxCase,
        shape: &[usize],
        matrix: usize,
        i: usize,
        j: usize,
    ) -> usize {
        let (rows, columns) = case.matrix();
        let mut flat = (matrix * rows + i) * columns + j;
        let (mut index, mut stride) = (0, 1);
        let mut batch = 0;
        for dim in (0..case.shape.len()).rev() {
            let size = case.shape[dim];
            let here = flat % size;
            flat /= size;
            batch = here;
            let missing = case.shape.len() - shape.len();
            if dim >= missing {
                let own = shape[dim - missing];
                index += if own == 1 { 0 } else { here * stride };
                stride *= own;
            }
        }
        if case.shape.len() == 1 {
            batch = 0;
        }
        match &self.bank_index {
            Some(bank) => bank[batch] as usize * stride + index,
            None => index,
        }
    }

    /// The reference in f64.
    fn solve(&self, case: &SoftmaxCase) -> reference::softmax::Softmax {
        let x: Vec<f64> = self.x.iter().map(|x| x.to_f64()).collect();
        self.with_problem(case, &x, |problem| problem.solve())
    }

    /// The same without fusion, in x's type.
    fn solve_unfused(&self, case: &SoftmaxCase) -> Vec<T> {
        let x: Vec<f64> = self.x.iter().map(|x| x.to_f64()).collect();
        self.with_problem(case, &x, |problem| problem.solve_unfused())
    }

    fn with_problem<R>(
        &self,
        case: &SoftmaxCase,
        x: &[f64],
        f: impl FnOnce(reference::softmax::SoftmaxProblem<'_>) -> R,
    ) -> R {
        let (rows, columns) = case.matrix();
        let additive = |matrix: usize, i: usize, j: usize| {
            let (mask, values) = (case.additive.as_ref().unwrap(), self.additive.as_ref().unwrap());
            values[self.mask_index(case, &mask.shape, matrix, i, j)]
        };
        let excluded = |matrix: usize, i: usize, j: usize| {
            let (mask, bytes) = (case.bytes.as_ref().unwrap(), self.bytes.as_ref().unwrap());
            (bytes[self.mask_index(case, &mask.shape, matrix, i, j)] != 0) != mask.keep
        };
        let matrices_per_batch: usize =
            case.shape.iter().skip(1).rev().skip(2).product::<usize>().max(1);
        let length = |matrix: usize, i: usize| {
            let lengths = self.lengths.as_ref().unwrap();
            match (case.lengths, case.shape.len()) {
                (_, 1) => lengths[0] as usize,
                (Some(Per::Row), _) => lengths[matrix * rows + i] as usize,
                (_, 2) => lengths[i] as usize,
                _ => lengths[matrix / matrices_per_batch] as usize,
            }
        };
        let mut problem = reference::softmax::SoftmaxProblem::new(x, rows, columns);
        problem.scale =
            if T::DTYPE == Dtype::F64 { case.scale } else { f64::from(case.scale as f32) };
        problem.causal = case.causal;
        problem.window = case.window.unwrap_or((-1, -1));
        if case.additive.is_some() {
            problem.additive = Some(&additive);
        }
        if case.bytes.is_some() {
            problem.excluded = Some(&excluded);
        }
        if case.lengths.is_some() {
            problem.lengths = Some(&length);
        }
        f(problem)
    }
}
