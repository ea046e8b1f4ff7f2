//! Attention problems with their numbers: run on a device, compared with the reference.

use super::{AttentionCase, data::Data};
use crate::placement::{Placed, Placement};
use fused_attention::{
    Device, Dtype, Element, Explanation, Precision, attention_tile_names,
    reference::{
        attention::{Attention as Solution, row_error},
        tolerance::{Unfused, check_lse, check_output},
    },
};

/// A problem with its numbers, and what is right for them.
pub struct SolvedAttention<T> {
    /// The problem.
    pub case: AttentionCase,
    data: Data<T>,
    /// The reference in f64, in the order of the tensors.
    pub expected: Solution,
    unfused: Unfused<T>,
}

/// Output and log-sum-exp, in the order of the tensors.
pub type AttentionResult<T> = (Vec<T>, Vec<f32>);

/// What outputs hold before anything is written.
const UNWRITTEN: f64 = 5.5;
const UNWRITTEN_LSE: f64 = 77.0;

impl<T: Element> SolvedAttention<T> {
    /// Solved by the reference on the CPU.
    pub(super) fn by_reference(case: AttentionCase) -> Self {
        let data = Data::<T>::draw(&case);
        let (mut expected, unfused) =
            data.with_problem(&case, |problem| (problem.solve(), problem.solve_unfused::<T>()));
        // A batch entry without a mask of its own in the bank.
        if let (Some(bank), Some(index)) = (&case.bank, &data.bank_index) {
            let rows = case.heads * case.most_queries();
            for (b, index) in index.iter().enumerate() {
                if !(0..bank.size as i32).contains(index) {
                    expected.o[b * rows * case.value_dim..][..rows * case.value_dim].fill(f64::NAN);
                    expected.lse[b * rows..][..rows].fill(f64::NAN);
                }
            }
        }
        let elements = case.value_dim;
        let expected = Solution {
            o: in_tensor_order(&case, &expected.o, elements, UNWRITTEN),
            lse: in_tensor_order(&case, &expected.lse, 1, UNWRITTEN_LSE),
        };
        let unwritten = T::from_f64(UNWRITTEN);
        let unfused = Unfused {
            values: in_tensor_order(&case, &unfused.values, elements, unwritten),
            row_errors: in_tensor_order(&case, &unfused.row_errors, 1, 0.0),
            weights: in_tensor_order(&case, &unfused.weights, elements, 0.0),
        };
        let unfused = with_quanta(&case, &data, unfused);
        SolvedAttention { case, data, expected, unfused }
    }

    /// Solved by the definition on a device.
    pub(super) fn by_definition(case: AttentionCase, device: &Device) -> Self {
        let data = Data::<T>::draw(&case);
        let define_of = |data: &Data<T>, precision| {
            let defined = define(&case, data, device, precision);
            defined.unwrap_or_else(|error| panic!("{error}\n{case:?}"))
        };
        let define = |precision| define_of(&data, precision);
        let (o, lse) = define(Precision::Exact);
        let (unfused, _) = define(Precision::Rounded);
        let unfused = Unfused {
            values: unfused.into_iter().map(T::from_f64).collect(),
            row_errors: sizes_of_scores(&case, &data, &lse).map(row_error::<T>).collect(),
            weights: define_of(&data.with_positive_v(), Precision::Exact).0,
        };
        let unfused = with_quanta(&case, &data, unfused);
        SolvedAttention { expected: Solution { o, lse }, unfused, case, data }
    }

