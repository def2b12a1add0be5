//! A proof as a file: what a stranger needs to check a verdict without asking anybody, and the
//! check.
//!
//! Whoever reads a file cannot know who wrote it. So every part of it is held against something
//! that was signed, the reader can pin both keys, and the report says where each key came from.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Hash32, Timestamp,
    ed25519::PublicKey,
    hash::json_sha256,
    id::{DealId, VerificationId},
    json,
    wallet::WalletSignature,
};
use skep_wire::{
    identity::{Binding, Rotation, Statement},
    settle::{
        AGENT_KID, EscrowStatus, Outcome, ProofBundle, SettlementReceipt, VCAP_VERSION,
        VerificationCallback, VerificationSpec, engine,
    },
};

use super::{Expected, attachment, check, check_alone, check_identity, check_signature};
use crate::terms::{self, Terms};

/// What a file says that it is.
pub const FORMAT: &str = "skep/proof-file/v1";

/// What nothing in a file vouches for, for people to read before they rely on it.
pub const NOT_COVERED: [&str; 4] = [
    "marketplace.url; marketplace.settlement_key while there is no receipt",
    "not_before, not_after and revoked_at of the verifier's key: the marketplace held the key \
     against them when the verdict came",
    "verifier.agent_key and verifier.taken_on where the bundle shows no agent_identity",
    "name and media_type of an attachment, and whether one was left out",
];

/// Everything about one verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofFile {
    /// [`FORMAT`]
    pub format: String,
    pub request: Asked,
    /// The verdict (3.6) with its bundle, without what the verifier did not sign.
    pub callback: VerificationCallback,
    /// The agreed terms as they were hashed.
    pub terms: Value,
    /// What the escrow was held for (3.3).
    pub release_condition: String,
    pub verifier: Signer,
    /// The receipt of the settlement that rests on this verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<SettlementReceipt>,
    pub marketplace: Marketplace,
}

/// What the verifier was asked (3.5), without the work itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub verification_id: VerificationId,
    pub negotiation_id: DealId,
    pub escrow_ref: DealId,
    pub terms_hash: Hash32,
    pub spec: VerificationSpec,
}

/// Who gave the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signer {
    pub agent_id: AgentId,
    /// The key that signed the proof.
    pub key: SignerKey,
    /// The key that it has as an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_key: Option<PublicKey>,
    /// How its wallet took that key on; absent if the wallet never signed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_on: Option<TakenOn>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignerKey {
    pub kid: String,
    pub public_key: PublicKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// The statement with which an agent's wallet took on its Ed25519 key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum TakenOn {
    Binding { statement: Binding, wallet_signature: WalletSignature },
    Rotation { statement: Rotation, wallet_signature: WalletSignature },
}

