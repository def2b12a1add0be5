//! A seller: an agent that is hired over HTTP and paid by x402 (SHP 7).
//!
//! [`Seller`] has a door of its own. Behind it a hire is read, priced (402), paid, done, checked
//! and receipted; every step is in a journal before it counts, so that a hire that a crash
//! interrupted goes on after the next start and is neither done for nothing nor paid twice.

mod book;
mod checks;
mod clarify;
mod desk;
mod door;
mod entry;
mod forward;
mod hire;
mod life;
mod offer;
mod program;
mod refusal;
mod schema;
mod till;
mod work;

use std::{fmt::Write, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde::Serialize;
use skep_base::{AgentId, Clock, Timestamp, wallet::WalletKey};
use skep_probe::Egress;
use skep_sdk::Client;
use skep_wire::hire::{ENDPOINT_LEN_MAX, Listing, ListingAccepted, PaymentMode, Usdc};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, broadcast, watch},
};

use self::{book::Book, door::Gate, offer::Shelf, refusal::Refusal, till::Till};
pub use self::{
    book::{COMPACT_ABOVE, JOURNAL_LEN_MAX, REMEMBERED},
    desk::IN_VAIN_PER_DAY,
    door::{BODY_LEN_MAX, RATE_BURST, RATE_PER_SECOND},
    forward::{ForwardError, ForwardWork},
    life::RESULT_LEN_MAX,
    offer::{
        FREE_PER_DAY_DEFAULT, MAX_LATENCY_MS_DEFAULT, Offer, OfferError, PARAMS_LEN_DEFAULT,
        PARAMS_LEN_OF_FILES, SEATS_DEFAULT, params_len_max,
    },
    program::{ProgramWork, STDERR_KEPT, STDOUT_LEN_MAX},
    till::TillError,
    work::{Boxed, Brief, JobContext, Offered, Scoped, Work, WorkError, work_fn},
};
pub use crate::buyer::{Checker, Taxonomy};
use crate::journal::JournalError;

/// How often listings are published again, so that the registry sees that the seller lives.
pub const REPUBLISH: Duration = Duration::from_secs(3600);
/// How long running hires have to end when the seller stops; the rest goes on after the next start.
const STOP_WITHIN: Duration = Duration::from_secs(75);
/// Sales that a slow listener may fall behind.
const SALES_KEPT: usize = 1024;

/// What a seller needs.
#[derive(Clone, Debug)]
pub struct SellerConfig {
    /// The agent's wallet: it signs listings and receipts.
    pub wallet: WalletKey,
    /// The marketplace: registry, facilitator and home of the receipts.
    pub node: Client,
    pub offers: Vec<Offer>,
    pub listen: SocketAddr,
    /// Where buyers find this door; absent: where it listens.
    pub endpoint: Option<String>,
    /// A proxy in front ends TLS and limits callers.
    pub behind_proxy: bool,
    /// The file that remembers hires.
    pub journal: PathBuf,
    /// For addresses that buyers name.
    pub egress: Egress,
    /// Looks at results before they are sold.
    pub checker: Arc<dyn Checker>,
    pub clock: Arc<dyn Clock>,
    /// Quotes only for those who sign their question.
    pub clarify_signed_only: bool,
}

/// Why a seller does not open.
#[derive(Debug, thiserror::Error)]
pub enum SellerError {
    #[error("{listen} cannot be listened on")]
    Listen { listen: SocketAddr, source: io::Error },
    #[error("{listen} is reachable from outside: put a proxy that ends TLS in front and say so")]
    NotEncrypted { listen: SocketAddr },
    #[error("{endpoint:?} is not where buyers can find a seller: {reason}")]
    Endpoint { endpoint: String, reason: &'static str },
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error(transparent)]
    Till(#[from] TillError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A hire that is over.
#[derive(Clone, Debug, Serialize)]
pub struct Sale {
    pub hire_id: String,
    pub capability: String,
    pub buyer: AgentId,
    pub payment_mode: PaymentMode,
    pub paid_usdc: Usdc,
    pub tx_hash: Option<String>,
    pub latency_ms: Option<u64>,
    /// The code of what went wrong; then nothing was paid.
    pub error: Option<String>,
}

/// What all parts of a seller share.
#[derive(Debug)]
pub(crate) struct Shop {
    wallet: WalletKey,
    seller: AgentId,
    endpoint: String,
    shelf: Shelf,
    till: Till,
    book: Book,
    gate: Gate,
    egress: Egress,
    checker: Arc<dyn Checker>,
    clock: Arc<dyn Clock>,
    node: Client,
    clarify_signed_only: bool,
    /// Places for those who only ask.
    scoping: Semaphore,
    sales: broadcast::Sender<Sale>,
    busy: watch::Sender<usize>,
}

/// Held while something is done for a hire.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Shop>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count -= 1);
    }
}

