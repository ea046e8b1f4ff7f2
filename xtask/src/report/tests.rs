//! Reports of records made up.

use super::{Measurements, files, summary};
use bench_record::{Cell, Record};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn cell(direction: &str, dtype: &str, mask: &str, columns: u64, times: &[(&str, f64)]) -> Cell {
    let rounds = |&(name, time): &(&str, f64)| (name.to_owned(), vec![time, time * 1.1, time]);
    Cell {
        direction: direction.into(),
        dtype: dtype.into(),
        rows: 1000,
        columns,
        shape: vec![],
        mask: mask.into(),
        total_bytes: None,
        tile: Some("warp4".into()),
        bytes: 4000 * columns,
        checked_error: Some(0.001),
        peak_bytes: BTreeMap::new(),
        microseconds: times.iter().map(rounds).collect(),
    }
}

fn record(date: &str, benchmark: &str, cells: Vec<Cell>) -> Record {
    Record {
        benchmark: benchmark.into(),
        card: "Card X, 580.1, 1980 MHz".into(),
        date: date.into(),
        command: "softmax_rounds".into(),
        versions: [("torch".to_owned(), "2.9".to_owned())].into(),
        cells,
    }
}

fn records() -> BTreeMap<String, Record> {
    let lengths = [512, 1024, 2000, 2048]
        .map(|columns| cell("forward", "bf16", "none", columns, &[("ours", 10.0), ("copy", 9.5)]));
    let causal =
        cell("forward", "bf16", "causal", 4096, &[("ours", 6.0), ("copy", 5.7), ("unmasked", 8.0)]);
    let classic = Cell {
        shape: vec![32, 12, 512, 512],
        peak_bytes: [("ours".to_owned(), 2_500_000_000)].into(),
        ..cell("forward", "f16", "heads", 512, &[("ours", 100.0), ("copy", 95.0)])
    };
    let peers = [1024, 4096].map(|columns| {
        let times = [("ours", 10.0), ("copy", 9.7), ("quack", 10.5), ("torch", 70.0)];
        cell("backward", "bf16", "none", columns, &times)
    });
    let launch = cell("forward", "f32", "none", 64, &[("host", 3.2), ("empty kernel", 3.0)]);
    let first = cell("forward", "f32", "none", 64, &[("load", 9000.0), ("first call", 80.0)]);
    let large = Cell {
        total_bytes: Some(2 << 30),
        ..cell("forward", "bf16", "none", 2048, &[("ours", 40.0), ("copy", 39.0)])
    };
    let softmax = [lengths.to_vec(), vec![causal, classic, large]].concat();
    [
        ("benches/results/a.json", record("2026-01-02", "softmax", softmax)),
        ("benches/results/b.json", record("2026-01-01", "softmax peers", peers.to_vec())),
        ("benches/results/c.json", record("2026-01-01", "launch overhead", vec![launch])),
        ("benches/results/d.json", record("2026-01-01", "first use", vec![first])),
    ]
    .map(|(path, record)| (path.to_owned(), record))
    .into()
}

fn text(files: &BTreeMap<PathBuf, Vec<u8>>) -> String {
    String::from_utf8(files[Path::new(super::PAGE)].clone()).unwrap()
}

#[test]
fn unusual_sizes_stand_apart() {
    let text = text(&files(&records()).unwrap());
    let large = "x takes 2 GiB, not 0.5.\n\n| columns | bf16 |\n|---|---|\n| 2048 | 0.975 |\n";
    assert!(text.contains(large), "{text}");
    // Beside the usual size of the same problem.
    assert!(text.contains("| 2048 | 0.950 |\n"), "{text}");
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let first = files(&records()).unwrap();
    assert!(first == files(&records()).unwrap());
    let names: Vec<String> = first.keys().map(|path| path.display().to_string()).collect();
    let expected = [
        "docs/benchmarks/card-x-backward-peers-none-bf16.png",
        "docs/benchmarks/card-x-backward-peers-none-bf16.svg",
        "docs/benchmarks/card-x-forward-share-of-copy.png",
        "docs/benchmarks/card-x-forward-share-of-copy.svg",
        "docs/benchmarks.md",
    ];
    assert_eq!(names, expected);
    for (path, bytes) in &first {
        let begin: &[u8] = match path.extension().and_then(|extension| extension.to_str()) {
            Some("png") => b"\x89PNG",
            Some("svg") => b"<svg ",
            _ => b"# Benchmarks",
        };
        assert!(bytes.starts_with(begin), "{}", path.display());
    }
}

#[test]
fn stale_files_are_named() {
    let files = files(&records()).unwrap();
    let root = std::env::temp_dir().join(format!("report-{}", std::process::id()));
    let (page, svg) = (root.join(super::PAGE), "card-x-forward-share-of-copy.svg");
    let plots = root.join(super::PLOTS);
    fs::create_dir_all(&plots).unwrap();
    for (path, bytes) in &files {
        fs::write(root.join(path), bytes).unwrap();
    }
    let fresh = super::stale(&root, &files);
    fs::write(page, "# Benchmarks").unwrap();
    fs::remove_file(plots.join(svg)).unwrap();
    fs::write(plots.join("other.svg"), "<svg/>").unwrap();
    let stale = super::stale(&root, &files);
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(fresh.unwrap(), [""; 0]);
    let svg = format!("docs/benchmarks/{svg}");
    assert_eq!(stale.unwrap(), [&svg, "docs/benchmarks.md", "docs/benchmarks/other.svg"]);
}

