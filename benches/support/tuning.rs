//! Which tiles a tuning file should prefer, from what was measured.

use bench_record::Spread;
use fused_attention::{TilePreference, TunedMask, TunedOperation};

/// A kind of problems: those that take the same kernels of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// What is computed.
    pub operation: TunedOperation,
    /// The element type's name.
    pub dtype: &'static str,
    /// What hides parts of rows.
    pub mask: TunedMask,
    /// Whether rows begin on 16-byte boundaries.
    pub aligned: bool,
}

/// Sizes that are measured, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Bytes of a row.
    pub row_bytes: Vec<u64>,
    /// Rows.
    pub rows: Vec<u64>,
    /// The most bytes of all rows.
    pub most_bytes: u64,
}

/// Where a size stands in a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// In [`Grid::rows`].
    pub rows: usize,
    /// In [`Grid::row_bytes`].
    pub row_bytes: usize,
}

/// The largest number that TOML has.
const UNLIMITED: u64 = i64::MAX as u64;

impl Grid {
    /// All sizes that are small enough.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let all = (0..self.rows.len()).flat_map(|rows| {
            (0..self.row_bytes.len()).map(move |row_bytes| Place { rows, row_bytes })
        });
        all.filter(|&place| self.has(place))
    }

    fn has(&self, place: Place) -> bool {
        let sizes = (self.rows.get(place.rows), self.row_bytes.get(place.row_bytes));
        matches!(sizes, (Some(rows), Some(bytes)) if rows * bytes <= self.most_bytes)
    }

    /// The sizes that are nearer to a place than to its neighbours, by their ratio; beyond the last
    /// that was measured all.
    fn around(&self, place: Place) -> ((u64, u64), (u64, u64)) {
        let range = |sizes: &[u64], i: usize, is_last: bool| {
            let least = if i == 0 { 0 } else { (sizes[i - 1] * sizes[i]).isqrt() + 1 };
            let most = if is_last { UNLIMITED } else { (sizes[i] * sizes[i + 1]).isqrt() };
            (least, most)
        };
        let Place { rows, row_bytes } = place;
        let last_rows = !self.has(Place { rows: rows + 1, row_bytes });
        let last_bytes = row_bytes + 1 == self.row_bytes.len();
        (range(&self.row_bytes, row_bytes, last_bytes), range(&self.rows, rows, last_rows))
    }
}

/// The times of a tile, one for each round in which all tiles took turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// The tile's name.
    pub tile: &'static str,
    /// Of a call, in each round.
    pub microseconds: Vec<f64>,
}

/// A tile that is faster than that of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The kind of the problem.
    pub kind: Kind,
    /// Its size.
    pub place: Place,
    /// The tile of the table.
    pub from: &'static str,
    /// The faster one.
    pub to: &'static str,
    /// How many times as fast it is.
    pub gain: Spread,
}

/// The fastest tile and its gain, if it beats the table's in every round, and in the middle by at
/// least `noise`, a share.
pub fn faster(table: &Timing, others: &[Timing], noise: f64) -> Option<(&'static str, Spread)> {
    let gain = |other: &Timing| {
        let rounds = table.microseconds.iter().zip(&other.microseconds);
        Some((other.tile, Spread::of(rounds.map(|(table, other)| table / other))?))
    };
    let beats = |(_, gain): &(&str, Spread)| gain.least > 1.0 && gain.median >= 1.0 + noise;
    let gains = others.iter().filter_map(gain).filter(beats);
    gains.max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
}

/// The preferences that make these changes. Neighbours that change to the same tile become one.
pub fn preferences(grid: &Grid, changes: &[Change]) -> Vec<TilePreference> {
    let mut changes: Vec<&Change> = changes.iter().collect();
    changes.sort_by_key(|change| (change.kind, change.place));
    let one = |change: &Change| {
        let Kind { operation, dtype, mask, aligned } = change.kind;
        let (row_bytes, rows) = grid.around(change.place);
        let (dtype, tile) = (dtype.to_owned(), change.to.to_owned());
        TilePreference { operation, dtype, mask, aligned, row_bytes, rows, tile }
    };
    let mut merged: Vec<TilePreference> = Vec::new();
    for preference in changes.into_iter().map(one) {
        match merged.last_mut() {
            Some(last)
                if follows(last.row_bytes, preference.row_bytes)
                    && *last
                        == (TilePreference { row_bytes: last.row_bytes, ..preference.clone() }) =>
            {
                last.row_bytes.1 = preference.row_bytes.1;
            }
            _ => merged.push(preference),
        }
    }
    let mut result: Vec<TilePreference> = Vec::new();
    for preference in merged {
        let below = result.iter_mut().find(|last| {
            follows(last.rows, preference.rows)
                && **last == (TilePreference { rows: last.rows, ..preference.clone() })
        });
        match below {
            Some(last) => last.rows.1 = preference.rows.1,
            None => result.push(preference),
        }
    }
    result
}

