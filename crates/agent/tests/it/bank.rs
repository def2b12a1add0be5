//! A ledger that takes payments as a node does, and that can be told to fail in ways that a real
//! node cannot be made to at will: to lose answers, to be away, to refuse.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::StatusCode;
use serde_json::{Value, json};
use skep_base::{AgentId, ed25519::SecretKey, hash::keccak256, id::DealId};
use skep_wire::{
    hire::{EscrowOrder, HirePayload, Receipt, WalletSigned},
    x402::{FacilitatorRequest, Payment, Rail, SettleResponse, VerifyResponse, reason},
};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Done, and nobody is told.
    LostAnswer,
    /// Not done, and it is not clear whether it was.
    Pending,
    /// Not there.
    Away,
    /// Refused for good.
    Refused,
    /// Refused, and nobody knows why.
    Unexpected,
}

#[derive(Clone, Debug, Default)]
pub struct Books {
    pub balances: BTreeMap<AgentId, i64>,
    /// By transaction: what was paid, and the escrow that it went into.
    pub payments: BTreeMap<String, (Value, Option<DealId>)>,
    pub refunds: BTreeMap<DealId, AgentId>,
    pub receipts: BTreeMap<String, Receipt>,
    pub payloads: BTreeMap<String, HirePayload>,
    pub settle_faults: VecDeque<Fault>,
    pub receipt_faults: VecDeque<Fault>,
    pub settles: usize,
    pub verifies: usize,
    /// Takes receipts that come along with their payments; not every node does.
    pub enters_receipts: bool,
}

#[derive(Clone)]
pub struct Bank {
    pub books: Arc<Mutex<Books>>,
    pub url: String,
}

/// What the bank gives its word with.
pub fn key() -> SecretKey {
    SecretKey::from_seed([0xba; 32])
}

pub fn rail() -> Rail {
    Rail {
        asset: Rail::asset_of(&key().public()),
        name: "Skep Ledger USD".to_owned(),
        version: "1".to_owned(),
        escrow_address: AgentId([0xee; 20]),
        escrow_provider: "test".to_owned(),
    }
}

impl Bank {
    pub async fn open() -> Bank {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bank = Bank { books: Arc::default(), url };
        let app = Router::new()
            .route("/x402/supported", get(supported))
            .route("/x402/verify", post(verify))
            .route("/x402/settle", post(settle))
            .route("/v1/receipts", post(receipt))
            .route("/v1/receipts/{id}/payload", post(payload))
            .route("/v1/escrows/{id}/refund", post(refund))
            .with_state(bank.clone());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        bank
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut Books) -> T) -> T {
        look(&mut self.books.lock().unwrap())
    }

    pub fn balance(&self, of: AgentId) -> i64 {
        self.with(|books| books.balances.get(&of).copied().unwrap_or(0))
    }

    pub fn fund(&self, who: AgentId, amount: i64) {
        self.with(|books| *books.balances.entry(who).or_default() += amount);
    }
}

fn problem(status: u16, code: &str) -> Response {
    let retryable = status >= 500;
    let body = json!({
        "type": "", "title": "", "status": status, "code": code, "detail": code,
        "retryable": retryable,
    });
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

async fn supported() -> Json<Value> {
    let kind = json!({
        "x402Version": 2, "scheme": "exact", "network": "eip155:1397441872", "extra": rail(),
    });
    Json(json!({ "kinds": [kind], "extensions": [], "signers": {} }))
}

/// What a payment says, if it is one: payer, payee, amount and transaction.
fn read(request: &FacilitatorRequest) -> Result<(AgentId, AgentId, i64, String), &'static str> {
    let payment = Payment::read(request.payment_payload.clone()).map_err(|_| "invalid_payload")?;
    let paid = &payment.payload.authorization;
    let chain = Rail::chain_id(&payment.network).ok_or(reason::INVALID_NETWORK)?;
    paid.check(&rail().domain(chain), &payment.payload.signature).map_err(|_| reason::SIGNATURE)?;
    if let Some(hire) = request.skep.as_ref().and_then(|skep| skep.hire.as_ref()) {
        let (_, facts) = hire.check().map_err(|_| reason::HIRE_SIGNATURE)?;
        if facts.payer().map_err(|_| reason::WALLET_BINDING)? != paid.from {
            return Err(reason::NOT_THE_BUYER);
        }
    }
    let nonce = paid.nonce().ok_or(reason::INVALID_PAYLOAD)?;
    let tx = rail().tx_hash(&paid.from, &nonce);
    let amount = paid.amount().ok_or(reason::VALUE)?;
    Ok((paid.from, paid.to, amount.minor(), tx))
}

async fn verify(
    State(bank): State<Bank>,
    Json(request): Json<FacilitatorRequest>,
) -> Json<VerifyResponse> {
    bank.with(|books| books.verifies += 1);
    let checked = read(&request).and_then(|(from, _, amount, tx)| {
        bank.with(|books| match books.payments.contains_key(&tx) {
            true => Err(reason::NONCE_USED),
            false if books.balances.get(&from).copied().unwrap_or(0) < amount => {
                Err(reason::INSUFFICIENT_FUNDS)
            }
            false => Ok(from),
        })
    });
    Json(VerifyResponse {
        is_valid: checked.is_ok(),
        invalid_reason: checked.err().map(str::to_owned),
        payer: checked.ok(),
        ..VerifyResponse::default()
    })
}

