//! The archive's format, for the two sides that must agree on it.
//!
//! Entries of one library resemble each other, and they are wanted one at a time. So each is
//! deflated on its own, but with a shared dictionary of typical text before it (deflate's window
//! bounds it to 32 KB): unpacking an entry never touches another. Registers are renumbered before
//! that (see `registers`), which more than halves the result. The softmax kernels, 70 KB each,
//! pack 13 : 1 and unpack in half a millisecond; a stronger compressor over all of them together
//! would give 12 : 1 without the renumbering, and unpack them all for one.
//!
//! ```text
//! magic    8 bytes
//! u32      bytes of the dictionary, unpacked
//! u32      bytes of the dictionary, packed
//! u32      number of entries
//! entries  (u8 kind) (u8 length, architecture) (u8 length, name) (u32 unpacked) (u32 packed)
//! streams  the dictionary, then the entries in order
//! ```
//!
//! Numbers are little-endian; kinds are those of [`Kind`]; unpacked lengths of PTX are of the
//! renumbered text; entries are sorted by kind, architecture and name.

/// The first bytes of an archive.
pub(crate) const MAGIC: &[u8; 8] = b"PTXpack2";

/// How far back a deflate stream may refer.
pub(crate) const WINDOW: usize = 32 * 1024;

/// What an entry of the archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The text of a module.
    Ptx = 0,
    /// What the assembler made of it for the very architecture.
    MachineCode = 1,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Kind::Ptx, Kind::MachineCode].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What the index says of one entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Indexed<'a> {
    pub(crate) kind: Kind,
    pub(crate) arch: &'a str,
    pub(crate) name: &'a str,
    pub(crate) unpacked: usize,
    pub(crate) packed: &'a [u8],
}

/// An archive's parts.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    pub(crate) dictionary_bytes: usize,
    pub(crate) dictionary: &'a [u8],
    pub(crate) entries: Vec<Indexed<'a>>,
}

impl<'a> Archive<'a> {
    /// Reads the index; `None` where the bytes are no archive.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let dictionary_bytes = number(&mut rest)?;
        let dictionary_packed = number(&mut rest)?;
        let count = number(&mut rest)?;
        let mut index = Vec::new();
        for _ in 0..count {
            let kind = Kind::of(*rest.split_off_first()?)?;
            let (arch, name) = (word(&mut rest)?, word(&mut rest)?);
            index.push((kind, arch, name, number(&mut rest)?, number(&mut rest)?));
        }
        let dictionary = rest.split_off(..dictionary_packed)?;
        let mut entries = Vec::with_capacity(index.len());
        for (kind, arch, name, unpacked, packed) in index {
            let packed = rest.split_off(..packed)?;
            entries.push(Indexed { kind, arch, name, unpacked, packed });
        }
        Some(Archive { dictionary_bytes, dictionary, entries })
    }
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (bytes, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let bytes = usize::from(*rest.split_off_first()?);
    std::str::from_utf8(rest.split_off(..bytes)?).ok()
}
