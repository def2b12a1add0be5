//! What can be asked without changing anything.

use serde::de::DeserializeOwned;
use skep_base::{AgentId, Asset, Did, Money, ed25519::PublicKey, id::TransferId, json::read_own};
use skep_store::{AccountId, Bug, LoggedEvent, RecordKey, RouteKey, StoreError, StoredRecord};
use skep_wire::{
    Page,
    identity::{Agent, Operator, Statement},
    wallet::{Balance, EventLine, HistoryLine, LogHead, SignedLogHead, Transfer, Wallet},
};

use crate::{
    AgentRecord, Failure, Market, OperatorRecord, Refusal,
    identity::agent_key,
    register::{AgentName, NAME_DID, operator_key},
    score::{OperatorScore, operator_score_key},
    transfer::view,
};

/// Assets of one wallet that are listed.
const ASSETS_MAX: usize = 200;

impl Market {
    /// An agent by its address or its DID.
    pub async fn agent(&self, name: &str) -> Result<Agent, Failure> {
        let mut agent = self.record_by_name(name).await?.agent;
        let score: Option<OperatorScore> = self.read(operator_score_key(&agent.operator)).await?;
        if let Some(score) = score {
            agent.operator_review = score.review(self.store.now().await?);
        }
        Ok(agent)
    }

    /// The key that an agent signs with now; what a signature's `keyid` names.
    pub async fn key_of(&self, name: &str) -> Result<(AgentId, PublicKey), Failure> {
        let record = self.record_by_name(name).await?;
        let key = record.current_key().cloned().ok_or(Refusal::KeyNotCurrent)?;
        Ok((record.agent.agent_id, key))
    }

    async fn record_by_name(&self, name: &str) -> Result<AgentRecord, Failure> {
        let unknown = || Refusal::UnknownAgent { agent: name.to_owned() };
        let agent = match AgentName::parse(name) {
            None => return Err(unknown().into()),
            Some(AgentName::Address(agent)) => agent,
            Some(AgentName::Did(did)) => {
                let owner = self.store.name_owner(NAME_DID, &did.to_string()).await?;
                owner.and_then(|o| o.parse().ok()).ok_or_else(unknown)?
            }
        };
        self.agent_record(&agent).await
    }

    pub(crate) async fn agent_record(&self, agent: &AgentId) -> Result<AgentRecord, Failure> {
        let known = self.read(agent_key(agent)).await?;
        known.ok_or_else(|| Refusal::UnknownAgent { agent: agent.to_string() }.into())
    }

    /// An operator by its DID.
    pub async fn operator(&self, operator: &Did) -> Result<Operator, Failure> {
        let known: Option<OperatorRecord> = self.read(operator_key(operator)).await?;
        let unknown = || Refusal::UnknownOperator { operator: operator.to_string() };
        Ok(known.ok_or_else(unknown)?.operator)
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        key: RecordKey,
    ) -> Result<Option<T>, Failure> {
        Ok(parsed(self.store.record(key).await?)?)
    }

    /// Several records with one question.
    pub(crate) async fn read_all(
        &self,
        keys: Vec<RecordKey>,
    ) -> Result<std::vec::IntoIter<Option<StoredRecord>>, Failure> {
        Ok(self.store.records(keys).await?.into_iter())
    }

    /// What an agent has, holds and owes.
    pub async fn wallet(&self, agent: &AgentId) -> Result<Wallet, Failure> {
        let accounts = self.store.accounts(&format!("wallet:{agent}:"), ASSETS_MAX).await?;
        let balances = accounts
            .iter()
            .map(|account| {
                let money = |amount| Money { amount, asset: account.id.asset() };
                Balance {
                    available: money(account.available()),
                    held: money(account.held),
                    owed: money(account.owed),
                }
            })
            .collect();
        Ok(Wallet { agent_id: *agent, balances })
    }

    /// A transfer, to one of its two sides.
    pub async fn transfer(&self, agent: &AgentId, id: TransferId) -> Result<Transfer, Failure> {
        let stored = self.store.transfer(RouteKey::of(id), id).await?;
        let theirs = stored.filter(|s| {
            let wallet = AccountId::wallet(agent, s.transfer.asset());
            s.transfer.debit == wallet || s.transfer.credit == wallet
        });
        theirs.map(|s| view(&s)).ok_or_else(|| Refusal::UnknownTransfer { id }.into())
    }

    /// A wallet's journal, newest first.
    pub async fn history(
        &self,
        agent: &AgentId,
        asset: Asset,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<HistoryLine>, Failure> {
        let wallet = AccountId::wallet(agent, asset);
        let limit = limit.max(1);
        let entries = self.store.history(wallet, cursor, limit + 1).await?;
        let entries = entries.ok_or(Refusal::MalformedCursor)?;
        let more = entries.len() > limit;
        let next_cursor = more.then(|| entries[limit - 1].cursor.clone());
        let items = entries
            .into_iter()
            .take(limit)
            .map(|entry| HistoryLine {
                id: entry.transfer.id,
                kind: entry.transfer.kind.as_str().to_owned(),
                from: entry.transfer.debit.to_string(),
                to: entry.transfer.credit.to_string(),
                money: Money { amount: entry.transfer.amount, asset },
                pending: entry.transfer.pending,
                at: entry.at,
            })
            .collect();
        Ok(Page { items, next_cursor })
    }

    /// What an agent is told of, oldest first. The cursor is good for ever: ask again with it for
    /// what is new.
    pub async fn inbox(
        &self,
        agent: &AgentId,
        after: i64,
        limit: usize,
    ) -> Result<Page<EventLine>, Failure> {
        Ok(page(self.store.inbox(*agent, after, limit).await?, after))
    }

    /// The event log, oldest first.
    pub async fn events(&self, after: i64, limit: usize) -> Result<Page<EventLine>, Failure> {
        Ok(page(self.store.events(after, limit).await?, after))
    }

    /// The end of the event log, signed by this node.
    pub async fn log_head(&self) -> Result<SignedLogHead, Failure> {
        let head = *self.store.head().borrow();
        let head = LogHead { seq: head.seq, hash: head.hash, at: self.store.now().await? };
        let signature = head
            .sign(&self.log_key)
            .map_err(|e| StoreError::Bug(Bug(format!("the head cannot be signed: {e}"))))?;
        Ok(SignedLogHead { head, key: self.log_key.public(), signature })
    }
}

/// A page of the log keeps its cursor even when it is empty: the log goes on.
fn page(events: Vec<LoggedEvent>, after: i64) -> Page<EventLine> {
    let last = events.last().map_or(after, |e| e.seq);
    let items = events
        .into_iter()
        .map(|LoggedEvent { seq, hash, event }| EventLine {
            seq,
            id: event.id,
            kind: event.kind,
            at: event.at,
            route: event.route.as_str().to_owned(),
            version: event.version,
            body: event.body,
            hash,
        })
        .collect();
    Page { items, next_cursor: Some(last.to_string()) }
}

/// The next of several records.
pub(crate) fn next<T: DeserializeOwned>(
    records: &mut impl Iterator<Item = Option<StoredRecord>>,
) -> Result<Option<T>, Failure> {
    Ok(parsed(records.next().flatten())?)
}

fn parsed<T: DeserializeOwned>(stored: Option<StoredRecord>) -> Result<Option<T>, StoreError> {
    let Some(stored) = stored else { return Ok(None) };
    let read = read_own(stored.body.as_bytes()).map(Some);
    read.map_err(|e| StoreError::Bug(Bug(format!("a record is unreadable: {e}"))))
}
