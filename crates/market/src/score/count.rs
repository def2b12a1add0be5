//! What counts and what does not, for every way in which work can end.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Amount, Asset, Hash32, Timestamp, id::SessionId};
use skep_score::{Dimension, Fact, Track, atep::Visit, money::cents, session};
use skep_settle::{
    Deal, agreement,
    deal::{Attempt, Closed, Method},
    escrow,
};
use skep_store::{Event, RouteKey};
use skep_wire::{conduit::SessionBundle, hire::EscrowTerms};

/// Hosts of one session that are noted: the event of its end stays short.
const VISIT_DOMAINS_MAX: usize = 50;

/// What happened to an agent's open disputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Turned {
    Opened,
    Closed,
}

/// What happened to a deal of which the platform fronts a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fronted {
    Opened,
    Closed,
    /// Closed, with pay that counts for nothing: it uses up a newcomer's first deals all the same.
    Spent,
}

impl Fronted {
    pub(super) fn apply(self, track: &mut Track) {
        let turned = if self == Fronted::Opened { Turned::Opened } else { Turned::Closed };
        turn_count(&mut track.subsidies_open, Some(turned));
        if self == Fronted::Spent {
            turn_count(&mut track.subsidies_spent, Some(Turned::Opened));
        }
    }
}

/// What one step changes in a track record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) fact: Option<Fact>,
    pub(crate) dispute: Option<Turned>,
    pub(crate) subsidy: Option<Fronted>,
    /// What a session has touched.
    pub(crate) visit: Option<Visit>,
}

/// What an event says of a track record: enough to make it again from the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScoreLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scored: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<Told>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dispute: Option<Turned>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subsidy: Option<Fronted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) visit: Option<Visit>,
}

/// A fact as an event tells of it: without what the event says anyway, since every settlement pays
/// for each byte of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    dimension: Dimension,
    /// Else it is the event's own route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    ok: bool,
    released_cents: u64,
    /// Else it is the deal's requester, if it is a deal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counterparty: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<Hash32>,
    /// Else it is the event's own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
}

impl From<Fact> for Told {
    fn from(fact: Fact) -> Told {
        let Fact { dimension, source, ok, released_cents, counterparty, proof, at } = fact;
        let (source, at) = (Some(source), Some(at));
        Told { dimension, source, ok, released_cents, counterparty, proof, at }
    }
}

impl Told {
    /// Whether it is for the event's deal to say who the counterparty was.
    pub(super) fn is_of_deal(&self) -> bool {
        self.source.is_none()
    }

    /// The whole fact, given what its event says.
    pub(super) fn fact(self, event: &Event, requester: Option<AgentId>) -> Fact {
        let Told { dimension, source, ok, released_cents, counterparty, proof, at } = self;
        Fact {
            dimension,
            source: source.unwrap_or_else(|| event.route.as_str().to_owned()),
            ok,
            released_cents,
            counterparty: counterparty.or(requester),
            proof,
            at: at.unwrap_or(event.at),
        }
    }
}

impl ScoreLine {
    /// What of it a deal's event need not say.
    pub(crate) fn beside(mut self, deal: &Deal, route: &RouteKey, now: Timestamp) -> ScoreLine {
        let is_deals = |told: &&mut Told| {
            let source = told.source.as_deref() == Some(route.as_str());
            source && told.counterparty == Some(deal.requester)
        };
        if let Some(told) = self.counted.as_mut().filter(is_deals) {
            (told.source, told.counterparty) = (None, None);
            told.at = told.at.filter(|at| *at != now);
        }
        self
    }
}

impl Change {
    pub(crate) fn of(fact: Option<Fact>) -> Change {
        Change { fact, ..Change::default() }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Change::default()
    }

    /// The fact's time is settled when it is counted.
    pub(super) fn line(self, agent: AgentId) -> ScoreLine {
        let Change { fact, dispute, subsidy, visit } = self;
        ScoreLine { scored: Some(agent), counted: fact.map(Told::from), dispute, subsidy, visit }
    }

    /// All but the fact.
    pub(super) fn apply(&self, track: &mut Track) {
        turn_count(&mut track.disputes, self.dispute);
        if let Some(fronted) = self.subsidy {
            fronted.apply(track);
        }
    }
}

pub(super) fn turn_count(count: &mut u32, turned: Option<Turned>) {
    *count = match turned {
        Some(Turned::Opened) => count.saturating_add(1),
        Some(Turned::Closed) => count.saturating_sub(1),
        None => *count,
    };
}

