//! Why a hire came to nothing, each by its name.

use skep_base::{AgentId, Amount, Timestamp};

use super::{desk::DeskError, order::Attempt};
use crate::journal::JournalError;

/// What the guarded client says of addresses that are not public.
const REFUSED_ADDRESS: &str = "refused_address";

/// Nobody can check what would be paid in escrow.
const UNVERIFIABLE: &str = "unverifiable";

/// Why one seller was not hired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the listing is not signed by its seller: {0}")]
    ForgedListing(String),
    #[error("the listing is not what was asked for: {0}")]
    WrongListing(&'static str),
    #[error("it costs {price} minor units, and {max} are allowed")]
    OverPrice { price: Amount, max: Amount },
    #[error("its first call is not free any more, and nothing may be paid")]
    NotFree,
    #[error("its escrow {0:?} is not one that is trusted here")]
    UnknownEscrow(String),
    #[error("its escrow cannot be used: {detail}")]
    BadEscrow { code: String, detail: String },
    /// What is in escrow would come back to the buyer, who has the result.
    #[error("it is paid in escrow, and nobody can check what it gives")]
    Unverifiable,
    #[error("it cannot be reached: {detail}")]
    Unreached { code: &'static str, detail: String },
    #[error("it sent the hire elsewhere, which is not followed")]
    Redirected,
    #[error("it said no ({status} {code}): {detail}")]
    Declined { status: u16, code: String, detail: String },
    #[error("what it answered cannot be read: {0}")]
    Garbage(String),
    #[error("it asks to be paid, and does not say how")]
    NoTerms,
    #[error("it wants to be paid by {0:?}, not by scheme exact")]
    WrongScheme(String),
    #[error("it wants to be paid on network {0:?}, which is not this node's ledger")]
    WrongNetwork(String),
    #[error("it wants to be paid in {0}, which is not this node's asset")]
    WrongAsset(String),
    #[error("it asks for {asked} minor units, and its listing or quote says {listed}")]
    WrongAmount { asked: Amount, listed: Amount },
    #[error("it wants the money to go to {asked}, and {expected} was expected")]
    WrongPayee { asked: AgentId, expected: AgentId },
    #[error("it wants a payment to be good for {0} s, which is too long or not at all")]
    WrongTimeout(u64),
    #[error("its escrow terms are not those of this hire: {0}")]
    WrongEscrowTerms(&'static str),
    #[error("its receipt is not of this hire: {0}")]
    WrongReceipt(&'static str),
    #[error("it did not answer in time")]
    NoAnswer,
    /// What was written down of an earlier one of these.
    #[error("{detail}")]
    Failed { code: String, detail: String },
}

impl Refusal {
    /// A stable word.
    pub fn code(&self) -> &str {
        match self {
            Refusal::ForgedListing(_) => "forged_listing",
            Refusal::WrongListing(_) => "wrong_listing",
            Refusal::OverPrice { .. } => "over_price",
            Refusal::NotFree => "not_free",
            Refusal::UnknownEscrow(_) => "unknown_escrow",
            Refusal::BadEscrow { code, .. } => code,
            Refusal::Unverifiable => UNVERIFIABLE,
            Refusal::Unreached { code, .. } => code,
            Refusal::Redirected => "redirected",
            Refusal::Declined { .. } => "declined",
            Refusal::Garbage(_) => "garbage",
            Refusal::NoTerms => "no_terms",
            Refusal::WrongScheme(_) => "wrong_scheme",
            Refusal::WrongNetwork(_) => "wrong_network",
            Refusal::WrongAsset(_) => "wrong_asset",
            Refusal::WrongAmount { .. } => "wrong_amount",
            Refusal::WrongPayee { .. } => "wrong_payee",
            Refusal::WrongTimeout(_) => "wrong_timeout",
            Refusal::WrongEscrowTerms(_) => "wrong_escrow_terms",
            Refusal::WrongReceipt(_) => "wrong_receipt",
            Refusal::NoAnswer => "no_answer",
            Refusal::Failed { code, .. } => code,
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum HireError {
    #[error("the parameters do not fit {capability}: {}", problems.join("; "))]
    BadParams { capability: String, problems: Vec<String> },
    #[error("the order makes no sense: {0}")]
    BadOrder(String),
    #[error("nobody sells {capability} on these terms{}", others(available))]
    NobodyFound { capability: String, available: Vec<String> },
    /// Nothing was paid.
    #[error("nobody could be hired, and nothing was paid: {}", told(tried))]
    AllRefused { tried: Vec<Attempt> },
    #[error("{wanted} minor units are more than the {left} that the budget has left")]
    OverBudget { wanted: Amount, left: Amount },
    #[error("the node would not take this payment: {reason}: {detail}")]
    NotPayable { reason: String, detail: String },
    #[error(
        "{seller} took {amount} minor units ({tx_hash}) and gave no good answer: {reason}; {}",
        match disputed { true => "its receipt is disputed", false => "it left no receipt" }
    )]
    PaidWithoutAnswer {
        seller: AgentId,
        amount: Amount,
        tx_hash: String,
        reason: String,
        disputed: bool,
    },
    #[error(
        "{seller} has a signed payment of {amount} minor units and has not answered ({reason}); \
         run `skep hire --resume` after {until}"
    )]
    Uncertain { seller: AgentId, amount: Amount, until: Timestamp, reason: String },
    #[error("do not ask this seller again before {until}: choose one of its offers")]
    AskedTooSoon { until: Timestamp },
    #[error("the quote is not usable: {0}")]
    BadQuote(&'static str),
    #[error(transparent)]
    Node(#[from] DeskError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("something could not be signed: {0}")]
    Sign(String),
}

fn others(available: &[String]) -> String {
    match available {
        [] => String::new(),
        some => format!("; others sell {}", some.join(", ")),
    }
}

fn told(tried: &[Attempt]) -> String {
    let lines: Vec<String> = tried.iter().map(|a| format!("{}: {}", a.seller, a.detail)).collect();
    lines.join("; ")
}

impl HireError {
    /// A stable word.
    pub fn code(&self) -> &str {
        match self {
            HireError::BadParams { .. } => "bad_params",
            HireError::BadOrder(_) => "bad_order",
            HireError::NobodyFound { .. } => "nobody_found",
            HireError::AllRefused { .. } => "all_refused",
            HireError::OverBudget { .. } => "budget_exceeded",
            HireError::NotPayable { .. } => "not_payable",
            HireError::PaidWithoutAnswer { .. } => "paid_without_answer",
            HireError::Uncertain { .. } => "uncertain",
            HireError::AskedTooSoon { .. } => "asked_too_soon",
            HireError::BadQuote(_) => "bad_quote",
            HireError::Node(error) => &error.code,
            HireError::Journal(_) => "journal",
            HireError::Sign(_) => "not_signable",
        }
    }

    /// What the caller can do.
    pub fn advice(&self) -> &'static str {
        match self {
            HireError::BadParams { .. } => "look at the capability's schema and try again",
            HireError::BadOrder(_) => "change the order",
            HireError::NobodyFound { .. } => "allow a higher price, or search for what is sold",
            HireError::AllRefused { tried }
                if tried.iter().any(|it| it.code == REFUSED_ADDRESS) =>
            {
                "`--dev` allows sellers on this machine; other addresses of a network stay closed"
            }
            HireError::AllRefused { tried } if tried.iter().any(|it| it.code == UNVERIFIABLE) => {
                "pay for what nobody can check with `--accept-unverifiable`, or hire by \
                 `--payment-mode direct`"
            }
            HireError::AllRefused { .. } => "try again later, or allow other sellers",
            HireError::OverBudget { .. } => "ask for a larger budget, or wait for refunds",
            HireError::NotPayable { .. } => "put money into the wallet, or look at the budget",
            HireError::PaidWithoutAnswer { .. } => "hire somebody else, by escrow next time",
            HireError::Uncertain { .. } => "do not hire another for it before that time",
            HireError::AskedTooSoon { .. } => "wait, or hire with one of the offers",
            HireError::BadQuote(_) => "ask for a new quote",
            HireError::Node(_) => "look whether the node is there, then `skep hire --resume`",
            HireError::Journal(_) => "look at the journal's disk; nothing goes on without it",
            HireError::Sign(_) => "change what is not signable, such as very large numbers",
        }
    }
}
