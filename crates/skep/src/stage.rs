//! A node of its own and people on it, for demonstrations, measurements and conformance runs.

mod scribe;
mod shop;
mod site;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use skep_agent::{
    Keyring,
    verifier::{blank, stamp},
};
use skep_base::{
    AgentId,
    ed25519::SecretKey,
    id::{DealId, VerificationId},
};
use skep_sdk::Client;
use skep_settle::proof;
use skep_testkit::process::Child;
use skep_wire::settle::{
    EngineOffer, NegotiationAnswer, NegotiationResponse, NewVerifierKey, Outcome, ProofBundle,
    RegisterVerifier, ResponseStatus, VCAP_VERSION, VerificationCallback, VerificationRequest,
};

pub use self::{
    scribe::Scribe,
    shop::{Answer, Hand, PASSPHRASE, Place, Shop, own_work},
    site::Site,
};
use crate::client::now;

/// An agent with its keys.
pub struct Actor {
    pub name: &'static str,
    pub keyring: Keyring,
}

impl Actor {
    pub fn new(name: &'static str) -> Result<Actor> {
        let (keyring, _phrase) = Keyring::create(entropy()?);
        Ok(Actor { name, keyring })
    }

    pub fn id(&self) -> AgentId {
        self.keyring.agent_id()
    }

    pub fn key(&self) -> SecretKey {
        SecretKey::from_seed(*self.keyring.secret().seed())
    }

    pub fn client(&self, url: &str) -> Result<Client> {
        Ok(Client::new(url)?.with_key(self.id(), self.key()))
    }

    /// Enters the node's registry.
    pub async fn register(&self, url: &str) -> Result<Client> {
        let name = Some(self.name.to_owned()).filter(|name| !name.is_empty());
        let client = self.client(url)?;
        client.register_agent(&self.keyring.registration(now(), None, name, None)).await?;
        Ok(client)
    }
}

/// 32 bytes that nobody knows.
pub fn entropy() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// This program as a node on a folder, with `--dev` and a free port.
pub fn node(folder: &Path, more: &[&str]) -> Result<Child> {
    node_with(folder, more, &[])
}

