//! The examples of docs/c-interface.md, compiled by the C compiler, with either library.

use crate::build::{compile, root, scratch, shared_library};
use std::{fs, path::Path, process::Command};

/// The guide's C programs, and a `main` for them.
fn source() -> String {
    let guide = fs::read_to_string(root().join("docs/c-interface.md")).unwrap();
    let examples = guide.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<_> = examples.collect();
    assert_eq!(examples.len(), 2);
    let main = fs::read_to_string(root().join("c/tests/example.c")).unwrap();
    format!("{}\n{main}", examples.join("\n"))
}

/// Builds and runs it.
#[track_caller]
fn assert_right(name: &str, libraries: &[&str]) {
    let (file, program) = (scratch().join(format!("{name}.c")), scratch().join(name));
    fs::write(&file, source()).unwrap();
    compile(libraries, &[file], &program);
    let output = Command::new(&program).output().unwrap();
    let (said, complaint) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{complaint}");
    assert_eq!(String::from_utf8_lossy(&said), "right\n");
    assert_eq!(complaint, "FA_STATUS_OVERLAPPING_OUTPUT: y shares memory with x\n");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn it_runs_with_the_shared_library() {
    let folder = text(shared_library().parent().unwrap());
    let (search, run_path) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    assert_right("example_shared", &[&search, &run_path, "-lfused_attention", "-lm"]);
}

#[test]
fn it_runs_with_the_static_library() {
    let library = shared_library().with_extension("a");
    assert_right("example_static", &[text(&library), "-lpthread", "-ldl", "-lm"]);
}
