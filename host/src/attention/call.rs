//! A call's tensors, one by one.

use super::raw::{RawAttention, RawDropoutSeed};
use crate::{RawTensor, Result, raw};

impl RawAttention {
    /// Every tensor with its name in errors; outputs first.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&'static str, RawTensor)> {
        let (seed, offset) = match self.dropout_seed {
            Some(RawDropoutSeed::OnDevice { seed, offset }) => (Some(seed), Some(offset)),
            _ => (None, None),
        };
        let mask = &self.mask;
        [
            ("o", Some(self.o)),
            ("lse", self.lse),
            ("q", Some(self.q)),
            ("k", Some(self.k)),
            ("v", Some(self.v)),
            ("scale", self.scale),
            ("mask", mask.bytes.map(|(raw, _)| raw)),
            ("bias", mask.additive),
            ("lengths", mask.lengths.map(|(raw, _)| raw)),
            ("bank index", mask.bank_index),
            ("query lengths", self.query_lengths),
            ("query offsets", self.query_sequences.map(|sequences| sequences.offsets)),
            ("key offsets", self.key_sequences.map(|sequences| sequences.offsets)),
            ("slopes", self.slopes),
            ("dropout seed", seed),
            ("dropout offset", offset),
        ]
        .into_iter()
        .filter_map(|(name, raw)| Some((name, raw?)))
    }

    /// What a plan depends on: of pointers the low bits only, of seeds their place.
    pub(super) fn forms(&self) -> Self {
        let form = |raw: RawTensor| RawTensor { pointer: raw.pointer % 16, ..raw };
        let mut forms = *self;
        for raw in [&mut forms.q, &mut forms.k, &mut forms.v, &mut forms.o] {
            *raw = form(*raw);
        }
        let mask = &mut forms.mask;
        for raw in [
            &mut forms.lse,
            &mut forms.scale,
            &mut mask.additive,
            &mut mask.bank_index,
            &mut forms.query_lengths,
            &mut forms.slopes,
        ] {
            *raw = raw.map(form);
        }
        mask.bytes = mask.bytes.map(|(raw, polarity)| (form(raw), polarity));
        mask.lengths = mask.lengths.map(|(raw, per)| (form(raw), per));
        let sequences = [&mut forms.query_sequences, &mut forms.key_sequences];
        for sequences in sequences.into_iter().flatten() {
            sequences.offsets = form(sequences.offsets);
        }
        forms.dropout_seed = forms.dropout_seed.map(|seed| match seed {
            RawDropoutSeed::Given { .. } => RawDropoutSeed::Given { seed: 0, offset: 0 },
            RawDropoutSeed::OnDevice { seed, offset } => {
                RawDropoutSeed::OnDevice { seed: form(seed), offset: form(offset) }
            }
        });
        forms
    }

    /// Pointers and memory, which no plan covers.
    pub(super) fn check_memory(&self) -> Result<()> {
        let outputs = 1 + usize::from(self.lse.is_some());
        raw::check_memory(self.tensors(), outputs, |_, _| false)
    }
}
