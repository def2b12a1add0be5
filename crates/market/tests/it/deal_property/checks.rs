//! What must be true after every step.

use std::collections::{BTreeMap, BTreeSet};

use skep_base::{AgentId, Amount, Asset, id::DealId};
use skep_market::AgentRecord;
use skep_settle::{Deal, deal::Method, escrow};
use skep_store::{Account, AccountId, Purpose, RecordKey, RouteKey, StoredRecord};
use skep_wire::settle::{
    NewVerifierKey, RemainderPolicy, ReviewStatus, Role, SettlementReceipt, VerificationStatus,
};

use super::{DealAndTimer, Reached, Town};
use crate::fixture::*;

/// The events that tell of a closed escrow, one for each.
const CLOSINGS: [&str; 5] = [
    "escrow.released",
    "escrow.refunded",
    "agreement.cancelled",
    "agreement.split",
    "delivery.failed",
];
/// The debts that a deal can leave.
const DEBTS: [&str; 5] =
    ["remainder", "subsidy_repaid", "advance_back", "fee_owed", "deposit_owed"];
/// What the usual number of seeds must come to.
pub(super) const WANTED: [&str; 21] = [
    "a score",
    "a debt",
    "a deposit that was lost",
    "a deposit that was returned",
    "a subsidy",
    "a verifier's pay",
    "an advance",
    "an advance that was refunded",
    "released by agreed",
    "released by proof",
    "released by self_attested",
    "released in part",
    "reserved",
    "refunded: Agreed",
    "refunded: CancelledByProvider",
    "refunded: CancelledByRequester",
    "refunded: DeadlineMissed",
    "refunded: DeliveryFailed",
    "refunded: Rejected",
    "refunded: ReviewDeadline",
    "refunded: VerificationFailed",
];

/// What everybody should have, kept apart from the ledger.
#[derive(Debug, Default)]
pub(super) struct Book {
    worth: BTreeMap<AgentId, i64>,
    fees: i64,
    pub(super) pots: i64,
    seen: i64,
    closings: BTreeMap<DealId, u32>,
    closed: BTreeSet<DealId>,
    pub(super) reached: Reached,
}

impl Book {
    pub(super) fn gain(&mut self, who: AgentId, minor: i64) {
        *self.worth.entry(who).or_default() += minor;
    }

    fn reach(&mut self, what: impl Into<String>) {
        *self.reached.entry(what.into()).or_default() += 1;
    }

    /// What a closed deal should have moved, by its receipt and the terms alone.
    fn close(&mut self, deal: &Deal, receipt: &SettlementReceipt) -> Result<(), String> {
        let settlement = &receipt.settlement;
        let wrong = |what: &str| Err(format!("{what}: {settlement:#?}"));
        let price = deal.terms.price.amount.minor();
        let (released, refunded) =
            (settlement.released_minor.minor(), settlement.refunded_minor.minor());
        if released + refunded != price {
            return wrong("what was released and refunded is not the price");
        }
        let attempt = deal.closed.and_then(|closed| closed.attempt).and_then(|n| deal.attempt(n));
        let passed = attempt.is_some_and(|a| a.status == VerificationStatus::Verified);
        let proven = attempt.is_some_and(|a| a.proof.is_some());
        let rests = match settlement.method.as_str() {
            "proof" | "bundle_less" => proven && passed == (released > 0),
            "self_attested" => passed && deal.terms.auto_approve,
            "agreed" => deal.split_offer.is_some_and(|o| o.released_minor.minor() == released),
            _ => released == 0,
        };
        if !rests {
            return wrong("the settlement rests on nothing");
        }
        let fee = settlement.platform_fee.as_ref();
        let (buyer, seller) = fee
            .map_or((0, 0), |fee| (fee.split.buyer_minor.minor(), fee.split.seller_minor.minor()));
        let paid = settlement.verifier_paid_minor.minor();
        self.gain(deal.requester, -released - buyer - paid);
        self.gain(deal.provider, released - seller);
        self.fees += buyer + seller;
        if let Some(verifier) = deal.verifier_due.filter(|_| paid > 0) {
            self.gain(verifier, paid);
            self.reach("a verifier's pay");
        } else if paid > 0 {
            return wrong("nobody is to be paid for the verdict");
        }
        self.close_contest(deal, settlement.method == "agreed", released);
        self.note(deal, &settlement.method, released);
        Ok(())
    }

