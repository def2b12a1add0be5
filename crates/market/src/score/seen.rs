//! Track records as turns read and write them. What was taken apart a moment ago is known by its
//! text: the same text is not taken apart twice.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned, de::IgnoredAny};
use skep_base::{AgentId, Did, json::read_own};
use skep_score::Track;
use skep_store::{Bug, RecordKey, Turn, track_key};
use skep_wire::settle::Tier;

use super::fact;
use crate::{Market, answer::Stop, identity::agent_key, recent::Recent};

/// What was read of late.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    tracks: Recent<AgentId, Arc<Read<Track>>>,
    agents: Recent<AgentId, Arc<Read<Keyed>>>,
}

/// A text and what it says.
#[derive(Debug)]
struct Read<T> {
    text: String,
    value: T,
}

/// The part of an agent's record that its score depends on: the rest is long.
#[derive(Debug, Deserialize)]
struct Keyed {
    agent: KeyedAgent,
}

#[derive(Debug, Deserialize)]
struct KeyedAgent {
    operator: Did,
    #[serde(default)]
    current_key: Option<IgnoredAny>,
}

/// What an agent's own record says that its score depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub(super) has_key: bool,
    pub(super) operator: Did,
}

fn read<T: DeserializeOwned>(
    turn: &Turn,
    key: &RecordKey,
    agent: &AgentId,
    seen: &Recent<AgentId, Arc<Read<T>>>,
) -> Result<Option<Arc<Read<T>>>, Stop> {
    let Some(text) = turn.text(key)? else { return Ok(None) };
    if let Some(known) = seen.get(agent).filter(|known| known.text == text) {
        return Ok(Some(known));
    }
    let value = read_own(text.as_bytes())
        .map_err(|error| Bug(format!("{} {} is unreadable: {error}", key.kind, key.id)))?;
    let read = Arc::new(Read { text: text.to_owned(), value });
    seen.insert(*agent, read.clone());
    Ok(Some(read))
}

/// Where a track record is, and how it was before the turn, if there was one.
pub(super) struct StoredTrack {
    key: RecordKey,
    before: Option<Arc<Read<Track>>>,
}

impl StoredTrack {
    /// Writes a track record that has changed.
    pub(super) fn put(self, turn: &mut Turn, track: Track) -> Result<(), Stop> {
        let after = track.into_stored();
        match self.before {
            Some(before) if before.value == after => Ok(()),
            _ => Ok(turn.put(&self.key, &after)?),
        }
    }
}

impl Market {
    fn stored_track(&self, turn: &Turn, agent: &AgentId) -> Result<StoredTrack, Stop> {
        let key = track_key(agent);
        let before = read(turn, &key, agent, &self.seen.tracks)?;
        Ok(StoredTrack { key, before })
    }

    /// The track record of a turn that loaded it.
    pub(crate) fn track_of(&self, turn: &Turn, agent: &AgentId) -> Result<Track, Stop> {
        Ok(self.track_and_stored(turn, agent)?.0)
    }

    /// Besides, what of it is stored, for whoever writes it in the same turn.
    pub(super) fn track_and_stored(
        &self,
        turn: &Turn,
        agent: &AgentId,
    ) -> Result<(Track, StoredTrack), Stop> {
        let stored = self.stored_track(turn, agent)?;
        let track = stored.before.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        let track = Track::resume(track, turn.counted(agent)?.last.map(fact::mark));
        Ok((track, stored))
    }

    /// The tier of a turn that loaded the track record, whether or not it loaded the facts.
    pub(crate) fn tier_in(&self, turn: &Turn, agent: &AgentId) -> Result<Tier, Stop> {
        let stored = self.stored_track(turn, agent)?;
        Ok(stored.before.map(|read| read.value.tier).unwrap_or_default())
    }

    /// Writes a track record, once in a turn. What its last fact says stands in that fact's row:
    /// mostly nothing else has changed.
    pub(crate) fn put_track(
        &self,
        turn: &mut Turn,
        agent: &AgentId,
        track: &Track,
    ) -> Result<(), Stop> {
        self.stored_track(turn, agent)?.put(turn, track.clone())
    }

    /// Whether an agent whose record was loaded has a key that is not revoked, and which operator
    /// it has.
    pub(super) fn present(&self, turn: &Turn, agent: &AgentId) -> Result<Option<Present>, Stop> {
        let known = read(turn, &agent_key(agent), agent, &self.seen.agents)?;
        Ok(known.map(|read| {
            let KeyedAgent { operator, current_key } = &read.value.agent;
            Present { has_key: current_key.is_some(), operator: *operator }
        }))
    }
}
