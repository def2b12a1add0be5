//! Who is there: handshakes and keepalives (ASIP 1, 4, 12).

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::swarm::{
    AssignTier, Certificate, ErrorCode, Handshake, Keepalive, Message, Outcome, PROTOCOL_VERSION,
    Share, Word,
};

use super::{Node, Output, Refusal, computing::Challenge, plus, refuse, send};
use crate::{kept::Kept, pow};

/// Capabilities that one agent can have.
const CAPABILITIES_MAX: usize = 100;
/// Peers that are remembered: more than anybody's neighbours.
const PEERS_MAX: usize = 4_096;

/// What a node knows of another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(super) capabilities: Vec<String>,
    pub(super) heard_at: Timestamp,
    pub(super) active_tasks: u32,
    /// Keepalives heard since the epoch began, and when the last one was counted.
    pub(super) heard: u32,
    pub(super) counted_in: u64,
    #[serde(default)]
    pub(super) counted_at: Option<Timestamp>,
    pub(super) handshake: Option<Kept>,
    /// When its last keepalive was sent by its clock, and heard by this node's.
    pub(super) keepalive: Option<(Timestamp, Timestamp)>,
    /// The last of this node's keepalives whose echo was used.
    pub(super) measured: Option<Timestamp>,
    /// How it did in the challenge of an epoch.
    pub(super) computed: Option<(u64, Share)>,
    /// The election after which it was last told another, and when.
    pub(super) told: Option<(u64, Timestamp)>,
}

impl Peer {
    fn new(now: Timestamp) -> Peer {
        Peer {
            capabilities: Vec::new(),
            heard_at: now,
            active_tasks: 0,
            heard: 0,
            counted_in: 0,
            counted_at: None,
            handshake: None,
            keepalive: None,
            measured: None,
            computed: None,
            told: None,
        }
    }

    /// Whether something was sent after all that is known of it: what anybody can send again is no
    /// sign of life.
    fn is_news(&self, sent_at: Timestamp) -> bool {
        let greeted = self.handshake.as_ref().map(|known| known.meta.sent_at);
        let said = self.keepalive.map(|(sent, _)| sent);
        greeted.max(said).is_none_or(|last| last < sent_at)
    }
}

impl Node {
    pub(super) fn take_handshake(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        hello: &Handshake,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.check_keys(hello)?;
        if !pow::check(&hello.agent_id, &hello.proof_of_work, self.genesis.difficulty) {
            let bits = self.genesis.difficulty;
            return refuse(ErrorCode::InvalidPow, format!("{bits} zero bits are needed"));
        }
        if !is_compatible(&hello.protocol_version) {
            let known = format!("this node speaks {PROTOCOL_VERSION}");
            return refuse(ErrorCode::InvalidRequest, known);
        }
        self.check_evidence(&hello.evidence)?;
        if hello.capabilities.len() > CAPABILITIES_MAX {
            let limit = format!("at most {CAPABILITIES_MAX} capabilities");
            return refuse(ErrorCode::InvalidParams, limit);
        }
        if !self.peers.contains_key(&hello.agent_id) && self.peers.len() >= PEERS_MAX {
            return refuse(ErrorCode::InvalidRequest, "this node knows too many peers");
        }
        self.make_room(now, &hello.agent_id)?;
        let peer = self.peers.entry(hello.agent_id).or_insert_with(|| Peer::new(now));
        if peer.is_news(kept.meta.sent_at) {
            peer.heard_at = peer.heard_at.max(now);
        }
        let known = peer.handshake.as_ref().map(|known| known.meta.sent_at);
        if known.is_none_or(|known| known <= kept.meta.sent_at) {
            peer.capabilities.clone_from(&hello.capabilities);
            peer.handshake = Some(kept.bare());
        }
        self.greet_back(now, hello.agent_id, out);
        Ok(())
    }

    /// Sends a sign of life, and says who this node is to those who may not know.
    pub(super) fn keep_alive(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        if now < self.keepalive_at {
            return;
        }
        if self.started.is_none() {
            self.started = Some(now);
            // Nobody could ask before: the founders' time begins now.
            if self.epoch().number() == 1 {
                self.challenge = Challenge::new(1, now);
            }
        }
        let to = self.near();
        self.greet(now, &to, out);
        self.repeat_key(out);
        self.keepalive_at = plus(now, self.genesis.timing.keepalive_ms);
        let mut keepalive = Keepalive {
            elected: self.epoch().number(),
            active_tasks: self.load(),
            computed: self.challenge.computed(),
            ..Keepalive::new(self.me, self.genesis.epoch_at(now), now)
        };
        self.tell_place(now, &to, &mut keepalive);
        out.push(send(to, Message::Keepalive(keepalive)));
        self.ask_compute(now, out);
    }

