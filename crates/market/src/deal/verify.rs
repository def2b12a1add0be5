//! 3.5 and 3.6: a verifier is asked, begins, and says what it found.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Timestamp, ed25519::PublicKey, id::VerificationId};
use skep_settle::{
    deal::{self, Attempt, Input, ProofRef, Verdict},
    proof::{self, Expected, Fault},
    verification::{self, SENT_WITHIN},
};
use skep_store::{Lock, StoredRecord, Turn};
use skep_wire::settle::{
    AGENT_KID, Attachment, CallbackTaken, DOCUMENT_LEN_MAX, DealAnswer, Outcome, ProofBundle,
    TEXT_LEN_MAX, VerificationCallback, VerificationStatus, Verifier, engine,
};

use super::{
    DealRecord, DealRefusal, attachments, deal_key,
    deliver::answer_of,
    loaded, proof_key,
    verifiers::{check_independent, verifier_key},
};
use crate::{
    AgentRecord, Answered, Failure, Market, Refusal, Signed, answer::Stop, identity::agent_key,
    read::next,
};

/// How far a verifier's clock may be from ours.
const CLOCK_DIFFERENCE: std::time::Duration = std::time::Duration::from_secs(300);
/// The longest id of a key.
const KID_LEN_MAX: usize = 64;
/// Late callbacks that are kept for a reviewer.
const LATE_MAX: u8 = 8;

/// What the transaction made of a callback.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    taken: CallbackTaken,
    /// It came after the time-out: kept for the reviewer, and nothing else.
    late: Option<Timestamp>,
}

/// A callback with whoever signed it, ready for the transaction.
#[derive(Clone, Debug)]
struct Prepared {
    id: VerificationId,
    signer: AgentId,
    kid: String,
    /// The key as it was when the proof was checked.
    key: PublicKey,
    verdict: Verdict,
    substitute: Option<AgentId>,
    completed_at: Timestamp,
    raw: Value,
}

