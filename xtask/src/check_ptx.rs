//! `cargo xtask check-ptx`: what the assembler makes of every committed entry.

use crate::{
    assembler::{Assembler, Assembly},
    device_crates::{DEVICE_CRATES, DeviceCrate},
    help::WithHelp,
    manifest::{Manifest, machine_code_of},
    resources::{Assembled, Counts, Row, Table},
    workspace::read,
};
use anyhow::{Context, Result, bail, ensure};
use cuda_builder::Arch;
use indicatif::ProgressBar;
use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Assembles every entry and compares with the committed tables; with `bless`, rewrites them.
pub(crate) fn run(bless: bool) -> Result<()> {
    let assembler = Assembler::find()?;
    let version = &assembler.version;
    println!("ptxas {version}: {}", assembler.program.display());
    let mut wrong = Vec::new();
    for device_crate in DEVICE_CRATES {
        let rows = assemble_all(device_crate, &assembler, &mut wrong)?;
        let found = Table { ptxas: version.clone(), rows };
        let path = device_crate.output().join("resources.csv");
        if bless && wrong.is_empty() {
            fs::write(&path, found.to_string())?;
            println!("{}: {} rows written", device_crate.output, found.rows.len());
            continue;
        }
        let text = read(&path).help("run `cargo xtask check-ptx --bless`")?;
        let committed = text.parse::<Table>().with_context(|| format!("in {path:?}"))?;
        if committed.ptxas != *version {
            println!(
                "{}: registers are not compared, because the table is from ptxas {}",
                device_crate.output, committed.ptxas
            );
        }
        let differences = committed.differences(&found);
        println!("{}: {} assembled", device_crate.output, found.rows.len());
        wrong
            .extend(differences.into_iter().map(|text| format!("{}: {text}", device_crate.output)));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    const SHOWN: usize = 20;
    for problem in wrong.iter().take(SHOWN) {
        eprintln!("{problem}");
    }
    if wrong.len() > SHOWN {
        eprintln!("and {} more", wrong.len() - SHOWN);
    }
    bail!("{} problems; if they are meant, run `cargo xtask check-ptx --bless`", wrong.len())
}

/// The machines that an architecture's entries are assembled for: the oldest that the assembler
/// knows, which from CUDA 13 on is sm_75, and Hopper.
fn machines(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Sm70 => &["sm_75", "sm_90"],
        Arch::Sm80 => &["sm_80", "sm_90"],
        Arch::Sm90 => &["sm_90"],
        _ => &["sm_90a"],
    }
}

/// One entry on one machine.
struct Job<'a> {
    arch: Arch,
    entry: &'a str,
    machine: &'static str,
}

fn assemble_all(
    device_crate: &DeviceCrate,
    assembler: &Assembler,
    wrong: &mut Vec<String>,
) -> Result<Vec<Row>> {
    let manifest = Manifest::read(device_crate)?;
    let mut jobs = Vec::new();
    for file in manifest.files.keys() {
        let (arch, entry) = file.split_once('/').context("a file outside the folders")?;
        let entry = entry.trim_end_matches(".ptx");
        let arch = arch.parse::<Arch>()?;
        jobs.extend(machines(arch).iter().map(|machine| Job { arch, entry, machine }));
    }
    let progress = ProgressBar::new(jobs.len() as u64);
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((job, assemble(device_crate, &manifest, assembler, job)));
            progress.inc(1);
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let results = thread::scope(|scope| {
        let workers = (0..workers).map(|_| scope.spawn(worker)).collect::<Vec<_>>();
        let results = workers.into_iter().map(|worker| worker.join().expect("a worker panicked"));
        results.flatten().collect::<Vec<_>>()
    });
    progress.finish_and_clear();
    let mut rows = Vec::new();
    for (job, result) in results {
        match result {
            Ok(row) => rows.push(row),
            Err(error) => {
                wrong.push(format!("{} for {} on {}: {error:#}", job.entry, job.arch, job.machine));
            }
        }
    }
    rows.sort();
    wrong.sort();
    Ok(rows)
}

fn assemble(
    device_crate: &DeviceCrate,
    manifest: &Manifest,
    assembler: &Assembler,
    job: &Job<'_>,
) -> Result<Row> {
    let Job { arch, entry, machine } = *job;
    let file = format!("{arch}/{entry}.ptx");
    let path = device_crate.output().join(&file);
    let Assembly { machine_code, log } = assembler.assemble(machine, &path)?;
    let is_same_assembler = manifest.assembler.as_ref() == Some(&assembler.version);
    if device_crate.is_assembled(&file) && is_same_assembler {
        let committed = fs::read(device_crate.output().join(machine_code_of(&file)))?;
        ensure!(
            machine_code == committed,
            "its machine code is another: run `cargo xtask build-ptx`"
        );
    }
    let assembled = Assembled::parse(&log)?;
    assembled.check(entry)?;
    let Assembled { registers, shared, .. } = assembled;
    let counts = Counts::of(&read(&path)?)?;
    let (arch, entry) = (arch.name().to_owned(), entry.to_owned());
    Ok(Row { arch, entry, machine: machine.to_owned(), registers, shared, counts })
}
