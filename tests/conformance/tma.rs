//! Copies of tiles of tensors.

use super::harness::{Buffer, Random, assert_same_bits, conformance_from, conformance_on, launch};
use conformance_kernels::tma;
use cuda_ptx::Arch;
use fused_attention::{
    Kernel, LaunchConfig, TensorDimension, TensorElement, TensorMap, TensorTiling, TileSwizzle,
};

/// A tensor in a buffer, and its tiles.
#[derive(Debug, Clone)]
struct Case {
    element: TensorElement,
    dimensions: Vec<TensorDimension>,
    swizzle: TileSwizzle,
}

impl Case {
    /// A tensor of these sizes and tiles. Dimensions lie in memory in this order, the first included,
    /// with gaps behind all but the first.
    fn new(element: TensorElement, sizes: &[(u64, u32)], order: &[usize]) -> Case {
        let bytes = u64::from(element.bytes());
        let mut dimensions: Vec<TensorDimension> = sizes
            .iter()
            .map(|&(size, tile)| TensorDimension { size, stride: bytes, tile })
            .collect();
        let mut stride = bytes;
        for &i in order {
            dimensions[i].stride = stride;
            let padding = if i == 0 { 0 } else { 16 };
            stride = (stride * dimensions[i].size).next_multiple_of(16) + padding;
        }
        Case { element, dimensions, swizzle: TileSwizzle::None }
    }

    fn swizzled(self, swizzle: TileSwizzle) -> Case {
        Case { swizzle, ..self }
    }

    fn tiling(&self, address: u64) -> TensorTiling<'_> {
        let &Case { element, ref dimensions, swizzle } = self;
        TensorTiling { address, element, dimensions, swizzle }
    }

    fn tile_bytes(&self) -> usize {
        self.tiling(0).tile_bytes() as usize
    }

    /// Bytes of the tensor, with what lies between its elements.
    fn tensor_bytes(&self) -> usize {
        let last: u64 = self.dimensions.iter().map(|d| (d.size - 1) * d.stride).sum();
        (last as usize + self.element.bytes() as usize).next_multiple_of(16)
    }

    /// Whether a tile can be stored here: not at negative coordinates, nor past the end of rows that end
    /// within 16 bytes.
    fn can_be_stored(&self, at: &[i32]) -> bool {
        let first = self.dimensions[0];
        let whole = (first.size * first.stride).is_multiple_of(16);
        let inside = at[0] as i64 + i64::from(first.tile) <= first.size as i64;
        at.iter().all(|at| *at >= 0) && (whole || inside)
    }

    /// Of each byte of the tile that begins at `at`: where it is in shared memory, and, unless it is
    /// outside of the tensor, in the tensor.
    fn bytes(&self, at: &[i32]) -> impl Iterator<Item = (usize, Option<usize>)> {
        let element = self.element.bytes() as usize;
        let pieces = self.swizzle.row_bytes().unwrap_or(16) as usize / 16;
        (0..self.tile_bytes()).map(move |offset| {
            let (mut index, byte) = (offset / element, offset % element);
            let mut place = Some(byte);
            for (dimension, at) in self.dimensions.iter().zip(at) {
                let tile = dimension.tile as usize;
                let i = i64::from(*at) + (index % tile) as i64;
                index /= tile;
                let inside = (0..dimension.size as i64).contains(&i);
                place = place
                    .filter(|_| inside)
                    .map(|place| place + i as usize * dimension.stride as usize);
            }
            (offset ^ (offset / 128 % pieces * 16), place)
        })
    }
}

type Load = Kernel<(TensorMap, [i32; 5], *mut u32)>;
type Store = Kernel<(TensorMap, [i32; 5], *const u32)>;

const LOADS: [&Load; 4] =
    [&tma::tma_load_2d, &tma::tma_load_3d, &tma::tma_load_4d, &tma::tma_load_5d];
const STORES: [&Store; 4] =
    [&tma::tma_store_2d, &tma::tma_store_3d, &tma::tma_store_4d, &tma::tma_store_5d];

/// The coordinates, filled up with what must not count.
fn five(at: &[i32]) -> [i32; 5] {
    std::array::from_fn(|i| at.get(i).copied().unwrap_or(-7))
}

