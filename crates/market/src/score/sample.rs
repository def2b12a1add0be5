//! Made-up track records for measurements: most agents have done little, a few a lot.

use std::time::Duration;

use skep_base::{AgentId, Timestamp, hash::sha256};
use skep_score::{Dimension, Fact, Track};
use skep_store::bench::ScoreSample;

use super::fact::row;

/// One agent in so many is busy.
const BUSY_ONE_IN: u64 = 50;
const FACTS: u64 = 2;
const FACTS_BUSY: u64 = 40;
/// Between two facts of one agent: those of a busy one reach back beyond the window.
const APART: Duration = Duration::from_secs(3 * 24 * 3600);
/// When the first agent's first fact was.
const START_MS: i64 = 1_780_000_000_000;

/// The `n`th agent's track record, always the same one.
pub fn sample_score(n: u64) -> ScoreSample {
    let hash = sha256(&[b"skep/sample-score/v1".as_slice(), &n.to_be_bytes()].concat());
    let mut agent = [0; 20];
    agent.copy_from_slice(&hash.as_bytes()[..20]);
    let agent = AgentId(agent);
    let count = if n.is_multiple_of(BUSY_ONE_IN) { FACTS_BUSY } else { FACTS };
    let (mut track, mut facts) = (Track::default(), Vec::new());
    let mut at = Timestamp::from_ms(START_MS + i64::try_from(n % 1000).unwrap_or(0));
    for number in 0..count {
        let dimension = if number % 2 == 0 { Dimension::Ap2 } else { Dimension::Conduit };
        let mut fact = Fact {
            dimension,
            source: format!("{n:032x}-{number:04x}"),
            ok: number % 20 != 19,
            released_cents: if dimension == Dimension::Ap2 { 25 } else { 0 },
            counterparty: (dimension == Dimension::Ap2).then_some(agent),
            proof: Some(hash),
            at,
        };
        let place = track.count(&agent, &mut fact);
        facts.push(row(agent, place, &fact, &track));
        at = at.plus(APART);
    }
    let record = serde_json::to_string(&track.clone().into_stored()).unwrap_or_default();
    ScoreSample { agent, record, facts }
}
