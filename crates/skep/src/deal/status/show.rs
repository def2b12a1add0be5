//! A deal's standing, one thing on a line.

use std::io::Write;

use anyhow::Result;
use serde_json::Value;
use skep_base::{AgentId, Amount, Money};
use skep_wire::settle::{
    Agreement, EscrowHold, EscrowSettlement, Hints, RemainderPolicy, Verification,
};

use super::{Standing, You};
use crate::deal::words::{plain, word};

pub fn standing(standing: &Standing, out: &mut dyn Write) -> Result<()> {
    let Standing { negotiation, agreement, you, .. } = standing;
    line(out, "deal", standing.negotiation_id)?;
    let sides = agreement.as_ref().map(|a| (a.requester, a.provider));
    let sides = sides.or(negotiation.as_ref().map(|n| (n.requester, n.provider)));
    if let Some((requester, provider)) = sides {
        let side = |agent: AgentId, role| match *you == role {
            true => format!("{agent} (you)"),
            false => agent.to_string(),
        };
        line(out, "requester", side(requester, You::Requester))?;
        line(out, "provider", side(provider, You::Provider))?;
    }
    if let Some(work) = work(standing) {
        line(out, "work", plain(&work))?;
    }
    if let Some(talks) = negotiation {
        let offers = if talks.rounds == 1 { "offer" } else { "offers" };
        let status = format!("{} after {} {offers}", word(&talks.status), talks.rounds);
        line(out, "negotiation", format!("{status}, {}", talks.price))?;
        if agreement.is_none() {
            line(out, "checks", checks(&talks.criteria))?;
        }
    }
    if let Some(agreement) = agreement {
        of_agreement(agreement, out)?;
    }
    for verification in &standing.verifications {
        of_verification(verification, out)?;
    }
    if let Some(receipt) = &standing.settlement {
        of_settlement(&receipt.settlement, out)?;
    }
    line(out, "next", &standing.next)
}

pub fn line(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> Result<()> {
    Ok(writeln!(out, "{name:<14} {value}")?)
}

/// The work as it was agreed on, or as it was first asked for.
fn work(standing: &Standing) -> Option<String> {
    let agreed = standing.agreement.as_ref().map(|a| &a.terms["agreed"]);
    let asked = standing.negotiation.as_ref().and_then(|n| n.messages.first());
    let words = agreed.or(asked.map(|message| &message["request"]))?;
    let text = |name: &str| words.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{}: {}", text("service_type"), text("description")))
}

/// What is checked, and by whom.
pub fn checks(hints: &Hints) -> String {
    let mut parts = vec![hints.kind.clone().unwrap_or_else(|| "as can be checked".to_owned())];
    let named =
        [("url", &hints.url), ("selector", &hints.selector), ("expects", &hints.expected_content)];
    for (name, value) in named {
        parts.extend(value.as_ref().map(|value| format!("{name} {:?}", plain(value))));
    }
    if hints.fingerprint_delta == Some(true) {
        parts.push("must have changed".to_owned());
    }
    parts.extend(hints.custom.as_ref().map(|custom| format!("custom {custom}")));
    parts.join(", ")
}

fn of_agreement(agreement: &Agreement, out: &mut dyn Write) -> Result<()> {
    let status = word(&agreement.status);
    let since = agreement.accepted_at;
    let due = agreement.deadline;
    line(out, "agreement", format!("{status}, accepted {since}, due {due}"))?;
    line(out, "checks", checks(&agreement.criteria))?;
    if let Some(at) = agreement.delivered_at {
        line(out, "delivered", at)?;
    }
    line(out, "escrow", hold(&agreement.escrow))?;
    if agreement.linked {
        line(out, "linked", "both sides have the same operator: never scored")?;
    }
    Ok(())
}

/// What is held, and what beyond it.
pub fn hold(hold: &EscrowHold) -> String {
    let money = |amount: Amount| Money { amount, asset: hold.currency }.to_string();
    let (status, held) = (word(&hold.status), money(hold.amount_minor));
    let mut parts = vec![match hold.remainder_minor.is_zero() {
        true => format!("{status}, {held}, the whole price"),
        false => format!("{status}, {held} of {}", money(hold.price_minor)),
    }];
    if !hold.remainder_minor.is_zero() {
        let when = match hold.remainder_policy {
            RemainderPolicy::OnRelease => "paid on release",
            RemainderPolicy::Reserve => "set aside",
            RemainderPolicy::Advance => "advanced to the provider",
        };
        parts.push(format!("{} {when}", money(hold.remainder_minor)));
    }
    for (amount, what) in [
        (hold.fee_reserved_minor, "for the fee"),
        (hold.verifier_price_minor, "for the verifier"),
        (hold.subsidy_minor, "fronted by the platform"),
    ] {
        if !amount.is_zero() {
            parts.push(format!("{} {what}", money(amount)));
        }
    }
    parts.join(", ")
}

pub fn of_verification(verification: &Verification, out: &mut dyn Write) -> Result<()> {
    // A reviewer is nobody in particular until it has signed.
    let signer =
        verification.callback.as_ref().and_then(|c| c.pointer("/proof_bundle/verifier/id"));
    let signer = signer.and_then(Value::as_str).map(plain);
    let by = match verification.verifier.map(|v| v.to_string()).or(signer) {
        Some(verifier) => format!("by {verifier}"),
        None => "by a reviewer".to_owned(),
    };
    let number = verification.verification_id.attempt();
    let status = word(&verification.status);
    line(out, &format!("verification {number}"), format!("{status}, {} {by}", verification.kind))?;
    line(out, "", verification.verification_id)?;
    if let Some(reason) = &verification.failure_reason {
        line(out, "", plain(reason))?;
    }
    if let Some(page) = &verification.proof_page {
        line(out, "", plain(page))?;
    }
    Ok(())
}

pub fn of_settlement(settled: &EscrowSettlement, out: &mut dyn Write) -> Result<()> {
    let money = |amount: Amount| Money { amount, asset: settled.currency }.to_string();
    let (released, refunded) = (money(settled.released_minor), money(settled.refunded_minor));
    let status = word(&settled.status);
    let at = settled.settled_at;
    line(out, "settlement", format!("{status} at {at}, rests on: {}", settled.method))?;
    line(out, "", format!("{released} to the provider, {refunded} back to the requester"))?;
    if let Some(fee) = &settled.platform_fee {
        let split = (money(fee.split.buyer_minor), money(fee.split.seller_minor));
        let total = money(fee.amount_minor);
        line(out, "", format!("fee {total}: {} by the buyer, {} by the seller", split.0, split.1))?;
    }
    if !settled.verifier_paid_minor.is_zero() {
        line(out, "", format!("{} to the verifier", money(settled.verifier_paid_minor)))?;
    }
    if let Some(hash) = &settled.proof_hash {
        line(out, "", format!("proof {hash}"))?;
    }
    Ok(())
}
