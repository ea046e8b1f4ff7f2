//! What an entry takes of a multiprocessor, and which of its instructions must not multiply.

use anyhow::{Context, Error, Result, bail, ensure};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// What ptxas reports of an entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Assembled {
    pub(crate) registers: u32,
    /// Bytes, without what a launch adds.
    pub(crate) shared: u32,
    stack: u32,
    spilled: u32,
    warnings: Vec<String>,
}

/// How warnings begin that mean a wrong or slow kernel: setmaxnreg ignored (C7508), wgmma serialised
/// (C7510, C7513, C7514) or its registers disturbed (C7512, C7517, C7519).
const FATAL: &str = "(C75";

impl Assembled {
    /// Reads what `ptxas -v` says.
    pub(crate) fn parse(log: &str) -> Result<Self> {
        let mut found = Assembled::default();
        let mut registers = None;
        for line in log.lines() {
            if line.contains(FATAL) {
                found.warnings.push(line.trim().to_owned());
            }
            for part in line.rsplit(" : ").next().unwrap_or(line).split(", ") {
                let words = part.split_whitespace().collect::<Vec<_>>();
                match words[..] {
                    ["Used", n, "registers"] => registers = Some(n.parse()?),
                    [n, "bytes", "smem"] => found.shared = n.parse()?,
                    [n, "bytes", "stack", "frame"] => found.stack = n.parse()?,
                    [n, "bytes", "spill", _] => found.spilled += n.parse::<u32>()?,
                    [n, "bytes", "lmem"] => found.stack += n.parse::<u32>()?,
                    _ => {}
                }
            }
        }
        found.registers = registers.with_context(|| format!("ptxas names no registers: {log}"))?;
        Ok(found)
    }

    /// Fails on what an entry of this name may not have.
    pub(crate) fn check(&self, entry: &str) -> Result<()> {
        if let Some(warning) = self.warnings.first() {
            bail!("{warning}");
        }
        let spills = SPILLS.iter().find(|(name, _)| *name == entry);
        let most = spills.map_or(0, |(_, most)| *most);
        ensure!(self.spilled <= most, "{} bytes of spills", self.spilled);
        ensure!(self.stack <= most, "{} bytes of stack frame", self.stack);
        Ok(())
    }
}

/// Entries that may spill registers, and how many bytes, stores and loads together: what is only read
/// once a block of keys goes to memory, where a block has hundreds of products.
const SPILLS: [(&str, u32); 4] = [
    // Sums that round take registers beside 128 of output.
    ("attention_forward_f32_plain_portable_f32_d256", 64),
    ("attention_forward_f32_full_portable_f32_d256", 256),
    // On sm_80 alone.
    ("attention_forward_bf16_full_portable_d96", 32),
    ("attention_forward_f16_full_portable_d96", 32),
];

/// How often instructions stand in an entry that a compiler must neither copy nor drop: threads
/// meet at them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counts([u32; KINDS.len()]);

/// The kinds that are counted: a column's name, and how its instructions begin.
const KINDS: [(&str, &[&str]); 10] = [
    ("barriers", &["bar.sync", "bar.red", "bar.cta", "barrier.sync", "barrier.red", "barrier.cta"]),
    ("arrivals", &["bar.arrive", "barrier.arrive"]),
    ("warp_barriers", &["bar.warp"]),
    ("shuffles", &["shfl."]),
    ("votes", &["vote.", "match."]),
    ("reductions", &["redux."]),
    ("cluster_barriers", &["barrier.cluster"]),
    ("async_waits", &["cp.async.wait", "cp.async.bulk.wait", "mbarrier.try_wait", "mbarrier.test"]),
    ("mma", &["mma."]),
    ("wgmma", &["wgmma.mma"]),
];

impl Counts {
    /// Counts in an entry's PTX; fails on local memory.
    pub(crate) fn of(ptx: &str) -> Result<Self> {
        let mut counts = Counts::default();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '%');
        for word in ptx.split(|c| !is_word(c)) {
            ensure!(
                word != ".local" && !word.starts_with("ld.local") && !word.starts_with("st.local"),
                "local memory: {word}"
            );
            let of_kind = |starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
            if let Some(kind) = KINDS.iter().position(|(_, starts)| of_kind(starts)) {
                counts.0[kind] += 1;
            }
        }
        Ok(counts)
    }
}

/// One entry on one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) arch: String,
    pub(crate) entry: String,
    /// What it was assembled for.
    pub(crate) machine: String,
    pub(crate) registers: u32,
    pub(crate) shared: u32,
    pub(crate) counts: Counts,
}

impl Row {
    fn key(&self) -> [&str; 3] {
        [&self.arch, &self.entry, &self.machine]
    }

    /// The columns after the key: names and numbers.
    fn columns(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let counts = KINDS.iter().zip(self.counts.0).map(|((name, _), count)| (*name, count));
        [("registers", self.registers), ("shared", self.shared)].into_iter().chain(counts)
    }
}

