//! The part of a node that a buyer talks to, in memory: one ledger, receipts, escrows. It keeps the
//! rules that money depends on, so that what a buyer does wrong shows in its balances.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::StatusCode;
use serde_json::{Value, json};
use skep_base::{
    AgentId, Amount, Hash32, Timestamp, hash::json_sha256, hash::keccak256, id::DealId,
};
use skep_wire::{
    hire::{
        CounterSignature, CounterSigned, EscrowOrder, EscrowVerb, Findings, Found, HireEscrow,
        HirePayload, Judgement, Listing, Ranking, Receipt, ReceiptAccepted, Reputation, Search,
        SearchAnswer, StoredReceipt, WalletSigned,
    },
    settle::EscrowStatus,
    x402::{
        EXACT, FacilitatorRequest, Payment, Rail, SettleResponse, Supported, SupportedKind,
        VerifyResponse, ledger_network, reason,
    },
};

pub const PROVIDER: &str = "test-node";

#[derive(Clone, Debug)]
pub struct Paid {
    pub buyer: AgentId,
    pub amount: i64,
    pub hire: Option<Hash32>,
    pub escrow: Option<DealId>,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub wallets: BTreeMap<AgentId, i64>,
    /// By transaction.
    pub paid: BTreeMap<String, Paid>,
    pub listings: Vec<Listing>,
    pub receipts: BTreeMap<String, StoredReceipt>,
    pub escrows: BTreeMap<DealId, HireEscrow>,
    /// Budgets and what was taken under them.
    pub budgets: BTreeMap<Hash32, i64>,
    /// Answers 503 to everything.
    pub down: bool,
    pub verified: usize,
}

#[derive(Clone)]
pub struct Node {
    pub ledger: Arc<Mutex<Ledger>>,
    pub rail: Rail,
    pub url: String,
}

pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_ms(i64::try_from(elapsed.as_millis()).unwrap())
}

