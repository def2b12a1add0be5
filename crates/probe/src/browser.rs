//! A real browser that leaves evidence: the 25 actions of VCAP's appendix A, on Chromium.
//!
//! One browser serves one session and is thrown away: strangers never share one. It reaches the
//! network through a proxy of ours alone, which judges every connection as [`Egress`] does, and it
//! has limits of time, memory and bytes. A browser that crashes or hangs is killed and replaced;
//! what was under way says so.

mod act;
mod events;
mod input;
mod link;
mod navigate;
mod page;
mod process;
mod proxy;
mod read;
mod robots;
mod site;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};
use skep_base::Hash32;
use skep_wire::{
    conduit::Act,
    settle::{ErrorReport, Tier},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use self::{
    events::Stage,
    link::Link,
    page::{Opening, Page},
    process::Process,
    proxy::Proxy,
};
use crate::egress::Egress;

/// How long a browser may take to start.
const START_MAX: Duration = Duration::from_secs(30);
/// How long `open` waits for a place.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(20);

/// The program.
#[derive(Clone, Debug)]
pub struct Chromium {
    pub path: PathBuf,
}

/// What one session may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For a navigation that asks for no other time.
    pub navigation: Duration,
    /// For any other action.
    pub action: Duration,
    /// For MAP and CRAWL as a whole.
    pub crawl: Duration,
    /// What is loaded for one page, everything that belongs to it included.
    pub page_bytes: u64,
    /// For the browser and all its children.
    pub memory_bytes: u64,
    /// The whole life of a session.
    pub session: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            navigation: Duration::from_secs(30),
            action: Duration::from_secs(15),
            crawl: Duration::from_secs(120),
            page_bytes: 32 * 1024 * 1024,
            memory_bytes: 1024 * 1024 * 1024,
            session: Duration::from_secs(600),
        }
    }
}

/// Why there is no browser, or none any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrowserError {
    #[error("{reason}: install Chromium, or name its program with SKEP_CHROMIUM")]
    NoBrowser { reason: String },
    #[error("the browser does not start: {reason}")]
    Start { reason: String },
    #[error("the browser has crashed")]
    Crashed,
    #[error("all browsers are in use; try again later")]
    Busy,
    #[error("the page did not answer in time, and its browser was ended")]
    Hung,
    #[error("the page needs more memory than the {} MiB of a session", max / (1024 * 1024))]
    Memory { bytes: u64, max: u64 },
    #[error("the session has lasted its {} seconds", limit.as_secs())]
    Expired { limit: Duration },
    #[error("the browser refuses {method}: {reason}")]
    Protocol { method: String, reason: String },
}

impl BrowserError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            BrowserError::NoBrowser { .. } => "no_browser",
            BrowserError::Start { .. } => "browser_failed",
            BrowserError::Crashed => "browser_crashed",
            BrowserError::Busy => "busy",
            BrowserError::Hung => "timeout",
            BrowserError::Memory { .. } => "memory_limit",
            BrowserError::Expired { .. } => "session_expired",
            BrowserError::Protocol { .. } => "browser_error",
        }
    }
}

/// Where browsers come from. Clones share the places.
#[derive(Clone, Debug)]
pub struct Browsers {
    chromium: Chromium,
    egress: Egress,
    limits: Limits,
    places: Arc<Semaphore>,
}

impl Browsers {
    /// At most `at_once` browsers run at a time. They reach what `egress` reaches.
    pub fn new(chromium: Chromium, egress: &Egress, limits: Limits, at_once: usize) -> Browsers {
        let places = Arc::new(Semaphore::new(at_once.max(1)));
        Browsers { chromium, egress: egress.clone(), limits, places }
    }

    /// A fresh browser. Waits some seconds for a place if there is none. One in a while dies while
    /// it starts, which says nothing about the next.
    pub async fn open(&self) -> Result<Tab, BrowserError> {
        match self.open_once().await {
            Err(error @ BrowserError::Start { .. }) => {
                tracing::warn!(%error, "another browser is started");
                self.open_once().await
            }
            opened => opened,
        }
    }

