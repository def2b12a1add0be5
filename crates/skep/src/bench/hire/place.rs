//! A node as a process of its own, and a seller and buyers here.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, HireOrder,
    buyer::PaymentChoice,
    seller::{Offer, Seller, SellerConfig, Taxonomy, WorkError, work_fn},
};
use skep_base::{Amount, Asset, Money, wallet::WalletKey};
use skep_probe::Egress;
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_testkit::process::Child;
use skep_wire::hire::PaymentMode;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{CAPABILITY, Caller, cpu, params};
use crate::{
    egress,
    stage::{self, Actor},
};

/// What a hire costs, in minor units.
const PRICE_MINOR: i64 = 1_000;
/// What every buyer has: more than it can spend here.
const PURSE: &str = "1000000";
/// Hires that the seller does at the same time: nobody is to wait for a seat here.
const SEATS: usize = 1_024;

/// Everybody who takes part.
pub(super) struct Place {
    pub(super) node: Child,
    /// One more agent with money, for payments without a hire.
    pub(super) payer: (Client, WalletKey),
    buyers: Vec<Buyer>,
    selling: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    _folder: tempfile::TempDir,
}

impl Place {
    pub(super) async fn open(database: &str, buyers: usize) -> Result<Place> {
        let folder = tempfile::tempdir()?;
        let node_folder = folder.path().join("node");
        let node = stage::node(&node_folder, &["--no-verifier", "--database", database])?;
        let (selling, stop) = sell(node.url(), &folder.path().join("seller.journal")).await?;
        let mut all = Vec::new();
        for n in 0..buyers {
            let (client, wallet) = rich(node.url()).await?;
            let mut config =
                BuyerConfig::new(wallet, client, Arc::new(SystemClock), Arc::new(Taxonomy));
            config.allow_loopback = true;
            all.push(Buyer::open(config, &folder.path().join(format!("buyer-{n}.journal")))?);
        }
        let payer = rich(node.url()).await?;
        Ok(Place { node, payer, buyers: all, selling, stop, _folder: folder })
    }

    /// Hires once, all the way, and looks at what came of it.
    pub(super) fn caller(&self, payment: PaymentChoice) -> Caller {
        let buyers = self.buyers.clone();
        Arc::new(move |n| {
            let (buyer, payment) = (buyers[n % buyers.len()].clone(), payment.clone());
            Box::pin(async move {
                let order = HireOrder { payment, ..HireOrder::new(CAPABILITY, params(), price()) };
                let hired = buyer.hire(order).await?;
                ensure!(hired.verification.all_passed, "a result did not pass: {hired:?}");
                ensure!(hired.paid == price(), "a hire was not paid: {hired:?}");
                ensure!(hired.rating_token.is_some(), "a hire was not counter-signed: {hired:?}");
                Ok(())
            })
        })
    }

    /// CPU seconds that the node has used.
    pub(super) fn node_cpu(&self) -> Result<f64> {
        cpu(&self.node.pid().to_string())
    }

    pub(super) async fn close(mut self) -> Result<()> {
        drop(self.stop);
        drop(self.buyers);
        self.selling.await.context("the seller ended badly")?;
        self.node.terminate()?;
        Ok(())
    }
}

fn price() -> Amount {
    Amount::new(PRICE_MINOR).unwrap_or_default()
}

/// An agent with money.
async fn rich(url: &str) -> Result<(Client, WalletKey)> {
    let actor = Actor::new("")?;
    let client = actor.register(url).await?;
    client.faucet(Money::parse_decimal(PURSE, Asset::USDC)?).await?;
    Ok((client, actor.keyring.wallet().clone()))
}

/// The arithmetic mean, as it is sold and as it is given away.
pub(super) fn mean(params: &Value) -> Option<Value> {
    let data = params["data"].as_array()?;
    let sum: f64 = data.iter().filter_map(Value::as_f64).sum();
    Some(json!({ "result": sum / data.len() as f64 }))
}

async fn sell(url: &str, journal: &Path) -> Result<(JoinHandle<()>, oneshot::Sender<()>)> {
    let actor = Actor::new("mean")?;
    let client = actor.register(url).await?;
    let escrow = PaymentMode::PlatformEscrow(client.x402_rail().await?.escrow_provider);
    let work = work_fn(|params, _| async move {
        mean(&params).ok_or_else(|| WorkError::Failed("no numbers".to_owned()))
    });
    let offer = Offer {
        modes: vec![PaymentMode::Direct, escrow],
        seats: SEATS,
        ..Offer::new(CAPABILITY, price().into(), work)
    };
    let config = SellerConfig {
        wallet: actor.keyring.wallet().clone(),
        node: client,
        offers: vec![offer],
        listen: "127.0.0.1:0".parse()?,
        endpoint: None,
        // All buyers have one address here; its limit is not what is measured.
        behind_proxy: true,
        journal: journal.to_owned(),
        egress: Egress::new(egress::policy(true))?,
        checker: Arc::new(Taxonomy),
        clock: Arc::new(SystemClock),
        clarify_signed_only: false,
    };
    let seller = Seller::open(config).await?;
    let handle = seller.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let selling = tokio::spawn(seller.serve(async {
        // A sender that is gone means the same.
        let _ = stopped.await;
    }));
    handle.publish().await.context("the listings were not published")?;
    Ok((selling, stop))
}
