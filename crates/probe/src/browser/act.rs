//! One action: judged before anything is done, done within its time, and written down.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skep_wire::{
    conduit::{Act, ActionType, DATA_LEN_MAX},
    settle::{ErrorReport, Tier},
};
use tokio::time::{sleep, timeout};

use super::{BrowserError, Done, Tab, page::Fault};
use crate::engine::record::{cut, first_chars};

/// The longest time that NAVIGATE and WAIT_FOR may ask for.
const ASKED_TIME_MAX: Duration = Duration::from_secs(60);
/// The longest WAIT.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often WAIT_FOR looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a tab may take to answer once its script was ended; then it is dead.
const REVIVED_WITHIN: Duration = Duration::from_secs(2);
/// How long a tab may take to answer before its script is ended.
const ALIVE_WITHIN: Duration = Duration::from_millis(500);
/// How long the address and the picture after an action may take.
const AFTERWARDS_MAX: Duration = Duration::from_secs(10);
/// The longest file of OUTPUT_TO_FILE, and text of FILL, in bytes.
const FILE_LEN_MAX: usize = 256 * 1024;
/// The longest name of a file, in bytes.
const NAME_LEN_MAX: usize = 100;
/// The longest text of TYPE, in characters: each is a key that is pressed.
const TYPED_LEN_MAX: usize = 4096;
/// The longest script, in bytes.
const SCRIPT_LEN_MAX: usize = 64 * 1024;
/// The longest selector, in bytes.
const SELECTOR_LEN_MAX: usize = 1024;
/// The longest snippet, in characters.
const SNIPPET_LEN_MAX: usize = 200;

pub(super) const REDACTED: &str = "[REDACTED]";

pub(super) async fn act(tab: &mut Tab, act: &Act, allowed: Tier) -> Done {
    tab.link.begin_action();
    let mut done = Done { input: Some(redacted(act)), ..Done::default() };
    let goes = matches!(act.action, ActionType::Navigate | ActionType::NavigateBack);
    let was_over = tab.proxy.is_over() && !goes;
    let result = match judge(tab, act, allowed) {
        Ok(()) => within_limit(tab, act, allowed, &mut done).await,
        Err(fault) => Err(fault),
    };
    match result {
        Ok(data) if !was_over && tab.proxy.is_over() => {
            done.data = bounded(data);
            let detail = "the page has loaded more than it may";
            done.error = Some(ErrorReport { code: "too_large".to_owned(), detail: detail.into() });
        }
        Ok(data) => {
            done.snippet = done.snippet.take().or_else(|| snippet(&data));
            done.data = bounded(data);
        }
        Err(fault) => {
            done.error = Some(fault.report);
            done.needs_tier = fault.needs_tier;
        }
    }
    afterwards(tab, act, &mut done).await;
    done
}

/// Everything that can be refused without touching the page.
fn judge(tab: &Tab, act: &Act, allowed: Tier) -> Result<(), Fault> {
    if tab.process.ended.get().is_some() {
        return Err(tab.process.why().into());
    }
    check_fields(act)?;
    let needed = act.action.tier();
    if needed > allowed {
        return Err(needs(needed, act.action.as_str()));
    }
    let dialog = tab.page.board.look(|seen| seen.dialog.clone());
    match (act.action, dialog) {
        (ActionType::HandleDialog, None) => {
            Err(Fault::new("no_dialog", "there is no dialog to answer"))
        }
        (ActionType::HandleDialog, Some(_)) | (_, None) => Ok(()),
        (_, Some(dialog)) => Err(Fault::new(
            "dialog_open",
            format!("a dialog ({}) waits: answer it with HANDLE_DIALOG first", dialog.kind),
        )),
    }
}

/// Refused for the tier, with the one that would do.
pub(super) fn needs(tier: Tier, what: &str) -> Fault {
    let name = json!(tier);
    let name = name.as_str().unwrap_or_default();
    let fault = Fault::new("tier", format!("{what} needs the tier {name}"));
    Fault { needs_tier: Some(tier), ..fault }
}

