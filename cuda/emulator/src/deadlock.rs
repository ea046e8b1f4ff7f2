//! Who waits where, when nobody can go on.

use crate::machine::{Machine, Site, Wait};

impl Machine {
    /// The first thread that waits, and where; then all of them, those that wait alike on one line.
    pub fn deadlock(&self) -> (Option<usize>, Option<Site>, String) {
        let mut lines: Vec<(usize, Wait, Option<Site>, Vec<usize>)> = Vec::new();
        let exists = |t: usize| t % self.stride < self.block_threads;
        for (t, thread) in self.threads.iter().enumerate().filter(|(t, _)| exists(*t)) {
            let key = (thread.rank, thread.wait, thread.at);
            match lines.iter_mut().find(|line| (line.0, line.1, line.2) == key) {
                Some(line) => line.3.push(self.number(t)),
                None => lines.push((key.0, key.1, key.2, vec![self.number(t)])),
            }
        }
        let mut text = String::from("deadlock: no thread can run");
        for (rank, wait, at, threads) in &lines {
            text += "\n  ";
            if self.blocks.len() > 1 {
                text += &format!("block {} ", self.blocks[*rank].idx);
            }
            text += &format!("threads {}: {}", ranges(threads), self.describe(*rank, *wait));
            if let Some(at) = at {
                text += &format!(" at {at}");
            }
        }
        let stuck = |t: &usize| self.threads[*t].wait != Wait::Exited;
        let first = (0..self.threads.len()).find(stuck);
        (first, first.and_then(|t| self.threads[t].at), text)
    }

    fn describe(&self, rank: usize, wait: Wait) -> String {
        match wait {
            Wait::Nothing => "ready".into(),
            Wait::Exited => "exited".into(),
            Wait::Collective { name, mask } => format!("{name}, members {mask:#x}"),
            Wait::Barrier { id, count } => {
                let arrived = self.blocks[rank].barriers[id as usize].arrived;
                format!("bar.sync {id}, {count} ({arrived} arrived)")
            }
            Wait::Cluster => {
                let all: usize = self.blocks.iter().map(|block| block.live).sum();
                format!("barrier.cluster.wait ({} of {all} arrived)", self.cluster_barrier.arrived)
            }
            Wait::Mbarrier { addr, parity } => {
                let state = self.mbarriers.iter().find(|m| m.addr == addr);
                let state = state.map_or("gone".into(), |m| m.to_string());
                let place = self.place_name(addr);
                format!("mbarrier wait at {place} for parity {parity} ({state})")
            }
        }
    }
}

/// `[0, 1, 2, 5]` as `0-2, 5`.
fn ranges(sorted: &[usize]) -> String {
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!("chunks have elements"),
    });
    text.collect::<Vec<_>>().join(", ")
}
