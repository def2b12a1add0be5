//! What the writer knows without asking the database: nobody else writes it.

mod facts;
mod records;

pub(super) use self::facts::asked;
use self::{facts::KnownFacts, records::KnownRecords};
use crate::group::Group;

/// Only what is committed.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) facts: KnownFacts,
    pub(super) records: KnownRecords,
}

impl Known {
    /// Takes over what a group has written, once it is committed.
    pub(super) fn add(&mut self, group: &Group) {
        self.facts.add(&group.new_facts);
        self.records.add(group);
    }

    /// After a failure the database has the word.
    pub(super) fn forget(&mut self) {
        *self = Known::default();
    }
}
