//! Track records as turns read and write them. What was taken apart a moment ago is known by its
//! text: the same text is not taken apart twice.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned, de::IgnoredAny};
use skep_base::{AgentId, json::read_own};
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

/// The part of an agent's record that says whether it has a key: the rest is long.
#[derive(Debug, Deserialize)]
struct Keyed {
    agent: KeyedAgent,
}

#[derive(Debug, Deserialize)]
struct KeyedAgent {
    #[serde(default)]
    current_key: Option<IgnoredAny>,
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

/// A track record before the turn, if there was one.
pub(super) struct StoredTrack(Option<Arc<Read<Track>>>);

impl StoredTrack {
    /// Writes a track record that has changed.
    pub(super) fn put(self, turn: &mut Turn, agent: &AgentId, track: &Track) -> Result<(), Stop> {
        let after = track.to_store();
        match self.0 {
            Some(before) if before.value == after => Ok(()),
            _ => Ok(turn.put(&track_key(agent), &after)?),
        }
    }
}

impl Market {
    fn stored_track(&self, turn: &Turn, agent: &AgentId) -> Result<Option<Arc<Read<Track>>>, Stop> {
        read(turn, &track_key(agent), agent, &self.seen.tracks)
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
        let track = stored.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        let track = Track::resume(track, turn.counted(agent)?.last.map(fact::mark));
        Ok((track, StoredTrack(stored)))
    }

    /// The tier of a turn that loaded the track record, whether or not it loaded the facts.
    pub(crate) fn tier_in(&self, turn: &Turn, agent: &AgentId) -> Result<Tier, Stop> {
        Ok(self.stored_track(turn, agent)?.map(|read| read.value.tier).unwrap_or_default())
    }

    /// Writes a track record, once in a turn. What its last fact says stands in that fact's row:
    /// mostly nothing else has changed.
    pub(crate) fn put_track(
        &self,
        turn: &mut Turn,
        agent: &AgentId,
        track: &Track,
    ) -> Result<(), Stop> {
        StoredTrack(self.stored_track(turn, agent)?).put(turn, agent, track)
    }

    /// Whether an agent whose record was loaded has a key that is not revoked.
    pub(super) fn has_key(&self, turn: &Turn, agent: &AgentId) -> Result<bool, Stop> {
        let known = read(turn, &agent_key(agent), agent, &self.seen.agents)?;
        Ok(known.is_some_and(|read| read.value.agent.current_key.is_some()))
    }
}
