//! `skep keys rotate`: a new identity key, in steps that a crash between them does not undo.
//!
//! The key is in the file before a node hears of it, and becomes the current one after the node
//! has it. Whatever happened between, running the command again asks the node and goes on.

use std::{future::Future, io::Write};

use serde::Serialize;
use skep_base::{AgentId, Timestamp, ed25519::PublicKey};
use skep_wire::identity::{Agent, KeyChange};

use super::{CommandError, Keys, print, print_document, print_json, random, read_phrase};
use crate::{
    Keyring, Passphrase, Phrase, PublicInfo,
    passphrase::{self, Ask},
};

/// The node that is told about a new key.
pub trait Submit {
    /// `POST /v1/agents/{id}/keys`
    fn change_keys(
        &self,
        agent: AgentId,
        change: KeyChange,
    ) -> impl Future<Output = Result<Agent, String>> + Send;

    /// `GET /v1/agents/{id}`
    fn agent(&self, agent: AgentId) -> impl Future<Output = Result<Agent, String>> + Send;
}

#[derive(Clone, Debug)]
pub struct Rotate {
    pub step: RotateStep,
    /// The key that a recovery replaces; what the node names, if absent.
    pub old_key: Option<PublicKey>,
    /// Prints the signed change instead of sending it, and asks no node.
    pub offline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotateStep {
    /// With wallet and old key: at once.
    Rotate,
    /// With the recovery phrase, from a descriptor or the terminal: after a delay.
    Recover { phrase_fd: Option<u32> },
    /// A node has accepted what `offline` printed.
    Accepted,
    /// Forgets the staged key.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Rotated,
    Waiting,
    Dropped,
}

#[derive(Serialize)]
struct Answer {
    state: Outcome,
    #[serde(flatten)]
    info: PublicInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    staged_key: Option<PublicKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    money_frozen_until: Option<Timestamp>,
}

/// Changes the identity key. `node` may be absent with `offline`, and to finish what is accepted.
pub async fn rotate<S: Submit>(
    keys: &Keys,
    options: &Rotate,
    node: Option<&S>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    Keyring::read_public_info(&keys.path)?;
    let node = if options.offline { None } else { node };
    if node.is_none() && !options.offline && options.step != RotateStep::Accepted {
        return Err(CommandError::NoNode);
    }
    let _lock = Keyring::lock(&keys.path)?;
    let passphrase = passphrase::read(keys.passphrase_fd, Ask::Once)?;
    let keyring = Keyring::open(&keys.path, &passphrase)?;
    let mut session = Session { keys, keyring, passphrase };
    match options.step {
        RotateStep::Accepted => {
            session.promote()?;
            session.report(Outcome::Rotated, None, out)
        }
        RotateStep::Drop => session.forget(node, out).await,
        RotateStep::Rotate => session.replace(node, None, None, out).await,
        RotateStep::Recover { phrase_fd } => {
            let phrase = read_phrase(phrase_fd)?;
            session.replace(node, Some(&phrase), options.old_key, out).await
        }
    }
}

struct Session<'a> {
    keys: &'a Keys,
    keyring: Keyring,
    passphrase: Passphrase,
}

