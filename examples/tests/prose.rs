//! What the prose names exists: files that it links to, and paths in its tables and sentences.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in a workspace").to_owned()
}

/// The prose: the root's, the documentation's, and what lies beside data and results.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "python", "examples/data", "benches/results"];
    let folders = folders.iter().filter_map(|folder| fs::read_dir(root().join(folder)).ok());
    let files = folders.flatten().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of a document's links that are paths, as they stand from the document's folder.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// What stands between backticks and begins with a folder of the workspace.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|quoted| !quoted.contains('\n'));
    quoted.filter(|path| {
        let folder = path.split('/').next().unwrap_or_default();
        path.contains('/') && !folder.is_empty() && folder != "." && root().join(folder).is_dir()
    })
}

/// Folders that only a build makes, and the kernel that docs/writing-a-kernel.md writes.
fn is_made_by_the_reader(path: &str) -> bool {
    ["bundle", "target"].iter().any(|built| path.starts_with(built)) || path.contains("block_sums")
}

#[test]
fn what_the_prose_names_exists() {
    let mut missing = Vec::new();
    let mut names = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        let links = links(&text).map(|link| folder.join(link));
        let paths = paths(&text).filter(|path| !is_made_by_the_reader(path));
        for path in links.chain(paths.map(|path| root().join(path))) {
            names += 1;
            if !path.exists() {
                missing.push(format!("{}: {}", document.display(), path.display()));
            }
        }
    }
    assert!(names > 30, "only {names} names found");
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
}