impl TakenOn {
    /// The wallet that signed, and the key that it signed for.
    fn read(&self) -> (Option<AgentId>, PublicKey) {
        match self {
            TakenOn::Binding { statement, wallet_signature } => {
                (statement.wallet_signer(wallet_signature), statement.public_key)
            }
            TakenOn::Rotation { statement, wallet_signature } => {
                (statement.wallet_signer(wallet_signature), statement.new_key)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marketplace {
    pub url: String,
    pub settlement_key: PublicKey,
}

/// Keys that the reader knows from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pins {
    pub verifier: Option<PublicKey>,
    pub marketplace: Option<PublicKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Ok,
    Fail,
    /// There is nothing of the kind in the file.
    Absent,
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub mark: Mark,
    /// What was found, or what is wrong.
    pub detail: String,
}

impl Check {
    pub(crate) fn of(name: &'static str, found: Found) -> Check {
        let (mark, detail) = match found {
            Ok(Some(detail)) => (Mark::Ok, detail),
            Ok(None) => (Mark::Absent, "none in this file".to_owned()),
            Err(detail) => (Mark::Fail, detail),
        };
        Check { name, mark, detail }
    }

    pub fn holds(&self) -> bool {
        self.mark != Mark::Fail
    }
}

/// What a file is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub ok: bool,
    /// What the file claims; true only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub negotiation_id: DealId,
    pub verification_id: VerificationId,
    pub outcome: Outcome,
    pub verifier: AgentId,
    pub completed_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escrow: Option<EscrowStatus>,
}

/// Checks a file from its bytes alone.
pub fn verify_file(bytes: &[u8], pins: &Pins) -> Report {
    let mut checks = Vec::new();
    let mut note = |name, found: Found| checks.push(Check::of(name, found));
    let read = match Reading::new(bytes) {
        Ok(read) => {
            note("file", found(format!("{} bytes, {FORMAT}", bytes.len())));
            Some(read)
        }
        Err(reason) => {
            note("file", Err(reason));
            None
        }
    };
    if let Some(read) = &read {
        note("proof hash", read.proof_hash());
        note("action chain", read.action_chain());
        note("extracted content", read.extracted_content());
        note("attachments", read.attachments());
        note("callback", read.callback_agrees());
        note("request", read.request_agrees());
        note("terms", read.terms_agree());
        note("criteria", read.criteria_agree());
        note("verifier", read.verifier_agrees());
        note("signature", read.signature(pins));
        note("agent identity", read.identity());
        note("receipt signature", read.receipt_signature(pins));
        note("receipt", read.receipt_agrees());
    }
    let ok = checks.iter().all(Check::holds);
    Report { ok, claim: read.as_ref().map(Reading::claim), checks }
}

/// What a check found, if there was something to check; or what is wrong.
pub(crate) type Found = Result<Option<String>, String>;

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
pub(crate) fn found(detail: impl Into<String>) -> Found {
    Ok(Some(detail.into()))
}

pub(crate) fn must(holds: bool, wrong: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong.to_owned()) }
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The part of a terms document that a check looks into.
#[derive(Debug, Deserialize)]
struct TermsDocument {
    negotiation_id: DealId,
    requester: AgentId,
    provider: AgentId,
    agreed: Terms,
}

/// A file with its parts read.
struct Reading {
    file: ProofFile,
    bundle: Value,
    read: ProofBundle,
    terms: TermsDocument,
}

impl Reading {
    fn new(bytes: &[u8]) -> Result<Reading, String> {
        let value = json::parse(bytes).map_err(text)?;
        let file: ProofFile = json::from_slice(bytes).map_err(text)?;
        must(file.format == FORMAT, &format!("its format is not {FORMAT}"))?;
        // What this program reads but would write otherwise is a change that no hash would show:
        // an unknown field, or another spelling of the same value.
        let again = serde_json::to_value(&file).map_err(text)?;
        must(again == value, "it holds something that skep proof export does not write")?;
        let bundle = file.callback.proof_bundle.clone();
        let bundle = bundle.ok_or("it holds no proof bundle, so there is nothing to check")?;
        let read = serde_json::from_value(bundle.clone())
            .map_err(|e| format!("its proof bundle cannot be read: {e}"))?;
        let terms = serde_json::from_value(file.terms.clone())
            .map_err(|e| format!("its terms cannot be read: {e}"))?;
        Ok(Reading { file, bundle, read, terms })
    }

    fn claim(&self) -> Claim {
        Claim {
            negotiation_id: self.read.negotiation_id,
            verification_id: self.read.verification_id,
            outcome: self.read.outcome,
            verifier: self.read.verifier.id,
            completed_at: self.read.completed_at,
            escrow: self.file.settlement.as_ref().map(|receipt| receipt.settlement.status),
        }
    }

    /// 5.1.
    fn proof_hash(&self) -> Found {
        let computed = json_sha256(&self.bundle).map_err(text)?;
        let said = self.file.callback.proof_hash;
        must(computed == said, &format!("the bundle's hash is {computed}, not {said}"))?;
        found(said.to_string())
    }

    /// 5.3.
    fn action_chain(&self) -> Found {
        let head = super::chain(&self.read.action_log).map_err(text)?;
        must(head == self.read.action_log_head, "the chain's head is another than the bundle's")?;
        match (head, self.read.action_log.len()) {
            (None, _) => found("no actions"),
            (Some(head), 1) => found(format!("1 action, head {head}")),
            (Some(head), actions) => found(format!("{actions} actions, head {head}")),
        }
    }

    fn extracted_content(&self) -> Found {
        let content = self.file.callback.extracted_content.as_ref();
        let computed = content.map(|content| skep_base::hash::sha256(content.as_bytes()));
        let said = self.read.extracted_content_sha256;
        must(computed == said, "it is not the content that the bundle's hash is of")?;
        Ok(content.map(|content| format!("{} bytes", content.len())))
    }

    fn attachments(&self) -> Found {
        let (here, log) = (&self.file.callback.attachments, &self.read.action_log);
        attachment::check_attachments(here, log).map_err(text)?;
        let named = attachment::named(log).len();
        match (here.len(), named) {
            (0, 0) => Ok(None),
            (here, named) => found(format!("{here} here, of {named} that the log names by hash")),
        }
    }

