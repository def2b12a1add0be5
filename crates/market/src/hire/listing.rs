//! Listings come and go.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Timestamp,
    id::{JobId, ListingId, RequestId},
};
use skep_hire::{
    listing::{
        CHECK_EVERY, ISSUED_WITHIN, LISTINGS_PER_AGENT_MAX, LISTINGS_PER_CAPABILITY_MAX,
        LISTINGS_PER_MINUTE, ListingRefusal, Place, Sound, check, is_fresh, wait_for_turn,
    },
    rank::{Facts, Seller},
    terms,
};
use skep_store::{Indexed, JobEnd, ListingFilter, ListingRow, Load, Lock, RecordKey, Turn};
use skep_wire::hire::{Listing, ListingAccepted, ListingRemoval, PaymentMode, Usdc, WalletSigned};

use super::{Challenge, HireRefusal, announce, counts::Counts, load_told};
use crate::{
    AgentRecord, Failure, Market, Refusal, Signed,
    answer::Stop,
    identity::agent_key,
    score::{Whose, rank_now},
};

/// A listing as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListingRecord {
    /// As the seller signed it.
    pub(crate) listing: Listing,
    /// Of its endpoint.
    pub(super) origin: String,
    pub(super) verification: i64,
    pub(super) proven: bool,
    pub(super) alive: bool,
    /// In a row.
    pub(super) failures: u32,
    pub(super) checked_at: Option<Timestamp>,
    pub(super) dead_since: Option<Timestamp>,
    /// Asks the endpoint again.
    pub(super) timer: Option<JobId>,
    /// Nothing that was signed before this brings it back.
    pub(super) removed: Option<Timestamp>,
    pub(super) counts: Counts,
    pub(super) published_at: Timestamp,
    /// As the seller was when the listing was last put in order.
    #[serde(default)]
    pub(super) seller: Seller,
}

pub(crate) fn listing_key(id: &ListingId) -> RecordKey {
    RecordKey::own("listing", id)
}

/// When the agent published of late.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ListingPace {
    at: Vec<Timestamp>,
}

