//! Budgets: what an agent may spend for somebody else. The counter is an account of the ledger, so
//! that the journal re-derives it; parallel spenders meet at its row.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Asset, Hash32, Timestamp};
use skep_hire::budget::{BudgetRefusal, Parent, Spender, check_new, check_time};
use skep_store::{
    Account, AccountId, Bug, Job, JobDraft, JobEnd, Load, Lock, RecordKey, RouteKey, Turn,
};
use skep_wire::hire::{Budget, BudgetIssuer, BudgetToken, SignedError};

use super::facts::Facts;
use crate::{
    AgentRecord, Answered, Failure, Market, OperatorRecord, Refusal, answer::Stop,
    identity::agent_key, register::operator_key,
};

/// Jobs that give back what is left of a part when its time is over.
pub(crate) const BUDGET_JOB: &str = "budget.tick";
/// How often an ended part is looked at again while some of it is held in escrows.
const HELD_PAUSE: Duration = Duration::from_secs(3600);
/// How much of a budget's id is in its account's name.
const ACCOUNT_NAME_LEN: usize = 32;

/// A budget as it is stored. Limit and counter are in its account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetRecord {
    pub(crate) token: BudgetToken,
    /// 0 for one that an operator gave.
    pub(crate) depth: usize,
    /// What others have of it now.
    #[serde(default)]
    pub(crate) delegated: Amount,
}

fn budget_key(id: &Hash32) -> RecordKey {
    RecordKey::own("budget", id)
}

fn account_of(agent: &AgentId, id: &Hash32) -> Result<AccountId, Bug> {
    let mut name = id.to_string();
    name.truncate(ACCOUNT_NAME_LEN);
    AccountId::budget(agent, &name, Asset::USDC)
        .ok_or_else(|| Bug(format!("{name} is no name of a budget")))
}

/// A token with its name and its account.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) id: Hash32,
    pub(super) token: BudgetToken,
}

#[derive(Debug, Serialize, Deserialize)]
struct BudgetJob {
    budget: Hash32,
}

/// What the log says of a budget.
#[derive(Debug, Serialize)]
struct BudgetEvent<'a> {
    budget_id: Hash32,
    agent_id: AgentId,
    issuer: &'a BudgetIssuer,
    amount_minor: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Hash32>,
    expires_at: Timestamp,
}

impl Named {
    pub(super) fn of(token: BudgetToken) -> Result<Named, SignedError> {
        Ok(Named { id: token.id()?, token })
    }

    pub(super) fn account(&self) -> Result<AccountId, Bug> {
        account_of(&self.token.agent_id, &self.id)
    }

    /// The account of the budget that this one is a part of: its owner signs the part.
    fn parent(&self) -> Result<Option<(Hash32, AccountId)>, Bug> {
        match (self.token.parent, &self.token.issuer) {
            (Some(id), BudgetIssuer::Agent(owner)) => Ok(Some((id, account_of(owner, &id)?))),
            _ => Ok(None),
        }
    }

    /// What a check looks at.
    pub(super) fn keys(&self) -> Vec<RecordKey> {
        let mut keys = vec![budget_key(&self.id), agent_key(&self.token.agent_id)];
        keys.extend(self.token.parent.as_ref().map(budget_key));
        if let BudgetIssuer::Operator(did) = &self.token.issuer {
            keys.push(operator_key(did));
        }
        keys
    }

    /// What a turn loads that makes the budget unless it is there: the parts of one budget are made
    /// one after the other.
    fn load(&self) -> Result<Load, Bug> {
        let lock = |key: &RecordKey| match key.kind {
            "budget" => Lock::Exclusive,
            _ => Lock::Shared,
        };
        let records = self.keys().into_iter().map(|key| (key.clone(), lock(&key))).collect();
        Ok(Load { records, accounts: self.accounts()?, ..Load::default() })
    }

    /// What a turn loads that spends under it. Of a budget that is there, only the counter
    /// changes.
    pub(super) fn load_to_spend(&self, facts: &impl Facts) -> Result<Load, Bug> {
        let key = budget_key(&self.id);
        if facts.record::<BudgetRecord>(&key)?.is_none() {
            return self.load();
        }
        let records = vec![(key, Lock::None)];
        Ok(Load { records, accounts: vec![self.account()?], ..Load::default() })
    }

    pub(super) fn accounts(&self) -> Result<Vec<AccountId>, Bug> {
        let parent = self.parent()?.map(|(_, account)| account);
        Ok([Some(self.account()?), parent].into_iter().flatten().collect())
    }

