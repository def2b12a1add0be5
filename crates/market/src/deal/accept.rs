//! Decision 24: acceptance, hold and agreement are one transaction.

use std::time::Duration;

use serde_json::Value;
use skep_base::{AgentId, Amount, Asset, Did, Money, hash::sha256, id::DealId};
use skep_settle::{
    Deal, Offer, Terms, agreement, escrow,
    money::Stake,
    negotiation,
    offer::Changed,
    terms::{hash, release_condition},
};
use skep_store::{AccountId, Bug, Load, Lock, Turn};
use skep_wire::settle::{
    EscrowHold, EscrowStatus, NegotiationAnswer, NegotiationResponse, RemainderPolicy, Role,
    Standing, VCAP_VERSION,
};

use super::{
    DealRecord, DealRefusal, Hint, NegotiationRecord, deal_key, money,
    negotiate::{answer_of, party},
    negotiation_key,
    standing::standing_key,
    verifiers::Need,
};
use crate::{
    AgentRecord, Answered, Failure, Market, Refusal, Signed,
    answer::Stop,
    identity::agent_key,
    score::{
        Change, Esteem, Fronted, ScoreLine, Scored, load_subsidies, load_track, subsidies_allow,
        take_subsidy,
    },
    transfer::{not_frozen, not_in_debt},
};

/// Over how long a provider's earnings bound its open advances (decision 9).
const EARNINGS_WINDOW: Duration = Duration::from_secs(90 * 24 * 3600);
/// The furthest deadline: money is not held for ever.
const DEADLINE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// How often an acceptance is prepared anew because the world moved.
const PREPARATIONS_MAX: u32 = 4;

/// Whether the platform can front a part of a newcomer's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pot {
    NotAsked,
    /// A moment ago it could not.
    Empty,
    /// It is loaded, with how many others it does that for.
    Loaded,
}

/// What was found out outside the transaction, and is checked again inside.
#[derive(Clone, Debug)]
struct Prepared {
    /// The requester's operator, then the provider's.
    operators: [Did; 2],
    /// A part of the price lies outside the escrow.
    remainder: bool,
    pot: Pot,
    /// What the provider earned lately, in minor units.
    earned_minor: i64,
}

/// Everything that an acceptance is about.
#[derive(Clone, Debug)]
struct Acceptance {
    id: DealId,
    requester: AgentId,
    provider: AgentId,
    by: Role,
    raw: Value,
    message: NegotiationResponse,
    /// Who takes the baseline, or is named by the terms.
    verifier: Option<AgentId>,
    prepared: Prepared,
}

impl Acceptance {
    fn scored(&self) -> Scored<'_> {
        Scored { agent: self.provider, operator: &self.prepared.operators[1] }
    }

    /// Who accepts, and hears why not.
    fn asked_by(&self) -> AgentId {
        match self.by {
            Role::Requester => self.requester,
            Role::Provider => self.provider,
        }
    }

    fn operators(&self) -> [&Did; 2] {
        let [requester, provider] = &self.prepared.operators;
        [requester, provider]
    }
}

impl Market {
    pub(super) async fn accept(
        &self,
        signed: &Signed,
        id: DealId,
        known: NegotiationRecord,
        by: Role,
        message: NegotiationResponse,
        raw: Value,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        let mut prepared = self.guess(&known, id).await?;
        for _ in 0..PREPARATIONS_MAX {
            let verifier = self.verifier_at_acceptance(&known, id).await?;
            let acceptance = Acceptance {
                id,
                requester: known.requester,
                provider: known.provider,
                by,
                raw: raw.clone(),
                message: message.clone(),
                verifier,
                prepared: prepared.clone(),
            };
            match self.try_accept(signed, &known.offer, acceptance).await {
                Err(Failure::Refused(Refusal::Deal { reason: DealRefusal::AskAgain })) => {
                    self.directory.forget();
                    prepared = self.look_around(&known, id).await?;
                }
                done => return done,
            }
        }
        Err(DealRefusal::AskAgain.into())
    }

