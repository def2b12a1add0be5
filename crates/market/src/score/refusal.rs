//! Why somebody is not shown a score, or cannot bring one.

use serde::{Deserialize, Serialize};
use skep_base::AgentId;
use skep_score::import;

use crate::{Failure, Refusal, answer::Stop};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum ScoreRefusal {
    /// Decision 38.
    #[error("{agent} is new: with fewer than ten sessions its score is shown to itself only")]
    NotPublished { agent: AgentId },
    #[error("the keys of {platform} could not be fetched: {detail}")]
    IssuerUnreachable { platform: String, detail: String },
    #[error("what is agreed with {platform} has changed at this very moment: import it again")]
    AgreementChanged { platform: String },
    #[error("{detail}")]
    Import { word: ImportWord, detail: String },
}

/// What is wrong with an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportWord {
    Unreadable,
    BadPublication,
    BadPassport,
    OtherPassport,
    OtherAgent,
    Taken,
    Revoked,
    Disputed,
    TooYoung,
    OwnExport,
    Repeated,
    Older,
}

impl From<import::Refusal> for ScoreRefusal {
    fn from(refusal: import::Refusal) -> ScoreRefusal {
        use import::Refusal as Of;
        let word = match &refusal {
            Of::Unreadable { .. } => ImportWord::Unreadable,
            Of::BadPublication { .. } => ImportWord::BadPublication,
            Of::BadPassport => ImportWord::BadPassport,
            Of::OtherPassport { .. } => ImportWord::OtherPassport,
            Of::OtherAgent => ImportWord::OtherAgent,
            Of::Taken => ImportWord::Taken,
            Of::Revoked => ImportWord::Revoked,
            Of::Disputed { .. } => ImportWord::Disputed,
            Of::TooYoung => ImportWord::TooYoung,
            Of::OwnExport => ImportWord::OwnExport,
            Of::Repeated => ImportWord::Repeated,
            Of::Older => ImportWord::Older,
        };
        ScoreRefusal::Import { word, detail: refusal.to_string() }
    }
}

impl From<ScoreRefusal> for Stop {
    fn from(reason: ScoreRefusal) -> Stop {
        Stop::Refused(Refusal::Score { reason })
    }
}

impl From<ScoreRefusal> for Failure {
    fn from(reason: ScoreRefusal) -> Failure {
        Failure::Refused(Refusal::Score { reason })
    }
}