/// What the log says of a listing.
#[derive(Debug, Serialize)]
struct ListingEvent {
    listing_id: ListingId,
    agent_id: AgentId,
    capability: String,
    price_usdc: Usdc,
    payment_mode: PaymentMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl ListingRecord {
    pub(super) fn facts(&self) -> Facts {
        Facts {
            alive: self.alive,
            confirmed: self.counts.confirmed,
            price: self.listing.price_usdc.amount(),
            seller: self.seller,
        }
    }

    /// As search finds it.
    pub(super) fn indexed(&self) -> Option<Indexed> {
        if self.removed.is_some() {
            return None;
        }
        let listing = &self.listing;
        let row = ListingRow {
            id: listing.id().to_string(),
            agent_id: listing.agent_id.to_string(),
            payee: listing.payee().to_string(),
            capability: listing.capability.clone(),
            payment_mode: listing.mode().to_string(),
            rank: self.facts().score(),
            price: listing.price_usdc.amount().minor(),
            max_latency_ms: i64::try_from(listing.max_latency_ms).unwrap_or(i64::MAX),
            verification: self.verification,
            clarifies: listing.clarification_supported == Some(true),
            audited: listing.audit_participating == Some(true),
            first_free: listing.first_call_free == Some(true),
            // Nobody finds out by filters what is not shown.
            success_bps: self.counts.known_success_bps(self.is_coarse()),
        };
        Some(Indexed { row, terms: terms::terms(listing, self.seller.benchmark) })
    }

    /// Writes the record, and makes search follow it.
    pub(super) fn put(self, turn: &mut Turn, before: Option<&ListingRecord>) -> Result<(), Stop> {
        turn.put(&listing_key(&self.listing.id()), &self)?;
        if before.is_some_and(|before| before.is_found_like(&self)) {
            return Ok(());
        }
        turn.index_listing(before.and_then(ListingRecord::indexed), self.indexed());
        Ok(())
    }

    /// Whether search finds both alike: all that [`ListingRecord::indexed`] is made of. Most hires
    /// change a count, and nothing of that.
    fn is_found_like(&self, other: &ListingRecord) -> bool {
        let place = |record: &ListingRecord| {
            let success = record.counts.known_success_bps(record.is_coarse());
            let rank = record.facts().score();
            let seen = (record.is_removed(), record.verification, record.seller.benchmark);
            (rank, success, seen)
        };
        place(self) == place(other) && self.listing == other.listing
    }

    /// Whether its numbers are shown in steps only.
    pub(super) fn is_coarse(&self) -> bool {
        self.listing.private_metrics == Some(true)
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_some()
    }

    /// Puts it where a seller that is known for this stands.
    pub(crate) fn rank_with(self, turn: &mut Turn, seller: Seller) -> Result<(), Stop> {
        if self.seller == seller {
            return Ok(());
        }
        ListingRecord { seller, ..self.clone() }.put(turn, Some(&self))
    }

    fn event(&self, reason: Option<&'static str>) -> ListingEvent {
        ListingEvent {
            listing_id: self.listing.id(),
            agent_id: self.listing.agent_id,
            capability: self.listing.capability.clone(),
            price_usdc: self.listing.price_usdc.clone(),
            payment_mode: self.listing.mode(),
            reason,
        }
    }

    /// Takes it out of the search. Its hires may still be spoken of.
    pub(super) fn remove(
        mut self,
        turn: &mut Turn,
        as_of: Timestamp,
        reason: Option<&'static str>,
    ) -> Result<(), Stop> {
        let before = self.clone();
        let key = listing_key(&self.listing.id());
        self.end_timer(turn);
        self.removed = Some(as_of);
        let event = self.event(reason);
        let agent = self.listing.agent_id;
        self.put(turn, Some(&before))?;
        announce(turn, &key.route, "listing.removed", &event, &[agent])
    }

    fn end_timer(&mut self, turn: &mut Turn) {
        if let Some(id) = self.timer.take() {
            turn.end_job(JobEnd { route: listing_key(&self.listing.id()).route, id });
        }
    }
}

/// What came of a publication that changes nothing.
fn unchanged(known: &ListingRecord) -> ListingAccepted {
    let listing = known.listing.clone();
    ListingAccepted { ok: true, listing_id: listing.id(), listing, changed: false }
}

/// What stands against a listing that was issued then; nothing if it may replace it.
fn stands(
    known: Option<&ListingRecord>,
    listing: &Listing,
) -> Result<Option<ListingAccepted>, HireRefusal> {
    let Some(known) = known else { return Ok(None) };
    if known.removed.is_some_and(|removed| listing.issued_at <= Some(removed)) {
        return Err(HireRefusal::ListingRemoved);
    }
    let older = listing.issued_at <= known.listing.issued_at && known.removed.is_none();
    Ok(older.then(|| unchanged(known)))
}

impl Market {
    /// Publishes a listing, or replaces an older one. Its signature says who asks.
    pub async fn publish_listing(&self, listing: Listing) -> Result<ListingAccepted, Failure> {
        listing.check()?;
        let issued_at = listing.issued_at.ok_or(ListingRefusal::NoIssueTime)?;
        let (id, agent) = (listing.id(), listing.agent_id);
        let known: Option<ListingRecord> = self.read(listing_key(&id)).await?;
        if let Some(known) = known.as_ref().filter(|k| k.listing == listing && k.removed.is_none())
        {
            return Ok(unchanged(known));
        }
        let now = self.outside()(self.store.now().await?);
        if !is_fresh(issued_at, now) {
            let minutes = ISSUED_WITHIN.as_secs() / 60;
            return Err(Refusal::StatementNotFresh { issued_at, minutes }.into());
        }
        if let Some(stands) = stands(known.as_ref(), &listing)? {
            return Ok(stands);
        }
        let place = Place { marketplace: &self.marketplace, dev: self.dev, now };
        let sound = check(&listing, place)?;
        self.check_room(&listing).await?;
        let nonce = self.take_turn(agent).await?;
        let proven = match self.challenge {
            Challenge::Off => false,
            Challenge::Soft => self.ask_endpoint(&sound.origin, agent, &nonce).await.is_ok(),
            Challenge::Enforce => {
                self.ask_endpoint(&sound.origin, agent, &nonce).await?;
                true
            }
        };
        self.enter_listing(listing, sound, proven).await
    }

    /// Nobody fills the search alone. What is published at the same moment may exceed it by the
    /// few that the pace allows.
    async fn check_room(&self, listing: &Listing) -> Result<(), Failure> {
        let (id, terms) = (listing.id().to_string(), vec![terms::agent_term(&listing.agent_id)]);
        let most = LISTINGS_PER_AGENT_MAX + LISTINGS_PER_MINUTE;
        let page = self.store.search_listings(terms, ListingFilter::default(), None, most).await?;
        let others: Vec<_> = page.rows.iter().filter(|row| row.id != id).collect();
        let same = others.iter().filter(|row| row.capability == listing.capability).count();
        if others.len() >= LISTINGS_PER_AGENT_MAX || same >= LISTINGS_PER_CAPABILITY_MAX {
            return Err(HireRefusal::ListingsFull.into());
        }
        Ok(())
    }