impl Market {
    /// The verifier has begun.
    pub async fn acknowledge(
        &self,
        signed: &Signed,
        id: VerificationId,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let known = self.deal_record(&id.deal()).await?;
        let (load, market, by) = (self.load_talk(&known.deal), self.clone(), signed.agent);
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id.deal())?;
            let input = Input::Acknowledge { attempt: id.attempt(), by };
            Ok(answer_of(&market.advance(turn, record, input)?))
        })
        .await
    }

    /// The verdict of an engine or of the requester. Its proof is its authentication.
    pub async fn callback(
        &self,
        id: VerificationId,
        message: VerificationCallback,
        raw: Value,
    ) -> Result<CallbackTaken, Failure> {
        self.take_callback(id, message, raw, false).await
    }

    /// The verdict of a reviewer (7.3).
    pub async fn review_decide(
        &self,
        id: VerificationId,
        message: VerificationCallback,
        raw: Value,
    ) -> Result<CallbackTaken, Failure> {
        self.take_callback(id, message, raw, true).await
    }

    async fn take_callback(
        &self,
        id: VerificationId,
        message: VerificationCallback,
        raw: Value,
        by_reviewer: bool,
    ) -> Result<CallbackTaken, Failure> {
        let (version, kind) = (&message.vcap_version, &message.message_type);
        skep_settle::offer::check_header(version, kind, "verification_callback")
            .map_err(DealRefusal::from)?;
        let foreign = |field: &str| Fault::ForeignBundle { field: field.to_owned() };
        check_lengths(&message)?;
        if message.verification_id != id {
            return Err(DealRefusal::from(foreign("verification_id")).into());
        }
        let said = message.proof_bundle.as_ref().and_then(named_verifier);
        let mut keys = vec![deal_key(&id.deal())];
        keys.extend(said.iter().flat_map(|signer| [agent_key(signer), verifier_key(signer)]));
        let mut records = self.read_all(keys).await?;
        let known: Option<DealRecord> = next(&mut records)?;
        let known = known.ok_or(DealRefusal::UnknownDeal { deal: id.deal() })?;
        let attempt = known.deal.attempt(id.attempt());
        let attempt = attempt.ok_or(DealRefusal::from(deal::Refusal::UnknownAttempt))?;
        if let Some(taken) = duplicate(&known, attempt, &message) {
            return Ok(taken);
        }
        let signer = match said {
            Some(agent) => Some(Signer::read(agent, &mut records)?),
            None => None,
        };
        if (attempt.spec.kind == engine::HUMAN) != by_reviewer {
            return Err(DealRefusal::ReviewersOnly.into());
        }
        let prepared = self.prepare(&known, attempt, &message, raw, signer).await?;
        let Written { taken, late } = self.write_callback(&known, message, prepared).await?;
        match late {
            None => Ok(taken),
            Some(deadline) => {
                let reason = verification::Refusal::TooLate { deadline };
                Err(DealRefusal::from(deal::Refusal::Verification { reason }).into())
            }
        }
    }

    /// Checks the whole proof, outside any transaction.
    async fn prepare(
        &self,
        known: &DealRecord,
        attempt: &Attempt,
        message: &VerificationCallback,
        raw: Value,
        signer: Option<Signer>,
    ) -> Result<Prepared, Failure> {
        let deal = &known.deal;
        let id = deal.id.verification(attempt.number);
        let signer = match signer {
            Some(signer) => signer,
            None => self.signer(attempt).await?,
        };
        let agent = signer.agent;
        if attempt.verifier.is_some_and(|asked| asked != agent) {
            return Err(DealRefusal::from(deal::Refusal::NotTheVerifier).into());
        }
        let record = signer.record()?;
        let said = message.proof_bundle.as_ref().and_then(|b| b.get("verifier"));
        let kid = said.and_then(|v| v.get("kid")).and_then(Value::as_str);
        let kid = kid.or(message.kid.as_deref()).unwrap_or_default().to_owned();
        let (key, bundle_less) = signer.key(attempt, &kid)?;
        let expected = Expected {
            verification: id,
            deal: deal.id,
            terms_hash: deal.terms_hash,
            spec: &attempt.spec,
            verifier: agent,
            key: &key,
            kid: &kid,
            agent_key: record.current_key(),
        };
        let bundle = match &message.proof_bundle {
            Some(bundle) => Some(bundle.clone()),
            None => self.fetched(message, &expected, attempt).await?,
        };
        let read = match &bundle {
            Some(bundle) => {
                Some(proof::check(message, bundle, &expected).map_err(DealRefusal::from)?)
            }
            None if bundle_less => {
                proof::check_bundle_less(message, &expected).map_err(DealRefusal::from)?;
                None
            }
            None => return Err(DealRefusal::from(Fault::NoBundle).into()),
        };
        let verdict = verdict(known, attempt, message, read.as_ref(), (agent, &kid))?;
        let substitute = match verdict.outcome {
            Outcome::Error => self.verifier_for(known, &[]).await?,
            _ => None,
        };
        let completed_at = message.completed_at;
        let mut raw = attachments::without_data(raw);
        // Whoever checks this later need not find it where it was.
        if let (None, Some(bundle)) = (&message.proof_bundle, bundle)
            && let Some(said) = raw.as_object_mut()
        {
            said.insert("proof_bundle".to_owned(), bundle);
        }
        Ok(Prepared { id, signer: agent, kid, key, verdict, substitute, completed_at, raw })
    }

    /// The bundle that the callback points to. Fetched only for the verifier that was asked, whose
    /// signature holds: strangers send this node nowhere.
    async fn fetched(
        &self,
        message: &VerificationCallback,
        expected: &Expected<'_>,
        attempt: &Attempt,
    ) -> Result<Option<Value>, Failure> {
        let Some(uri) = &message.proof_bundle_uri else { return Ok(None) };
        proof::check_bundle_less(message, expected).map_err(DealRefusal::from)?;
        let open =
            matches!(attempt.status, VerificationStatus::Pending | VerificationStatus::Running);
        if attempt.verifier.is_none() || !open {
            let reason = verification::Refusal::Over { status: attempt.status };
            return Err(DealRefusal::from(deal::Refusal::Verification { reason }).into());
        }
        let unreachable = |detail: String| DealRefusal::BundleUnreachable { detail };
        let egress = self.egress.as_ref();
        let egress = egress.ok_or_else(|| unreachable("this node fetches nothing".to_owned()))?;
        let fetched = egress.get(uri.clone(), DOCUMENT_LEN_MAX).await;
        let bytes = fetched.map_err(|failure| unreachable(failure.code))?;
        let read = skep_base::json::parse(&bytes);
        Ok(Some(read.map_err(|e| unreachable(e.to_string()))?))
    }

    /// Whoever signed, where the message itself does not say it.
    async fn signer(&self, attempt: &Attempt) -> Result<Signer, Failure> {
        let agent = attempt.verifier.ok_or(DealRefusal::from(Fault::NoBundle))?;
        let mut records = self.read_all(vec![agent_key(&agent), verifier_key(&agent)]).await?;
        Signer::read(agent, &mut records)
    }

    async fn write_callback(
        &self,
        known: &DealRecord,
        message: VerificationCallback,
        prepared: Prepared,
    ) -> Result<Written, Failure> {
        let mut load = self.load_deal(&known.deal);
        load.records.push((proof_key(&prepared.id), Lock::Exclusive));
        attachments::load(&mut load, &known.deal.id, &message.attachments);
        load.records.push((verifier_key(&prepared.signer), Lock::Shared));
        load.records.push((agent_key(&prepared.signer), Lock::Shared));
        if let Some(substitute) = &prepared.substitute {
            Market::load_verifier(&mut load, substitute);
        }
        let (market, outside) = (self.clone(), self.outside());
        let step = move |turn: &mut Turn| {
            let id = prepared.id;
            let record = loaded(turn, &id.deal())?;
            let attempt = record.deal.attempt(id.attempt());
            let attempt = attempt.ok_or(DealRefusal::from(deal::Refusal::UnknownAttempt))?;
            if let Some(taken) = duplicate(&record, attempt, &message) {
                return Ok(Written { taken, late: None });
            }
            market.still_good(turn, &record, attempt, &prepared)?;
            let now = turn.now();
            let early = outside(attempt.created_at).minus(CLOCK_DIFFERENCE);
            let late = outside(now).plus(CLOCK_DIFFERENCE);
            if prepared.completed_at < early || prepared.completed_at > late {
                let completed_at = prepared.completed_at;
                return Err(DealRefusal::BadCompletionTime { completed_at }.into());
            }
            let timed_out = attempt.status == VerificationStatus::Timeout
                || matches!(attempt.deadline, Some(deadline) if now >= deadline);
            let unheard = timed_out && attempt.proof.is_none();
            if let Some(deadline) = attempt.deadline.filter(|_| unheard) {
                return keep_late(turn, record, &prepared, (&message.attachments, deadline));
            }
            let stale = outside(now).minus(SENT_WITHIN).minus(CLOCK_DIFFERENCE);
            if prepared.completed_at < stale {
                let completed_at = prepared.completed_at;
                return Err(DealRefusal::BadCompletionTime { completed_at }.into());
            }
            attachments::keep(turn, &id.deal(), &message.attachments)?;
            turn.put(&proof_key(&id), &prepared.raw)?;
            let substitute = prepared
                .substitute
                .filter(|other| market.can_verify(turn, &record.deal, other).is_ok());
            let (attempt, verdict) = (id.attempt(), prepared.verdict.clone());
            let input = Input::Decide { attempt, verdict, substitute };
            let record = market.advance(turn, record, input)?;
            Ok(Written { taken: taken(&record, id, false), late: None })
        };
        Ok(self.run(load, vec![], step).await?.value)
    }

    /// Decision 1: the key counts if it is good when the marketplace acts on what it signed.
    fn still_good(
        &self,
        turn: &Turn,
        record: &DealRecord,
        attempt: &Attempt,
        prepared: &Prepared,
    ) -> Result<(), Stop> {
        let kid = prepared.kid.clone();
        let agent: Option<AgentRecord> = turn.record(&agent_key(&prepared.signer))?;
        if attempt.spec.kind == engine::REQUESTER {
            let current = agent.as_ref().and_then(AgentRecord::current_key);
            return match current == Some(&prepared.key) {
                true => Ok(()),
                false => Err(DealRefusal::VerifierKeyRevoked { kid }.into()),
            };
        }
        // Whoever took its agent's key back wants nothing of it to count any more.
        let Some(agent) = agent.filter(|agent| agent.current_key().is_some()) else {
            return Err(DealRefusal::VerifierKeyRevoked { kid }.into());
        };
        check_independent(turn, &record.deal, &agent)?;
        let verifier: Option<Verifier> = turn.record(&verifier_key(&prepared.signer))?;
        let unknown = DealRefusal::UnknownVerifier { agent: prepared.signer };
        let verifier = verifier.ok_or(unknown)?;
        let key = verifier.keys.iter().find(|key| key.kid == kid);
        let key = key.filter(|key| key.public_key == prepared.key);
        let key = key.ok_or(DealRefusal::UnknownVerifierKey { kid: kid.clone() })?;
        if key.revoked_at.is_some() {
            return Err(DealRefusal::VerifierKeyRevoked { kid }.into());
        }
        if !key.is_good_at(turn.now()) {
            return Err(DealRefusal::VerifierKeyExpired { kid }.into());
        }
        if attempt.spec.kind == engine::HUMAN {
            let (reviewer, deal) = (prepared.signer, &record.deal);
            if !self.accredited.contains(&reviewer) || !verifier.has_engine(engine::HUMAN) {
                return Err(DealRefusal::NotAReviewer { agent: reviewer }.into());
            }
            // Nobody reviews what it has decided itself; that it could not tell was no decision.
            let earlier = deal.attempts.iter().filter(|a| a.number != attempt.number);
            let decided = earlier
                .filter(|a| a.status != VerificationStatus::Error)
                .any(|a| a.proof.as_ref().is_some_and(|proof| proof.by == reviewer));
            if decided {
                return Err(DealRefusal::VerifierNotIndependent { agent: reviewer }.into());
            }
        }
        Ok(())
    }
}

