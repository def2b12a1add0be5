//! 7.3: the queue of what only a person can decide.

use skep_base::{AgentId, Timestamp, id::DealId};
use skep_settle::deal::{self, Review as Stored};
use skep_wire::{
    Page,
    settle::{Outcome, Review, ReviewFile, VerificationStatus, Verifier, engine},
};

use super::{
    DISPUTES, DealRecord, DealRefusal, REVIEWS, settlement_record_key, verifiers::verifier_key,
};
use crate::{Failure, Market, Refusal};

impl Market {
    /// What waits for a reviewer: disputes first, since they lapse, then the oldest.
    pub async fn reviews(
        &self,
        by: &AgentId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<Review>, Failure> {
        self.must_review(by).await?;
        let (mut list, after) = match cursor {
            None => (DISPUTES, None),
            Some(cursor) => place(&cursor).ok_or(Refusal::MalformedCursor)?,
        };
        let mut listed = self.store.listed(list, after, limit + 1).await?;
        if list == DISPUTES && listed.is_empty() {
            list = REVIEWS;
            listed = self.store.listed(list, None, limit + 1).await?;
        }
        // After the last dispute comes the first of the others.
        let more = listed.len() > limit || list == DISPUTES;
        let mut items = Vec::new();
        let mut next_cursor = None;
        for entry in listed.into_iter().take(limit) {
            next_cursor = Some(format!("{list}.{}.{}", entry.at.as_ms(), entry.member));
            let Ok(id) = entry.member.parse::<DealId>() else { continue };
            let record = self.deal_record(&id).await?;
            // Decided between the two reads.
            items.extend(record.deal.review.as_ref().map(|review| view(&record, review)));
        }
        Ok(Page { items, next_cursor: next_cursor.filter(|_| more) })
    }

    /// Everything about one of them.
    pub async fn review(&self, by: &AgentId, id: DealId) -> Result<ReviewFile, Failure> {
        self.must_review(by).await?;
        let record = self.deal_record(&id).await?;
        let deal = &record.deal;
        let unknown = DealRefusal::UnknownDeal { deal: id };
        let review = deal.review.as_ref().ok_or(unknown.clone())?;
        let attempt = deal.attempt(review.attempt).ok_or(unknown)?;
        let mut callbacks = Vec::new();
        for attempt in &deal.attempts {
            callbacks.extend(self.callback_to(&id.verification(attempt.number)).await?);
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
    pub async fn reviews_waiting(&self) -> Result<(u64, Option<Timestamp>), Failure> {
        let (disputes, first) = self.store.list_len(DISPUTES).await?;
        let (others, oldest) = self.store.list_len(REVIEWS).await?;
        Ok((disputes + others, first.into_iter().chain(oldest).min()))
    }

    async fn must_review(&self, by: &AgentId) -> Result<(), Failure> {
        let refused = DealRefusal::NotAReviewer { agent: *by };
        if !self.accredited.contains(by) {
            return Err(refused.into());
        }
        let known: Option<Verifier> = self.read(verifier_key(by)).await?;
        match known.is_some_and(|verifier| verifier.has_engine(engine::HUMAN)) {
            true => Ok(()),
            false => Err(refused.into()),
        }
    }
}

fn place(cursor: &str) -> Option<(&'static str, Option<(i64, String)>)> {
    let mut parts = cursor.splitn(3, '.');
    let list = [DISPUTES, REVIEWS].into_iter().find(|list| Some(*list) == parts.clone().next())?;
    parts.next()?;
    let at = parts.next()?.parse().ok()?;
    Some((list, Some((at, parts.next()?.parse::<DealId>().ok()?.to_string()))))
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