/// The fields that an action must have, and those that it may have besides.
fn fields(action: ActionType) -> (&'static [&'static str], &'static [&'static str]) {
    use ActionType as A;
    match action {
        A::Navigate => (&["url"], &["ms"]),
        A::Click | A::Hover => (&["selector"], &[]),
        A::Type | A::Fill | A::SelectOption => (&["selector", "text"], &[]),
        A::Extract | A::Fingerprint => (&[], &["selector"]),
        A::Screenshot => (&[], &["full_page"]),
        A::Scroll => (&[], &["selector", "pixels"]),
        A::Wait => (&["ms"], &[]),
        A::WaitFor => (&["selector"], &["ms"]),
        A::KeyPress => (&["key"], &["selector"]),
        A::HandleDialog => (&["accept"], &["text"]),
        A::Eval => (&["script"], &[]),
        A::OutputToFile => (&["name", "text"], &[]),
        A::Map | A::Crawl => (&[], &["url", "depth", "pages"]),
        A::CheckChanged => (&[], &["selector", "baseline"]),
        A::NavigateBack
        | A::ConsoleMessages
        | A::ExtractMain
        | A::AccessibilitySnapshot
        | A::NetworkRequests
        | A::ExportProof => (&[], &[]),
    }
}

fn check_fields(act: &Act) -> Result<(), Fault> {
    let bad = |detail: String| Err(Fault::new("bad_action", detail));
    let name = act.action.as_str();
    let (required, optional) = fields(act.action);
    let given = json!(act);
    let given = given.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    let given: Vec<String> = given;
    for field in &given {
        let known = ["action", "screenshot"].contains(&field.as_str());
        if !known && !required.contains(&field.as_str()) && !optional.contains(&field.as_str()) {
            return bad(format!("{name} does not take {field}"));
        }
    }
    if let Some(missing) = required.iter().find(|field| !given.iter().any(|have| have == *field)) {
        return bad(format!("{name} needs {missing}"));
    }
    if act.action == ActionType::Scroll && act.selector.is_some() && act.pixels.is_some() {
        return bad("SCROLL takes a selector or pixels, not both".to_owned());
    }
    let long = |text: &Option<String>, max: usize| text.as_ref().is_some_and(|it| it.len() > max);
    if long(&act.selector, SELECTOR_LEN_MAX) {
        return bad(format!("the selector is longer than {SELECTOR_LEN_MAX} bytes"));
    }
    if long(&act.script, SCRIPT_LEN_MAX) {
        return bad(format!("the script is longer than {SCRIPT_LEN_MAX} bytes"));
    }
    if long(&act.text, FILE_LEN_MAX) {
        return bad(format!("the text is longer than {FILE_LEN_MAX} bytes"));
    }
    let typed = act.text.as_ref().filter(|_| act.action == ActionType::Type);
    if typed.is_some_and(|text| text.chars().count() > TYPED_LEN_MAX) {
        return bad(format!("more than {TYPED_LEN_MAX} characters are not typed"));
    }
    let most = if act.action == ActionType::Wait { WAIT_MAX } else { ASKED_TIME_MAX };
    if act.ms.is_some_and(|ms| Duration::from_millis(ms) > most) {
        return bad(format!("{name} takes at most {} ms", most.as_millis()));
    }
    Ok(())
}

async fn within_limit(
    tab: &mut Tab,
    act: &Act,
    allowed: Tier,
    done: &mut Done,
) -> Result<Value, Fault> {
    let asked = act.ms.map(Duration::from_millis);
    let limit = match act.action {
        ActionType::Navigate => asked.unwrap_or(tab.limits.navigation),
        ActionType::NavigateBack => tab.limits.navigation,
        ActionType::WaitFor => asked.unwrap_or(tab.limits.action),
        ActionType::Wait => WAIT_MAX + LOOK_EVERY,
        ActionType::Map | ActionType::Crawl => tab.limits.crawl,
        _ => tab.limits.action,
    };
    let board = Arc::clone(&tab.page.board);
    let performed = async {
        tokio::select! {
            result = perform(tab, act, allowed, done) => result,
            gone = board.gone() => Err(gone.into()),
        }
    };
    match timeout(limit, performed).await {
        Ok(result) => result,
        Err(_) => {
            revive(tab).await;
            let detail = format!("it was not done within {} ms", limit.as_millis());
            Err(Fault::new("timeout", detail))
        }
    }
}

