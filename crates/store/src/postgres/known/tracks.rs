//! Track records that a lane has read of late. Whoever writes one notes its tag in the agent's
//! wallet, and whoever counts holds that wallet: a record with the tag that stands there is the one
//! that is stored, whatever other nodes did, and even if the database lost its last commits.

use skep_base::{AgentId, hash::sha256_parts};

use crate::{generations::Generations, turn::StoredRecord};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;
/// A longer one is read each time: all together stay under 64 MiB.
const BODY_BYTES_MAX: usize = 8192;

pub(in super::super) const TAG_LEN: usize = 16;

/// Tells records apart by their version and text. Migration 9 makes the same.
pub(in super::super) type Tag = [u8; TAG_LEN];

pub(in super::super) fn tag_of(record: &StoredRecord) -> Tag {
    let hash = sha256_parts(&[&record.version.to_be_bytes(), record.body.as_bytes()]);
    let mut tag = Tag::default();
    tag.copy_from_slice(&hash.as_bytes()[..TAG_LEN]);
    tag
}

/// Agents without a record are known, too.
#[derive(Debug)]
pub(in super::super) struct Tracks(Generations<AgentId, Option<(Tag, StoredRecord)>>);

impl Default for Tracks {
    fn default() -> Tracks {
        Tracks(Generations::of(GENERATION))
    }
}

impl Tracks {
    /// Whether one is known, be it the one that is stored or not.
    pub(in super::super) fn knows(&self, agent: &AgentId) -> bool {
        self.0.get(agent).is_some()
    }

    /// The record with this tag, or the absence of any.
    pub(in super::super) fn get(
        &self,
        agent: &AgentId,
        tag: Option<&Tag>,
    ) -> Option<Option<StoredRecord>> {
        match (self.0.get(agent)?, tag) {
            (None, None) => Some(None),
            (Some((known, record)), Some(tag)) if known == tag => Some(Some(record.clone())),
            _ => None,
        }
    }

    pub(in super::super) fn keep(&mut self, agent: AgentId, record: Option<&StoredRecord>) {
        match record {
            Some(record) if record.body.len() > BODY_BYTES_MAX => self.0.remove(&agent),
            _ => self.0.keep(agent, record.map(|record| (tag_of(record), record.clone()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_record_that_was_tagged_is_taken_for_the_one_that_is_stored() {
        let (mut tracks, agent) = (Tracks::default(), AgentId([1; 20]));
        let record = |version, body: &str| StoredRecord { version, body: body.to_owned() };
        let (one, two) = (record(1, "a"), record(2, "a"));
        assert!(tracks.get(&agent, None).is_none(), "nothing is known");
        tracks.keep(agent, None);
        assert!(tracks.get(&agent, None).is_some_and(|known| known.is_none()));
        assert!(tracks.get(&agent, Some(&tag_of(&one))).is_none(), "somebody has written one");
        tracks.keep(agent, Some(&one));
        let found = tracks.get(&agent, Some(&tag_of(&one))).flatten();
        assert_eq!(found.map(|found| (found.version, found.body)), Some((1, "a".to_owned())));
        for other in [two, record(1, "b")] {
            assert!(tracks.get(&agent, Some(&tag_of(&other))).is_none(), "{other:?}");
        }
        assert!(tracks.get(&agent, None).is_none(), "somebody has lost it");
        tracks.keep(agent, Some(&record(3, &"x".repeat(BODY_BYTES_MAX + 1))));
        assert!(!tracks.knows(&agent), "a long one is read each time");
    }
}