    fn callback_agrees(&self) -> Found {
        let VerificationCallback { vcap_version, message_type, kid, .. } = &self.file.callback;
        must(vcap_version == VCAP_VERSION, "its vcap_version is another than this program's")?;
        must(message_type == "verification_callback", "its message_type is another")?;
        let same_kid = kid.as_ref().is_none_or(|kid| *kid == self.read.verifier.kid);
        must(same_kid, "its kid is not the bundle's")?;
        let elsewhere = self.file.callback.proof_bundle_uri.is_some();
        must(!elsewhere, "it points to a bundle elsewhere, which nobody signed")?;
        check_alone(&self.file.callback, &self.bundle).map_err(text)?;
        let said = serde_json::to_value(self.read.outcome).map_err(text)?;
        found(format!("says what the bundle says: {}", said.as_str().unwrap_or_default()))
    }

    fn request_agrees(&self) -> Found {
        let (asked, read) = (&self.file.request, &self.read);
        let of_deal = asked.verification_id.deal() == asked.negotiation_id;
        must(of_deal, "verification_id and negotiation_id are of two deals")?;
        must(asked.verification_id == read.verification_id, "verification_id is another")?;
        must(asked.negotiation_id == read.negotiation_id, "negotiation_id is another")?;
        must(asked.escrow_ref == read.escrow_ref, "escrow_ref is another")?;
        must(asked.escrow_ref == asked.negotiation_id, "escrow_ref is of another deal")?;
        must(asked.terms_hash == read.terms_hash, "terms_hash is another")?;
        must(asked.spec == read.spec, "spec is another than the bundle's")?;
        found(format!("the bundle answers verification {}", asked.verification_id))
    }

    /// Decision 25.
    fn terms_agree(&self) -> Found {
        let computed = terms::hash(&self.file.terms).map_err(text)?;
        let said = self.read.terms_hash;
        must(computed == said, &format!("the hash of the terms is {computed}, not {said}"))?;
        let condition = terms::release_condition(&computed);
        must(condition == self.file.release_condition, "release_condition names other terms")?;
        let same_deal = self.terms.negotiation_id == self.read.negotiation_id;
        must(same_deal, "they are of another deal")?;
        found(condition)
    }

    /// What was checked is what was agreed; a delivery may have filled what was left open.
    fn criteria_agree(&self) -> Found {
        let (agreed, spec) = (&self.terms.agreed.criteria, &self.read.spec);
        let kept =
            |agreed: &Option<String>, asked: &Option<String>| agreed.is_none() || agreed == asked;
        must(kept(&agreed.url, &spec.url), "url is not what the terms say")?;
        must(kept(&agreed.selector, &spec.selector), "selector is not what the terms say")?;
        let (wanted, asked) = (&agreed.expected_content, &spec.expected_content);
        must(kept(wanted, asked), "expected_content is not what the terms say")?;
        must(agreed.custom == spec.custom, "custom is not what the terms say")?;
        let delta = agreed.fingerprint_delta == Some(true);
        must(delta == spec.fingerprint_delta, "fingerprint_delta is not what the terms say")?;
        let engine = self.terms.agreed.engine();
        let kind = spec.kind.as_str();
        // A reviewer may take the place of any engine (7.3).
        must(kind == engine || kind == engine::HUMAN, "another engine than the terms say")?;
        found(format!("as agreed, by {kind}"))
    }

    fn verifier_agrees(&self) -> Found {
        let (signer, stamp) = (&self.file.verifier, &self.read.verifier);
        must(signer.agent_id == stamp.id, "the bundle names another verifier")?;
        must(signer.key.kid == stamp.kid, "the bundle names another key")?;
        let TermsDocument { requester, provider, .. } = &self.terms;
        if self.read.spec.kind == engine::REQUESTER {
            must(stamp.id == *requester, "only the requester judges these terms")?;
            must(stamp.kid == AGENT_KID, "the requester signs with its key as an agent")?;
            let same = self.file.verifier.agent_key == Some(signer.key.public_key);
            must(same, "the requester signs with its key as an agent")?;
            return found(format!("{}, the requester itself", stamp.id));
        }
        let is_side = stamp.id == *requester || stamp.id == *provider;
        must(!is_side, "the verifier is one of the two sides")?;
        let by_engine = self.read.spec.kind != engine::HUMAN;
        match self.terms.agreed.verifier.filter(|named| by_engine && *named != stamp.id) {
            // After an error another one may look (decision 29).
            Some(named) => found(format!("{}, in the place of {named}", stamp.id)),
            None => found(format!("{}, {}", stamp.id, stamp.software)),
        }
    }

