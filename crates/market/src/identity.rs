//! An agent's keys as a machine: registered, rotated, revoked, recovered.
//!
//! Signatures are checked before; an input carries the keys that signed it, and the machine
//! decides whether they are the right ones now.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Asset, Did, Timestamp, ed25519::PublicKey};
use skep_store::{JobEnd, RecordKey};
use skep_wire::identity::{Agent, AgentKey, PendingRecovery};

#[cfg(test)]
mod tests;

/// No money leaves for so long after a key changed: time to notice a thief.
pub const ROTATION_FREEZE: Duration = Duration::from_secs(24 * 3600);
/// How long a recovery waits for the wallet or the old key to object.
pub const RECOVERY_DELAY: Duration = Duration::from_secs(72 * 3600);
/// How many keys an agent may have had: its chain stays short enough to follow.
pub const KEYS_MAX: usize = 1000;
/// 9.7: how long an operator can be made to answer for what an agent did before it left.
pub const LEFT_ANSWERS: Duration = Duration::from_secs(90 * 24 * 3600);
/// Operators that an agent may leave in that time: none of them is forgotten before.
pub const LEFT_MAX: usize = 8;

/// Where an agent's record is.
pub(crate) fn agent_key(agent: &AgentId) -> RecordKey {
    RecordKey::own("agent", agent)
}

/// An agent as it is stored: what everybody may see, and what only the node needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    pub agent: Agent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// The timer of a recovery that waits: its route and id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_timer: Option<(String, skep_base::id::JobId)>,
    /// What it will owe as a requester when its deals are released (decision 9).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open_remainders: BTreeMap<Asset, Amount>,
    /// What it would owe as a provider if its deals were refunded (decision 9).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open_advances: BTreeMap<Asset, Amount>,
    /// What the platform has fronted in its deals as a requester, and gets back (decision 11).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open_subsidies: BTreeMap<Asset, Amount>,
    /// The operators that it has left of late, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftOperator>,
    /// The operator that answers for its revocation, which need not be the one that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_under: Option<Did>,
}

/// An operator that an agent has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOperator {
    pub operator: Did,
    pub left_at: Timestamp,
}

impl LeftOperator {
    fn answers_until(&self) -> Timestamp {
        self.left_at.plus(LEFT_ANSWERS)
    }
}

impl AgentRecord {
    /// The operator that answers for what it did at a time: the one that it had then, or the first
    /// after that one that can be made to answer by now.
    pub(crate) fn operator_at(&self, at: Timestamp, now: Timestamp) -> Did {
        let then = self.left_lately(now).into_iter().find(|left| at < left.left_at);
        then.map_or(self.agent.operator, |left| left.operator)
    }

    /// The operators that it has left and that can be made to answer, oldest first.
    pub(crate) fn left_lately(&self, now: Timestamp) -> Vec<LeftOperator> {
        self.left.iter().filter(|left| now < left.answers_until()).cloned().collect()
    }

    /// Remembers the operator that it leaves. Where no room is left it stays: whoever were
    /// forgotten would get away with what the agent did there.
    fn leave(&mut self, now: Timestamp) -> Result<(), KeyRefusal> {
        let mut left = self.left_lately(now);
        if let Some(oldest) = left.first().filter(|_| left.len() >= LEFT_MAX) {
            return Err(KeyRefusal::TooManyOperators { until: oldest.answers_until() });
        }
        left.push(LeftOperator { operator: self.agent.operator, left_at: now });
        self.left = left;
        Ok(())
    }

    /// Whether the platform has fronted a part of its deals under way.
    pub(crate) fn is_fronted(&self, asset: Asset) -> bool {
        self.open_subsidies.contains_key(&asset)
    }

    /// All that it can come to owe by its deals under way.
    pub(crate) fn may_owe(&self, asset: Asset) -> Amount {
        let open = [&self.open_remainders, &self.open_advances, &self.open_subsidies];
        let open = open.into_iter().filter_map(|open| open.get(&asset));
        open.fold(Amount::ZERO, |sum, open| sum.checked_add(*open).unwrap_or(Amount::MAX))
    }

