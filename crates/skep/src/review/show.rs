//! A reviewer's file for people: everything that 7.3 names.

use std::io::Write;

use anyhow::Result;
use serde_json::Value;
use skep_base::hash::sha256;
use skep_wire::settle::{Artifact, ReviewFile, ServiceDelivery, VerificationCallback};

use crate::deal::{
    show::{checks, hold, line, of_settlement},
    words::{plain, word},
};

/// Lines of a delivered text that are shown; `--json` has all of it.
const LINES_MAX: usize = 60;
/// Characters of one such line.
const LINE_LEN_MAX: usize = 200;

pub fn file(file: &ReviewFile, out: &mut dyn Write) -> Result<()> {
    let ReviewFile { review, agreement, .. } = file;
    let until = match review.deadline {
        Some(at) => format!("until {at}"),
        None => "without a deadline".to_owned(),
    };
    let status = word(&review.status);
    line(out, "review", format!("{status} since {}, {until}", review.opened_at))?;
    line(out, "cause", cause(&review.cause))?;
    line(out, "deal", agreement.negotiation_id)?;
    line(out, "requester", agreement.requester)?;
    line(out, "provider", agreement.provider)?;
    line(out, "price", agreement.price)?;
    let agreed = &agreement.terms["agreed"];
    let text = |name: &str| agreed.get(name).and_then(Value::as_str).unwrap_or_default();
    let work = format!("{}: {}", text("service_type"), text("description"));
    line(out, "work", plain(&work))?;
    line(out, "checks", checks(&agreement.criteria))?;
    line(out, "due", agreement.deadline)?;
    line(out, "terms", agreement.terms_hash)?;
    line(out, "escrow", hold(&agreement.escrow))?;
    match &file.delivery {
        None => line(out, "delivery", "none")?,
        Some(delivery) => of_delivery(delivery, out)?,
    }
    for callback in &file.callbacks {
        of_callback(callback, out)?;
    }
    if let Some(status) = &file.last_status {
        line(out, "verdict before", word(status))?;
    }
    for statement in &file.statements {
        line(out, "statement", plain(statement))?;
    }
    if let Some(receipt) = &file.settlement {
        return of_settlement(&receipt.settlement, out);
    }
    let id = agreement.negotiation_id;
    let how = "--release|--refund|--split MONEY --reason TEXT";
    line(out, "next", format!("You decide: skep review decide {id} {how}"))
}

fn cause(word: &str) -> &str {
    match word {
        "timeout" => "timeout: the verifier did not answer in time",
        "error" => "error: no verifier could find out",
        "human" => "human: the terms want a person's judgement",
        "dispute" => "dispute: one side contests the verdict",
        "objection" => "objection: the requester does not take the provider's word",
        "no_verifier" => "no_verifier: nobody independent has the engine",
        other => other,
    }
}

fn of_delivery(raw: &Value, out: &mut dyn Write) -> Result<()> {
    let Ok(message) = serde_json::from_value::<ServiceDelivery>(raw.clone()) else {
        return line(out, "delivery", raw);
    };
    let delivery = &message.delivery;
    let words = format!("{}: {}", word(&delivery.status), plain(&delivery.description));
    line(out, "delivery", words.trim_end_matches(": "))?;
    for (at, artifact) in delivery.artifacts.iter().enumerate() {
        of_artifact(at, artifact, out)?;
    }
    if let Some(hints) = &message.verification_hints {
        line(out, "hints", checks(hints))?;
    }
    Ok(())
}

fn of_artifact(at: usize, artifact: &Artifact, out: &mut dyn Write) -> Result<()> {
    let mut parts = vec![plain(&artifact.kind)];
    parts.extend(artifact.uri.as_ref().map(|uri| plain(uri)));
    if let Some(content) = &artifact.content {
        let hash = sha256(content.as_bytes());
        parts.push(format!("{} bytes, SHA-256 {hash}", content.len()));
        match artifact.hash {
            Some(declared) if declared == hash => parts.push("as declared".to_owned()),
            Some(declared) => parts.push(format!("but declared as {declared}")),
            None => {}
        }
    } else if let Some(declared) = artifact.hash {
        parts.push(format!("declared SHA-256 {declared}"));
    }
    line(out, &format!("artifact {at}"), parts.join(", "))?;
    match &artifact.content {
        Some(content) => quote(content, out),
        None => Ok(()),
    }
}

/// Text of a stranger: its lines, cut where they get too many.
fn quote(text: &str, out: &mut dyn Write) -> Result<()> {
    for (at, words) in text.lines().enumerate() {
        if at == LINES_MAX {
            return line(out, "", "| … --json shows all of it");
        }
        let shown: String = plain(words).chars().take(LINE_LEN_MAX).collect();
        line(out, "", format!("| {shown}"))?;
    }
    Ok(())
}

fn of_callback(raw: &Value, out: &mut dyn Write) -> Result<()> {
    let Ok(callback) = serde_json::from_value::<VerificationCallback>(raw.clone()) else {
        return line(out, "finding", raw);
    };
    let bundle = callback.proof_bundle.as_ref();
    let outcome = bundle.and_then(|b| b.get("outcome")).and_then(Value::as_str);
    let outcome = outcome.unwrap_or(if callback.passed { "passed" } else { "not passed" });
    let by = bundle.and_then(|b| b.pointer("/verifier/id")).and_then(Value::as_str);
    let (by, at) = (by.unwrap_or("an unnamed verifier"), callback.completed_at);
    line(out, "finding", format!("{} by {} at {at}", plain(outcome), plain(by)))?;
    if let Some(reason) = &callback.failure_reason {
        line(out, "", plain(reason))?;
    }
    for action in &callback.action_log {
        let text = |name: &str| plain(action.get(name).and_then(Value::as_str).unwrap_or(""));
        let ok = action.get("success").and_then(Value::as_bool).unwrap_or(false);
        let mark = if ok { "" } else { " (failed)" };
        let words = [text("action"), text("url"), text("data_snippet")];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
        line(out, "", format!("{}{mark}", words.join(" ")))?;
    }
    if let Some(content) = &callback.extracted_content {
        line(out, "extracted", format!("{} bytes", content.len()))?;
        quote(content, out)?;
    }
    Ok(())
}
