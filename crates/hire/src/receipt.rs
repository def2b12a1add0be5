//! Decisions 14 to 18: what a receipt must say, and what follows from it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Hash32, Timestamp,
    id::DealId,
    json::{FREE_DEPTH_MAX, depth},
};
use skep_wire::hire::{
    CHECKS_MAX, Clarifies, CounterSignature, HIRE_ID_LEN_MAX, Judgement, Listing, NO_TX, Receipt,
    Verification, VerificationSummary, check_protocol, direct_payment_nonce, receipt_id,
};

#[cfg(test)]
mod tests;

/// How long after a hire its receipt is taken.
pub const RECEIPT_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long after a payment that has no receipt yet one is taken: a seller may have been away.
pub const PAID_RECEIPT_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far a clock may be ahead of ours.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(300);
/// How long what was asked and answered is kept (decision 16).
pub const PAYLOAD_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest reason of a dispute, in bytes.
pub const REASON_LEN_MAX: usize = 1024;
/// The longest name of a check, in bytes.
const CHECK_NAME_LEN_MAX: usize = 100;

/// Why a receipt, or a word about one, is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum ReceiptRefusal {
    #[error("{detail}")]
    BadProtocol { detail: String },
    #[error("{detail}")]
    BadHireId { detail: String },
    #[error("{detail}")]
    BadReceipt { detail: String },
    #[error("who sells and who is paid cannot be the buyer")]
    SelfHire,
    #[error("completed_at is not within the last 24 hours, nor the payment within 30 days")]
    NotFresh { completed_at: Timestamp },
    #[error("{agent} has no listing of {capability} that this receipt could be of")]
    UnknownListing { agent: AgentId, capability: String },
    #[error("the listing pays {expected}, not {given}")]
    WrongPayee { expected: AgentId, given: AgentId },
    #[error("no payment {tx_hash} was settled here")]
    UnknownPayment { tx_hash: String },
    #[error("the payment is another one: {what}")]
    PaymentMismatch { what: String },
    #[error("a free call has amount 0, tx_hash {NO_TX} and the hire that its buyer signed")]
    BadFreeCall,
    #[error("the listing has no free calls: first_call_free is not true")]
    NoFreeCalls,
    #[error("the buyer had its free call of this listing: {receipt_id}")]
    FreeCallUsed { receipt_id: String },
    #[error("the payment has a receipt already: {receipt_id}")]
    PaymentUsed { receipt_id: String },
    #[error("there is another receipt with the hire_id {receipt_id}")]
    DuplicateHireId { receipt_id: String },
    #[error("there is no receipt {receipt_id}")]
    UnknownReceipt { receipt_id: String },
    #[error("receipt_hash is not the hash of the receipt that the seller signed")]
    WrongReceiptHash,
    #[error("only the buyer {buyer} counter-signs this receipt")]
    NotTheBuyer { buyer: AgentId },
    #[error("the receipt is counter-signed already, with other words")]
    AlreadyCounterSigned,
    #[error("nobody keeps this hire's payload: it is kept for escrow and for audited listings")]
    NoPayloadWanted,
    #[error("{what} is not what the receipt has the hash of")]
    PayloadMismatch { what: String },
}

/// A payment as a receipt is compared with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// For whom it was paid: the payer, unless the buyer's hire names another wallet.
    pub buyer: AgentId,
    /// Who got it; of money in escrow, who gets it on release.
    pub pay_to: AgentId,
    pub amount: Amount,
    pub nonce: Hash32,
    pub hire_hash: Option<Hash32>,
    pub escrow_id: Option<DealId>,
    pub seller: Option<AgentId>,
}

