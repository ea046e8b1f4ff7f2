//! Which measurements a page tells: of each problem the latest, card by card.

use bench_record::{Cell, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Implementations that are not another library.
const OWN: [&str; 5] = ["ours", "copy", "unmasked", "plain", "host"];

/// What records call attention's forward.
const ATTENTION: &str = "attention_forward";

/// The latest measurements on a card.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    cells: BTreeMap<Key, Cell>,
}

/// What is measured: only the latest of a key counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    benchmark: Kind,
    direction: String,
    dtype: String,
    mask: String,
    columns: u64,
    total_bytes: Option<u64>,
    /// The heads, in problems of whole attention scores.
    classic: Option<u64>,
    /// All sizes of attention, and the tile, or beside other libraries the kernel that it belongs to.
    attention: Option<(Vec<u64>, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Beside a copy only.
    Copy,
    /// Beside other libraries.
    Peers,
    /// Attention, by itself.
    Attention,
    /// Attention beside other libraries.
    AttentionPeers,
    /// Host time.
    Launch,
    /// First uses.
    FirstUse,
}

/// The heads of scores of 32 batch entries and square matrices.
pub(super) fn classic_heads(cell: &Cell) -> Option<u64> {
    match *cell.shape {
        [32, heads @ (12 | 16), queries, columns] if queries == columns => Some(heads),
        _ => None,
    }
}

/// The kernel that attention's tile belongs to: the first word of its name.
pub(super) fn kernel_of(cell: &Cell) -> &str {
    cell.tile.as_deref().and_then(|tile| tile.split('_').next()).unwrap_or_default()
}

impl Measurements {
    /// Of all records, by the card's name.
    pub fn by_card(records: &BTreeMap<String, Record>) -> BTreeMap<String, Measurements> {
        let mut by_date: Vec<&Record> = records.values().collect();
        by_date.sort_by(|a, b| a.date.cmp(&b.date));
        let mut cards = BTreeMap::<String, Measurements>::new();
        for record in by_date {
            let card = record.card.split(',').next().unwrap_or_default().trim().to_owned();
            let measurements = cards.entry(card).or_default();
            for cell in &record.cells {
                measurements.cells.insert(key(record, cell), cell.clone());
            }
        }
        cards
    }

    /// Problems beside a copy, of the usual size, in order of their columns: what `wanted` says.
    pub fn beside_copy(&self, wanted: impl Fn(&Cell) -> bool) -> Vec<&Cell> {
        self.of_size(None, wanted)
    }

    /// The same of this size; None is the usual one.
    pub fn of_size(&self, size: Option<u64>, wanted: impl Fn(&Cell) -> bool) -> Vec<&Cell> {
        let of_size = self.of_kind(Kind::Copy).filter(|cell| cell.total_bytes == size);
        of_size.filter(|cell| wanted(cell)).collect()
    }

    /// The sizes of problems beside a copy, other than the usual one.
    pub fn unusual_sizes(&self) -> BTreeSet<u64> {
        self.of_kind(Kind::Copy).filter_map(|cell| cell.total_bytes).collect()
    }

    /// Problems beside other libraries.
    pub fn beside_peers(&self, wanted: impl Fn(&Cell) -> bool) -> Vec<&Cell> {
        self.of_kind(Kind::Peers).filter(|cell| wanted(cell)).collect()
    }

    /// Attention beside other libraries.
    pub fn attention_beside_peers(&self) -> Vec<&Cell> {
        self.of_kind(Kind::AttentionPeers).collect()
    }

    /// Attention by itself: each problem by each tile.
    pub fn attention_by_tile(&self) -> Vec<&Cell> {
        self.of_kind(Kind::Attention).collect()
    }

    /// Host time of calls.
    pub fn launches(&self) -> Vec<&Cell> {
        self.of_kind(Kind::Launch).collect()
    }

    /// First uses of entries.
    pub fn first_uses(&self) -> Vec<&Cell> {
        self.of_kind(Kind::FirstUse).collect()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |(key, _)| key.benchmark == kind).map(|(_, cell)| cell)
    }
}

/// The names of other libraries' implementations in these cells.
pub(super) fn peers(cells: &[&Cell]) -> Vec<String> {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.microseconds.keys()).collect();
    names.into_iter().filter(|name| is_peer(name)).cloned().collect()
}

fn is_peer(name: &str) -> bool {
    !OWN.contains(&name)
}

fn key(record: &Record, cell: &Cell) -> Key {
    let benchmark = match record.benchmark.as_str() {
        "launch overhead" => Kind::Launch,
        "first use" => Kind::FirstUse,
        "softmax peers" => Kind::Peers,
        "attention" => Kind::Attention,
        "attention peers" => Kind::AttentionPeers,
        _ => Kind::Copy,
    };
    let tile = match benchmark {
        Kind::AttentionPeers => kernel_of(cell),
        _ => cell.tile.as_deref().unwrap_or_default(),
    };
    Key {
        benchmark,
        direction: cell.direction.clone(),
        dtype: cell.dtype.clone(),
        mask: cell.mask.clone(),
        columns: cell.columns,
        total_bytes: cell.total_bytes,
        classic: classic_heads(cell),
        attention: (cell.direction == ATTENTION).then(|| (cell.shape.clone(), tile.to_owned())),
    }
}
