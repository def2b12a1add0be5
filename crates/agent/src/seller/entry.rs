//! The lines of a seller's journal, and what they come to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Amount, Hash32, Timestamp, id::ListingId};
use skep_wire::{
    hire::{EscrowTerms, HireEnvelope, PaymentMode, Usdc, Verification},
    x402::{FacilitatorRequest, SettleResponse},
};

/// How a hire is paid.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Free,
    /// Verified before the work, taken after it.
    Direct(Box<FacilitatorRequest>),
    /// Held before the work.
    Escrow(Box<(FacilitatorRequest, EscrowTerms)>),
    /// Of a hire that is over, in memory and in a journal that was rewritten.
    Over,
}

/// A hire as it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hire {
    /// Of its receipt.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// The caller's version, for the answer.
    pub(crate) protocol: String,
    pub(crate) capability: String,
    pub(crate) buyer: AgentId,
    /// The wallet that pays, where that is not the buyer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payer: Option<AgentId>,
    /// Of a signed hire.
    pub(crate) nonce: Option<String>,
    pub(crate) signed: Option<(Hash32, HireEnvelope)>,
    /// A repetition must have the same.
    pub(crate) body_hash: Hash32,
    pub(crate) params: Value,
    pub(crate) params_hash: Hash32,
    pub(crate) payee: Option<AgentId>,
    pub(crate) price: Amount,
    pub(crate) mode: PaymentMode,
    pub(crate) listing_id: ListingId,
    pub(crate) max_latency_ms: u64,
    pub(crate) way: Way,
    /// When the buyer's permission to take its money ends, in Unix seconds.
    pub(crate) valid_before_s: Option<u64>,
    pub(crate) callback_url: Option<String>,
    pub(crate) job_id: Option<String>,
    pub(crate) quote_token: Option<String>,
    /// The name that the payer gave its payment.
    pub(crate) identifier: Option<String>,
}

impl Hire {
    /// Whose wallet pays.
    pub(crate) fn payer(&self) -> AgentId {
        self.payer.unwrap_or(self.buyer)
    }

    /// Whether both are the same buyer's and ask for the same, however they are paid.
    pub(crate) fn asks_the_same(&self, other: &Hire) -> bool {
        self.buyer == other.buyer
            && self.capability == other.capability
            && self.params_hash == other.params_hash
    }

    /// What is left of a hire that is over: no parameters, no payment.
    pub(crate) fn slim(&self) -> Hire {
        let signed = self.signed.as_ref().map(|(hash, envelope)| {
            let statement = Value::Null;
            (*hash, HireEnvelope { statement, ..envelope.clone() })
        });
        Hire { params: Value::Null, way: Way::Over, signed, ..self.clone() }
    }
}

/// A result, before anybody has paid for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) at: Timestamp,
    pub(crate) latency_ms: u64,
    pub(crate) result: Value,
    pub(crate) verification: Verification,
    /// Of the result as JSON, in bytes.
    pub(crate) len: usize,
}

/// Why there is no result, as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
}

/// A quote that was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) token: String,
    pub(crate) buyer: AgentId,
    pub(crate) capability: String,
    pub(crate) price: Usdc,
    pub(crate) params_hash: Hash32,
    pub(crate) expires_at: Timestamp,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(crate) enum Entry {
    Started {
        hire: Box<Hire>,
    },
    Held {
        id: String,
        at: Timestamp,
        settled: SettleResponse,
    },
    Produced {
        id: String,
        made: Box<Made>,
    },
    Settled {
        id: String,
        at: Timestamp,
        settled: SettleResponse,
    },
    /// The buyer's money could not be taken, so that it does not get the result.
    Withheld {
        id: String,
        at: Timestamp,
        failure: Failure,
    },
    /// The node has the receipt.
    Receipted {
        id: String,
        at: Timestamp,
    },
    /// The node will never have it.
    ReceiptRefused {
        id: String,
        at: Timestamp,
        code: String,
    },
    Failed {
        id: String,
        at: Timestamp,
        failure: Failure,
    },
    CalledBack {
        id: String,
        at: Timestamp,
        delivered: bool,
    },
    /// What is left of a free call that was long ago.
    FreeUsed {
        at: Timestamp,
        buyer: AgentId,
        capability: String,
    },
    Clarified {
        at: Timestamp,
        buyer: AgentId,
        signed: bool,
        nonce: String,
        asked: Hash32,
        answer: Value,
        quotes: Vec<Kept>,
    },
}

