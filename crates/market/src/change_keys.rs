//! Rotation, recovery, revocation and attachment: every change of an agent's keys.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Hash32, Timestamp, ed25519::PublicKey, hash::sha256_parts};
use skep_store::{Guard, Job, JobDraft, JobEnd, Kept, Load, Lock, RouteKey, Turn};
use skep_wire::identity::{Agent, KeyChange, Statement};

use crate::{
    Answered, Failure, Market, Refusal,
    answer::{NONCE_KEPT_EXTRA, Stop},
    identity::{AgentRecord, KeyEffect, KeyInput, KeyRefusal, SignedBy, agent_key, step},
    notice,
    register::{NAME_KEY, STATEMENT_AGE_MAX, bad_signature, check_fresh},
    score::{OperatorScore, Whose, operator_score_key, rank_now},
};

/// The job that ends a recovery's delay.
pub(crate) const RECOVERY_JOB: &str = "recovery";

#[derive(Debug, Serialize, Deserialize)]
struct RecoveryJob {
    agent_id: AgentId,
    new_key: PublicKey,
    proof: serde_json::Value,
}

impl Market {
    /// Carries out a signed change of keys. A statement is carried out once (decision 5): sent
    /// again it changes nothing, whatever has happened since.
    pub async fn change_keys(
        &self,
        agent: &AgentId,
        change: KeyChange,
    ) -> Result<Answered<Agent>, Failure> {
        let (named, issued_at, words) = subject(&change)?;
        if named != *agent {
            let what = format!("the statement is about {named}, not about {agent}");
            return Err(Refusal::BadStatement { what }.into());
        }
        let known = self.agent_record(agent).await?;
        let input = self.check_change(&known, change).await?;
        let once = Guard {
            scope: format!("statement:{agent}"),
            key: words.to_string(),
            fingerprint: words,
            kept: Kept::Until(issued_at.plus(STATEMENT_AGE_MAX).plus(NONCE_KEPT_EXTRA)),
        };
        self.apply(*agent, Some((issued_at, once)), input, None).await
    }

    /// Ends the delay of a recovery, by its timer.
    pub(crate) async fn finish_recovery(&self, job: &Job) -> Result<(), Failure> {
        let parsed: Result<RecoveryJob, _> = serde_json::from_str(&job.body);
        let Ok(RecoveryJob { agent_id, new_key, proof }) = parsed else {
            let what = format!("job {} is unreadable", job.id);
            return Err(Refusal::BadStatement { what }.into());
        };
        let input = KeyInput::FinishRecovery { new_key, proof };
        self.apply(agent_id, None, input, Some(job.clone())).await.map(|_| ())
    }

    /// A refusal leaves the statement unused: it may have come from anybody.
    async fn apply(
        &self,
        agent: AgentId,
        said: Option<(Timestamp, Guard)>,
        input: KeyInput,
        job: Option<Job>,
    ) -> Result<Answered<Agent>, Failure> {
        let record_key = agent_key(&agent);
        let mut load =
            Load { records: vec![(record_key.clone(), Lock::Exclusive)], ..Load::default() };
        if let Some(new_key) = brought_in(&input) {
            load.names.push((NAME_KEY, new_key.to_string()));
        }
        let mut leaves = None;
        if matches!(input, KeyInput::Attach { .. }) {
            let operator = self.agent_record(&agent).await?.agent.operator;
            load.records.push((operator_score_key(&operator), Lock::None));
            leaves = Some(operator);
        }
        let (issued_at, once) = said.unzip();
        let outside = self.outside();
        self.run(load, once.into_iter().collect(), move |turn| {
            if let Some(issued_at) = issued_at {
                check_fresh(outside(turn.now()), issued_at).map_err(Stop::Unheard)?;
            }
            let unknown = Refusal::UnknownAgent { agent: agent.to_string() };
            let record: AgentRecord = turn.record(&record_key)?.ok_or(Stop::Unheard(unknown))?;
            if let Some(job) = &job {
                turn.end_job(JobEnd { route: job.route.clone(), id: job.id });
            }
            if let Some(operator) = &leaves {
                check_leaving(turn, &record, operator)?;
                // Its listings stand as its new operator does.
                rank_now(turn, &Whose::Agent(agent))?;
            }
            let timer = record.timer_end();
            let (mut record, effects) = step(record, turn.now(), input.clone())
                .map_err(|reason| Stop::Unheard(reason.into()))?;
            for effect in effects {
                follow(turn, &mut record, timer.as_ref(), effect)?;
            }
            turn.put(&record_key, &record)?;
            Ok(record.agent)
        })
        .await
    }

