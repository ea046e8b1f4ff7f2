//! Plans, kept by what they were made for.

use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

/// A bounded map from a problem to the plan for it, for any number of threads.
///
/// Half of it holds the latest plans; once that is full, it becomes the older half and what was
/// the older half is dropped. A plan in use moves back to the latest half, so what is asked for
/// again and again stays. Finding one of the latest takes a read lock and no allocation.
pub struct PlanCache<K, V> {
    halves: RwLock<Halves<K, V>>,
    half: usize,
}

struct Halves<K, V> {
    latest: HashMap<K, Arc<V>, RandomState>,
    older: HashMap<K, Arc<V>, RandomState>,
}

impl<K: Hash + Eq + Clone, V> PlanCache<K, V> {
    /// A cache of at most `capacity` plans, two at least.
    pub fn new(capacity: usize) -> Self {
        let halves = Halves { latest: HashMap::default(), older: HashMap::default() };
        PlanCache { halves: RwLock::new(halves), half: (capacity / 2).max(1) }
    }

    /// The plan for `key`, made by `make` if there is none. Two threads that want the same new
    /// plan may both make it; the first one kept is what both get.
    ///
    /// # Errors
    /// Those of `make`; then nothing is kept.
    pub fn get_or_try_make<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        {
            // No code of ours panics while it holds the lock, so its content is whole.
            let halves = self.halves.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(plan) = halves.latest.get(key) {
                return Ok(plan.clone());
            }
        }
        if let Some(plan) = self.revive(key) {
            return Ok(plan);
        }
        // Without the lock: making a plan may take long, or use the cache.
        let plan = Arc::new(make()?);
        Ok(self.insert(key, plan))
    }

    /// How many plans are kept.
    pub fn len(&self) -> usize {
        let halves = self.halves.read().unwrap_or_else(PoisonError::into_inner);
        halves.latest.len() + halves.older.len()
    }

    /// Whether no plan is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn revive(&self, key: &K) -> Option<Arc<V>> {
        let mut halves = self.halves.write().unwrap_or_else(PoisonError::into_inner);
        let plan = halves.older.remove(key)?;
        self.keep(&mut halves, key, plan.clone());
        Some(plan)
    }

    fn insert(&self, key: &K, plan: Arc<V>) -> Arc<V> {
        let mut halves = self.halves.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = halves.latest.get(key) {
            return first.clone();
        }
        self.keep(&mut halves, key, plan.clone());
        plan
    }

    fn keep(&self, halves: &mut Halves<K, V>, key: &K, plan: Arc<V>) {
        if halves.latest.len() >= self.half {
            halves.older = std::mem::take(&mut halves.latest);
        }
        halves.latest.insert(key.clone(), plan);
    }
}

impl<K, V> fmt::Debug for PlanCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCache").field("half", &self.half).finish_non_exhaustive()
    }
}