/// The committed table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The assembler's version, on which registers depend.
    pub(crate) ptxas: String,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// What is not as in this table, a line each.
    pub(crate) fn differences(&self, found: &Table) -> Vec<String> {
        let same_ptxas = self.ptxas == found.ptxas;
        let mut known = self.rows.iter().map(|row| (row.key(), row)).collect::<BTreeMap<_, _>>();
        let mut differences = Vec::new();
        for row in &found.rows {
            let [arch, entry, machine] = row.key();
            let what = format!("{entry} for {arch} on {machine}");
            let Some(known) = known.remove(&row.key()) else {
                differences.push(format!("{what} is not in the table"));
                continue;
            };
            for ((name, was), (_, is)) in known.columns().zip(row.columns()) {
                if was != is && (same_ptxas || name != "registers") {
                    differences.push(format!("{what}: {name} {is}, was {was}"));
                }
            }
        }
        let gone = known.into_keys();
        differences.extend(gone.map(|[arch, entry, machine]| {
            format!("{entry} for {arch} on {machine} is in the table only")
        }));
        differences
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# ptxas {}", self.ptxas)?;
        let counts = KINDS.map(|(name, _)| name).join(",");
        writeln!(f, "arch,entry,machine,registers,shared,{counts}")?;
        for row in &self.rows {
            write!(f, "{}", row.key().join(","))?;
            row.columns().try_for_each(|(_, number)| write!(f, ",{number}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl FromStr for Table {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let ptxas = lines.next().and_then(|line| line.strip_prefix("# ptxas "));
        let ptxas = ptxas.context("the first line names no ptxas")?.to_owned();
        let row = |line: &str| {
            let words = line.split(',').collect::<Vec<_>>();
            let [arch, entry, machine, registers, shared, counts @ ..] = &words[..] else {
                bail!("too short: {line}");
            };
            let counts = counts.iter().map(|count| Ok(count.parse()?)).collect::<Result<Vec<_>>>();
            let counts = counts?.try_into().map_err(|_| Error::msg("columns differ: bless it"))?;
            Ok(Row {
                arch: (*arch).to_owned(),
                entry: (*entry).to_owned(),
                machine: (*machine).to_owned(),
                registers: registers.parse()?,
                shared: shared.parse()?,
                counts: Counts(counts),
            })
        };
        Ok(Table { ptxas, rows: lines.skip(1).map(row).collect::<Result<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'k' for 'sm_90'\n\
        ptxas info    : Function properties for k\n    \
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem, 360 bytes cmem[0]\n";

    #[test]
    fn the_assemblers_report_is_read() {
        let assembled = Assembled::parse(LOG).unwrap();
        assert_eq!((assembled.registers, assembled.shared), (10, 512));
        assembled.check("k").unwrap();
        assert!(Assembled::parse("ptxas info    : 0 bytes gmem").is_err());
    }

    #[test]
    fn spills_stack_frames_and_serialised_products_fail() {
        let check = |old: &str, new: &str| {
            assert!(LOG.contains(old));
            let assembled = Assembled::parse(&LOG.replacen(old, new, 1)).unwrap();
            assembled.check("k").unwrap_err().to_string()
        };
        assert_eq!(check("0 bytes stack", "16 bytes stack"), "16 bytes of stack frame");
        assert_eq!(check("0 bytes spill stores", "4 bytes spill stores"), "4 bytes of spills");
        assert_eq!(check("0 bytes spill loads", "8 bytes spill loads"), "8 bytes of spills");
        let warning = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async";
        let text = check("ptxas info    : 0 bytes gmem", warning);
        assert!(text.contains("C7510"), "{text}");
    }

    #[test]
    fn convergent_instructions_are_counted() {
        let ptx = "bar.sync 0;\n@%p1 barrier.sync.aligned 1, 64; bar.warp.sync -1;\n\
            shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;\nbarrier.cluster.arrive.aligned;\n\
            barrier.cluster.wait.aligned;\nmma.sync.aligned.m16n8k16;\nwgmma.mma_async.sync;\n\
            mbarrier.try_wait.parity.shared.b64 p, [%r1], %r2;\nvote.sync.any.pred p, q, -1;";
        assert_eq!(Counts::of(ptx).unwrap(), Counts([2, 0, 1, 1, 1, 0, 2, 1, 1, 1]));
    }

    #[test]
    fn local_memory_fails() {
        assert!(Counts::of(".local .align 16 .b8 depot[64];").is_err());
        assert!(Counts::of("st.local.u32 [%rd1], %r1;").is_err());
    }

    fn table() -> Table {
        let row = |machine: &str, registers| Row {
            arch: "sm_70".into(),
            entry: "k".into(),
            machine: machine.into(),
            registers,
            shared: 512,
            counts: Counts([1, 0, 0, 5, 0, 0, 0, 0, 0, 0]),
        };
        Table { ptxas: "13.0.88".into(), rows: vec![row("sm_75", 20), row("sm_90", 24)] }
    }

    #[test]
    fn a_table_is_read_as_it_is_written() {
        assert_eq!(table().to_string().parse::<Table>().unwrap(), table());
    }

    #[test]
    fn differences_are_named() {
        let mut found = table();
        assert_eq!(table().differences(&found), [""; 0]);
        found.rows[1].registers = 40;
        found.rows[1].counts.0[0] = 2;
        let expected = [
            "k for sm_70 on sm_90: registers 40, was 24",
            "k for sm_70 on sm_90: barriers 2, was 1",
        ];
        assert_eq!(table().differences(&found), expected);
        found.ptxas = "13.1.0".into();
        assert_eq!(table().differences(&found), expected[1..], "registers depend on the assembler");
        found.rows.remove(0);
        found.rows[0].entry = "l".into();
        let differences = table().differences(&found);
        assert_eq!(differences.len(), 3, "{differences:?}");
        assert_eq!(differences[0], "l for sm_70 on sm_90 is not in the table");
        assert_eq!(differences[1], "k for sm_70 on sm_75 is in the table only");
    }
}