fn follows(first: (u64, u64), second: (u64, u64)) -> bool {
    first.1.checked_add(1) == Some(second.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        operation: TunedOperation::SoftmaxForward,
        dtype: "bf16",
        mask: TunedMask::None,
        aligned: true,
    };

    fn grid() -> Grid {
        Grid { row_bytes: vec![100, 400, 1600], rows: vec![1, 16, 256], most_bytes: 100_000 }
    }

    fn timing(tile: &'static str, microseconds: &[f64]) -> Timing {
        Timing { tile, microseconds: microseconds.to_vec() }
    }

    fn change(rows: usize, row_bytes: usize, to: &'static str) -> Change {
        let gain = Spread { median: 1.1, least: 1.1, most: 1.1 };
        Change { kind: KIND, place: Place { rows, row_bytes }, from: "a", to, gain }
    }

    #[test]
    fn a_tile_must_beat_the_table_in_every_round_and_by_more_than_the_noise() {
        let table = timing("table", &[10.0, 11.0, 10.0]);
        let once_slower = timing("once slower", &[5.0, 5.0, 10.1]);
        let hardly = timing("hardly", &[9.9, 10.9, 9.9]);
        assert_eq!(faster(&table, &[once_slower.clone(), hardly.clone()], 0.02), None);
        let fast = timing("fast", &[9.0, 10.0, 9.5]);
        let fastest = timing("fastest", &[8.0, 8.0, 8.0]);
        let all = [once_slower, fast.clone(), fastest, hardly];
        let (tile, gain) = faster(&table, &all, 0.02).unwrap();
        assert_eq!(tile, "fastest");
        assert_eq!(gain, Spread { median: 1.25, least: 1.25, most: 1.375 });
        assert_eq!(faster(&table, &[fast], 0.2), None);
        assert_eq!(faster(&table, &[], 0.02), None);
    }

    #[test]
    fn places_are_those_that_fit() {
        let places: Vec<_> = grid().places().map(|place| (place.rows, place.row_bytes)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]);
    }

    #[test]
    fn a_preference_reaches_half_way_to_its_neighbours() {
        let [only] = &preferences(&grid(), &[change(1, 1, "b")])[..] else { panic!() };
        assert_eq!((only.row_bytes, only.tile.as_str()), ((201, 800), "b"));
        // No more rows of this length were measured.
        assert_eq!(only.rows, (5, UNLIMITED));
        let [first] = &preferences(&grid(), &[change(0, 0, "b")])[..] else { panic!() };
        assert_eq!((first.row_bytes, first.rows), ((0, 200), (0, 4)));
    }

    #[test]
    fn neighbours_become_one() {
        let changes = [
            change(1, 1, "b"),
            change(0, 0, "b"),
            change(1, 2, "b"),
            change(0, 1, "b"),
            change(0, 2, "b"),
            change(2, 0, "c"),
        ];
        let ranges = |changes: &[Change]| -> Vec<_> {
            let all = preferences(&grid(), changes).into_iter();
            all.map(|p| (p.row_bytes, p.rows, p.tile)).collect()
        };
        let expected = [
            ((0, UNLIMITED), (0, 4), "b".to_owned()),
            ((201, UNLIMITED), (5, UNLIMITED), "b".to_owned()),
            ((0, 200), (65, UNLIMITED), "c".to_owned()),
        ];
        assert_eq!(ranges(&changes), expected);
        // The same lengths with more rows.
        let column = [change(0, 0, "b"), change(1, 0, "b"), change(2, 0, "b")];
        assert_eq!(ranges(&column), [((0, 200), (0, UNLIMITED), "b".to_owned())]);
        // Not across another kind.
        let other = Change { kind: Kind { aligned: false, ..KIND }, ..change(1, 0, "b") };
        assert_eq!(ranges(&[change(0, 0, "b"), other]).len(), 2);
    }
}
