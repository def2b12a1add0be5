//! A table of what must be refused: each with its status and code, and nothing is written.

use std::time::Duration;

use http::Method;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::world::{Agent, Answer, Node, Request, config, now, transfer_id};

const TRANSFERS: &str = "/v1/transfers";

fn transfer(to: &Agent, money: &str) -> String {
    let (id, to) = (transfer_id(1), to.wallet.address());
    format!(r#"{{"id":"{id}","to":"{to}","money":{money}}}"#)
}

fn amount(amount: &str) -> String {
    format!(r#"{{"amount":{amount},"asset":"USDC"}}"#)
}

struct Table {
    node: Node,
    payer: Agent,
    payee: Agent,
    head: i64,
    failures: Vec<String>,
}

impl Table {
    async fn new() -> Table {
        let node = Node::start(config()).await;
        let (payer, payee) = (node.rich(1).await, node.register(2).await);
        let head = node.head();
        Table { node, payer, payee, head, failures: Vec::new() }
    }

    async fn row(&mut self, name: &str, request: Request, status: u16, code: &str) {
        let answer = self.node.send(&request).await;
        self.judge(name, &answer, status, code);
    }

    /// A signed `POST /v1/transfers` with this body.
    async fn body(&mut self, name: &str, body: &str, status: u16, code: &str) {
        let request = Request::post(TRANSFERS, body).signed(&self.node, &self.payer);
        self.row(name, request, status, code).await;
    }

    /// The same with this as the amount.
    async fn amount(&mut self, text: &str, status: u16, code: &str) {
        let body = transfer(&self.payee, &amount(text));
        self.body(&format!("amount {text}"), &body, status, code).await;
    }

    fn judge(&mut self, name: &str, answer: &Answer, status: u16, code: &str) {
        let (json, head) = (answer.json(), self.node.head());
        let is_problem = code.is_empty()
            || (answer.header("content-type") == "application/problem+json"
                && json["status"] == status
                && json["request_id"] == answer.header("x-request-id")
                && json["type"] == format!("/problems/{code}"));
        let is_right = answer.status == status && answer.code() == code;
        if !is_right || !is_problem || head != self.head {
            self.failures.push(format!("{name}: wanted {status} {code}, got {answer:?} {head}"));
            self.head = head;
        }
    }

    fn end(self) {
        assert!(self.failures.is_empty(), "{:#?}", self.failures);
    }
}

#[tokio::test]
async fn bodies() {
    let mut table = Table::new().await;
    let good = transfer(&table.payee, &amount("\"1.50\""));
    table.body("half an object", "{", 400, "malformed_json").await;
    table.body("something after it", &format!("{good} x"), 400, "malformed_json").await;
    table.body("no body", "", 400, "malformed_json").await;
    table.body("not a number", r#"{"id":NaN}"#, 400, "malformed_json").await;
    let twice = good.replacen('{', r#"{"to":"0x01","#, 1);
    table.body("a key twice", &twice, 400, "duplicate_key").await;
    let twice = good.replace(r#""asset""#, r#""asset":"EUR","asset""#);
    table.body("a key twice inside", &twice, 400, "duplicate_key").await;
    table.body("too deep", &"[".repeat(500), 400, "too_deep").await;
    table.body("a list", "[]", 400, "wrong_shape").await;
    table.body("an id that is a number", r#"{"id":5}"#, 400, "wrong_shape").await;
    table.body("no money", r#"{"id":"tr_01aryz6s41tsv4rrffq69g5fav"}"#, 400, "wrong_shape").await;
    let extra = good.replacen('{', r#"{"fee":0,"#, 1);
    table.body("an unknown field", &extra, 400, "wrong_shape").await;
    let other_kind = good.replace("tr_", "evt_");
    table.body("an id of another kind", &other_kind, 400, "wrong_shape").await;
    table.amount("\"1.2345678\"", 400, "wrong_shape").await;
    table.amount("\"-1\"", 400, "wrong_shape").await;
    table.amount("-1", 400, "wrong_shape").await;
    table.amount("\"9223372036854775808\"", 400, "wrong_shape").await;
    table.amount("\"99999999999999999999999999\"", 400, "wrong_shape").await;
    table.amount("9007199254740993", 400, "number_too_large").await;
    table.amount("1e400", 400, "number_too_large").await;
    table.amount("\"1e3\"", 400, "wrong_shape").await;
    table.amount("\" 1\"", 400, "wrong_shape").await;
    table.amount("true", 400, "wrong_shape").await;
    table.amount("\"0\"", 422, "zero_amount").await;
    table.amount("\"100.000001\"", 409, "insufficient_funds").await;
    let to_self = transfer(&table.payer, &amount("\"1\""));
    table.body("to oneself", &to_self, 422, "same_account").await;
    let to_nobody = transfer(&Agent::new(9), &amount("\"1\""));
    table.body("to nobody", &to_nobody, 404, "unknown_agent").await;
    let too_many = transfer(&table.payee, r#"{"amount":"1.001","asset":"USD"}"#);
    table.body("cents of cents", &too_many, 400, "wrong_shape").await;

    let mut bytes = Request::new(Method::POST, TRANSFERS, b"{\"id\":\"\xff\"}");
    bytes = bytes.signed(&table.node, &table.payer);
    table.row("not UTF-8", bytes, 400, "malformed_json").await;
    table.end();
}

#[tokio::test]
async fn a_wrong_field_is_named() {
    let node = Node::start(config()).await;
    let (payer, payee) = (node.rich(1).await, node.register(2).await);
    let body = transfer(&payee, r#"{"amount":"1.2345678","asset":"USDC"}"#);
    let request = Request::post(TRANSFERS, &body).signed(&node, &payer);
    let answer = node.send(&request).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("money"), "{detail}");
}

#[tokio::test]
async fn frames() {
    let mut table = Table::new().await;
    let (node, payer) = (&table.node, &table.payer);
    let good = transfer(&table.payee, &amount("\"1\""));
    let large = "x".repeat(64 * 1024 + 1);
    let cases = [
        ("too large", Request::post("/v1/agents", &large), 413, "body_too_large"),
        ("far too large", Request::post("/v1/agents", &large.repeat(40)), 413, "body_too_large"),
        (
            "a form",
            Request::post("/v1/agents", "a=b").header("content-type", "text/plain"),
            415,
            "unsupported_media_type",
        ),
        (
            "a signed form",
            Request::post(TRANSFERS, &good).header("content-type", "text/json").signed(node, payer),
            415,
            "unsupported_media_type",
        ),
        ("no such path", Request::get("/v1/nothing"), 404, "not_found"),
        (
            "wrong method",
            Request::new(Method::DELETE, "/v1/agents", b""),
            405,
            "method_not_allowed",
        ),
        (
            "no preflight",
            Request::new(Method::OPTIONS, "/v1/agents", b""),
            405,
            "method_not_allowed",
        ),
        ("no id", Request::get("/v1/agents/ada"), 400, "malformed_id"),
        ("half an id", Request::get("/v1/operators/did:swarm:00"), 400, "malformed_id"),
        ("unknown agent", Request::get(&format!("/v1/agents/0x{:040}", 7)), 404, "unknown_agent"),
        ("unknown parameter", Request::get("/v1/events?before=1"), 400, "malformed_query"),
        ("no limit", Request::get("/v1/events?limit=0"), 400, "malformed_query"),
        ("high limit", Request::get("/v1/events?limit=101"), 400, "malformed_query"),
        ("limit of words", Request::get("/v1/events?limit=all"), 400, "malformed_query"),
        ("no cursor", Request::get("/v1/events?after=-1"), 400, "malformed_cursor"),
        ("no problem", Request::get("/problems/none"), 404, "not_found"),
    ];
    for (name, request, status, code) in cases {
        table.row(name, request, status, code).await;
    }
    // A body whose length nobody announced.
    let chunk = "x".repeat(16 * 1024);
    let chunks = format!("{:x}\r\n{chunk}\r\n", chunk.len()).repeat(5);
    let chunked = format!(
        "POST /v1/agents HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
    );
    let answer = table.node.send_bytes(chunked.as_bytes()).await;
    table.judge("too large in chunks", &answer, 413, "body_too_large");
    let mut flood = Request::get("/healthz");
    for nth in 0..80 {
        let name: http::HeaderName = format!("x-{nth}").parse().unwrap();
        flood.headers.insert(name, "1".parse().unwrap());
    }
    table.row("header flood", flood, 431, "").await;
    let long = Request::get("/healthz").header("x-long", &"a".repeat(64 * 1024));
    table.row("a long header", long, 431, "").await;
    let answer = table.node.send(&Request::new(Method::DELETE, "/v1/agents", b"")).await;
    assert_eq!(answer.header("allow"), "POST");
    table.end();
}

#[tokio::test]
async fn slow_bodies() {
    let mut table = Table::new().await;
    let address = table.node.address;
    let head =
        b"POST /v1/agents HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100\r\n\
        content-type: application/json\r\n\r\n{";
    let mut stalled = TcpStream::connect(address).await.unwrap();
    stalled.write_all(head).await.unwrap();
    let answer = Answer::read(&mut stalled).await;
    table.judge("a body that stops", &answer, 408, "body_too_slow");

    let dripping = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = dripping.into_split();
    let drip = tokio::spawn(async move {
        let _ = writing.write_all(head).await;
        for _ in 0..90 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if writing.write_all(b" ").await.is_err() {
                break;
            }
        }
    });
    let mut bytes = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut bytes).await;
    drip.abort();
    let answer = Answer::parse(&String::from_utf8_lossy(&bytes));
    table.judge("a body that drips", &answer, 408, "body_too_slow");

    // A head that never ends, and a connection that never begins.
    for beginning in [&b"GET /healthz HTTP/1.1\r\nx: "[..], b""] {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(beginning).await.unwrap();
        let started = std::time::Instant::now();
        Answer::read(&mut silent).await;
        assert!(started.elapsed() < Duration::from_secs(5));
    }
    table.end();
}

#[tokio::test]
async fn signatures() {
    let mut table = Table::new().await;
    let (node, payer, stranger) = (&table.node, table.payer.clone(), Agent::new(9));
    let body = transfer(&table.payee, &amount("\"1\""));
    let plain = Request::post(TRANSFERS, &body);
    let signed = plain.clone().signed(node, &payer);
    let at = |created, seconds| {
        let lifetime = Duration::from_secs(seconds);
        plain.clone().signed_at(node, &payer, "0123456789abcdef", created, lifetime)
    };
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let change = |change: &dyn Fn(&mut Request)| {
        let mut changed = signed.clone();
        change(&mut changed);
        changed
    };
    let other_amount = body.replace("\"1\"", "\"9\"").into_bytes();
    let rows = [
        ("not signed", plain.clone(), 401, "signature_missing"),
        ("old", at(now().minus(minutes(10)), 60), 401, "signature_expired"),
        ("early", at(now().plus(minutes(5)), 60), 401, "signature_not_yet_valid"),
        ("another body", change(&|r| r.body = other_amount.clone()), 400, "digest_mismatch"),
        (
            "another body with its digest",
            change(&|r| {
                r.body = other_amount.clone();
                let digest = skep_wire::http_signature::content_digest(&r.body);
                r.headers.insert("content-digest", digest.parse().unwrap());
            }),
            401,
            "bad_signature",
        ),
        ("another query", change(&|r| r.target.push_str("?x=1")), 400, "signature_not_covered"),
        (
            "another path",
            change(&|r| r.target = format!("{TRANSFERS}/{}/post", transfer_id(1))),
            401,
            "bad_signature",
        ),
        (
            "a key that was not signed",
            change(&|r| {
                r.headers.insert("idempotency-key", "k".parse().unwrap());
            }),
            400,
            "signature_not_covered",
        ),
        (
            "half a signature",
            change(&|r| {
                r.headers.insert("signature", "skep=:AAAA:".parse().unwrap());
            }),
            400,
            "signature_malformed",
        ),
        (
            "longer than allowed",
            change(&|r| {
                let input = r.headers["signature-input"].to_str().unwrap().to_owned();
                let longer = input.replace(";expires=1", ";expires=2");
                r.headers.insert("signature-input", longer.parse().unwrap());
            }),
            400,
            "signature_lifetime_too_long",
        ),
        ("a stranger", plain.clone().signed(node, &stranger), 401, "unknown_key"),
        (
            "another's key",
            plain.clone().signed(node, &Agent { key: stranger.key.clone(), ..payer.clone() }),
            401,
            "bad_signature",
        ),
        (
            "for another node",
            Request { host: Some("other.example".to_owned()), ..plain.clone() }
                .signed(node, &payer),
            401,
            "wrong_audience",
        ),
        (
            "signed for another node, sent here",
            Request {
                host: None,
                ..Request { host: Some("other.example".to_owned()), ..plain.clone() }
                    .signed(node, &payer)
            },
            401,
            "bad_signature",
        ),
        (
            "a key with a space",
            plain.clone().header("idempotency-key", "a b").signed(node, &payer),
            400,
            "malformed_idempotency_key",
        ),
        (
            "another's wallet",
            Request::get(&format!("/v1/agents/{}/wallet", table.payee.wallet.address()))
                .signed(node, &payer),
            403,
            "not_yours",
        ),
        (
            "no wallet without a signature",
            Request::get(&format!("/v1/agents/{}/wallet", payer.wallet.address())),
            401,
            "signature_missing",
        ),
        (
            "no such transfer",
            Request::get(&format!("{TRANSFERS}/{}", transfer_id(7))).signed(node, &payer),
            404,
            "unknown_transfer",
        ),
    ];
    for (name, request, status, code) in rows {
        table.row(name, request, status, code).await;
    }
    table.end();
}

#[tokio::test]
async fn statements() {
    let mut table = Table::new().await;
    let row = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut body = serde_json::to_value(Agent::new(5).registration()).unwrap();
        change(&mut body);
        Request::post("/v1/agents", &body.to_string())
    };
    let rows = [
        (
            "another name",
            row(&|body| body["binding"]["name"] = "Eve".into()),
            401,
            "bad_statement_signature",
        ),
        (
            "another wallet",
            row(&|body| {
                body["binding"]["agent_id"] = Agent::new(6).wallet.address().to_string().into();
            }),
            401,
            "bad_statement_signature",
        ),
        (
            "no signature",
            row(&|body| {
                body.as_object_mut().unwrap().remove("key_signature");
            }),
            400,
            "wrong_shape",
        ),
        (
            "a key that is none",
            row(&|b| b["binding"]["public_key"] = "x".into()),
            400,
            "wrong_shape",
        ),
    ];
    for (name, request, status, code) in rows {
        table.row(name, request, status, code).await;
    }
    table.end();
}

#[tokio::test]
async fn a_missing_benchmark_says_what_is_missing() {
    let node = Node::start(config()).await;
    let (buyer, seller) = (node.rich(1).await, node.register(2).await);
    let (buyer_id, seller_id) = (buyer.wallet.address(), seller.wallet.address());
    let body = serde_json::json!({
        "vcap_version": "1.0", "message_type": "negotiation_request",
        "requester": {"agent_id": buyer_id}, "provider": {"agent_id": seller_id},
        "request": {
            "service_type": "text.write", "description": "Write hello",
            "budget_amount": 1, "budget_currency": "USDC",
        },
        "requiresBenchmark": true,
    });
    let path = "/vcap/v1/negotiations";
    let request = Request::post(path, &body.to_string()).signed(&node, &buyer);
    let answer = node.send(&request).await;
    let problem = answer.json();
    assert_eq!(answer.status, 400, "{problem}");
    assert_eq!(problem["code"], "benchmark_required");
    for (member, value) in [("currentScore", 0), ("requiredScore", 700), ("gap", 700)] {
        assert_eq!(problem[member], value, "{problem}");
    }
    assert!(!problem["qualificationGaps"].as_array().unwrap().is_empty(), "{problem}");
}
