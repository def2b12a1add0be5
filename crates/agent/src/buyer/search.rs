//! Who could do it, and who of them is what it says.

use std::{collections::BTreeSet, time::Duration};

use skep_base::{Amount, Timestamp, id::ListingId};
use skep_hire::capability;
use skep_wire::hire::{Found, PaymentMode, Search, SearchAnswer, Usdc};

use super::{Buyer, HireError, HireOrder, PaymentChoice, Refusal, desk::DeskError, lock};

/// Sellers on one page, and pages that are looked at for one order.
const FOUND_MAX: u32 = 20;
const PAGES_MAX: u32 = 5;

/// How long the answer to the same question is good: who hires again and again need not ask again
/// and again.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Answers that are remembered.
const REMEMBERED_MAX: usize = 64;

/// Whether an answer of a moment ago will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Ask,
    Leave,
}

/// Somebody who was found, and what it would cost or why not.
pub(super) type Judged = (Found, Result<Amount, Refusal>);

/// The modes that are searched, one after the other. The preferred one has a search of its own:
/// among all the others its sellers may be on a page that nobody reads.
fn modes(payment: &PaymentChoice) -> Vec<Option<String>> {
    match payment {
        PaymentChoice::Any => vec![None],
        PaymentChoice::Prefer(mode) => vec![Some(mode.to_string()), None],
        PaymentChoice::Require(mode) => vec![Some(mode.to_string())],
        PaymentChoice::Escrow => vec![Some("platform_escrow:*".to_owned())],
    }
}

/// The first page of what fits an order.
fn question(order: &HireOrder, payment_mode: Option<String>) -> Search {
    let free_only = order.max_price == Amount::ZERO;
    Search {
        capability: Some(order.capability.clone()),
        max_price_usdc: (!free_only).then(|| Usdc::from(order.max_price)),
        max_latency_ms: order.max_latency_ms,
        payment_mode,
        first_call_free: free_only.then_some(true),
        agent_id: order.agent,
        limit: Some(FOUND_MAX),
        ..Search::default()
    }
}

impl Buyer {
    /// Those that the node knows, best first. More pages are read while too few of those that were
    /// found can be hired: anybody can fill a page. Says also whether some of it was remembered.
    pub(super) async fn candidates(
        &self,
        order: &HireOrder,
        quoted: Option<Amount>,
        memory: Memory,
    ) -> Result<(Vec<Judged>, bool), HireError> {
        let node = &self.inner.config.node;
        if let Some(id) = order.listing {
            let found = node.listing(id).await.map_err(DeskError::from)?;
            let judged = self.judge_listing(&found, order, quoted).await?;
            return Ok((vec![(found, judged)], false));
        }
        self.tell(|| format!("looking for {}", order.capability));
        let (mut judged, mut usable, mut remembered) = (Vec::<Judged>::new(), 0, false);
        let mut available = Vec::new();
        for payment_mode in modes(&order.payment) {
            let mut search = question(order, payment_mode);
            // The rest is searched without a mode, and has those of the preferred one in it.
            let seen: BTreeSet<ListingId> = judged.iter().map(|(it, _)| it.listing_id).collect();
            for _ in 0..PAGES_MAX {
                let (answer, known) = self.found(&search, memory).await?;
                remembered |= known;
                available = answer.available_capabilities.unwrap_or_default();
                let new = |found: &Found| !seen.contains(&found.listing_id);
                for found in answer.agents.into_iter().filter(new) {
                    let price = self.judge_listing(&found, order, quoted).await?;
                    usable += usize::from(price.is_ok());
                    judged.push((found, price));
                }
                search.cursor = answer.next_cursor;
                if search.cursor.is_none() || usable >= order.sellers_max.max(1) {
                    break;
                }
            }
            if usable >= order.sellers_max.max(1) {
                break;
            }
        }
        match judged.is_empty() {
            true => Err(HireError::NobodyFound { capability: order.capability.clone(), available }),
            false => Ok((judged, remembered)),
        }
    }