    /// The record of the budget if it is known, or what it would be.
    fn find(&self, facts: &impl Facts, outside: Timestamp) -> Result<(BudgetRecord, bool), Stop> {
        if let Some(known) = facts.record::<BudgetRecord>(&budget_key(&self.id))? {
            return Ok((known, true));
        }
        let agent: Option<AgentRecord> = facts.record(&agent_key(&self.token.agent_id))?;
        let operator: Option<OperatorRecord> = match &self.token.issuer {
            BudgetIssuer::Operator(did) => facts.record(&operator_key(did))?,
            BudgetIssuer::Agent(_) => None,
        };
        let spender = agent.as_ref().map(|agent| {
            let own = agent.agent.operator == agent.agent.did;
            let registered = operator.as_ref().map(|o| &o.operator.registration.statement);
            let operator_key = match own {
                true => agent.current_key(),
                false => registered.map(|statement| &statement.public_key),
            };
            Spender { operator: &agent.agent.operator, operator_key }
        });
        let whole: Option<(BudgetRecord, Amount)> = match self.parent()? {
            Some((id, account)) => match facts.record::<BudgetRecord>(&budget_key(&id))? {
                Some(record) => Some((record, left(facts.account(&account)?))),
                None => None,
            },
            None => None,
        };
        let parent = whole.as_ref().map(|(record, left)| Parent {
            token: &record.token,
            depth: record.depth,
            left: *left,
        });
        let depth = check_new(&self.token, outside, spender, parent).map_err(refused)?;
        let record = BudgetRecord { token: self.token.clone(), depth, delegated: Amount::ZERO };
        Ok((record, false))
    }

    /// Whether `spender` may spend `amount` under it now.
    pub(super) fn check(
        &self,
        facts: &impl Facts,
        outside: Timestamp,
        spender: &AgentId,
        amount: Amount,
    ) -> Result<(), Stop> {
        if self.token.agent_id != *spender {
            return Err(refused(BudgetRefusal::WrongAgent { agent: self.token.agent_id }));
        }
        let (record, known) = self.find(facts, outside)?;
        check_time(&record.token, outside).map_err(refused)?;
        let left = match known {
            true => left(facts.account(&self.account()?)?),
            false => record.token.limit(),
        };
        match amount <= left {
            true => Ok(()),
            false => Err(refused(BudgetRefusal::Exceeded { left, needed: amount })),
        }
    }

    /// Makes the budget unless it is there. A part is taken out of the budget that it is part of.
    pub(super) fn open(&self, turn: &mut Turn, outside: Timestamp) -> Result<BudgetRecord, Stop> {
        let (record, known) = self.find(turn, outside)?;
        if known {
            return Ok(record);
        }
        let amount = self.token.limit();
        if let Some((id, account)) = self.parent()? {
            let key = budget_key(&id);
            let missing = || Bug(format!("budget {id} is gone"));
            let mut parent: BudgetRecord = turn.record(&key)?.ok_or_else(missing)?;
            let less = limit(turn.book.account(&account)).checked_sub(amount);
            turn.book.set_limit(&account, Some(less.ok_or_else(missing)?))?;
            parent.delegated = parent.delegated.checked_add(amount).ok_or_else(missing)?;
            turn.put(&key, &parent)?;
            watch(turn, self.id, self.token.expires_at().since(outside))?;
        }
        turn.book.set_limit(&self.account()?, Some(amount))?;
        turn.put(&budget_key(&self.id), &record)?;
        let told = BudgetEvent {
            budget_id: self.id,
            agent_id: self.token.agent_id,
            issuer: &self.token.issuer,
            amount_minor: amount,
            parent: self.token.parent,
            expires_at: self.token.expires_at(),
        };
        let owner = match &self.token.issuer {
            BudgetIssuer::Agent(owner) => Some(*owner),
            BudgetIssuer::Operator(_) => None,
        };
        let notify: Vec<AgentId> = owner.into_iter().chain([self.token.agent_id]).collect();
        turn.event(&RouteKey::of(self.id), "budget.opened", &told, &notify)?;
        Ok(record)
    }
}

fn refused(reason: BudgetRefusal) -> Stop {
    Refusal::Budget { reason }.into()
}

fn limit(account: Option<&Account>) -> Amount {
    account.and_then(|account| account.debit_limit).unwrap_or(Amount::ZERO)
}

/// What may still be spent, held or passed on.
fn left(account: &Account) -> Amount {
    let used = account.debited.checked_add(account.held).unwrap_or(Amount::MAX);
    limit(Some(account)).checked_sub(used).unwrap_or(Amount::ZERO)
}

fn watch(turn: &mut Turn, budget: Hash32, after: Duration) -> Result<(), Stop> {
    let unwritable = |e: serde_json::Error| Bug(e.to_string());
    let body = serde_json::to_string(&BudgetJob { budget }).map_err(unwritable)?;
    turn.job(JobDraft {
        route: RouteKey::of(budget),
        kind: BUDGET_JOB,
        destination: String::new(),
        due_at: turn.now().plus(after),
        body,
    });
    Ok(())
}

