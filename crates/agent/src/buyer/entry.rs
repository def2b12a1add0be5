//! The lines of a buyer's journal. Each is on the disk before anybody outside is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Amount, Hash32, Timestamp, id::ListingId};
use skep_wire::{
    hire::{
        CounterSignature, EscrowOrder, EscrowTerms, HireRequest, HireResponse, Listing, Quote,
        Receipt, Verification,
    },
    x402::Rail,
};

/// A hire that is about to be sent. Its id is the digest of what was signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub id: Hash32,
    pub at: Timestamp,
    pub hire: HireRequest,
    pub listing: Listing,
    /// The listing's price, or the quote's.
    pub price: Amount,
    /// How long the seller may take.
    pub patience_ms: u64,
    pub accept_unverifiable: bool,
}

/// A payment that is about to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Authorized {
    pub id: Hash32,
    pub at: Timestamp,
    pub amount: Amount,
    /// Until when it can be taken, in seconds since 1970.
    pub valid_before: i64,
    pub version: u8,
    pub payment: Value,
    /// What the seller asked for, as a facilitator is told.
    pub requirements: Value,
    pub rail: Rail,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow: Option<EscrowTerms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Hash32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    pub id: Hash32,
    pub latency_ms: u64,
    pub response: HireResponse,
    /// Checked: it is of this hire and of this result.
    pub receipt: Receipt,
}

/// The money is gone or held, and there is no good answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    pub id: Hash32,
    pub code: String,
    pub reason: String,
    pub tx_hash: String,
    /// What the seller told the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow_id: Option<skep_base::id::DealId>,
}

/// A seller's offer, so that it can be taken up later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quoted {
    pub listing_id: ListingId,
    pub seller: AgentId,
    pub capability: String,
    pub quote: Quote,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Entry {
    Intent(Box<Intent>),
    Authorized(Box<Authorized>),
    /// The seller works on it and has given it a number.
    Accepted {
        id: Hash32,
        job_id: String,
    },
    Answered(Box<Answered>),
    Unanswered(Box<Unanswered>),
    Verified {
        id: Hash32,
        verification: Verification,
    },
    EscrowOrdered {
        id: Hash32,
        order: Box<EscrowOrder>,
    },
    Countersigned {
        id: Hash32,
        signature: Box<CounterSignature>,
    },
    /// Over; this was paid.
    Done {
        id: Hash32,
        at: Timestamp,
        paid: Amount,
    },
    /// A hire that is over, in a journal that was made shorter.
    Spent {
        at: Timestamp,
        paid: Amount,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Hash32>,
    },
    /// Over; nothing was paid, and nothing can be taken any more.
    Abandoned {
        id: Hash32,
        code: String,
    },
    /// A seller made a counter-offer: it is left alone for a while (7.5.3).
    Countered {
        listing_id: ListingId,
        at: Timestamp,
    },
    Quoted(Box<Quoted>),
}

/// A hire that is not over.
#[derive(Clone, Debug)]
pub struct Open {
    pub intent: Intent,
    pub authorized: Option<Authorized>,
    pub job_id: Option<String>,
    pub answered: Option<Answered>,
    pub unanswered: Option<Unanswered>,
    pub verification: Option<Verification>,
    pub order: Option<EscrowOrder>,
    pub counter_signature: Option<CounterSignature>,
}

impl Open {
    pub fn new(intent: Intent) -> Open {
        Open {
            intent,
            authorized: None,
            job_id: None,
            answered: None,
            unanswered: None,
            verification: None,
            order: None,
            counter_signature: None,
        }
    }

    /// The lines that make it.
    pub fn entries(&self) -> Vec<Entry> {
        let id = self.intent.id;
        let boxed = |order: &EscrowOrder| Box::new(order.clone());
        let mut entries = vec![Entry::Intent(Box::new(self.intent.clone()))];
        entries.extend(self.authorized.clone().map(|it| Entry::Authorized(Box::new(it))));
        entries.extend(self.job_id.clone().map(|job_id| Entry::Accepted { id, job_id }));
        entries.extend(self.answered.clone().map(|it| Entry::Answered(Box::new(it))));
        entries.extend(self.unanswered.clone().map(|it| Entry::Unanswered(Box::new(it))));
        let verified = self.verification.clone();
        entries.extend(verified.map(|verification| Entry::Verified { id, verification }));
        let ordered = self.order.as_ref().map(boxed);
        entries.extend(ordered.map(|order| Entry::EscrowOrdered { id, order }));
        let signed = self.counter_signature.clone().map(Box::new);
        entries.extend(signed.map(|signature| Entry::Countersigned { id, signature }));
        entries
    }

    pub fn amount(&self) -> Amount {
        self.authorized.as_ref().map_or(Amount::ZERO, |authorized| authorized.amount)
    }
}