    /// Checks every signature of a change and says who signed.
    async fn check_change(
        &self,
        known: &AgentRecord,
        change: KeyChange,
    ) -> Result<KeyInput, Failure> {
        let proof = serde_json::to_value(&change).unwrap_or_default();
        Ok(match change {
            KeyChange::Rotate {
                statement,
                wallet_signature,
                old_key_signature,
                new_key_signature,
            } => {
                if statement.wallet_signer(&wallet_signature) != Some(statement.agent_id) {
                    return Err(bad_signature("wallet", "rotation").into());
                }
                verify(&statement, &statement.old_key, &old_key_signature, "old key")?;
                verify(&statement, &statement.new_key, &new_key_signature, "new key")?;
                let (old_key, new_key) = (statement.old_key, statement.new_key);
                KeyInput::Rotate { old_key, new_key, proof }
            }
            KeyChange::Recover { statement, recovery_signature, new_key_signature } => {
                let recovery = known.recovery_key().copied();
                if let Some(key) = &recovery {
                    verify(&statement, key, &recovery_signature, "recovery key")?;
                }
                verify(&statement, &statement.new_key, &new_key_signature, "new key")?;
                let by = SignedBy { recovery, ..SignedBy::default() };
                let (old_key, new_key) = (statement.old_key, statement.new_key);
                KeyInput::Recover { old_key, new_key, by, proof }
            }
            KeyChange::CancelRecovery { statement, wallet_signature, key_signature } => {
                let wallet = wallet_signed(&statement, statement.agent_id, wallet_signature)?;
                let key = key_signed(&statement, known.current_key(), key_signature)?;
                let by = SignedBy { wallet, key, recovery: None };
                KeyInput::CancelRecovery { new_key: statement.new_key, by }
            }
            KeyChange::Revoke {
                statement,
                wallet_signature,
                key_signature,
                recovery_signature,
            } => {
                let wallet = wallet_signed(&statement, statement.agent_id, wallet_signature)?;
                let key = key_signed(&statement, Some(&statement.key), key_signature)?;
                let recovery = key_signed(&statement, known.recovery_key(), recovery_signature)?;
                let by = SignedBy { wallet, key, recovery };
                let compromised_since = statement.compromised_since;
                KeyInput::Revoke { key: statement.key, by, compromised_since }
            }
            KeyChange::Attach { statement, key_signature, operator_signature } => {
                let current = *known.current_key().ok_or(Refusal::KeyNotCurrent)?;
                verify(&statement, &current, &key_signature, "agent's key")?;
                let operator_key = self.operator_public_key(&statement.operator).await?;
                verify(&statement, &operator_key, &operator_signature, "operator")?;
                KeyInput::Attach { key: current, operator: statement.operator }
            }
        })
    }
}

/// 9.7: nobody leaves an operator that is in its cool-down, not even oneself.
fn check_leaving(turn: &Turn, record: &AgentRecord, operator: &Did) -> Result<(), Stop> {
    let unheard = |reason: KeyRefusal| Err(Stop::Unheard(reason.into()));
    if record.agent.operator != *operator {
        return unheard(KeyRefusal::OperatorChanged);
    }
    let known: Option<OperatorScore> = turn.record(&operator_score_key(operator))?;
    match known.and_then(|known| known.cooldown(turn.now())) {
        Some(until) => unheard(KeyRefusal::OperatorInCooldown { until }),
        None => Ok(()),
    }
}

/// Whom a change is about, when it was said, and the hash of what was said.
fn subject(change: &KeyChange) -> Result<(AgentId, Timestamp, Hash32), Refusal> {
    match change {
        KeyChange::Rotate { statement: s, .. } => {
            Ok((s.agent_id, s.issued_at, words("rotate", s)?))
        }
        KeyChange::Recover { statement: s, .. } => {
            Ok((s.agent_id, s.issued_at, words("recover", s)?))
        }
        KeyChange::CancelRecovery { statement: s, .. } => {
            Ok((s.agent_id, s.issued_at, words("cancel", s)?))
        }
        KeyChange::Revoke { statement: s, .. } => {
            Ok((s.agent_id, s.issued_at, words("revoke", s)?))
        }
        KeyChange::Attach { statement: s, .. } => {
            Ok((s.agent_id, s.issued_at, words("attach", s)?))
        }
    }
}

