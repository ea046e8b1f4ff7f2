//! A hash of everything that a build for the device depends on, the compiler apart.

use crate::{
    device_crates::{DEVICE_LIBRARIES, DeviceCrate},
    workspace::{files_below, read, relative, root},
};
use anyhow::{Context, Result};
use cuda_builder::CudaBuilder;
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, path::Path};
use toml::Table;

/// The hash of a crate's sources: its own and the device libraries' files, the compiler's flags,
/// the profile, and the dependencies as locked.
pub(crate) fn hash(device_crate: &DeviceCrate) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut add = |name: &str, text: &str| {
        // Line ends may differ between checkouts.
        let text = text.replace("\r\n", "\n");
        hasher.update(format!("{name}\0{}\0{text}", text.len()));
    };
    let libraries = DEVICE_LIBRARIES.iter().map(|&(_, folder)| folder);
    for folder in libraries.chain([device_crate.folder]) {
        let folder = root().join(folder);
        let mut files = files_below(&folder.join("src"))?;
        files.push(folder.join("Cargo.toml"));
        for file in files {
            add(&relative(&file), &read(&file)?);
        }
    }
    for &arch in device_crate.archs {
        add(arch.name(), &CudaBuilder::flags(arch).join(" "));
    }
    let manifest = table(&root().join("Cargo.toml"))?;
    let profile = manifest.get("profile").and_then(|profiles| profiles.get("device"));
    add("profile", &profile.context("Cargo.toml has no [profile.device]")?.to_string());
    let lock = table(&root().join("Cargo.lock"))?;
    for dependency in locked_dependencies(&lock, device_crate.package) {
        add("dependency", &dependency);
    }
    Ok(hex(&hasher.finalize()))
}

/// The hash of a file's text.
pub(crate) fn hash_text(text: &str) -> String {
    hex(&Sha256::digest(text.replace("\r\n", "\n")))
}

/// The hash of a file's bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn table(path: &Path) -> Result<Table> {
    read(path)?.parse().with_context(|| format!("cannot understand {}", path.display()))
}

/// The packages from the registry that a package is built from for the device, with version and
/// checksum. Packages of the workspace are followed only where the device has them too.
fn locked_dependencies(lock: &Table, package: &str) -> BTreeSet<String> {
    let packages = lock.get("package").and_then(|packages| packages.as_array());
    let packages = packages.into_iter().flatten().filter_map(|package| package.as_table());
    let packages = packages.collect::<Vec<_>>();
    let word = |package: &Table, key: &str| {
        package.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let mut open = vec![package.to_owned()];
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for entry in packages.iter().filter(|entry| word(entry, "name") == name) {
            let from_registry = entry.contains_key("source");
            let on_device = name == package || DEVICE_LIBRARIES.iter().any(|(on, _)| *on == name);
            if !from_registry && !on_device {
                continue;
            }
            if from_registry {
                found.insert(format!(
                    "{name} {} {}",
                    word(entry, "version"),
                    word(entry, "checksum")
                ));
            }
            let dependencies = entry.get("dependencies").and_then(|list| list.as_array());
            let dependencies = dependencies.into_iter().flatten().filter_map(|name| name.as_str());
            // "name", or "name version" where there are several.
            open.extend(dependencies.filter_map(|name| Some(name.split(' ').next()?.to_owned())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        [[package]]
        name = "fused-attention-kernels"
        version = "0.1.0"
        dependencies = ["half", "fused-attention-cuda-std"]
        [[package]]
        name = "fused-attention-cuda-std"
        version = "0.1.0"
        dependencies = ["fused-attention-cuda-emulator", "half"]
        [[package]]
        name = "fused-attention-cuda-emulator"
        version = "0.1.0"
        dependencies = ["coroutines"]
        [[package]]
        name = "half"
        version = "2.7.1"
        source = "registry"
        checksum = "aa"
        dependencies = ["cfg-if 1.0.5"]
        [[package]]
        name = "cfg-if"
        version = "1.0.5"
        source = "registry"
        checksum = "bb"
        [[package]]
        name = "coroutines"
        version = "3.0.0"
        source = "registry"
        checksum = "cc"
    "#;

    #[test]
    fn dependencies_of_the_host_do_not_count() {
        let found = locked_dependencies(&LOCK.parse().unwrap(), "fused-attention-kernels");
        let expected = ["cfg-if 1.0.5 bb", "half 2.7.1 aa"].map(str::to_owned);
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn line_ends_do_not_change_a_hash() {
        assert_eq!(hash_text("a\r\nb\r\n"), hash_text("a\nb\n"));
        assert_ne!(hash_text("a\nb\n"), hash_text("a\nc\n"));
    }
}