fn problem(status: u16, code: &str) -> Response {
    let body = json!({
        "type": "x", "title": code, "status": status, "code": code, "detail": code,
        "retryable": status >= 500,
    });
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

impl Node {
    pub async fn open() -> Node {
        Node::open_with(0xaa, 0xee).await
    }

    /// A node with this asset, whose escrows are in this wallet.
    pub async fn open_with(asset: u8, vault: u8) -> Node {
        let address = |byte| AgentId([byte; 20]);
        let rail = Rail {
            asset: address(asset),
            name: "Skep Ledger USD".to_owned(),
            version: "1".to_owned(),
            escrow_address: address(vault),
            escrow_provider: PROVIDER.to_owned(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let node = Node { ledger: Arc::default(), rail, url };
        let router = Router::new()
            .route("/x402/supported", get(supported))
            .route("/x402/verify", post(verify))
            .route("/x402/settle", post(settle))
            .route("/v1/search", post(search))
            .route("/v1/listings/{id}", get(listing))
            .route("/v1/receipts", post(submit))
            .route("/v1/receipts/{id}", get(receipt))
            .route("/v1/receipts/{id}/countersign", post(countersign))
            .route("/v1/receipts/{id}/payload", post(payload))
            .route("/v1/escrows/{id}", get(escrow))
            .route("/v1/escrows/{id}/{verb}", post(order))
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(node.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        node
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    pub fn fund(&self, agent: AgentId, amount: i64) {
        *self.ledger().wallets.entry(agent).or_default() += amount;
    }

    pub fn balance(&self, agent: AgentId) -> i64 {
        self.ledger().wallets.get(&agent).copied().unwrap_or_default()
    }

    pub fn publish(&self, listing: Listing) {
        self.ledger().listings.push(listing);
    }

    /// Whether a payment may be taken: its transaction, or the reason why not.
    fn claim(&self, ledger: &Ledger, request: &FacilitatorRequest) -> Result<Claim, &'static str> {
        let payment = Payment::read(request.payment_payload.clone()).map_err(|_| "unreadable")?;
        let authorization = &payment.payload.authorization;
        let chain = Rail::chain_id(&payment.network).ok_or(reason::INVALID_NETWORK)?;
        let domain = self.rail.domain(chain);
        authorization.check(&domain, &payment.payload.signature).map_err(|_| reason::SIGNATURE)?;
        let nonce = authorization.nonce().unwrap();
        let payer = authorization.from;
        let parts = [self.rail.asset.as_bytes().as_slice(), payer.as_bytes(), nonce.as_bytes()];
        let tx = keccak256(&parts.concat()).to_prefixed();
        let amount = authorization.amount().unwrap();
        let wants = &request.payment_requirements;
        let asked = wants.get("amount").or_else(|| wants.get("maxAmountRequired"));
        if asked != Some(&json!(amount)) {
            return Err(reason::VALUE);
        }
        if wants.get("payTo") != Some(&json!(authorization.to)) {
            return Err(reason::RECIPIENT);
        }
        let skep = request.skep.clone().unwrap_or_default();
        let (mut hire, mut budget, mut buyer) = (None, None, payer);
        if let Some(envelope) = &skep.hire {
            let (digest, facts) = envelope.check().map_err(|_| reason::HIRE_SIGNATURE)?;
            if facts.payer().map_err(|_| reason::WALLET_BINDING)? != payer {
                return Err(reason::NOT_THE_BUYER);
            }
            facts.check_payer_time(now()).map_err(|_| reason::WALLET_BINDING)?;
            buyer = facts.buyer_id;
            let wanted = match &skep.escrow {
                Some(terms) => terms.payment_nonce().unwrap(),
                None => facts.payment_nonce(&digest),
            };
            if nonce != wanted {
                return Err(reason::NOT_FOR_THIS_HIRE);
            }
            hire = Some(digest);
            budget = facts.budget_token;
        }
        let known = ledger.paid.contains_key(&tx);
        let claim = Claim { tx, payer, buyer, to: authorization.to, amount, hire, budget, known };
        if known {
            return Ok(claim);
        }
        let (_, before) = authorization.window().unwrap();
        if u128::try_from(now().as_ms()).unwrap() >= before * 1000 {
            return Err(reason::VALID_BEFORE);
        }
        if ledger.wallets.get(&payer).copied().unwrap_or_default() < amount.minor() {
            return Err(reason::INSUFFICIENT_FUNDS);
        }
        if let Some(token) = &claim.budget {
            let spent = ledger.budgets.get(&token.id().unwrap()).copied().unwrap_or_default();
            if spent + amount.minor() > token.limit().minor() {
                return Err(reason::BUDGET_EXCEEDED);
            }
        }
        Ok(claim)
    }
}

struct Claim {
    tx: String,
    payer: AgentId,
    buyer: AgentId,
    to: AgentId,
    amount: Amount,
    hire: Option<Hash32>,
    budget: Option<skep_wire::hire::BudgetToken>,
    known: bool,
}

macro_rules! open {
    ($node:ident) => {{
        let ledger = $node.ledger();
        if ledger.down {
            return problem(503, "unavailable");
        }
        ledger
    }};
}

async fn supported(State(node): State<Node>) -> Response {
    drop(open!(node));
    let extra = serde_json::to_value(&node.rail).unwrap().as_object().cloned().unwrap();
    let kind = SupportedKind {
        x402_version: 2,
        scheme: EXACT.to_owned(),
        network: ledger_network(),
        extra,
    };
    Json(Supported { kinds: vec![kind], ..Supported::default() }).into_response()
}

async fn verify(State(node): State<Node>, Json(request): Json<FacilitatorRequest>) -> Response {
    let mut ledger = open!(node);
    ledger.verified += 1;
    let why = match node.claim(&ledger, &request) {
        Ok(claim) if claim.known => Some(reason::NONCE_USED),
        Ok(_) => None,
        Err(why) => Some(why),
    };
    let (is_valid, invalid_reason) = (why.is_none(), why.map(str::to_owned));
    Json(VerifyResponse { is_valid, invalid_reason, ..VerifyResponse::default() }).into_response()
}

async fn settle(State(node): State<Node>, Json(request): Json<FacilitatorRequest>) -> Response {
    let mut ledger = open!(node);
    let claim = match node.claim(&ledger, &request) {
        Ok(claim) => claim,
        Err(why) => {
            let error_reason = Some(why.to_owned());
            return Json(SettleResponse { error_reason, ..SettleResponse::default() })
                .into_response();
        }
    };
    if !claim.known {
        let amount = claim.amount.minor();
        *ledger.wallets.entry(claim.payer).or_default() -= amount;
        *ledger.wallets.entry(claim.to).or_default() += amount;
        if let Some(token) = &claim.budget {
            *ledger.budgets.entry(token.id().unwrap()).or_default() += amount;
        }
        let terms = request.skep.clone().unwrap_or_default().escrow;
        let escrow = terms.map(|terms| {
            let id = DealId::new(now(), &[claim.tx.as_bytes()]);
            let refund_at = now().plus(Duration::from_millis(terms.deliver_within_ms));
            let escrow = HireEscrow {
                escrow_id: id,
                payer: Some(claim.payer).filter(|payer| *payer != claim.buyer),
                terms,
                status: EscrowStatus::Held,
                reason: None,
                tx_hash: claim.tx.clone(),
                held_at: now(),
                delivered_at: None,
                refund_at: Some(refund_at),
                receipt_id: None,
                settlement: None,
            };
            ledger.escrows.insert(id, escrow);
            id
        });
        let (buyer, hire) = (claim.buyer, claim.hire);
        ledger.paid.insert(claim.tx.clone(), Paid { buyer, amount, hire, escrow });
    }
    let escrow_id = ledger.paid[&claim.tx].escrow.map(|id| id.to_string());
    Json(SettleResponse {
        success: true,
        payer: Some(claim.payer),
        transaction: claim.tx,
        network: ledger_network(),
        escrow_id,
        ..SettleResponse::default()
    })
    .into_response()
}

fn found(listing: &Listing) -> Found {
    Found {
        agent_id: listing.agent_id,
        listing_id: listing.id(),
        listing: listing.clone(),
        reputation: Reputation::default(),
        alive: true,
        checked_at: None,
        endpoint_proven: true,
        ranking: Ranking::default(),
        benchmark: Default::default(),
        phase: Default::default(),
        signal: String::new(),
        score_at_least: None,
        operator_under_review: false,
    }
}

async fn search(State(node): State<Node>, Json(search): Json<Search>) -> Response {
    let ledger = open!(node);
    let fits = |listing: &&Listing| {
        let mode = listing.mode();
        search.capability.as_ref() == Some(&listing.capability)
            && search.payment_mode.as_ref().is_none_or(|wanted| match wanted.as_str() {
                "platform_escrow:*" => mode.is_escrow(),
                wanted => mode.to_string() == wanted,
            })
    };
    let at: usize = search.cursor.as_deref().map_or(0, |cursor| cursor.parse().unwrap());
    let size = search.limit.map_or(usize::MAX, |limit| limit as usize);
    let all: Vec<Found> = ledger.listings.iter().filter(fits).map(found).collect();
    let end = at.saturating_add(size);
    Json(SearchAnswer {
        next_cursor: (end < all.len()).then(|| end.to_string()),
        agents: all.into_iter().skip(at).take(size).collect(),
        matching: search.matching,
        ranked_by: "time".to_owned(),
        available_capabilities: None,
        total_distinct_capabilities: None,
    })
    .into_response()
}

async fn listing(State(node): State<Node>, Path(id): Path<String>) -> Response {
    let ledger = open!(node);
    match ledger.listings.iter().find(|listing| listing.id().to_string() == id) {
        Some(listing) => Json(found(listing)).into_response(),
        None => problem(404, "unknown_listing"),
    }
}

async fn submit(State(node): State<Node>, Json(receipt): Json<Receipt>) -> Response {
    let mut ledger = open!(node);
    if receipt.check_signature().is_err() {
        return problem(401, "bad_signature");
    }
    let free = receipt.amount_usdc_atomic == Amount::ZERO;
    let paid = ledger.paid.get(&receipt.tx_hash);
    let fits = paid.is_some_and(|paid| {
        paid.buyer == receipt.buyer
            && paid.amount == receipt.amount_usdc_atomic.minor()
            && paid.hire == receipt.hire_hash
    });
    if !free && !fits {
        return problem(422, "payment_mismatch");
    }
    let id = receipt.hire_id.clone();
    let stored = StoredReceipt {
        receipt_id: id.clone(),
        findings: Findings { seller: receipt.verification.clone(), ..Findings::default() },
        judgement: Judgement::NotVerifiedByBuyer,
        dispute: false,
        linked: false,
        escrow: None,
        accepted_at: now(),
        receipt,
    };
    ledger.receipts.entry(id.clone()).or_insert(stored);
    let rating_token = format!("rtt-seller-{id}");
    Json(ReceiptAccepted { ok: true, receipt_id: id, rating_token }).into_response()
}

async fn receipt(State(node): State<Node>, Path(id): Path<String>) -> Response {
    match open!(node).receipts.get(&id) {
        Some(stored) => Json(stored.clone()).into_response(),
        None => problem(404, "unknown_receipt"),
    }
}

async fn countersign(
    State(node): State<Node>,
    Path(id): Path<String>,
    Json(signature): Json<CounterSignature>,
) -> Response {
    let mut ledger = open!(node);
    let Some(stored) = ledger.receipts.get_mut(&id) else {
        return problem(404, "unknown_receipt");
    };
    if signature.check_signature().is_err()
        || signature.buyer != stored.receipt.buyer
        || signature.receipt_hash != stored.receipt.hash().unwrap()
    {
        return problem(401, "bad_signature");
    }
    if stored.findings.buyer.as_ref().is_some_and(|known| *known != signature) {
        return problem(409, "already_countersigned");
    }
    stored.dispute = signature.dispute;
    let dispute = signature.dispute;
    stored.findings.buyer = Some(signature);
    let rating_token = format!("rtt-buyer-{id}");
    Json(CounterSigned { ok: true, receipt_id: id, dispute, rating_token }).into_response()
}

async fn payload(
    State(node): State<Node>,
    Path(id): Path<String>,
    Json(payload): Json<HirePayload>,
) -> Response {
    let mut ledger = open!(node);
    let Some(stored) = ledger.receipts.get(&id) else { return problem(404, "unknown_receipt") };
    if stored.receipt.result_hash != json_sha256(&payload.result).ok() {
        return problem(422, "payload_mismatch");
    }
    if let Some(escrow_id) = stored.receipt.escrow_id
        && let Some(escrow) = ledger.escrows.get_mut(&escrow_id)
    {
        escrow.delivered_at.get_or_insert(now());
        let window = Duration::from_millis(escrow.terms.verification_window_ms);
        escrow.refund_at = Some(now().plus(window));
        escrow.receipt_id = Some(id);
    }
    Json(json!({ "ok": true })).into_response()
}

async fn escrow(State(node): State<Node>, Path(id): Path<DealId>) -> Response {
    match open!(node).escrows.get(&id) {
        Some(escrow) => Json(escrow.clone()).into_response(),
        None => problem(404, "unknown_escrow"),
    }
}

async fn order(
    State(node): State<Node>,
    Path((id, verb)): Path<(DealId, String)>,
    Json(body): Json<Value>,
) -> Response {
    let mut ledger = open!(node);
    let Some(escrow) = ledger.escrows.get(&id).cloned() else {
        return problem(404, "unknown_escrow");
    };
    let (status, reason) = match verb.as_str() {
        "timeout-refund" if escrow.refund_at.is_some_and(|end| now() < end) => {
            return problem(409, "not_yet");
        }
        "timeout-refund" => (EscrowStatus::Refunded, "time"),
        _ => {
            let order: EscrowOrder = serde_json::from_value(body).unwrap();
            let by_buyer = order.by == escrow.terms.buyer;
            let by_seller = order.by == escrow.terms.seller && order.verb == EscrowVerb::Refund;
            if order.check_signature().is_err() || !(by_buyer || by_seller) {
                return problem(401, "bad_signature");
            }
            match order.verb {
                EscrowVerb::Release => (EscrowStatus::Released, "buyer"),
                EscrowVerb::Refund if by_seller => (EscrowStatus::Refunded, "seller"),
                EscrowVerb::Refund => (EscrowStatus::Refunded, "buyer"),
            }
        }
    };
    if escrow.status == status {
        return Json(escrow).into_response();
    }
    if escrow.status != EscrowStatus::Held {
        return problem(409, "already_settled");
    }
    let amount = escrow.terms.amount.minor();
    let to = match status {
        EscrowStatus::Released => escrow.terms.payee,
        _ => escrow.payer.unwrap_or(escrow.terms.buyer),
    };
    *ledger.wallets.entry(node.rail.escrow_address).or_default() -= amount;
    *ledger.wallets.entry(to).or_default() += amount;
    let closed = HireEscrow { status, reason: Some(reason.to_owned()), ..escrow };
    ledger.escrows.insert(id, closed.clone());
    Json(closed).into_response()
}