    /// What was known when the request was made is mostly still so.
    async fn guess(&self, known: &NegotiationRecord, id: DealId) -> Result<Prepared, Failure> {
        let Some(Hint { operators, remainder }) = known.hint.clone() else {
            return self.look_around(known, id).await;
        };
        if remainder && known.offer.options.remainder_policy == Some(RemainderPolicy::Advance) {
            return self.look_around(known, id).await;
        }
        let pot = if self.pots.are_empty() { Pot::Empty } else { Pot::NotAsked };
        Ok(Prepared { operators, remainder, pot, earned_minor: 0 })
    }

    /// Everything that an acceptance can need.
    async fn look_around(
        &self,
        known: &NegotiationRecord,
        id: DealId,
    ) -> Result<Prepared, Failure> {
        let asset = known.offer.price.asset;
        let requester = self.agent_record(&known.requester).await?.agent.operator;
        let provider = self.agent_record(&known.provider).await?.agent.operator;
        let pot = AccountId::subsidy(id.as_bytes(), asset);
        let seen = self.store.look(vec![], vec![pot]).await?;
        let is_empty = seen.accounts.iter().all(|pot| pot.available().is_zero());
        if is_empty {
            self.pots.seen_empty();
        }
        let earned_minor = match known.offer.options.remainder_policy {
            Some(RemainderPolicy::Advance) => {
                let wallet = AccountId::wallet(&known.provider, asset);
                self.store.earned(wallet, seen.now.minus(EARNINGS_WINDOW)).await?
            }
            _ => 0,
        };
        Ok(Prepared {
            operators: [requester, provider],
            remainder: true,
            // An operator's word of a test asks for the pot whatever is in it.
            pot: if is_empty && !self.dev { Pot::Empty } else { Pot::Loaded },
            earned_minor,
        })
    }

    /// Whose record the acceptance has to look at: the named verifier, or one for the baseline.
    async fn verifier_at_acceptance(
        &self,
        known: &NegotiationRecord,
        id: DealId,
    ) -> Result<Option<AgentId>, Failure> {
        if let Some(named) = known.offer.options.verifier {
            return Ok(Some(named));
        }
        if known.offer.criteria.fingerprint_delta != Some(true) {
            return Ok(None);
        }
        let requester = self.agent_record(&known.requester).await?.agent.operator;
        let provider = self.agent_record(&known.provider).await?.agent.operator;
        let criteria = skep_settle::criteria::freeze(&known.offer.criteria);
        let need = Need {
            seed: sha256(id.as_bytes()),
            engines: skep_settle::criteria::engines(&criteria),
            parties: [known.requester, known.provider],
            operators: [requester, provider],
            asset: known.offer.price.asset,
            price: known.offer.options.verifier_price_minor.unwrap_or(Amount::ZERO),
        };
        self.pick(&need, &[]).await
    }

    async fn try_accept(
        &self,
        signed: &Signed,
        offer: &Offer,
        acceptance: Acceptance,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        let Acceptance { id, requester, provider, .. } = acceptance;
        let asset = offer.price.asset;
        // What is promised is counted in the record of whoever would owe it.
        let policy = offer.options.remainder_policy.unwrap_or_default();
        let owes = |of| policy == of && acceptance.prepared.remainder;
        let lock = |counts| if counts { Lock::Exclusive } else { Lock::Shared };
        let fronts = acceptance.prepared.pot == Pot::Loaded;
        let mut load = Load {
            records: vec![
                (negotiation_key(&id), Lock::Exclusive),
                (deal_key(&id), Lock::Exclusive),
                (agent_key(&requester), lock(fronts || owes(RemainderPolicy::OnRelease))),
                (agent_key(&provider), lock(owes(RemainderPolicy::Advance))),
                (standing_key(&provider), Lock::None),
            ],
            accounts: vec![
                AccountId::wallet(&requester, asset),
                AccountId::wallet(&provider, asset),
                AccountId::escrow(&id, asset),
            ],
            ..Load::default()
        };
        let mut score = Lock::Shared;
        if fronts {
            load.accounts.push(AccountId::subsidy(id.as_bytes(), asset));
            load_subsidies(&mut load, &requester, acceptance.operators());
            score = Lock::Exclusive;
        }
        load_track(&mut load, &provider, acceptance.scored().operator, score);
        if let Some(verifier) = acceptance.verifier {
            Market::load_verifier(&mut load, &verifier);
        }
        let market = self.clone();
        self.run_signed(signed, load, move |turn, _| market.close(turn, &acceptance)).await
    }

