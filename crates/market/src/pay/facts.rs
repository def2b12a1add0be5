//! What a check looks at, whether inside a turn or beside it: the same rules for both.

use serde::de::DeserializeOwned;
use skep_base::{Timestamp, json::read_own};
use skep_store::{Account, AccountId, Bug, RecordKey, Seen, StoredRecord, Turn};

use crate::{Failure, Market};

pub(super) trait Facts {
    /// The database's time.
    fn now(&self) -> Timestamp;
    fn record<T: DeserializeOwned>(&self, key: &RecordKey) -> Result<Option<T>, Bug>;
    /// Every account that is asked for was loaded.
    fn account(&self, id: &AccountId) -> Result<&Account, Bug>;
}

impl Facts for Turn {
    fn now(&self) -> Timestamp {
        Turn::now(self)
    }

    fn record<T: DeserializeOwned>(&self, key: &RecordKey) -> Result<Option<T>, Bug> {
        Turn::record(self, key)
    }

    fn account(&self, id: &AccountId) -> Result<&Account, Bug> {
        self.book.account(id).ok_or_else(|| not_loaded(id.as_str()))
    }
}

/// What was seen outside any turn: good for a no, and for a yes that is asked again inside one.
#[derive(Debug)]
pub(super) struct Glance {
    now: Timestamp,
    records: Vec<(RecordKey, Option<StoredRecord>)>,
    accounts: Vec<Account>,
}

impl Facts for Glance {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn record<T: DeserializeOwned>(&self, key: &RecordKey) -> Result<Option<T>, Bug> {
        let found = self.records.iter().find(|(known, _)| known == key);
        let (_, stored) = found.ok_or_else(|| not_loaded(&key.id))?;
        let read = stored.as_ref().map(|stored| read_own(stored.body.as_bytes())).transpose();
        read.map_err(|e| Bug(format!("{} {} is unreadable: {e}", key.kind, key.id)))
    }

    fn account(&self, id: &AccountId) -> Result<&Account, Bug> {
        let found = self.accounts.iter().find(|account| account.id == *id);
        found.ok_or_else(|| not_loaded(id.as_str()))
    }
}

fn not_loaded(what: &str) -> Bug {
    Bug(format!("{what} was not loaded for this check"))
}

impl Market {
    /// One question to the database.
    pub(super) async fn glance(
        &self,
        keys: Vec<RecordKey>,
        accounts: Vec<AccountId>,
    ) -> Result<Glance, Failure> {
        let Seen { now, records, accounts } = self.store.look(keys.clone(), accounts).await?;
        Ok(Glance { now, records: keys.into_iter().zip(records).collect(), accounts })
    }
}
