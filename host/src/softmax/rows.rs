//! From the leading dimensions of a problem's tensors to the few that a kernel counts rows in, and
//! to launches of bounded size.

/// The tensors whose rows are counted, in the order of the arrays below.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Source,
    Output,
    Bytes,
    Additive,
    Lengths,
    BankIndex,
    Gradient,
    Lse,
}

/// How many they are.
pub(super) const OPERANDS: usize = 8;

/// Rows of one launch, at most: row numbers are 32 bits wide, and a
/// cluster takes several blocks for each.
pub(super) const MAX_ROWS: u64 = 1 << 26;

/// A dimension that rows are counted in, with the stride of each operand, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowDimension {
    pub size: u64,
    pub strides: [i64; OPERANDS],
}

impl RowDimension {
    /// Are these operands the same all along it?
    fn shares(&self, operands: &[Operand]) -> bool {
        operands.iter().all(|&operand| self.strides[operand as usize] == 0)
    }
}

/// Lets rows that share their element masks be neighbours, so that a mask is read from memory once
/// and from then on found in the GPU's caches, whatever their size.
pub(super) fn neighbours_share_masks(dimensions: Vec<RowDimension>) -> Vec<RowDimension> {
    let masks = [Operand::Bytes, Operand::Additive, Operand::BankIndex];
    let shares = |dimension: &RowDimension| dimension.shares(&masks);
    let (mut sharing, others): (Vec<_>, Vec<_>) = dimensions.into_iter().partition(shares);
    sharing.extend(others);
    sharing
}

/// How many rows share all that hides their columns, and are neighbours along the first dimension.
/// More than a launch takes count as none.
pub(super) fn sharers(dimensions: &[RowDimension]) -> u64 {
    let masks = [Operand::Bytes, Operand::Additive, Operand::BankIndex, Operand::Lengths];
    let shares = |dimension: &&RowDimension| dimension.size <= MAX_ROWS && dimension.shares(&masks);
    dimensions.first().filter(shares).map_or(1, |dimension| dimension.size)
}

/// Drops dimensions of size 1 and merges neighbours that are one to every operand. Dimensions are
/// innermost first; with `keep_innermost` the first stays what it is.
pub(super) fn merge(dimensions: &[RowDimension], keep_innermost: bool) -> Vec<RowDimension> {
    let mut merged: Vec<RowDimension> = Vec::with_capacity(dimensions.len());
    // The first dimension that others may be merged into.
    let free = usize::from(keep_innermost);
    for (i, dimension) in dimensions.iter().enumerate() {
        if dimension.size == 1 && i >= free {
            continue;
        }
        match merged.get_mut(free..).and_then(<[_]>::last_mut) {
            Some(inner) if continues(inner, dimension) => inner.size *= dimension.size,
            _ => merged.push(*dimension),
        }
    }
    merged
}

/// Is a step along `outer` as long as all the steps along `inner`, for every operand?
fn continues(inner: &RowDimension, outer: &RowDimension) -> bool {
    let mut strides = inner.strides.iter().zip(&outer.strides);
    inner.size.checked_mul(outer.size).is_some()
        && strides.all(|(&inner_stride, &outer_stride)| {
            inner_stride.checked_mul(inner.size as i64) == Some(outer_stride)
        })
}

/// Rows that one launch takes: the sizes of the dimensions it counts them in, and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    /// Rows of the launch.
    pub rows: u32,
    /// Sizes of the dimensions that count, innermost first.
    pub sizes: Vec<u32>,
    /// The index in the innermost dimension of the first row.
    pub first_query: u64,
    /// Where each operand begins, in elements.
    pub offsets: [i64; OPERANDS],
}

/// Cuts the rows into launches of at most `limit` rows.
pub(super) fn slices(dimensions: &[RowDimension], limit: u64) -> Vec<Slice> {
    let mut slices = Vec::new();
    // The dimensions below `cut` fit as a whole; `cut` itself is taken in chunks.
    let (mut inner, mut cut) = (1u64, 0);
    while cut < dimensions.len() && inner.saturating_mul(dimensions[cut].size) <= limit {
        inner *= dimensions[cut].size;
        cut += 1;
    }
    let whole: Vec<u32> = dimensions[..cut].iter().map(|d| d.size as u32).collect();
    let Some(chunked) = dimensions.get(cut) else {
        let rows = inner as u32;
        let offsets = [0; OPERANDS];
        return vec![Slice { rows, sizes: whole, first_query: 0, offsets }];
    };
    let outer = &dimensions[cut + 1..];
    let outer_count: u64 = outer.iter().map(|d| d.size).product();
    let chunk = limit / inner;
    for index in 0..outer_count {
        let mut rest = index;
        let mut base = [0i64; OPERANDS];
        for dimension in outer {
            let step = (rest % dimension.size) as i64;
            rest /= dimension.size;
            add_scaled(&mut base, &dimension.strides, step);
        }
        let mut begin = 0;
        while begin < chunked.size {
            let size = chunk.min(chunked.size - begin);
            let mut offsets = base;
            add_scaled(&mut offsets, &chunked.strides, begin as i64);
            let mut sizes = whole.clone();
            sizes.push(size as u32);
            slices.push(Slice {
                rows: (inner * size) as u32,
                sizes,
                first_query: if cut == 0 { begin } else { 0 },
                offsets,
            });
            begin += size;
        }
    }
    slices
}

