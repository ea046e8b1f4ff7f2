//! `cargo xtask bundle`: the tests, benchmarks and examples, and what compares with other libraries
//! in Python, for a GPU machine without Rust.

use crate::workspace::{relative, root};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A kind of programs, or of libraries, in a bundle.
struct Part {
    folder: &'static str,
    /// What cargo calls such a target.
    kind: &'static str,
    /// What cargo is told to do.
    cargo: &'static [&'static str],
    /// Whether the runner unpacks them when they are first run.
    compress: bool,
}

const PARTS: [Part; 4] = [
    Part {
        folder: "tests",
        kind: "test",
        cargo: &["test", "--release", "--no-run", "--package=fused-attention-tests", "--test=all"],
        compress: true,
    },
    Part {
        folder: "benches",
        kind: "bench",
        cargo: &["bench", "--no-run", "--package=fused-attention-benches", "--benches"],
        compress: true,
    },
    Part {
        folder: "examples",
        kind: "example",
        cargo: &["build", "--release", "--package=fused-attention-examples", "--examples"],
        compress: true,
    },
    Part {
        folder: "lib",
        kind: "cdylib",
        cargo: &["build", "--release", "--package=fused-attention-c"],
        compress: false,
    },
];

/// What needs no building.
const SCRIPTS: [&str; 2] = ["python/fused_attention.py", "python/peers.py"];

/// Builds the programs in release mode and collects them, with a runner, in `bundle/`.
pub(crate) fn run() -> Result<()> {
    let bundle = root().join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    let mut total = 0;
    for part in PARTS {
        let folder = bundle.join(part.folder);
        fs::create_dir_all(&folder)?;
        for program in build(&part)? {
            let to = folder.join(&program.name);
            fs::copy(&program.path, &to)?;
            strip(&to);
            let to = if part.compress { compress(&to) } else { to };
            let size = fs::metadata(&to)?.len();
            total += size;
            println!("{}: {:.1} MB", relative(&to), megabytes(size));
        }
    }
    for script in SCRIPTS {
        let to = bundle.join(script);
        fs::create_dir_all(to.parent().expect("a folder"))?;
        fs::copy(root().join(script), &to)?;
        println!("{}", relative(&to));
    }
    let runner = bundle.join("run.sh");
    fs::write(&runner, include_str!("bundle/run.sh"))?;
    make_executable(&runner)?;
    println!("{}: {:.1} MB in all; see {0} --help", relative(&runner), megabytes(total));
    Ok(())
}

struct Program {
    name: String,
    path: PathBuf,
}

/// The part of cargo's messages that names a program or a library.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    target: Option<Target>,
}

impl Message {
    /// The file to collect: a program, or a shared library.
    fn file(self) -> Option<PathBuf> {
        let is_shared = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "so");
        self.executable.or_else(|| self.filenames.into_iter().find(is_shared))
    }
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn build(part: &Part) -> Result<Vec<Program>> {
    println!("building the {}", part.folder);
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(part.cargo).arg("--message-format=json-render-diagnostics").current_dir(root());
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo could not build the {}", part.folder);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let programs = messages.filter_map(|message| {
        let target = message.target.as_ref()?;
        if !target.kind.iter().any(|kind| kind == part.kind) {
            return None;
        }
        let (name, path) = (target.name.clone(), message.file()?);
        let is_library = path.extension().is_some();
        Some(Program { name: if is_library { format!("lib{name}.so") } else { name }, path })
    });
    Ok(programs.collect())
}

/// Takes the symbols out, where there is a `strip`; they are most of a program's size.
fn strip(program: &Path) {
    let _ = Command::new("strip").arg(program).status();
}

/// Packs a file, where there is a `gzip`; the emulator's kernels shrink to a third. Returns what the
/// file is now.
fn compress(program: &Path) -> PathBuf {
    let status = Command::new("gzip").arg("--best").arg(program).status();
    let packed = program.with_added_extension("gz");
    if status.is_ok_and(|status| status.success()) { packed } else { program.to_owned() }
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
