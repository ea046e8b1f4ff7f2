//! Views: which elements they name, against a list of offsets that is permuted element by element.

use fused_attention::{Device, Error, Tensor};
use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};

/// A view as the offsets of its elements, in row-major order.
#[derive(Debug, Clone)]
struct Model {
    shape: Vec<usize>,
    offsets: Vec<i32>,
}

impl Model {
    fn new(shape: &[usize]) -> Self {
        Model {
            shape: shape.to_vec(),
            offsets: (0..shape.iter().product::<usize>() as i32).collect(),
        }
    }

    fn at(&self, index: &[usize]) -> i32 {
        let position = index.iter().zip(&self.shape).fold(0, |p, (&i, &size)| p * size + i);
        self.offsets[position]
    }

    /// A view whose element at an index is that of `self` at another.
    fn map(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let offsets = indices(shape).map(|index| self.at(&from(&index))).collect();
        Model { shape: shape.to_vec(), offsets }
    }

    /// Whether strides exist for this shape: each element lies where the steps along each
    /// dimension lead.
    fn is_strided(&self) -> bool {
        if self.offsets.is_empty() {
            return true;
        }
        let rank = self.shape.len();
        let step = |dim: usize| {
            let mut index = vec![0; rank];
            index[dim] = 1;
            if self.shape[dim] > 1 { self.at(&index) - self.offsets[0] } else { 0 }
        };
        let steps: Vec<i32> = (0..rank).map(step).collect();
        indices(&self.shape).all(|index| {
            let walked: i32 = index.iter().zip(&steps).map(|(&i, step)| i as i32 * step).sum();
            self.at(&index) == self.offsets[0] + walked
        })
    }
}

/// Every index of a shape, in row-major order.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<usize>()).map(move |mut position| {
        let mut index = vec![0; shape.len()];
        for (i, &size) in index.iter_mut().zip(&shape).rev() {
            (*i, position) = (position % size, position / size);
        }
        index
    })
}

/// An operation by random numbers, which mean what fits the tensor at hand.
#[derive(Debug, Clone)]
enum Step {
    Narrow(usize, usize, usize),
    Transpose(usize, usize),
    Permute(Vec<usize>),
    Expand(Vec<usize>, usize),
    Merge(usize),
    Split(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0usize..1000;
    prop_oneof![
        (n.clone(), n.clone(), n.clone()).prop_map(|(d, s, l)| Step::Narrow(d, s, l)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::Transpose(a, b)),
        vec(n.clone(), 8).prop_map(Step::Permute),
        (vec(1usize..4, 8), 0usize..3).prop_map(|(sizes, new)| Step::Expand(sizes, new)),
        n.clone().prop_map(Step::Merge),
        (n.clone(), n).prop_map(|(d, f)| Step::Split(d, f)),
    ]
}

/// Takes the step on both sides; `None` where it does not apply.
fn take(
    step: &Step,
    tensor: &Tensor<i32>,
    model: &Model,
) -> Result<Option<(Tensor<i32>, Model)>, TestCaseError> {
    let (shape, rank) = (&model.shape, model.shape.len());
    if rank == 0 {
        return Ok(None);
    }
    let pair = match step {
        Step::Narrow(dim, start, len) => {
            let dim = dim % rank;
            let start = start % (shape[dim] + 1);
            let len = len % (shape[dim] - start + 1);
            let mut to = shape.clone();
            to[dim] = len;
            let model = model.map(&to, |index| {
                let mut from = index.to_vec();
                from[dim] += start;
                from
            });
            (tensor.narrow(dim, start, len).unwrap(), model)
        }
        Step::Transpose(a, b) => {
            let (a, b) = (a % rank, b % rank);
            let swapped = |index: &[usize]| {
                let mut index = index.to_vec();
                index.swap(a, b);
                index
            };
            (tensor.transpose(a, b).unwrap(), model.map(&swapped(shape), swapped))
        }
        Step::Permute(keys) => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.sort_by_key(|&dim| keys[dim]);
            let to: Vec<usize> = order.iter().map(|&dim| shape[dim]).collect();
            let model = model.map(&to, |index| {
                let mut from = vec![0; rank];
                order.iter().zip(index).for_each(|(&dim, &i)| from[dim] = i);
                from
            });
            (tensor.permute(&order).unwrap(), model)
        }
        Step::Expand(sizes, new) => {
            let new = (*new).min(8 - rank);
            let mut to = sizes[..new].to_vec();
            to.extend(shape.iter().zip(sizes).map(|(&n, &size)| if n == 1 { size } else { n }));
            let model = model.map(&to, |index| {
                index[new..].iter().zip(shape).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect()
            });
            (tensor.expand(&to).unwrap(), model)
        }
        Step::Merge(dim) if rank > 1 => {
            let dim = dim % (rank - 1);
            let mut to = shape.clone();
            to[dim] *= to.remove(dim + 1);
            return reshape(tensor, model, &to);
        }
        Step::Split(dim, factor) if rank < 8 => {
            let dim = dim % rank;
            let factors: Vec<usize> = (1..=shape[dim]).filter(|f| shape[dim] % f == 0).collect();
            let Some(&factor) = factors.get(factor % factors.len().max(1)) else { return Ok(None) };
            let mut to = shape.clone();
            to[dim] /= factor;
            to.insert(dim + 1, factor);
            return reshape(tensor, model, &to);
        }
        Step::Merge(_) | Step::Split(..) => return Ok(None),
    };
    Ok(Some(pair))
}