/// Words of bytes.
fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// Loads and stores the tiles of a tensor that begin at these coordinates.
fn check(case: &Case, tiles: &[&[i32]]) {
    let threads = case.tile_bytes() / 4;
    let config = LaunchConfig::new(1, threads as u32).shared_bytes(case.tile_bytes() as u32 + 16);
    let kernel = case.dimensions.len() - 2;
    let mut random = Random(41);
    let mut bytes = |count: usize| -> Vec<u8> {
        let values: Vec<u32> = random.values(count.div_ceil(4));
        values.iter().flat_map(|word| word.to_le_bytes()).take(count).collect()
    };
    let (tensor, tile) = (bytes(case.tensor_bytes()), bytes(case.tile_bytes()));
    conformance_from((9, 0), |device| {
        for at in tiles {
            let what = format!("{case:?} at {at:?}");
            let from = Buffer::new(device, &words(&tensor));
            let to = Buffer::<u32>::empty(device, threads);
            let map = device.tensor_map(&case.tiling(from.pointer() as u64)).unwrap();
            // SAFETY: a thread for each word of the tile, and memory for it and the barrier.
            unsafe { launch(device, LOADS[kernel], config, (map, five(at), to.pointer_mut())) };
            let mut expected = vec![0; case.tile_bytes()];
            for (in_tile, in_tensor) in case.bytes(at) {
                expected[in_tile] = in_tensor.map_or(0, |place| tensor[place]);
            }
            assert_same_bits(&to.to_vec(), &words(&expected), &format!("loaded, {what}"));

            if !case.can_be_stored(at) {
                continue;
            }
            let from = Buffer::new(device, &words(&tile));
            let to = Buffer::new(device, &words(&tensor));
            let map = device.tensor_map(&case.tiling(to.pointer() as u64)).unwrap();
            // SAFETY: as above.
            unsafe { launch(device, STORES[kernel], config, (map, five(at), from.pointer())) };
            let mut expected = tensor.clone();
            for (in_tile, in_tensor) in case.bytes(at) {
                if let Some(place) = in_tensor {
                    expected[place] = tile[in_tile];
                }
            }
            assert_same_bits(&to.to_vec(), &words(&expected), &format!("stored, {what}"));
        }
    });
}

#[test]
fn tiles_of_every_number_of_dimensions() {
    use TensorElement::{Bf16, F32, U8};
    check(&Case::new(Bf16, &[(40, 16), (9, 4)], &[0, 1]), &[&[0, 0], &[16, 4], &[24, 5]]);
    check(
        &Case::new(F32, &[(20, 8), (5, 2), (6, 3)], &[0, 2, 1]),
        &[&[0, 0, 0], &[12, 3, 3], &[8, 1, 2]],
    );
    check(
        &Case::new(U8, &[(64, 32), (3, 1), (7, 5), (4, 2)], &[0, 1, 2, 3]),
        &[&[0, 0, 0, 0], &[32, 2, 2, 2], &[16, 1, 1, 0]],
    );
    check(
        &Case::new(Bf16, &[(24, 8), (3, 2), (4, 2), (5, 3), (2, 2)], &[0, 3, 1, 4, 2]),
        &[&[0, 0, 0, 0, 0], &[16, 1, 2, 2, 0], &[8, 1, 0, 1, 0]],
    );
}

#[test]
fn elements_of_every_size() {
    use TensorElement::{Bf16, F16, F32, F64, I32, I64, U8, U16, U32, U64};
    for element in [U8, U16, U32, I32, U64, I64, F16, F32, F64, Bf16] {
        let in_a_row = 64 / element.bytes();
        let case = Case::new(element, &[(2 * u64::from(in_a_row), in_a_row), (6, 4)], &[0, 1]);
        check(&case, &[&[0, 0], &[16 / element.bytes() as i32, 1]]);
    }
}

#[test]
fn what_is_outside_is_zero_and_is_not_stored() {
    let odd = Case::new(TensorElement::Bf16, &[(20, 16), (5, 4), (3, 2)], &[0, 1, 2]);
    check(&odd, &[&[8, 0, 0], &[-8, 0, 0], &[0, 3, 0], &[24, 0, 0]]);
    let whole = Case::new(TensorElement::Bf16, &[(24, 16), (5, 4), (3, 2)], &[0, 1, 2]);
    check(
        &whole,
        &[
            &[8, 0, 0],
            &[-8, 0, 0],
            &[0, 3, 0],
            &[0, -2, 1],
            &[0, 0, 2],
            &[16, -1, -1],
            &[24, 0, 0],
            &[0, 5, 0],
            &[-16, 0, 0],
            &[1000, 1000, -1000],
        ],
    );
    // The tile is larger than the tensor.
    check(
        &Case::new(TensorElement::U8, &[(5, 16), (2, 8)], &[0, 1]),
        &[&[0, 0], &[0, -3], &[-16, 0]],
    );
}

