//! What was seen a moment ago, in memory: bounded, and never the only place where it is.

use std::{
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use skep_store::Generations;

/// Entries of one generation; two are kept.
const GENERATION: usize = 512;

/// Behind a lock, for whoever asks.
#[derive(Debug)]
pub(crate) struct Recent<K, V>(Mutex<Generations<K, V>>);

impl<K: Hash + Eq, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent(Mutex::new(Generations::of(GENERATION)))
    }
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keep(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_the_last_word_counts() {
        let recent = Recent::default();
        for n in 0..10 * GENERATION {
            recent.insert(n, "first");
            recent.insert(n, "last");
            assert_eq!(recent.get(&n), Some("last"));
        }
        let newest = 10 * GENERATION - 1;
        let kept = (0..=newest).filter(|n| recent.get(n).is_some()).count();
        assert!((GENERATION..=2 * GENERATION).contains(&kept), "{kept}");
        assert_eq!(recent.get(&0), None);
    }
}
