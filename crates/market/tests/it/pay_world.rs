//! Payments as buyers make them, with everything about them to be got wrong.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{
    AgentId, Amount, Hash32,
    hash::sha256,
    id::DealId,
    wallet::{WalletKey, WalletSignature, eip712::Domain},
};
use skep_market::Market;
use skep_store::{Call, Decision, Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::{
    hire::{
        BudgetToken, EscrowOrder, EscrowTerms, EscrowVerb, HireRequest, PROTOCOL, WalletSigned,
    },
    x402::{
        Authorization, FacilitatorRequest, LEDGER_CHAIN_ID, Rail, SettleResponse, SkepTerms,
        V1_CHAIN_ID, V1_NETWORK, ledger_network,
    },
};

use crate::fixture::*;

/// The order of secp256k1.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];

/// A payment before it is signed.
#[derive(Clone)]
pub struct Bill {
    pub version: u8,
    pub payer: WalletKey,
    /// Who signs; the payer, if all is well.
    pub signer: WalletKey,
    pub pay_to: AgentId,
    pub to: AgentId,
    pub price: i64,
    pub value: i64,
    pub window: (i64, i64),
    pub nonce: Hash32,
    pub asset: AgentId,
    pub network: String,
    pub scheme: String,
    pub domain: Domain,
    pub resource: String,
    pub identifier: Option<String>,
    pub skep: Option<SkepTerms>,
    pub high_s: bool,
}

impl Bill {
    /// A payment as it should be; `n` makes it unique.
    pub fn new(version: u8, rail: &Rail, from: &Person, to: AgentId, minor: i64, n: u64) -> Bill {
        let (network, chain) = match version {
            1 => (V1_NETWORK.to_owned(), V1_CHAIN_ID),
            _ => (ledger_network(), LEDGER_CHAIN_ID),
        };
        let start = START_MS / 1000;
        Bill {
            version,
            payer: from.wallet.clone(),
            signer: from.wallet.clone(),
            pay_to: to,
            to,
            price: minor,
            value: minor,
            window: (start - 60, start + 600),
            nonce: sha256(format!("nonce {n}").as_bytes()),
            asset: rail.asset,
            network,
            scheme: "exact".to_owned(),
            domain: rail.domain(chain),
            resource: "https://seller.example/hire".to_owned(),
            identifier: None,
            skep: None,
            high_s: false,
        }
    }

    /// For a hire that the payer signed.
    pub fn for_hire(
        rail: &Rail,
        from: &Person,
        to: AgentId,
        minor: i64,
        hire: &HireRequest,
    ) -> Bill {
        let mut bill = Bill::new(2, rail, from, to, minor, 0);
        bill.nonce = hire.payment_nonce().unwrap();
        bill.skep = Some(SkepTerms { hire: hire.envelope().ok(), ..SkepTerms::default() });
        bill
    }

    /// Into escrow.
    pub fn for_escrow(rail: &Rail, from: &Person, terms: &EscrowTerms, hire: &HireRequest) -> Bill {
        let mut bill = Bill::new(2, rail, from, rail.escrow_address, terms.amount.minor(), 0);
        bill.nonce = terms.payment_nonce().unwrap();
        bill.skep = Some(SkepTerms {
            hire: hire.envelope().ok(),
            escrow: Some(terms.clone()),
            receipt: None,
        });
        bill
    }

    pub fn request(&self) -> FacilitatorRequest {
        let value = Amount::new(self.value).unwrap();
        let sides = (self.payer.address(), self.to);
        let authorization = Authorization::new(sides, value, self.window, &self.nonce);
        let signature = authorization.sign(&self.domain, &self.signer).unwrap();
        let signature = match self.high_s {
            true => second_form(&signature),
            false => signature.to_string(),
        };
        let payload = json!({ "authorization": authorization, "signature": signature });
        let (payment, requirements) = match self.version {
            1 => self.version_1(&payload),
            _ => self.version_2(&payload),
        };
        FacilitatorRequest {
            x402_version: self.version,
            payment_payload: payment,
            payment_requirements: requirements,
            skep: self.skep.clone(),
        }
    }

    fn extensions(&self) -> Value {
        match &self.identifier {
            Some(id) => json!({ "payment-identifier": { "info": { "id": id } } }),
            None => json!({}),
        }
    }

    fn version_1(&self, payload: &Value) -> (Value, Value) {
        let payment = json!({
            "x402Version": 1, "scheme": self.scheme, "network": self.network, "payload": payload,
            "extensions": self.extensions(),
        });
        let requirements = json!({
            "scheme": self.scheme, "network": self.network,
            "maxAmountRequired": self.price.to_string(), "resource": self.resource,
            "description": "", "mimeType": "", "payTo": self.pay_to, "maxTimeoutSeconds": 60,
            "asset": self.asset, "extra": { "name": self.domain.name, "version": "1" },
        });
        (payment, requirements)
    }

    fn version_2(&self, payload: &Value) -> (Value, Value) {
        let requirements = json!({
            "scheme": self.scheme, "network": self.network, "amount": self.price.to_string(),
            "asset": self.asset, "payTo": self.pay_to, "maxTimeoutSeconds": 60,
            "extra": { "name": self.domain.name, "version": "1" },
        });
        let payment = json!({
            "x402Version": 2, "payload": payload, "resource": { "url": self.resource },
            "accepted": requirements, "extensions": self.extensions(),
        });
        (payment, requirements)
    }
}

/// The other `s` that verifies as well.
fn second_form(signature: &WalletSignature) -> String {
    let mut bytes = *signature.as_bytes();
    let mut borrow = 0_i16;
    for at in (0..32).rev() {
        let difference = i16::from(ORDER[at]) - i16::from(bytes[32 + at]) - borrow;
        borrow = i16::from(difference < 0);
        bytes[32 + at] = difference.rem_euclid(256) as u8;
    }
    bytes[64] = 55 - bytes[64];
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{hex}")
}

/// A signed hire of `seller`; `n` makes it unique.
pub fn hire(buyer: &Person, seller: AgentId, n: u64, more: Value) -> HireRequest {
    let mut request = json!({
        "protocol": PROTOCOL, "buyer_id": buyer.id(), "capability": "custom.test.echo",
        "params": { "n": n }, "seller_id": seller, "nonce": format!("hire-{n}"),
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut hire: HireRequest = serde_json::from_value(request).unwrap();
    hire.sign(&buyer.wallet).unwrap();
    hire
}

/// What both doors of the facilitator say to a payment that neither takes.
pub async fn refused_by_both(market: &Market, request: &FacilitatorRequest) -> String {
    let verified = market.x402_verify(request).await.unwrap();
    let settled = market.x402_settle(request).await.unwrap();
    assert!(!verified.is_valid && !settled.success, "{verified:?} {settled:?}");
    assert_eq!(verified.invalid_reason, settled.error_reason);
    assert_eq!(settled.transaction, "");
    settled.error_reason.unwrap()
}

pub async fn settle(market: &Market, request: &FacilitatorRequest) -> SettleResponse {
    let settled = market.x402_settle(request).await.unwrap();
    assert!(settled.success, "{settled:?}");
    settled
}

/// Terms under which `hire` is held for `payee`.
pub fn escrow_terms(hire: &HireRequest, payee: AgentId, minor: i64) -> EscrowTerms {
    EscrowTerms {
        hire_hash: hire.digest().unwrap(),
        buyer: hire.buyer_id,
        seller: hire.seller_id.unwrap(),
        payee,
        amount: Amount::new(minor).unwrap(),
        capability: hire.capability.clone(),
        verification_version: None,
        verification_window_ms: 30_000,
        deliver_within_ms: 60_000,
    }
}

/// A signed order of `by`.
pub fn escrow_order(
    id: DealId,
    verb: EscrowVerb,
    by: &Person,
    result: Option<Hash32>,
) -> EscrowOrder {
    let mut order = EscrowOrder {
        escrow_id: id,
        verb,
        by: by.id(),
        result_hash: result,
        verification: None,
        issued_at: skep_base::Timestamp::from_ms(START_MS),
        signature: None,
    };
    order.sign(&by.wallet).unwrap();
    order
}

/// Notes a delivery in an escrow's record, as a receipt would.
pub async fn deliver(f: &Fixture, id: DealId, result: Hash32) {
    let key = RecordKey { route: RouteKey::of(id), kind: "hire_escrow", id: id.to_string() };
    let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
    let step = move |turn: &mut Turn| {
        let mut record: Value = turn.record(&key)?.unwrap();
        let window = record["terms"]["verification_window_ms"].as_u64().unwrap();
        record["delivered"] =
            json!({ "at": turn.now(), "receipt_id": "rcpt", "result_hash": result });
        record["due_at"] = json!(turn.now().plus(Duration::from_millis(window)));
        turn.put(&key, &record)?;
        Ok(Decision::Commit("{}".to_owned()))
    };
    let call = Call { load, guards: vec![], step: Box::new(step) };
    f.market.store().call(call).await.unwrap();
}

/// A budget of `agent`, which is its own operator.
pub fn budget(agent: &Person, usdc: &str, n: u64) -> BudgetToken {
    let mut token = draft(agent, usdc, n);
    token.sign_as_operator(&agent.key).unwrap();
    token
}

/// A part of the budget `whole`, for another agent.
pub fn part(
    whole: &BudgetToken,
    owner: &Person,
    agent: &Person,
    usdc: &str,
    n: u64,
) -> BudgetToken {
    let mut token = draft(agent, usdc, n);
    token.parent = Some(whole.id().unwrap());
    token.sign_as_agent(&owner.wallet).unwrap();
    token
}

fn draft(agent: &Person, usdc: &str, n: u64) -> BudgetToken {
    serde_json::from_value(json!({
        "agent_id": agent.id(), "max_amount_usdc": usdc, "max_duration_seconds": 3600,
        "issued_at": START_MS / 1000, "issuer": did(&agent.key), "nonce": format!("budget {n}"),
    }))
    .unwrap()
}
