//! Tables in Markdown.

use bench_record::{Cell, Spread, geometric_mean};
use std::collections::BTreeSet;

/// The row lengths that geometric means are over.
pub(super) const MEAN_COLUMNS: (u64, u64) = (512, 131_072);

/// A table of `rows` with these heads; nothing without rows.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); heads.len()];
    let mut text = line(heads) + &line(&rule).replace("| ", "|").replace(" |", "|");
    for row in rows {
        text += &line(row);
    }
    text
}

/// A table with a row for each number of columns and a column for each group, of the median of
/// `value` of the cell that is in the group; empty where there is none.
pub(super) fn by_columns(
    cells: &[&Cell],
    groups: &[String],
    group_of: impl Fn(&Cell) -> String,
    value: impl Fn(&Cell) -> Option<f64>,
) -> String {
    let heads: Vec<String> = ["columns".to_owned()].into_iter().chain(groups.to_vec()).collect();
    let columns: BTreeSet<u64> = cells.iter().map(|cell| cell.columns).collect();
    let rows: Vec<Vec<String>> = columns
        .into_iter()
        .map(|columns| {
            let entry = |group: &String| {
                let is_it = |cell: &&&Cell| cell.columns == columns && group_of(cell) == *group;
                let value = cells.iter().find(is_it).and_then(|cell| value(cell));
                value.map_or_else(String::new, |value| format!("{value:.3}"))
            };
            [columns.to_string()].into_iter().chain(groups.iter().map(entry)).collect()
        })
        .collect();
    table(&heads, &rows)
}

/// The groups that occur, in this order.
pub(super) fn groups(
    cells: &[&Cell],
    order: &[&str],
    group_of: impl Fn(&Cell) -> String,
) -> Vec<String> {
    let present: BTreeSet<String> = cells.iter().map(|cell| group_of(cell)).collect();
    order.iter().map(|&group| group.to_owned()).filter(|group| present.contains(group)).collect()
}

/// `1.234 (1.200 .. 1.300)`.
pub(super) fn spread(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |Spread { median, least, most }| {
        format!("{median:.3} ({least:.3} .. {most:.3})")
    })
}

/// TB/s of an implementation, from the bytes that must be moved.
pub(super) fn speed(cell: &Cell, implementation: &str) -> Option<f64> {
    let time = cell.time(implementation)?.median;
    Some(cell.bytes as f64 / time / 1e6)
}

/// The geometric mean of the medians of how many times as fast as a peer we are.
pub(super) fn mean_speedup(cells: &[&Cell], over: &str) -> Option<f64> {
    let (least, most) = MEAN_COLUMNS;
    let counts = |cell: &&&Cell| (least..=most).contains(&cell.columns);
    let medians: Vec<f64> = cells
        .iter()
        .filter(counts)
        .filter_map(|cell| Some(cell.speedup("ours", over)?.median))
        .collect();
    geometric_mean(&medians)
}
