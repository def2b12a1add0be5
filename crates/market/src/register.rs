//! Agents and operators enter the registry.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Timestamp, ed25519::PublicKey, hash::sha256};
use skep_score::publish::passport_id;
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::identity::{
    Agent, AgentKey, NAME_LEN_MAX, Operator, RegisterAgent, RegisterOperator, Statement,
    WEBHOOK_URL_LEN_MAX,
};

use crate::{
    Answered, Failure, Market, Refusal,
    answer::Stop,
    identity::{AgentRecord, agent_key},
    notice,
};

/// How far a statement's time may be from ours.
pub(crate) const STATEMENT_AGE_MAX: Duration = Duration::from_secs(600);

pub(crate) const NAME_DID: &str = "did";
pub(crate) const NAME_KEY: &str = "key";
/// The id of an agent's passport: publications say nothing else.
pub(crate) const NAME_PASSPORT: &str = "passport";

/// An operator as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRecord {
    pub operator: Operator,
}

pub(crate) fn operator_key(operator: &Did) -> RecordKey {
    RecordKey::own("operator", operator)
}

impl Market {
    /// Registers an operator. The same statement again gets the same answer.
    pub async fn register_operator(
        &self,
        request: RegisterOperator,
    ) -> Result<Answered<Operator>, Failure> {
        let statement = &request.statement;
        check_name(Some(&statement.name))?;
        let key = &statement.public_key;
        statement
            .verify(key, &request.key_signature)
            .map_err(|_| bad_signature("operator's key", "operator statement"))?;
        let operator = key.did();
        let record_key = operator_key(&operator);
        let load = Load { records: vec![(record_key.clone(), Lock::Exclusive)], ..Load::default() };
        let outside = self.outside();
        self.run(load, vec![], move |turn| {
            if let Some(known) = turn.record::<OperatorRecord>(&record_key)? {
                return Ok(known.operator);
            }
            check_fresh(outside(turn.now()), request.statement.issued_at)?;
            let registered_at = turn.now();
            let new = Operator { operator, registration: request.clone(), registered_at };
            turn.put(&record_key, &OperatorRecord { operator: new.clone() })?;
            turn.event(&RouteKey::of(operator), "operator.registered", &new, &[])?;
            Ok(new)
        })
        .await
    }

    /// Registers an agent with the mutual signatures of its keys, or brings its name and webhook
    /// up to date by a newer statement.
    pub async fn register_agent(&self, request: RegisterAgent) -> Result<Answered<Agent>, Failure> {
        self.check_registration(&request).await?;
        let binding = &request.binding;
        let (did, agent) = (binding.public_key.did(), binding.agent_id);
        let record_key = agent_key(&agent);
        let load = Load {
            records: vec![(record_key.clone(), Lock::Exclusive)],
            names: vec![(NAME_DID, did.to_string()), (NAME_KEY, binding.public_key.to_string())],
            ..Load::default()
        };
        let outside = self.outside();
        self.run(load, vec![], move |turn| {
            let fresh = check_fresh(outside(turn.now()), request.binding.issued_at);
            let known: Option<AgentRecord> = turn.record(&record_key)?;
            let (record, kind) = match known {
                Some(known) if known.agent.registration == public(&request) => {
                    return Ok(known.agent);
                }
                Some(known) => (update(known, &request)?, "agent.updated"),
                None => (enter(turn, did, &request)?, "agent.registered"),
            };
            fresh?;
            turn.put(&record_key, &record)?;
            let route = RouteKey::of(agent);
            let event = turn.event(&route, kind, &record.agent, &[agent])?;
            notice::tell(turn, event, kind, &route, &[&record], &record.agent)?;
            Ok(record.agent)
        })
        .await
    }

    async fn check_registration(&self, request: &RegisterAgent) -> Result<(), Failure> {
        let binding = &request.binding;
        check_name(binding.name.as_deref())?;
        if binding.wallet_signer(&request.wallet_signature) != Some(binding.agent_id) {
            return Err(bad_signature("wallet", "binding").into());
        }
        binding
            .verify(&binding.public_key, &request.key_signature)
            .map_err(|_| bad_signature("Ed25519 key", "binding"))?;
        if binding.recovery_key.as_ref() == Some(&binding.public_key) {
            let what = "the recovery key must not be the key that it would replace".to_owned();
            return Err(Refusal::BadStatement { what }.into());
        }
        let hash = request.webhook_url.as_ref().map(|url| sha256(url.as_bytes()));
        if hash != binding.webhook_hash {
            let what = "webhook_hash is not the SHA-256 of webhook_url".to_owned();
            return Err(Refusal::BadStatement { what }.into());
        }
        if let Some(url) = &request.webhook_url {
            check_webhook(url, self.is_dev()).map_err(|what| Refusal::BadStatement { what })?;
        }
        match (&binding.operator, &request.operator_signature) {
            (None, None) => Ok(()),
            (Some(operator), Some(signature)) => {
                let key = self.operator_public_key(operator).await?;
                binding
                    .verify(&key, signature)
                    .map_err(|_| bad_signature("operator", "binding").into())
            }
            _ => {
                let what = "operator and operator_signature come together".to_owned();
                Err(Refusal::BadStatement { what }.into())
            }
        }
    }

