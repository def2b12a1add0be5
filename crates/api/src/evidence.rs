//! Evidence as a page: a verdict's or a session's, by one template.
//!
//! Everything on it was written by strangers, so everything is text: the template escapes it, no
//! address becomes a link, and the page's policy allows no script, no form and no other site.

mod sheet;

use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, header};
use serde::Deserialize;
use serde_json::Value;
use skep_base::{Amount, Hash32, Money, hash::sha256};
use skep_market::ProofView;
use skep_wire::{
    conduit::{SessionBundle, SessionProof, SessionStatus},
    settle::{
        EscrowStatus, Outcome, ProofBundle, SettlementReceipt, VerificationCallback,
        VerificationSpec, VerificationStatus, engine,
    },
};

use sheet::{Fact, Section, Sheet, Step, Tone};

/// The look of these pages: that of the documentation, and what only they have.
const STYLE: &str = concat!(include_str!("docs/style.css"), include_str!("evidence/sheet.css"));
/// The longest piece of a stranger's text that is shown, in characters.
const TEXT_LEN_MAX: usize = 4000;

/// A page of evidence.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) String);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let hash = STANDARD.encode(sha256(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; img-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        let policy =
            HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (header::CONTENT_SECURITY_POLICY, policy),
        ];
        (headers, self.0).into_response()
    }
}

/// Where an attachment of the page can be fetched.
type Attachments<'a> = dyn Fn(&Hash32) -> String + 'a;

/// The page of a verdict.
pub(crate) fn proof_sheet(view: &ProofView, attachments: &Attachments<'_>) -> String {
    let verification = &view.verification;
    let callback = verification.callback.clone().unwrap_or_default();
    let callback = VerificationCallback::deserialize(callback).ok();
    let bundle = callback.as_ref().and_then(|callback| callback.proof_bundle.clone());
    let bundle = bundle.and_then(|bundle| ProofBundle::deserialize(bundle).ok());
    let log = callback.as_ref().map(|callback| callback.action_log.as_slice());
    let id = verification.verification_id;
    let (tone, word) = outcome(bundle.as_ref().map(|b| b.outcome), verification.status);
    let mut sections = Vec::new();
    sections.extend(found(callback.as_ref(), bundle.as_ref()));
    sections.extend(view.receipt.as_ref().map(settlement));
    sections.push(hashes(view, callback.as_ref(), bundle.as_ref()));
    let reason = callback.as_ref().and_then(|callback| callback.failure_reason.clone());
    let sheet = Sheet {
        kind: "Verification",
        id: id.to_string(),
        tone,
        outcome: word,
        summary: summary(view),
        reason: reason.map(|reason| cut(&reason)),
        about: vec![asked(&verification.request.spec), parties(view)],
        steps: steps(log.unwrap_or_default(), attachments),
        sections,
        checking: vec![
            format!("skep proof export {id} -o proof.json"),
            "skep proof verify proof.json".to_owned(),
            format!("skep proof export {id} --aivs"),
        ],
    };
    sheet.render(STYLE)
}

/// The page of a session, whole: it shows what the proof says and is not a check of it.
pub(crate) fn session_page(proof: &SessionProof, attachments: &Attachments<'_>) -> Option<String> {
    let bundle = SessionBundle::deserialize(&proof.bundle).ok()?;
    let (tone, outcome) = match bundle.status {
        SessionStatus::Completed => (Tone::Good, "Completed"),
        SessionStatus::Failed => (Tone::Bad, "Failed"),
        SessionStatus::Idle | SessionStatus::Running => (Tone::Open, "Not closed"),
    };
    let id = bundle.session_id;
    let purpose = bundle.purpose.as_deref().map(cut);
    let facts = [
        Fact::some("Purpose", purpose),
        Fact::mono("Agent", bundle.agent_id),
        Fact::text("Opened", bundle.opened_at),
        Fact::text("Closed", bundle.closed_at),
        Fact::text("Recorded by", &bundle.gateway.software),
    ];
    let hashes = [
        Fact::mono("Proof hash", proof.proof_hash),
        Fact::mono("Signature", proof.signature),
        Fact::mono("Gateway key", bundle.gateway.public_key),
        Fact::text("Gateway key id", &bundle.gateway.kid),
        Fact::some_mono("Head of the action chain", bundle.action_log_head),
        Fact::text("Chain", &bundle.chain_alg),
    ];
    let sheet = Sheet {
        kind: "Session",
        id: id.to_string(),
        tone,
        outcome: outcome.to_owned(),
        summary: format!("{} actions of a browser, recorded step by step", bundle.action_log.len()),
        reason: bundle.reason.as_deref().map(cut),
        about: vec![Section::new("Session", facts)],
        steps: steps(&bundle.action_log, attachments),
        sections: vec![Section::new("Hashes and keys", hashes)],
        checking: vec![
            format!("skep session proof {id} --out session.json"),
            "skep proof verify session.json".to_owned(),
        ],
    };
    Some(sheet.render(STYLE))
}

