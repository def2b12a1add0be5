//! Who and what things are called: agents by address, keys by DID, records by sortable ids.

mod agent;
mod deal;
mod did;
mod record;
#[cfg(test)]
mod tests;

pub use agent::{AgentId, ParseAgentIdError};
pub use deal::{DealId, ParseUuidError, VerificationId};
pub use did::{Did, ParseDidError};
pub use record::{
    Debt, DebtId, Event, EventId, Id, Job, JobId, Kind, Listing, ListingId, Notice, NoticeId,
    ParseIdError, Receipt, ReceiptId, Request, RequestId, Session, SessionId, Transfer, TransferId,
};