    pub(crate) async fn operator_public_key(&self, operator: &Did) -> Result<PublicKey, Failure> {
        let known = self.operator(operator).await?;
        Ok(known.registration.statement.public_key)
    }
}

fn enter(turn: &mut Turn, did: Did, request: &RegisterAgent) -> Result<AgentRecord, Stop> {
    let binding = &request.binding;
    let key = binding.public_key.to_string();
    if turn.name_owner(NAME_DID, &did.to_string())?.is_some()
        || turn.name_owner(NAME_KEY, &key)?.is_some()
    {
        return Err(Refusal::KeyTaken.into());
    }
    turn.claim_name(NAME_DID, &did.to_string(), binding.agent_id);
    turn.claim_name(NAME_KEY, &key, binding.agent_id);
    turn.claim_name(NAME_PASSPORT, &passport_id(&binding.agent_id), binding.agent_id);
    let first = AgentKey {
        public_key: binding.public_key,
        since: turn.now(),
        revoked_at: None,
        compromised_since: None,
        proof: serde_json::Value::Null,
    };
    let agent = Agent {
        agent_id: binding.agent_id,
        did,
        name: binding.name.clone(),
        operator: binding.operator.unwrap_or(did),
        current_key: Some(binding.public_key),
        keys: vec![first],
        registration: public(request),
        pending_recovery: None,
        money_frozen_until: None,
        defaults: 0,
        refunds_despite_pass: 0,
        operator_review: None,
        registered_at: turn.now(),
    };
    Ok(AgentRecord {
        agent,
        webhook_url: request.webhook_url.clone(),
        recovery_timer: None,
        open_remainders: Default::default(),
        open_advances: Default::default(),
        open_subsidies: Default::default(),
        left: Vec::new(),
        revoked_under: None,
    })
}

/// A newer statement by the same keys may change the name and the webhook, nothing else.
fn update(mut known: AgentRecord, request: &RegisterAgent) -> Result<AgentRecord, Stop> {
    let (old, new) = (&known.agent.registration.binding, &request.binding);
    let same_keys = known.current_key() == Some(&new.public_key)
        && old.recovery_key == new.recovery_key
        && old.operator == new.operator;
    if !same_keys || new.issued_at <= old.issued_at {
        return Err(Refusal::AgentExists { agent: new.agent_id.to_string() }.into());
    }
    keep_first_proof(&mut known.agent, &new.public_key);
    known.agent.name.clone_from(&new.name);
    known.agent.registration = public(request);
    known.webhook_url.clone_from(&request.webhook_url);
    Ok(known)
}

/// The first key's proof is the registration itself, until one by a later key takes its place.
fn keep_first_proof(agent: &mut Agent, signer: &PublicKey) {
    if let Some(first) = agent.keys.first_mut()
        && first.proof.is_null()
        && first.public_key != *signer
    {
        first.proof = serde_json::to_value(&agent.registration).unwrap_or_default();
    }
}

/// What everybody may see of a registration.
fn public(request: &RegisterAgent) -> RegisterAgent {
    RegisterAgent { webhook_url: None, ..request.clone() }
}

pub(crate) fn bad_signature(signer: &str, statement: &str) -> Refusal {
    let (signer, statement) = (signer.to_owned(), statement.to_owned());
    Refusal::BadStatementSignature { signer, statement }
}

pub(crate) fn check_fresh(now: Timestamp, issued_at: Timestamp) -> Result<(), Refusal> {
    let fresh =
        issued_at.minus(STATEMENT_AGE_MAX) <= now && now <= issued_at.plus(STATEMENT_AGE_MAX);
    if fresh {
        return Ok(());
    }
    let minutes = STATEMENT_AGE_MAX.as_secs() / 60;
    Err(Refusal::StatementNotFresh { issued_at, minutes })
}

fn check_name(name: Option<&str>) -> Result<(), Refusal> {
    let Some(name) = name else { return Ok(()) };
    let good = !name.trim().is_empty()
        && name.len() <= NAME_LEN_MAX
        && !name.chars().any(char::is_control);
    if good {
        return Ok(());
    }
    let what = format!("a name has 1 to {NAME_LEN_MAX} bytes and no control characters");
    Err(Refusal::BadStatement { what })
}

/// Whether notices may be sent to this address, as far as its words tell. What it resolves to is
/// checked when something is sent.
pub fn check_webhook(url: &str, dev: bool) -> Result<(), String> {
    if url.len() > WEBHOOK_URL_LEN_MAX {
        return Err(format!("a webhook_url has at most {WEBHOOK_URL_LEN_MAX} bytes"));
    }
    let rest = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => rest,
        (None, Some(rest)) if dev => rest,
        _ => return Err("a webhook_url begins with https://".to_owned()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err("a webhook_url names a host, without user or password".to_owned());
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("a webhook_url has no spaces or control characters".to_owned());
    }
    Ok(())
}

/// Reads `0x…` or `did:swarm:…`.
pub(crate) enum AgentName {
    Address(AgentId),
    Did(Did),
}

impl AgentName {
    pub(crate) fn parse(text: &str) -> Option<AgentName> {
        match text.parse() {
            Ok(address) => Some(AgentName::Address(address)),
            Err(_) => text.parse().ok().map(AgentName::Did),
        }
    }
}