    /// What stays in its wallet for its deals under way (decision 9). Where the platform has
    /// fronted something that is all that it can owe: else another debt could take what the
    /// platform gets back.
    pub(crate) fn promised(&self, asset: Asset) -> Amount {
        match self.is_fronted(asset) {
            true => self.may_owe(asset),
            false => self.open_remainders.get(&asset).copied().unwrap_or_default(),
        }
    }

    /// The key that may sign now.
    pub fn current_key(&self) -> Option<&PublicKey> {
        self.agent.current_key.as_ref()
    }

    pub(crate) fn recovery_key(&self) -> Option<&PublicKey> {
        self.agent.registration.binding.recovery_key.as_ref()
    }

    pub(crate) fn timer_end(&self) -> Option<JobEnd> {
        let (route, id) = self.recovery_timer.as_ref()?;
        Some(JobEnd { route: skep_store::RouteKey::of(route), id: *id })
    }
}

/// Who signed a statement, each signature already checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedBy {
    pub wallet: bool,
    /// The Ed25519 key that signed as the agent's.
    pub key: Option<PublicKey>,
    /// The key that signed as the recovery key.
    pub recovery: Option<PublicKey>,
}

/// What can happen to an agent's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "made once for a change of keys, and never kept")]
pub enum KeyInput {
    /// Wallet, old key and new key agree.
    Rotate {
        old_key: PublicKey,
        new_key: PublicKey,
        proof: serde_json::Value,
    },
    /// The recovery key brings in a new one, after a delay.
    Recover {
        old_key: PublicKey,
        new_key: PublicKey,
        by: SignedBy,
        proof: serde_json::Value,
    },
    /// The delay is over.
    FinishRecovery {
        new_key: PublicKey,
        proof: serde_json::Value,
    },
    CancelRecovery {
        new_key: PublicKey,
        by: SignedBy,
    },
    Revoke {
        key: PublicKey,
        by: SignedBy,
        compromised_since: Option<Timestamp>,
    },
    Attach {
        key: PublicKey,
        operator: Did,
    },
}

/// What has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Nobody else may have this key.
    ClaimKey(PublicKey),
    /// Come back at this time.
    StartTimer {
        at: Timestamp,
        new_key: PublicKey,
        proof: serde_json::Value,
    },
    StopTimer,
    /// Tell the log.
    Record(&'static str),
}

/// Why a change of keys is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum KeyRefusal {
    #[error("the statement replaces a key that is not the agent's current one")]
    OldKeyNotCurrent,
    #[error("the agent's key is revoked: only a recovery can bring in a new one")]
    KeyRevoked,
    #[error("the agent registered no recovery key")]
    NoRecoveryKey,
    #[error("the recovery key that signed is not the one that was registered")]
    NotTheRecoveryKey,
    #[error("a recovery is waiting already; cancel it first")]
    RecoveryWaiting,
    #[error("no such recovery is waiting")]
    NoRecoveryWaiting,
    #[error("the recovery takes effect at {effective_at}, not before")]
    RecoveryTooEarly { effective_at: Timestamp },
    #[error("neither the wallet nor the agent's current key signed")]
    NotSignedByOwner,
    #[error("the agent never had this key")]
    UnknownKey,
    #[error("this key is revoked already")]
    AlreadyRevoked,
    #[error("this key was used before; make a fresh one")]
    KeyUsedBefore,
    #[error("compromised_since lies in the future")]
    CompromisedInFuture,
    #[error("the agent has had {KEYS_MAX} keys; register a new agent")]
    TooManyKeys,
    #[error("the agent's operator answers for fraud until {until}, and nobody leaves it before")]
    OperatorInCooldown { until: Timestamp },
    #[error("the agent got another operator at this very moment; try again")]
    OperatorChanged,
    #[error("the agent has left {LEFT_MAX} operators in 90 days, and leaves none before {until}")]
    TooManyOperators { until: Timestamp },
}

