//! Records that hardly ever change. Whoever writes one changes the tag that all of them share, and
//! every group reads that tag: until it is another one, what was read under it is what is stored.

use super::Tag;
use crate::{
    generations::Generations,
    turn::{RecordKey, StoredRecord},
};

/// Records of one generation; two are kept.
const GENERATION: usize = 4096;
/// A longer one is read each time: all together stay under 64 MiB.
const BODY_BYTES_MAX: usize = 8192;

#[derive(Debug)]
pub(in super::super) struct Rare {
    tag: Tag,
    /// Absent ones are known, too.
    records: Generations<RecordKey, Option<StoredRecord>>,
}

impl Default for Rare {
    fn default() -> Rare {
        Rare { tag: Tag::default(), records: Generations::of(GENERATION) }
    }
}

impl Rare {
    /// What was read under the tag that was seen last.
    pub(in super::super) fn get(&self, key: &RecordKey) -> Option<&Option<StoredRecord>> {
        self.records.get(key)
    }

    /// Forgets what was read under another tag.
    pub(in super::super) fn seen(&mut self, tag: Tag) {
        if self.tag != tag {
            *self = Rare { tag, ..Rare::default() };
        }
    }

    /// Keeps a record that was read after the tag was.
    pub(in super::super) fn keep(&mut self, key: &RecordKey, record: Option<&StoredRecord>) {
        if record.is_none_or(|record| record.body.len() <= BODY_BYTES_MAX) {
            self.records.keep(key.clone(), record.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outlives_its_tag() {
        let (mut rare, key) = (Rare::default(), RecordKey::own("operator_score", "x"));
        rare.seen(Tag::from([1; 16]));
        assert!(rare.get(&key).is_none());
        rare.keep(&key, None);
        rare.seen(Tag::from([1; 16]));
        assert!(rare.get(&key).is_some_and(Option::is_none), "its absence is known");
        rare.seen(Tag::from([2; 16]));
        assert!(rare.get(&key).is_none());
        rare.keep(&key, Some(&StoredRecord { version: 3, body: "x".repeat(BODY_BYTES_MAX + 1) }));
        assert!(rare.get(&key).is_none(), "a long one is read each time");
    }
}
