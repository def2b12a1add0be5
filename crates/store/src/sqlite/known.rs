//! What the writer knows without asking the database: nobody else writes it.

mod facts;
mod records;

pub(super) use self::facts::{KnownFacts, asked};
use self::records::KnownRecords;
use super::score_facts::Ends;
use crate::group::Group;

/// Only what is committed.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) facts: KnownFacts,
    pub(super) records: KnownRecords,
}

impl Known {
    /// Takes over what a group has written, once it is committed.
    pub(super) fn add(&mut self, group: &Group, ends: &Ends) {
        self.facts.add(&group.new_facts, ends);
        self.records.add(group);
    }

    /// After a failure the database has the word.
    pub(super) fn forget(&mut self) {
        *self = Known::default();
    }
}