/// The keys after an input, and what has to follow.
type Stepped = Result<(AgentRecord, Vec<KeyEffect>), KeyRefusal>;

/// Advances an agent's keys by one input. Decisions 1, 2 and 2a of the spec notes.
pub fn step(record: AgentRecord, now: Timestamp, input: KeyInput) -> Stepped {
    match input {
        KeyInput::Rotate { old_key, new_key, proof } => {
            rotate(record, now, &old_key, new_key, proof)
        }
        KeyInput::Recover { old_key, new_key, by, proof } => {
            recover(record, now, &old_key, new_key, &by, proof)
        }
        KeyInput::FinishRecovery { new_key, proof } => finish_recovery(record, now, new_key, proof),
        KeyInput::CancelRecovery { new_key, by } => cancel_recovery(record, &new_key, &by),
        KeyInput::Revoke { key, by, compromised_since } => {
            revoke(record, now, &key, &by, compromised_since)
        }
        KeyInput::Attach { key, operator } => attach(record, now, &key, operator),
    }
}

fn rotate(
    mut record: AgentRecord,
    now: Timestamp,
    old_key: &PublicKey,
    new_key: PublicKey,
    proof: serde_json::Value,
) -> Stepped {
    let current = record.current_key().ok_or(KeyRefusal::KeyRevoked)?;
    if current != old_key {
        return Err(KeyRefusal::OldKeyNotCurrent);
    }
    check_fresh(&record, &new_key)?;
    // The owner is here with both keys: whatever recovery was waiting is off.
    let mut effects = stop_recovery(&mut record);
    effects.push(KeyEffect::ClaimKey(new_key));
    replace_key(&mut record, now, new_key, proof);
    effects.push(KeyEffect::Record("agent.key_rotated"));
    Ok((record, effects))
}

fn recover(
    mut record: AgentRecord,
    now: Timestamp,
    old_key: &PublicKey,
    new_key: PublicKey,
    by: &SignedBy,
    proof: serde_json::Value,
) -> Stepped {
    let registered = record.recovery_key().ok_or(KeyRefusal::NoRecoveryKey)?;
    if by.recovery.as_ref() != Some(registered) {
        return Err(KeyRefusal::NotTheRecoveryKey);
    }
    if record.agent.pending_recovery.is_some() {
        return Err(KeyRefusal::RecoveryWaiting);
    }
    if record.agent.keys.last().map(|k| &k.public_key) != Some(old_key) {
        return Err(KeyRefusal::OldKeyNotCurrent);
    }
    check_fresh(&record, &new_key)?;
    let at = now.plus(RECOVERY_DELAY);
    record.agent.pending_recovery = Some(PendingRecovery { new_key, effective_at: at });
    let timer = KeyEffect::StartTimer { at, new_key, proof };
    Ok((record, vec![timer, KeyEffect::Record("agent.recovery_started")]))
}

fn finish_recovery(
    mut record: AgentRecord,
    now: Timestamp,
    new_key: PublicKey,
    proof: serde_json::Value,
) -> Stepped {
    let waiting = waiting_recovery(&record, &new_key)?;
    if now < waiting.effective_at {
        let effective_at = waiting.effective_at;
        return Err(KeyRefusal::RecoveryTooEarly { effective_at });
    }
    check_fresh(&record, &new_key)?;
    let mut effects = stop_recovery(&mut record);
    effects.push(KeyEffect::ClaimKey(new_key));
    replace_key(&mut record, now, new_key, proof);
    effects.push(KeyEffect::Record("agent.key_recovered"));
    Ok((record, effects))
}