/// Stops what a page is doing. One that cannot be stopped is ended with its browser.
async fn revive(tab: &Tab) {
    tab.page.tell("Page.stopLoading", &json!({}));
    if tab.page.board.look(|seen| seen.dialog.is_some()) {
        return;
    }
    let alive = || tab.page.call("Runtime.evaluate", json!({"expression": "1"}));
    if timeout(ALIVE_WITHIN, alive()).await.is_ok_and(|answer| answer.is_ok()) {
        return;
    }
    tab.page.tell("Runtime.terminateExecution", &json!({}));
    if timeout(REVIVED_WITHIN, alive()).await.is_err() {
        tab.process.kill(BrowserError::Hung);
    }
}

async fn perform(tab: &mut Tab, act: &Act, allowed: Tier, done: &mut Done) -> Result<Value, Fault> {
    use ActionType as A;
    let selector = act.selector.as_deref();
    let text = act.text.as_deref().unwrap_or_default();
    match act.action {
        A::Navigate => {
            let data = tab.navigate(act.url.as_deref().unwrap_or_default()).await?;
            if data["dialog"].is_null() {
                // A page that cannot be read so is still a page.
                done.fingerprint = tab.fingerprint(None).await.ok();
                tab.last_fingerprint = tab.last_fingerprint.or(done.fingerprint);
            }
            Ok(data)
        }
        A::NavigateBack => tab.navigate_back().await,
        A::Click => tab.click(selector.unwrap_or_default()).await,
        A::Hover => tab.hover(selector.unwrap_or_default()).await,
        A::Type => tab.type_text(selector.unwrap_or_default(), text, allowed, done).await,
        A::Fill => tab.fill("fill", selector.unwrap_or_default(), text, allowed, done).await,
        A::SelectOption => {
            tab.fill("choose", selector.unwrap_or_default(), text, allowed, done).await
        }
        A::KeyPress => {
            let key = act.key.as_deref().unwrap_or_default();
            tab.key_press(selector, key, allowed, done).await
        }
        A::HandleDialog => tab.handle_dialog(act.accept == Some(true), act.text.as_deref()).await,
        A::Scroll => tab.page.script("scroll", json!([selector, act.pixels])).await,
        A::Wait => {
            sleep(Duration::from_millis(act.ms.unwrap_or_default())).await;
            let dialog = tab.page.board.look(|seen| seen.dialog.clone());
            Ok(json!({"ms": act.ms, "dialog": dialog.map(|dialog| dialog.to_json())}))
        }
        A::WaitFor => wait_for(tab, selector.unwrap_or_default()).await,
        A::Extract => tab.extract(selector).await,
        A::ExtractMain => tab.page.script("main", json!([])).await,
        A::Screenshot => {
            let png = tab.screenshot(act.full_page).await?;
            let data = json!({"bytes": png.len()});
            done.snippet = Some(format!("PNG, {} bytes", png.len()));
            done.screenshot = Some(png);
            Ok(data)
        }
        A::Eval => tab.eval(act.script.as_deref().unwrap_or_default()).await,
        A::ConsoleMessages => Ok(tab.console_messages()),
        A::NetworkRequests => Ok(tab.network_requests()),
        A::AccessibilitySnapshot => tab.accessibility().await,
        A::Fingerprint => {
            let fingerprint = tab.fingerprint(selector).await?;
            done.fingerprint = Some(fingerprint);
            tab.last_fingerprint = Some(fingerprint);
            Ok(json!({"fingerprint": fingerprint}))
        }
        A::CheckChanged => check_changed(tab, act, done).await,
        A::OutputToFile => output(act.name.as_deref().unwrap_or_default(), text, done),
        A::Map => tab.map(act).await,
        A::Crawl => tab.crawl(act).await,
        A::ExportProof => {
            Err(Fault::new("not_here", "whoever records the session exports its proof"))
        }
    }
}

async fn check_changed(tab: &mut Tab, act: &Act, done: &mut Done) -> Result<Value, Fault> {
    let baseline = act
        .baseline
        .or(tab.last_fingerprint)
        .ok_or_else(|| Fault::new("no_baseline", "no fingerprint was taken to compare with"))?;
    let current = tab.fingerprint(act.selector.as_deref()).await?;
    done.fingerprint = Some(current);
    tab.last_fingerprint = Some(current);
    Ok(json!({"changed": current != baseline, "baseline": baseline, "current": current}))
}

