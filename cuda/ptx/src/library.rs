//! Finding entries in an archive at run time.

use crate::{
    Arch,
    archive::{Archive, Indexed, Kind},
    registers,
};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress,
        inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF as WHOLE_OUTPUT,
    },
};

/// PTX modules in a program, and machine code of some: an archive made by [`embed`](crate::embed).
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
        let Some(entry) = archive.find(Kind::Ptx, arch, name) else {
            let count = archive.of_kind(Kind::Ptx).count();
            return Err(PtxError::UnknownEntry { arch, name: name.to_owned(), count });
        };
        let text = self.unpack(&archive, entry)?;
        let text = registers::decode(&text).and_then(|text| String::from_utf8(text).ok());
        text.ok_or_else(|| self.damaged())
    }

    /// The machine code of an entry, for devices of exactly this architecture (a cubin); none, if
    /// the archive has only its PTX.
    ///
    /// # Errors
    /// If the archive is damaged.
    pub fn machine_code(&self, arch: Arch, name: &str) -> Result<Option<Vec<u8>>, PtxError> {
        let archive = self.read()?;
        let entry = archive.find(Kind::MachineCode, arch, name);
        entry.map(|entry| self.unpack(&archive, entry)).transpose()
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
        let known = |entry: &Indexed<'static>| Some((entry.arch.parse().ok()?, entry.name));
        let archive = self.read()?;
        let entries = archive.of_kind(Kind::Ptx);
        entries.map(|entry| known(entry).ok_or_else(|| self.damaged())).collect()
    }

    fn unpack(&self, archive: &Archive<'_>, entry: &Indexed<'_>) -> Result<Vec<u8>, PtxError> {
        let start = archive.dictionary_bytes;
        let mut bytes = vec![0; start + entry.unpacked];
        inflate(archive.dictionary, &mut bytes[..start], 0)
            .and_then(|()| inflate(entry.packed, &mut bytes, start))
            .ok_or_else(|| self.damaged())?;
        Ok(bytes.split_off(start))
    }

    fn read(&self) -> Result<Archive<'static>, PtxError> {
        Archive::read(self.archive).ok_or_else(|| self.damaged())
    }

    fn damaged(&self) -> PtxError {
        PtxError::Damaged { bytes: self.archive.len() }
    }
}

impl<'a> Archive<'a> {
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Indexed<'a>> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    fn find(&self, kind: Kind, arch: Arch, name: &str) -> Option<&Indexed<'a>> {
        self.of_kind(kind).find(|entry| entry.arch == arch.name() && entry.name == name)
    }
}

/// Unpacks a stream into the end of `output`, from `start`; what stands before is its dictionary.
fn inflate(packed: &[u8], output: &mut [u8], start: usize) -> Option<()> {
    let mut state = DecompressorOxide::new();
    let (status, _, written) = decompress(&mut state, packed, output, start, WHOLE_OUTPUT);
    (status == TINFLStatus::Done && start + written == output.len()).then_some(())
}