/// Judges what a receipt says by itself, all but its signature.
pub fn check_words(receipt: &Receipt) -> Result<(), ReceiptRefusal> {
    check_protocol(&receipt.protocol_version, Clarifies::Yes)
        .map_err(|e| ReceiptRefusal::BadProtocol { detail: e.to_string() })?;
    check_hire_id(&receipt.hire_id)?;
    check_summary(&receipt.verification)?;
    let (free, no_tx) = (receipt.amount_usdc_atomic.is_zero(), receipt.tx_hash == NO_TX);
    if free != no_tx || (free && (receipt.hire_hash.is_none() || receipt.escrow_id.is_some())) {
        return Err(ReceiptRefusal::BadFreeCall);
    }
    if !is_tx_hash(&receipt.tx_hash) {
        let detail = "tx_hash is 0x and 64 lower-case hex digits".to_owned();
        return Err(ReceiptRefusal::BadReceipt { detail });
    }
    if receipt.network.len() > CHECK_NAME_LEN_MAX || receipt.capability.len() > 128 {
        let detail = "network and capability are short words".to_owned();
        return Err(ReceiptRefusal::BadReceipt { detail });
    }
    if receipt.extra.values().any(|value| depth(value) > FREE_DEPTH_MAX) {
        let detail = format!("what is added nests at most {FREE_DEPTH_MAX} levels deep");
        return Err(ReceiptRefusal::BadReceipt { detail });
    }
    let payee = receipt.payee.unwrap_or(receipt.agent_id);
    if receipt.buyer == receipt.agent_id || receipt.buyer == payee {
        return Err(ReceiptRefusal::SelfHire);
    }
    Ok(())
}

/// A free call needs no escrow, whatever the listing's mode: there is nothing to hold.
pub fn is_free(receipt: &Receipt) -> bool {
    receipt.amount_usdc_atomic.is_zero()
}

fn is_tx_hash(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| digits.parse::<Hash32>().is_ok())
}

