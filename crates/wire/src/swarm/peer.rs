//! Who takes part: handshakes, keepalives, places in the hierarchy (ASIP 1, 4, 12, 13).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Hash32, Timestamp, ed25519::PublicKey};

use super::{KeyLink, Published, Share, key_text, task::is_default, text::at_most};

/// What a node can bring to work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub cpu_cores: u32,
    pub ram_gb: u32,
    #[serde(default)]
    pub gpu_vram_gb: Option<u32>,
    #[serde(default, deserialize_with = "or_none")]
    pub disk_gb: u32,
}

/// The reference writes `null` where it has nothing to say.
fn or_none<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Where a node is in the network: distances between vectors are round trips, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Location {
    pub x: f64,
    pub y: f64,
    pub z: f64,
}

/// SHA-256 of the agent's DID and the nonce begins with so many zero bits (decision 43).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofOfWork {
    pub nonce: u64,
    pub hash: Hash32,
    pub difficulty: u32,
}

/// 1. `swarm.handshake`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handshake {
    pub agent_id: Did,
    /// Base64 of the key's DER form; hex and base64 of the raw 32 bytes are read, too.
    #[serde(with = "key_text")]
    pub pub_key: PublicKey,
    /// How the DID's first key became this one; empty while it is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_chain: Vec<KeyLink>,
    pub capabilities: Vec<String>,
    pub resources: Resources,
    pub location_vector: Location,
    pub proof_of_work: ProofOfWork,
    pub protocol_version: String,
    /// What its score rests on, for whoever is greeted. Its vote weighs what its candidacy shows,
    /// which is in the election's record (decision 44a).
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
}

/// What answers a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeResult {
    pub accepted: bool,
    pub agent_id: Did,
    pub current_epoch: u64,
    pub estimated_swarm_size: u64,
    pub hierarchy_depth: u32,
    pub your_tier: Option<Tier>,
}

/// What an attestation is about. What members see of one another comes with their votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// A SwarmScore, out of 1000, by an issuer that the swarm trusts.
    Reputation,
    /// What a ledger that the swarm trusts holds as stake, as a share of the full stake.
    Stake,
}

/// "This agent's quality was so much in this epoch." Signed over its canonical JSON with its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    pub subject: Did,
    pub quality: Quality,
    pub value: Share,
    pub epoch: u64,
    pub attester: Did,
}

impl crate::identity::Statement for Attestation {
    const TYPE: &'static str = "skep/swarm-attestation/v1";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAttestation {
    #[serde(flatten)]
    pub attestation: Attestation,
    #[serde(with = "super::hex_signature")]
    pub signature: skep_base::ed25519::Signature,
}

/// What a claimed score rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Evidence(pub Vec<SignedAttestation>);

impl Evidence {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// 2. The parts of a composite score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub agent_id: Did,
    pub proof_of_compute: Share,
    pub reputation: Share,
    pub uptime: Share,
    #[serde(default, deserialize_with = "or_none")]
    pub stake: Share,
}

/// 2. `election.candidacy`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidacy {
    pub agent_id: Did,
    pub epoch: u64,
    pub score: Score,
    pub location_vector: Location,
    #[serde(default, skip_serializing_if = "Evidence::is_empty")]
    pub evidence: Evidence,
    /// Scores that issuers have published, as evidence of reputation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// Candidates that one ballot ranks: as many as can stand.
pub const RANKINGS_MAX: usize = 100;
/// Agents that one voter tells of: those that it was drawn for, newcomers included.
pub const OBSERVED_MAX: usize = 256;

/// 3. `election.vote`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElectionVote {
    pub voter: Did,
    pub epoch: u64,
    #[serde(deserialize_with = "at_most::list::<_, _, RANKINGS_MAX>")]
    pub candidate_rankings: Vec<Did>,
    /// What the voter has observed of those whom the beacon drew for it (decision 44a).
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "at_most::map::<_, _, _, OBSERVED_MAX>"
    )]
    pub observed: BTreeMap<Did, Observed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location_vector: Option<Location>,
}

/// What one member has seen of another in the epoch that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The share of the epoch in which it was heard.
    pub uptime: Share,
    /// How it did in the timed challenge.
    pub proof_of_compute: Share,
}

/// A place in the hierarchy: 1 is the top.
///
/// Written `{"TierN": 2}`; `"Tier2"` is read, too. `"Executor"` is not: it says no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(pub u32);

impl Serialize for Tier {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("TierN", &self.0)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Tier {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Tier, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number {
                #[serde(rename = "TierN")]
                tier: u32,
            },
            Name(String),
        }
        let tier = match Written::deserialize(deserializer)? {
            Written::Number { tier } => Some(tier),
            Written::Name(name) => name
                .strip_prefix("Tier")
                .filter(|tier| tier.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|tier| tier.parse().ok()),
        };
        let message = "a tier is {\"TierN\": number from 1}";
        tier.filter(|tier| *tier > 0).map(Tier).ok_or_else(|| serde::de::Error::custom(message))
    }
}

/// 4. `hierarchy.assign_tier`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignTier {
    pub assigned_agent: Did,
    pub tier: Tier,
    pub parent_id: Did,
    pub epoch: u64,
    pub branch_size: u64,
}

/// How many echoes one keepalive carries: whoever has more neighbours takes turns.
pub const ECHOES_MAX: usize = 3;

/// "I heard your keepalive of this time, and kept it for so long." Whoever sent that one knows its
/// round trip by its own clock alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    pub agent_id: Did,
    /// As it was in the keepalive that is echoed.
    pub timestamp: Timestamp,
    pub held_ms: u64,
}

/// An answer to the timed challenge of an epoch (decision 44a): SHA-256 of the epoch's beacon, the
/// agent's DID and the nonce begins with enough zero bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computed {
    pub epoch: u64,
    pub nonce: u64,
}

/// 12. `swarm.keepalive`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keepalive {
    pub agent_id: Did,
    pub epoch: u64,
    pub timestamp: Timestamp,
    /// The newest election that this node knows to be final: whoever knows a newer one sends it.
    #[serde(default)]
    pub elected: u64,
    /// Tasks that it works on, for whoever assigns work.
    #[serde(default)]
    pub active_tasks: u32,
    /// Where it is in the network by now, and how far its distances are off, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location_vector: Option<Location>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub location_error: Share,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub echoes: Vec<Echo>,
    /// What it has found for the challenge of the newest election that it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<Computed>,
}

impl Keepalive {
    /// A sign of life that says nothing else.
    pub fn new(agent_id: Did, epoch: u64, timestamp: Timestamp) -> Keepalive {
        Keepalive {
            agent_id,
            epoch,
            timestamp,
            elected: 0,
            active_tasks: 0,
            location_vector: None,
            location_error: Share::ZERO,
            echoes: Vec::new(),
            computed: None,
        }
    }
}

/// 13. `hierarchy.succession`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    pub failed_leader: Did,
    pub new_leader: Did,
    pub epoch: u64,
    pub branch_agents: Vec<Did>,
}