async fn wait_for(tab: &Tab, selector: &str) -> Result<Value, Fault> {
    loop {
        if let Some(dialog) = tab.page.board.look(|seen| seen.dialog.clone()) {
            return Ok(json!({"found": 0, "dialog": dialog.to_json()}));
        }
        let looked = tokio::select! {
            looked = tab.page.script("matches", json!([selector])) => looked,
            dialog = tab.page.board.dialog() => { dialog?; continue }
        };
        match looked {
            Ok(found) if found["found"] != 0 => return Ok(found),
            // The page may just be replaced by another one.
            Err(fault)
                if !["browser_error", "script_error"].contains(&fault.report.code.as_str()) =>
            {
                return Err(fault);
            }
            _ => sleep(LOOK_EVERY).await,
        }
    }
}

fn output(name: &str, text: &str, done: &mut Done) -> Result<Value, Fault> {
    let good = !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && !name.starts_with('.')
        && !name.contains(|letter: char| letter.is_control() || "/\\:".contains(letter));
    if !good {
        let detail = "the name of a file has no path, and at most 100 bytes";
        return Err(Fault::new("bad_action", detail));
    }
    done.file = Some((name.to_owned(), text.as_bytes().to_vec()));
    Ok(json!({"name": name, "bytes": text.len()}))
}

/// Address and picture, and whether there is a browser any more.
async fn afterwards(tab: &mut Tab, act: &Act, done: &mut Done) {
    if let Ok(Ok((url, _))) = timeout(REVIVED_WITHIN, tab.page.place()).await {
        done.url = Some(url);
    }
    let asked = act.screenshot && done.screenshot.is_none() && done.error.is_none();
    let dialog = tab.page.board.look(|seen| seen.dialog.is_some());
    if asked && !dialog {
        let taken = timeout(AFTERWARDS_MAX, tab.screenshot(false)).await;
        match taken.unwrap_or_else(|_| Err(Fault::new("timeout", "the picture took too long"))) {
            Ok(png) => done.screenshot = Some(png),
            Err(fault) => done.error = Some(fault.report),
        }
    }
    let gone = done.error.as_ref().is_some_and(|error| error.code == "browser_crashed");
    if gone {
        // The watcher may be about to say why.
        sleep(Duration::from_millis(50)).await;
        tab.process.kill(BrowserError::Crashed);
        done.error = Some(Fault::from(tab.process.why()).report);
    }
    done.fatal = tab.process.ended.get().is_some();
    if done.fatal && done.error.is_none() {
        done.error = Some(Fault::from(tab.process.why()).report);
    }
}

/// The action as it is written down. What is typed is shown once the field is known to be plain.
fn redacted(act: &Act) -> Value {
    let mut input = json!(act);
    if matches!(act.action, ActionType::Type | ActionType::Fill | ActionType::SelectOption) {
        input["text"] = REDACTED.into();
    }
    // A prompt may ask for anything.
    if act.action == ActionType::HandleDialog && act.text.is_some() {
        input["text"] = REDACTED.into();
    }
    if act.action == ActionType::KeyPress && act.key.is_some() {
        input["key"] = REDACTED.into();
    }
    let secret = |url: &String| {
        url::Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
    };
    if act.url.as_ref().is_some_and(secret) {
        input["url"] = REDACTED.into();
    }
    input
}

fn snippet(data: &Value) -> Option<String> {
    let text = match data {
        Value::Null => return None,
        Value::Object(map) => match map.get("text").or(map.get("value")) {
            Some(Value::String(text)) => text.clone(),
            _ => data.to_string(),
        },
        _ => data.to_string(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(first_chars(&text, SNIPPET_LEN_MAX)).filter(|text| !text.is_empty())
}

/// What is too long is given as the beginning of its JSON.
fn bounded(data: Value) -> Value {
    let text = data.to_string();
    if text.len() <= DATA_LEN_MAX {
        return data;
    }
    // Quotes and the like take two bytes where they are quoted again.
    json!({"cut": true, "json": cut(&text, DATA_LEN_MAX / 3)})
}

/// The field was plain: what was typed may be read.
pub(super) fn redacted_is_plain(done: &mut Done, field: &str, text: &str) {
    if let Some(input) = &mut done.input {
        input[field] = text.into();
    }
}