/// Ids stand in addresses and in logs.
pub fn check_hire_id(id: &str) -> Result<(), ReceiptRefusal> {
    let fits = (1..=HIRE_ID_LEN_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
    match fits {
        true => Ok(()),
        false => {
            let detail = format!(
                "a hire_id has 1 to {HIRE_ID_LEN_MAX} letters, digits, dots, colons, dashes and \
                 underscores"
            );
            Err(ReceiptRefusal::BadHireId { detail })
        }
    }
}

pub fn check_summary(summary: &VerificationSummary) -> Result<(), ReceiptRefusal> {
    let detail = match summary.checks.len() <= CHECKS_MAX {
        false => format!("a verification names at most {CHECKS_MAX} checks"),
        true if summary.checks.keys().any(|name| name.len() > CHECK_NAME_LEN_MAX) => {
            format!("the name of a check has at most {CHECK_NAME_LEN_MAX} bytes")
        }
        true => return Ok(()),
    };
    Err(ReceiptRefusal::BadReceipt { detail })
}

/// Whether it comes in time. `paid_at`: when its payment was taken, which is known and has no
/// receipt yet. Money that moved is not left without one because the seller was away for a while.
pub fn check_fresh(
    receipt: &Receipt,
    now: Timestamp,
    paid_at: Option<Timestamp>,
) -> Result<(), ReceiptRefusal> {
    let completed_at = receipt.completed_at;
    let (since, in_time) = match paid_at {
        Some(paid_at) => (paid_at, paid_at.plus(PAID_RECEIPT_AGE_MAX) >= now),
        None => (now, true),
    };
    let fresh = in_time
        && completed_at.plus(RECEIPT_AGE_MAX) >= since
        && completed_at <= now.plus(CLOCK_AHEAD_MAX);
    if fresh { Ok(()) } else { Err(ReceiptRefusal::NotFresh { completed_at }) }
}

/// Whether the receipt is of this listing.
pub fn check_listing(receipt: &Receipt, listing: &Listing) -> Result<(), ReceiptRefusal> {
    let unknown = || ReceiptRefusal::UnknownListing {
        agent: receipt.agent_id,
        capability: receipt.capability.clone(),
    };
    let mode = receipt.payment_mode.clone().unwrap_or_default();
    if listing.agent_id != receipt.agent_id
        || listing.capability != receipt.capability
        || listing.mode() != mode
        || (mode.is_escrow() && !is_free(receipt)) != receipt.escrow_id.is_some()
    {
        return Err(unknown());
    }
    let (expected, given) = (listing.payee(), receipt.payee.unwrap_or(listing.payee()));
    if expected != given {
        return Err(ReceiptRefusal::WrongPayee { expected, given });
    }
    // The payee may be the listing's alone.
    if receipt.buyer == expected { Err(ReceiptRefusal::SelfHire) } else { Ok(()) }
}

/// Whether the receipt is of this payment. `payee`: the listing's.
pub fn check_payment(receipt: &Receipt, paid: &Paid, payee: AgentId) -> Result<(), ReceiptRefusal> {
    let mismatch = |what: &str| Err(ReceiptRefusal::PaymentMismatch { what: what.to_owned() });
    if paid.buyer != receipt.buyer {
        return mismatch("it was made for another buyer");
    }
    if paid.amount != receipt.amount_usdc_atomic {
        return mismatch("its amount is another one");
    }
    if paid.escrow_id != receipt.escrow_id {
        return mismatch("its escrow is another one");
    }
    if paid.pay_to != payee {
        return mismatch("it went to somebody else");
    }
    if paid.seller.is_some_and(|seller| seller != receipt.agent_id) {
        return mismatch("it was settled for another seller");
    }
    // A seller may settle without showing the hire. The nonce that the buyer signed names it, and
    // only who knows the hire can say of which one it is.
    let named = paid.hire_hash.is_none()
        && paid.escrow_id.is_none()
        && receipt.hire_hash.is_some_and(|hire| direct_payment_nonce(&hire) == paid.nonce);
    if paid.hire_hash != receipt.hire_hash && !named {
        return mismatch("it was made for another hire");
    }
    Ok(())
}

/// Ids of the form that Skep gives out follow from the hire, so that nobody can take one away from
/// whom it belongs to. `nonce`: the payment's, for a buyer who signed no hire.
pub fn check_own_id(receipt: &Receipt, nonce: Option<&Hash32>) -> Result<(), ReceiptRefusal> {
    let Ok(id) = receipt.hire_id.parse::<skep_base::id::ReceiptId>() else { return Ok(()) };
    let unique = receipt.hire_hash.as_ref().or(nonce);
    let own = unique.map(|unique| receipt_id(&receipt.agent_id, &receipt.buyer, unique));
    if own == Some(id) {
        return Ok(());
    }
    let detail = "an id such as rcpt_… follows from seller, buyer and hire; this one does not";
    Err(ReceiptRefusal::BadHireId { detail: detail.to_owned() })
}

/// Judges a buyer's word by itself, all but its signature.
pub fn check_counter(word: &CounterSignature) -> Result<(), ReceiptRefusal> {
    check_hire_id(&word.hire_id)?;
    check_summary(&word.verification)?;
    if word.reason.as_ref().is_some_and(|reason| reason.len() > REASON_LEN_MAX) {
        let detail = format!("a reason has at most {REASON_LEN_MAX} bytes");
        return Err(ReceiptRefusal::BadReceipt { detail });
    }
    Ok(())
}

/// What the buyer's word makes of a result.
pub fn judgement(word: Option<&CounterSignature>) -> Judgement {
    match word {
        None => Judgement::NotVerifiedByBuyer,
        Some(word) if !word.verifiable => Judgement::NotVerifiable,
        Some(word) if word.verification.all_passed => Judgement::Passed,
        Some(_) => Judgement::Failed,
    }
}

/// How a result stands: what the platform itself found goes before the buyer's word (decision 20).
pub fn standing(word: Option<&CounterSignature>, platform: Option<&Verification>) -> Judgement {
    match platform {
        Some(found) if found.verifiable && found.all_passed => Judgement::Passed,
        Some(found) if found.verifiable => Judgement::Failed,
        _ => judgement(word),
    }
}

/// A failed check is a dispute, whatever else the buyer says (decision 16).
pub fn is_disputed(word: &CounterSignature) -> bool {
    word.dispute || judgement(Some(word)) == Judgement::Failed
}