    /// What the node finds, or has found a moment ago, and which of the two.
    async fn found(
        &self,
        search: &Search,
        memory: Memory,
    ) -> Result<(SearchAnswer, bool), HireError> {
        let question = serde_json::to_string(search).unwrap_or_default();
        let now = self.now();
        let is_fresh = |at: &Timestamp| *at <= now && now.since(*at) < REMEMBERED;
        if memory == Memory::Ask
            && let Some((at, answer)) = lock(&self.inner.found).get(&question)
            && is_fresh(at)
        {
            return Ok((answer.clone(), true));
        }
        let answer = self.inner.config.node.search(search).await.map_err(DeskError::from)?;
        let mut found = lock(&self.inner.found);
        if found.len() >= REMEMBERED_MAX {
            found.clear();
        }
        found.insert(question, (now, answer.clone()));
        Ok((answer, false))
    }

    /// What a listing would cost, if it is what was asked for. The node's word is not enough: the
    /// seller must have signed it (decision 19).
    async fn judge_listing(
        &self,
        found: &Found,
        order: &HireOrder,
        quoted: Option<Amount>,
    ) -> Result<Result<Amount, Refusal>, HireError> {
        Ok(match self.judge_words(found, order, quoted) {
            Ok(price) => match found.listing.mode() {
                PaymentMode::PlatformEscrow(name) => {
                    let rail = self.rail(&PaymentMode::Direct).await?;
                    match rail.escrow_provider == name {
                        true => Ok(price),
                        false => Err(Refusal::UnknownEscrow(name)),
                    }
                }
                PaymentMode::CustomEscrow(url)
                    if !self.inner.config.custom_escrows.contains(&url) =>
                {
                    Err(Refusal::UnknownEscrow(url))
                }
                mode @ PaymentMode::CustomEscrow(_) => {
                    // Without the own node nothing can be said about others.
                    self.rail(&PaymentMode::Direct).await?;
                    match self.rail(&mode).await {
                        Ok(_) => Ok(price),
                        Err(HireError::Node(DeskError { code, detail, .. })) => {
                            Err(Refusal::BadEscrow { code, detail })
                        }
                        Err(error) => return Err(error),
                    }
                }
                _ => Ok(price),
            },
            Err(refusal) => Err(refusal),
        })
    }

    fn judge_words(
        &self,
        found: &Found,
        order: &HireOrder,
        quoted: Option<Amount>,
    ) -> Result<Amount, Refusal> {
        let listing = &found.listing;
        let wrong = |what| Err(Refusal::WrongListing(what));
        listing.check().map_err(|error| Refusal::ForgedListing(error.to_string()))?;
        if found.agent_id != listing.agent_id || found.listing_id != listing.id() {
            return wrong("the node names it wrongly");
        }
        if listing.capability != order.capability {
            return wrong("it is another capability");
        }
        if order.listing.is_some_and(|id| id != found.listing_id)
            || order.agent.is_some_and(|agent| agent != found.agent_id)
        {
            return wrong("it is another seller's");
        }
        if !listing.extra.values().all(capability::is_shallow) {
            return wrong("it is nested too deep");
        }
        let mine = [self.agent_id(), self.payer()];
        if mine.contains(&listing.agent_id) || mine.contains(&listing.payee()) {
            return wrong("it is the buyer's own, or the paying wallet's");
        }
        if listing.currency.as_deref().is_some_and(|currency| currency != "USDC") {
            return wrong("it is not in USDC");
        }
        let mode = listing.mode();
        let fits = match &order.payment {
            PaymentChoice::Any | PaymentChoice::Prefer(_) => true,
            PaymentChoice::Require(wanted) => mode == *wanted,
            PaymentChoice::Escrow => mode.is_escrow(),
        };
        if !fits {
            return wrong("it is paid in another way");
        }
        let version = listing.verification_version.as_deref();
        let checker = &self.inner.config.checker;
        let free_only = order.max_price == Amount::ZERO;
        if mode.is_escrow()
            && !free_only
            && !order.accept_unverifiable
            && !checker.can_check(&listing.capability, version)
        {
            return Err(Refusal::Unverifiable);
        }
        if order.max_latency_ms.is_some_and(|most| listing.max_latency_ms > most) {
            return wrong("it takes too long");
        }
        let price = quoted.unwrap_or_else(|| listing.price_usdc.amount());
        if free_only && listing.first_call_free != Some(true) {
            return Err(Refusal::NotFree);
        }
        if !free_only && price > order.max_price {
            return Err(Refusal::OverPrice { price, max: order.max_price });
        }
        Ok(price)
    }
}
