//! Sellers with open doors, and buyers that hire by themselves or by hand.

use std::{ffi::OsString, path::Path, pin::Pin, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};
use http::HeaderMap;
use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, Passphrase,
    keyring::KdfCost,
    seller::{Checker, Offer, ProgramWork, Seller, SellerConfig},
};
use skep_base::{AgentId, Hash32, wallet::WalletKey};
use skep_probe::{Egress, Request};
use skep_store::SystemClock;
use skep_testkit::process::Child;
use skep_wire::{
    hire::{EscrowTerms, HireRequest, PROTOCOL, PaymentMode, Verification, WalletSigned},
    x402::{
        Authorization, ExactPayload, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payment, PaymentRequired,
        Rail, Requirements, from_header, to_header,
    },
};
use tokio::task::JoinHandle;

use super::{Actor, entropy};
use crate::{check::checker, client::now, egress};

/// For keyrings that are gone in a minute.
pub const PASSPHRASE: &str = "only for trying out";
/// The longest answer that is read, in bytes: a picture in base64.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a payment by hand is good, in seconds.
const GOOD_FOR_S: i64 = 120;

/// A node, and a folder for keyrings and journals.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub node: &'a str,
    pub folder: &'a Path,
}

impl Place<'_> {
    /// A buyer that checks what it gets as `skep hire` does.
    pub fn buyer(&self, actor: &Actor, change: impl FnOnce(&mut BuyerConfig)) -> Result<Buyer> {
        let (wallet, client) = (actor.keyring.wallet().clone(), actor.client(self.node)?);
        let (clock, checker) = (Arc::new(SystemClock), Arc::new(checker()?));
        let mut config = BuyerConfig::new(wallet, client, clock, checker);
        config.allow_loopback = true;
        change(&mut config);
        let number = Hash32::from(entropy()?).to_string();
        let name = format!("buyer-{}-{}.journal", actor.name, &number[..8]);
        Ok(Buyer::open(config, &self.folder.join(name))?)
    }
}

/// This program's own work, as something to sell.
pub fn own_work(job: &str) -> Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into(), "work".into(), job.into()])
}

/// A seller whose door is open until this is dropped.
pub struct Shop {
    pub actor: Actor,
    pub url: String,
    _door: Door,
}

/// Closes when it is dropped.
#[expect(dead_code, reason = "what is in it ends with it")]
enum Door {
    Process(Child),
    Here(Serving),
}

struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shop {
    /// `skep sell ARGS -- PROGRAM` as a process of its own.
    pub async fn open(
        place: Place<'_>,
        actor: Actor,
        args: &[&str],
        program: &[OsString],
    ) -> Result<Shop> {
        actor.register(place.node).await?;
        // Nobody is to guess this passphrase: it is written above.
        let quick = KdfCost::new(64, 1, 1)?;
        let actor = Actor { keyring: actor.keyring.with_kdf(quick), ..actor };
        let file = |end: &str| place.folder.join(format!("seller-{}.{end}", actor.name));
        let keys = file("json");
        if !keys.exists() {
            let passphrase = Passphrase::new(PASSPHRASE.to_owned().into())?;
            actor.keyring.save_new(&keys, &passphrase)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("sell")
            .args(args)
            .args(["--dev", "--node", place.node])
            .arg("--keys")
            .arg(&keys)
            .arg("--journal")
            .arg(file("journal"))
            .arg("--")
            .args(program)
            .env("SKEP_PASSPHRASE", PASSPHRASE)
            .env("RUST_LOG", "error");
        let door = Child::spawn(&mut command);
        let door = door.with_context(|| format!("{} did not open", actor.name))?;
        Ok(Shop { url: door.url().to_owned(), actor, _door: Door::Process(door) })
    }

    /// A seller that never looks at what it sells.
    pub async fn open_blind(
        place: Place<'_>,
        actor: Actor,
        capability: &str,
        price: &str,
        modes: Vec<PaymentMode>,
        program: &[OsString],
    ) -> Result<Shop> {
        let node = actor.register(place.node).await?;
        let (program, args) = program.split_first().context("a seller without a program")?;
        let work = ProgramWork::new(program, args.to_vec());
        let offer = Offer { modes, ..Offer::new(capability, price.parse()?, work) };
        let config = SellerConfig {
            wallet: actor.keyring.wallet().clone(),
            node,
            offers: vec![offer],
            listen: "127.0.0.1:0".parse()?,
            endpoint: None,
            behind_proxy: false,
            journal: place.folder.join(format!("blind-{}.journal", actor.name)),
            egress: Egress::new(egress::policy(true))?,
            checker: Arc::new(Blind),
            clock: Arc::new(SystemClock),
            clarify_signed_only: false,
        };
        let seller = Seller::open(config).await?;
        let (url, handle) = (seller.endpoint().to_owned(), seller.handle());
        let serving = Serving(tokio::spawn(seller.serve(std::future::pending())));
        handle.publish().await?;
        Ok(Shop { actor, url, _door: Door::Here(serving) })
    }

    pub fn id(&self) -> AgentId {
        self.actor.id()
    }
}

/// Finds everything good.
#[derive(Debug)]
struct Blind;

impl Checker for Blind {
    fn check_params(&self, _: &str, _: Option<&str>, _: &Value) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn verify<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a str>,
        _: &'a Value,
        _: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        let check = skep_wire::hire::Check { name: "fine".into(), passed: true, detail: None };
        Box::pin(std::future::ready(Verification::of("v0", vec![check])))
    }
}

