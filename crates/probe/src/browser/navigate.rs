//! Going to pages, and knowing when they have arrived.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::{
    Tab,
    events::{Dialog, Document},
    page::{Fault, Page},
    proxy::Proxy,
};
use crate::egress::{Policy, target};

/// How long after a click a navigation may begin that it has caused.
const CAUSED_WITHIN: Duration = Duration::from_millis(150);

/// The address as it is asked for, if a browser may be sent there.
pub(super) fn judge(text: &str, policy: &Policy) -> Result<Url, Fault> {
    if text == "about:blank" {
        return Url::parse(text).map_err(|error| Fault::new("bad_url", error.to_string()));
    }
    let judged = target::judge(text, policy)?;
    // The fragment is nothing to the network, but the page may look at it.
    Ok(Url::parse(text).unwrap_or(judged))
}

/// Where a navigation has led.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) status: Option<u16>,
    pub(super) dialog: Option<Dialog>,
}

/// Loads a page whose address was judged. The proxy judges again, and every redirect.
pub(super) async fn go(page: &Page, proxy: &Proxy, url: &Url) -> Result<Arrival, Fault> {
    proxy.name(url);
    let before = page.board.look(|seen| {
        seen.download = false;
        seen.document = Document::default();
        seen.commits
    });
    let going = async {
        let sent = page.call("Page.navigate", json!({"url": url.as_str()})).await?;
        if let Some(error) = sent["errorText"].as_str() {
            return Err(explain(page, proxy, url.as_str(), error));
        }
        let Some(loader) = sent["loaderId"].as_str() else { return Ok(None) };
        let arrived = page.board.until(|seen| {
            let ours = seen.loaded == loader;
            // A page may send the browser on before it is whole.
            let later = seen.shown != loader && seen.commits > before + 1;
            let over = seen.dialog.is_some();
            (ours || over || (later && seen.loaded == seen.shown)).then(|| seen.dialog.clone())
        });
        Ok(arrived.await?)
    };
    let dialog = tokio::select! {
        arrived = going => arrived?,
        () = proxy.over() => return Err(too_large(proxy)),
        dialog = page.board.dialog() => Some(dialog?),
    };
    let status = page.board.look(|seen| seen.document.status);
    Ok(Arrival { status, dialog })
}

fn too_large(proxy: &Proxy) -> Fault {
    let limit = proxy.bytes_max() / 1024;
    Fault::new("too_large", format!("the page is larger than {limit} KiB"))
}

/// What the browser's short word for a failure means.
fn explain(page: &Page, proxy: &Proxy, asked: &str, error: &str) -> Fault {
    if proxy.is_over() {
        return too_large(proxy);
    }
    let (url, download) = page.board.look(|seen| (seen.document.url.clone(), seen.download));
    let url = if url.is_empty() { asked.to_owned() } else { url };
    if let Some(refusal) = proxy.refusal(&url) {
        return Fault::new(refusal.code, refusal.detail);
    }
    if download || error == "net::ERR_ABORTED" {
        return Fault::new(
            "not_a_page",
            "the address gives no page to show, but a file or nothing",
        );
    }
    if error.contains("CERT") || error.contains("SSL") {
        return Fault::new("tls", format!("the address has no good TLS: {error}"));
    }
    Fault::new("unreachable", format!("the page cannot be loaded: {error}"))
}

impl Tab {
    /// Waits for what an action has set off: a dialog, or a page that loads.
    pub(super) async fn settle(&self) -> Result<Option<Dialog>, Fault> {
        let board = &self.page.board;
        let begun = board.until(|seen| (seen.loading || seen.dialog.is_some()).then_some(()));
        if let Ok(begun) = timeout(CAUSED_WITHIN, begun).await {
            begun?;
        }
        let dialog = tokio::select! {
            settled = board.until(|seen| {
                (!seen.loading || seen.dialog.is_some()).then(|| seen.dialog.clone())
            }) => settled?,
            () = self.proxy.over() => None,
        };
        if dialog.is_none() {
            self.judge_document()?;
        }
        Ok(dialog)
    }

    /// Whether the document that was asked for last has failed.
    fn judge_document(&self) -> Result<(), Fault> {
        if self.proxy.is_over() {
            return Err(too_large(&self.proxy));
        }
        let document = self.page.board.look(|seen| seen.document.clone());
        match &document.error {
            // What was cancelled was replaced by something else.
            Some(error) if error != "net::ERR_ABORTED" => {
                Err(explain(&self.page, &self.proxy, &document.url, error))
            }
            _ => Ok(()),
        }
    }

    /// Before an action that may lead elsewhere: what failed earlier is not its doing.
    pub(super) fn forget_failures(&self) {
        self.page.board.look(|seen| seen.document.error = None);
    }

    pub(super) async fn navigate(&mut self, text: &str) -> Result<Value, Fault> {
        let url = judge(text, self.egress.policy())?;
        let arrival = go(&self.page, &self.proxy, &url).await?;
        let (url, title) = self.page.place().await?;
        let mut data = json!({"url": url, "status": arrival.status, "title": title});
        if let Some(dialog) = arrival.dialog {
            data["dialog"] = dialog.to_json();
        }
        Ok(data)
    }

    pub(super) async fn navigate_back(&mut self) -> Result<Value, Fault> {
        let history = self.page.call("Page.getNavigationHistory", json!({})).await?;
        let at = history["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok());
        let before = at.and_then(|at| at.checked_sub(1));
        let Some(entry) = before.map(|at| &history["entries"][at]) else {
            return Err(Fault::new("no_history", "there is no page to go back to"));
        };
        if entry["url"] == "about:blank" && before == Some(0) {
            return Err(Fault::new("no_history", "there is no page to go back to"));
        }
        self.forget_failures();
        self.proxy.begin_page();
        let shown = self.page.board.look(|seen| seen.commits);
        let go = json!({"entryId": entry["id"]});
        self.page.call("Page.navigateToHistoryEntry", go).await?;
        let wanted = entry["url"].as_str().unwrap_or_default();
        // Within one document nothing is shown anew.
        while self.page.board.look(|seen| seen.commits == shown && seen.dialog.is_none())
            && self.page.place().await?.0 != wanted
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let dialog = self.settle().await?;
        let (url, title) = self.page.place().await?;
        let status = self.page.board.look(|seen| seen.document.status);
        let mut data = json!({"url": url, "status": status, "title": title});
        if let Some(dialog) = dialog {
            data["dialog"] = dialog.to_json();
        }
        Ok(data)
    }
}
