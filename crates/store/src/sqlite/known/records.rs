//! Records as they are committed.

use rusqlite::Connection;

use super::super::apply::record;
use crate::{
    generations::Generations,
    group::Group,
    turn::{RecordKey, StoredRecord},
};

/// Records of one generation; two are kept.
const GENERATION: usize = 4096;
/// A longer one is read each time: all together stay under 64 MiB.
const BODY_BYTES_MAX: usize = 8192;

/// Absent ones are known, too.
#[derive(Debug)]
pub(in super::super) struct KnownRecords(Generations<RecordKey, Option<StoredRecord>>);

impl Default for KnownRecords {
    fn default() -> KnownRecords {
        KnownRecords(Generations::of(GENERATION))
    }
}

impl KnownRecords {
    pub(in super::super) fn load(
        &mut self,
        conn: &Connection,
        key: &RecordKey,
    ) -> rusqlite::Result<Option<StoredRecord>> {
        if let Some(known) = self.0.get(key) {
            return Ok(known.clone());
        }
        let stored = record(conn, key)?;
        self.keep(key, &stored);
        Ok(stored)
    }

    /// What a group has written, once it is committed.
    pub(super) fn add(&mut self, group: &Group) {
        for key in &group.changed_records {
            match group.records.get(key) {
                Some(slot) => self.keep(key, &slot.now),
                None => self.0.remove(key),
            }
        }
    }

    fn keep(&mut self, key: &RecordKey, stored: &Option<StoredRecord>) {
        match stored {
            Some(record) if record.body.len() > BODY_BYTES_MAX => self.0.remove(key),
            _ => self.0.keep(key.clone(), stored.clone()),
        }
    }
}
