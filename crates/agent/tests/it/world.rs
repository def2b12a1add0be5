//! A node, sellers and a buyer.

use std::{path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, HireOrder,
    buyer::{Checker, OpenError},
    journal::JournalError,
};
use skep_base::{AgentId, Amount, Clock, Timestamp};
use skep_sdk::{Client, Retries};
use skep_wire::hire::{Check, Listing, PaymentMode, Verification};

use crate::{
    node::{Node, PROVIDER, now},
    stall::{Manners, Stall, key},
};

pub const START: i64 = 1_000_000;
const BUYER: u8 = 200;
const PURSE: u8 = 201;

#[derive(Debug)]
pub struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        now()
    }
}

/// `test.double` gives twice `n`; nobody can check `custom.*`.
#[derive(Debug)]
pub struct Doubles;

impl Checker for Doubles {
    fn check_params(
        &self,
        capability: &str,
        _: Option<&str>,
        params: &Value,
    ) -> Result<(), Vec<String>> {
        match capability != "test.double" || params["n"].is_i64() {
            true => Ok(()),
            false => Err(vec!["n is no number".to_owned()]),
        }
    }

    fn can_check(&self, capability: &str, _: Option<&str>) -> bool {
        capability == "test.double"
    }

    fn verify<'a>(
        &'a self,
        capability: &'a str,
        _: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        Box::pin(async move {
            if capability != "test.double" {
                return Verification::not_verifiable("custom");
            }
            let passed = params["n"].as_i64().map(|n| 2 * n) == result["double"].as_i64();
            let check = Check { name: "is_double".to_owned(), passed, detail: None };
            Verification::of("v0", vec![check])
        })
    }
}

pub struct World {
    pub node: Node,
    pub folder: tempfile::TempDir,
    pub buyer_id: AgentId,
    /// Whose money is spent.
    pub payer_id: AgentId,
}

impl World {
    pub async fn open() -> World {
        World::paid_by(key(BUYER).address()).await
    }

    /// All the money is in another wallet than the buyer's.
    pub async fn with_purse() -> World {
        World::paid_by(key(PURSE).address()).await
    }

    async fn paid_by(payer_id: AgentId) -> World {
        let node = Node::open().await;
        node.fund(payer_id, START);
        let (folder, buyer_id) = (tempfile::tempdir().unwrap(), key(BUYER).address());
        World { node, folder, buyer_id, payer_id }
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("buyer.journal")
    }

    pub fn config(&self) -> BuyerConfig {
        let client = Client::new(&self.node.url).unwrap().with_retries(Retries::NONE);
        let mut config = BuyerConfig::new(key(BUYER), client, Arc::new(Wall), Arc::new(Doubles));
        config.pay_with = (self.payer_id != self.buyer_id).then(|| key(PURSE));
        config.allow_loopback = true;
        config.grace = Duration::from_secs(1);
        config
    }

    pub async fn buyer(&self) -> Buyer {
        open(self.config(), self.journal()).await
    }

    /// One that has nobody else's key: whatever is to be paid is signed already.
    pub async fn resumer(&self) -> Buyer {
        open(BuyerConfig { pay_with: None, ..self.config() }, self.journal()).await
    }

    pub async fn direct(&self, number: u8, manners: Manners) -> Stall {
        Stall::open(number, &self.node, PaymentMode::Direct, manners, |_| {}).await
    }

    pub async fn escrow(&self, number: u8, manners: Manners) -> Stall {
        let mode = PaymentMode::PlatformEscrow(PROVIDER.to_owned());
        Stall::open(number, &self.node, mode, manners, |_| {}).await
    }

    pub async fn listed(
        &self,
        number: u8,
        manners: Manners,
        change: impl FnOnce(&mut Listing),
    ) -> Stall {
        Stall::open(number, &self.node, PaymentMode::Direct, manners, change).await
    }

    /// What the wallet that pays has lost, by the ledger.
    pub fn lost(&self) -> i64 {
        START - self.node.balance(self.payer_id)
    }

    /// The journal and the ledger tell the same story, and each payment has its receipt.
    pub fn agree(&self, buyer: &Buyer) {
        let (spent, open) = buyer.spent_since(Timestamp::EPOCH);
        assert_eq!(open, Amount::ZERO, "something is still open");
        assert_eq!(spent.minor(), self.lost(), "the journal and the ledger differ");
        assert_eq!(buyer.open_hires(), 0);
        let ledger = self.node.ledger();
        assert_eq!(ledger.wallets.values().sum::<i64>(), START, "money was made or lost");
        assert_eq!(ledger.wallets.get(&self.node.rail.escrow_address).unwrap_or(&0), &0);
    }
}

/// Opens a journal that its last owner may not have let go of yet.
pub async fn open(config: BuyerConfig, journal: PathBuf) -> Buyer {
    for _ in 0..500 {
        match Buyer::open(config.clone(), &journal) {
            Err(OpenError::Journal(JournalError::InUse { .. })) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("the journal stays in use");
}

pub fn double(n: i64) -> HireOrder {
    HireOrder::new("test.double", json!({ "n": n }), Amount::new(50_000).unwrap())
}