    /// The same numbers for this tile.
    pub fn with_tile(self, tile: &'static str) -> Self {
        SolvedAttention { case: AttentionCase { tile: Some(tile), ..self.case }, ..self }
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

    /// Compares output and log-sum-exp of a device with the reference: those of the tile that is asked
    /// for, or of the preferred one and, of each other family of kernels, the first that can run it.
    ///
    /// # Errors
    /// How they differ, or why the library refuses the problem.
    pub fn check(&self, device: &Device) -> Result<(), String> {
        self.check_tile(device, self.case.tile)?;
        if self.case.tile.is_some() {
            return Ok(());
        }
        let family = |tile: &'static str| tile.split('_').next();
        let mut checked = vec![family(self.explain(device).map_err(text)?.tile)];
        for tile in attention_tile_names() {
            let is_new = !checked.contains(&family(tile));
            if is_new && self.explain_tile(device, Some(tile)).is_ok() {
                self.check_tile(device, Some(tile)).map_err(|error| format!("{tile}: {error}"))?;
                checked.push(family(tile));
            }
        }
        Ok(())
    }

    /// Compares output and log-sum-exp of a tile, or of the preferred one.
    fn check_tile(&self, device: &Device, tile: Option<&'static str>) -> Result<(), String> {
        let (o, lse) = self.run_tile(device, tile)?;
        check_output(&o, &self.expected.o, &self.unfused, self.case.value_dim)
            .map(drop)
            .and_then(|()| check_lse(&lse, &self.expected.lse))
            .map_err(|mismatch| mismatch.to_string())
    }

    /// Output and log-sum-exp of a device.
    ///
    /// # Errors
    /// The library refuses the problem, or wrote elsewhere.
    pub fn run(&self, device: &Device) -> Result<AttentionResult<T>, String> {
        self.run_tile(device, self.case.tile)
    }

    /// The same of a tile, or of the preferred one.
    fn run_tile(
        &self,
        device: &Device,
        tile: Option<&'static str>,
    ) -> Result<AttentionResult<T>, String> {
        let case = &self.case;
        let options = AttentionCase { tile, ..case.clone() }.options();
        let shape = case.query_shape(case.value_dim);
        let o = vec![T::from_f64(UNWRITTEN); self.expected.o.len()];
        let lse = vec![UNWRITTEN_LSE as f32; self.expected.lse.len()];
        let o = Placed::new(device, case.o, &o, &shape, T::from_f64(3.5)).map_err(text)?;
        let lse_shape = &shape[..shape.len() - 1];
        let lse = Placed::new(device, Placement::Offset(1), &lse, lse_shape, 9.0).map_err(text)?;
        let stream = device.default_stream();
        self.data
            .with_inputs(case, device, |inputs| {
                options.forward_into(&stream, inputs, &o.tensor, Some(&lse.tensor))
            })
            .map_err(text)?;
        Ok((o.read()?, lse.read()?))
    }

    /// Which kernel a device would run, and why.
    ///
    /// # Errors
    /// Why the library refuses the problem.
    pub fn explain(&self, device: &Device) -> fused_attention::Result<Explanation> {
        self.explain_tile(device, self.case.tile)
    }

    /// The same with a tile, or with the preferred one.
    fn explain_tile(
        &self,
        device: &Device,
        tile: Option<&'static str>,
    ) -> fused_attention::Result<Explanation> {
        let case = &self.case;
        let options = AttentionCase { tile, ..case.clone() }.options();
        let (shape, gap) = (case.query_shape(case.value_dim), T::from_f64(3.5));
        let o = Placed::new(device, case.o, &vec![gap; self.expected.o.len()], &shape, gap)?;
        self.data.with_inputs(case, device, |inputs| options.explain(inputs, &o.tensor))
    }

    /// Compares a device's definition in f64 with the reference.
    ///
    /// # Errors
    /// How they differ, or why the library refuses the problem.
    pub fn check_definition(&self, device: &Device) -> Result<(), String> {
        let (o, lse) = define(&self.case, &self.data, device, Precision::Exact).map_err(text)?;
        let near = |(i, (found, expected)): (usize, (&f64, &f64))| {
            let same = found == expected || found.is_nan() && expected.is_nan();
            let near = (found - expected).abs() <= 1e-11 * (1.0 + expected.abs());
            let message = || format!("element {i}: {found}, expected {expected}");
            if same || near { Ok(()) } else { Err(message()) }
        };
        lse.iter().zip(&self.expected.lse).enumerate().try_for_each(near)?;
        o.iter().zip(&self.expected.o).enumerate().try_for_each(near)
    }
}

/// Output and log-sum-exp by the definition on a device.
fn define<T: Element>(
    case: &AttentionCase,
    data: &Data<T>,
    device: &Device,
    precision: Precision,
) -> fused_attention::Result<(Vec<f64>, Vec<f64>)> {
    let shape = case.query_shape(case.value_dim);
    let filled =
        |shape: &[usize], value: f64| device.upload(&vec![value; shape.iter().product()], shape);
    let o = filled(&shape, UNWRITTEN)?;
    let lse = filled(&shape[..shape.len() - 1], UNWRITTEN_LSE)?;
    let stream = device.default_stream();
    data.with_inputs(case, device, |inputs| {
        case.options().definition_into(&stream, inputs, precision, &o, Some(&lse))
    })?;
    Ok((o.to_vec()?, lse.to_vec()?))
}

/// About how large is what the scores of each row are made of: sums of |q k| are at most the product of
/// two norms, and the largest score with its biases is about the log-sum-exp.
fn sizes_of_scores<T: Element>(
    case: &AttentionCase,
    data: &Data<T>,
    lse: &[f64],
) -> impl Iterator<Item = f64> {
    let norms = |rows: &[T]| -> Vec<f64> {
        let norm = |row: &[T]| row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>().sqrt();
        rows.chunks(case.head_dim).map(norm).collect()
    };
    let key = f64::from(case.scale()).abs() * norms(&data.k).into_iter().fold(0.0, f64::max);
    let of_row = move |(q, lse): (f64, &f64)| finite(key * q).max(finite(lse.abs()));
    norms(&data.q).into_iter().zip(lse).map(of_row)
}

/// Adds what rounding probabilities does where they are so small that their type has a least step:
/// an error in each that is no share of it. That of f16 is 2^-24; in f32 what is below 2^-126 counts
/// as 0.
fn with_quanta<T: Element>(
    case: &AttentionCase,
    data: &Data<T>,
    unfused: Unfused<T>,
) -> Unfused<T> {
    let step = if T::DTYPE == Dtype::F16 { 2f64.powi(-24) } else { 2f64.powi(-126) };
    let factor = case.dropout().map_or(1.0, |d| 256.0 / (256.0 - f64::from(d.dropped)));
    let (elements, rows) = (case.value_dim, unfused.values.len() / case.value_dim);
    let key_shape = case.key_shape(elements);
    let keys = key_shape[key_shape.len() - 2];
    // Of each head of each batch entry (of all sequences, where they are packed), by element.
    let norms: Vec<f64> = data
        .v
        .chunks((keys * elements).max(1))
        .flat_map(|head| {
            let square =
                |d: usize| head.iter().skip(d).step_by(elements).map(|v| v.to_f64().powi(2));
            (0..elements).map(move |d| square(d).sum::<f64>().sqrt())
        })
        .collect();
    let query_shape = case.query_shape(elements);
    let queries = query_shape[query_shape.len() - 2].max(1);
    let sharing = case.heads / case.kv_heads.max(1);
    let weights = (0..rows * elements).map(|n| {
        let (row, d) = (n / elements, n % elements);
        let head = row / queries;
        let kv_head = head / case.heads * case.kv_heads + head % case.heads / sharing;
        // A packed side counts as one batch entry, the other as many.
        let norm = norms.get(kv_head * elements + d).or(norms.get(d)).copied().unwrap_or(0.0);
        let share = unfused.row_errors.get(row).zip(unfused.weights.get(n));
        share.map_or(0.0, |(error, weight)| error * weight) + step * factor * norm
    });
    let weights: Vec<f64> = weights.collect();
    Unfused { row_errors: vec![1.0; rows], weights, values: unfused.values }
}

/// The number, or 0.
fn finite(x: f64) -> f64 {
    if x.is_finite() { x } else { 0.0 }
}

fn text(error: fused_attention::Error) -> String {
    error.to_string()
}

/// Rows of batch entries, with as many queries as the longest has, in the order of the tensors; rows
/// of no sequence hold `outside`.
fn in_tensor_order<N: Copy>(
    case: &AttentionCase,
    rows: &[N],
    elements: usize,
    outside: N,
) -> Vec<N> {
    if case.query_offsets.is_none() {
        return rows.to_vec();
    }
    let shape = case.query_shape(elements);
    let (heads, total, queries) = (shape[0], shape[1], case.most_queries());
    let mut ordered = vec![outside; heads * total * elements];
    for b in 0..case.sequences() {
        let slot = case.query_slot(b);
        for head in 0..heads {
            let from = &rows[(b * heads + head) * queries * elements..][..slot.len() * elements];
            let to = (head * total + slot.start) * elements;
            ordered[to..to + from.len()].copy_from_slice(from);
        }
    }
    ordered
}
