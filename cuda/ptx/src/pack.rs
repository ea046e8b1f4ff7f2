//! Packing a folder of PTX files, in a build script.

use crate::{
    Arch,
    archive::{Kind, MAGIC, WINDOW},
    registers,
};
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};
use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// For build scripts: packs the folder (see [`pack_folder`]) into `ptx.archive` in `OUT_DIR`, and
/// has cargo run the script again when the folder changes.
///
/// # Errors
/// If `OUT_DIR` is not set, a file cannot be read or written, or the folder holds a file that is
/// not an entry.
pub fn embed(folder: impl AsRef<Path>) -> io::Result<()> {
    let folder = folder.as_ref();
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(PathBuf::from(out).join("ptx.archive"), pack_folder(folder)?)
}

/// Packs every `<architecture>/<entry>.ptx` below a folder, and every `.cubin` beside one, into an
/// archive for [`PtxLibrary`](crate::PtxLibrary). The same files give the same bytes.
///
/// # Errors
/// If a file cannot be read, PTX is not ASCII, or a name is too long for the index.
pub fn pack_folder(folder: &Path) -> io::Result<Vec<u8>> {
    let mut files = BTreeMap::new();
    for arch in Arch::ALL {
        let of_arch = folder.join(arch.name());
        if !of_arch.is_dir() {
            continue;
        }
        for file in fs::read_dir(of_arch)? {
            let path = file?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("ptx") => {
                    let text = registers::encode(&fs::read(&path)?);
                    let not_ascii = || invalid(format!("{} is not ASCII", path.display()));
                    files.insert((Kind::Ptx, arch.name(), name), text.ok_or_else(not_ascii)?);
                }
                Some("cubin") => {
                    files.insert((Kind::MachineCode, arch.name(), name), fs::read(&path)?);
                }
                _ => {}
            }
        }
    }
    pack(&files)
}

/// A file's key in the order of the archive.
type Key = (Kind, &'static str, String);

fn pack(files: &BTreeMap<Key, Vec<u8>>) -> io::Result<Vec<u8>> {
    let texts = files.iter().filter(|((kind, ..), _)| *kind == Kind::Ptx);
    let dictionary = dictionary(texts.map(|(_, text)| text).collect());
    let packed_dictionary = deflate(&[], &dictionary)?;
    let mut archive = MAGIC.to_vec();
    for number in [dictionary.len(), packed_dictionary.len(), files.len()] {
        archive.extend(u32_bytes(number)?);
    }
    let mut streams = packed_dictionary;
    for ((kind, arch, name), text) in files {
        let packed = deflate(&dictionary, text)?;
        archive.push(*kind as u8);
        for word in [arch, name.as_str()] {
            archive.push(u8::try_from(word.len()).map_err(invalid)?);
            archive.extend(word.as_bytes());
        }
        archive.extend(u32_bytes(text.len())?);
        archive.extend(u32_bytes(packed.len())?);
        streams.extend(packed);
    }
    archive.extend(streams);
    Ok(archive)
}

/// Text that the entries have in common: pieces of files spread over the list.
fn dictionary(texts: Vec<&Vec<u8>>) -> Vec<u8> {
    const PIECES: usize = 4;
    let step = texts.len().div_ceil(PIECES).max(1);
    let pieces = texts.iter().step_by(step).map(|text| &text[..text.len().min(WINDOW / PIECES)]);
    pieces.collect::<Vec<_>>().concat()
}

/// A raw deflate stream of `text` that may refer back into `dictionary`.
fn deflate(dictionary: &[u8], text: &[u8]) -> io::Result<Vec<u8>> {
    // Higher ones take several times as long and save 5 %.
    const LEVEL: i32 = 5;
    const RAW: i32 = 0;
    let flags = create_comp_flags_from_zip_params(LEVEL, RAW, 0);
    let mut state = CompressorOxide::new(flags);
    let mut run = |input: &[u8], flush, end| {
        let mut output = Vec::new();
        let (status, _) = compress_to_output(&mut state, input, flush, |bytes| {
            output.extend_from_slice(bytes);
            true
        });
        if status == end { Ok(output) } else { Err(io::Error::other("deflate failed")) }
    };
    // A flush ends on a byte, so what follows is a stream of its own with the dictionary as its
    // past.
    if !dictionary.is_empty() {
        run(dictionary, TDEFLFlush::Sync, TDEFLStatus::Okay)?;
    }
    run(text, TDEFLFlush::Finish, TDEFLStatus::Done)
}

fn u32_bytes(number: usize) -> io::Result<[u8; 4]> {
    Ok(u32::try_from(number).map_err(invalid)?.to_le_bytes())
}

fn invalid<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
