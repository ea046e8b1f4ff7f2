//! `cargo xtask report`: from records of measurements to tables and plots, and the README's summary.
//!
//! The same records give the same bytes, so `--check` can tell whether what is committed is of the
//! records that are committed.

mod attention;
mod measurements;
mod page;
mod plot;
mod summary;
mod tables;
#[cfg(test)]
mod tests;

use crate::workspace::{files_below, read, relative, root};
use anyhow::{Context, Result, ensure};
use bench_record::Record;
use measurements::Measurements;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const RECORDS: &str = "benches/results";
const PAGE: &str = "docs/benchmarks.md";
const README: &str = "README.md";
const PLOTS: &str = "docs/benchmarks";

/// Writes the page, its plots and the README's part; with `check` only compares.
pub(crate) fn run(check: bool) -> Result<()> {
    let records = read_records(&root().join(RECORDS))?;
    let mut files = files(&records)?;
    let readme = summary::insert(&read(&root().join(README))?, &Measurements::by_card(&records))?;
    files.insert(PathBuf::from(README), readme.into_bytes());
    if check {
        let stale = stale(root(), &files)?;
        ensure!(
            stale.is_empty(),
            "not what the records give: {}; run `cargo xtask report`",
            stale.join(", ")
        );
        println!("{PAGE} is what {} records give", records.len());
        return Ok(());
    }
    for path in superfluous(root(), &files)? {
        fs::remove_file(path)?;
    }
    fs::create_dir_all(root().join(PLOTS))?;
    for (path, bytes) in &files {
        let path = root().join(path);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", relative(&path));
    }
    Ok(())
}

/// The files that are not what they should be, or should not be.
fn stale(root: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<String>> {
    let differs = |(path, bytes): &(&PathBuf, &Vec<u8>)| {
        fs::read(root.join(path)).map_or(true, |found| found != **bytes)
    };
    let stale = files.iter().filter(differs).map(|(path, _)| root.join(path));
    let stale = stale.chain(superfluous(root, files)?);
    Ok(stale.map(|path| path.strip_prefix(root).unwrap_or(&path).display().to_string()).collect())
}

/// Plots that no record gives.
fn superfluous(root: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<PathBuf>> {
    let plots = root.join(PLOTS);
    let present = if plots.exists() { files_below(&plots)? } else { Vec::new() };
    let wanted =
        |path: &PathBuf| path.strip_prefix(root).is_ok_and(|path| files.contains_key(path));
    Ok(present.into_iter().filter(|path| !wanted(path)).collect())
}

/// Every record in a folder, by its file's name.
fn read_records(folder: &Path) -> Result<BTreeMap<String, Record>> {
    let json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let files = files_below(folder)?.into_iter().filter(json);
    files
        .map(|path| {
            let record = Record::read(&path).with_context(|| relative(&path))?;
            Ok((relative(&path), record))
        })
        .collect()
}

/// The page and its plots, by their path in the workspace.
fn files(records: &BTreeMap<String, Record>) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let page = page::write(records, &Measurements::by_card(records));
    let mut files = BTreeMap::from([(PathBuf::from(PAGE), page.text.into_bytes())]);
    for plot in &page.plots {
        let svg = plot.svg()?;
        let path = Path::new(PLOTS).join(&plot.name);
        files.insert(path.with_extension("png"), plot::png(&svg)?);
        files.insert(path.with_extension("svg"), svg.into_bytes());
    }
    Ok(files)
}
