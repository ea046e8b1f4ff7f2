//! The cache of plans: bounded, shared by threads, and never wrong about a key.

use fused_attention::PlanCache;
use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

fn square(cache: &PlanCache<u64, u64>, key: u64, made: &AtomicUsize) -> u64 {
    let plan = cache.get_or_try_make(&key, || {
        made.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(key * key)
    });
    *plan.unwrap()
}

#[test]
fn a_plan_is_made_once() {
    let (cache, made) = (PlanCache::new(8), AtomicUsize::new(0));
    for _ in 0..3 {
        assert_eq!(square(&cache, 5, &made), 25);
    }
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn it_never_holds_more_than_its_capacity() {
    let (cache, made) = (PlanCache::new(8), AtomicUsize::new(0));
    for key in 0..1000 {
        square(&cache, key, &made);
        assert!(cache.len() <= 8, "{} plans of at most 8", cache.len());
    }
    assert_eq!(made.into_inner(), 1000);
}

#[test]
fn what_is_in_use_stays() {
    let (cache, made) = (PlanCache::new(8), AtomicUsize::new(0));
    for key in 1..1000 {
        square(&cache, 0, &made);
        square(&cache, key, &made);
    }
    assert_eq!(made.into_inner(), 1000, "0 was made again");
}

#[test]
fn an_error_leaves_nothing_behind() {
    let cache: PlanCache<u32, u32> = PlanCache::new(8);
    assert_eq!(cache.get_or_try_make(&1, || Err("refused")), Err("refused"));
    assert!(cache.is_empty());
    assert_eq!(cache.get_or_try_make(&1, || Ok::<_, ()>(7)).map(|plan| *plan), Ok(7));
}

#[test]
fn threads_agree_on_every_plan() {
    let (cache, made) = (PlanCache::new(16), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (cache, made) = (&cache, &made);
            scope.spawn(move || {
                for i in 0..10_000 {
                    let key = (first + i * 7) % 40;
                    assert_eq!(square(cache, key, made), key * key);
                }
            });
        }
    });
    assert!(cache.len() <= 16);
}

#[test]
fn making_a_plan_may_use_the_cache() {
    let (cache, made) = (PlanCache::new(8), AtomicUsize::new(0));
    let plan = cache.get_or_try_make(&1, || Ok::<_, Infallible>(square(&cache, 2, &made) + 1));
    assert_eq!(*plan.unwrap(), 5);
}
