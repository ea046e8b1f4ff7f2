//! `cargo xtask bundle`: the tests, benchmarks and examples, and what compares with other libraries
//! in Python, for a GPU machine without Rust.

use crate::workspace::{files_below, relative, root};
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
}

const PARTS: [Part; 4] = [
    Part {
        folder: "tests",
        kind: "test",
        cargo: &["test", "--release", "--no-run", "--package=fused-attention-tests", "--test=all"],
    },
    Part {
        folder: "benches",
        kind: "bench",
        cargo: &["bench", "--no-run", "--package=fused-attention-benches", "--benches"],
    },
    Part {
        folder: "examples",
        kind: "example",
        cargo: &["build", "--release", "--package=fused-attention-examples", "--examples"],
    },
    Part {
        folder: "lib",
        kind: "cdylib",
        cargo: &["build", "--release", "--package=fused-attention-c"],
    },
];

/// What needs no building.
const SCRIPTS: [&str; 3] =
    ["python/fused_attention.py", "python/peers.py", "python/attention_peers.py"];

/// Builds the programs in release mode and collects them, with a runner, in `bundle/`.
pub(crate) fn run() -> Result<()> {
    let bundle = root().join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    for part in PARTS {
        let folder = bundle.join(part.folder);
        fs::create_dir_all(&folder)?;
        for program in build(&part)? {
            let to = folder.join(&program.name);
            fs::copy(&program.path, &to)?;
            strip(&to);
            let size = fs::metadata(&to)?.len();
            println!("{}: {:.1} MB", relative(&to), megabytes(size));
        }
    }
    for script in SCRIPTS {
        let to = bundle.join(script);
        fs::create_dir_all(to.parent().expect("a folder"))?;
        fs::copy(root().join(script), &to)?;
        println!("{}", relative(&to));
    }
    match pack(&bundle)? {
        Some(size) => println!("bundle/{ARCHIVE}: {:.1} MB", megabytes(size)),
        None => println!("the programs are not packed, for want of tar or xz"),
    }
    let runner = bundle.join("run.sh");
    fs::write(&runner, include_str!("bundle/run.sh"))?;
    make_executable(&runner)?;
    let sizes = files_below(&bundle)?.into_iter().map(|file| Ok(fs::metadata(file)?.len()));
    let total = sizes.sum::<Result<u64>>()?;
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

/// The archive that the runner unpacks.
const ARCHIVE: &str = "programs.tar.xz";

/// Packs all programs into one archive, where there are `tar` and `xz`: each holds the emulator's
/// kernels, and those of all together take little more than those of one, as long as the compressor
/// looks back far enough. Returns the archive's size.
fn pack(bundle: &Path) -> Result<Option<u64>> {
    let folders = PARTS.iter().filter(|part| part.kind != "cdylib").map(|part| part.folder);
    let mut tar = Command::new("tar");
    tar.arg("--use-compress-program=xz --lzma2=preset=2,dict=128MiB");
    tar.args(["--create", "--file", ARCHIVE]).args(folders.clone()).current_dir(bundle);
    let archive = bundle.join(ARCHIVE);
    if !tar.status().is_ok_and(|status| status.success()) {
        // What it may have left is of no use.
        let _ = fs::remove_file(archive);
        return Ok(None);
    }
    for folder in folders {
        fs::remove_dir_all(bundle.join(folder))?;
    }
    Ok(Some(fs::metadata(archive)?.len()))
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