    async fn open_once(&self) -> Result<Tab, BrowserError> {
        let waiting = Arc::clone(&self.places).acquire_owned();
        let place = timeout(PLACE_WAIT_MAX, waiting).await;
        let place = place.ok().and_then(Result::ok).ok_or(BrowserError::Busy)?;
        let failed = |reason: &str| BrowserError::Start { reason: reason.to_owned() };
        let started = timeout(START_MAX, self.start(place)).await;
        started.unwrap_or_else(|_| Err(failed("it did not answer in time")))
    }

    async fn start(&self, place: OwnedSemaphorePermit) -> Result<Tab, BrowserError> {
        let proxy = Proxy::start(&self.egress, self.limits.page_bytes)
            .await
            .map_err(|error| BrowserError::Start { reason: error.to_string() })?;
        let (process, stdin, stdout) = Process::start(&self.chromium, proxy.port, &self.limits)?;
        let stage = Arc::new(Stage::default());
        let link = Link::new(stdin, stdout, Arc::clone(&stage) as Arc<dyn link::Listener>);
        let version = link.call(None, "Browser.getVersion", json!({})).await.map_err(|error| {
            let reason = match process.ended.get() {
                Some(BrowserError::Crashed) | None => "it has ended at once".to_owned(),
                Some(why) => why.to_string(),
            };
            tracing::debug!(%error, "a browser has not answered");
            BrowserError::Start { reason }
        })?;
        let agent = version["userAgent"].as_str().unwrap_or_default();
        let agent = format!("{agent} skep/{}", env!("CARGO_PKG_VERSION"));
        // What pages store is kept in memory, where it is counted, and never on the disk.
        let context = link.call(None, "Target.createBrowserContext", json!({})).await?;
        let context = context["browserContextId"].as_str().unwrap_or_default().to_owned();
        let deny = json!({"behavior": "deny", "eventsEnabled": true, "browserContextId": context});
        link.call(None, "Browser.setDownloadBehavior", deny).await?;
        let opening = Opening { context, agent };
        let page = Page::open(&link, &stage, &opening).await?;
        let attach = json!({"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true});
        link.call(None, "Target.setAutoAttach", attach).await?;
        Ok(Tab {
            page,
            process,
            proxy,
            stage,
            link,
            opening,
            egress: self.egress.clone(),
            limits: self.limits.clone(),
            last_fingerprint: None,
            _place: place,
        })
    }
}

/// One browser with one tab. It is killed when this is dropped.
pub struct Tab {
    page: Page,
    process: Process,
    proxy: Proxy,
    stage: Arc<Stage>,
    link: Link,
    opening: Opening,
    egress: Egress,
    limits: Limits,
    last_fingerprint: Option<Hash32>,
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for Tab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tab").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Tab {
    /// Does one action for somebody of this tier. Whatever happens is in what it gives back.
    pub async fn act(&mut self, act: &Act, allowed: Tier) -> Done {
        act::act(self, act, allowed).await
    }

    /// What the browser and its children hold now.
    pub fn memory_bytes(&self) -> u64 {
        self.process.memory_bytes()
    }

    /// The browser's process, which is also the number of its group.
    pub fn process_id(&self) -> i32 {
        self.process.id()
    }

    /// Plain protocol on the tab, for measurements.
    pub async fn raw(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        let answer = timeout(self.limits.action, self.page.call(method, params)).await;
        answer.unwrap_or(Err(BrowserError::Protocol {
            method: method.to_owned(),
            reason: "there was no answer in time".to_owned(),
        }))
    }
}

/// What came of an action.
#[derive(Debug, Default)]
pub struct Done {
    /// Of the page afterwards.
    pub url: Option<String>,
    /// At most `DATA_LEN_MAX` bytes as JSON.
    pub data: Value,
    /// At most 200 characters.
    pub snippet: Option<String>,
    /// The action without secrets: what was typed into a password or payment field, or where no
    /// field was found, is `[REDACTED]`.
    pub input: Option<Value>,
    /// A PNG of at most `SCREENSHOT_LEN_MAX` bytes.
    pub screenshot: Option<Vec<u8>>,
    /// OUTPUT_TO_FILE: name and content.
    pub file: Option<(String, Vec<u8>)>,
    pub fingerprint: Option<Hash32>,
    pub error: Option<ErrorReport>,
    /// The tier that would have been allowed to.
    pub needs_tier: Option<Tier>,
    /// The browser is gone; the session is over.
    pub fatal: bool,
}
