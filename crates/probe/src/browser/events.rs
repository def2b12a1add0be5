//! What the browser tells without being asked, kept as far as somebody may ask for it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    BrowserError,
    link::{Event, Link, Listener, lock},
};
use crate::engine::record::cut;

/// The last requests of a tab that are kept.
const REQUESTS_MAX: usize = 500;
/// The last lines of a console that are kept.
const CONSOLE_MAX: usize = 200;
/// The longest line of a console, URL or message of a dialog that is kept, in bytes.
const TEXT_LEN_MAX: usize = 1000;

/// A dialog that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Dialog {
    pub(super) kind: String,
    pub(super) message: String,
}

impl Dialog {
    pub(super) fn to_json(&self) -> Value {
        json!({"type": self.kind, "message": self.message})
    }
}

/// A request of a page.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    id: String,
    pub(super) url: String,
    pub(super) method: String,
    pub(super) status: Option<u16>,
    pub(super) bytes: u64,
    pub(super) error: Option<String>,
}

/// The document of the main frame, or the one that was asked for last.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    /// Also the number of its request.
    pub(super) loader: String,
    pub(super) url: String,
    pub(super) status: Option<u16>,
    pub(super) content_type: String,
    pub(super) error: Option<String>,
}

/// What is known of a tab.
#[derive(Debug, Default)]
pub(super) struct Seen {
    frame: String,
    pub(super) dialog: Option<Dialog>,
    pub(super) loading: bool,
    /// The document that is shown, and the last one whose load has ended.
    pub(super) shown: String,
    pub(super) loaded: String,
    /// How many documents were shown.
    pub(super) commits: u64,
    pub(super) document: Document,
    pub(super) download: bool,
    /// Windows that were closed at once.
    pub(super) popups: u64,
    pub(super) requests: VecDeque<Requested>,
    pub(super) console: VecDeque<Value>,
    gone: bool,
}

/// What is known of a tab, and a way to wait for more.
#[derive(Debug)]
pub(super) struct Board {
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

impl Board {
    fn new(frame: &str) -> Board {
        let seen = Seen { frame: frame.to_owned(), ..Seen::default() };
        Board { seen: Mutex::new(seen), changed: watch::Sender::new(()) }
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut lock(&self.seen))
    }

    /// Waits until `look` has found something.
    pub(super) async fn until<T>(
        &self,
        look: impl Fn(&mut Seen) -> Option<T>,
    ) -> Result<T, BrowserError> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let mut seen = lock(&self.seen);
                if let Some(found) = look(&mut seen) {
                    return Ok(found);
                }
                if seen.gone {
                    return Err(BrowserError::Crashed);
                }
            }
            changed.changed().await.map_err(|_| BrowserError::Crashed)?;
        }
    }

    /// Waits until the tab is gone.
    pub(super) async fn gone(&self) -> BrowserError {
        let gone = self.until(|_| None::<()>).await;
        gone.err().unwrap_or(BrowserError::Crashed)
    }

    pub(super) async fn dialog(&self) -> Result<Dialog, BrowserError> {
        self.until(|seen| seen.dialog.clone()).await
    }
}

/// Every tab of one browser. There are the ones that we have opened; all others are closed.
#[derive(Debug, Default)]
pub(super) struct Stage {
    tabs: Mutex<Tabs>,
}

#[derive(Debug, Default)]
struct Tabs {
    /// By their sessions.
    boards: HashMap<String, Arc<Board>>,
    targets: Vec<String>,
    /// While we open one ourselves, those that turn up are kept until it is known which is ours.
    opening: bool,
    unjudged: Vec<(String, String)>,
    closing: Vec<String>,
}

impl Stage {
    pub(super) fn open(&self, target: &str, session: &str) -> Arc<Board> {
        let board = Arc::new(Board::new(target));
        lock(&self.tabs).boards.insert(session.to_owned(), Arc::clone(&board));
        board
    }

    pub(super) fn close(&self, target: &str, session: &str) {
        let mut tabs = lock(&self.tabs);
        tabs.boards.remove(session);
        tabs.targets.retain(|known| known != target);
    }