#[test]
fn tiles_are_swizzled() {
    let swizzles = [
        (TileSwizzle::None, 64),
        (TileSwizzle::Bytes32, 16),
        (TileSwizzle::Bytes64, 32),
        (TileSwizzle::Bytes128, 64),
    ];
    for (swizzle, columns) in swizzles {
        for tile_rows in [8, 24] {
            let case = Case::new(
                TensorElement::Bf16,
                &[(u64::from(columns) + 8, columns), (30, tile_rows)],
                &[0, 1],
            );
            check(&case.swizzled(swizzle), &[&[0, 0], &[8, 5], &[-8, 20]]);
        }
    }
}

#[test]
fn tiles_go_from_tensor_to_tensor() {
    let (columns, count) = (32, 8);
    let sizes = [(columns as u64 * count as u64 - 8, columns), (20, 16)];
    let case = Case::new(TensorElement::F32, &sizes, &[0, 1]).swizzled(TileSwizzle::Bytes128);
    let values: Vec<u32> = Random(43).values(case.tensor_bytes() / 4);
    conformance_from((9, 0), |device| {
        let from = Buffer::new(device, &values);
        let to = Buffer::new(device, &vec![0u32; values.len()]);
        let maps = [from.pointer(), to.pointer()]
            .map(|address| device.tensor_map(&case.tiling(address as u64)).unwrap());
        let tile_bytes = case.tile_bytes() as u32;
        let config = LaunchConfig::new(1, 32).shared_bytes(3 * tile_bytes + 24);
        let args = (maps[0], maps[1], columns as i32, tile_bytes, count);
        // SAFETY: memory for three tiles and their barriers.
        unsafe { launch(device, &tma::tma_copy, config, args) };
        let mut expected = vec![0; values.len()];
        let row_words = case.dimensions[1].stride as usize / 4;
        for row in 0..16 {
            for column in 0..case.dimensions[0].size as usize {
                expected[row * row_words + column] = values[row * row_words + column];
            }
        }
        assert_same_bits(&to.to_vec(), &expected, "copied");
    });
}

#[test]
fn a_cluster_shares_what_each_of_its_blocks_loads() {
    let (columns, part_rows, clusters) = (32u32, 2u32, 3);
    conformance_on(Arch::Sm90a, |device| {
        for blocks in [1, 2, 4] {
            let rows = blocks * part_rows;
            let sizes = [(u64::from(2 * columns), columns), (u64::from(rows), part_rows)];
            let case = Case::new(TensorElement::U32, &sizes, &[0, 1]);
            let values: Vec<u32> = Random(44).values(case.tensor_bytes() / 4);
            let from = Buffer::new(device, &values);
            let threads = rows * columns;
            let to = Buffer::<u32>::empty(device, (2 * clusters * blocks * threads) as usize);
            let map = device.tensor_map(&case.tiling(from.pointer() as u64)).unwrap();
            let config = LaunchConfig::new(clusters * blocks, threads)
                .cluster(blocks)
                .shared_bytes(4 * threads + 16);
            let args = (map, part_rows as i32, columns as i32, to.pointer_mut());
            // SAFETY: two words for each thread, and memory for the tile and two barriers.
            unsafe { launch(device, &tma::tma_load_multicast, config, args) };
            let row_words = case.dimensions[1].stride as usize / 4;
            let word = |i: u32, turn: u32| {
                let (row, column) = (i / columns, turn * columns + i % columns);
                values[row as usize * row_words + column as usize]
            };
            let tile = (0..threads).flat_map(|i| [word(i, 0), word(i, 1)]);
            let tile: Vec<u32> = tile.collect();
            let expected = tile.repeat((clusters * blocks) as usize);
            assert_same_bits(&to.to_vec(), &expected, &format!("clusters of {blocks}"));
        }
    });
}
