//! 4.1: an offer goes back and forth until it is accepted or declined.

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::settle::{NegotiationStatus, Role};

/// Offers of one negotiation, the first one included (decision 23).
pub const ROUNDS_MAX: u8 = 10;

/// Why nothing came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decline {
    /// The one who was asked said no.
    Rejected,
    /// The one who offered took it back.
    Withdrawn,
    /// Nobody answered in time.
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// By a negotiation request (3.1): the provider is asked.
    Pending,
    /// By a counter-offer (3.2): the other side is asked.
    Countered,
    Accepted,
    Declined(Decline),
}

/// A negotiation without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Talks {
    pub state: State,
    /// Whose answer is awaited.
    pub turn: Role,
    pub rounds: u8,
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Accept { by: Role },
    Reject { by: Role },
    Counter { by: Role, expires_at: Timestamp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("it is the other side's turn to answer")]
    NotYourTurn,
    #[error("the negotiation is over")]
    Closed,
    #[error("the offer expired at {expired_at}")]
    Expired { expired_at: Timestamp },
    #[error("after {ROUNDS_MAX} offers only yes or no is left")]
    TooManyRounds,
}

impl Talks {
    /// The requester has asked.
    pub fn open(expires_at: Timestamp) -> Talks {
        Talks { state: State::Pending, turn: Role::Provider, rounds: 1, expires_at }
    }

    /// What it is to anybody who looks now: an offer expires without anyone doing anything.
    pub fn state_at(&self, now: Timestamp) -> State {
        match self.state {
            State::Pending | State::Countered if now >= self.expires_at => {
                State::Declined(Decline::Expired)
            }
            state => state,
        }
    }

    pub fn status_at(&self, now: Timestamp) -> NegotiationStatus {
        match self.state_at(now) {
            State::Pending => NegotiationStatus::Pending,
            State::Countered => NegotiationStatus::Countered,
            State::Accepted => NegotiationStatus::Accepted,
            State::Declined(_) => NegotiationStatus::Declined,
        }
    }
}

/// Advances a negotiation by one answer.
pub fn step(talks: Talks, now: Timestamp, input: Input) -> Result<Talks, Refusal> {
    use {Input::*, State::*};
    match (talks.state, input) {
        (Accepted | Declined(_), _) => Err(Refusal::Closed),
        (Pending | Countered, _) if now >= talks.expires_at => {
            Err(Refusal::Expired { expired_at: talks.expires_at })
        }
        (Pending | Countered, Accept { by }) if by == talks.turn => {
            Ok(Talks { state: Accepted, ..talks })
        }
        (Pending | Countered, Reject { by }) if by == talks.turn => {
            Ok(Talks { state: Declined(Decline::Rejected), ..talks })
        }
        // Whoever offered may think again as long as nobody has said yes.
        (Pending | Countered, Reject { .. }) => {
            Ok(Talks { state: Declined(Decline::Withdrawn), ..talks })
        }
        (Pending | Countered, Counter { by, .. }) if by == talks.turn => {
            if talks.rounds >= ROUNDS_MAX {
                return Err(Refusal::TooManyRounds);
            }
            let Counter { expires_at, .. } = input else { return Err(Refusal::NotYourTurn) };
            Ok(Talks { state: Countered, turn: by.other(), rounds: talks.rounds + 1, expires_at })
        }
        (Pending | Countered, Accept { .. } | Counter { .. }) => Err(Refusal::NotYourTurn),
    }
}

#[cfg(test)]
mod tests;