    pub(super) fn opening(&self) {
        lock(&self.tabs).opening = true;
    }

    /// Ours may go on; those that turned up meanwhile besides are closed.
    pub(super) fn opened(&self, link: &Link, target: Option<&str>) {
        let mut tabs = lock(&self.tabs);
        tabs.opening = false;
        tabs.targets.extend(target.map(str::to_owned));
        for (found, session) in std::mem::take(&mut tabs.unjudged) {
            if Some(found.as_str()) == target {
                link.tell(Some(&session), "Runtime.runIfWaitingForDebugger", &json!({}));
            } else {
                link.tell(None, "Target.closeTarget", &json!({"targetId": found}));
            }
        }
    }

    fn turned_up(&self, link: &Link, params: &Value) {
        let info = &params["targetInfo"];
        let (target, session) = (text(&info["targetId"]), text(&params["sessionId"]));
        let mut tabs = lock(&self.tabs);
        if tabs.targets.contains(&target) {
            return;
        }
        if info["type"] != "page" {
            // A worker of a kind that the browser, not a page, keeps: it may go on.
            link.tell(Some(&session), "Runtime.runIfWaitingForDebugger", &json!({}));
        } else if tabs.opening {
            tabs.unjudged.push((target, session));
        } else {
            link.tell(None, "Target.closeTarget", &json!({"targetId": target}));
            tabs.closing.push(target);
        }
    }

    /// A window that we have closed is gone, and may have taken the focus with it.
    fn left(&self, link: &Link, params: &Value) {
        let target = text(&params["targetId"]);
        let mut tabs = lock(&self.tabs);
        let Some(at) = tabs.closing.iter().position(|closing| *closing == target) else { return };
        tabs.closing.remove(at);
        for (session, board) in &tabs.boards {
            link.tell(Some(session), "Page.bringToFront", &json!({}));
            lock(&board.seen).popups += 1;
            board.changed.send_replace(());
        }
    }
}

impl Listener for Stage {
    fn heard(&self, link: &Link, event: Event) {
        let Some(session) = &event.session else {
            match event.method.as_str() {
                "Target.attachedToTarget" => self.turned_up(link, &event.params),
                "Target.detachedFromTarget" => self.left(link, &event.params),
                "Browser.downloadWillBegin" => {
                    for board in lock(&self.tabs).boards.values() {
                        lock(&board.seen).download = true;
                        board.changed.send_replace(());
                    }
                }
                _ => {}
            }
            return;
        };
        let board = lock(&self.tabs).boards.get(session).cloned();
        let Some(board) = board else { return };
        if event.method == "Page.javascriptDialogOpening" && event.params["type"] == "beforeunload"
        {
            let answer = json!({"accept": true});
            link.tell(Some(session), "Page.handleJavaScriptDialog", &answer);
            return;
        }
        let crashed = event.method == "Inspector.targetCrashed";
        {
            let mut seen = lock(&board.seen);
            seen.gone |= crashed;
            seen.take(&event.method, &event.params);
        }
        board.changed.send_replace(());
    }

    fn ended(&self) {
        let tabs = lock(&self.tabs);
        for board in tabs.boards.values() {
            lock(&board.seen).gone = true;
            board.changed.send_replace(());
        }
    }
}