impl Session<'_> {
    async fn replace<S: Submit>(
        &mut self,
        node: Option<&S>,
        phrase: Option<&Phrase>,
        old_key: Option<PublicKey>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let record = self.ask(node).await?;
        // The answer to an earlier run may have been lost.
        if let Some(outcome) = record.as_ref().and_then(|record| self.outcome(record)) {
            return self.finish(outcome, record.as_ref(), out);
        }
        if self.keyring.pending_key().is_none() {
            self.stage(phrase, record.as_ref())?;
        }
        let change = match phrase {
            None => self.keyring.rotation(self.keys.now)?,
            Some(phrase) => {
                let old_key = old_key
                    .or_else(|| record.as_ref().and_then(last_key))
                    .unwrap_or(self.keyring.public_key());
                self.keyring.recovery(phrase, self.keys.now, old_key)?
            }
        };
        let Some(node) = node else {
            return print_document(self.keys, out, &change);
        };
        let refused = |reason| CommandError::NotConfirmed { reason };
        let answer = node.change_keys(self.keyring.agent_id(), change).await;
        let record = answer.map_err(refused)?;
        let outcome = self.outcome(&record);
        let outcome = outcome.ok_or_else(|| refused("it answered with another key".to_owned()))?;
        self.finish(outcome, Some(&record), out)
    }

    fn stage(
        &mut self,
        phrase: Option<&Phrase>,
        record: Option<&Agent>,
    ) -> Result<(), CommandError> {
        let path = &self.keys.path;
        match phrase {
            None => self.keyring.stage_rotation(path, &self.passphrase, *random()?)?,
            Some(phrase) => {
                let used: Vec<_> = record
                    .into_iter()
                    .flat_map(|record| &record.keys)
                    .map(|key| key.public_key)
                    .collect();
                self.keyring.stage_recovery(path, &self.passphrase, phrase, &used)?
            }
        };
        Ok(())
    }

    async fn forget<S: Submit>(
        &mut self,
        node: Option<&S>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let record = self.ask(node).await?;
        if record.as_ref().and_then(|record| self.outcome(record)).is_some() {
            return Err(CommandError::InUse);
        }
        self.keyring.drop_rotation(&self.keys.path, &self.passphrase)?;
        self.report(Outcome::Dropped, None, out)
    }

    async fn ask<S: Submit>(&self, node: Option<&S>) -> Result<Option<Agent>, CommandError> {
        let agent = self.keyring.agent_id();
        match node {
            None => Ok(None),
            Some(node) => match node.agent(agent).await {
                Ok(record) => Ok(Some(record)),
                Err(reason) => Err(CommandError::Node { agent, reason }),
            },
        }
    }

    /// What became of the staged key at the node; `None` if the node does not know it.
    fn outcome(&self, record: &Agent) -> Option<Outcome> {
        let staged = self.keyring.pending_key()?;
        let waiting = record.pending_recovery.as_ref();
        if record.current_key == Some(staged) {
            Some(Outcome::Rotated)
        } else if waiting.is_some_and(|recovery| recovery.new_key == staged) {
            Some(Outcome::Waiting)
        } else {
            None
        }
    }

    fn finish(
        &mut self,
        outcome: Outcome,
        record: Option<&Agent>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        if outcome == Outcome::Rotated {
            self.promote()?;
        }
        self.report(outcome, record, out)
    }

    fn promote(&mut self) -> Result<(), CommandError> {
        Ok(self.keyring.promote_rotation(&self.keys.path, &self.passphrase)?)
    }

    fn report(
        &self,
        state: Outcome,
        record: Option<&Agent>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let recovery = record.and_then(|record| record.pending_recovery.as_ref());
        let answer = Answer {
            state,
            info: self.keyring.public_info(),
            staged_key: self.keyring.pending_key(),
            effective_at: recovery.map(|recovery| recovery.effective_at),
            money_frozen_until: record.and_then(|record| record.money_frozen_until),
        };
        if self.keys.json {
            return print_json(out, &answer);
        }
        let mut text = match (state, answer.effective_at) {
            (Outcome::Rotated, _) => {
                format!("The agent now signs with {}.\n", answer.info.public_key)
            }
            (Outcome::Waiting, Some(time)) => format!(
                "The node takes the new key on {time}, unless the old key or the wallet objects.\n\
                 Run `skep keys rotate` again after that.\n"
            ),
            (Outcome::Waiting, None) => "The new key waits at the node.\n".to_owned(),
            (Outcome::Dropped, _) => "The staged key is forgotten.\n".to_owned(),
        };
        if let Some(until) = answer.money_frozen_until {
            text.push_str(&format!("No money leaves its wallet until {until}.\n"));
        }
        print(out, &text)
    }
}

/// The key that a recovery replaces: the current one, or the last before it was revoked.
fn last_key(record: &Agent) -> Option<PublicKey> {
    record.current_key.or_else(|| record.keys.last().map(|key| key.public_key))
}
