//! Whose facts and track records a group holds.
//!
//! An agent's wallet in dollars (USDC) says how its facts stand, and which track record goes with
//! them. A settlement locks and writes that wallet anyway; whoever counts without money does it for
//! this alone. So one row is the lock, the last fact and the word on what a lane still knows.

use std::collections::BTreeMap;

use deadpool_postgres::Object;
use skep_base::AgentId;
use tokio_postgres::Row;

use super::{
    known::{Tag, Tracks, tag_of},
    lane::GroupError,
    load::{Columns, RECORDS, ask, keep_all},
    score_facts::packed,
};
use crate::{
    account::AccountId,
    group::{Group, RecordSlot},
    score_fact::{Counted, ScoreTotals, TRACK, WantedFacts},
    turn::{RecordKey, StoredRecord},
};

/// What is told to those who hold nothing.
pub(super) const MARKS: &str =
    "select account, counted from accounts where account = any($1) order by account";

/// The tags that stood in the wallets that are locked.
pub(super) type Held = BTreeMap<AgentId, Option<Tag>>;

/// What is asked for beside the locked wallets.
pub(super) struct Asked<'a> {
    facts: &'a BTreeMap<AgentId, WantedFacts>,
    /// Whose track records, in order.
    agents: Vec<AgentId>,
    tracks: Vec<&'a RecordKey>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(facts: &'a BTreeMap<AgentId, WantedFacts>, known: &Tracks) -> Asked<'a> {
        let unknown = facts.values().filter(|w| !w.is_held() || !known.knows(&w.agent));
        let (agents, tracks) = unknown.map(|wanted| (wanted.agent, &*wanted.track)).unzip();
        Asked { facts, agents, tracks }
    }

    pub(super) fn tracks(&self) -> Columns {
        key_columns(&self.tracks)
    }

    pub(super) fn marks(&self) -> Columns {
        let unheld = self.facts.values().filter(|wanted| !wanted.is_held());
        vec![unheld.map(|wanted| wanted.wallet.to_string()).collect()]
    }

    /// Keeps what was found, and asks again for track records that others have written since.
    pub(super) async fn take(
        &self,
        client: &Object,
        known: &mut Tracks,
        (accounts, marks, tracks): (&[Row], &[Row], &[Row]),
        bases: &BTreeMap<AgentId, ScoreTotals>,
        group: &mut Group,
    ) -> Result<Held, GroupError> {
        keep_all(&self.tracks, tracks, group);
        let (mut held, mut again) = (Held::new(), Vec::new());
        for (agent, facts) in self.facts {
            let wallet = facts.wallet.as_str();
            let mark = mark_in(accounts, 7, wallet).or_else(|| mark_in(marks, 1, wallet));
            let mark = mark.map(packed::read_mark).transpose();
            let (last, tag) =
                mark.map_err(|e| GroupError::Refused(e.to_string()))?.unwrap_or_default();
            let base = bases.get(agent).copied().unwrap_or_default();
            group.counted.insert(*agent, Counted { last, base });
            if !facts.is_held() {
                continue;
            }
            held.insert(*agent, tag);
            if self.agents.binary_search(agent).is_ok() {
                known.keep(*agent, stored(group, &facts.track));
            } else if let Some(record) = known.get(agent, tag.as_ref()) {
                group.records.insert((*facts.track).clone(), RecordSlot::of(record));
            } else {
                again.push((*agent, &*facts.track));
            }
        }
        let (agents, keys): (Vec<AgentId>, Vec<&RecordKey>) = again.into_iter().unzip();
        let rows = ask(client, RECORDS, &key_columns(&keys)).await?;
        keep_all(&keys, &rows, group);
        for (agent, key) in agents.into_iter().zip(keys) {
            known.keep(agent, stored(group, key));
        }
        Ok(held)
    }
}

/// What a wallet says, among wallets in order.
fn mark_in<'a>(wallets: &'a [Row], column: usize, wallet: &str) -> Option<&'a [u8]> {
    let place = wallets.binary_search_by(|row| row.get::<_, &str>(0).cmp(wallet)).ok()?;
    wallets.get(place)?.get(column)
}

/// A record as the group has it.
pub(super) fn stored<'a>(group: &'a Group, key: &RecordKey) -> Option<&'a StoredRecord> {
    group.records.get(key).and_then(|slot| slot.now.as_ref())
}

pub(super) fn key_columns(keys: &[&RecordKey]) -> Columns {
    vec![
        keys.iter().map(|key| key.route.as_str().to_owned()).collect(),
        keys.iter().map(|key| key.kind.to_owned()).collect(),
        keys.iter().map(|key| key.id.clone()).collect(),
    ]
}

/// What wallets say of their agents' facts after a group.
#[derive(Default)]
pub(super) struct Marks<'a> {
    pub(super) in_wallets: BTreeMap<&'a AccountId, Vec<u8>>,
    tracks: Vec<(AgentId, &'a StoredRecord)>,
}

impl<'a> Marks<'a> {
    pub(super) fn of(
        group: &'a Group,
        wanted: &'a BTreeMap<AgentId, WantedFacts>,
        held: &Held,
    ) -> Result<Marks<'a>, GroupError> {
        let mut marks = Marks::default();
        let written = group.changed_records.iter().filter(|key| key.kind == TRACK);
        let mut changed: BTreeMap<AgentId, Option<&RecordKey>> =
            group.new_facts.iter().map(|fact| (fact.agent, None)).collect();
        for key in written {
            let agent = key.id.parse().map_err(|_| not_held(&key.id))?;
            changed.insert(agent, Some(key));
        }
        for (agent, written) in changed {
            let (Some(WantedFacts { wallet, .. }), Some(tag)) =
                (wanted.get(&agent), held.get(&agent))
            else {
                return Err(not_held(&agent));
            };
            let mut tag = *tag;
            if let Some(record) = written.and_then(|key| stored(group, key)) {
                tag = Some(tag_of(record));
                marks.tracks.push((agent, record));
            }
            let last = group.counted.get(&agent).and_then(|counted| counted.last);
            marks.in_wallets.insert(&**wallet, packed::mark_bytes(last.as_ref(), tag.as_ref()));
        }
        Ok(marks)
    }

    /// Takes over the track records that were written, once they are committed.
    pub(super) fn remember(&self, known: &mut Tracks) {
        for (agent, record) in &self.tracks {
            known.keep(*agent, Some(record));
        }
    }
}

fn not_held(agent: &impl std::fmt::Display) -> GroupError {
    GroupError::Refused(format!("{agent} was counted for, and its facts were not held"))
}