    fn close_contest(&mut self, deal: &Deal, agreed: bool, released: i64) {
        let Some(contest) = deal.contest.filter(|contest| !contest.deposit.is_zero()) else {
            return;
        };
        let price = deal.terms.price.amount.minor();
        let lapsed = deal.review.as_ref().is_some_and(|r| r.status == ReviewStatus::Lapsed);
        let loser = match released {
            _ if agreed || lapsed => None,
            // A requester that disputes its own refund has nobody against it.
            0 => Some(deal.provider).filter(|_| contest.by == Role::Provider),
            all if all == price => Some(deal.requester),
            _ => None,
        };
        match loser {
            Some(loser) => {
                self.gain(loser, -contest.deposit.minor());
                self.fees += contest.deposit.minor();
                self.reach("a deposit that was lost");
            }
            None => self.reach("a deposit that was returned"),
        }
    }

    fn note(&mut self, deal: &Deal, method: &str, released: i64) {
        let stake = deal.terms.stake;
        match deal.escrow {
            escrow::State::Refunded(reason) => self.reach(format!("refunded: {reason:?}")),
            _ => self.reach(format!("released by {method}")),
        }
        if released > 0 && released < deal.terms.price.amount.minor() {
            self.reach("released in part");
        }
        if !stake.subsidy.is_zero() {
            self.reach("a subsidy");
        }
        if !stake.remainder.is_zero() {
            match stake.policy {
                RemainderPolicy::Advance if released == 0 => {
                    self.reach("an advance that was refunded");
                }
                RemainderPolicy::Advance => self.reach("an advance"),
                RemainderPolicy::Reserve => self.reach("reserved"),
                RemainderPolicy::OnRelease => self.reach("promised"),
            }
        }
    }
}

/// What lies with others, or is owed, beside what is in an account.
#[derive(Default)]
struct Elsewhere {
    of: BTreeMap<AgentId, i64>,
    pots: i64,
    fees: i64,
}

impl Elsewhere {
    fn add(&mut self, who: AgentId, minor: i64) {
        *self.of.entry(who).or_default() += minor;
    }

    /// What a held escrow still owes to whoever filled it.
    fn held(&mut self, deal: &Deal) {
        let stake = deal.terms.stake;
        self.add(deal.requester, stake.from_requester().minor());
        self.pots += stake.subsidy.minor();
        if stake.policy == RemainderPolicy::Advance {
            self.add(deal.requester, stake.remainder.minor());
            self.add(deal.provider, -stake.remainder.minor());
        }
        if let Some(contest) = deal.contest {
            let opener = match contest.by {
                Role::Requester => deal.requester,
                Role::Provider => deal.provider,
            };
            self.add(opener, contest.deposit.minor());
        }
    }
}

impl Town {
    pub(super) async fn check(&mut self) -> Result<(), String> {
        self.read_log().await?;
        let accounts = self.market().store().accounts("", 100_000).await.unwrap();
        self.money_is_conserved(&accounts).await?;
        let mut elsewhere = Elsewhere::default();
        let deals = self.agreed().await;
        let receipts = self.receipts(&deals).await;
        for ((deal, _), receipt) in deals.iter().zip(receipts) {
            self.escrow_is_whole(deal, receipt, &accounts)?;
            match deal.escrow {
                escrow::State::Held => elsewhere.held(deal),
                _ => self.add_debts(deal, &accounts, &mut elsewhere).await?,
            }
        }
        self.somebody_will_act(&deals).await?;
        self.promises_are_counted(&deals).await?;
        self.worth_is_right(&accounts, &elsewhere).await
    }