/// Whoever signed a callback, as the registry knows it.
struct Signer {
    agent: AgentId,
    record: Option<AgentRecord>,
    verifier: Option<Verifier>,
}

impl Signer {
    fn read(
        agent: AgentId,
        records: &mut impl Iterator<Item = Option<StoredRecord>>,
    ) -> Result<Signer, Failure> {
        Ok(Signer { agent, record: next(records)?, verifier: next(records)? })
    }

    fn record(&self) -> Result<&AgentRecord, Failure> {
        let agent = self.agent.to_string();
        Ok(self.record.as_ref().ok_or(Refusal::UnknownAgent { agent })?)
    }

    /// The key that must have signed, and whether its owner may leave the bundle out.
    fn key(&self, attempt: &Attempt, kid: &str) -> Result<(PublicKey, bool), Failure> {
        let unknown = || DealRefusal::UnknownVerifierKey { kid: kid.to_owned() };
        if attempt.spec.kind == engine::REQUESTER {
            let key = self.record()?.current_key().filter(|_| kid == AGENT_KID);
            return Ok((*key.ok_or_else(unknown)?, false));
        }
        let verifier = self.verifier.as_ref();
        let verifier = verifier.ok_or(DealRefusal::UnknownVerifier { agent: self.agent })?;
        let known = verifier.keys.iter().find(|key| key.kid == kid);
        Ok((known.ok_or_else(unknown)?.public_key, verifier.bundle_less))
    }
}

