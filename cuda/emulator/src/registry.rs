//! Which buffers of global memory there are.

use std::sync::{Arc, Mutex, PoisonError};

/// The addresses of a buffer, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    start: usize,
    end: usize,
}

/// All buffers of the process, by address. Launches keep the list as it is when they begin.
static ALL: Mutex<Option<Arc<Vec<Extent>>>> = Mutex::new(None);

fn change(f: impl FnOnce(&mut Vec<Extent>)) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    f(Arc::make_mut(all.get_or_insert_default()));
}

/// From now on kernels may touch `len` bytes at `start`. Extents must not overlap.
pub(crate) fn add(start: usize, len: usize) {
    change(|all| {
        let i = all.partition_point(|extent| extent.start < start);
        all.insert(i, Extent { start, end: start + len });
    });
}

/// The buffer at `start` is gone.
pub(crate) fn remove(start: usize) {
    change(|all| {
        if let Ok(i) = all.binary_search_by_key(&start, |extent| extent.start) {
            all.remove(i);
        }
    });
}

/// The buffers that a launch can reach, with a short memory of those it reached last.
#[derive(Clone)]
pub(crate) struct Buffers {
    all: Arc<Vec<Extent>>,
    recent: [Extent; 8],
}

impl Buffers {
    /// Those that exist now.
    pub fn now() -> Buffers {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default().clone();
        Buffers { all, recent: [Extent { start: 0, end: 0 }; 8] }
    }

    /// Are `len` bytes at `address` within a buffer?
    #[inline]
    pub fn contain(&mut self, address: usize, len: usize) -> bool {
        let within = |extent: &Extent| {
            address >= extent.start && extent.end.checked_sub(address).is_some_and(|n| n >= len)
        };
        self.recent.iter().any(within) || self.search(address, within)
    }

    #[cold]
    fn search(&mut self, address: usize, within: impl Fn(&Extent) -> bool) -> bool {
        let i = self.all.partition_point(|extent| extent.start <= address);
        let Some(extent) = i.checked_sub(1).map(|i| self.all[i]) else { return false };
        if !within(&extent) {
            return false;
        }
        self.recent.rotate_right(1);
        self.recent[0] = extent;
        true
    }

    /// Where `len` bytes at `address` lie, as seen from the nearest buffer.
    pub fn describe(&self, address: usize, len: usize) -> String {
        const NEAR: usize = 1 << 20;
        let bytes = format!("{len} bytes at {address:#x}");
        let i = self.all.partition_point(|extent| extent.start <= address);
        let before =
            i.checked_sub(1).map(|i| self.all[i]).filter(|e| address - e.end.min(address) < NEAR);
        let after = self.all.get(i).filter(|e| e.start - address < NEAR);
        let name =
            |e: &Extent| format!("the buffer of {} bytes at {:#x}", e.end - e.start, e.start);
        match (before, after) {
            (Some(e), _) if address < e.end => {
                format!("{bytes} go {} past the end of {}", address + len - e.end, name(&e))
            }
            (Some(e), None) => format!("{bytes}, {} past the end of {}", address - e.end, name(&e)),
            (Some(e), Some(next)) if address - e.end <= next.start - address => {
                format!("{bytes}, {} past the end of {}", address - e.end, name(&e))
            }
            (_, Some(next)) => {
                format!("{bytes}, {} before {}", next.start - address, name(next))
            }
            (None, None) => format!("{bytes}, near none"),
        }
    }
}