    async fn receipts(&self, deals: &[DealAndTimer]) -> Vec<Option<StoredRecord>> {
        let key = |(deal, _): &DealAndTimer| RecordKey {
            route: RouteKey::of(deal.id),
            kind: "settlement",
            id: deal.id.to_string(),
        };
        self.market().store().records(deals.iter().map(key).collect()).await.unwrap()
    }

    async fn read_log(&mut self) -> Result<(), String> {
        let news = self.market().store().events(self.book.seen, 1000).await.unwrap();
        for logged in news {
            self.book.seen = logged.seq;
            let closing = CLOSINGS.contains(&logged.event.kind.as_str());
            if let (true, Ok(id)) = (closing, logged.event.route.as_str().parse::<DealId>()) {
                *self.book.closings.entry(id).or_default() += 1;
            }
        }
        Ok(())
    }

    /// All accounts together, the world outside included, have nothing; and none is overdrawn.
    async fn money_is_conserved(&self, accounts: &[Account]) -> Result<(), String> {
        let store = self.market().store();
        let mut sum = 0;
        for outside in [
            AccountId::external("faucet", Asset::USDC),
            AccountId::external("bank", Asset::USDC),
            AccountId::fees(Asset::USDC),
        ] {
            sum += store.journal_balance(outside).await.unwrap();
        }
        for account in accounts {
            sum += account.posted.minor();
            if account.held > account.posted {
                return Err(format!("overdrawn: {account:?}"));
            }
            // Decision 9: every credit pays first what is owed.
            if !account.owed.is_zero() && !account.available().is_zero() {
                return Err(format!("a debtor has something free: {account:?}"));
            }
        }
        if sum == 0 { Ok(()) } else { Err(format!("money is not conserved: {sum}")) }
    }

    /// An escrow holds what it should, closes once, and is empty then.
    fn escrow_is_whole(
        &mut self,
        deal: &Deal,
        receipt: Option<StoredRecord>,
        accounts: &[Account],
    ) -> Result<(), String> {
        let id = deal.id;
        let account = AccountId::escrow(&id, Asset::USDC);
        let found = accounts.iter().find(|a| a.id == account);
        let inside = found.map_or(0, |account| account.posted.minor());
        let is_held = deal.escrow == escrow::State::Held;
        let closings = self.book.closings.get(&id).copied().unwrap_or(0);
        if closings != u32::from(!is_held) {
            return Err(format!("{id} was closed {closings} times: {:?}", deal.escrow));
        }
        let deposit = deal.contest.map_or(0, |contest| contest.deposit.minor());
        let should = if is_held { deal.terms.stake.in_escrow().minor() + deposit } else { 0 };
        if inside != should {
            return Err(format!("{id} should hold {should} and holds {inside}"));
        }
        match receipt {
            Some(_) if is_held => Err(format!("{id} is held, and has a receipt")),
            None if is_held => Ok(()),
            None => Err(format!("{id} is closed without a receipt")),
            Some(receipt) if self.book.closed.insert(id) => {
                self.book.close(deal, &serde_json::from_str(&receipt.body).unwrap())
            }
            Some(_) => Ok(()),
        }
    }

    /// The debts of a closed deal, which are worth something to somebody.
    async fn add_debts(
        &mut self,
        deal: &Deal,
        accounts: &[Account],
        elsewhere: &mut Elsewhere,
    ) -> Result<(), String> {
        for debtor in [deal.requester, deal.provider] {
            let wallet = AccountId::wallet(&debtor, Asset::USDC);
            let owes = accounts.iter().find(|a| a.id == wallet).map_or(Amount::ZERO, |a| a.owed);
            if owes.is_zero() {
                continue;
            }
            for label in DEBTS {
                let debt = self.market().store().debt(&wallet, deal.id.debt(label)).await.unwrap();
                let Some(debt) = debt.filter(|debt| !debt.open.is_zero()) else { continue };
                self.book.reach("a debt");
                elsewhere.add(debtor, -debt.open.minor());
                match debt.creditor.purpose() {
                    Purpose::Fees => elsewhere.fees += debt.open.minor(),
                    Purpose::Subsidy => elsewhere.pots += debt.open.minor(),
                    _ => elsewhere.add(debt.creditor.owner().parse().unwrap(), debt.open.minor()),
                }
            }
        }
        Ok(())
    }