fn cancel_recovery(mut record: AgentRecord, new_key: &PublicKey, by: &SignedBy) -> Stepped {
    waiting_recovery(&record, new_key)?;
    if !signed_by_owner(&record, by) {
        return Err(KeyRefusal::NotSignedByOwner);
    }
    let mut effects = stop_recovery(&mut record);
    effects.push(KeyEffect::Record("agent.recovery_cancelled"));
    Ok((record, effects))
}

fn revoke(
    mut record: AgentRecord,
    now: Timestamp,
    key: &PublicKey,
    by: &SignedBy,
    compromised_since: Option<Timestamp>,
) -> Stepped {
    let by_itself = by.key.as_ref() == Some(key);
    let by_recovery = by.recovery.is_some() && by.recovery.as_ref() == record.recovery_key();
    let by_others = by.wallet || by_recovery;
    if !by_others && !by_itself {
        return Err(KeyRefusal::NotSignedByOwner);
    }
    if compromised_since.is_some_and(|since| since > now) {
        return Err(KeyRefusal::CompromisedInFuture);
    }
    let listed = record.agent.keys.iter_mut().find(|k| k.public_key == *key);
    let listed = listed.ok_or(KeyRefusal::UnknownKey)?;
    // A second revocation can only send more to review, and a revoked key has no say in that.
    if let Some(revoked_at) = listed.revoked_at {
        let known = listed.compromised_since.unwrap_or(revoked_at);
        if !by_others || compromised_since.is_none_or(|since| since >= known) {
            return Err(KeyRefusal::AlreadyRevoked);
        }
    }
    listed.revoked_at = listed.revoked_at.or(Some(now));
    listed.compromised_since = compromised_since;
    if record.current_key() == Some(key) {
        record.agent.current_key = None;
    }
    Ok((record, vec![KeyEffect::Record("agent.key_revoked")]))
}

fn attach(mut record: AgentRecord, now: Timestamp, key: &PublicKey, operator: Did) -> Stepped {
    if record.current_key() != Some(key) {
        return Err(KeyRefusal::NotSignedByOwner);
    }
    if record.agent.operator != operator {
        record.leave(now)?;
    }
    record.agent.operator = operator;
    Ok((record, vec![KeyEffect::Record("agent.operator_attached")]))
}

fn check_fresh(record: &AgentRecord, new_key: &PublicKey) -> Result<(), KeyRefusal> {
    let known = record.agent.keys.iter().any(|k| k.public_key == *new_key);
    if known || record.recovery_key() == Some(new_key) {
        return Err(KeyRefusal::KeyUsedBefore);
    }
    if record.agent.keys.len() >= KEYS_MAX {
        return Err(KeyRefusal::TooManyKeys);
    }
    Ok(())
}

fn waiting_recovery<'a>(
    record: &'a AgentRecord,
    new_key: &PublicKey,
) -> Result<&'a PendingRecovery, KeyRefusal> {
    let waiting = record.agent.pending_recovery.as_ref();
    waiting.filter(|w| w.new_key == *new_key).ok_or(KeyRefusal::NoRecoveryWaiting)
}

fn signed_by_owner(record: &AgentRecord, by: &SignedBy) -> bool {
    by.wallet || (by.key.is_some() && by.key.as_ref() == record.current_key())
}

fn stop_recovery(record: &mut AgentRecord) -> Vec<KeyEffect> {
    match record.agent.pending_recovery.take() {
        Some(_) => vec![KeyEffect::StopTimer],
        None => Vec::new(),
    }
}

fn replace_key(
    record: &mut AgentRecord,
    now: Timestamp,
    new_key: PublicKey,
    proof: serde_json::Value,
) {
    if let Some(old) = record.agent.keys.last_mut() {
        old.revoked_at = old.revoked_at.or(Some(now));
    }
    record.agent.current_key = Some(new_key);
    record.agent.money_frozen_until = Some(now.plus(ROTATION_FREEZE));
    record.agent.keys.push(AgentKey {
        public_key: new_key,
        since: now,
        revoked_at: None,
        compromised_since: None,
        proof,
    });
}
