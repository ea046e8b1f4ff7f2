//! What the file that `FUSED_ATTENTION_TUNING` names changes. It is read once, so it is set for a
//! process of its own: this binary again.

use fused_attention::{
    Device, Error, GradientInputs, Mask, ScaledMaskedSoftmax, SoftmaxInputs, TuningError,
};
use std::{env, fs, process::Command};

/// Prefers, for rows of 256 f32, what the table does not.
const FILE: &str = r#"
device = "emulator"
compute_capability = [9, 0]

[[preference]]
operation = "softmax_forward"
dtype = "f32"
mask = "none"
aligned = true
row_bytes = [1024, 2047]
rows = [1, 100]
tile = "streamed4"

[[preference]]
operation = "softmax_backward_from_probabilities"
dtype = "f32"
mask = "none"
aligned = true
row_bytes = [1024, 2047]
rows = [1, 100]
tile = "streamed2"
"#;

/// Runs the ignored test of this name with a tuning file.
fn run_with(test: &str, file: &str) {
    let path = env::temp_dir().join(format!("tuning-{}-{test}.toml", std::process::id()));
    fs::write(&path, file).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", &format!("softmax::tuning::{test}")])
        .env("FUSED_ATTENTION_TUNING", &path)
        .output()
        .unwrap();
    fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
}

#[test]
fn a_tuned_tile_comes_before_the_table() {
    run_with("takes_the_tuned_tile", FILE);
}

#[test]
#[ignore = "needs a tuning file: run by a_tuned_tile_comes_before_the_table"]
fn takes_the_tuned_tile() {
    let device = Device::emulator();
    assert_eq!(device.compute_capability(), (9, 0));
    let softmax = ScaledMaskedSoftmax::new(1.0);
    let explain = |softmax: ScaledMaskedSoftmax, columns: usize, mask: Mask<'_>| {
        let x = device.zeros::<f32>(&[3, columns]).unwrap();
        let y = device.empty::<f32>(&[3, columns]).unwrap();
        softmax.explain(SoftmaxInputs::new(&x).mask(mask), &y).unwrap()
    };
    let tuned = explain(softmax, 256, Mask::none());
    assert!(tuned.is_tuned);
    assert_eq!(tuned.tile, "streamed4");
    let text = tuned.to_string();
    assert!(text.contains("; preferred by the tuning file; "), "{text}");
    assert!(text.contains("the tuning file prefers streamed4"), "{text}");
    assert_eq!(tuned.kernel, "softmax_forward_f32_unmasked_streamed4");

    // Out of its range, with other masks, and where the options ask for a tile.
    let bytes = device.zeros::<u8>(&[3, 256]).unwrap();
    for other in [
        explain(softmax, 512, Mask::none()),
        explain(softmax, 256, Mask::exclude(&bytes)),
        explain(softmax.window(1, 1), 256, Mask::none()),
        explain(softmax.with_tile("block4").unwrap(), 256, Mask::none()),
    ] {
        assert!(!other.is_tuned && other.tile != "streamed4", "{other}");
    }

    let x = device.zeros::<f32>(&[3, 256]).unwrap();
    let explain = |inputs| softmax.explain_backward(inputs, &x).unwrap();
    let backward = explain(GradientInputs::from_probabilities(&x, &x));
    assert!(backward.is_tuned && backward.tile == "streamed2", "{backward}");
    let from_scores = explain(GradientInputs::from_scores(&x, &x));
    assert!(!from_scores.is_tuned && from_scores.tile != "streamed2", "{from_scores}");

    // And it runs.
    assert_eq!(softmax.forward(&x, Mask::none()).unwrap().to_vec().unwrap(), [1.0 / 256.0; 768]);
}

/// The forward has no tile of the backward's name.
#[test]
fn a_bad_file_refuses_every_call() {
    run_with("is_refused", &FILE.replace("streamed4", "streamed2"));
}

#[test]
#[ignore = "needs a bad tuning file: run by a_bad_file_refuses_every_call"]
fn is_refused() {
    let x = Device::emulator().zeros::<f32>(&[3, 256]).unwrap();
    let error = ScaledMaskedSoftmax::new(1.0).forward(&x, Mask::none()).unwrap_err();
    let Error::BadTuning { path, reason: TuningError::UnknownTile { tile, .. } } = &error else {
        panic!("{error}");
    };
    assert_eq!(tile, "streamed2");
    assert!(error.to_string().contains(path.as_str()), "{error}");
}