    /// A held escrow has a timer, or a person is asked.
    async fn somebody_will_act(&self, deals: &[DealAndTimer]) -> Result<(), String> {
        let store = self.market().store();
        let mut listed = store.listed("reviews", None, 1000).await.unwrap();
        listed.extend(store.listed("disputes", None, 1000).await.unwrap());
        let listed: BTreeSet<String> = listed.into_iter().map(|listed| listed.member).collect();
        let asked: BTreeSet<String> = deals
            .iter()
            .filter(|(deal, _)| deal.is_in_review())
            .map(|(deal, _)| deal.id.to_string())
            .collect();
        if listed != asked {
            return Err(format!("reviewers are asked about {listed:?}, and should be {asked:?}"));
        }
        for (deal, timer) in deals {
            let due = deal.due_at();
            if *timer != due {
                return Err(format!("{} is due {due:?}, its timer rings {timer:?}", deal.id));
            }
            let is_held = deal.escrow == escrow::State::Held;
            if is_held && due.is_none() && !listed.contains(&deal.id.to_string()) {
                return Err(format!("nobody will ever act on {}: {deal:#?}", deal.id));
            }
        }
        Ok(())
    }

    /// What is open beyond the escrows is what the records of its owners say.
    async fn promises_are_counted(&self, deals: &[DealAndTimer]) -> Result<(), String> {
        let keys = self.people.iter().map(|person| RecordKey::own("agent", person.id()));
        let records = self.market().store().records(keys.collect()).await.unwrap();
        for (person, record) in self.people.iter().zip(records) {
            let who = person.id();
            let record: AgentRecord = serde_json::from_str(&record.unwrap().body).unwrap();
            let open = |of: RemainderPolicy, owner: &dyn Fn(&Deal) -> AgentId| -> i64 {
                let deals = deals.iter().map(|(deal, _)| deal);
                let counted = deals.filter(|deal| {
                    deal.escrow == escrow::State::Held
                        && deal.terms.stake.policy == of
                        && owner(deal) == who
                });
                counted.map(|deal| deal.terms.stake.remainder.minor()).sum()
            };
            let should = (
                open(RemainderPolicy::OnRelease, &|deal| deal.requester),
                open(RemainderPolicy::Advance, &|deal| deal.provider),
            );
            let minor =
                |of: &BTreeMap<Asset, Amount>| of.get(&Asset::USDC).map_or(0, |a| a.minor());
            let is = (minor(&record.open_remainders), minor(&record.open_advances));
            if is != should {
                return Err(format!("{who} has open promises and advances {is:?}, not {should:?}"));
            }
            let fronted = deals
                .iter()
                .map(|(deal, _)| deal)
                .filter(|deal| deal.escrow == escrow::State::Held && deal.requester == who);
            let fronted: i64 = fronted.map(|deal| deal.terms.stake.subsidy.minor()).sum();
            if minor(&record.open_subsidies) != fronted {
                return Err(format!("{who} was fronted {fronted}: {:?}", record.open_subsidies));
            }
        }
        Ok(())
    }

