//! Running the compiler on a crate of kernels.

use crate::{
    device_rust::{DeviceRust, run},
    error::BuildError,
    split_entries,
};
use cuda_ptx::Arch;
use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{self, Path, PathBuf},
    process::Command,
};

/// Builds a crate of kernels for one architecture.
#[derive(Debug, Clone)]
pub struct CudaBuilder {
    crate_folder: PathBuf,
    arch: Arch,
    copy_to: Option<PathBuf>,
}

/// What a build made.
#[derive(Debug, Clone)]
pub struct Built {
    /// The architecture it was built for.
    pub arch: Arch,
    /// The compiler's version and its LLVM's.
    pub compiler: String,
    /// The PTX of each entry, by name.
    pub entries: BTreeMap<String, String>,
}

impl CudaBuilder {
    /// A build of the crate in this folder, for [`Arch::Sm70`].
    pub fn new(crate_folder: impl Into<PathBuf>) -> Self {
        let crate_folder = crate_folder.into();
        let crate_folder = path::absolute(&crate_folder).unwrap_or(crate_folder);
        CudaBuilder { crate_folder, arch: Arch::Sm70, copy_to: None }
    }

    /// The architecture to build for; entries declared for another one are left out.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// A folder to write each entry to, as `<entry>.ptx`. Any other `.ptx` file in it is removed.
    #[must_use]
    pub fn copy_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(folder.into());
        self
    }

    /// The flags that every crate is compiled with for an architecture.
    pub fn flags(arch: Arch) -> Vec<String> {
        let (major, minor) = arch.ptx_version();
        vec![
            // This pass copies barriers and shuffles into the branches before and after them.
            "-Zmir-enable-passes=-JumpThreading".to_owned(),
            "--cfg".to_owned(),
            format!("cuda_arch=\"{arch}\""),
            format!("-Ctarget-cpu={arch}"),
            format!("-Ctarget-feature=+ptx{major}{minor}"),
            // The assembly is all that is wanted, and the machine may have no linker for it.
            "-Clinker=/bin/true".to_owned(),
        ]
    }

    /// Builds the crate.
    ///
    /// # Errors
    /// If there is no compiler for the device, the crate does not compile, or one of its entries
    /// cannot stand alone (see [`split_entries`]).
    pub fn build(&self) -> Result<Built, BuildError> {
        let workspace = self.workspace()?;
        let rust = DeviceRust::find(&workspace)?;
        let text = self.compile(&rust, &workspace)?;
        let entries = split_entries(&text).map_err(|source| BuildError::Entry {
            crate_name: self.crate_folder.display().to_string(),
            arch: self.arch,
            source,
        })?;
        if let Some(folder) = &self.copy_to {
            write_entries(folder, &entries).map_err(|source| BuildError::Io {
                action: format!("cannot write to {}", folder.display()),
                source,
            })?;
        }
        Ok(Built { arch: self.arch, compiler: rust.version().to_owned(), entries })
    }

    /// The whole crate's module, as the compiler writes it.
    fn compile(&self, rust: &DeviceRust, workspace: &Path) -> Result<String, BuildError> {
        // Cargo keeps one file per library name, so each architecture has a folder of its own.
        let target = workspace.join("target/device").join(self.arch.name());
        let mut command = Command::new(cargo());
        command
            .args(["rustc", "--quiet", "--lib", "--crate-type=cdylib", "--profile=device"])
            .args(["--target=nvptx64-nvidia-cuda", "-Zbuild-std=core", "-Zbuild-std-features="])
            .arg("--manifest-path")
            .arg(self.crate_folder.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .args(["--", "--emit=asm"])
            .current_dir(workspace)
            .env("CARGO_ENCODED_RUSTFLAGS", Self::flags(self.arch).join("\x1f"));
        // What would put another compiler or another target under the build.
        for variable in [
            "RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_BUILD_RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_PROFILE_DEVICE_LTO",
        ] {
            command.env_remove(variable);
        }
        run(rust.apply(&mut command))?;
        let assembly = format!("{}.s", self.library_name()?);
        let path = target.join("nvptx64-nvidia-cuda/device/deps").join(assembly);
        read(&path)
    }

    /// The folder of the workspace that the crate belongs to.
    fn workspace(&self) -> Result<PathBuf, BuildError> {
        let mut command = Command::new(cargo());
        command
            .args(["locate-project", "--workspace", "--message-format=plain", "--manifest-path"])
            .arg(self.crate_folder.join("Cargo.toml"));
        let manifest = run(&mut command)?;
        Ok(Path::new(manifest.trim()).parent().unwrap_or(Path::new(".")).to_owned())
    }

    fn library_name(&self) -> Result<String, BuildError> {
        let manifest = self.crate_folder.join("Cargo.toml");
        let table = read(&manifest)?.parse::<toml::Table>().unwrap_or_default();
        let name = |section: &str| table.get(section)?.get("name")?.as_str();
        let name = name("lib").or_else(|| name("package"));
        name.map(|name| name.replace('-', "_")).ok_or(BuildError::NoPackage { manifest })
    }
}

/// The cargo that runs this program, or the one on the path.
fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(|source| BuildError::Io {
        action: format!("cannot read {}", path.display()),
        source,
    })
}

fn write_entries(folder: &Path, entries: &BTreeMap<String, String>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_ptx = path.extension().is_some_and(|extension| extension == "ptx");
        if is_ptx && !entries.contains_key(&*stem) {
            fs::remove_file(&path)?;
        }
    }
    for (name, text) in entries {
        let path = folder.join(format!("{name}.ptx"));
        // An unchanged file keeps its date, so that nothing is rebuilt for it.
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
