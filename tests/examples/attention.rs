//! The attention example: the input that ships with it, and inputs that it refuses.

use example_support::{
    attention::{AttentionRequest, Refusal, run},
    shipped,
    tensor_file::{OwnedTensor, TensorFile, to_bytes},
};
use fused_attention::{Causal, Device, Error};
use half::f16;
use support::on_every_backend;

const REQUEST: AttentionRequest<'_> = AttentionRequest {
    tensors: ["q", "k", "v"],
    lengths: Some("lengths"),
    scale: None,
    causal: None,
    window: None,
};

#[test]
fn real_tensors_are_computed_right() {
    on_every_backend(|device| {
        let file = shipped::attention().unwrap();
        let scale = file.scale().unwrap();
        assert_eq!(scale, Some(32f64.powf(-0.5)));
        for request in [
            AttentionRequest { scale, ..REQUEST },
            AttentionRequest { causal: Some(Causal::BottomRight), ..REQUEST },
            AttentionRequest { window: Some((16, 0)), lengths: None, ..REQUEST },
        ] {
            let report = run(device, &file, &request).unwrap();
            report.check.expect("right");
            assert_eq!(report.o.shape, [4, 12, 70, 32]);
            assert_eq!(report.lse.shape, [4, 12, 70]);
        }
    });
}

/// Queries of padding are 0, and no others.
#[test]
fn padding_sees_nothing() {
    let file = shipped::attention().unwrap();
    let report = run(&Device::emulator(), &file, &REQUEST).unwrap();
    let bytes = to_bytes(&[("o", &report.o)]).unwrap();
    let o: Vec<f16> = TensorFile::from_bytes("o", bytes).unwrap().tensor("o").unwrap().elements();
    for (row, o) in o.chunks(32).enumerate() {
        let is_padding = row % 70 >= [70, 66, 44, 17][row / (12 * 70)];
        assert_eq!(o.iter().all(|&o| o == f16::ZERO), is_padding, "row {row}");
    }
}

#[test]
fn other_types_are_refused() {
    let file = shipped::attention().unwrap();
    let refuse = |request| run(&Device::emulator(), &file, &request).unwrap_err();
    let refusal = refuse(AttentionRequest { tensors: ["lengths", "k", "v"], ..REQUEST });
    assert!(matches!(&refusal, Refusal::Dtype { name, .. } if name == "k"), "{refusal}");
    let refusal = refuse(AttentionRequest { lengths: Some("q"), ..REQUEST });
    assert!(refusal.to_string().ends_with("holds F16; expected I32"), "{refusal}");
    let refusal = refuse(AttentionRequest { tensors: ["q", "k", "x"], ..REQUEST });
    assert!(refusal.to_string().ends_with("it has k, lengths, q, v"), "{refusal}");
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let ones = |shape: &[usize]| OwnedTensor::new(&vec![f16::ONE; shape.iter().product()], shape);
    let (q, k) = (ones(&[1, 2, 3, 16]), ones(&[1, 2, 5, 8]));
    let bytes = to_bytes(&[("q", &q), ("k", &k), ("v", &k)]).unwrap();
    let file = TensorFile::from_bytes("test", bytes).unwrap();
    let request = AttentionRequest { lengths: None, ..REQUEST };
    let refusal = run(&Device::emulator(), &file, &request).unwrap_err();
    let expected = matches!(&refusal, Refusal::Library(Error::ShapeMismatch { tensor: "k", .. }));
    assert!(expected, "{refusal}");
}
