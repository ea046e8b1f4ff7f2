//! `cargo xtask setup`: finds the tools that build and check PTX, and fetches what is missing.

use crate::{
    help::WithHelp,
    tools,
    workspace::{relative, root},
};
use anyhow::{Context, Result, bail, ensure};
use cuda_builder::{BuildError, DeviceRust, tools_folder};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Finds or fetches the device compiler and NVIDIA's assembler and disassemblers; with `debian`,
/// the compiler is the distribution's even if rustup has one.
pub(crate) fn run(debian: bool) -> Result<()> {
    let rust = if debian { debian_compiler()? } else { device_compiler()? };
    println!("device compiler: {}, {}", rust.version(), place(&rust));
    nvidia_tools()
}

fn place(rust: &DeviceRust) -> String {
    match rust.folder() {
        Some(folder) => format!("in {}", relative(folder)),
        None => "the toolchain in use".to_owned(),
    }
}

/// The compiler that there is, else rustup's, else the distribution's.
fn device_compiler() -> Result<DeviceRust> {
    match DeviceRust::find(root()) {
        Err(BuildError::NoDeviceRust { .. }) => {}
        found => return Ok(found?),
    }
    println!("device compiler: none yet; adding rustup's component rust-src");
    let mut rustup = Command::new("rustup");
    match finish(rustup.args(["component", "add", "rust-src"]).current_dir(root())) {
        Ok(()) => match DeviceRust::find(root()) {
            Err(BuildError::NoDeviceRust { .. }) => {}
            found => return Ok(found?),
        },
        Err(error) => println!("device compiler: {error:#}; trying the distribution's packages"),
    }
    debian_compiler()
}

/// The packages of Debian that hold a compiler newer than its own release, and the source of its
/// library. What they depend on carries version numbers, so apt is asked for that.
const PACKAGES: [&str; 3] = ["rustc-web", "libstd-rust-web-dev", "rust-web-src"];

/// Unpacks the distribution's compiler into the folder of tools. Nothing is installed.
fn debian_compiler() -> Result<DeviceRust> {
    let folder = tools_folder(root()).join("device-rust");
    if let Ok(rust) = DeviceRust::in_folder(root(), &folder) {
        return Ok(rust);
    }
    let packages = debian_packages().help(
        "one of these, then `cargo xtask setup` again:\n  \
         rustup component add rust-src\n  \
         apt-get update      (as root; Debian 12 or later)",
    )?;
    println!("device compiler: downloading {}", packages.join(" "));
    let downloads = empty_folder(&folder.with_extension("downloads"))?;
    finish(Command::new("apt-get").arg("download").args(&packages).current_dir(&downloads))?;
    let partial = empty_folder(&folder.with_extension("partial"))?;
    for package in fs::read_dir(&downloads)? {
        finish(Command::new("dpkg-deb").arg("-x").arg(package?.path()).arg(&partial))?;
    }
    fs::remove_dir_all(&downloads)?;
    // The whole folder or none of it: a broken download is not found the next time.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(&partial, &folder)?;
    Ok(DeviceRust::in_folder(root(), &folder)?)
}

/// The packages that the machine lacks for a compiler, in apt's words.
fn debian_packages() -> Result<Vec<String>> {
    let simulate = || {
        let mut apt = Command::new("apt-get");
        apt.args(["--simulate", "--no-install-recommends", "install"]).args(PACKAGES);
        output(&mut apt)
    };
    let plan = match simulate() {
        Ok(plan) => plan,
        Err(error) => {
            // Refused unless root; then the first error says what is missing.
            if finish(Command::new("apt-get").args(["-qq", "update"])).is_err() {
                return Err(error);
            }
            simulate()?
        }
    };
    let mut packages = PACKAGES.map(str::to_owned).to_vec();
    let needed = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    packages.extend(needed.map(str::to_owned));
    packages.sort();
    packages.dedup();
    Ok(packages)
}

/// NVIDIA's programs: the name, and the package that has it. The assembler is CUDA 13.0's, for
/// which the tables of resources are made; the disassemblers' packages start later.
const NVIDIA_TOOLS: [(&str, &str); 3] = [
    ("ptxas", "nvidia-cuda-nvcc==13.0.88"),
    ("nvdisasm", "nvidia-cuda-nvdisasm==13.2.51"),
    ("cuobjdump", "nvidia-cuda-cuobjdump==13.2.51"),
];

fn nvidia_tools() -> Result<()> {
    if NVIDIA_TOOLS.iter().any(|(name, _)| tools::find(name).is_none()) {
        let packages = NVIDIA_TOOLS.map(|(_, package)| package);
        println!("NVIDIA's tools: downloading {}", packages.join(" "));
        let folder = tools::fetched_folder();
        let partial = empty_folder(&folder.with_extension("partial"))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .arg("--target")
            .arg(&partial)
            .args(packages);
        finish(&mut pip).help(
            "one of these, then `cargo xtask setup` again:\n  \
             apt-get install python3-pip      (as root)\n  \
             export CUDA_HOME=..              (a CUDA toolkit)",
        )?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(&partial, &folder)?;
    }
    for (name, _) in NVIDIA_TOOLS {
        let program = tools::need(name)?;
        println!("{name}: {}, {}", tools::version(&program)?, relative(&program));
    }
    Ok(())
}

fn empty_folder(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Runs a program to its end; its messages are the user's to see.
fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{program} failed ({status})");
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
