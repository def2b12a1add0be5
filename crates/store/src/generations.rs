//! What was of use of late, as much of it as has a place.

use std::{collections::HashMap, hash::Hash};

/// Younger entries and older ones. When the younger ones have filled their places they are the
/// older ones, and what was older goes, all at once.
#[derive(Debug)]
pub struct Generations<K, V> {
    places: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// Twice as many as `places` are kept at the most.
    pub fn of(places: usize) -> Generations<K, V> {
        Generations { places, young: HashMap::new(), old: HashMap::new() }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub fn keep(&mut self, key: K, value: V) {
        if self.young.len() >= self.places {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// An entry that is kept is no more.
    pub fn remove(&mut self, key: &K) {
        self.take(key);
    }

    /// Takes an entry out: whoever changes it keeps it again.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let old = self.old.remove(key);
        self.young.remove(key).or(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut kept = Generations::of(2);
        for n in 0..10 {
            kept.keep(n, n);
            let again = kept.get(&0).copied();
            assert_eq!(again, Some(0), "after {n}");
            kept.keep(0, 0);
        }
        assert_eq!((kept.get(&9), kept.get(&5)), (Some(&9), None));
        assert!(kept.young.len() <= 2 && kept.old.len() <= 2);
    }

    #[test]
    fn the_younger_word_counts_and_nothing_comes_back() {
        let mut kept = Generations::of(1);
        kept.keep("a", 1);
        kept.keep("b", 2);
        kept.keep("a", 3);
        assert_eq!(kept.get(&"a"), Some(&3));
        assert_eq!(kept.take(&"a"), Some(3));
        assert_eq!(kept.get(&"a"), None);
        assert_eq!(kept.get(&"b"), Some(&2));
    }
}
