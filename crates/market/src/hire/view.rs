//! Listings as others see them.

use skep_base::{AgentId, Timestamp, id::ListingId};
use skep_hire::{listing::LISTINGS_PER_AGENT_MAX, terms};
use skep_score::phase::sentence;
use skep_store::ListingFilter;
use skep_wire::{
    Page,
    hire::{Found, Ranking},
    score::Phase,
};

use super::{HireRefusal, ListingRecord, listing_key, search};
use crate::{Failure, Market, read};

impl ListingRecord {
    pub(super) fn found(self, now: Timestamp) -> Found {
        let coarse = self.is_coarse();
        let (facts, seller) = (self.facts(), self.seller);
        let published = seller.phase != Phase::Unverified;
        Found {
            agent_id: self.listing.agent_id,
            listing_id: self.listing.id(),
            reputation: self.counts.reputation(now, coarse),
            alive: self.alive,
            checked_at: self.checked_at,
            endpoint_proven: self.proven,
            ranking: Ranking { score: facts.score(), because: facts.because(coarse) },
            benchmark: seller.benchmark,
            phase: seller.phase,
            signal: sentence(seller.phase).to_owned(),
            score_at_least: published.then(|| u16::from(seller.score_hundreds) * 100),
            operator_under_review: seller.under_review,
            listing: self.listing,
        }
    }
}

impl Market {
    /// A listing that stands.
    pub async fn listing(&self, id: ListingId) -> Result<Found, Failure> {
        let known: Option<ListingRecord> = self.read(listing_key(&id)).await?;
        let known = known.filter(|known| known.removed.is_none());
        let known = known.ok_or(HireRefusal::UnknownListing { listing: id })?;
        Ok(known.found(self.store.now().await?))
    }

    /// What an agent sells, best first.
    pub async fn listings_of(
        &self,
        agent: &AgentId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, Failure> {
        let after = cursor.map(search::parse_cursor).transpose()?;
        let terms = vec![terms::agent_term(agent)];
        let page =
            self.store.search_listings(terms, ListingFilter::default(), after, limit).await?;
        let now = self.store.now().await?;
        let ids = page.rows.iter().map(|row| row.id.as_str());
        let items = self.show_found(ids, now).await?;
        Ok(Page { items, next_cursor: page.next.as_ref().map(search::cursor) })
    }

    /// The one agent that is paid at this address. Who sells and is paid at its own goes before
    /// others who name it: nobody needs its consent for that.
    pub async fn agent_paid_at(&self, payee: AgentId) -> Result<AgentId, Failure> {
        let agent = match self.store.agents_paid_at(payee).await? {
            Some((first, last)) if first == last => first.parse().ok(),
            Some(_) if self.is_paid_itself(payee).await? => Some(payee),
            _ => None,
        };
        agent.ok_or_else(|| HireRefusal::NobodyPaidThere.into())
    }

    async fn is_paid_itself(&self, agent: AgentId) -> Result<bool, Failure> {
        let (terms, most) = (vec![terms::agent_term(&agent)], LISTINGS_PER_AGENT_MAX);
        let page = self.store.search_listings(terms, ListingFilter::default(), None, most).await?;
        let own = agent.to_string();
        Ok(page.rows.iter().any(|row| row.payee == own))
    }

    /// The listings behind rows. What was removed meanwhile is left out.
    pub(super) async fn show_found(
        &self,
        ids: impl Iterator<Item = &str>,
        now: Timestamp,
    ) -> Result<Vec<Found>, Failure> {
        let ids = ids.filter_map(|id| id.parse().ok());
        let keys: Vec<_> = ids.map(|id| listing_key(&id)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let count = keys.len();
        let mut records = self.read_all(keys).await?;
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let record: Option<ListingRecord> = read::next(&mut records)?;
            let standing = record.filter(|record| record.removed.is_none());
            found.extend(standing.map(|record| record.found(now)));
        }
        Ok(found)
    }
}
