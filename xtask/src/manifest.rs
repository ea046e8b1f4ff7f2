//! `manifest.json`: what the committed PTX and machine code were made from, and what they must be.

use crate::{
    device_crates::DeviceCrate,
    help::WithHelp,
    sources,
    workspace::{files_below, read, relative},
};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs};

/// What is known of a crate's committed PTX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The compiler's version and its LLVM's.
    pub(crate) compiler: String,
    /// The hash of the sources.
    pub(crate) sources: String,
    /// The hash of each file of PTX, by its path below the manifest's folder.
    pub(crate) files: BTreeMap<String, String>,
    /// The version of the assembler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) assembler: Option<String>,
    /// The hash of each file of machine code, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) machine_code: BTreeMap<String, String>,
}

impl Manifest {
    pub(crate) fn read(device_crate: &DeviceCrate) -> Result<Self> {
        let path = device_crate.output().join("manifest.json");
        let text = read(&path).help("run `cargo xtask build-ptx`")?;
        serde_json::from_str(&text).with_context(|| format!("cannot understand {path:?}"))
    }

    pub(crate) fn write(&self, device_crate: &DeviceCrate) -> Result<()> {
        let path = device_crate.output().join("manifest.json");
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::create_dir_all(device_crate.output())?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Fails if the sources changed after the PTX was built.
    pub(crate) fn check_sources(&self, device_crate: &DeviceCrate) -> Result<()> {
        ensure!(
            self.sources == sources::hash(device_crate)?,
            "the PTX in {} is older than its sources ({}, {}): run `cargo xtask build-ptx`",
            device_crate.output,
            device_crate.folder,
            crate::device_crates::DEVICE_LIBRARIES.map(|(_, folder)| folder).join(", "),
        );
        Ok(())
    }

    /// Fails if the files are not the ones that were built.
    pub(crate) fn check_files(&self, device_crate: &DeviceCrate) -> Result<()> {
        let output = device_crate.output();
        let assembled = self.files.keys().filter(|file| device_crate.is_assembled(file));
        let assembled = assembled.map(|file| machine_code_of(file));
        ensure!(
            assembled.eq(self.machine_code.keys().cloned()),
            "{} does not hold the machine code of its entries: run `cargo xtask build-ptx`",
            device_crate.output
        );
        let mut expected = self.files.clone();
        expected.extend(self.machine_code.clone());
        for path in files_below(&output)? {
            let hash = match path.extension().and_then(|extension| extension.to_str()) {
                Some("ptx") => sources::hash_text(&read(&path)?),
                Some("cubin") => sources::hash_bytes(&fs::read(&path)?),
                _ => continue,
            };
            let name = path.strip_prefix(&output)?.to_string_lossy().replace('\\', "/");
            match expected.remove(&name) {
                None => bail!("{} is not in the manifest", relative(&path)),
                Some(known) if known != hash => {
                    bail!("{} was changed after `cargo xtask build-ptx` wrote it", relative(&path))
                }
                Some(_) => {}
            }
        }
        match expected.into_keys().next() {
            Some(missing) => bail!("{}/{missing} is missing", device_crate.output),
            None => Ok(()),
        }
    }
}

/// The file of machine code beside one of PTX.
pub(crate) fn machine_code_of(file: &str) -> String {
    file.trim_end_matches(".ptx").to_owned() + ".cubin"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_crates::DEVICE_CRATES;

    #[test]
    fn the_committed_ptx_is_what_the_sources_give() {
        for device_crate in DEVICE_CRATES {
            let check = || {
                let manifest = Manifest::read(device_crate)?;
                manifest.check_files(device_crate)?;
                manifest.check_sources(device_crate)
            };
            check().unwrap_or_else(|error: anyhow::Error| panic!("{error:#}"));
        }
    }
}
