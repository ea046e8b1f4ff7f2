//! The few numbers that the README shows.

use super::{
    attention,
    measurements::{Measurements, classic_heads, peers},
    tables::{MEAN_COLUMNS, mean_speedup, table},
};
use anyhow::{Context, Result};
use bench_record::Cell;
use std::collections::BTreeMap;

/// What the README's part is between.
pub(super) const BEGIN: &str = "<!-- Written by `cargo xtask report`. -->\n";
pub(super) const END: &str = "<!-- The end of what `cargo xtask report` writes. -->\n";

const COLUMNS: [u64; 9] = [128, 512, 1024, 2048, 4096, 16384, 32768, 131_072, 1 << 20];

const DTYPES: [&str; 3] = ["bf16", "f16", "f32"];

const LINES: [(&str, &str, &str); 6] = [
    ("forward", "none", "forward"),
    ("forward", "bytes", "forward, byte mask"),
    ("forward", "heads", "forward, byte mask of all heads"),
    ("forward", "causal", "forward, causal"),
    ("backward", "none", "backward"),
    ("backward_from_scores", "none", "backward from scores"),
];

/// The README with the measurements of these cards in its part for them.
pub(super) fn insert(readme: &str, cards: &BTreeMap<String, Measurements>) -> Result<String> {
    let (before, rest) = readme.split_once(BEGIN).context("the README has no part for a report")?;
    let (_, after) = rest.split_once(END).context("the README's part for a report has no end")?;
    let tables: Vec<String> = cards
        .iter()
        .flat_map(|(card, measurements)| {
            let (least, most) = MEAN_COLUMNS;
            let shares = format!("Share of the copy's speed, {card}:");
            let peers = format!(
                "Times as fast as other libraries, {card}, geometric means over {least} to {most} \
                 columns:"
            );
            let attention = format!(
                "Attention's forward, times as fast as other libraries, {card}, bf16, geometric means \
                 over lengths of sequences:"
            );
            [
                (shares, summary(measurements)),
                (peers, over_peers(measurements)),
                (attention, attention::over_peers(measurements)),
            ]
        })
        .filter(|(_, table)| !table.is_empty())
        .map(|(text, table)| format!("{text}\n\n{table}"))
        .collect();
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", tables.join("\n")))
}

/// A table of how many times as fast as each peer this library is.
fn over_peers(all: &Measurements) -> String {
    let names = peers(&all.beside_peers(|_| true));
    let heads: Vec<String> = [String::new()].into_iter().chain(names.clone()).collect();
    let mut rows = Vec::new();
    for (direction, mask, title) in LINES {
        for dtype in DTYPES {
            let cells = all.beside_peers(|cell| {
                cell.direction == direction && cell.mask == mask && cell.dtype == dtype
            });
            if cells.is_empty() {
                continue;
            }
            let means = names.iter().map(|name| {
                let mean = mean_speedup(&cells, name);
                mean.map_or_else(String::new, |mean| format!("{mean:.2}"))
            });
            rows.push([format!("{title}, {dtype}")].into_iter().chain(means).collect());
        }
    }
    table(&heads, &rows)
}

/// A table of shares of a copy, with a row for each direction, mask and element type.
fn summary(all: &Measurements) -> String {
    let heads =
        ["columns".to_owned()].into_iter().chain(COLUMNS.map(|columns| columns.to_string()));
    let heads: Vec<String> = heads.collect();
    let mut rows = Vec::new();
    for (direction, mask, title) in LINES {
        for dtype in DTYPES {
            let cells = all.beside_copy(|cell| {
                cell.direction == direction
                    && cell.mask == mask
                    && cell.dtype == dtype
                    && classic_heads(cell).is_none()
            });
            let share = |columns: u64| {
                let of_columns = |cell: &&&Cell| cell.columns == columns;
                let share = cells.iter().find(of_columns)?.speedup("ours", "copy")?;
                Some(format!("{:.2}", share.median))
            };
            let shares: Vec<Option<String>> = COLUMNS.into_iter().map(share).collect();
            if shares.iter().any(Option::is_some) {
                let shares = shares.into_iter().map(Option::unwrap_or_default);
                rows.push([format!("{title}, {dtype}")].into_iter().chain(shares).collect());
            }
        }
    }
    table(&heads, &rows)
}