fn view(record: BudgetRecord, account: &Account, id: Hash32, outside: Timestamp) -> Budget {
    Budget {
        budget_id: id,
        limit_minor: limit(Some(account)),
        spent_minor: account.debited,
        held_minor: account.held,
        delegated_minor: record.delegated,
        left_minor: left(account),
        expires_at: record.token.expires_at(),
        expired: outside >= record.token.expires_at(),
        token: record.token,
    }
}

impl Market {
    /// Makes a budget known. The same token again shows how it stands.
    pub async fn budget_open(&self, token: BudgetToken) -> Result<Answered<Budget>, Failure> {
        let named = Named::of(token).map_err(|e| {
            let reason = BudgetRefusal::Malformed { what: e.to_string() };
            Refusal::Budget { reason }
        })?;
        let accounts = named.accounts().map_err(skep_store::StoreError::from)?;
        // What cannot be is refused without a lock.
        let glance = self.glance(named.keys(), accounts).await?;
        let outside = self.outside();
        settled(named.find(&glance, outside(glance.now())))?;
        let load = named.load().map_err(skep_store::StoreError::from)?;
        self.run(load, vec![], move |turn| {
            let now = outside(turn.now());
            let record = named.open(turn, now)?;
            let account = turn.book.account(&named.account()?);
            let account = account.ok_or_else(|| Bug("the budget's account is gone".to_owned()))?;
            Ok(view(record, account, named.id, now))
        })
        .await
    }

    pub async fn budget(&self, id: &Hash32) -> Result<Budget, Failure> {
        let record: Option<BudgetRecord> = self.read(budget_key(id)).await?;
        let unknown = Refusal::Budget { reason: BudgetRefusal::Unknown { budget: *id } };
        let record = record.ok_or(unknown)?;
        let account =
            account_of(&record.token.agent_id, id).map_err(skep_store::StoreError::from)?;
        let glance = self.glance(vec![], vec![account.clone()]).await?;
        let now = self.outside()(glance.now());
        let account = glance.account(&account).map_err(skep_store::StoreError::from)?;
        Ok(view(record, account, *id, now))
    }

    /// A part's time is over: what is left goes back to the budget that it came from.
    pub(crate) async fn finish_budget(&self, job: Job) -> Result<(), Failure> {
        let Ok(BudgetJob { budget: id }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no budget".to_owned(), None).await?;
            return Ok(());
        };
        let record: Option<BudgetRecord> = self.read(budget_key(&id)).await?;
        let Some(record) = record else {
            self.store.finish_job(job).await?;
            return Ok(());
        };
        let named = Named { id, token: record.token };
        let (now, ends) = (self.store.now().await?, named.token.expires_at());
        let outside = self.outside();
        if outside(now) < ends {
            let due = now.plus(ends.since(outside(now)));
            self.store.fail_job(job, format!("not before {ends}"), Some(due)).await?;
            return Ok(());
        }
        let load = named.load().map_err(skep_store::StoreError::from)?;
        let end = JobEnd { route: job.route.clone(), id: job.id };
        self.run(load, vec![], move |turn| {
            turn.end_job(end.clone());
            give_back(turn, &named, outside(turn.now()))
        })
        .await?;
        Ok(())
    }
}

fn give_back(turn: &mut Turn, named: &Named, outside: Timestamp) -> Result<(), Stop> {
    let Some((id, parent_account)) = named.parent()? else { return Ok(()) };
    let (key, account) = (budget_key(&id), named.account()?);
    let broken = || Bug(format!("budget {} cannot be given back", named.id));
    let own = turn.book.account(&account).ok_or_else(broken)?.clone();
    let back = left(&own);
    if !own.held.is_zero() {
        watch(turn, named.id, HELD_PAUSE)?;
    }
    let parent: Option<BudgetRecord> = turn.record(&key)?;
    let (Some(mut parent), false) = (parent, back.is_zero()) else { return Ok(()) };
    let less = limit(Some(&own)).checked_sub(back).ok_or_else(broken)?;
    let more = limit(turn.book.account(&parent_account)).checked_add(back).ok_or_else(broken)?;
    turn.book.set_limit(&account, Some(less))?;
    turn.book.set_limit(&parent_account, Some(more))?;
    parent.delegated = parent.delegated.checked_sub(back).ok_or_else(broken)?;
    turn.put(&key, &parent)?;
    // What came back to a part that is over itself goes on from there.
    if parent.token.parent.is_some() && outside >= parent.token.expires_at() {
        watch(turn, id, Duration::ZERO)?;
    }
    Ok(())
}

/// A refusal of a check outside a turn, as callers hear it.
pub(super) fn settled<T>(result: Result<T, Stop>) -> Result<T, Failure> {
    result.map_err(|stop| match stop {
        Stop::Refused(refusal) | Stop::Unheard(refusal) => Failure::Refused(refusal),
        Stop::Bug(bug) => Failure::Store(bug.into()),
    })
}
