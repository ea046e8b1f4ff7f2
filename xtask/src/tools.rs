//! Finding NVIDIA's tools.

use crate::{help::WithHelp, workspace::root};
use anyhow::{Context, Result, ensure};
use cuda_builder::tools_folder;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The program of this name: from the folder of tools, a CUDA toolkit, or the path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let toolkits = toolkits.map(|toolkit| PathBuf::from(toolkit).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = fetched().into_iter().chain(toolkits).chain(env::split_paths(&path));
    let mut folders = folders.chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// The same, or an error that says what to do.
pub(crate) fn need(name: &str) -> Result<PathBuf> {
    find(name)
        .with_context(|| format!("{name} is missing"))
        .help("run `cargo xtask setup`, or set CUDA_HOME to a CUDA toolkit")
}

/// Where `cargo xtask setup` puts the tools.
pub(crate) fn fetched_folder() -> PathBuf {
    tools_folder(root()).join("cuda")
}

/// The folders of programs in it: the packages name one for each CUDA version.
fn fetched() -> Vec<PathBuf> {
    let versions = fetched_folder().join("nvidia").read_dir().into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).filter(|bin| bin.is_dir()).collect()
}

/// The version that a tool of NVIDIA's states: `13.0.88`.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('V'));
    ensure!(version.is_some(), "{} states no version", program.display());
    Ok(version.unwrap_or_default().to_owned())
}