/// What a step of a deal means for its provider, given how it stood before. The requester is never
/// scored by a deal, and a deal within one operator counts for nobody.
pub(crate) fn deal_change(before: (agreement::State, escrow::State), deal: &Deal) -> Change {
    let closes = before.1 == escrow::State::Held && deal.escrow != escrow::State::Held;
    let ends_subsidy = closes && !deal.terms.stake.subsidy.is_zero();
    let mut change =
        Change { subsidy: ends_subsidy.then_some(Fronted::Closed), ..Change::default() };
    if deal.requester_operator == deal.provider_operator {
        return change;
    }
    let is_open = |state| matches!(state, agreement::State::Disputed { open: true });
    change.dispute = match (is_open(before.0), is_open(deal.agreement)) {
        (false, true) => Some(Turned::Opened),
        (true, false) => Some(Turned::Closed),
        _ => None,
    };
    if closes {
        change.fact = deal.closed.and_then(|closed| deal_fact(deal, closed));
    }
    if ends_subsidy && change.fact.is_none() && deal.escrow == escrow::State::Released {
        change.subsidy = Some(Fronted::Spent);
    }
    change
}

fn deal_fact(deal: &Deal, closed: Closed) -> Option<Fact> {
    // Decision 26: the provider's own word is no evidence.
    if closed.method == Method::SelfAttested || deal.terms.price.amount.is_zero() {
        return None;
    }
    let attempt = closed.attempt.and_then(|n| deal.attempt(n));
    let own_word = |attempt: &Attempt| attempt.verifier == Some(deal.requester);
    let ok = match deal.escrow {
        escrow::State::Held => return None,
        // What somebody else has found bad is not bargained away: at best it counts for nothing.
        _ if closed.method == Method::Agreed
            && deal.bad_verdict().is_some_and(|a| !own_word(a)) =>
        {
            if is_half(deal, &closed) {
                return None;
            }
            false
        }
        escrow::State::Released if !is_success(deal, &closed) => return None,
        escrow::State::Released => true,
        // A refund on the requester's word alone costs the requester nothing.
        escrow::State::Refunded(reason) => {
            if attempt.is_some_and(own_word) || !reason.is_providers_fault() {
                return None;
            }
            false
        }
    };
    Some(Fact {
        dimension: Dimension::Ap2,
        source: deal.id.to_string(),
        ok,
        released_cents: cents(closed.released, deal.terms.price.asset),
        counterparty: Some(deal.requester),
        proof: attempt.and_then(|attempt| attempt.proof.as_ref()).map(|proof| proof.hash),
        at: closed.at,
    })
}

/// Whether money that was paid out is worth what was agreed on. Less than half of the price is no
/// success; nor is what both sides have agreed on without anything being delivered.
fn is_success(deal: &Deal, closed: &Closed) -> bool {
    is_half(deal, closed) && (closed.method != Method::Agreed || deal.delivered.is_some())
}

fn is_half(deal: &Deal, closed: &Closed) -> bool {
    let rest = deal.terms.price.amount.checked_sub(closed.released);
    rest.is_none_or(|rest| closed.released >= rest)
}

/// A hire's escrow that was paid out. Other ends do not count here: a refund after a delivery is
/// the buyer's word, and whether the seller took the hire at all is the buyer's word too, since
/// anybody can pay into an escrow for a stranger.
pub(crate) fn escrow_fact(id: impl ToString, terms: &EscrowTerms, at: Timestamp) -> Option<Fact> {
    hire_fact(id, terms, true, at)
}

/// A hire's escrow that was refunded, and whose result the platform itself has found bad.
pub(crate) fn judged_fact(id: impl ToString, terms: &EscrowTerms, at: Timestamp) -> Option<Fact> {
    hire_fact(id, terms, false, at)
}

fn hire_fact(id: impl ToString, terms: &EscrowTerms, ok: bool, at: Timestamp) -> Option<Fact> {
    // Whoever pays itself has hired nobody.
    if terms.amount.is_zero() || [terms.seller, terms.payee].contains(&terms.buyer) {
        return None;
    }
    let released = if ok { terms.amount } else { Amount::ZERO };
    Some(Fact {
        dimension: Dimension::Ap2,
        source: id.to_string(),
        ok,
        released_cents: cents(released, Asset::USDC),
        counterparty: Some(terms.buyer),
        proof: None,
        at,
    })
}

/// A session whose proof was checked, if it counts.
pub(crate) fn session_fact(
    id: &SessionId,
    bundle: &SessionBundle,
    proof: Hash32,
    at: Timestamp,
) -> Option<Fact> {
    session::outcome(bundle).map(|ok| Fact {
        dimension: Dimension::Conduit,
        source: id.to_string(),
        ok,
        released_cents: 0,
        counterparty: None,
        proof: Some(proof),
        at,
    })
}

/// What was done in a session, where, and what it has cost.
pub(crate) fn session_visit(bundle: &SessionBundle, cost: Amount, asset: Asset) -> Visit {
    let log = &bundle.action_log;
    let hosts = log.iter().filter_map(session::done_at);
    let domains: BTreeSet<String> = hosts.map(str::to_lowercase).collect();
    let kind = |action: &Value| action.get("action").and_then(Value::as_str).map(str::to_owned);
    let kinds: BTreeSet<String> =
        log.iter().filter(|action| session::is_done(action)).filter_map(kind).collect();
    Visit {
        domains: domains.into_iter().take(VISIT_DOMAINS_MAX).collect(),
        task_types: kinds.into_iter().collect(),
        cost_cents: cents(cost, asset),
    }
}