/// What becomes part of a deal's record stays short.
fn check_lengths(message: &VerificationCallback) -> Result<(), DealRefusal> {
    let bad = |field: &str, max: usize| {
        let (field, problem) = (field.to_owned(), format!("it has at most {max} bytes"));
        Err(DealRefusal::from(skep_settle::BadMessage { field, problem }))
    };
    if message.failure_reason.as_ref().is_some_and(|reason| reason.len() > TEXT_LEN_MAX) {
        return bad("failure_reason", TEXT_LEN_MAX);
    }
    if message.kid.as_ref().is_some_and(|kid| kid.len() > KID_LEN_MAX) {
        return bad("kid", KID_LEN_MAX);
    }
    Ok(())
}

/// The verifier that a bundle says it is by.
fn named_verifier(bundle: &Value) -> Option<AgentId> {
    bundle.get("verifier")?.get("id")?.as_str()?.parse().ok()
}

/// 8.3: the same callback again is acknowledged and does nothing.
fn duplicate(
    record: &DealRecord,
    attempt: &Attempt,
    message: &VerificationCallback,
) -> Option<CallbackTaken> {
    let proof = attempt.proof.as_ref()?;
    let same = proof.hash == message.proof_hash && proof.signature == message.proof_signature;
    let id = record.deal.id.verification(attempt.number);
    same.then(|| taken(record, id, true))
}

