//! The softmax example: the input that ships with it, and inputs that it refuses.

use example_support::{
    shipped,
    softmax::{Polarity, Refusal, SoftmaxRequest, run},
    tensor_file::{FileError, OwnedTensor, TensorFile, to_bytes},
};
use fused_attention::{Causal, Device, Error};
use half::f16;
use support::on_every_backend;

const REQUEST: SoftmaxRequest<'_> = SoftmaxRequest {
    scores: "scores",
    mask: Some("mask"),
    polarity: Polarity::Exclude,
    scale: 1.0,
    causal: None,
};

/// Tokens of the shipped input's passages, and of the longest.
const LENGTHS: [usize; 4] = [70, 66, 44, 17];
const TOKENS: usize = LENGTHS[0];
const HEADS: usize = 12;

/// The probabilities of the shipped input, computed and found right.
fn shipped_probabilities(device: &Device, causal: Option<Causal>) -> Vec<f16> {
    let file = shipped::attention_scores().unwrap();
    let scale = file.scale().unwrap().expect("the file says its scale");
    assert_eq!(scale, 32f64.powf(-0.5));
    let report = run(device, &file, &SoftmaxRequest { scale, causal, ..REQUEST }).unwrap();
    report.check.expect("right");
    report.backward_check.expect("right");
    assert_eq!(report.probabilities.shape, [4, HEADS, TOKENS, TOKENS]);
    assert_eq!(report.lse.shape, [4, HEADS, TOKENS]);
    let bytes = to_bytes(&[("softmax", &report.probabilities)]).unwrap();
    TensorFile::from_bytes("result", bytes).unwrap().tensor("softmax").unwrap().elements()
}

/// A file with one row of scores and a mask.
fn file(scores: &OwnedTensor, mask: &OwnedTensor) -> TensorFile {
    TensorFile::from_bytes("test", to_bytes(&[("scores", scores), ("mask", mask)]).unwrap())
        .unwrap()
}

#[test]
fn padding_of_real_scores_weighs_nothing() {
    on_every_backend(|device| {
        let p = shipped_probabilities(device, None);
        let rows = p.chunks(TOKENS);
        for (row, p) in rows.enumerate() {
            let length = LENGTHS[row / (HEADS * TOKENS)];
            assert!(p[length..].iter().all(|&p| p == f16::ZERO), "row {row}");
            let sum: f64 = p[..length].iter().map(|p| p.to_f64()).sum();
            assert!((sum - 1.0).abs() < 0.01, "row {row} adds up to {sum}");
        }
    });
}

#[test]
fn causal_real_scores_show_nothing_later() {
    on_every_backend(|device| {
        let p = shipped_probabilities(device, Some(Causal::BottomRight));
        for (row, p) in p.chunks(TOKENS).enumerate() {
            assert!(p[row % TOKENS + 1..].iter().all(|&p| p == f16::ZERO), "row {row}");
        }
    });
}

#[test]
fn every_kind_of_mask_can_come_from_a_file() {
    let scores = OwnedTensor::new(&[1f32, 2.0, 3.0, 4.0], &[2, 2]);
    let one_hidden = |mask: &OwnedTensor, polarity| {
        let request = SoftmaxRequest { polarity, ..REQUEST };
        let report = run(&Device::emulator(), &file(&scores, mask), &request).unwrap();
        report.check.expect("right");
        report.backward_check.expect("right");
        let expected = OwnedTensor::new(&[1f32, 0.0, 1.0, 0.0], &[2, 2]);
        assert_eq!(report.probabilities, expected);
    };
    one_hidden(&OwnedTensor::new(&[0u8, 1], &[2]), Polarity::Exclude);
    one_hidden(&OwnedTensor::new(&[255u8, 0], &[1, 2]), Polarity::Keep);
    one_hidden(&OwnedTensor::new(&[0f32, f32::NEG_INFINITY], &[2]), Polarity::Exclude);
}

#[test]
fn a_missing_tensor_is_refused_with_the_names_there_are() {
    let file = shipped::attention_scores().unwrap();
    let request = SoftmaxRequest { scores: "logits", ..REQUEST };
    let refusal = run(&Device::emulator(), &file, &request).unwrap_err();
    assert!(matches!(&refusal, Refusal::File(FileError::NoTensor { .. })), "{refusal}");
    assert!(refusal.to_string().ends_with(r#"has no tensor "logits"; it has mask, scores"#));
}

#[test]
fn bytes_as_scores_are_refused() {
    let file = shipped::attention_scores().unwrap();
    let request = SoftmaxRequest { scores: "mask", mask: None, ..REQUEST };
    let refusal = run(&Device::emulator(), &file, &request).unwrap_err();
    assert!(matches!(&refusal, Refusal::ScoresDtype { .. }), "{refusal}");
}

#[test]
fn a_mask_of_another_float_is_refused() {
    let scores = OwnedTensor::new(&[f16::ONE; 4], &[2, 2]);
    let mask = OwnedTensor::new(&[0f64; 2], &[2]);
    let refusal = run(&Device::emulator(), &file(&scores, &mask), &REQUEST).unwrap_err();
    assert!(matches!(&refusal, Refusal::MaskDtype { .. }), "{refusal}");
}

#[test]
fn a_mask_that_does_not_broadcast_is_refused() {
    let scores = OwnedTensor::new(&[1f32; 6], &[2, 3]);
    let mask = OwnedTensor::new(&[0u8; 2], &[2]);
    let refusal = run(&Device::emulator(), &file(&scores, &mask), &REQUEST).unwrap_err();
    let expected = matches!(&refusal, Refusal::Library(Error::NotBroadcastable { .. }));
    assert!(expected, "{refusal}");
}

#[test]
fn a_file_of_something_else_is_refused() {
    let refusal = TensorFile::from_bytes("letter.txt", b"Dear reader,".to_vec()).unwrap_err();
    assert!(refusal.to_string().starts_with("letter.txt is not a safetensors file: "));
}