    /// Everybody has what it should, whether in its wallet, in escrow or as a debt of others.
    async fn worth_is_right(
        &self,
        accounts: &[Account],
        elsewhere: &Elsewhere,
    ) -> Result<(), String> {
        let everybody: Vec<AgentId> = self
            .people
            .iter()
            .map(Person::id)
            .chain(self.lookers.iter().map(|looker| looker.id()))
            .collect();
        for who in everybody {
            let wallet = AccountId::wallet(&who, Asset::USDC);
            let posted = accounts.iter().find(|a| a.id == wallet).map_or(0, |a| a.posted.minor());
            let owed = accounts.iter().find(|a| a.id == wallet).map_or(0, |a| a.owed.minor());
            let is = posted + elsewhere.of.get(&who).copied().unwrap_or(0);
            let should = self.book.worth.get(&who).copied().unwrap_or(0);
            if is != should {
                return Err(format!("{who} has {is} (owing {owed}), and should have {should}"));
            }
        }
        let in_pots = accounts.iter().filter(|a| a.id.purpose() == Purpose::Subsidy);
        let pots = in_pots.map(|a| a.posted.minor()).sum::<i64>() + elsewhere.pots;
        if pots != self.book.pots {
            return Err(format!("the pots have {pots}, and should have {}", self.book.pots));
        }
        let fees = AccountId::fees(Asset::USDC);
        let fees = self.market().store().journal_balance(fees).await.unwrap() + elsewhere.fees;
        if fees != self.book.fees {
            return Err(format!("the fees are {fees}, and should be {}", self.book.fees));
        }
        Ok(())
    }

    /// With time and a person who decides, every escrow closes; and the database is whole.
    pub(super) async fn check_at_the_end(&mut self) -> Result<(), String> {
        let key = skep_base::ed25519::SecretKey::from_seed([99; 32]);
        let (kid, public_key) = ("last".to_owned(), key.public());
        let new = NewVerifierKey { kid, public_key, not_before: None, not_after: None };
        let signed = self.lookers[3].person.signed("a last key");
        self.market().add_verifier_key(&signed, new).await.unwrap();
        (self.lookers[3].key, self.lookers[3].kid) = (key, "last");
        for _ in 0..6 {
            self.clock.advance(8 * 24 * HOUR);
            self.run_timers().await?;
            self.check().await?;
            for (deal, _) in self.agreed().await {
                if deal.is_in_review() {
                    self.decide_finally(&deal).await?;
                    self.check().await?;
                }
            }
        }
        for (deal, _) in self.agreed().await {
            if deal.escrow == escrow::State::Held {
                return Err(format!("one never closes: {deal:#?}"));
            }
        }
        let report = self.market().store().audit(Box::new(|_, _| {})).await.unwrap();
        if !report.is_clean() {
            return Err(format!("{report:#?}"));
        }
        self.scores_are_right().await
    }

    /// Everybody's track record follows from the log, and from the deals themselves.
    async fn scores_are_right(&mut self) -> Result<(), String> {
        let report = self.market().recompute_scores(Box::new(|_, _| {})).await.unwrap();
        if !report.is_clean() {
            return Err(format!("{report:#?}"));
        }
        let deals = self.agreed().await;
        for person in 0..self.people.len() {
            let who = self.people[person].id();
            let (track, _) = self.market().track_record(&who).await.unwrap();
            let paid = deals.iter().filter(|(deal, _)| {
                deal.provider == who
                    && deal.requester_operator != deal.provider_operator
                    && deal.escrow == escrow::State::Released
                    && deal.closed.is_some_and(|c| {
                        let is_half = 2 * c.released.minor() >= deal.terms.price.amount.minor();
                        let is_work = c.method != Method::Agreed || deal.delivered.is_some();
                        let was_bad = deal.verdict_reason.is_some()
                            && deal.attempts.iter().any(|attempt| {
                                let by = attempt.proof.as_ref().map(|proof| proof.by);
                                let bad =
                                    [VerificationStatus::Failed, VerificationStatus::Rejected];
                                bad.contains(&attempt.status)
                                    && by.is_some_and(|by| by != deal.requester)
                            });
                        let bargained = c.method == Method::Agreed && was_bad;
                        is_half && is_work && !bargained && c.method != Method::SelfAttested
                    })
            });
            if (track.totals.ap2_ok, track.disputes, track.subsidies_open)
                != (paid.count() as u64, 0, 0)
            {
                return Err(format!("the track record of {who} is wrong: {track:?}"));
            }
            if track.totals.ap2_ok > 0 {
                self.book.reach("a score");
            }
        }
        Ok(())
    }
}
