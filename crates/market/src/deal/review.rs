//! 7.3: the queue of what only a person can decide.

use skep_base::{AgentId, id::DealId};
use skep_settle::deal::{self, Review as Stored};
use skep_wire::{
    Page,
    settle::{Outcome, Review, ReviewFile, VerificationStatus},
};

use super::{DealRecord, DealRefusal, REVIEWS, proof_key, settlement_record_key};
use crate::{Failure, Market, Refusal};

impl Market {
    /// What waits for a reviewer, oldest first.
    pub async fn reviews(
        &self,
        by: &AgentId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<Review>, Failure> {
        self.must_review(by)?;
        let after = match cursor {
            None => None,
            Some(cursor) => Some(place(&cursor).ok_or(Refusal::MalformedCursor)?),
        };
        let listed = self.store.listed(REVIEWS, after, limit + 1).await?;
        let more = listed.len() > limit;
        let mut items = Vec::new();
        let mut next_cursor = None;
        for entry in listed.into_iter().take(limit) {
            next_cursor = Some(format!("{}.{}", entry.at.as_ms(), entry.member));
            let Ok(id) = entry.member.parse::<DealId>() else { continue };
            let record = self.deal_record(&id).await?;
            // Decided between the two reads.
            items.extend(record.deal.review.as_ref().map(|review| view(&record, review)));
        }
        Ok(Page { items, next_cursor: next_cursor.filter(|_| more) })
    }

    /// Everything about one of them.
    pub async fn review(&self, by: &AgentId, id: DealId) -> Result<ReviewFile, Failure> {
        self.must_review(by)?;
        let record = self.deal_record(&id).await?;
        let deal = &record.deal;
        let unknown = DealRefusal::UnknownDeal { deal: id };
        let review = deal.review.as_ref().ok_or(unknown.clone())?;
        let attempt = deal.attempt(review.attempt).ok_or(unknown)?;
        let mut callbacks = Vec::new();
        for attempt in &deal.attempts {
            let key = proof_key(&id.verification(attempt.number));
            callbacks.extend(self.read(key).await?);
        }
        let before = attempt.supersedes.and_then(|before| deal.attempt(before.attempt()));
        Ok(ReviewFile {
            review: view(&record, review),
            agreement: self.agreement_of(deal).await?,
            delivery: self.delivery(id).await?,
            callbacks,
            statements: deal.statements.clone(),
            request: self.request(deal, attempt).await?,
            supersedes: attempt.supersedes,
            disputed_outcome: before.and_then(|before| outcome(before.status)),
            last_status: before.map(|before| before.status),
            settlement: self.read(settlement_record_key(&id)).await?,
        })
    }

    /// How many wait, and since when the oldest does.
    pub async fn reviews_waiting(&self) -> Result<(u64, Option<skep_base::Timestamp>), Failure> {
        Ok(self.store.list_len(REVIEWS).await?)
    }

    fn must_review(&self, by: &AgentId) -> Result<(), DealRefusal> {
        match self.accredited.contains(by) {
            true => Ok(()),
            false => Err(DealRefusal::NotAReviewer { agent: *by }),
        }
    }
}

fn place(cursor: &str) -> Option<(i64, String)> {
    let (at, member) = cursor.split_once('.')?;
    Some((at.parse().ok()?, member.parse::<DealId>().ok()?.to_string()))
}

fn outcome(status: VerificationStatus) -> Option<Outcome> {
    match status {
        VerificationStatus::Verified => Some(Outcome::Verified),
        VerificationStatus::Failed => Some(Outcome::Failed),
        VerificationStatus::Rejected => Some(Outcome::Rejected),
        VerificationStatus::Error => Some(Outcome::Error),
        _ => None,
    }
}

fn view(record: &DealRecord, review: &Stored) -> Review {
    let deal::Deal { terms, id, .. } = &record.deal;
    Review {
        negotiation_id: *id,
        status: review.status,
        cause: review.cause.as_str().to_owned(),
        opened_at: review.opened_at,
        deadline: review.deadline,
        price: terms.price,
        description: terms.description.clone(),
    }
}
