//! The launch of a plan, with the pointers of a call.

use super::{
    raw::{RawAttention, RawDropoutSeed},
    tensor_maps::Tilings,
};
use crate::{Kernel, LaunchConfig, Launcher, RawTensor, Result, Stream};
use kernels::attention::{
    entries::{HopperArguments, PortableArguments},
    problem::AttentionForward,
};

/// What is launched.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "plans are few, and calls read them without a detour"
)]
pub(super) enum Entry {
    Portable(&'static Kernel<PortableArguments>),
    /// With its tiles of the tensors.
    Hopper(&'static Kernel<HopperArguments>, Tilings),
}

impl Entry {
    /// Whether a block takes several tiles, if there are more than multiprocessors.
    pub fn takes_turns(self) -> bool {
        matches!(self, Entry::Hopper(..))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Entry::Portable(kernel) => kernel.name(),
            Entry::Hopper(kernel, _) => kernel.name(),
        }
    }
}

/// A launch without pointers.
pub(super) struct Launch {
    pub entry: Entry,
    pub config: LaunchConfig,
    /// Its pointers are null: they are set in each call's own copy, as the numbers of a seed are.
    pub problem: AttentionForward,
}

// SAFETY: the problem's pointers are null.
unsafe impl Send for Launch {}
// SAFETY: as above.
unsafe impl Sync for Launch {}

impl Launch {
    /// Enqueues the launch with the pointers of `call`.
    ///
    /// # Safety
    /// The call's tensors must be valid, and of the forms that the launch was made for.
    pub unsafe fn enqueue(&self, stream: &Stream, call: &RawAttention) -> Result<()> {
        let problem = with_pointers(self.problem, call);
        match self.entry {
            // SAFETY: the tensors are valid, by the caller's promise.
            Entry::Portable(kernel) => unsafe { stream.launch(kernel, self.config, (problem,)) },
            Entry::Hopper(kernel, tilings) => {
                let [q, k, v, o] = tilings.maps(stream.device(), call)?;
                // SAFETY: as above; the maps are those of the tensors.
                unsafe { stream.launch(kernel, self.config, (q, k, v, o, problem)) }
            }
        }
    }
}

/// The problem with the pointers of `call`, and its seed.
fn with_pointers(problem: AttentionForward, call: &RawAttention) -> AttentionForward {
    let at = |raw: Option<RawTensor>| raw.map_or(0, |raw| raw.pointer);
    let mask = &call.mask;
    let (seed_pointer, offset_pointer, seed, offset) = match call.dropout_seed {
        Some(RawDropoutSeed::Given { seed, offset }) => (0, 0, seed, offset),
        Some(RawDropoutSeed::OnDevice { seed, offset }) => (seed.pointer, offset.pointer, 0, 0),
        None => (0, 0, 0, 0),
    };
    AttentionForward {
        q: call.q.pointer as *const _,
        k: call.k.pointer as *const _,
        v: call.v.pointer as *const _,
        o: call.o.pointer as *mut _,
        lse: at(call.lse) as *mut _,
        q_offsets: at(call.query_sequences.map(|sequences| sequences.offsets)) as *const _,
        k_offsets: at(call.key_sequences.map(|sequences| sequences.offsets)) as *const _,
        q_lengths: at(call.query_lengths) as *const _,
        k_lengths: at(mask.lengths.map(|(raw, _)| raw)) as *const _,
        mask: at(mask.bytes.map(|(raw, _)| raw)) as *const _,
        bias: at(mask.additive) as *const _,
        bank_index: at(mask.bank_index) as *const _,
        slopes: at(call.slopes) as *const _,
        seed_pointer: seed_pointer as *const _,
        offset_pointer: offset_pointer as *const _,
        seed,
        offset,
        scale_pointer: at(call.scale) as *const _,
        ..problem
    }
}
