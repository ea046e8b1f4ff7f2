//! Causal masks, windows and row lengths: what a row sees without a mask being read.

use fused_attention::{Accumulate, Causal, Device, Mask, Per, RowLengths, ScaledMaskedSoftmax};
use half::{bf16, f16};
use support::{
    on_every_backend,
    placement::Placement,
    softmax_case::{ByteMask, Lengths, SoftmaxCase},
};

const ALIGNMENTS: [Causal; 2] = [Causal::TopLeft, Causal::BottomRight];

/// Queries and keys: square, wide, tall, single, not multiples of anything.
const MATRICES: [[usize; 2]; 9] =
    [[1, 1], [7, 7], [5, 24], [24, 5], [1, 130], [130, 1], [33, 31], [3, 1100], [9, 2056]];

fn causal<T: Accumulate>() {
    on_every_backend(|device| {
        for [queries, keys] in MATRICES {
            for alignment in ALIGNMENTS {
                let case = SoftmaxCase::new(&[2, queries, keys]);
                let case = SoftmaxCase { causal: Some(alignment), ..case };
                case.assert_right::<T>(device);
                SoftmaxCase { x: Placement::Offset(1), ..case }.assert_right::<T>(device);
            }
        }
    });
}

#[test]
fn causal_f16() {
    causal::<f16>();
}

#[test]
fn causal_bf16() {
    causal::<bf16>();
}

#[test]
fn causal_f32() {
    causal::<f32>();
}

#[test]
fn causal_f64() {
    causal::<f64>();
}

/// The query dimension is the last but one, however few the rows and whatever stands before it.
#[test]
fn the_query_dimension_among_others() {
    let shapes: [&[usize]; 9] = [
        &[6],
        &[5, 8],
        &[2, 5, 8],
        &[2, 1, 5, 8],
        &[2, 1, 1, 5, 8],
        &[3, 2, 5, 8],
        &[3, 1, 2, 1, 5, 8],
        &[2, 3, 1, 8],
        &[2, 1, 3, 1, 2, 1, 5, 8],
    ];
    on_every_backend(|device| {
        for shape in shapes {
            for alignment in ALIGNMENTS {
                for x in [Placement::Contiguous, Placement::Permuted] {
                    let causal = Some(alignment);
                    let case = SoftmaxCase { causal, x, ..SoftmaxCase::new(shape) };
                    case.assert_right::<f32>(device);
                    let per_row = SoftmaxCase { lengths: Some(Lengths::random(Per::Row)), ..case };
                    per_row.assert_right::<f16>(device);
                }
            }
        }
    });
}

/// Bounds that are negative, 0, inside, at the edge, beyond it and far beyond.
#[test]
fn windows() {
    const FAR: i64 = i64::MAX;
    let bounds = [-1, i64::MIN, 0, 1, 4, 23, 24, 25, 1000, FAR - 1, FAR];
    on_every_backend(|device| {
        for [queries, keys] in [[24, 24], [9, 31], [31, 9]] {
            for left in bounds {
                for right in bounds {
                    for diagonal in ALIGNMENTS {
                        let case = SoftmaxCase::new(&[queries, keys]);
                        let window = Some((left.clamp(-1, 1 << 40), right.clamp(-1, 1 << 40)));
                        // What the library gets, unclamped, is the reference's clamped.
                        let solved = SoftmaxCase { window, diagonal, ..case }.solve::<f32>();
                        let options = ScaledMaskedSoftmax::new(solved.case.scale)
                            .diagonal(diagonal)
                            .window(left, right);
                        solved.assert_right_with(options, device);
                    }
                }
            }
        }
    });
}

/// A window and a causal mask: what both show, whichever is said first.
#[test]
fn causal_windows() {
    on_every_backend(|device| {
        for alignment in ALIGNMENTS {
            for window in [(3, 0), (3, 5), (3, -1), (-1, 4), (0, 0)] {
                let case = SoftmaxCase::new(&[2, 9, 20]);
                let case = SoftmaxCase { causal: Some(alignment), window: Some(window), ..case };
                let solved = case.solve::<f32>();
                let softmax = ScaledMaskedSoftmax::new(case.scale);
                let (left, right) = window;
                solved.assert_right_with(softmax.causal(alignment).window(left, right), device);
                solved.assert_right_with(softmax.window(left, right).causal(alignment), device);
            }
        }
    });
}

