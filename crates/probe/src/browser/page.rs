//! One tab: calls to it, and our own functions in it.

use std::sync::Arc;

use serde_json::{Value, json};
use skep_wire::settle::{ErrorReport, Tier};

use super::{
    BrowserError,
    events::{Board, Stage},
    link::Link,
};
use crate::{
    egress::EgressError,
    engine::record::{Stop, first_chars},
};

/// Functions that look at a page and change it, for [`Page::script`].
const LIBRARY: &str = include_str!("page.js");
/// Runs in every page before the page's own scripts.
const ONE_TAB: &str = include_str!("one_tab.js");
/// The size of the window, in pixels.
pub(super) const WIDTH_PX: u32 = 1280;
pub(super) const HEIGHT_PX: u32 = 800;
/// The longest explanation of an error, in characters.
const DETAIL_LEN_MAX: usize = 500;
/// The most bytes of answers that the browser keeps for us, and of one of them.
const KEPT_BYTES_MAX: u32 = 16 * 1024 * 1024;
const KEPT_ANSWER_MAX: u32 = 8 * 1024 * 1024;

/// Why an action did not succeed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) report: ErrorReport,
    pub(super) needs_tier: Option<Tier>,
}

impl Fault {
    pub(super) fn new(code: &str, detail: impl AsRef<str>) -> Fault {
        let detail = first_chars(detail.as_ref(), DETAIL_LEN_MAX);
        Fault { report: ErrorReport { code: code.to_owned(), detail }, needs_tier: None }
    }
}

impl From<BrowserError> for Fault {
    fn from(error: BrowserError) -> Fault {
        Fault::new(error.code(), error.to_string())
    }
}

impl From<EgressError> for Fault {
    fn from(error: EgressError) -> Fault {
        Fault::new(error.code(), error.to_string())
    }
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Fault {
        match stop {
            Stop::Error(report) => Fault { report, needs_tier: None },
            Stop::Failed(reason) => Fault::new("not_found", reason),
        }
    }
}

/// What every tab of one browser has.
#[derive(Debug)]
pub(super) struct Opening {
    /// Where its cookies and the like are.
    pub(super) context: String,
    /// What the browser calls itself.
    pub(super) agent: String,
}

#[derive(Debug)]
pub(super) struct Page {
    link: Link,
    stage: Arc<Stage>,
    target: String,
    session: String,
    pub(super) board: Arc<Board>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stage.close(&self.target, &self.session);
        self.link.tell(None, "Target.closeTarget", &json!({"targetId": self.target}));
    }
}

/// A tab that nobody waits for any more is one that nobody opened.
struct UnderWay<'a> {
    link: &'a Link,
    stage: &'a Stage,
    is_over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.stage.opened(self.link, None);
        }
    }
}

impl Page {
    /// Opens a tab and has the browser report on it.
    pub(super) async fn open(
        link: &Link,
        stage: &Arc<Stage>,
        opening: &Opening,
    ) -> Result<Page, BrowserError> {
        stage.opening();
        let mut under_way = UnderWay { link, stage, is_over: false };
        let asked = json!({"url": "about:blank", "browserContextId": opening.context});
        let made = link.call(None, "Target.createTarget", asked).await;
        let target = made.as_ref().ok().and_then(|made| made["targetId"].as_str());
        under_way.is_over = true;
        stage.opened(link, target);
        let target = target.unwrap_or_default().to_owned();
        made?;
        let attach = json!({"targetId": target, "flatten": true});
        let attached = link.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let board = stage.open(&target, &session);
        let page = Page { link: link.clone(), stage: Arc::clone(stage), target, session, board };
        page.report(&opening.agent).await?;
        Ok(page)
    }

    async fn report(&self, agent: &str) -> Result<(), BrowserError> {
        let kept =
            json!({"maxTotalBufferSize": KEPT_BYTES_MAX, "maxResourceBufferSize": KEPT_ANSWER_MAX});
        let window = json!({
            "width": WIDTH_PX, "height": HEIGHT_PX, "deviceScaleFactor": 1, "mobile": false,
        });
        let tell = |method: &str, params: Value| {
            self.link.tell(Some(&self.session), method, &params);
        };
        tell("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        tell("Network.enable", kept);
        tell("Network.setBypassServiceWorker", json!({"bypass": true}));
        tell("Runtime.enable", json!({}));
        tell("Log.enable", json!({}));
        tell("Inspector.enable", json!({}));
        tell("Page.addScriptToEvaluateOnNewDocument", json!({"source": ONE_TAB}));
        // A window that asks for a file gets none.
        tell("Page.setInterceptFileChooserDialog", json!({"enabled": true}));
        tell("Emulation.setDeviceMetricsOverride", window);
        tell("Emulation.setUserAgentOverride", json!({"userAgent": agent}));
        // Keys and clicks arrive whichever window the browser takes for the one in front.
        tell("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        tell("Runtime.runIfWaitingForDebugger", json!({}));
        self.call("Page.enable", json!({})).await?;
        Ok(())
    }

    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, BrowserError> {
        self.link.call(Some(&self.session), method, params).await
    }

    pub(super) fn tell(&self, method: &str, params: &Value) {
        self.link.tell(Some(&self.session), method, params);
    }

    /// A place of its own in the page, where our functions run out of the page's reach.
    pub(super) async fn world(&self) -> Result<u64, BrowserError> {
        let asked = json!({"frameId": self.target, "worldName": "skep"});
        let made = self.call("Page.createIsolatedWorld", asked).await?;
        Ok(made["executionContextId"].as_u64().unwrap_or_default())
    }

    /// Runs a function of ours in the page.
    pub(super) async fn script(&self, name: &str, args: Value) -> Result<Value, Fault> {
        let world = self.world().await?;
        self.script_in(world, name, args).await
    }

    pub(super) async fn script_in(
        &self,
        world: u64,
        name: &str,
        args: Value,
    ) -> Result<Value, Fault> {
        let name = Value::from(name);
        let expression = format!("(() => {{ {LIBRARY}\nreturn skep({name}, {args}); }})()");
        let asked = json!({"expression": expression, "contextId": world, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", asked).await?;
        if let Some(details) = answer.get("exceptionDetails") {
            let said = details["exception"]["description"].as_str();
            return Err(Fault::new("script_error", said.unwrap_or("the script failed")));
        }
        let value = answer["result"]["value"].take();
        match (value["error"]["code"].as_str(), value["error"]["detail"].as_str()) {
            (Some(code), detail) => Err(Fault::new(code, detail.unwrap_or_default())),
            _ => Ok(value),
        }
    }

    /// Address and title of what is shown, as the browser itself knows them.
    pub(super) async fn place(&self) -> Result<(String, String), BrowserError> {
        let history = self.call("Page.getNavigationHistory", json!({})).await?;
        let at = history["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok());
        let entry = &history["entries"][at.unwrap_or(0)];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok((text(&entry["url"]), text(&entry["title"])))
    }
}
