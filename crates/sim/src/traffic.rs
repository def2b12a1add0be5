//! What is counted in a run: what each node receives, and what is sent, by kind.

use std::{collections::BTreeMap, fmt};

use skep_wire::swarm::{Message, Signed, Step, Subject, Word};

/// Messages that a node has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// About tasks.
    pub work: u32,
    pub work_bytes: u64,
    /// Handshakes, keepalives, elections, successions.
    pub upkeep: u32,
}

/// What is counted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub messages: u64,
    pub bytes: u64,
    pub lost: u64,
    pub forged: u64,
    pub refused: u64,
    pub restarts: u64,
    /// Orders that somebody took in a failed leader's place.
    pub in_place: u64,
    /// Elections that honest nodes know, and those whose ballots were counted again.
    pub elections: u64,
    pub recounted: u64,
}

/// Messages of one kind and their bytes, what is attached included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub messages: u64,
    pub bytes: u64,
}

/// Everything that was sent in a run, by method, and by word for certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic(pub BTreeMap<String, Sum>);

impl Traffic {
    pub(crate) fn add(&mut self, message: &Signed, copies: u64) {
        let sum = self.0.entry(kind(&message.message)).or_default();
        sum.messages += copies;
        sum.bytes += copies * message.wire_len() as u64;
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(kind, sum)| {
            writeln!(f, "{:>9} messages {:>12} bytes  {kind}", sum.messages, sum.bytes)
        })
    }
}

fn kind(message: &Message) -> String {
    let Message::Certificate(certificate) = message else {
        return message.method().to_owned();
    };
    let about = match certificate.subject {
        Subject::Election { .. } => "election",
        Subject::Succession { .. } => "succession",
        Subject::Plan { .. } => "plan",
        Subject::Result { .. } => "result",
    };
    let word = match &certificate.word {
        Word::Propose { .. } => "propose",
        Word::Sign { step: Step::Prepare, .. } => "sign prepare",
        Word::Sign { step: Step::Commit, .. } => "sign commit",
        Word::Bundle { step: Step::Prepare, .. } => "bundle prepare",
        Word::Bundle { step: Step::Commit, .. } => "bundle commit",
        Word::NextView { prepared: None } => "next view",
        Word::NextView { prepared: Some(_) } => "next view, prepared",
    };
    format!("certificate: {about}, {word}")
}
