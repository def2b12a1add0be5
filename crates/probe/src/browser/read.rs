//! What a page says: its text, its picture, its fingerprint, what it has asked for and logged.

use std::time::Instant;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use skep_base::Hash32;
use skep_wire::conduit::{DATA_LEN_MAX, SCREENSHOT_LEN_MAX};
use url::Url;

use super::{
    BrowserError, Tab,
    page::{Fault, HEIGHT_PX, Page, WIDTH_PX},
    proxy::place,
};
use crate::engine::{
    check::{self, Extract, Material},
    criteria::{Criteria, Selection},
    record::{Deadline, cut},
};

/// The tallest picture of a whole page, in pixels.
const FULL_PAGE_PX_MAX: f64 = 8192.0;
/// How much smaller a picture is made that is too large.
const SCALES: [f64; 3] = [1.0, 0.5, 0.25];
/// The most nodes of an accessibility tree that are given.
const NODES_MAX: usize = 2000;
/// The longest name in it, in bytes.
const NAME_LEN_MAX: usize = 300;
/// What lists give at most, in bytes of JSON.
const LIST_LEN_MAX: usize = DATA_LEN_MAX - 1024;

impl Tab {
    pub(super) async fn extract(&mut self, selector: Option<&str>) -> Result<Value, Fault> {
        match selector {
            Some(path) if path.trim_start().starts_with('$') => {
                let extract = look(&self.page, selector, self.limits.action).await?;
                if extract.found == 0 {
                    return Err(Fault::new("not_found", "the path matches nothing"));
                }
                Ok(json!({"text": extract.text, "found": extract.found}))
            }
            _ => self.page.script("text", json!([selector])).await,
        }
    }

    pub(super) async fn fingerprint(&self, selector: Option<&str>) -> Result<Hash32, Fault> {
        Ok(look(&self.page, selector, self.limits.action).await?.fingerprint)
    }

    pub(super) async fn screenshot(&self, full_page: bool) -> Result<Vec<u8>, Fault> {
        let mut clip = json!({"x": 0, "y": 0, "width": WIDTH_PX, "height": HEIGHT_PX});
        let metrics = self.page.call("Page.getLayoutMetrics", json!({})).await?;
        if full_page {
            let size = &metrics["cssContentSize"];
            let pixels = |value: &Value| value.as_f64().unwrap_or(1.0).clamp(1.0, FULL_PAGE_PX_MAX);
            clip["width"] = pixels(&size["width"]).into();
            clip["height"] = pixels(&size["height"]).into();
        } else {
            clip["x"] = metrics["cssVisualViewport"]["pageX"].clone();
            clip["y"] = metrics["cssVisualViewport"]["pageY"].clone();
        }
        for scale in SCALES {
            clip["scale"] = scale.into();
            let asked = json!({"format": "png", "clip": clip, "captureBeyondViewport": full_page});
            let taken = self.page.call("Page.captureScreenshot", asked).await?;
            let png = BASE64.decode(taken["data"].as_str().unwrap_or_default());
            let png = png.map_err(|_| Fault::new("browser_error", "the picture is broken"))?;
            if png.len() <= SCREENSHOT_LEN_MAX {
                return Ok(png);
            }
        }
        Err(Fault::new("too_large", "the picture is too large even when it is made smaller"))
    }

    pub(super) async fn eval(&mut self, script: &str) -> Result<Value, Fault> {
        self.forget_failures();
        let mut answer = tokio::select! {
            answer = self.evaluate(script) => answer.map_err(|error| match error {
                BrowserError::Protocol { reason, .. } => {
                    Fault::new("script_error", format!("the script has no result: {reason}"))
                }
                other => other.into(),
            })?,
            dialog = self.page.board.dialog() => {
                return Ok(json!({"value": null, "dialog": dialog?.to_json()}));
            }
        };
        if let Some(details) = answer.get("exceptionDetails") {
            let said = details["exception"]["description"].as_str();
            let said = said.or(details["text"].as_str()).unwrap_or("the script failed");
            return Err(Fault::new("script_error", said));
        }
        let result = &mut answer["result"];
        let value = match result["unserializableValue"].as_str() {
            Some(text) => text.into(),
            None => result["value"].take(),
        };
        let mut data = json!({"value": value});
        if let Some(dialog) = self.settle().await? {
            data["dialog"] = dialog.to_json();
        }
        Ok(data)
    }

    /// Runs a script as somebody types it: `await` is allowed, and what it promises is awaited.
    async fn evaluate(&self, script: &str) -> Result<Value, BrowserError> {
        let asked = json!({"expression": script, "awaitPromise": true, "replMode": true});
        let answer = self.page.call("Runtime.evaluate", asked).await?;
        let id = &answer["result"]["objectId"];
        if id.is_null() || answer.get("exceptionDetails").is_some() {
            return Ok(answer);
        }
        let asked = json!({
            "objectId": id,
            "functionDeclaration": "function () { return this }",
            "awaitPromise": true,
            "returnByValue": true,
        });
        self.page.call("Runtime.callFunctionOn", asked).await
    }