#[test]
fn the_page_tells_what_was_measured() {
    let text = text(&files(&records()).unwrap());
    for line in [
        "## Card X",
        "| 1024 | 0.950 |",
        "The same for lengths that are no power of two.",
        "| 2000 | 0.950 |",
        // Causal: share of a copy, and of the time without the mask.
        "| 4096 | 0.950 |",
        "| 4096 | 0.750 |",
        "| 32 x 12 x 512 x 512 | 0.950 (0.950 .. 0.950) | 0.02 | 2.50 |",
        "Backward, from probabilities, without a mask, bf16.",
        "| 1000 x 1024 | 0.41 | 1.050 (1.050 .. 1.050) | 7.000 (7.000 .. 7.000) |",
        "| geometric mean, 512 to 131072 columns |  | 1.050 | 7.000 |",
        "| forward | 3.200 (3.200 .. 3.520) | 3.000 (3.000 .. 3.300) |",
        "| forward of 64 columns, f32, mask: none | warp4 | 9.0 | 0.1 |",
        "| [b.json](../benches/results/b.json) | Card X, 580.1, 1980 MHz | 2026-01-01 | `softmax_rounds` | torch 2.9 |",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
}

#[test]
fn the_latest_measurement_counts() {
    let mut records = records();
    let better = cell("forward", "bf16", "none", 1024, &[("ours", 10.0), ("copy", 9.9)]);
    let later = record("2026-01-03", "softmax", vec![better]);
    records.insert("benches/results/0.json".to_owned(), later);
    let text = text(&files(&records).unwrap());
    assert!(text.contains("\n| 1024 | 0.990 |\n"), "{text}");
    assert!(text.contains("\n| 2048 | 0.950 |\n"), "{text}");
}

#[test]
fn the_readme_shows_a_summary() {
    let readme = format!("before\n{}old\n{}after\n", summary::BEGIN, summary::END);
    let cards = Measurements::by_card(&records());
    let filled = summary::insert(&readme, &cards).unwrap();
    let rows: Vec<&str> = filled.lines().filter(|line| line.starts_with("| forward")).collect();
    assert_eq!(
        rows,
        [
            "| forward, bf16 |  | 0.95 | 0.95 | 0.95 |  |  |  |  |  |",
            "| forward, causal, bf16 |  |  |  |  | 0.95 |  |  |  |  |"
        ]
    );
    assert!(
        filled
            .contains("\n|  | quack | torch |\n|---|---|---|\n| backward, bf16 | 1.05 | 7.00 |\n")
    );
    assert!(filled.starts_with("before\n") && filled.ends_with("after\n"), "{filled}");
    assert_eq!(summary::insert(&filled, &cards).unwrap(), filled);
    assert!(summary::insert("nothing", &cards).is_err());
}

fn attention(mask: &str, length: u64, tile: &str, times: &[(&str, f64)]) -> Cell {
    Cell {
        shape: vec![2, 8, length, 64],
        tile: Some(tile.into()),
        ..cell("attention_forward", "bf16", mask, length, times)
    }
}

#[test]
fn attention_is_told_by_its_kernels() {
    let beside = |length, tile, times: [f64; 2]| {
        attention("causal", length, tile, &[("ours", times[0]), ("torch flash", times[1])])
    };
    let peers = vec![
        beside(16384, "hopper_d64", [4000.0, 8000.0]),
        beside(1024, "hopper_d64_short", [10.0, 20.0]),
        beside(1024, "portable_d64", [40.0, 20.0]),
    ];
    let alone = vec![
        attention("none", 16384, "hopper_d64", &[("ours", 5000.0)]),
        attention("bias", 16384, "portable_d64", &[("ours", 9000.0), ("plain", 4500.0)]),
        attention("bias", 2048, "portable_d64", &[("ours", 90.0), ("plain", 54.0)]),
    ];
    let records = [
        ("a.json".to_owned(), record("2026-01-01", "attention peers", peers)),
        ("b.json".to_owned(), record("2026-01-01", "attention", alone)),
    ]
    .into();
    let files = files(&records).unwrap();
    let text = text(&files);
    let expected = "\
| 1024 | hopper_d64_short | 215 | 2.000 (2.000 .. 2.000) |
| 16384 | hopper_d64 | 137 | 2.000 (2.000 .. 2.000) |
| geometric mean |  |  | 2.000 |
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("| 1024 | portable_d64 | 54 | 0.500 (0.500 .. 0.500) |"), "{text}");
    assert!(text.contains("| 64 | no mask | hopper_d64 | 220 |"), "{text}");
    let expected = "| 64 | 2048 | portable_d64 | 0.60 |\n| 64 | 16384 | portable_d64 | 0.50 |\n";
    assert!(text.contains(expected), "{text}");
    let plot = "docs/benchmarks/card-x-attention-head-dimension-64-hopper-causal.svg";
    assert!(files.contains_key(Path::new(plot)));

    let cards = Measurements::by_card(&records);
    let readme = format!("{}{}", summary::BEGIN, summary::END);
    let readme = summary::insert(&readme, &cards).unwrap();
    let expected = "\
| head dimension 64, hopper, causal | 2.00 |
| head dimension 64, portable, causal | 0.50 |
";
    assert!(readme.contains(expected), "{readme}");
}

#[test]
fn first_uses_of_attention_stand_apart_by_head_dimension() {
    let first = [64, 128].map(|head_dim| Cell {
        shape: vec![1, 8, 4096, head_dim],
        ..attention("none", 4096, "hopper", &[("load", 9000.0), ("first call", 80.0)])
    });
    let record = record("2026-01-01", "first use", first.to_vec());
    let text = text(&files(&[("a.json".to_owned(), record)].into()).unwrap());
    for head_dim in [64, 128] {
        let row = format!(
            "| attention forward of 4096 keys, head dimension {head_dim}, bf16, mask: none | hopper | \
             9.0 | 0.1 |"
        );
        assert!(text.contains(&row), "{text}");
    }
}
