//! Agents, nodes and the messages of a deal, for tests over HTTP.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use skep_agent::{
    Keyring,
    verifier::{blank, stamp},
};
use skep_base::{
    AgentId, Asset, Clock, Hash32, Money,
    ed25519::SecretKey,
    hash::sha256,
    id::{DealId, VerificationId},
    wallet::WalletKey,
};
use skep_sdk::{Client, Error};
use skep_settle::proof;
use skep_store::SystemClock;
use skep_wire::settle::{
    Agreement, EngineOffer, ErrorReport, EscrowStatus, NegotiationResponse, NewVerifierKey,
    Outcome, RegisterVerifier, ResponseStatus, VCAP_VERSION, Verification, VerificationCallback,
    VerificationRequest,
};

/// How long a node or a verifier may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// The price of a deal, in minor units.
pub const PRICE: i64 = 250_000;

/// Nothing of the machine's own settings gets in.
pub fn skep(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.env_clear().env("HOME", home).env("RUST_LOG", "error").current_dir(home);
    command
}

pub fn up(folder: &Path, more: &[&str]) -> Command {
    let mut command = skep(folder);
    command.args(["up", "--dev", "--data-dir"]).arg(folder);
    if !more.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.args(more);
    command
}

/// Writes a node's keys before it starts: the marketplace's own, the same for every node, and one
/// for its built-in verifier, whose address is answered.
pub fn furnish(folder: &Path, number: u8) -> AgentId {
    let write = |name: &str, seed: Hash32| {
        let path = folder.join(name).with_extension("key");
        fs::write(&path, seed.to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    for shared in ["log", "settlement", "webhook"] {
        write(shared, sha256(shared.as_bytes()));
    }
    let wallet = sha256(&[number]);
    write("verifier-wallet", wallet);
    WalletKey::from_bytes(*wallet.as_bytes()).unwrap().address()
}

/// What a command says with `--json`.
#[track_caller]
pub fn told(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asks again and again until there is something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// An agent whose keys come from a number.
pub struct Actor {
    pub keyring: Keyring,
    number: u8,
}

impl Actor {
    pub fn new(number: u8) -> Actor {
        Actor { keyring: Keyring::create([number; 32]).0, number }
    }

    pub fn id(&self) -> AgentId {
        self.keyring.agent_id()
    }

    pub fn key(&self) -> SecretKey {
        SecretKey::from_seed(*self.keyring.secret().seed())
    }

    pub fn client(&self, url: &str) -> Client {
        Client::new(url).unwrap().with_key(self.id(), self.key())
    }

    pub async fn enter(&self, url: &str, webhook: Option<String>) -> Client {
        let client = self.client(url);
        let request = self.keyring.registration(SystemClock.now(), None, None, webhook);
        client.register_agent(&request).await.unwrap();
        client
    }
}

/// Someone who verifies by hand.
pub struct Hand {
    pub actor: Actor,
    pub key: SecretKey,
    pub kid: String,
}

impl Hand {
    pub fn new(number: u8) -> Hand {
        let actor = Actor::new(number);
        Hand { key: SecretKey::from_seed([!actor.number; 32]), actor, kid: "hand".to_owned() }
    }

    pub async fn enter(&self, url: &str, engines: &[&str]) -> Client {
        let client = self.actor.enter(url, None).await;
        let offer = |kind: &&str| EngineOffer {
            kind: (*kind).to_owned(),
            hint_fields: vec![],
            actions: vec![],
            proof_fields: vec![],
        };
        let (kid, public_key) = (self.kid.clone(), self.key.public());
        let request = RegisterVerifier {
            engines: engines.iter().map(offer).collect(),
            key: NewVerifierKey { kid, public_key, not_before: None, not_after: None },
            prices: vec![],
            bundle_less: false,
        };
        client.register_verifier(&request).await.unwrap();
        client
    }

    /// A sealed verdict.
    pub fn verdict(&self, asked: &VerificationRequest, outcome: Outcome) -> VerificationCallback {
        let (at, id) = (SystemClock.now(), self.actor.id());
        let mut bundle = blank(asked, stamp(id, &self.kid), (at, at));
        bundle.outcome = outcome;
        bundle.failure_reason = (!outcome.passed()).then(|| "it is not there".to_owned());
        bundle.error = (outcome == Outcome::Error)
            .then(|| ErrorReport { code: "unreachable".to_owned(), detail: "no road".to_owned() });
        bundle.action_log = vec![json!({
            "index": 0, "action": "READ", "success": outcome.passed(), "cost_cents": 0,
            "timestamp": at,
        })];
        bundle.agent_identity = Some(proof::identify(id, &self.actor.key(), at));
        proof::seal(bundle, None, &self.key).unwrap()
    }
}

/// Asks, accepts: the money is held. `hints` say what is checked, `options` the rest.
pub async fn agree(requester: &Client, provider: &Client, hints: Value, options: Value) -> DealId {
    let offer = offer(requester, provider, hints, options);
    let id = requester.open_negotiation(&offer).await.unwrap().value.negotiation_id;
    provider.respond(&acceptance(id)).await.unwrap();
    id
}

pub fn offer(requester: &Client, provider: &Client, hints: Value, options: Value) -> Value {
    json!({
        "vcap_version": VCAP_VERSION,
        "message_type": "negotiation_request",
        "requester": {"agent_id": requester.agent_id()},
        "provider": {"agent_id": provider.agent_id()},
        "request": {
            "service_type": "text.write", "description": "A greeting in one word",
            "budget_amount": 0.25, "budget_currency": "USDC",
        },
        "verification_hints": hints,
        "metadata": {"skep": options},
    })
}

pub fn acceptance(id: DealId) -> NegotiationResponse {
    NegotiationResponse {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "negotiation_response".to_owned(),
        negotiation_id: id,
        response_status: ResponseStatus::Accepted,
        counter_terms: None,
        provider_verification_hints: None,
        verification_hints: None,
        metadata: None,
    }
}

/// Delivers a text, and says which verification that made.
pub async fn deliver(provider: &Client, id: DealId, text: &str) -> Result<VerificationId, Error> {
    let delivery = json!({
        "vcap_version": VCAP_VERSION,
        "message_type": "service_delivery",
        "negotiation_id": id,
        "escrow_id": id,
        "provider": {"agent_id": provider.agent_id()},
        "delivery": {
            "status": "success", "description": "The greeting",
            "artifacts": [{"type": "text", "content": text}],
        },
        "delivered_at": SystemClock.now(),
    });
    Ok(provider.deliver(&delivery).await?.value.verification_id.unwrap())
}

/// Waits until the money has moved.
pub async fn settled(client: &Client, id: DealId) -> Agreement {
    until("a settlement", async || {
        let agreement = client.agreement(id).await.unwrap();
        (agreement.escrow_status != EscrowStatus::Held).then_some(agreement)
    })
    .await
}

/// Waits until an attempt to verify is where it should be.
pub async fn seen(
    client: &Client,
    id: VerificationId,
    wanted: impl Fn(&Verification) -> bool,
) -> Verification {
    until("a verification's next step", async || {
        let found = client.verification(id).await.unwrap();
        wanted(&found).then_some(found)
    })
    .await
}

/// The kinds of the events by which a deal's money moved, from the log.
pub async fn moves(client: &Client, id: DealId) -> Vec<String> {
    until("the log's word of a settlement", async || {
        let (mut kinds, mut after) = (Vec::new(), None);
        loop {
            let page = client.events(after.as_deref(), Some(100)).await.unwrap();
            for line in &page.items {
                let body: Value = serde_json::from_str(&line.body).unwrap();
                let of_deal = body["negotiation_id"] == json!(id);
                if of_deal && (line.kind.starts_with("escrow.") || line.kind.ends_with("cancelled"))
                {
                    kinds.push(line.kind.clone());
                }
            }
            match page.items.is_empty() {
                true => break,
                false => after = page.next_cursor,
            }
        }
        (!kinds.is_empty()).then_some(kinds)
    })
    .await
}

/// What an agent can spend, in minor units.
pub async fn free(client: &Client) -> i64 {
    let wallet = client.wallet().await.unwrap();
    wallet.balances.iter().map(|balance| balance.available.amount.minor()).sum()
}

pub fn usdc(whole: i64) -> Money {
    Money::parse_decimal(&whole.to_string(), Asset::USDC).unwrap()
}