impl Shop {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn busy(self: &Arc<Self>) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy(Arc::clone(self))
    }

    /// A word that nobody guesses.
    fn word(&self, kind: &str) -> Result<String, Refusal> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|_| Refusal::new(503, "seller_unavailable", "no random bytes").later(5))?;
        let mut word = format!("{kind}_");
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(word, "{byte:02x}");
        }
        Ok(word)
    }
}

/// A seller that is ready to open its door.
#[derive(Debug)]
pub struct Seller {
    shop: Arc<Shop>,
    listener: TcpListener,
    local: SocketAddr,
}

/// For what is done while the door is open.
#[derive(Clone, Debug)]
pub struct SellerHandle {
    shop: Arc<Shop>,
}

impl Seller {
    /// Listens, asks the node how it takes payments, and reads the journal.
    pub async fn open(config: SellerConfig) -> Result<Seller, SellerError> {
        let listen = config.listen;
        if !listen.ip().is_loopback() && !config.behind_proxy {
            return Err(SellerError::NotEncrypted { listen });
        }
        let fault = |source| SellerError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(fault)?;
        let local = listener.local_addr().map_err(fault)?;
        let endpoint = config.endpoint.unwrap_or_else(|| format!("http://{local}"));
        let (endpoint, prefix) = checked_endpoint(endpoint)?;
        let seller = config.wallet.address();
        let modes: Vec<PaymentMode> =
            config.offers.iter().flat_map(|offer| offer.modes.clone()).collect();
        let shelf = offer::shelf(config.offers, seller, &endpoint)?;
        let offered = shelf.values().flatten();
        let longest = offered.map(|ware| ware.offer.params_len_max).max().unwrap_or(0);
        let till = Till::open(config.node.clone(), &modes).await?;
        let book = Book::open(&config.journal, config.clock.now()).await?;
        let shop = Shop {
            wallet: config.wallet,
            seller,
            endpoint,
            shelf,
            till,
            book,
            gate: Gate::new(config.behind_proxy, &prefix, longest),
            egress: config.egress,
            checker: config.checker,
            clock: config.clock,
            node: config.node,
            clarify_signed_only: config.clarify_signed_only,
            scoping: Semaphore::new(clarify::SCOPED_AT_ONCE),
            sales: broadcast::channel(SALES_KEPT).0,
            busy: watch::channel(0).0,
        };
        Ok(Seller { shop: Arc::new(shop), listener, local })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where buyers find it.
    pub fn endpoint(&self) -> &str {
        &self.shop.endpoint
    }

    pub fn handle(&self) -> SellerHandle {
        SellerHandle { shop: Arc::clone(&self.shop) }
    }

    /// Goes on with what was interrupted and sells until `shutdown` is done; then finishes the
    /// hires that run.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Seller { shop, listener, .. } = self;
        let resumed = shop.resume();
        if resumed > 0 {
            tracing::info!(resumed, "hires go on that were interrupted");
        }
        door::serve(listener, Arc::clone(&shop), shutdown).await;
        let mut busy = shop.busy.subscribe();
        let idle = busy.wait_for(|count| *count == 0);
        if tokio::time::timeout(STOP_WITHIN, idle).await.is_err() {
            tracing::warn!("some hires go on after the next start");
        }
    }
}

impl SellerHandle {
    /// The listings, signed as of now.
    pub fn listings(&self) -> Vec<Listing> {
        let wares = self.shop.shelf.values().flatten();
        wares.filter_map(|ware| ware.signed(&self.shop.wallet, self.shop.now()).ok()).collect()
    }

    /// Puts all listings into the registry, which looks at the door first.
    pub async fn publish(&self) -> Result<Vec<ListingAccepted>, skep_sdk::Error> {
        let mut accepted = Vec::new();
        for listing in self.listings() {
            accepted.push(self.shop.node.publish_listing(&listing).await?);
        }
        Ok(accepted)
    }

    /// Tells of every hire that ends from now on.
    pub fn sales(&self) -> broadcast::Receiver<Sale> {
        self.shop.sales.subscribe()
    }
}

/// The address without a slash at its end, and its path.
fn checked_endpoint(endpoint: String) -> Result<(String, String), SellerError> {
    let bad = |reason| SellerError::Endpoint { endpoint: endpoint.clone(), reason };
    if endpoint.len() > ENDPOINT_LEN_MAX {
        return Err(bad("it is too long"));
    }
    let url = url::Url::parse(&endpoint).map_err(|_| bad("it is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("it begins with http:// or https:// and names a host"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(bad("it has a query, a fragment or a user"));
    }
    Ok((endpoint.trim_end_matches('/').to_owned(), url.path().to_owned()))
}
