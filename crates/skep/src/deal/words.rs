//! What the commands about deals have in common: how they print, read files and explain a no.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use skep_base::{Amount, Asset, Money, Timestamp};
use skep_sdk::{Client, Error};
use skep_wire::settle::DOCUMENT_LEN_MAX;

use super::span::When;

/// One JSON document on a line.
pub fn print_json(out: &mut dyn Write, document: &impl Serialize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(document)?)?;
    Ok(())
}

/// A value as the wire calls it: `VERIFIED`, `on_release`.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// What somebody else wrote, fit for a terminal: on one line, and nothing that moves the cursor or
/// turns the direction of what follows.
pub fn plain(text: &str) -> String {
    let misleads = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if misleads(c) { ' ' } else { c }).collect()
}

/// The node's own no, and what to do about it.
pub fn told(error: Error) -> anyhow::Error {
    let hint = match error.code() {
        "unknown_deal" => "see your deals with skep deal list, or sign with other --keys",
        "unknown_key" => "enter the registry first: skep agent register",
        "unknown_agent" => "the other side has to register: skep agent register",
        "escrow_funding_failed" | "insufficient_funds" => {
            "see skep wallet balance; a --dev node gives test money: skep wallet fund"
        }
        "not_your_turn" => "skep deal status tells whose turn it is",
        "negotiation_closed" | "already_settled" | "already_delivered" => {
            "skep deal status tells where it stands"
        }
        "nothing_to_dispute" => {
            "a failed verdict can be contested while the dispute window that the terms set is open"
        }
        "auto_approve_not_agreed" => "deliver without --auto-approve, and a verdict decides",
        "criteria_changed" => "deliver without that flag: what was agreed holds",
        "unknown_verifier"
        | "unknown_verifier_key"
        | "verifier_key_revoked"
        | "verifier_key_expired" => {
            "register the key of this --data-dir: skep verifier register --engine human"
        }
        "not_a_reviewer" => "the node's operator names reviewers: skep up --accredit ADDRESS",
        "tier_too_low" => "an agent's tier grows with the work it is known for",
        "unknown_session" => "open one with skep session open, or sign with other --keys",
        "budget_spent" => "close the session, and open one with a higher --max-cost",
        "session_open" => "skep session close ends it; its proof is there then",
        "session_over" => "skep session show tells why; open another with skep session open",
        "not_settled" => "skep deal status tells what comes before that",
        "connection" => "is it running (skep up --dev)? say another with --node URL",
        _ => return error.into(),
    };
    anyhow!("{error}; {hint}")
}

/// What a call gave, or why not.
pub trait Told<T> {
    fn told(self) -> Result<T>;
}

impl<T> Told<T> for Result<T, Error> {
    fn told(self) -> Result<T> {
        self.map_err(told)
    }
}

/// What there may not be: `None` if the node says that.
pub fn if_known<T>(answer: Result<T, Error>, absent: &str) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == absent => Ok(None),
        Err(error) => Err(told(error)),
    }
}

/// A time by the node's clock, which is the one that deadlines are held against.
pub async fn by_node_clock(client: &Client, when: Option<When>) -> Result<Option<Timestamp>> {
    Ok(match when {
        None => None,
        Some(When::At(time)) => Some(time),
        Some(When::In(span)) => Some(client.log_head().await.told()?.head.at.plus(span.0)),
    })
}

/// The amount, if it is in the deal's currency.
pub fn in_asset(money: Money, asset: Asset, flag: &str) -> Result<Amount> {
    match money.asset == asset {
        true => Ok(money.amount),
        false => bail!("{flag} is in {}, and the deal is in {asset}", money.asset),
    }
}

/// A message from a file or, for `-`, from stdin: sent on exactly as it is written.
pub fn message(path: &Path) -> Result<Box<RawValue>> {
    let mut bytes = Vec::new();
    let limit = DOCUMENT_LEN_MAX as u64 + 1;
    let read = match path == Path::new("-") {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    let name = path.display();
    read.with_context(|| format!("{name} cannot be read"))?;
    if bytes.len() > DOCUMENT_LEN_MAX {
        bail!("{name} is longer than {} KiB", DOCUMENT_LEN_MAX / 1024);
    }
    skep_base::json::parse(&bytes).with_context(|| format!("{name} is not a message"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))?;
    Ok(RawValue::from_string(text)?)
}

/// A JSON object on the command line.
pub fn json_object(text: &str) -> Result<Value, String> {
    match skep_base::json::parse(text.as_bytes()) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err("a JSON object is wanted, such as '{\"status\": 200}'".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_words_stay_on_their_line() {
        assert_eq!(plain("a\nb\u{1b}[2Jc\u{202e}d ü"), "a b [2Jc d ü");
    }
}