fn taken(record: &DealRecord, id: VerificationId, duplicate: bool) -> CallbackTaken {
    let attempt = record.deal.attempt(id.attempt());
    CallbackTaken {
        verification_id: id,
        status: attempt.map_or(VerificationStatus::Error, |attempt| attempt.status),
        escrow: record.deal.escrow.status(),
        duplicate,
    }
}

/// 7.3: partial results are the reviewer's to see.
fn keep_late(
    turn: &mut Turn,
    mut record: DealRecord,
    prepared: &Prepared,
    (attached, deadline): (&[Attachment], Timestamp),
) -> Result<Written, Stop> {
    if record.late < LATE_MAX {
        record.late += 1;
        attachments::keep(turn, &record.deal.id, attached)?;
        turn.put(&proof_key(&prepared.id), &prepared.raw)?;
        turn.put(&deal_key(&record.deal.id), &record)?;
    }
    Ok(Written { taken: taken(&record, prepared.id, false), late: Some(deadline) })
}

fn verdict(
    known: &DealRecord,
    attempt: &Attempt,
    message: &VerificationCallback,
    bundle: Option<&ProofBundle>,
    (signer, kid): (AgentId, &str),
) -> Result<Verdict, DealRefusal> {
    if bundle.is_some_and(|bundle| bundle.supersedes != attempt.supersedes) {
        let field = "supersedes".to_owned();
        return Err(Fault::ForeignBundle { field }.into());
    }
    let by_person = matches!(attempt.spec.kind.as_str(), engine::HUMAN | engine::REQUESTER);
    let said = bundle.map(|bundle| bundle.outcome);
    // A person's no is a rejection, an engine's a failure (decision 29).
    let outcome = match (said, message.passed) {
        (Some(Outcome::Failed), _) | (None, false) if by_person => Outcome::Rejected,
        (Some(Outcome::Rejected), _) if !by_person => Outcome::Failed,
        (Some(outcome), _) => outcome,
        (None, true) => Outcome::Verified,
        (None, false) => Outcome::Failed,
    };
    let split = bundle.and_then(|bundle| bundle.split);
    let price = known.deal.terms.price.amount;
    if let Some(split) = split
        && split.released_minor.checked_add(split.refunded_minor) != Some(price)
    {
        return Err(deal::Refusal::BadSplit.into());
    }
    Ok(Verdict {
        outcome,
        proof: ProofRef {
            hash: message.proof_hash,
            signature: message.proof_signature,
            by: signer,
            kid: kid.to_owned(),
            bundle: bundle.is_some(),
        },
        failure_reason: message.failure_reason.clone(),
        released: split.map(|split| split.released_minor),
    })
}