impl Entry {
    /// The hire that it is about.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Entry::Started { hire } => Some(&hire.id),
            Entry::Held { id, .. }
            | Entry::Produced { id, .. }
            | Entry::Settled { id, .. }
            | Entry::Withheld { id, .. }
            | Entry::Receipted { id, .. }
            | Entry::ReceiptRefused { id, .. }
            | Entry::Failed { id, .. }
            | Entry::CalledBack { id, .. } => Some(id),
            Entry::FreeUsed { .. } | Entry::Clarified { .. } => None,
        }
    }
}

/// What a hire has come to.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) hire: Arc<Hire>,
    pub(crate) held: Option<SettleResponse>,
    pub(crate) made: Option<Arc<Made>>,
    /// True also when memory has let the result go.
    pub(crate) had_result: bool,
    pub(crate) settled: Option<SettleResponse>,
    pub(crate) withheld: Option<Failure>,
    /// The node has the receipt, or said that it never will.
    pub(crate) receipted: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) called_back: bool,
    /// The buyer is answered before everything is done: the node is away.
    pub(crate) answerable: bool,
}

/// What is to be done next for a hire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Hold,
    Run,
    Settle,
    Submit,
    CallBack,
    Nothing,
}

impl Known {
    pub(crate) fn new(hire: Hire) -> Known {
        Known {
            hire: Arc::new(hire),
            held: None,
            made: None,
            had_result: false,
            settled: None,
            withheld: None,
            receipted: false,
            failure: None,
            called_back: false,
            answerable: false,
        }
    }

    pub(crate) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Held { settled, .. } => self.held = Some(settled),
            Entry::Produced { made, .. } => {
                self.had_result = true;
                self.made = Some(Arc::from(made));
            }
            Entry::Settled { settled, .. } => {
                self.withheld = None;
                self.receipted |= settled.receipt_entered;
                self.settled = Some(settled);
            }
            Entry::Withheld { failure, .. } => self.withheld = Some(failure),
            Entry::Receipted { .. } | Entry::ReceiptRefused { .. } => self.receipted = true,
            Entry::Failed { failure, .. } => self.failure = Some(failure),
            Entry::CalledBack { .. } => self.called_back = true,
            Entry::Started { .. } | Entry::FreeUsed { .. } | Entry::Clarified { .. } => {}
        }
    }

    pub(crate) fn next(&self) -> Next {
        let is_over = self.failure.is_some() || self.withheld.is_some();
        match &self.hire.way {
            _ if is_over => self.last(),
            Way::Over => self.last(),
            Way::Escrow(_) if self.held.is_none() => Next::Hold,
            _ if !self.had_result => Next::Run,
            Way::Direct(_) if self.settled.is_none() => Next::Settle,
            _ if !self.receipted => Next::Submit,
            _ => self.last(),
        }
    }

    fn last(&self) -> Next {
        match self.hire.callback_url.is_some() && !self.called_back {
            true => Next::CallBack,
            false => Next::Nothing,
        }
    }

    /// Whether its result is withheld and can still be paid for.
    pub(crate) fn is_payable(&self, now: Timestamp) -> bool {
        let now_s = u64::try_from(now.as_ms() / 1000).unwrap_or(0);
        self.withheld.is_some() && self.hire.valid_before_s.is_none_or(|ends| now_s < ends)
    }

    /// Whether nobody will ever get its result.
    pub(crate) fn is_lost(&self, now: Timestamp) -> bool {
        self.failure.is_some() || (self.withheld.is_some() && !self.is_payable(now))
    }

    /// Why there is no result, if that is certain.
    pub(crate) fn why_not(&self) -> Option<&Failure> {
        self.failure.as_ref().or(self.withheld.as_ref())
    }

    /// Whether the buyer can be answered.
    pub(crate) fn is_answerable(&self) -> bool {
        self.answerable || self.why_not().is_some() || self.receipted
    }

    /// What paid for it.
    pub(crate) fn payment(&self) -> Option<&SettleResponse> {
        self.settled.as_ref().or(self.held.as_ref())
    }
}
