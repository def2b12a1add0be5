//! Decision 11: what the platform fronts a part of newcomers' holds from, how many deals under way
//! it does that for, and for whom.

use serde::{Deserialize, Serialize};
use serde_json::json;
use skep_base::{AgentId, Amount, Did, Money, hash::sha256, id::TransferId};
use skep_settle::SubsidyLimits;
use skep_store::{AccountId, Load, Lock, Order, RecordKey, RouteKey, Turn};
use skep_wire::admin::AdminAnswer;

use crate::{Failure, Market, answer::Stop};

/// The rail that the platform's own money comes by.
const RAIL: &str = "platform";

impl Market {
    /// Spreads money of the platform's own over the pots. The same id again fills nothing.
    pub(super) async fn fund_subsidies(
        &self,
        id: TransferId,
        money: Money,
        reason: String,
    ) -> Result<AdminAnswer, Failure> {
        let pots = AccountId::subsidies(money.asset);
        let orders = orders(id, money, &pots);
        let transfers = orders.iter().map(|order| (order.route.clone(), order.id)).collect();
        let load = Load { accounts: pots.clone(), transfers, ..Load::default() };
        let funded = self.run(load, vec![], move |turn| {
            let known = orders.iter().any(|order| turn.book.find(&order.id).is_some());
            for order in &orders {
                turn.book.transfer(order.clone())?;
            }
            if !known {
                let told = json!({ "id": id, "money": money, "reason": reason });
                turn.event(&RouteKey::of(id), "subsidies.funded", &told, &[])?;
            }
            let mut free = 0_i64;
            for pot in &pots {
                let known = turn.book.account(pot).map_or(0, |pot| pot.available().minor());
                free = free.saturating_add(known);
            }
            let free = Money { amount: Amount::new(free).unwrap_or_default(), asset: money.asset };
            Ok(AdminAnswer { at: turn.now(), now: json!({ "subsidies": free }) })
        });
        let answer = funded.await?.value;
        self.pots.filled();
        Ok(answer)
    }
}

/// As much for each pot, and what is left over for the first.
fn orders(id: TransferId, money: Money, pots: &[AccountId]) -> Vec<Order> {
    let count = i64::try_from(pots.len()).unwrap_or(1);
    let (each, rest) = (money.amount.minor() / count, money.amount.minor() % count);
    let order = |(n, pot): (u8, &AccountId)| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sha256(format!("{id} {n}").as_bytes()).as_bytes()[..16]);
        Order {
            id: TransferId::from_bytes(bytes),
            route: RouteKey::of(id),
            debit: AccountId::external(RAIL, money.asset),
            credit: pot.clone(),
            amount: Amount::new(if n == 0 { each + rest } else { each }).unwrap_or_default(),
            budget: None,
        }
    };
    (0..).zip(pots).map(order).filter(|order| !order.amount.is_zero()).collect()
}

/// Of one requester, or of one operator's agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Subsidies {
    open: u32,
}

fn key(of: impl std::fmt::Display) -> RecordKey {
    RecordKey::own("subsidies", of)
}

/// The requester's first, then each operator's once.
fn keys(requester: &AgentId, operators: [&Did; 2]) -> Vec<RecordKey> {
    let mut keys = vec![key(requester), key(operators[0])];
    if operators[0] != operators[1] {
        keys.push(key(operators[1]));
    }
    keys
}

pub(crate) fn load_subsidies(load: &mut Load, requester: &AgentId, operators: [&Did; 2]) {
    let keys = keys(requester, operators);
    load.records.extend(keys.into_iter().map(|key| (key, Lock::Exclusive)));
}

/// Whether one more is allowed.
pub(crate) fn subsidies_allow(
    turn: &Turn,
    limits: &SubsidyLimits,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<bool, Stop> {
    for (n, key) in keys(requester, operators).iter().enumerate() {
        let known: Subsidies = turn.record(key)?.unwrap_or_default();
        let most = if n == 0 { limits.open_per_requester } else { limits.open_per_operator };
        if known.open >= most {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One more is under way.
pub(crate) fn take_subsidy(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<(), Stop> {
    change(turn, requester, operators, |open| open.saturating_add(1))
}

/// One has ended.
pub(crate) fn end_subsidy(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<(), Stop> {
    change(turn, requester, operators, |open| open.saturating_sub(1))
}

fn change(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
    to: impl Fn(u32) -> u32,
) -> Result<(), Stop> {
    for key in keys(requester, operators) {
        let known: Subsidies = turn.record(&key)?.unwrap_or_default();
        turn.put(&key, &Subsidies { open: to(known.open) })?;
    }
    Ok(())
}
