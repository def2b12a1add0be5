//! A settlement whose commit is never answered: a real PostgreSQL behind a line that is cut at
//! that very moment.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use skep_base::AgentId;
use skep_wire::x402::reason;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{fixture::*, pay_world::*};

/// What a node sends to end a transaction, and what the server answers.
const COMMIT: &[u8] = b"commit\0";
const COMMITTED: &[u8] = b"COMMIT\0";

/// How the line treats commits.
const SOUND: u8 = 0;
/// The commit arrives, its answer does not.
const ANSWER_LOST: u8 = 1;
/// The commit itself does not arrive.
const COMMIT_LOST: u8 = 2;

/// A line to the database, and how often it was cut.
#[derive(Default)]
struct Line {
    mode: AtomicU8,
    cuts: AtomicUsize,
}

impl Line {
    /// The same database at another address.
    async fn to(url: &str) -> (Arc<Line>, String) {
        let (user, rest) = url.split_once('@').unwrap();
        let (host, name) = rest.split_once('/').unwrap();
        let (line, server) = (Arc::new(Line::default()), host.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let carrying = line.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let ((from, back), (answers, to)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(carrying.clone(), from, to, COMMIT, COMMIT_LOST));
                tokio::spawn(carry(carrying.clone(), answers, back, COMMITTED, ANSWER_LOST));
            }
        });
        (line, format!("{user}@{near}/{name}"))
    }

    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

/// Carries bytes one way until it meets what must not pass. Then both ends see a broken line.
async fn carry(
    line: Arc<Line>,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    stop: &'static [u8],
    mode: u8,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut bytes).await {
        let part = &bytes[..len];
        let has_stop = part.windows(stop.len()).any(|window| window == stop);
        if has_stop && line.mode.load(Ordering::SeqCst) == mode {
            line.cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(part).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

#[tokio::test]
async fn a_settlement_that_nobody_answered_is_pending_and_then_the_one_it_was() {
    let shop = AgentId::from_bytes([0x55; 20]);
    let direct = skep_testkit::postgres::TempPostgres::shared().create_database("lost").unwrap();
    let (line, url) = Line::to(&direct).await;
    let f = Fixture::open(url, None).await;
    let (ann, _) = f.two().await;
    let rail = f.market.rail();
    for (n, mode) in [(1, ANSWER_LOST), (2, COMMIT_LOST), (3, ANSWER_LOST)] {
        let request = Bill::new(2, &rail, &ann, shop, 100, n).request();
        if n == 3 {
            // Also where nobody looks again before it is taken.
            assert!(f.market.x402_verify(&request).await.unwrap().is_valid);
        }
        line.set(mode);
        let pending = f.market.x402_settle(&request).await.unwrap();
        line.set(SOUND);
        assert!(!pending.success, "{pending:?}");
        assert_eq!(pending.error_reason.as_deref(), Some(reason::SETTLEMENT_PENDING));
        // It can be asked after by its name.
        let settled = settle(&f.market, &request).await;
        assert_eq!(settled.transaction, pending.transaction);
        assert_eq!(settle(&f.market, &request).await, settled);
        let spent = 1000 - 100 * n;
        assert_eq!(f.balance(&ann).await, format!("{spent}/0/0"), "it was charged once");
    }
    assert!(line.cuts.load(Ordering::SeqCst) >= 3);
    let settled = f.kinds().await.iter().filter(|kind| *kind == "payment.settled").count();
    assert_eq!(settled, 3);
    f.audit_is_clean().await;
}
