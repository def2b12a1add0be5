//! What was seen a moment ago, in memory: bounded, and never the only place where it is.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

/// Entries of one generation; two are kept.
const GENERATION: usize = 512;

/// The younger entries and the older ones, which go all at once. Every step is constant work.
#[derive(Debug)]
pub(crate) struct Recent<K, V>(Mutex<[HashMap<K, V>; 2]>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().find_map(|known| known.get(key)).cloned()
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *generations;
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        young.insert(key, value);
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
        let kept = recent.0.lock().unwrap().iter().map(HashMap::len).sum::<usize>();
        assert!((GENERATION..=2 * GENERATION).contains(&kept), "{kept}");
        assert_eq!(recent.get(&0), None);
    }
}