fn add_scaled(offsets: &mut [i64; OPERANDS], strides: &[i64; OPERANDS], steps: i64) {
    for (offset, stride) in offsets.iter_mut().zip(strides) {
        *offset += stride * steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The offsets of all rows, as nested loops over the dimensions give them.
    fn expected(dimensions: &[RowDimension]) -> Vec<[i64; OPERANDS]> {
        let mut rows = vec![[0; OPERANDS]];
        for dimension in dimensions {
            let inner = rows.clone();
            rows.clear();
            for step in 0..dimension.size as i64 {
                rows.extend(inner.iter().map(|row| {
                    let mut row = *row;
                    add_scaled(&mut row, &dimension.strides, step);
                    row
                }));
            }
        }
        rows
    }

    /// The offsets of all rows, as the launches count them.
    fn launched(dimensions: &[RowDimension], limit: u64) -> Vec<[i64; OPERANDS]> {
        let mut all = Vec::new();
        for slice in slices(dimensions, limit) {
            assert_eq!(u64::from(slice.rows), slice.sizes.iter().map(|&s| u64::from(s)).product());
            let part: Vec<_> = dimensions
                .iter()
                .zip(&slice.sizes)
                .map(|(d, &size)| RowDimension { size: size.into(), ..*d })
                .collect();
            for mut row in expected(&part) {
                add_scaled(&mut row, &slice.offsets, 1);
                all.push(row);
            }
        }
        all
    }

    fn dimension() -> impl Strategy<Value = RowDimension> {
        // Few different strides, so that dimensions often continue one another.
        let strides = (0usize..4, 0usize..3).prop_map(|(a, b)| {
            let (a, b) = ([0i64, 1, 2, 4][a], [0i64, 1, 2][b]);
            [a, a, b, a, b, a, b, a]
        });
        (1u64..4, strides).prop_map(|(size, strides)| RowDimension { size, strides })
    }

    proptest! {
        #[test]
        fn merging_keeps_every_row_where_it_was(
            dimensions in prop::collection::vec(dimension(), 0..6),
            keep_innermost: bool,
        ) {
            let merged = merge(&dimensions, keep_innermost);
            prop_assert_eq!(expected(&merged), expected(&dimensions));
            if let (true, Some(first)) = (keep_innermost, dimensions.first()) {
                prop_assert_eq!(&merged[0], first);
            }
        }

        #[test]
        fn slices_cover_every_row_once(
            dimensions in prop::collection::vec(dimension(), 0..6),
            limit in 1u64..40,
        ) {
            prop_assert_eq!(launched(&dimensions, limit), expected(&dimensions));
            prop_assert!(slices(&dimensions, limit).iter().all(|s| u64::from(s.rows) <= limit));
        }
    }

    #[test]
    fn contiguous_dimensions_become_one() {
        let dimensions = [4u64, 3, 2].iter().scan(10i64, |stride, &size| {
            let strides = [*stride, *stride, 0, 0, 0, 0, *stride, 0];
            *stride *= size as i64;
            Some(RowDimension { size, strides })
        });
        let merged = merge(&dimensions.collect::<Vec<_>>(), false);
        assert_eq!(merged, [RowDimension { size: 24, strides: [10, 10, 0, 0, 0, 0, 10, 0] }]);
    }

    #[test]
    fn rows_that_share_a_mask_are_neighbours() {
        let [heads, queries, batch] = [(8, 0), (64, 64), (2, 4096)].map(|(size, bytes)| {
            let mut strides = [size as i64; OPERANDS];
            strides[Operand::Bytes as usize] = bytes;
            strides[Operand::Additive as usize] = 0;
            strides[Operand::BankIndex as usize] = 0;
            RowDimension { size, strides }
        });
        let ordered = neighbours_share_masks(vec![queries, heads, batch]);
        assert_eq!(ordered, [heads, queries, batch]);
        let mut of_bank = heads;
        of_bank.strides[Operand::BankIndex as usize] = 1;
        assert_eq!(neighbours_share_masks(vec![queries, of_bank]), [queries, of_bank]);
    }

    #[test]
    fn the_innermost_dimension_is_kept_beside_one_of_size_1() {
        let dimension = |size, stride| RowDimension { size, strides: [stride; OPERANDS] };
        let dimensions = [dimension(5, 8), dimension(1, 40), dimension(2, 40), dimension(3, 80)];
        assert_eq!(merge(&dimensions, true), [dimension(5, 8), dimension(6, 40)]);
        assert_eq!(merge(&dimensions, false), [dimension(30, 8)]);
        assert_eq!(merge(&dimensions[1..2], true), dimensions[1..2]);
    }

    #[test]
    fn a_query_dimension_longer_than_a_launch_keeps_its_indices() {
        let strides = [7, 7, 0, 0, 0, 0, 0, 1];
        let cut = slices(&[RowDimension { size: 10, strides }], 4);
        let firsts: Vec<_> = cut.iter().map(|s| (s.first_query, s.rows, s.offsets[0])).collect();
        assert_eq!(firsts, [(0, 4, 0), (4, 4, 28), (8, 2, 56)]);
    }
}