    fn close(&self, turn: &mut Turn, acceptance: &Acceptance) -> Result<NegotiationAnswer, Stop> {
        let Acceptance { id, by, .. } = *acceptance;
        let now = turn.now();
        let key = negotiation_key(&id);
        let mut record: NegotiationRecord =
            turn.record(&key)?.ok_or(DealRefusal::UnknownDeal { deal: id })?;
        let input = negotiation::Input::Accept { by };
        record.talks = negotiation::step(record.talks, now, input).map_err(DealRefusal::from)?;
        let unchanged = record.offer.check_acceptance(&acceptance.message);
        unchanged.map_err(|changed| match changed {
            Changed::Price(reason) => DealRefusal::Price { reason },
            Changed::Terms(reason) => DealRefusal::Message { reason },
        })?;
        record.messages.push(acceptance.raw.clone());

        let (requester, provider) =
            (party(turn, &record.requester)?, party(turn, &record.provider)?);
        if [&requester.agent.operator, &provider.agent.operator] != acceptance.operators() {
            return Err(ask_again());
        }
        if record.offer.requires_benchmark {
            self.require_benchmark(turn, acceptance.scored(), acceptance.asked_by())?;
        }
        let terms = self.terms(turn, acceptance, &record, &requester)?;
        if !terms.stake.remainder.is_zero() && !acceptance.prepared.remainder {
            return Err(ask_again());
        }
        let parties = (record.requester, record.provider);
        let document = terms.document(id, parties, now, &record.messages);
        let terms_hash = hash(&document).map_err(|e| Bug(e.to_string()))?;
        let delta = terms.criteria.fingerprint_delta == Some(true);
        let deal = Deal {
            id,
            requester: record.requester,
            provider: record.provider,
            requester_operator: requester.agent.operator,
            provider_operator: provider.agent.operator,
            terms,
            terms_hash,
            accepted_at: now,
            agreement: agreement::State::Active,
            escrow: escrow::State::Held,
            delivered: None,
            attempts: vec![],
            review: None,
            window_until: None,
            contest: None,
            verdict_reason: None,
            statements: vec![],
            split_offer: None,
            cancel_asked: false,
            baseline_by: acceptance.verifier.filter(|_| delta),
            baseline: None,
            verifier_due: None,
            closed: None,
        };
        self.check_verifier(turn, &deal, acceptance.verifier)?;
        let earned_minor = acceptance.prepared.earned_minor;
        self.fund(turn, &deal, earned_minor, (requester, provider))?;
        let line = self.front(turn, acceptance, &deal)?;
        turn.put(&key, &record)?;
        let mut stored = DealRecord { deal, timer: None, late: 0 };
        self.set_timer(turn, &mut stored);
        turn.put(&deal_key(&id), &stored)?;
        self.announce(turn, &stored.deal, "agreement.created", line)?;
        let escrow = Some(escrow_hold(&stored.deal));
        Ok(NegotiationAnswer { escrow, ..answer_of(id, &record) })
    }