    pub(super) fn handshake(&self) -> Handshake {
        let profile = &self.profile;
        Handshake {
            agent_id: self.me,
            pub_key: self.newest_key(),
            key_chain: profile.key_chain.clone(),
            capabilities: profile.capabilities.clone(),
            resources: profile.resources.clone(),
            location_vector: self.place().at,
            proof_of_work: profile.proof_of_work.clone(),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            evidence: profile.evidence.clone(),
        }
    }

    pub(super) fn take_keepalive(
        &mut self,
        now: Timestamp,
        m: &Keepalive,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.check_computed(m)?;
        if !self.peers.contains_key(&m.agent_id) && self.peers.len() >= PEERS_MAX {
            return Ok(());
        }
        let peer = self.peers.entry(m.agent_id).or_insert_with(|| Peer::new(now));
        // What is repeated is no new sign of life.
        if peer.keepalive.is_some_and(|(last, _)| last >= m.timestamp) {
            return Ok(());
        }
        peer.keepalive = Some((m.timestamp, now));
        if peer.counted_in != m.epoch {
            (peer.counted_in, peer.heard) = (m.epoch, 0);
        }
        // Who says it a hundred times at once was not there for longer.
        let pause_ms = self.genesis.timing.keepalive_ms / 2;
        if peer.counted_at.is_none_or(|at| now >= plus(at, pause_ms)) {
            peer.heard = peer.heard.saturating_add(1);
            peer.counted_at = Some(now);
        }
        peer.heard_at = now;
        peer.active_tasks = m.active_tasks;
        self.note_computed(now, m);
        self.take_echo(now, m);
        self.catch_up(now, m, out);
        Ok(())
    }

    /// Whoever has missed an election gets its certificate: from its parent, or from those whose
    /// turn it is.
    fn catch_up(&mut self, now: Timestamp, m: &Keepalive, out: &mut Vec<Output>) {
        let epoch = self.epoch().clone();
        if m.elected >= epoch.number() {
            return;
        }
        // It is another one's turn with every keepalive, should one be silent or lie.
        let members = epoch.members();
        let after = members.partition_point(|did| *did <= m.agent_id);
        let keepalive_ms = i64::try_from(self.genesis.timing.keepalive_ms.max(1)).unwrap_or(1);
        let turn = usize::try_from(m.timestamp.as_ms() / keepalive_ms).unwrap_or(0);
        let is_mine = |ahead: usize| {
            members.get((after + turn + ahead) % members.len().max(1)) == Some(&self.me)
        };
        let parent = self.parent_in(&epoch, &m.agent_id);
        let is_turn = parent == Some(self.me) || is_mine(0) || is_mine(1);
        if !self.may_tell(now, m, is_turn) {
            return;
        }
        // Each is certified by the one before: they are learnt one after the other.
        let follows = |kept: &&Kept| match &kept.message {
            Message::Certificate(Certificate { word: Word::Bundle { value, .. }, .. }) => {
                matches!(&value.outcome, Outcome::Election(e) if e.previous == m.elected)
            }
            _ => false,
        };
        if let Some(certified) = self.certified.iter().find(follows) {
            let (message, attached) = (certified.message.clone(), certified.attached.clone());
            out.push(Output::Send { to: vec![m.agent_id], message, attached });
        }
    }

    /// The share of an epoch in which a peer was heard, by what was to be expected.
    pub(super) fn uptime_of(&self, now: Timestamp, peer: &Peer) -> Share {
        let epoch = self.genesis.epoch_at(now);
        if peer.counted_in != epoch {
            return Share::ZERO;
        }
        let started = self.started.unwrap_or(now);
        let since = now.since(self.genesis.epoch_start(epoch).max(started)).as_millis();
        let expected = since / u128::from(self.genesis.timing.keepalive_ms.max(1));
        let share = u128::from(peer.heard) * 1_000_000 / expected.max(1);
        Share::from_e6(u32::try_from(share).unwrap_or(u32::MAX))
    }

    pub(super) fn take_tier(&self, m: &AssignTier) -> Result<(), Refusal> {
        let Some(epoch) = self.epochs.get(&m.epoch) else {
            return refuse(ErrorCode::EpochMismatch, "this election is not known here");
        };
        let layout = epoch.layout();
        let elected = layout.parent_of(&m.assigned_agent);
        let acting = self.parent_in(epoch, &m.assigned_agent);
        let fits = [elected, acting].contains(&Some(m.parent_id))
            && layout.tier_of(&m.assigned_agent) == Some(m.tier);
        if fits { Ok(()) } else { refuse(ErrorCode::InvalidParams, "that is not its place") }
    }
}

/// Versions that differ in the last two numbers only understand each other.
fn is_compatible(version: &str) -> bool {
    let major = |text: &str| {
        let number = text.strip_prefix("/openswarm/")?.split('.').next()?;
        number.parse::<u32>().ok()
    };
    major(version).is_some() && major(version) == major(PROTOCOL_VERSION)
}
