//! The header: C compiles it, its structs are those of the library, and its functions are all that
//! the library exports.

use crate::{
    abi::{
        FA_MAX_RANK, fa_attention_forward_tensors, fa_attention_options, fa_device, fa_mask,
        fa_sequences, fa_softmax_backward_tensors, fa_softmax_forward_tensors, fa_softmax_options,
        fa_tensor,
    },
    api::{NAMES, api},
    build::{compile, root, scratch, shared_library},
};
use std::{collections::BTreeSet, ffi::CStr, fs, mem::offset_of, process::Command};

macro_rules! assertions {
    ($($T:ident { $($field:ident)* })*) => {
        [$(
            format!("sizeof({}) == {}", stringify!($T), size_of::<$T>()),
            $(format!(
                "offsetof({}, {}) == {}",
                stringify!($T),
                stringify!($field),
                offset_of!($T, $field)
            ),)*
        )*]
    };
}

#[test]
fn structs_lie_in_c_as_in_rust() {
    let assertions = assertions! {
        fa_tensor { pointer dtype rank shape strides }
        fa_softmax_options {
            struct_size scale is_causal diagonal has_window reserved window_left window_right
        }
        fa_mask { struct_size bytes additive lengths bank_index polarity lengths_per }
        fa_softmax_forward_tensors { struct_size x y lse scale mask }
        fa_softmax_backward_tensors { struct_size p x dp dx scale mask }
        fa_attention_options {
            struct_size scale has_scale is_causal diagonal has_window window_left window_right
            softcap dropout
        }
        fa_sequences { struct_size offsets longest }
        fa_attention_forward_tensors {
            struct_size q k v o lse scale mask query_lengths query_sequences key_sequences slopes
            seed_tensor offset_tensor seed offset has_seed
        }
    };
    let rank = format!("FA_MAX_RANK == {FA_MAX_RANK}");
    let mut source = "#include \"fused_attention.h\"\n".to_owned();
    for (i, assertion) in assertions.iter().chain([&rank]).enumerate() {
        source += &format!("typedef char assertion_{i}[({assertion}) ? 1 : -1];\n");
    }
    let file = scratch().join("layout.c");
    fs::write(&file, source).unwrap();
    compile(&["-c"], &[file], &scratch().join("layout.o"));
    // Nothing but a pointer to it crosses the border.
    assert_eq!(size_of::<*mut fa_device>(), 8);
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(root().join("include/fused_attention.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = code.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        (before.len() > name.len() && name.starts_with("fa_")).then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_tests_know_every_function() {
    let known: BTreeSet<_> = NAMES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(known, declared());
}

#[test]
fn the_library_exports_the_header_s_functions_and_nothing_else() {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]).arg(shared_library());
    let output = nm.output().expect("nm comes with the linker");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<_> =
        text.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    assert_eq!(exported, declared());
}

#[test]
fn the_library_needs_no_driver_to_be_loaded() {
    let mut readelf = Command::new("readelf");
    let output = readelf.arg("--dynamic").arg(shared_library()).output();
    let output = output.expect("readelf comes with the linker");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = |tag: &str| text.lines().filter(|line| line.contains(tag)).collect::<Vec<_>>();
    let needed = lines("(NEEDED)");
    assert!(!needed.is_empty(), "readelf names nothing in\n{text}");
    assert!(needed.iter().all(|line| !line.contains("libcuda")), "{needed:?}");
    let names = lines("(SONAME)");
    assert!(names.iter().any(|line| line.contains("[libfused_attention.so]")), "{names:?}");
}

#[test]
fn the_version_is_the_package_s() {
    // SAFETY: a constant of the library.
    let version = unsafe { CStr::from_ptr((api().fa_version)()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}