/// The same with settings of its own, by their names in the environment.
pub fn node_with(
    folder: &Path,
    more: &[&str],
    settings: &[(&'static str, String)],
) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["up", "--dev", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder)
        .args(more)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .env("RUST_LOG", "error")
        .stdin(Stdio::null());
    Child::spawn(&mut command).context("the node did not start")
}

/// Someone who looks at work by hand: a verifier without engines, or a reviewer.
pub struct Looker {
    pub actor: Actor,
    pub key: SecretKey,
    pub kid: String,
}

impl Looker {
    pub fn new(name: &'static str) -> Result<Looker> {
        let (actor, key) = (Actor::new(name)?, SecretKey::from_seed(entropy()?));
        Ok(Looker { actor, kid: crate::verifier::kid(&key.public()), key })
    }

    pub fn id(&self) -> AgentId {
        self.actor.id()
    }

    pub async fn register(&self, url: &str, engines: &[&str]) -> Result<Client> {
        let client = self.actor.register(url).await?;
        client.register_verifier(&self.offers(engines)).await?;
        Ok(client)
    }

    /// What it registers with.
    pub fn offers(&self, engines: &[&str]) -> RegisterVerifier {
        let offer = |kind: &&str| EngineOffer {
            kind: (*kind).to_owned(),
            hint_fields: vec![],
            actions: vec![],
            proof_fields: vec![],
        };
        RegisterVerifier {
            engines: engines.iter().map(offer).collect(),
            key: NewVerifierKey {
                kid: self.kid.clone(),
                public_key: self.key.public(),
                not_before: None,
                not_after: None,
            },
            prices: vec![],
            bundle_less: false,
        }
    }

    /// What it would find, not sealed yet.
    pub fn finding(&self, request: &VerificationRequest, outcome: Outcome) -> ProofBundle {
        let (at, who) = (now(), stamp(self.id(), &self.kid));
        let mut bundle = finding(blank(request, who, (at, at)), "READ", outcome);
        bundle.agent_identity = Some(proof::identify(self.id(), &self.actor.key(), at));
        bundle
    }

    pub fn seal(&self, bundle: ProofBundle) -> Result<VerificationCallback> {
        Ok(proof::seal(bundle, Some("Hello".to_owned()), &self.key)?)
    }

    /// Looks and answers.
    pub async fn judge(&self, url: &str, id: VerificationId, outcome: Outcome) -> Result<()> {
        let client = self.actor.client(url)?;
        let request = client.verification(id).await?.request;
        client.callback(&self.seal(self.finding(&request, outcome))?).await?;
        Ok(())
    }

    /// A reviewer's decision.
    pub async fn decide(&self, url: &str, id: DealId, outcome: Outcome) -> Result<()> {
        let client = self.actor.client(url)?;
        let file = client.review(id).await?;
        let mut bundle = self.finding(&file.request, outcome);
        bundle.supersedes = file.supersedes;
        bundle.action_log = vec![action("REVIEW", outcome)];
        client.decide_review(&self.seal(bundle)?).await?;
        Ok(())
    }
}

fn finding(mut bundle: ProofBundle, word: &str, outcome: Outcome) -> ProofBundle {
    bundle.outcome = outcome;
    bundle.failure_reason = (!outcome.passed()).then(|| "it is not what was asked for".to_owned());
    bundle.action_log = vec![action(word, outcome)];
    bundle
}

fn action(word: &str, outcome: Outcome) -> Value {
    json!({
        "index": 0, "action": word, "success": outcome.passed(), "cost_cents": 0,
        "timestamp": now(),
    })
}

/// 3.1: a greeting for 0.25 USDC, checked by its content, with `more` over it.
pub fn request(requester: AgentId, provider: AgentId, more: Value) -> Value {
    let mut message = json!({
        "vcap_version": VCAP_VERSION,
        "message_type": "negotiation_request",
        "requester": {"agent_id": requester, "platform": "skep"},
        "provider": {"agent_id": provider, "platform": "skep"},
        "request": {
            "service_type": "text.write",
            "description": "A greeting in one word, as plain text",
            "budget_amount": 0.25,
            "budget_currency": "USDC",
        },
        "verification_hints": {"type": "artifact", "expected_content": "hello"},
    });
    merge(&mut message, more);
    message
}

/// 3.2.
pub fn response(id: DealId, status: ResponseStatus) -> NegotiationResponse {
    NegotiationResponse {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "negotiation_response".to_owned(),
        negotiation_id: id,
        response_status: status,
        counter_terms: None,
        provider_verification_hints: None,
        verification_hints: None,
        metadata: None,
    }
}

/// 3.4: a greeting, with `more` over it.
pub fn delivery(id: DealId, provider: AgentId, more: Value) -> Value {
    let mut message = json!({
        "vcap_version": VCAP_VERSION,
        "message_type": "service_delivery",
        "negotiation_id": id,
        "escrow_id": id,
        "provider": {"agent_id": provider, "platform": "skep"},
        "delivery": {
            "status": "success",
            "description": "The greeting",
            "artifacts": [{"type": "text", "content": "Hello"}],
        },
        "delivered_at": now(),
    });
    merge(&mut message, more);
    message
}

/// Offers and accepts: the money is held.
pub async fn agree(
    requester: &Client,
    provider: &Client,
    more: Value,
) -> Result<NegotiationAnswer> {
    let id = |client: &Client| client.agent_id().context("a client without an agent");
    let offer = request(id(requester)?, id(provider)?, more);
    let id = requester.open_negotiation(&offer).await?.value.negotiation_id;
    Ok(provider.respond(&response(id, ResponseStatus::Accepted)).await?.value)
}

/// Delivers, and says which verification that made.
pub async fn deliver(provider: &Client, id: DealId, more: Value) -> Result<VerificationId> {
    let agent = provider.agent_id().context("a client without an agent")?;
    let answer = provider.deliver(&delivery(id, agent, more)).await?.value;
    answer.verification_id.context("the delivery asked for no verification")
}

/// Puts `more` over `message`, deep.
fn merge(message: &mut Value, more: Value) {
    match (message, more) {
        (Value::Object(message), Value::Object(more)) => {
            for (key, value) in more {
                merge(message.entry(key).or_insert(Value::Null), value);
            }
        }
        (message, more) => *message = more,
    }
}
