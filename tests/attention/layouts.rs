//! Layouts by strides: any order of dimensions, parts of one tensor, rows off the 16-byte grid.

use fused_attention::{Attention, AttentionInputs, Causal, Device, Tensor};
use half::{bf16, f16};
use support::{attention_case::AttentionCase, on_every_backend, placement::Placement};

/// Ways in which rows begin on a 16-byte boundary, and ways in which they do not.
const ALIGNED: [Placement; 6] = [
    Placement::Contiguous,
    Placement::Offset(8),
    Placement::Sliced(8),
    Placement::Packed,
    Placement::Permuted,
    Placement::RowsFirst,
];
const UNALIGNED: [Placement; 4] =
    [Placement::Offset(1), Placement::Offset(4), Placement::Sliced(1), Placement::Sliced(3)];

fn case() -> AttentionCase {
    AttentionCase { kv_heads: 1, ..AttentionCase::new((2, 2, 40, 90, 64)) }
}

#[test]
fn every_tensor_lies_anywhere() {
    on_every_backend(|device| {
        for placement in ALIGNED.into_iter().chain(UNALIGNED) {
            for operand in 0..4 {
                let mut case = case().causal();
                *[&mut case.q, &mut case.k, &mut case.v, &mut case.o][operand] = placement;
                case.assert_right::<f16>(device);
            }
            let case = AttentionCase { q: placement, k: placement, v: placement, ..case() };
            AttentionCase { o: placement, ..case.clone() }.assert_right::<bf16>(device);
            let packed = Some(vec![0, 20, 20, 60]);
            let case = AttentionCase { query_offsets: packed.clone(), key_offsets: packed, ..case };
            case.assert_right::<f16>(device);
        }
    });
}

fn numbers(device: &Device, shape: &[usize]) -> Tensor<f16> {
    let number = |n: usize| f16::from_f64((n * 7919 % 401) as f64 / 200.0 - 1.0);
    device.upload(&(0..shape.iter().product()).map(number).collect::<Vec<_>>(), shape).unwrap()
}

/// A copy of the tensor without gaps.
fn copied(tensor: &Tensor<f16>) -> Tensor<f16> {
    tensor.device().upload(&tensor.to_vec().unwrap(), tensor.shape()).unwrap()
}

/// Queries, keys and values as parts of one tensor, in every order of the dimensions in use: the same
/// as of tensors of their own, to the bit.
#[test]
fn parts_of_one_tensor() {
    let (b, h, s, d) = (2, 3, 33, 64);
    on_every_backend(|device| {
        // (B, T, 3, H, D) as in llm.c, (B, T, H, 3, D) and (3, B, H, T, D); where the part and heads
        // and rows are.
        for (shape, part, order) in [
            ([b, s, 3, h, d], 2, [0, 2, 1, 3]),
            ([b, s, h, 3, d], 3, [0, 2, 1, 3]),
            ([3, b, h, s, d], 0, [0, 1, 2, 3]),
        ] {
            let packed = numbers(device, &shape);
            let view = |index: usize| {
                let mut shape = shape.to_vec();
                shape.remove(part);
                let one = packed.narrow(part, index, 1).unwrap().reshape(&shape).unwrap();
                one.permute(&order).unwrap()
            };
            let parts = [view(0), view(1), view(2)];
            assert_eq!(parts[0].shape(), [b, h, s, d]);
            let attention = Attention::new().causal(Causal::BottomRight);
            let forward = |[q, k, v]: &[Tensor<f16>; 3]| {
                attention.forward(&AttentionInputs::new(q, k, v)).unwrap()
            };
            let (output, expected) =
                (forward(&parts), forward(&[0, 1, 2].map(|i| copied(&parts[i]))));
            assert_eq!(output.o.to_vec().unwrap(), expected.o.to_vec().unwrap());
            assert_eq!(output.lse.to_vec().unwrap(), expected.lse.to_vec().unwrap());
            // The output lies in the order of the queries.
            let rows_first = order[1] == 2;
            assert_eq!(output.o.strides()[1] < output.o.strides()[2], rows_first);
        }
    });
}

/// Strides of dimensions of size 1 do not count, and those of 0 repeat.
#[test]
fn strides_that_take_no_step() {
    let attention = Attention::new();
    on_every_backend(|device| {
        let memory = numbers(device, &[2, 3 * 64 + 5]);
        let odd = memory.narrow(1, 0, 64).unwrap().narrow(0, 0, 1).unwrap();
        let one = odd.reshape(&[1, 1, 1, 64]).unwrap();
        let expected = copied(&one);
        let output = attention.forward(&AttentionInputs::new(&one, &one, &one)).unwrap();
        assert_eq!(output.o.to_vec().unwrap(), expected.to_vec().unwrap());
        // One head of keys and values for each query head, which is the same one.
        let (q, kv) = (numbers(device, &[2, 4, 20, 64]), numbers(device, &[2, 1, 50, 64]));
        let repeated = kv.expand(&[2, 4, 50, 64]).unwrap();
        let shared = attention.forward(&AttentionInputs::new(&q, &kv, &kv)).unwrap();
        let inputs = AttentionInputs::new(&q, &repeated, &repeated);
        let o = attention.forward(&inputs).unwrap().o;
        let pairs = o.to_vec().unwrap().into_iter().zip(shared.o.to_vec().unwrap());
        assert!(pairs.into_iter().all(|(a, b)| (a.to_f64() - b.to_f64()).abs() < 2e-3));
    });
}

/// Rows off the 16-byte grid take an entry that copies element by element; the others do not.
#[test]
fn rows_off_the_grid_take_another_kernel() {
    on_every_backend(|device| {
        let kernel = |q: Placement| {
            let case = AttentionCase { q, ..case() };
            case.solve::<f16>().explain(device).unwrap()
        };
        let aligned = kernel(Placement::Contiguous);
        for placement in ALIGNED {
            assert_eq!(kernel(placement).kernel, aligned.kernel);
        }
        for placement in UNALIGNED {
            let explanation = kernel(placement);
            assert_ne!(explanation.kernel, aligned.kernel);
            assert!(explanation.to_string().contains("16-byte"), "{explanation}");
        }
        assert!(!aligned.to_string().contains("16-byte"), "{aligned}");
    });
}
