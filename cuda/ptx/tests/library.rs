//! What goes into an archive comes out of it.

use cuda_ptx::{Arch, PtxError, PtxLibrary, pack_folder};
use std::{fs, path::PathBuf};

/// A module's text, resembling its neighbours as kernels of one family do.
fn module(arch: Arch, name: &str, lines: usize) -> String {
    let body = (0..lines).map(|line| format!("\tadd.f32 %f{line}, %f{}, %f1;\n", line * 7 % 31));
    let body: String = body.collect();
    format!(".version 7.4\n.target {arch}\n.visible .entry {name}()\n{{\n{body}\tret;\n}}\n")
}

/// A folder of PTX files, and the library packed from it.
fn library(topic: &str, files: &[(Arch, &str, String)]) -> PtxLibrary {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(topic);
    let _ = fs::remove_dir_all(&folder);
    for (arch, name, text) in files {
        let of_arch = folder.join(arch.name());
        fs::create_dir_all(&of_arch).unwrap();
        fs::write(of_arch.join(format!("{name}.ptx")), text).unwrap();
    }
    let archive = pack_folder(&folder).unwrap();
    assert_eq!(archive, pack_folder(&folder).unwrap(), "the same files give the same bytes");
    PtxLibrary::new(archive.leak())
}

#[test]
fn every_entry_comes_back_unchanged() {
    let names = (0..40).map(|i| format!("softmax_forward_{i}")).collect::<Vec<_>>();
    let mut files = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let arch = Arch::ALL[i % 4];
        files.push((arch, name.as_str(), module(arch, name, i * i)));
    }
    let library = library("every_entry", &files);
    for (arch, name, text) in &files {
        assert_eq!(library.get(*arch, name).as_ref(), Ok(text), "{arch} {name}");
        assert!(library.contains(*arch, name));
    }
    let mut expected = files.iter().map(|(arch, name, _)| (*arch, *name)).collect::<Vec<_>>();
    expected.sort();
    assert_eq!(library.entries().unwrap(), expected);
}

#[test]
fn machine_code_is_carried_beside_ptx() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("machine_code");
    let _ = fs::remove_dir_all(&folder);
    let of_arch = folder.join("sm_90a");
    fs::create_dir_all(&of_arch).unwrap();
    let (text, code) = (module(Arch::Sm90a, "a", 9), (0..=255).cycle().take(3000));
    let code = code.collect::<Vec<u8>>();
    fs::write(of_arch.join("a.ptx"), &text).unwrap();
    fs::write(of_arch.join("b.ptx"), &text).unwrap();
    fs::write(of_arch.join("a.cubin"), &code).unwrap();
    let library = PtxLibrary::new(pack_folder(&folder).unwrap().leak());
    assert_eq!(library.get(Arch::Sm90a, "a"), Ok(text));
    assert_eq!(library.machine_code(Arch::Sm90a, "a"), Ok(Some(code)));
    assert_eq!(library.machine_code(Arch::Sm90a, "b"), Ok(None));
    assert_eq!(library.machine_code(Arch::Sm90, "a"), Ok(None));
    assert_eq!(library.entries(), Ok(vec![(Arch::Sm90a, "a"), (Arch::Sm90a, "b")]));
}

#[test]
fn an_unknown_entry_is_named() {
    let library = library("unknown", &[(Arch::Sm70, "a", module(Arch::Sm70, "a", 3))]);
    let error = library.get(Arch::Sm80, "a").unwrap_err();
    assert_eq!(error, PtxError::UnknownEntry { arch: Arch::Sm80, name: "a".into(), count: 1 });
    assert!(!library.contains(Arch::Sm80, "a"));
    assert_eq!(error.to_string(), "no entry a for sm_80 among the 1 entries in this program");
}

#[test]
fn an_empty_folder_is_an_empty_library() {
    let library = library("empty", &[]);
    assert_eq!(library.entries(), Ok(vec![]));
}

#[test]
fn a_damaged_archive_is_an_error() {
    let text = module(Arch::Sm70, "a", 500);
    let intact = library("damaged", &[(Arch::Sm70, "a", text)]);
    assert!(intact.get(Arch::Sm70, "a").is_ok());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("damaged");
    let archive = pack_folder(&folder).unwrap();
    for length in 0..archive.len() {
        let cut = PtxLibrary::new(archive[..length].to_vec().leak());
        assert_eq!(cut.get(Arch::Sm70, "a"), Err(PtxError::Damaged { bytes: length }));
    }
}