    /// Counts a listing of the agent's, before a stranger's address is asked for its sake. Gives
    /// something that nobody can guess to ask with.
    async fn take_turn(&self, agent: AgentId) -> Result<String, Failure> {
        let (owner, pace_key) = (agent_key(&agent), RecordKey::own("listing_pace", agent));
        let records = vec![(owner.clone(), Lock::None), (pace_key.clone(), Lock::Exclusive)];
        let taken = self.run(Load { records, ..Load::default() }, vec![], move |turn| {
            if turn.record::<AgentRecord>(&owner)?.is_none() {
                return Err(Refusal::UnknownAgent { agent: agent.to_string() }.into());
            }
            let mut pace: ListingPace = turn.record(&pace_key)?.unwrap_or_default();
            if let Some(wait) = wait_for_turn(&pace.at, turn.now()) {
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let per_minute = LISTINGS_PER_MINUTE;
                return Err(HireRefusal::TooManyListings { per_minute, wait_ms }.into());
            }
            pace.at.push(turn.now());
            let surplus = pace.at.len().saturating_sub(LISTINGS_PER_MINUTE);
            pace.at.drain(..surplus);
            turn.put(&pace_key, &pace)?;
            Ok(turn.new_id::<skep_base::id::Request>())
        });
        let nonce: RequestId = taken.await?.value;
        Ok(nonce.to_string())
    }

    async fn enter_listing(
        &self,
        listing: Listing,
        sound: Sound,
        proven: bool,
    ) -> Result<ListingAccepted, Failure> {
        let (id, agent, challenge) = (listing.id(), listing.agent_id, self.challenge);
        let key = listing_key(&id);
        let mut load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        load_told(&mut load, &[agent]);
        let entered = self.run(load, vec![], move |turn| {
            let known: Option<ListingRecord> = turn.record(&key)?;
            if let Some(stands) = stands(known.as_ref(), &listing)? {
                return Ok(stands);
            }
            let now = turn.now();
            let mut record = ListingRecord {
                listing: listing.clone(),
                origin: sound.origin.clone(),
                verification: sound.verification,
                proven,
                alive: proven || challenge == Challenge::Off,
                failures: 0,
                checked_at: (challenge != Challenge::Off).then_some(now),
                dead_since: None,
                timer: known.as_ref().and_then(|known| known.timer),
                removed: None,
                counts: known.as_ref().map(|known| known.counts.clone()).unwrap_or_default(),
                published_at: known.as_ref().map_or(now, |known| known.published_at),
                seller: known.as_ref().map(|known| known.seller).unwrap_or_default(),
            };
            if !record.alive {
                record.dead_since = Some(now);
            }
            record.end_timer(turn);
            if challenge != Challenge::Off {
                record.wait(turn, CHECK_EVERY);
            }
            let event = record.event(None);
            record.put(turn, known.as_ref())?;
            rank_now(turn, &Whose::Listing(id))?;
            announce(turn, &key.route, "listing.published", &event, &[agent])?;
            let listing = listing.clone();
            Ok(ListingAccepted { ok: true, listing_id: id, listing, changed: true })
        });
        Ok(entered.await?.value)
    }

    /// Removes a listing by its seller's word.
    pub async fn remove_listing(&self, removal: ListingRemoval) -> Result<(), Failure> {
        removal.check_signature()?;
        let now = self.outside()(self.store.now().await?);
        if !is_fresh(removal.issued_at, now) {
            let (issued_at, minutes) = (removal.issued_at, ISSUED_WITHIN.as_secs() / 60);
            return Err(Refusal::StatementNotFresh { issued_at, minutes }.into());
        }
        let (id, agent) = (removal.remove_listing, removal.agent_id);
        let load = Market::load_listing(&id, agent);
        let removed = self.run(load, vec![], move |turn| {
            remove_by(turn, id, agent, Some(removal.issued_at), now)
        });
        removed.await.map(drop)
    }

    /// The same by a signed request.
    pub async fn delete_listing(&self, signed: &Signed, id: ListingId) -> Result<(), Failure> {
        let (agent, outside) = (signed.agent, self.outside());
        let load = Market::load_listing(&id, agent);
        let removed = self.run_signed(signed, load, move |turn, _| {
            let now = outside(turn.now());
            remove_by(turn, id, agent, None, now)
        });
        removed.await.map(drop)
    }

    fn load_listing(id: &ListingId, agent: AgentId) -> Load {
        let records = vec![(listing_key(id), Lock::Exclusive)];
        let mut load = Load { records, ..Load::default() };
        load_told(&mut load, &[agent]);
        load
    }
}

/// Whose listing it is not hears the same as if there were none. `signed_at`: when the seller said
/// so, if that is not now.
fn remove_by(
    turn: &mut Turn,
    id: ListingId,
    agent: AgentId,
    signed_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Stop> {
    let known: Option<ListingRecord> = turn.record(&listing_key(&id))?;
    let known = known.filter(|known| known.listing.agent_id == agent);
    let known = known.ok_or(HireRefusal::UnknownListing { listing: id })?;
    if known.removed.is_some() {
        return Ok(());
    }
    let issued_at = known.listing.issued_at.unwrap_or(now);
    match signed_at {
        // An old word does not take away what was published after it.
        Some(signed_at) if signed_at < issued_at => Err(HireRefusal::ListingNewer.into()),
        Some(signed_at) => known.remove(turn, signed_at, None),
        // The seller's clock may be ahead of ours.
        None => known.remove(turn, issued_at.max(now), None),
    }
}
