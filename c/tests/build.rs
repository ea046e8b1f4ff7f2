//! The shared library, built as its users would.

use serde::Deserialize;
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

/// The workspace's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the workspace")
}

/// The shared library with the emulator, built in the profile of this test.
pub fn shared_library() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(build);
    &BUILT
}

#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    filenames: Option<Vec<PathBuf>>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package=fused-attention-c", "--features=emulator"]);
    cargo.arg("--message-format=json-render-diagnostics").current_dir(root());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo could not build the shared library");
    let text = String::from_utf8(output.stdout).expect("JSON");
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let mut libraries = messages.filter(|message| {
        message
            .target
            .as_ref()
            .is_some_and(|target| target.kind.iter().any(|kind| kind == "cdylib"))
    });
    let files = libraries.next().and_then(|message| message.filenames).expect("a cdylib");
    let is_shared = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "so");
    files.into_iter().find(is_shared).expect("a shared library")
}

/// Has the C compiler make `output` of `sources`; the warnings that matter to users of a header
/// are errors.
pub fn compile(arguments: &[&str], sources: &[PathBuf], output: &Path) {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compiler.arg("-I").arg(root().join("include")).args(sources).args(arguments);
    let status =
        compiler.arg("-o").arg(output).status().expect("Rust links with cc, so it is here");
    assert!(status.success(), "cc refuses {sources:?}");
}

/// A folder for what the tests write.
pub fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
