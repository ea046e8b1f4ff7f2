//! A row of the table of tiles as a candidate for a problem.

use super::{forms::Sizes, launch::Entry, tensor_maps::Tilings};
use crate::{
    Dtype, Kernel, LaunchConfig, RawTensor,
    choice::{self, runs_on},
};
use kernels::{
    attention::entries::{
        ATTENTION_FORWARD_VARIANTS, AttentionForwardVariant, HOPPER_FORWARD_VARIANTS,
        HopperArguments, PortableArguments,
    },
    tiles::{AttentionPreference, AttentionTile},
};

/// A kernel, before it is known for what.
#[derive(Clone, Copy)]
enum Family {
    Portable(&'static Kernel<PortableArguments>),
    Hopper(&'static Kernel<HopperArguments>),
}

/// A row of the table, and the entry of it that a problem would take, if it has one, with the shared
/// memory that it needs.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub tile: &'static AttentionTile,
    pub shared_bytes: u32,
    kernel: Option<Family>,
    /// What it has kernels for instead, if none for the problem.
    why_not: &'static str,
}

impl Candidate {
    /// Whether there is a kernel.
    pub fn exists(&self) -> bool {
        self.kernel.is_some()
    }
}

/// What an entry can do beside lengths, packed sequences, causal masks, windows and shared heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Features {
    /// Nothing.
    Plain,
    /// Boolean masks, biases, ALiBi.
    Masked,
    /// Everything: boolean masks, biases, ALiBi, softcap, dropout, rows off the 16-byte grid.
    All,
}

/// What the choice of a tile depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub dtype: Dtype,
    pub sizes: Sizes,
    /// Whether probabilities are dropped.
    pub drops: bool,
    /// q, k, v and o.
    pub tensors: [RawTensor; 4],
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Shared memory that a block can have.
    pub shared_bytes: u32,
}

/// How a problem is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Query heads that share a tile.
    pub packed_heads: usize,
    /// Row groups of a batch entry.
    pub groups: usize,
    /// Tiles of a row group.
    pub tiles: usize,
}

/// The table's rows with the entries for an element type and features.
pub(super) fn candidates(dtype: Dtype, features: Features) -> impl Iterator<Item = Candidate> {
    let hopper = HOPPER_FORWARD_VARIANTS.iter();
    let hopper = hopper.map(move |row| candidate(row, dtype, features, Family::Hopper));
    let portable = ATTENTION_FORWARD_VARIANTS.iter();
    hopper.chain(portable.map(move |row| candidate(row, dtype, features, Family::Portable)))
}