/// A window that reaches back over all keys and not forward is the causal mask.
#[test]
fn a_window_can_be_causal() {
    on_every_backend(|device| {
        let x: Vec<f32> = (0..15 * 15).map(|i| (i % 13) as f32).collect();
        let x = device.upload(&x, &[15, 15]).unwrap();
        let y = |softmax: ScaledMaskedSoftmax| {
            softmax.forward(&x, Mask::none()).unwrap().to_vec().unwrap()
        };
        let softmax = ScaledMaskedSoftmax::new(1.0);
        let causal = y(softmax.causal(Causal::BottomRight));
        assert_eq!(y(softmax.window(14, 0)), causal);
        assert_eq!(y(softmax.window(-1, 0)), causal);
        assert_ne!(y(softmax.window(13, 0)), causal);
    });
}

/// Lengths for each batch entry and each row, 0 and full ones among them, and the diagonal of a
/// sequence's own length.
fn lengths<T: Accumulate>() {
    on_every_backend(|device| {
        for columns in [24, 37, 1030] {
            let shape = [4, 2, 5, columns];
            let full = columns as i32;
            for lengths in [
                Lengths::given(Per::Batch, &[0, full, 1, full - 1]),
                Lengths::random(Per::Batch),
                Lengths::random(Per::Row),
                Lengths { shape: Some(vec![2, 5]), ..Lengths::random(Per::Row) },
                Lengths { shape: Some(vec![4, 1, 5]), ..Lengths::random(Per::Row) },
                Lengths { shape: Some(vec![1]), ..Lengths::random(Per::Row) },
                Lengths { shape: Some(vec![]), ..Lengths::random(Per::Row) },
            ] {
                for causal in [None, Some(Causal::TopLeft), Some(Causal::BottomRight)] {
                    for window in [None, Some((3, 2))] {
                        let lengths = Some(lengths.clone());
                        let case = SoftmaxCase::new(&shape);
                        SoftmaxCase { lengths, causal, window, ..case }.assert_right::<T>(device);
                    }
                }
            }
        }
    });
}

#[test]
fn lengths_f16() {
    lengths::<f16>();
}

#[test]
fn lengths_bf16() {
    lengths::<bf16>();
}

#[test]
fn lengths_f32() {
    lengths::<f32>();
}

#[test]
fn lengths_f64() {
    lengths::<f64>();
}

/// Lengths that the host does not see count as those of the row where they are beyond it.
#[test]
fn lengths_on_the_device_are_clamped() {
    on_every_backend(|device| {
        for causal in [None, Some(Causal::BottomRight)] {
            let values = [-1, i32::MIN, 0, 41, i32::MAX, 40];
            let lengths = Lengths { on_device: true, ..Lengths::given(Per::Batch, &values) };
            let case = SoftmaxCase { causal, ..SoftmaxCase::new(&[6, 3, 40]) };
            SoftmaxCase { lengths: Some(lengths), ..case }.assert_right::<f32>(device);
        }
    });
}

/// Lengths with a byte mask: hidden by either.
#[test]
fn lengths_and_masks() {
    on_every_backend(|device| {
        for per in [Per::Batch, Per::Row] {
            let bytes = ByteMask { hidden_rows: 0.2, ..ByteMask::new(&[3, 1, 7, 129]) };
            let case = SoftmaxCase { bytes: Some(bytes), ..SoftmaxCase::new(&[3, 2, 7, 129]) };
            let lengths = Some(Lengths::random(per));
            SoftmaxCase { lengths, ..case }.assert_right::<bf16>(device);
        }
    });
}

/// Lengths in tensors with strides: a column of a table, and one for all.
#[test]
fn lengths_with_strides() {
    fn y(device: &Device, lengths: &RowLengths) -> Vec<f32> {
        let x = device.upload(&[0f32; 12], &[3, 4]).unwrap();
        let softmax = ScaledMaskedSoftmax::new(1.0);
        softmax.forward(&x, Mask::none().lengths(lengths)).unwrap().to_vec().unwrap()
    }
    on_every_backend(|device| {
        let table = device.upload(&[1, 9, 2, 9, 4, 9], &[3, 2]).unwrap();
        let column = table.narrow(1, 0, 1).unwrap().reshape(&[3]).unwrap();
        let half = 0.5;
        let expected = [1.0, 0.0, 0.0, 0.0, half, half, 0.0, 0.0, 0.25, 0.25, 0.25, 0.25];
        for per in [Per::Batch, Per::Row] {
            assert_eq!(y(device, &RowLengths::on_device(column.clone(), per)), expected);
        }
        let one = device.upload(&[2], &[1]).unwrap().expand(&[3]).unwrap();
        let expected = [half, half, 0.0, 0.0].repeat(3);
        assert_eq!(y(device, &RowLengths::on_device(one, Per::Batch)), expected);
    });
}