/// What a door answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// A refusal with this status and this code, and nothing else.
    pub fn refused(&self, status: u16, code: &str) -> Result<()> {
        let (got, said) = (self.status, self.code());
        ensure!((got, said) == (status, code), "expected {status} {code}, not {got} {said}");
        Ok(())
    }

    /// What a 402 asks for.
    pub fn required(&self) -> Result<PaymentRequired> {
        ensure!(self.status == 402, "expected 402, not {}: {}", self.status, self.body);
        Ok(from_header(self.header(PAYMENT_REQUIRED))?)
    }
}

/// An agent that hires by hand, message by message.
pub struct Hand {
    wallet: WalletKey,
    http: Egress,
    rail: Rail,
}

impl Hand {
    pub async fn new(actor: &Actor, place: Place<'_>) -> Result<Hand> {
        let rail = actor.client(place.node)?.x402_rail().await?;
        let http = Egress::new(egress::policy(true))?;
        Ok(Hand { wallet: actor.keyring.wallet().clone(), http, rail })
    }

    pub fn id(&self) -> AgentId {
        self.wallet.address()
    }

    pub fn wallet(&self) -> &WalletKey {
        &self.wallet
    }

    pub async fn get(&self, url: &str) -> Result<Answer> {
        self.send(Request::get(url)).await
    }

    pub async fn post(
        &self,
        url: &str,
        body: &Value,
        header: Option<(&str, String)>,
    ) -> Result<Answer> {
        let json = ("content-type".to_owned(), "application/json".to_owned());
        let more = header.map(|(name, value)| (name.to_owned(), value));
        let headers = [json].into_iter().chain(more).collect();
        self.send(Request { headers, ..Request::post(url, body.to_string().into_bytes()) }).await
    }

    async fn send(&self, request: Request) -> Result<Answer> {
        let body_max = Some(ANSWER_BYTES_MAX);
        let got = self.http.send(Request { body_max, ..request }).await?;
        let body = serde_json::from_slice(&got.body).unwrap_or_default();
        Ok(Answer { status: got.status, headers: got.headers, body })
    }

    /// A signed hire.
    pub fn hire(
        &self,
        shop: &Shop,
        capability: &str,
        params: Value,
        change: impl FnOnce(&mut HireRequest),
    ) -> Result<HireRequest> {
        let mut hire: HireRequest = serde_json::from_value(json!({
            "protocol": PROTOCOL, "buyer_id": self.id(), "capability": capability,
            "params": params, "nonce": Hash32::from(entropy()?), "seller_id": shop.id(),
            "issued_at": now(),
        }))?;
        change(&mut hire);
        hire.sign(&self.wallet)?;
        Ok(hire)
    }

    pub async fn ask(&self, shop: &Shop, hire: &HireRequest) -> Result<Answer> {
        self.post(&format!("{}/hire", shop.url), &json!(hire), None).await
    }

    /// Sends a hire, or anything else, with a payment.
    pub async fn pay(&self, shop: &Shop, body: &Value, payment: &Payment) -> Result<Answer> {
        let header = (PAYMENT_SIGNATURE, to_header(&payment.raw));
        self.post(&format!("{}/hire", shop.url), body, Some(header)).await
    }

    /// A payment for the first way that a 402 offers, for this hire alone.
    pub fn payment(&self, hire: &HireRequest, asked: &Answer) -> Result<Payment> {
        let required = asked.required()?;
        let way = required.accepts.first().context("the 402 offers no way to pay")?;
        let nonce = match way.extra.get("escrow") {
            Some(terms) => serde_json::from_value::<EscrowTerms>(terms.clone())?.payment_nonce()?,
            None => hire.payment_nonce()?,
        };
        let payload = self.signed(way, &nonce)?;
        Ok(Payment::new(way.clone(), required.resource, payload))
    }

    /// An authorization with any nonce, as clients that know nothing but x402 make it.
    pub fn signed(&self, way: &Requirements, nonce: &Hash32) -> Result<ExactPayload> {
        let window = (0, now().as_ms() / 1000 + GOOD_FOR_S);
        let ends = (self.id(), way.pay_to);
        let authorization = Authorization::new(ends, way.amount, window, nonce);
        let chain = Rail::chain_id(&way.network).context("the 402 names another network")?;
        let signature = authorization.sign(&self.rail.domain(chain), &self.wallet)?.to_string();
        Ok(ExactPayload { authorization, signature })
    }

    /// Asks, pays what is asked for, and gives the payment and the answer.
    pub async fn bought(&self, shop: &Shop, hire: &HireRequest) -> Result<(Payment, Answer)> {
        let payment = self.payment(hire, &self.ask(shop, hire).await?)?;
        let answer = self.pay(shop, &json!(hire), &payment).await?;
        Ok((payment, answer))
    }
}