/// The signatures are left out: whoever drops one of two says nothing new.
fn words<S: Statement>(action: &str, statement: &S) -> Result<Hash32, Refusal> {
    let bytes = statement.signed_bytes().map_err(|error| {
        let what = format!("the statement has no canonical form: {error}");
        Refusal::BadStatement { what }
    })?;
    Ok(sha256_parts(&[action.as_bytes(), &bytes]))
}

fn brought_in(input: &KeyInput) -> Option<&PublicKey> {
    match input {
        KeyInput::Rotate { new_key, .. }
        | KeyInput::Recover { new_key, .. }
        | KeyInput::FinishRecovery { new_key, .. } => Some(new_key),
        KeyInput::CancelRecovery { .. } | KeyInput::Revoke { .. } | KeyInput::Attach { .. } => None,
    }
}

fn verify<S: Statement>(
    statement: &S,
    key: &PublicKey,
    signature: &skep_base::ed25519::Signature,
    signer: &str,
) -> Result<(), Refusal> {
    statement.verify(key, signature).map_err(|_| bad_signature(signer, S::TYPE))
}

/// A signature that is given must hold; one that is absent proves nothing.
fn wallet_signed<S: Statement>(
    statement: &S,
    agent: AgentId,
    signature: Option<skep_base::wallet::WalletSignature>,
) -> Result<bool, Refusal> {
    match signature {
        None => Ok(false),
        Some(s) if statement.wallet_signer(&s) == Some(agent) => Ok(true),
        Some(_) => Err(bad_signature("wallet", S::TYPE)),
    }
}

fn key_signed<S: Statement>(
    statement: &S,
    key: Option<&PublicKey>,
    signature: Option<skep_base::ed25519::Signature>,
) -> Result<Option<PublicKey>, Refusal> {
    let Some(signature) = signature else { return Ok(None) };
    let Some(key) = key else { return Err(bad_signature("key", S::TYPE)) };
    verify(statement, key, &signature, "key")?;
    Ok(Some(*key))
}

/// Does what a step asks for.
fn follow(
    turn: &mut Turn,
    record: &mut AgentRecord,
    timer: Option<&JobEnd>,
    effect: KeyEffect,
) -> Result<(), Stop> {
    let agent = record.agent.agent_id;
    match effect {
        KeyEffect::ClaimKey(key) => {
            not_taken(turn, &key)?;
            turn.claim_name(NAME_KEY, &key.to_string(), agent);
        }
        KeyEffect::StopTimer => {
            record.recovery_timer = None;
            timer.cloned().into_iter().for_each(|end| turn.end_job(end));
        }
        KeyEffect::StartTimer { at, new_key, proof } => {
            // Said now rather than when the delay is over.
            not_taken(turn, &new_key)?;
            let body = RecoveryJob { agent_id: agent, new_key, proof };
            record.recovery_timer = Some(start_timer(turn, at, &body)?);
        }
        KeyEffect::Record(kind) => {
            let route = RouteKey::of(agent);
            let event = turn.event(&route, kind, &record.agent, &[agent])?;
            notice::tell(turn, event, kind, &route, &[&*record], &record.agent)?;
        }
    }
    Ok(())
}

fn not_taken(turn: &Turn, key: &PublicKey) -> Result<(), Stop> {
    match turn.name_owner(NAME_KEY, &key.to_string())? {
        Some(_) => Err(Stop::Unheard(Refusal::KeyTaken)),
        None => Ok(()),
    }
}

fn start_timer(
    turn: &mut Turn,
    at: Timestamp,
    body: &RecoveryJob,
) -> Result<(String, skep_base::id::JobId), Stop> {
    let body_json = serde_json::to_string(body)
        .map_err(|e| skep_store::Bug(format!("a timer is not JSON: {e}")))?;
    let route = body.agent_id.to_string();
    let id = turn.job(JobDraft {
        route: RouteKey::of(&route),
        kind: RECOVERY_JOB,
        destination: String::new(),
        due_at: at,
        body: body_json,
    });
    Ok((route, id))
}