/// Works exactly where strides exist.
fn reshape(
    tensor: &Tensor<i32>,
    model: &Model,
    to: &[usize],
) -> Result<Option<(Tensor<i32>, Model)>, TestCaseError> {
    let model = Model { shape: to.to_vec(), ..model.clone() };
    match tensor.reshape(to) {
        Ok(view) => {
            prop_assert!(model.is_strided(), "{view:?} for {model:?}");
            Ok(Some((view, model)))
        }
        Err(Error::NotViewable { .. }) => {
            prop_assert!(!model.is_strided(), "refused: {tensor:?} as {to:?}");
            Ok(None)
        }
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Only layouts are at stake, so the emulator stands for every device.
    #[test]
    fn views_name_the_right_elements(
        shape in vec(0usize..5, 0..4),
        steps in vec(step(), 0..8),
    ) {
        let mut model = Model::new(&shape);
        let mut tensor = Device::emulator().upload(&model.offsets, &shape).unwrap();
        for step in &steps {
            if model.offsets.len() > 10_000 {
                break;
            }
            let Some(next) = take(step, &tensor, &model)? else { continue };
            (tensor, model) = next;
            prop_assert_eq!(tensor.shape(), &model.shape[..]);
            prop_assert_eq!(tensor.to_vec().unwrap(), &model.offsets[..], "{:?}", tensor);
            let in_order = model.offsets.windows(2).all(|pair| pair[1] == pair[0] + 1);
            prop_assert_eq!(tensor.is_contiguous(), in_order, "{:?}", tensor);
        }
    }
}

#[test]
fn views_on_every_backend() {
    support::on_every_backend(|device| {
        let numbers: Vec<i32> = (0..24).collect();
        let tensor = device.upload(&numbers, &[2, 3, 4]).unwrap();
        let view = tensor.narrow(2, 1, 2).unwrap().transpose(0, 1).unwrap();
        assert_eq!((view.shape(), view.strides()), (&[3, 2, 2][..], &[4, 12, 1][..]));
        assert_eq!(view.to_vec().unwrap(), [1, 2, 13, 14, 5, 6, 17, 18, 9, 10, 21, 22]);
        assert_eq!(view.pointer(), tensor.pointer() + 4);
        let row = tensor.narrow(1, 2, 1).unwrap().expand(&[2, 2, 4]).unwrap();
        assert_eq!(row.strides(), [12, 0, 1]);
        assert_eq!(row.to_vec().unwrap()[..8], [8, 9, 10, 11, 8, 9, 10, 11]);
    });
}

#[test]
fn what_is_no_view_is_refused() {
    let tensor = Device::emulator().zeros::<u8>(&[2, 3]).unwrap();
    let error = tensor.narrow(1, 2, 2).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { dim: 1, start: 2, len: 2, size: 3 }), "{error}");
    let error = tensor.narrow(1, usize::MAX, 2).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { start: usize::MAX, .. }), "{error}");
    let error = tensor.narrow(2, 0, 0).unwrap_err();
    assert!(matches!(error, Error::NoSuchDimension { dim: 2, rank: 2 }), "{error}");
    let error = tensor.transpose(0, 2).unwrap_err();
    assert!(matches!(error, Error::NoSuchDimension { dim: 2, rank: 2 }), "{error}");
    for order in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 2]] {
        let error = tensor.permute(order).unwrap_err();
        assert!(matches!(error, Error::NotAPermutation { rank: 2, .. }), "{error}");
    }
    for shape in [&[3][..], &[2, 2], &[4, 3], &[2, 3, 1], &[0, 3]] {
        let error = tensor.expand(shape).unwrap_err();
        assert!(
            matches!(&error, Error::NotBroadcastable { expected, .. } if expected == shape),
            "{error}"
        );
    }
    let error = tensor.reshape(&[5]).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 5, found: 6, .. }), "{error}");
    let error = tensor.transpose(0, 1).unwrap().reshape(&[6]).unwrap_err();
    assert!(matches!(&error, Error::NotViewable { to, .. } if to == &[6]), "{error}");
}
