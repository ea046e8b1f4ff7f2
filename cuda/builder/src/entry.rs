//! An entry as a module of its own.

use crate::{
    error::EntryError,
    module::{Entry, Module, is_name},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
};

/// What `#[kernel]` says of an entry's launches, for which rustc has no attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    threads: u32,
    blocks_per_sm: u32,
}

impl Bounds {
    /// The bounds in a module's marker comments, by entry.
    pub(crate) fn of_markers(text: &str) -> Result<BTreeMap<String, Bounds>, EntryError> {
        let mut all = BTreeMap::new();
        for line in text.lines() {
            let Some(marker) = line.trim_start().strip_prefix("// kernel ") else { continue };
            let (name, bounds) =
                Bounds::of_marker(marker).ok_or(EntryError::Marker { line: line.to_owned() })?;
            if all.insert(name.to_owned(), bounds).is_some() {
                return Err(EntryError::Twice { entry: name.to_owned() });
            }
        }
        Ok(all)
    }

    fn of_marker(marker: &str) -> Option<(&str, Bounds)> {
        let words = marker.split_whitespace().collect::<Vec<_>>();
        let &[name, threads, blocks_per_sm] = &words[..] else { return None };
        let threads = threads.strip_prefix("threads=")?.parse().ok()?;
        let blocks_per_sm = blocks_per_sm.strip_prefix("blocks_per_sm=")?.parse().ok()?;
        Some((name, Bounds { threads, blocks_per_sm }))
    }
}

/// The entry's own module.
pub(crate) fn render(module: &Module, entry: &Entry, bounds: Bounds) -> Result<String, EntryError> {
    check(module, entry)?;
    let mut text = module.header.join("\n");
    text.push_str("\n\n");
    for (name, statement) in &module.shared {
        if names(&entry.body).any(|used| used == name) {
            text.push_str(statement);
            text.push_str("\n\n");
        }
    }
    let Bounds { threads, blocks_per_sm } = bounds;
    let _ = write!(
        text,
        "{}\n.maxntid {threads}, 1, 1\n.minnctapersm {blocks_per_sm}\n{}\n",
        with_aligned_maps(&entry.signature),
        with_plain_numbers(&entry.body)
    );
    Ok(text)
}

/// Aligns arguments of a tensor map's size and alignment, 128 and 16, to 64 bytes: the hardware wants
/// that of tensor maps, and the compiler cannot give it. To other structs it does no harm.
fn with_aligned_maps(signature: &str) -> String {
    let line = |line: &str| {
        let is_map = line.trim_end_matches(&['\n', ','][..]).ends_with("[128]");
        let aligned = is_map.then(|| line.replacen(".align 16 .b8", ".align 64 .b8", 1));
        aligned.unwrap_or_else(|| line.to_owned())
    };
    signature.split_inclusive('\n').map(line).collect()
}

/// Refuses what the entry's own module would lack, or the driver would refuse.
fn check(module: &Module, Entry { name, body, .. }: &Entry) -> Result<(), EntryError> {
    let entry = || name.clone();
    if let Some(at) = body.find("llvm.") {
        let intrinsic = body[at..].split(|c| !is_name(c)).next().unwrap_or_default();
        return Err(EntryError::UnknownIntrinsic { entry: entry(), intrinsic: intrinsic.into() });
    }
    if let Some(callee) = callee(body) {
        return Err(EntryError::Call { entry: entry(), callee: plain_name(callee) });
    }
    if let Some(data) = names(body).find(|word| module.data.iter().any(|data| data == word)) {
        return Err(EntryError::Data { entry: entry(), data: plain_name(data) });
    }
    Ok(())
}

/// What the first call of a body calls: `call.uni (result), callee, (arguments);`.
fn callee(body: &str) -> Option<&str> {
    let is_call = |word: &str| word == "call" || word.starts_with("call.");
    let call = names(body).find(|word| is_call(word))?;
    // Both lie in `body`, so the difference of their addresses is where the word stands.
    let after = &body[call.as_ptr() as usize - body.as_ptr() as usize + call.len()..];
    let after = after.trim_start();
    let after = match after.strip_prefix('(') {
        Some(results) => results.split_once(')').map_or(results, |(_, after)| after),
        None => after,
    };
    names(after).next()
}

/// Names, registers, labels and opcodes in PTX without comments.
fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_name(c)).filter(|word| !word.is_empty())
}

/// A symbol as it reads in the source.
fn plain_name(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

/// Numbers registers and labels in the order in which they appear: what the compiler's numbers
/// add to that depends on the rest of the module and on passes' order, and says nothing. So
/// entries that do the same read the same.
fn with_plain_numbers(body: &str) -> String {
    const LABEL: &str = "$L__BB";
    // `.reg .b32 %r<100>;` declares %r1 to %r99.
    let declared = |piece: &str| piece.rfind('%').map(|at| piece[at..].to_owned());
    let classes = body.split_inclusive('<').filter_map(|piece| declared(piece.strip_suffix('<')?));
    let classes = classes.collect::<BTreeSet<_>>();
    let class = |word: &str| {
        if word.starts_with(LABEL) {
            return Some("$L__BB_".to_owned());
        }
        let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
        (name.len() < word.len() && classes.contains(name)).then(|| name.to_owned())
    };
    let mut counts = BTreeMap::<String, u32>::new();
    let mut renamed = HashMap::<&str, String>::new();
    let mut text = String::with_capacity(body.len());
    for piece in body.split_inclusive(|c| !is_name(c)) {
        let word = piece.trim_end_matches(|c| !is_name(c));
        if !renamed.contains_key(word) {
            let new = class(word).map_or_else(
                || word.to_owned(),
                |class| {
                    let count = counts.entry(class.clone()).or_default();
                    *count += 1;
                    format!("{class}{count}")
                },
            );
            renamed.insert(word, new);
        }
        text.push_str(&renamed[word]);
        text.push_str(&piece[word.len()..]);
    }
    text
}
