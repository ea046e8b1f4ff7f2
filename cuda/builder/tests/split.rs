//! A module as the compiler writes it becomes one module for each entry, or an error.

use cuda_builder::{EntryError, split_entries};

const MODULE: &str = include_str!("fixtures/two_kernels.s");

/// The error for the module with `old` replaced.
fn error(old: &str, new: &str) -> EntryError {
    assert!(MODULE.contains(old), "{old}");
    split_entries(&MODULE.replacen(old, new, 1)).unwrap_err()
}

#[test]
fn each_entry_becomes_a_module_with_its_launch_bounds() {
    let entries = split_entries(MODULE).unwrap();
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["double", "exchange"]);
    assert_eq!(entries["double"], include_str!("fixtures/double.ptx"));
    assert_eq!(entries["exchange"], include_str!("fixtures/exchange.ptx"));
}

#[test]
fn arguments_of_a_tensor_maps_size_are_aligned_for_one() {
    let count = ".param .u32 double_param_2";
    assert!(MODULE.contains(count));
    let parameters = |array: &str| {
        let module = MODULE.replacen(count, &format!(".param {array}"), 1);
        split_entries(&module).unwrap()["double"].clone()
    };
    let map = parameters(".align 16 .b8 double_param_2[128]");
    assert!(map.contains(".param .align 64 .b8 double_param_2[128]"), "{map}");
    for other in [".align 8 .b8 double_param_2[128]", ".align 16 .b8 double_param_2[64]"] {
        let entry = parameters(other);
        assert!(entry.contains(other), "{entry}");
    }
}

#[test]
fn a_call_is_refused_and_named() {
    let callee = "_RNvNtNtCsanIojcP8aaR_4core9panicking11panic_const23panic_const_div_by_zero";
    let error = error("\tbra.uni", &format!("\tcall.uni {callee}, ();\n\tbra.uni"));
    let callee = "core::panicking::panic_const::panic_const_div_by_zero".to_owned();
    assert_eq!(error, EntryError::Call { entry: "double".into(), callee });
    assert!(error.to_string().contains("it can panic"), "{error}");
}

#[test]
fn a_call_with_a_result_is_refused_and_named() {
    let error = error("\tbra.uni", "\tcall.uni (retval0), vprintf, (param0, param1);\n\tbra.uni");
    let EntryError::Call { callee, .. } = &error else { panic!("{error}") };
    assert_eq!(callee, "vprintf");
    assert!(!error.to_string().contains("panic"), "{error}");
}

#[test]
fn a_misspelt_intrinsic_is_refused_and_named() {
    let error = error("ret;", "call llvm.nvvm.bar.synk, (param0);");
    let intrinsic = "llvm.nvvm.bar.synk".to_owned();
    assert_eq!(error, EntryError::UnknownIntrinsic { entry: "double".into(), intrinsic });
}

#[test]
fn data_of_the_module_is_refused_and_named() {
    let error = error("mov.u32 \t%r2, %ctaid.x", "mov.b64 %rd4, _RNvCs3B4LuXow3iF_7kernels5TABLE");
    let data = "kernels::TABLE".to_owned();
    assert_eq!(error, EntryError::Data { entry: "double".into(), data });
}

#[test]
fn markers_and_entries_go_together() {
    let marker = "// kernel double threads=128 blocks_per_sm=2";
    assert_eq!(error(marker, ""), EntryError::NoMarker { entry: "double".into() });
    let third = format!("{marker}\n// kernel third threads=1 blocks_per_sm=1");
    assert_eq!(error(marker, &third), EntryError::NoEntry { entry: "third".into() });
    let twice = format!("{marker}\n{marker}");
    assert_eq!(error(marker, &twice), EntryError::Twice { entry: "double".into() });
    let garbled = "// kernel double threads=many blocks_per_sm=2";
    assert_eq!(error(marker, garbled), EntryError::Marker { line: garbled.into() });
}

#[test]
fn an_entrys_text_does_not_depend_on_the_compilers_numbers() {
    let moved = MODULE.replace("$L__BB0_", "$L__BB7_").replace("$L__BB13_1", "$L__BB2_9");
    let moved = moved.replace("%r7", "%r0").replace("%rd3", "%rd0");
    assert_eq!(split_entries(&moved), split_entries(MODULE));
}