    /// Counts a deal of which the platform fronts a part, on all sides.
    fn front(
        &self,
        turn: &mut Turn,
        acceptance: &Acceptance,
        deal: &Deal,
    ) -> Result<ScoreLine, Stop> {
        if deal.terms.stake.subsidy.is_zero() {
            return Ok(ScoreLine::default());
        }
        take_subsidy(turn, &deal.requester, acceptance.operators())?;
        let change = Change { subsidy: Some(Fronted::Opened), ..Change::default() };
        self.count(turn, acceptance.scored(), change)
    }

    /// Whether the platform fronts a part, as far as everything but its own money goes.
    fn may_front(
        &self,
        turn: &Turn,
        acceptance: &Acceptance,
        price: Money,
        esteem: &Esteem,
    ) -> Result<bool, Stop> {
        let operators = acceptance.operators();
        // Decision 11: never between linked parties.
        if !esteem.standing.subsidised || operators[0] == operators[1] {
            return Ok(false);
        }
        let limits = &self.policy.subsidy;
        match acceptance.prepared.pot {
            _ if !esteem.is_word && !limits.covers(price) => Ok(false),
            Pot::Empty if !esteem.is_word => Ok(false),
            Pot::Empty | Pot::NotAsked => Err(ask_again()),
            Pot::Loaded if esteem.is_word => Ok(true),
            Pot::Loaded => subsidies_allow(turn, limits, &acceptance.requester, operators),
        }
    }

    fn terms(
        &self,
        turn: &Turn,
        acceptance: &Acceptance,
        record: &NegotiationRecord,
        requester: &AgentRecord,
    ) -> Result<Terms, Stop> {
        let esteem = self.esteem(turn, acceptance.scored())?;
        let price = record.offer.price;
        let subsidised = self.may_front(turn, acceptance, price, &esteem)?;
        let mut standing = Standing { subsidised, ..esteem.standing };
        let close = |standing: &_| Terms::close(&record.offer, turn.now(), &self.policy, standing);
        let mut terms = close(&standing);
        let pot = AccountId::subsidy(acceptance.id.as_bytes(), price.asset);
        // An empty pot, or a wallet that could not repay it whatever else comes, costs a newcomer
        // the advance, not the deal. The pot is loaded if it is needed.
        if let Some(stake) = terms.as_ref().map(|terms| terms.stake)
            && !stake.subsidy.is_zero()
            && let Some(pot) = turn.book.account(&pot)
            && (pot.available() < stake.subsidy || !covers(turn, requester, price.asset, &stake))
        {
            standing.subsidised = false;
            terms = close(&standing);
        }
        let terms = terms.ok_or_else(|| DealRefusal::Message {
            reason: skep_settle::BadMessage {
                field: "request.budget_amount".to_owned(),
                problem: "price, fee and verifier's price are too large together".to_owned(),
            },
        })?;
        if terms.deadline <= turn.now() {
            return Err(DealRefusal::DeadlineInPast { deadline: terms.deadline }.into());
        }
        if terms.deadline > turn.now().plus(DEADLINE_MAX) {
            let problem = "work is due within a year".to_owned();
            let field = "request.deadline_utc".to_owned();
            let reason = skep_settle::BadMessage { field, problem };
            return Err(DealRefusal::Message { reason }.into());
        }
        Ok(terms)
    }

    /// The named verifier must be able to do it; one that was picked and no longer can is replaced.
    fn check_verifier(
        &self,
        turn: &Turn,
        deal: &Deal,
        verifier: Option<AgentId>,
    ) -> Result<(), Stop> {
        let wanted = deal.terms.verifier.is_some();
        match verifier {
            Some(agent) => match self.can_verify(turn, deal, &agent) {
                Err(Stop::Refused(_)) if !wanted => Err(ask_again()),
                checked => checked,
            },
            None if deal.terms.criteria.fingerprint_delta == Some(true) => {
                let engine = deal.terms.engine().to_owned();
                let what = format!("nobody independent of both sides has the engine {engine}");
                Err(DealRefusal::BadVerifier { what }.into())
            }
            None => Ok(()),
        }
    }