fn unsettled(why: &str) -> Response {
    let error_reason = Some(why.to_owned());
    Json(SettleResponse { error_reason, ..SettleResponse::default() }).into_response()
}

async fn settle(State(bank): State<Bank>, Json(request): Json<FacilitatorRequest>) -> Response {
    let fault = bank.with(|books| {
        books.settles += 1;
        books.settle_faults.pop_front()
    });
    match fault {
        Some(Fault::Away) => return problem(503, "away"),
        Some(Fault::Pending) => return unsettled(reason::SETTLEMENT_PENDING),
        Some(Fault::Unexpected) => return unsettled(reason::UNEXPECTED_SETTLE),
        Some(Fault::Refused) => return unsettled(reason::INSUFFICIENT_FUNDS),
        _ => {}
    }
    let (from, to, amount, tx) = match read(&request) {
        Ok(read) => read,
        Err(why) => return unsettled(why),
    };
    let escrow = request.skep.as_ref().and_then(|skep| skep.escrow.as_ref()).map(|_| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&keccak256(tx.as_bytes()).as_bytes()[..16]);
        bytes[15] = 0;
        bytes
    });
    let settled = bank.with(|books| {
        let escrow_id = escrow.map(deal_id);
        match books.payments.get(&tx) {
            Some((payload, _)) if *payload != request.payment_payload => {
                return Err(reason::NONCE_USED);
            }
            Some(_) => {}
            None => {
                let balance = books.balances.entry(from).or_default();
                if *balance < amount {
                    return Err(reason::INSUFFICIENT_FUNDS);
                }
                *balance -= amount;
                *books.balances.entry(to).or_default() += amount;
                let paid = (request.payment_payload.clone(), escrow_id);
                books.payments.insert(tx.clone(), paid);
            }
        }
        let along = request.skep.as_ref().and_then(|skep| skep.receipt.as_deref());
        let along = along.filter(|receipt| {
            let holds = receipt.tx_hash == tx && receipt.check_signature().is_ok();
            books.enters_receipts && holds
        });
        if let Some(receipt) = along {
            books.receipts.insert(receipt.hire_id.clone(), receipt.clone());
        }
        Ok(SettleResponse {
            success: true,
            receipt_entered: along.is_some(),
            transaction: tx.clone(),
            network: "eip155:1397441872".to_owned(),
            payer: Some(from),
            escrow_id: escrow_id.map(|id| id.to_string()),
            ..SettleResponse::default()
        })
    });
    match (settled, fault) {
        (Ok(_), Some(Fault::LostAnswer)) => problem(503, "lost"),
        (Ok(settled), _) => Json(settled).into_response(),
        (Err(why), _) => unsettled(why),
    }
}

/// A UUID of version 7 with the last byte zero, as deals have.
fn deal_id(mut bytes: [u8; 16]) -> DealId {
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-").parse().unwrap()
}

async fn receipt(State(bank): State<Bank>, Json(receipt): Json<Receipt>) -> Response {
    if bank.with(|books| books.receipt_faults.pop_front()) == Some(Fault::Away) {
        return problem(503, "away");
    }
    if receipt.check_signature().is_err() {
        return problem(401, "bad_signature");
    }
    bank.with(|books| {
        let is_free = receipt.amount_usdc_atomic.is_zero();
        if !is_free && !books.payments.contains_key(&receipt.tx_hash) {
            return problem(422, "payment_unknown");
        }
        match books.receipts.get(&receipt.hire_id) {
            Some(before) if *before != receipt => problem(409, "duplicate_hire_id"),
            _ => {
                let id = receipt.hire_id.clone();
                books.receipts.insert(id.clone(), receipt);
                Json(json!({ "ok": true, "receipt_id": id, "rating_token": "t" })).into_response()
            }
        }
    })
}

async fn payload(
    State(bank): State<Bank>,
    Path(id): Path<String>,
    Json(payload): Json<HirePayload>,
) -> Json<Value> {
    bank.with(|books| books.payloads.insert(id, payload));
    Json(json!({}))
}

async fn refund(State(bank): State<Bank>, Json(order): Json<EscrowOrder>) -> Response {
    if order.check_signature().is_err() {
        return problem(401, "bad_signature");
    }
    bank.with(|books| {
        let found = books.payments.values().find(|(_, id)| *id == Some(order.escrow_id)).cloned();
        let Some((payload, _)) = found else { return problem(404, "escrow_unknown") };
        if books.refunds.insert(order.escrow_id, order.by).is_none() {
            let paid = Payment::read(payload).unwrap().payload.authorization;
            let amount = paid.amount().unwrap().minor();
            *books.balances.entry(paid.from).or_default() += amount;
            *books.balances.entry(paid.to).or_default() -= amount;
        }
        // What an escrow looks like afterwards is of no interest here.
        problem(409, "already_settled")
    })
}
