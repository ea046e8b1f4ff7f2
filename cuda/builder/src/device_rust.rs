//! Finding a compiler that can build `core` for the device.

use crate::error::BuildError;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The environment variable that names a folder with a compiler for the device.
pub const DEVICE_RUST_VARIABLE: &str = "FUSED_ATTENTION_DEVICE_RUST";

/// The environment variable that names a folder of tools, to share it between checkouts.
pub const TOOLS_VARIABLE: &str = "FUSED_ATTENTION_TOOLS";

/// The folder of tools for a workspace: what [`TOOLS_VARIABLE`] names, else `.tools` in it. A
/// compiler for the device may lie in its folder `device-rust`.
pub fn tools_folder(workspace: &Path) -> PathBuf {
    workspace.join(env::var_os(TOOLS_VARIABLE).unwrap_or_else(|| ".tools".into()))
}

/// A Rust compiler together with the library source of its very own version, which building
/// `core` takes.
///
/// It is, in this order: what the environment variable names ([`DEVICE_RUST_VARIABLE`]); the
/// toolchain in use, if it has its component `rust-src`; what lies in the folder of tools
/// ([`tools_folder`]). The folders hold a toolchain (`bin/rustc`) or unpacked packages of a
/// distribution (`usr/bin/rustc`, libraries in `usr/lib/<machine>`).
#[derive(Debug, Clone)]
pub struct DeviceRust {
    /// `None` for the toolchain in use.
    folder: Option<PathBuf>,
    version: String,
}

impl DeviceRust {
    /// Finds the compiler for a workspace.
    ///
    /// # Errors
    /// If there is none, or the one that the environment names is not there or does not run.
    pub fn find(workspace: &Path) -> Result<Self, BuildError> {
        if let Some(folder) = env::var_os(DEVICE_RUST_VARIABLE) {
            return Self::in_folder(workspace, &workspace.join(folder));
        }
        let in_use = DeviceRust { folder: None, version: String::new() };
        let sysroot = in_use.query(workspace, &["--print=sysroot"])?;
        if Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").is_dir() {
            return in_use.with_version(workspace);
        }
        let folder = tools_folder(workspace).join("device-rust");
        match Self::in_folder(workspace, &folder) {
            Err(BuildError::NotADeviceRust { .. }) => {
                let in_use = in_use.with_version(workspace)?.version;
                Err(BuildError::NoDeviceRust { in_use, folder })
            }
            found => found,
        }
    }

    /// The compiler in a folder.
    ///
    /// # Errors
    /// If there is none, or it does not run.
    pub fn in_folder(workspace: &Path, folder: &Path) -> Result<Self, BuildError> {
        let rust = DeviceRust { folder: Some(folder.to_owned()), version: String::new() };
        if rust.rustc().is_none() {
            return Err(BuildError::NotADeviceRust { folder: folder.to_owned() });
        }
        rust.with_version(workspace)
    }

    /// The compiler's version and its LLVM's, on one line.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder it lies in, if it is not the toolchain in use.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Has a command (cargo or rustc) use this compiler, with unstable features allowed.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if let Some(rustc) = self.rustc() {
            command.env("RUSTC", rustc);
        } else {
            command.env_remove("RUSTC");
        }
        if let Some(libraries) = self.libraries() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.env("RUSTC_BOOTSTRAP", "1")
    }

    fn with_version(mut self, workspace: &Path) -> Result<Self, BuildError> {
        let verbose = self.query(workspace, &["--version", "--verbose"])?;
        let first = verbose.lines().next().unwrap_or_default();
        let llvm = verbose.lines().find_map(|line| line.strip_prefix("LLVM version: "));
        self.version = format!("{first}, LLVM {}", llvm.unwrap_or("unknown"));
        Ok(self)
    }

    fn query(&self, workspace: &Path, arguments: &[&str]) -> Result<String, BuildError> {
        let program = self.rustc().unwrap_or_else(|| PathBuf::from("rustc"));
        let mut command = Command::new(&program);
        run(self.apply(command.args(arguments).current_dir(workspace)))
    }

    fn rustc(&self) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let places = ["bin/rustc", "usr/bin/rustc"];
        places.map(|place| folder.join(place)).into_iter().find(|path| path.is_file())
    }

    /// The shared libraries of an unpacked package, which its compiler expects in the system.
    fn libraries(&self) -> Option<PathBuf> {
        let folders = self.folder.as_ref()?.join("usr/lib").read_dir().ok()?;
        let mut folders = folders.filter_map(|folder| Some(folder.ok()?.path()));
        folders.find(|path| path.to_string_lossy().ends_with("-linux-gnu"))
    }
}

/// Runs a program to its end and gives what it wrote.
pub(crate) fn run(command: &mut Command) -> Result<String, BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|source| BuildError::Io { action: format!("cannot run {program}"), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(BuildError::Failed { program, output })
}