    /// 5.2.
    fn signature(&self, pins: &Pins) -> Found {
        let known = &self.file.verifier.key;
        let key = pins.verifier.unwrap_or(known.public_key);
        let same = key == known.public_key;
        must(same, &format!("the pinned key {} is not the file's", short(&key)))?;
        check_signature(&self.file.callback, &self.read, &key, &known.kid).map_err(text)?;
        // All of it once more, as the marketplace does it.
        let expected = Expected {
            verification: self.file.request.verification_id,
            deal: self.file.request.negotiation_id,
            terms_hash: self.file.request.terms_hash,
            spec: &self.file.request.spec,
            verifier: self.file.verifier.agent_id,
            key: &key,
            kid: &known.kid,
            agent_key: self.file.verifier.agent_key.as_ref(),
        };
        check(&self.file.callback, &self.bundle, &expected).map_err(text)?;
        let revoked = known.revoked_at.map(|at| format!("; revoked since, at {at}"));
        let revoked = revoked.unwrap_or_default();
        let origin = origin(pins.verifier, "--key");
        found(format!("kid {}, fingerprint {}, {origin}{revoked}", known.kid, short(&key)))
    }

    /// 5.4, and that the address stands behind the key.
    fn identity(&self) -> Found {
        let Some(identity) = &self.read.agent_identity else { return Ok(None) };
        let signer = &self.file.verifier;
        let key = signer.agent_key.ok_or("the file does not say which key the agent has")?;
        check_identity(identity, &signer.agent_id, &key).map_err(text)?;
        let Some(taken_on) = &signer.taken_on else {
            return found(format!("key {}, taken from the file", short(&key)));
        };
        let (wallet, taken) = taken_on.read();
        must(taken == key, "the wallet signed for another key")?;
        must(wallet == Some(signer.agent_id), "the wallet's signature is not the agent's")?;
        found(format!("key {}, signed for by the wallet {}", short(&key), signer.agent_id))
    }

    /// 2.1 step 12.
    fn receipt_signature(&self, pins: &Pins) -> Found {
        let Some(receipt) = &self.file.settlement else {
            must(pins.marketplace.is_none(), "there is no receipt for the pinned key to check")?;
            return Ok(None);
        };
        let key = pins.marketplace.unwrap_or(self.file.marketplace.settlement_key);
        must(key == receipt.key, &format!("the receipt is not signed by {}", short(&key)))?;
        let same = key == self.file.marketplace.settlement_key;
        must(same, "marketplace.settlement_key is another than the receipt's")?;
        receipt.settlement.verify(&key, &receipt.signature).map_err(text)?;
        found(format!("key {}, {}", short(&key), origin(pins.marketplace, "--marketplace-key")))
    }

    /// 9.5: the money moved because of this proof.
    fn receipt_agrees(&self) -> Found {
        let Some(receipt) = &self.file.settlement else { return Ok(None) };
        let (settled, read) = (&receipt.settlement, &self.read);
        let of_deal = settled.negotiation_id == read.negotiation_id;
        must(of_deal && settled.escrow_id == read.escrow_ref, "it is of another deal")?;
        let (hash, signature) = (self.file.callback.proof_hash, self.file.callback.proof_signature);
        let names = settled.verification_id == Some(read.verification_id)
            && settled.proof_hash == Some(hash)
            && settled.proof_signature == Some(signature);
        must(names, "it names another proof")?;
        must(settled.terms_hash == read.terms_hash, "it names other terms")?;
        let sides = (settled.requester, settled.provider);
        must(sides == (self.terms.requester, self.terms.provider), "it names other sides")?;
        let price = self.terms.agreed.price;
        must(settled.currency == price.asset, "it is in another currency")?;
        let sum = settled.released_minor.checked_add(settled.refunded_minor);
        must(sum == Some(price.amount), "what it moves is not the price")?;
        let released = match (read.outcome, read.split) {
            (Outcome::Verified, Some(split)) => split.released_minor,
            (Outcome::Verified, None) => price.amount,
            (Outcome::Failed | Outcome::Rejected, _) => skep_base::Amount::ZERO,
            (Outcome::Error, _) => return Err("an error moves no money".to_owned()),
        };
        must(settled.released_minor == released, "it moves what the verdict does not say")?;
        let status = match read.outcome.passed() {
            true => EscrowStatus::Released,
            false => EscrowStatus::Refunded,
        };
        must(settled.status == status, "its status is not what the verdict says")?;
        let money = |amount| skep_base::Money { amount, asset: price.asset };
        let (out, back) = (money(settled.released_minor), money(settled.refunded_minor));
        found(format!("names this proof: {out} released, {back} refunded"))
    }
}

pub(crate) fn origin(pinned: Option<PublicKey>, flag: &str) -> String {
    match pinned {
        Some(_) => format!("pinned by {flag}"),
        None => "taken from the file".to_owned(),
    }
}

/// A key as people compare it.
pub(crate) fn short(key: &PublicKey) -> String {
    key.fingerprint().to_string()[..16].to_owned()
}

#[cfg(test)]
mod tests;