fn outcome(outcome: Option<Outcome>, status: VerificationStatus) -> (Tone, String) {
    let (tone, word) = match (outcome, status) {
        (Some(Outcome::Verified), _) => (Tone::Good, "Verified"),
        (Some(Outcome::Failed), _) => (Tone::Bad, "Failed"),
        (Some(Outcome::Rejected), _) => (Tone::Bad, "Rejected"),
        (Some(Outcome::Error), _) => (Tone::Open, "Nothing found out"),
        (None, VerificationStatus::Verified) => (Tone::Good, "Verified"),
        (None, VerificationStatus::Failed) => (Tone::Bad, "Failed"),
        (None, VerificationStatus::Rejected) => (Tone::Bad, "Rejected"),
        (None, VerificationStatus::Timeout) => (Tone::Open, "Timed out"),
        (None, VerificationStatus::Error) => (Tone::Open, "Nothing found out"),
        (None, VerificationStatus::Pending | VerificationStatus::Running) => {
            (Tone::Open, "No answer yet")
        }
    };
    (tone, word.to_owned())
}

fn summary(view: &ProofView) -> String {
    let by = match view.verification.kind.as_str() {
        engine::HUMAN => "a reviewer".to_owned(),
        engine::REQUESTER => "the requester".to_owned(),
        kind => format!("the engine {kind}"),
    };
    match &view.receipt {
        None => format!("Work for {}, checked by {by}", view.price),
        Some(receipt) => {
            let word = match receipt.settlement.status {
                EscrowStatus::Released => "released",
                EscrowStatus::Refunded => "refunded",
                EscrowStatus::Held => "held",
            };
            format!("Work for {}, checked by {by}; the escrow was {word}", view.price)
        }
    }
}

fn asked(spec: &VerificationSpec) -> Section {
    let custom = spec.custom.as_ref().and_then(|custom| serde_json::to_string_pretty(custom).ok());
    Section::new(
        "What was asked",
        [
            Fact::text("Engine", &spec.kind),
            Fact::some("Address", spec.url.as_deref().map(cut)),
            Fact::some("Selector", spec.selector.as_deref().map(cut)),
            Fact::some("Expected content", spec.expected_content.as_deref().map(cut)),
            Fact::some("Must have changed", spec.fingerprint_delta.then_some("yes")),
            Fact::some_mono("Fingerprint before", spec.baseline_fingerprint),
            Fact::some_block("Further criteria", custom.as_deref().map(cut)),
        ],
    )
}

fn parties(view: &ProofView) -> Section {
    Section::new(
        "Who",
        [
            Fact::mono("Requester", view.requester),
            Fact::mono("Provider", view.provider),
            Fact::some_mono("Verifier", view.verification.verifier),
            Fact::text("Price", view.price),
            Fact::text("Agreed", view.accepted_at),
            Fact::text("Asked", view.verification.request.requested_at),
        ],
    )
}

fn found(callback: Option<&VerificationCallback>, bundle: Option<&ProofBundle>) -> Option<Section> {
    let callback = callback?;
    let error = bundle.and_then(|bundle| bundle.error.as_ref());
    Some(Section::new(
        "What was found",
        [
            Fact::some_block("Extracted", callback.extracted_content.as_deref().map(cut)),
            Fact::some(
                "Error",
                error.map(|error| cut(&format!("{}: {}", error.code, error.detail))),
            ),
            Fact::some_mono("Fingerprint now", bundle.and_then(|b| b.fingerprints.current)),
            Fact::some("Begun", bundle.map(|bundle| bundle.started_at)),
            Fact::text("Completed", callback.completed_at),
            Fact::some("Software", bundle.map(|bundle| cut(&bundle.verifier.software))),
        ],
    ))
}

fn settlement(receipt: &SettlementReceipt) -> Section {
    let settled = &receipt.settlement;
    let money = |amount: Amount| Money { amount, asset: settled.currency };
    Section::new(
        "Settlement",
        [
            Fact::text("To the provider", money(settled.released_minor)),
            Fact::text("Back to the requester", money(settled.refunded_minor)),
            Fact::text("To the verifier", money(settled.verifier_paid_minor)),
            Fact::text("Rests on", &settled.method),
            Fact::text("Settled", settled.settled_at),
            Fact::mono("Receipt's signature", receipt.signature),
            Fact::mono("Marketplace's key", receipt.key),
        ],
    )
}

fn hashes(
    view: &ProofView,
    callback: Option<&VerificationCallback>,
    bundle: Option<&ProofBundle>,
) -> Section {
    let mut facts = vec![
        Fact::mono("Deal", view.verification.negotiation_id),
        Fact::mono("Terms", view.verification.request.terms_hash),
        Fact::some_mono("Proof hash", callback.map(|callback| callback.proof_hash)),
        Fact::some_mono("Proof signature", callback.map(|callback| callback.proof_signature)),
        Fact::some("Key id", bundle.map(|bundle| cut(&bundle.verifier.kid))),
        Fact::some_mono("Head of the action chain", bundle.and_then(|b| b.action_log_head)),
        Fact::some("Chain", bundle.map(|bundle| cut(&bundle.chain_alg))),
        Fact::some_mono("Extracted content", bundle.and_then(|b| b.extracted_content_sha256)),
    ];
    let artifacts = bundle.iter().flat_map(|bundle| &bundle.artifact_hashes);
    facts.extend(artifacts.map(|hash| Fact::mono("Artifact", hash)));
    Section::new("Hashes and signatures", facts)
}

fn steps(log: &[Value], attachments: &Attachments<'_>) -> Vec<Step> {
    log.iter().map(|action| Step::of(action, attachments)).collect()
}

/// The beginning of a stranger's text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
