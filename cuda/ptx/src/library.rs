//! Finding entries in an archive at run time.

use crate::{
    Arch,
    archive::{Archive, Indexed},
    registers,
};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress,
        inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF as WHOLE_OUTPUT,
    },
};

/// PTX modules in a program: an archive made by [`embed`](crate::embed).
///
/// Nothing is unpacked until it is asked for, and nothing is kept: whoever loads modules keeps
/// them. Getting an entry takes well under a millisecond.
#[derive(Debug, Clone, Copy)]
pub struct PtxLibrary {
    archive: &'static [u8],
}

/// Why an entry is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PtxError {
    /// The archive has no such entry.
    #[error("no entry {name} for {arch} among the {count} entries in this program")]
    UnknownEntry {
        /// The architecture asked for.
        arch: Arch,
        /// The entry asked for.
        name: String,
        /// How many entries there are.
        count: usize,
    },
    /// The bytes are no archive, or cut short or changed.
    #[error("the PTX archive in this program is damaged ({bytes} bytes)")]
    Damaged {
        /// The archive's length.
        bytes: usize,
    },
}

impl PtxLibrary {
    /// A library over an archive, as `include_bytes!` gives it.
    pub const fn new(archive: &'static [u8]) -> Self {
        PtxLibrary { archive }
    }

    /// The PTX of an entry: a module that holds this entry alone.
    ///
    /// # Errors
    /// If there is no such entry for the architecture, or the archive is damaged.
    pub fn get(&self, arch: Arch, name: &str) -> Result<String, PtxError> {
        let archive = self.read()?;
        let wanted = |entry: &&Indexed<'_>| entry.arch == arch.name() && entry.name == name;
        let Some(entry) = archive.entries.iter().find(wanted) else {
            let count = archive.entries.len();
            return Err(PtxError::UnknownEntry { arch, name: name.to_owned(), count });
        };
        let start = archive.dictionary_bytes;
        let mut text = vec![0; start + entry.unpacked];
        let unpacked = inflate(archive.dictionary, &mut text[..start], 0)
            .and_then(|()| inflate(entry.packed, &mut text, start));
        unpacked
            .and_then(|()| String::from_utf8(registers::decode(&text[start..])?).ok())
            .ok_or_else(|| self.damaged())
    }

    /// Whether there is such an entry for the architecture.
    pub fn contains(&self, arch: Arch, name: &str) -> bool {
        self.entries().is_ok_and(|entries| entries.contains(&(arch, name)))
    }

    /// Every entry, sorted by architecture and name.
    ///
    /// # Errors
    /// If the archive is damaged.
    pub fn entries(&self) -> Result<Vec<(Arch, &'static str)>, PtxError> {
        let entries = self.read()?.entries;
        let known = |entry: &Indexed<'static>| Some((entry.arch.parse().ok()?, entry.name));
        entries.iter().map(|entry| known(entry).ok_or_else(|| self.damaged())).collect()
    }

    fn read(&self) -> Result<Archive<'static>, PtxError> {
        Archive::read(self.archive).ok_or_else(|| self.damaged())
    }

    fn damaged(&self) -> PtxError {
        PtxError::Damaged { bytes: self.archive.len() }
    }
}

/// Unpacks a stream into the end of `output`, from `start`; what stands before is its dictionary.
fn inflate(packed: &[u8], output: &mut [u8], start: usize) -> Option<()> {
    let mut state = DecompressorOxide::new();
    let (status, _, written) = decompress(&mut state, packed, output, start, WHOLE_OUTPUT);
    (status == TINFLStatus::Done && start + written == output.len()).then_some(())
}