impl Seen {
    fn take(&mut self, method: &str, params: &Value) {
        match method {
            "Page.javascriptDialogOpening" => {
                let message = cut(params["message"].as_str().unwrap_or_default(), TEXT_LEN_MAX);
                let kind = text(&params["type"]);
                self.dialog = Some(Dialog { kind, message: message.to_owned() });
            }
            "Page.javascriptDialogClosed" => self.dialog = None,
            "Page.frameStartedLoading" if params["frameId"] == self.frame.as_str() => {
                self.loading = true;
            }
            "Page.frameStoppedLoading" if params["frameId"] == self.frame.as_str() => {
                self.loading = false;
            }
            "Page.frameNavigated" if params["frame"]["id"] == self.frame.as_str() => {
                self.shown = text(&params["frame"]["loaderId"]);
                self.commits += 1;
            }
            "Page.lifecycleEvent"
                if params["name"] == "load" && params["frameId"] == self.frame.as_str() =>
            {
                self.loaded = text(&params["loaderId"]);
            }
            "Runtime.consoleAPICalled" => {
                let words = params["args"].as_array().map(Vec::as_slice).unwrap_or_default();
                let line: Vec<String> = words.iter().take(20).map(word).collect();
                self.log(&text(&params["type"]), &line.join(" "));
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let said = details["exception"]["description"].as_str();
                let said = said.or(details["text"].as_str()).unwrap_or_default();
                self.log("exception", said);
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                self.log(&text(&entry["level"]), entry["text"].as_str().unwrap_or_default());
            }
            _ => self.take_request(method, params),
        }
    }

    fn log(&mut self, kind: &str, line: &str) {
        if self.console.len() >= CONSOLE_MAX {
            self.console.pop_front();
        }
        self.console.push_back(json!({"type": kind, "text": cut(line, TEXT_LEN_MAX)}));
    }

    fn take_request(&mut self, method: &str, params: &Value) {
        let id = text(&params["requestId"]);
        match method {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if let Some(status) = status(&params["redirectResponse"])
                    && let Some(before) = self.request(&id)
                {
                    before.status = Some(status);
                }
                if self.is_document(params) {
                    let loader = text(&params["loaderId"]);
                    let url = url.to_owned();
                    self.document = Document { loader, url, ..Document::default() };
                }
                if !url.starts_with("data:") {
                    self.push(id, url, &text(&params["request"]["method"]));
                }
            }
            "Network.webSocketCreated" => {
                self.push(id, params["url"].as_str().unwrap_or_default(), "WEBSOCKET");
            }
            "Network.responseReceived" | "Network.webSocketHandshakeResponseReceived" => {
                let status = status(&params["response"]);
                if self.is_document(params) && self.document.loader == text(&params["loaderId"]) {
                    self.document.status = status;
                    self.document.content_type = text(&params["response"]["mimeType"]);
                }
                if let Some(request) = self.request(&id) {
                    request.status = status;
                }
            }
            "Network.dataReceived" => {
                if let Some(request) = self.request(&id) {
                    request.bytes += params["dataLength"].as_u64().unwrap_or(0);
                }
            }
            "Network.webSocketFrameError" | "Network.loadingFailed" => {
                let said = params["errorText"].as_str().or(params["errorMessage"].as_str());
                let said = cut(said.unwrap_or_default(), TEXT_LEN_MAX).to_owned();
                if params["type"] == "Document" && self.document.loader == id {
                    self.document.error = Some(said.clone());
                }
                if let Some(request) = self.request(&id) {
                    request.error = Some(said);
                }
            }
            _ => {}
        }
    }

    fn is_document(&self, params: &Value) -> bool {
        params["type"] == "Document" && params["frameId"] == self.frame.as_str()
    }

    fn push(&mut self, id: String, url: &str, method: &str) {
        if self.requests.len() >= REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(Requested {
            id,
            url: cut(url, TEXT_LEN_MAX).to_owned(),
            method: method.to_owned(),
            status: None,
            bytes: 0,
            error: None,
        });
    }

    fn request(&mut self, id: &str) -> Option<&mut Requested> {
        self.requests.iter_mut().rev().find(|request| request.id == id)
    }
}

fn status(response: &Value) -> Option<u16> {
    response["status"].as_u64().and_then(|status| u16::try_from(status).ok())
}

fn text(value: &Value) -> String {
    cut(value.as_str().unwrap_or_default(), TEXT_LEN_MAX).to_owned()
}

/// One argument of a line in the console.
fn word(value: &Value) -> String {
    let said = match &value["value"] {
        Value::Null => value["description"].as_str().unwrap_or("null").to_owned(),
        Value::String(text) => cut(text, TEXT_LEN_MAX).to_owned(),
        other => other.to_string(),
    };
    cut(&said, TEXT_LEN_MAX).to_owned()
}