    /// Moves the money, and counts what stays open beyond it.
    fn fund(
        &self,
        turn: &mut Turn,
        deal: &Deal,
        earned_minor: i64,
        (mut requester, mut provider): (AgentRecord, AgentRecord),
    ) -> Result<(), Stop> {
        let stake = deal.terms.stake;
        let asset = deal.terms.price.asset;
        let wallet = AccountId::wallet(&deal.requester, asset);
        not_frozen(turn, &requester)?;
        not_in_debt(turn, &wallet)?;
        not_in_debt(turn, &AccountId::wallet(&deal.provider, asset))?;
        let free = money::free(turn, &wallet);
        // What is there must cover what is promised too (decision 9), and what is fronted.
        let needed = stake.needed();
        if free < needed {
            let (needed_minor, available_minor) = (needed.minor(), free.minor());
            return Err(DealRefusal::FundingFailed { needed_minor, available_minor }.into());
        }
        money::open(turn, deal)?;
        money::promise(&mut requester, asset, &stake);
        // Whatever the hold takes, the wallet stays good for its part of what is promised; and for
        // all of it while the platform has fronted something, which is never a gift (decision 11).
        let left = money::free(turn, &wallet).minor();
        let limit_minor = match requester.is_fronted(asset) {
            true => left,
            false => left.saturating_mul(self.policy.remainder_multiple),
        };
        let would_be_minor = requester.promised(asset).minor();
        if would_be_minor > limit_minor {
            return Err(DealRefusal::RemainderLimit { limit_minor, would_be_minor }.into());
        }
        if money::lock_of_requester(&stake) == Lock::Exclusive {
            turn.put(&agent_key(&deal.requester), &requester)?;
        }
        if money::lock_of_provider(&stake) == Lock::Exclusive {
            let would_be_minor = money::advance(&mut provider, asset, &stake).minor();
            if would_be_minor > earned_minor {
                let limit_minor = earned_minor;
                return Err(DealRefusal::AdvanceLimit { limit_minor, would_be_minor }.into());
            }
            turn.put(&agent_key(&deal.provider), &provider)?;
        }
        Ok(())
    }
}

/// Whether a wallet has what a deal needs beside all that it can come to owe.
fn covers(turn: &Turn, requester: &AgentRecord, asset: Asset, stake: &Stake) -> bool {
    let wallet = AccountId::wallet(&requester.agent.agent_id, asset);
    let free = money::free(turn, &wallet).checked_sub(requester.may_owe(asset));
    free.is_some_and(|free| free >= stake.needed())
}

fn ask_again() -> Stop {
    Stop::Unheard(Refusal::Deal { reason: DealRefusal::AskAgain })
}

/// 3.3.
pub(crate) fn escrow_hold(deal: &Deal) -> EscrowHold {
    let (asset, stake) = (deal.terms.price.asset, deal.terms.stake);
    EscrowHold {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "escrow_hold".to_owned(),
        escrow_id: deal.id,
        negotiation_id: deal.id,
        source_wallet: AccountId::wallet(&deal.requester, asset).to_string(),
        destination_wallet: AccountId::wallet(&deal.provider, asset).to_string(),
        amount: skep_base::Money { amount: stake.hold, asset }.into(),
        amount_minor: stake.hold,
        currency: asset,
        status: EscrowStatus::Held,
        release_condition: release_condition(&deal.terms_hash),
        held_at: deal.accepted_at,
        price_minor: stake.price,
        remainder_minor: stake.remainder,
        remainder_policy: stake.policy,
        fee_reserved_minor: stake.fee_reserved,
        verifier_price_minor: stake.verifier_price,
        subsidy_minor: stake.subsidy,
        modifier_e4: stake.modifier_e4,
        effective_modifier_e4: stake.effective_modifier_e4.unwrap_or(stake.modifier_e4),
    }
}