fn candidate<Arguments>(
    variant: &'static AttentionForwardVariant<Arguments>,
    dtype: Dtype,
    features: Features,
    family: fn(&'static Kernel<Arguments>) -> Family,
) -> Candidate {
    let of_dtype = [Dtype::F16, Dtype::Bf16, Dtype::F32].iter().position(|&known| known == dtype);
    let kernels = of_dtype.map(|dtype| &variant.kernels[dtype]);
    let kernel = kernels.and_then(|kernels| kernels[features as usize]);
    let why_not = match kernels.map(|kernels| kernels.map(|kernel| kernel.is_some())) {
        None | Some([false, false, false]) => "has no kernel for this type",
        Some([true, false, false]) => "has no kernel for masks, biases, softcap or dropout",
        Some([false, ..]) => "has kernels for masks, biases, softcap and dropout alone",
        Some(_) => "has no kernel for all that is asked for",
    };
    Candidate {
        tile: &variant.tile,
        shared_bytes: variant.tile.shared_bytes[features as usize],
        kernel: kernel.map(family),
        why_not,
    }
}

impl choice::Candidate for Candidate {
    type Demand = Demand;
    type Cut = (Entry, Cut);

    fn tile(&self) -> &'static str {
        self.tile.name
    }

    fn cut(&self, demand: &Demand) -> Result<(Entry, Cut), String> {
        let Some(kernel) = self.kernel else {
            return Err(self.why_not.to_owned());
        };
        runs_on(self.tile.arch, demand.capability)?;
        let (needed, most) = (self.shared_bytes, demand.shared_bytes);
        if needed > most {
            return Err(format!("needs {needed} bytes of shared memory a block, of {most}"));
        }
        let Sizes { head_dim, value_dim, .. } = demand.sizes;
        let AttentionTile { head_dim: widest, value_dim: widest_value, .. } = *self.tile;
        if head_dim > widest as usize || value_dim > widest_value as usize {
            return Err(format!(
                "holds head dimensions of up to {widest} and {widest_value}, not {head_dim} and \
                 {value_dim}"
            ));
        }
        let rows = self.tile.rows as usize;
        match kernel {
            Family::Portable(kernel) => Ok((Entry::Portable(kernel), cut(demand, rows))),
            Family::Hopper(kernel) => {
                let tilings = Tilings::of(&demand.tensors, demand.dtype, self.tile)?;
                Ok((Entry::Hopper(kernel, tilings), cut_apart(&demand.sizes, rows)))
            }
        }
    }

    fn preferred(&self, demand: &Demand) -> Result<(), String> {
        match self.tile.preference {
            AttentionPreference::Always => Ok(()),
            AttentionPreference::RowsUpTo(most) => {
                let Sizes { queries, heads, kv_heads, .. } = demand.sizes;
                let rows = queries * (heads / kv_heads.max(1));
                if rows <= most as usize {
                    return Ok(());
                }
                Err(format!("eligible, but preferred only for up to {most} rows, not {rows}"))
            }
            AttentionPreference::RowsFrom(least) => rows_from(demand, least),
            AttentionPreference::RowsFromKeysUpTo(least, most) => {
                let keys = demand.sizes.keys;
                if keys > most as usize {
                    return Err(format!(
                        "eligible, but preferred only for up to {most} keys, not {keys}"
                    ));
                }
                rows_from(demand, least)
            }
            AttentionPreference::SharedFrom(least) => {
                let most = demand.shared_bytes;
                if most >= least {
                    return Ok(());
                }
                Err(format!(
                    "eligible, but preferred only where a block can have {least} bytes of shared \
                     memory, not {most}"
                ))
            }
        }
    }
}

/// Are there at least so many queries?
fn rows_from(demand: &Demand, least: u32) -> Result<(), String> {
    let rows = demand.sizes.queries;
    if rows >= least as usize {
        return Ok(());
    }
    Err(format!("eligible, but preferred only from {least} queries on, not {rows}"))
}

/// Cuts a problem into tiles of so many rows: of one query head, or of all those that share a K/V
/// head, whichever leaves fewer rows of the tiles empty.
fn cut(demand: &Demand, tile_rows: usize) -> Cut {
    let sizes = &demand.sizes;
    let sharing = sizes.heads / sizes.kv_heads.max(1);
    let apart = cut_apart(sizes, tile_rows);
    let tiles = sizes.queries.saturating_mul(sharing).div_ceil(tile_rows);
    // Rows that share a tile are told apart by a division, which must save a tenth of the tiles. A
    // patch of dropout's random numbers is of neighbouring queries of one head.
    if sharing > 1 && !demand.drops && 10 * tiles < 9 * sharing * apart.tiles {
        return Cut { packed_heads: sharing, groups: sizes.kv_heads, tiles };
    }
    apart
}

/// Cuts a problem into tiles of so many rows, of one query head each.
pub(super) fn cut_apart(sizes: &Sizes, tile_rows: usize) -> Cut {
    Cut { packed_heads: 1, groups: sizes.heads, tiles: sizes.queries.div_ceil(tile_rows) }
}

impl Cut {
    /// How many blocks a launch of it has.
    pub fn blocks(self, batch: usize) -> u64 {
        let blocks = (batch as u64).saturating_mul(self.groups as u64);
        blocks.saturating_mul(self.tiles as u64)
    }

    /// The launch of so many blocks.
    pub fn config(blocks: u64, candidate: &Candidate) -> LaunchConfig {
        LaunchConfig::new(blocks as u32, candidate.tile.threads)
            .shared_bytes(candidate.shared_bytes)
    }
}
