//! A map that forgets: bounded, and what was used lately stays.

use std::{collections::HashMap, hash::Hash};

/// Two generations of entries. A used entry moves to the young one; when that is full, the old
/// one is dropped and the young one grows old. Every step is constant work, so that nobody can
/// make eviction expensive.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    young_max: usize,
}

impl<K: Hash + Eq + Clone, V> Generations<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        let young_max = (entries_max / 2).max(1);
        Generations { young: HashMap::new(), old: HashMap::new(), young_max }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.young_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut map = Generations::new(100);
        map.insert(0, "kept");
        for stranger in 1..10_000 {
            map.insert(stranger, "new");
            assert!(map.len() <= 100);
            assert_eq!(map.get(&0), Some(&mut "kept"));
        }
        assert_eq!(map.get(&1), None);
        map.remove(&0);
        assert_eq!(map.get(&0), None);
    }
}
