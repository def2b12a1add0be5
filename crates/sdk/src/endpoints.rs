//! The calls, one method for each endpoint.

use skep_base::{AgentId, Asset, Did, Money, Timestamp, id::TransferId};
use skep_wire::{
    Page,
    identity::{Agent, KeyChange, Operator, RegisterAgent, RegisterOperator},
    notice::{NodeKeys, WebhookAttempt},
    wallet::{
        AdvanceClock, ClockTime, EventLine, Faucet, HistoryLine, NewTransfer, PostTransfer,
        SignedLogHead, Transfer, TransferMode, VoidTransfer, Wallet,
    },
};

use crate::{
    Client, Error,
    client::{Call, Written},
};

impl Client {
    /// Registers an operator. The same statement again is fine.
    pub async fn register_operator(&self, request: &RegisterOperator) -> Result<Operator, Error> {
        Ok(self.send(&Call::post("/v1/operators", request)?).await?.value)
    }

    pub async fn operator(&self, did: &Did) -> Result<Operator, Error> {
        Ok(self.send(&Call::get(format!("/v1/operators/{did}"))).await?.value)
    }

    /// Registers an agent. The same statement again is fine.
    pub async fn register_agent(&self, request: &RegisterAgent) -> Result<Agent, Error> {
        Ok(self.send(&Call::post("/v1/agents", request)?).await?.value)
    }

    pub async fn agent(&self, agent: &AgentId) -> Result<Agent, Error> {
        Ok(self.send(&Call::get(format!("/v1/agents/{agent}"))).await?.value)
    }

    pub async fn agent_by_did(&self, did: &Did) -> Result<Agent, Error> {
        Ok(self.send(&Call::get(format!("/v1/agents/{did}"))).await?.value)
    }

    /// Sent once only: a change that was carried out is refused the second time.
    pub async fn change_keys(&self, agent: &AgentId, change: &KeyChange) -> Result<Agent, Error> {
        let call = Call::post(format!("/v1/agents/{agent}/keys"), change)?;
        Ok(self.clone().with_retries(crate::Retries::NONE).send(&call).await?.value)
    }

    /// What the signing agent is told of, oldest first, after a cursor of an earlier page.
    pub async fn inbox(
        &self,
        cursor: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<EventLine>, Error> {
        let call = Call::get(self.own_path("inbox")?).query("cursor", cursor);
        Ok(self.send(&call.query("limit", limit).signed()).await?.value)
    }

    /// The latest attempts to deliver notices to the signing agent's webhook, newest first.
    pub async fn webhook_log(&self) -> Result<Vec<WebhookAttempt>, Error> {
        let call = Call::get(self.own_path("webhook-log")?).signed();
        Ok(self.send::<Page<WebhookAttempt>>(&call).await?.value.items)
    }

    /// The keys that the node signs with.
    pub async fn node_keys(&self) -> Result<NodeKeys, Error> {
        Ok(self.send(&Call::get("/.well-known/skep-keys")).await?.value)
    }

    /// What the signing agent has.
    pub async fn wallet(&self) -> Result<Wallet, Error> {
        Ok(self.send(&Call::get(self.own_path("wallet")?).signed()).await?.value)
    }

    /// The signing agent's transfers of one asset, newest first.
    pub async fn transfers(
        &self,
        asset: Asset,
        cursor: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<HistoryLine>, Error> {
        let call = Call::get(self.own_path("transfers")?)
            .query("asset", Some(asset))
            .query("cursor", cursor)
            .query("limit", limit);
        Ok(self.send(&call.signed()).await?.value)
    }

    /// Pays another agent under a new id.
    pub async fn pay(&self, to: AgentId, money: Money) -> Result<Transfer, Error> {
        let request = NewTransfer { id: Client::new_id()?, to, money, mode: TransferMode::Posted };
        Ok(self.create_transfer(&request).await?.value)
    }

    /// Pays another agent, or holds money for it, under an id that the caller chose.
    pub async fn create_transfer(&self, request: &NewTransfer) -> Result<Written<Transfer>, Error> {
        self.send(&Call::post("/v1/transfers", request)?.signed()).await
    }

    /// [`Client::create_transfer`] with the caller's own idempotency key, which survives a restart
    /// of the caller.
    pub async fn create_transfer_keyed(
        &self,
        request: &NewTransfer,
        idempotency_key: &str,
    ) -> Result<Written<Transfer>, Error> {
        let mut call = Call::post("/v1/transfers", request)?.signed();
        call.idempotency_key = Some(idempotency_key.to_owned());
        self.send(&call).await
    }

    pub async fn transfer(&self, id: TransferId) -> Result<Transfer, Error> {
        Ok(self.send(&Call::get(format!("/v1/transfers/{id}")).signed()).await?.value)
    }

    /// Pays what was held: all of it, or a part.
    pub async fn post_transfer(
        &self,
        id: TransferId,
        money: Option<Money>,
    ) -> Result<Written<Transfer>, Error> {
        let path = format!("/v1/transfers/{id}/post");
        self.send(&Call::post(path, &PostTransfer { money })?.signed()).await
    }

    /// Lets go of a hold.
    pub async fn void_transfer(&self, id: TransferId) -> Result<Written<Transfer>, Error> {
        let path = format!("/v1/transfers/{id}/void");
        self.send(&Call::post(path, &VoidTransfer {})?.signed()).await
    }

    /// The event log, oldest first, after a cursor of an earlier page.
    pub async fn events(
        &self,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<EventLine>, Error> {
        let call = Call::get("/v1/events").query("after", after).query("limit", limit);
        Ok(self.send(&call).await?.value)
    }

    /// The end of the event log, signed by the node.
    pub async fn log_head(&self) -> Result<SignedLogHead, Error> {
        Ok(self.send(&Call::get("/v1/log/head")).await?.value)
    }

    /// Moves the clock ahead, on a node that was made with `--dev`.
    pub async fn advance_clock(&self, seconds: u64) -> Result<Timestamp, Error> {
        let call = Call::post("/v1/dev/clock", &AdvanceClock { seconds })?;
        let client = self.clone().with_retries(crate::Retries::NONE);
        Ok(client.send::<ClockTime>(&call).await?.value.now)
    }

    /// Test money, from a node that was made with `--dev`.
    pub async fn faucet(&self, money: Money) -> Result<Transfer, Error> {
        self.faucet_to(money, None).await
    }

    /// Test money for another address, also one that is no agent's.
    pub async fn faucet_to(&self, money: Money, to: Option<AgentId>) -> Result<Transfer, Error> {
        let request = Faucet { id: Client::new_id()?, money, to };
        Ok(self.send(&Call::post("/v1/dev/faucet", &request)?.signed()).await?.value)
    }

    fn own_path(&self, rest: &str) -> Result<String, Error> {
        let agent = self.agent_id().ok_or(Error::NoKey)?;
        Ok(format!("/v1/agents/{agent}/{rest}"))
    }
}
