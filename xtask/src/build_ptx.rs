//! `cargo xtask build-ptx` and `list-entries`.

use crate::{
    assembler::Assembler,
    device_crates::{DEVICE_CRATES, DeviceCrate},
    help::WithHelp,
    manifest::{Manifest, machine_code_of},
    sources,
    workspace::{files_below, read, relative, root},
};
use anyhow::{Result, ensure};
use cuda_builder::{Arch, BuildError, Built, CudaBuilder, DeviceRust};
use indicatif::ProgressBar;
use std::{
    collections::BTreeMap,
    fs,
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

/// Builds every device crate; with `check`, only compares.
pub(crate) fn run(check: bool) -> Result<()> {
    let compiler = match DeviceRust::find(root()) {
        Ok(rust) => rust.version().to_owned(),
        Err(error @ BuildError::NoDeviceRust { .. }) => {
            return Err(error).help("run `cargo xtask setup`");
        }
        Err(error) => return Err(error.into()),
    };
    println!("device compiler: {compiler}");
    if check {
        return DEVICE_CRATES.iter().try_for_each(|device_crate| compare(device_crate, &compiler));
    }
    let assembler = Assembler::find()?;
    DEVICE_CRATES.iter().try_for_each(|device_crate| write(device_crate, &compiler, &assembler))
}

/// Lists every committed entry.
pub(crate) fn list() -> Result<()> {
    for device_crate in DEVICE_CRATES {
        for file in Manifest::read(device_crate)?.files.keys() {
            println!("{}/{file}", device_crate.output);
        }
    }
    Ok(())
}

fn write(device_crate: &DeviceCrate, compiler: &str, assembler: &Assembler) -> Result<()> {
    let output = device_crate.output();
    let built = build(device_crate)?;
    let mut files = BTreeMap::new();
    for module in &built {
        let folder = output.join(module.arch.name());
        // What is not written again must not stay.
        if folder.is_dir() {
            fs::remove_dir_all(&folder)?;
        }
        for (name, text) in &module.entries {
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{name}.ptx")), text)?;
            files.insert(format!("{}/{name}.ptx", module.arch), sources::hash_text(text));
        }
    }
    let sources = sources::hash(device_crate)?;
    let count = files.len();
    let machine_code = assemble(device_crate, assembler, files.keys())?;
    let version = (!machine_code.is_empty()).then(|| assembler.version.clone());
    Manifest { compiler: compiler.to_owned(), sources, files, assembler: version, machine_code }
        .write(device_crate)?;
    println!("{}: {count} entries written", device_crate.output);
    Ok(())
}

/// Writes the machine code of the crate's entries that have it, beside their PTX: the hash of each
/// file.
fn assemble<'a>(
    device_crate: &DeviceCrate,
    assembler: &Assembler,
    files: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<String, String>> {
    let mut machine_code = BTreeMap::new();
    let output = device_crate.output();
    for file in files.filter(|file| device_crate.is_assembled(file)) {
        let machine = file.split('/').next().unwrap_or_default();
        let code = assembler.assemble(machine, &output.join(file))?.machine_code;
        let to = machine_code_of(file);
        fs::write(output.join(&to), &code)?;
        machine_code.insert(to, sources::hash_bytes(&code));
    }
    Ok(machine_code)
}

fn compare(device_crate: &DeviceCrate, compiler: &str) -> Result<()> {
    let manifest = Manifest::read(device_crate)?;
    manifest.check_files(device_crate)?;
    manifest.check_sources(device_crate)?;
    let built = build(device_crate)?;
    let texts = built.iter().flat_map(|module| {
        let file = move |(name, text)| (format!("{}/{name}.ptx", module.arch), text);
        module.entries.iter().map(file)
    });
    let texts = texts.collect::<BTreeMap<_, _>>();
    ensure!(
        texts.keys().eq(manifest.files.keys()),
        "{} does not hold the entries that the sources give: run `cargo xtask build-ptx`",
        device_crate.output
    );
    let count = texts.len();
    if manifest.compiler != compiler {
        println!(
            "{}: {count} entries, compared by the sources' hash and not byte for byte, because \
             they were built by another compiler: {}",
            device_crate.output, manifest.compiler
        );
        return Ok(());
    }
    for (file, text) in texts {
        ensure!(
            manifest.files[&file] == sources::hash_text(text),
            "{}/{file} is not what the sources give: run `cargo xtask build-ptx`",
            device_crate.output
        );
    }
    println!("{}: {count} entries, the same byte for byte", device_crate.output);
    Ok(())
}

/// Fails if a kernel names an architecture that its crate is not built for: it would be in no
/// module at all.
fn check_archs(device_crate: &DeviceCrate) -> Result<()> {
    for file in files_below(&device_crate.folder().join("src"))? {
        let text = read(&file)?;
        let missing = Arch::ALL.into_iter().filter(|arch| !device_crate.archs.contains(arch));
        for arch in missing {
            ensure!(
                !text.contains(&format!("arch = \"{arch}\"")),
                "{} has a kernel for {arch}, which {} is not built for: add it to \
                 xtask/src/device_crates.rs",
                relative(&file),
                device_crate.folder
            );
        }
    }
    Ok(())
}

/// Builds a crate for each architecture, all at once: most of a build runs on one core.
fn build(device_crate: &DeviceCrate) -> Result<Vec<Built>> {
    check_archs(device_crate)?;
    let progress = ProgressBar::new_spinner().with_message(device_crate.folder);
    progress.enable_steady_tick(Duration::from_millis(200));
    let build = |arch| CudaBuilder::new(device_crate.folder()).arch(arch).build();
    let built = thread::scope(|scope| {
        let builds = device_crate.archs.iter().map(|&arch| scope.spawn(move || build(arch)));
        let builds = builds.collect::<Vec<_>>();
        let join = |build: ScopedJoinHandle<'_, _>| build.join().expect("a build panicked");
        builds.into_iter().map(join).collect::<Result<_, BuildError>>()
    });
    progress.finish_and_clear();
    Ok(built?)
}