    pub(super) fn console_messages(&self) -> Value {
        let lines = self.page.board.look(|seen| Vec::from(seen.console.clone()));
        json!({"messages": newest(lines)})
    }

    pub(super) fn network_requests(&self) -> Value {
        let mut refused = self.proxy.refused_places();
        let requests = self.page.board.look(|seen| seen.requests.clone());
        let mut listed = Vec::new();
        let mut seen_refused = Vec::new();
        for request in requests {
            let place = Url::parse(&request.url).ok().and_then(|url| place(&url));
            let failed = request.status.is_none();
            let refusal = place.filter(|place| failed && refused.contains(place));
            listed.push(json!({
                "url": request.url,
                "method": request.method,
                "status": request.status,
                "bytes": request.bytes,
                "refused": refusal.is_some(),
                "error": request.error,
            }));
            seen_refused.extend(refusal);
        }
        // Workers and the like are not seen here, but the proxy has seen where they wanted to go.
        for place in seen_refused {
            refused.remove(&place);
        }
        for (host, port) in refused {
            let url = format!("{host}:{port}");
            listed.push(json!({"url": url, "method": "CONNECT", "status": null, "bytes": 0,
                "refused": true, "error": null}));
        }
        json!({"requests": newest(listed)})
    }

    pub(super) async fn accessibility(&mut self) -> Result<Value, Fault> {
        let mut tree = self.page.call("Accessibility.getFullAXTree", json!({})).await?;
        let Value::Array(nodes) = tree["nodes"].take() else {
            return Ok(json!({"nodes": []}));
        };
        let total = nodes.len();
        let mut depths = std::collections::HashMap::new();
        let mut listed = Vec::new();
        for node in &nodes {
            let above = node["parentId"].as_str().and_then(|id| depths.get(id)).copied();
            let ignored = node["ignored"] == true;
            let role = node["role"]["value"].as_str().unwrap_or_default();
            // What only holds others, and pieces of a text that is given already, say nothing.
            let dull = ignored || ["none", "generic", "InlineTextBox"].contains(&role);
            let depth = above.unwrap_or(0) + u32::from(!dull);
            depths.insert(node["nodeId"].as_str().unwrap_or_default(), depth);
            if dull || listed.len() >= NODES_MAX {
                continue;
            }
            let mut line = json!({"depth": depth, "role": role});
            for field in ["name", "value"] {
                let text = match &node[field]["value"] {
                    Value::String(text) => cut(text, NAME_LEN_MAX).to_owned(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                if !text.is_empty() {
                    line[field] = text.into();
                }
            }
            listed.push(line);
        }
        let mut length = 0;
        let fits = listed.iter().take_while(|line| {
            length += line.to_string().len() + 1;
            length <= LIST_LEN_MAX
        });
        let fits = fits.count();
        listed.truncate(fits);
        Ok(json!({"nodes": listed, "total": total}))
    }
}

/// The last ones of a list that fit.
fn newest(mut list: Vec<Value>) -> Vec<Value> {
    let mut length = 0;
    let fits = list.iter().rev().take_while(|line| {
        length += line.to_string().len() + 1;
        length <= LIST_LEN_MAX
    });
    let fits = fits.count();
    list.split_off(list.len() - fits)
}

/// Looks at what is shown as the engine `http` looks at what it has fetched: the same words give
/// the same fingerprint. A document that is not HTML is taken as it came.
pub(super) async fn look(
    page: &Page,
    selector: Option<&str>,
    limit: std::time::Duration,
) -> Result<Extract, Fault> {
    let selection = selector.map(Selection::parse).transpose()?;
    let shown = page.script("title", json!([])).await?;
    let kind = shown["type"].as_str().unwrap_or_default().to_owned();
    let html = ["text/html", "application/xhtml+xml"].contains(&kind.as_str());
    let bytes = if html && !matches!(selection, Some(Selection::JsonPath(_))) {
        let html = page.script("html", json!([])).await?;
        html["html"].as_str().unwrap_or_default().as_bytes().to_vec()
    } else {
        document(page).await?
    };
    let material = Material { bytes, content_type: Some(kind) };
    let criteria = Criteria { selection, ..Criteria::default() };
    let deadline = Deadline(Instant::now() + limit);
    let looked =
        tokio::task::spawn_blocking(move || check::extract(&material, &criteria, deadline));
    let lost = |_| Fault::new("engine_failed", "this document cannot be read");
    Ok(looked.await.map_err(lost)??)
}

/// The document as the server has sent it.
async fn document(page: &Page) -> Result<Vec<u8>, Fault> {
    let id = page.board.look(|seen| seen.document.loader.clone());
    let answer = page.call("Network.getResponseBody", json!({"requestId": id})).await;
    let gone = |_| Fault::new("no_document", "the document as it came is not there any more");
    let answer = answer.map_err(gone)?;
    let body = answer["body"].as_str().unwrap_or_default();
    if answer["base64Encoded"] == true {
        return BASE64.decode(body).map_err(|_| Fault::new("browser_error", "a broken document"));
    }
    Ok(body.as_bytes().to_vec())
}
