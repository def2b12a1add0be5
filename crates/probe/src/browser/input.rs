//! Mouse, keys, fields and dialogs.
//!
//! Writing into a password field takes a higher tier, and into a payment field the highest
//! (decision 40). Where a text goes is looked at right before each key, since a Tab, or a page that
//! moves on by itself, may lead from one field into another.

use serde_json::{Value, json};
use skep_wire::settle::Tier;

use super::{
    Done, Tab,
    act::{needs, redacted_is_plain},
    events::Dialog,
    page::Fault,
};

/// A key: its name, the code of its place, the number that old pages ask for, and its text.
type Key = (&'static str, &'static str, u32, &'static str);

const KEYS: &[Key] = &[
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Escape", "Escape", 27, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Insert", "Insert", 45, ""),
    ("Space", "Space", 32, " "),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("Home", "Home", 36, ""),
    ("End", "End", 35, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("F1", "F1", 112, ""),
    ("F2", "F2", 113, ""),
    ("F3", "F3", 114, ""),
    ("F4", "F4", 115, ""),
    ("F5", "F5", 116, ""),
    ("F6", "F6", 117, ""),
    ("F7", "F7", 118, ""),
    ("F8", "F8", 119, ""),
    ("F9", "F9", 120, ""),
    ("F10", "F10", 121, ""),
    ("F11", "F11", 122, ""),
    ("F12", "F12", 123, ""),
];

/// Keys that are held while another is pressed, with the browser's bit for each.
const HELD: &[(&str, u32)] = &[("Alt", 1), ("Control", 2), ("Meta", 4), ("Shift", 8)];

/// What the browser is told of a key that goes down.
fn pressed(name: &str) -> Option<Value> {
    let mut held = 0;
    let mut rest = name;
    while let Some((first, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
        held |= HELD.iter().find(|(known, _)| *known == first)?.1;
        rest = after;
    }
    let mut event = match KEYS.iter().find(|key| key.0 == rest) {
        Some((name, code, number, text)) => {
            let key = if *name == "Space" { " " } else { name };
            json!({"key": key, "code": code, "windowsVirtualKeyCode": number, "text": text})
        }
        None => {
            let mut letters = rest.chars();
            let (letter, None) = (letters.next()?, letters.next()) else { return None };
            if letter.is_control() {
                return None;
            }
            let upper = letter.to_ascii_uppercase();
            let code = match upper {
                'A'..='Z' => format!("Key{upper}"),
                '0'..='9' => format!("Digit{upper}"),
                _ => String::new(),
            };
            let number = if upper.is_ascii_alphanumeric() { upper as u32 } else { 0 };
            json!({"key": rest, "code": code, "windowsVirtualKeyCode": number, "text": rest})
        }
    };
    // A letter with Control is a command, not a text.
    if held & !8 != 0 {
        event["text"] = "".into();
    }
    event["modifiers"] = held.into();
    Some(event)
}

/// The tier that may write into such a field.
fn tier_of(kind: &str) -> Tier {
    match kind {
        "plain" => Tier::Basic,
        "password" => Tier::Verified,
        _ => Tier::Trusted,
    }
}

/// Refuses who may not write into such a field, and has the input written down if it is plain.
fn judge(kind: &Value, allowed: Tier) -> Result<bool, Fault> {
    let kind = kind.as_str().unwrap_or("payment");
    let tier = tier_of(kind);
    if tier > allowed {
        return Err(needs(tier, &format!("writing into a {kind} field")));
    }
    Ok(kind == "plain")
}

impl Tab {
    async fn point(&self, selector: &str) -> Result<Value, Fault> {
        self.page.script("point", json!([selector])).await
    }

    /// Sends input to the page, until it is taken or a dialog comes up that waits for an answer.
    async fn send(&self, method: &str, params: Value) -> Result<Option<Dialog>, Fault> {
        let board = &self.page.board;
        let before = board.look(|seen| seen.popups);
        tokio::select! {
            sent = self.page.call(method, params) => { sent?; Ok(None) }
            dialog = board.dialog() => Ok(Some(dialog?)),
            // The answer to a click that opens a window is lost with the window.
            opened = board.until(|seen| (seen.popups > before).then_some(())) => {
                opened?;
                Ok(None)
            }
        }
    }

    async fn mouse(&self, at: &Value, kind: &str) -> Result<Option<Dialog>, Fault> {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let clicks = u8::from(button == "left");
        let event = json!({
            "type": kind, "x": at["x"], "y": at["y"], "button": button, "clickCount": clicks,
        });
        self.send("Input.dispatchMouseEvent", event).await
    }

    /// What to give back after an input that may have set something off.
    async fn outcome(&self, dialog: Option<Dialog>, mut data: Value) -> Result<Value, Fault> {
        let dialog = match dialog {
            Some(dialog) => Some(dialog),
            None => self.settle().await?,
        };
        if let Some(dialog) = dialog {
            data["dialog"] = dialog.to_json();
        }
        Ok(data)
    }

    pub(super) async fn click(&mut self, selector: &str) -> Result<Value, Fault> {
        let at = self.point(selector).await?;
        if at["covered"] == true {
            return Err(Fault::new("covered", "something else is in front of the element"));
        }
        self.forget_failures();
        let mut dialog = None;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            dialog = self.mouse(&at, kind).await?;
            if dialog.is_some() {
                break;
            }
        }
        self.outcome(dialog, json!({"x": at["x"], "y": at["y"]})).await
    }

    pub(super) async fn hover(&mut self, selector: &str) -> Result<Value, Fault> {
        let at = self.point(selector).await?;
        let dialog = self.mouse(&at, "mouseMoved").await?;
        self.outcome(dialog, json!({"x": at["x"], "y": at["y"]})).await
    }

    /// Presses and releases a key.
    async fn key(&self, mut event: Value) -> Result<Option<Dialog>, Fault> {
        let text = event["text"].as_str().is_some_and(|text| !text.is_empty());
        event["type"] = if text { "keyDown" } else { "rawKeyDown" }.into();
        let dialog = self.send("Input.dispatchKeyEvent", event.clone()).await?;
        if dialog.is_some() {
            return Ok(dialog);
        }
        event["type"] = "keyUp".into();
        event["text"] = "".into();
        self.send("Input.dispatchKeyEvent", event).await
    }

    pub(super) async fn type_text(
        &mut self,
        selector: &str,
        text: &str,
        allowed: Tier,
        done: &mut Done,
    ) -> Result<Value, Fault> {
        let world = self.page.world().await?;
        let focus = self.page.script_in(world, "focus", json!([selector])).await?;
        let mut plain = judge(&focus["kind"], allowed)?;
        self.forget_failures();
        let mut dialog = None;
        let mut typed = 0;
        for (at, letter) in text.chars().enumerate() {
            if at > 0 {
                let looked = tokio::select! {
                    looked = self.page.script_in(world, "focused", json!([])) => looked,
                    found = self.page.board.dialog() => { dialog = Some(found?); break }
                };
                // Without the page that was typed into there is nothing to type into.
                let Ok(focused) = looked else { break };
                // Keys were pressed already: that is a step which failed, not one that was refused.
                let begun = |fault| Fault { needs_tier: None, ..fault };
                plain &= judge(&focused["kind"], allowed).map_err(begun)?;
            }
            let name = match letter {
                '\n' => "Enter".to_owned(),
                '\t' => "Tab".to_owned(),
                other => other.to_string(),
            };
            let Some(event) = pressed(&name) else { continue };
            typed += 1;
            dialog = self.key(event).await?;
            if dialog.is_some() {
                break;
            }
        }
        if plain {
            redacted_is_plain(done, "text", text);
        }
        self.outcome(dialog, json!({"typed": typed})).await
    }

    /// FILL and SELECT_OPTION: judged and written in one step, so that nothing comes between.
    pub(super) async fn fill(
        &mut self,
        how: &str,
        selector: &str,
        text: &str,
        allowed: Tier,
        done: &mut Done,
    ) -> Result<Value, Fault> {
        let kinds = ["plain", "password", "payment"];
        let kinds: Vec<_> = kinds.into_iter().filter(|kind| tier_of(kind) <= allowed).collect();
        self.forget_failures();
        let (filled, dialog) = tokio::select! {
            filled = self.page.script(how, json!([selector, text, kinds])) => (filled?, None),
            dialog = self.page.board.dialog() => (Value::Null, Some(dialog?)),
        };
        let plain = dialog.is_none() && judge(&filled["kind"], allowed)?;
        if plain {
            redacted_is_plain(done, "text", text);
        }
        let data = match how {
            "choose" if !plain => json!({"chosen": dialog.is_none()}),
            "choose" => json!({"value": filled["value"], "label": filled["label"]}),
            _ => json!({"filled": text.chars().count()}),
        };
        self.outcome(dialog, data).await
    }

    pub(super) async fn key_press(
        &mut self,
        selector: Option<&str>,
        key: &str,
        allowed: Tier,
        done: &mut Done,
    ) -> Result<Value, Fault> {
        let Some(event) = pressed(key) else {
            return Err(Fault::new("bad_action", "there is no such key"));
        };
        let focus = match selector {
            Some(selector) => self.page.script("focus", json!([selector])).await?,
            None => self.page.script("focused", json!([])).await?,
        };
        if judge(&focus["kind"], allowed)? {
            redacted_is_plain(done, "key", key);
        }
        self.forget_failures();
        let dialog = self.key(event).await?;
        self.outcome(dialog, json!({})).await
    }

    pub(super) async fn handle_dialog(
        &mut self,
        accept: bool,
        text: Option<&str>,
    ) -> Result<Value, Fault> {
        let before = self.page.board.look(|seen| seen.dialog.take());
        let mut answer = json!({"accept": accept});
        if let Some(text) = text {
            answer["promptText"] = text.into();
        }
        self.forget_failures();
        self.page.call("Page.handleJavaScriptDialog", answer).await?;
        let handled = before.map(|dialog| dialog.to_json());
        self.outcome(None, json!({"accepted": accept, "handled": handled})).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names_letters_and_companions() {
        assert_eq!(pressed("Enter").unwrap()["text"], "\r");
        assert_eq!(pressed("a").unwrap()["code"], "KeyA");
        assert_eq!(pressed("ä").unwrap()["text"], "ä");
        assert_eq!(pressed("+").unwrap()["text"], "+");
        let select_all = pressed("Control+a").unwrap();
        assert_eq!((&select_all["modifiers"], &select_all["text"]), (&json!(2), &json!("")));
        assert_eq!(pressed("Shift+Tab").unwrap()["modifiers"], 8);
        for bad in ["", "Nothing", "Hyper+a", "ab", "\u{1}"] {
            assert!(pressed(bad).is_none(), "{bad}");
        }
    }
}
