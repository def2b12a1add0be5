//! Forms, keys, dialogs, and who may write where.

use serde_json::{Value, json};
use skep_probe::browser::{Done, Tab};
use skep_wire::settle::Tier;

use crate::{
    browser::{action, bad, browsers, go, good, html},
    fixture::{Server, reply},
};

const FORM: &str = "<title>Form</title><form action='/sent' method=post>\
    <label>Name <input id=name name=name></label>\
    <input id=mail name=mail oninput='said.textContent=this.value' onchange='said.title=1'>\
    <input id=pass name=pass type=password>\
    <label for=number>Card number</label><input id=number name=n1>\
    <input id=cc name=x autocomplete='section-a cc-number'><input id=iban name=account_iban>\
    <input id=turns onfocus='this.type=\"password\"'><input id=covered style='-webkit-text-security: disc'>\
    <select id=size name=size onchange='said.dataset.size=this.value'>\
      <option value=s>Small<option value=l>Large</select>\
    <textarea id=note name=note></textarea><input type=checkbox id=box name=box>\
    <button id=send>Send</button></form><p id=said></p>\
    <div id=hover onmouseover='this.textContent=\"over\"'>hover</div>\
    <input id=keys onkeydown='said.dataset.key=event.key+event.isTrusted'>\
    <div id=away style='display:none'>x</div>";

async fn site() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/" => html(FORM),
        "/sent" => html(&format!("<title>Sent</title><pre>{}</pre>", asked.body)),
        "/dialogs" => html(
            "<title>Dialogs</title><button id=alert onclick='alert(\"Careful\")'>a</button>\
             <button id=ask onclick='said.textContent=prompt(\"Who?\")'>b</button>\
             <button id=sure onclick='said.textContent=confirm(\"Sure?\")'>c</button><p id=said></p>\
             <script>onbeforeunload = (event) => { event.preventDefault(); return 'stay' }</script>",
        ),
        "/frame" => html(
            "<title>Frame</title><iframe id=frame></iframe>\
             <script>frame.src = `http://localhost:${location.port}/inner`</script>",
        ),
        "/inner" => html("<body style='margin:0'><input autofocus style='width:99%;height:140px'>"),
        "/closed" => html(
            "<title>Closed</title><x-login id=host></x-login><script>\
             const root = host.attachShadow({mode: 'closed', delegatesFocus: true});\
             root.innerHTML = '<input type=password oninput=\"said.textContent=this.value\">';\
             </script><p id=said></p>",
        ),
        "/halves" => html(
            "<title>Halves</title><p id=said></p><script>console.log('\\ud801');\
             said.textContent = 'a\\ud83d'</script>",
        ),
        "/greets" => html("<title>Greets</title><script>alert('Hello')</script><p>text</p>"),
        _ => reply(404, "text/plain", ""),
    })
    .await
}

async fn by(tab: &mut Tab, tier: Tier, act: Value) -> Done {
    tab.act(&action(act), tier).await
}

async fn value(tab: &mut Tab, expression: &str) -> Value {
    good(tab, json!({"action": "EVAL", "script": expression})).await.data["value"].clone()
}

#[tokio::test]
async fn a_form_is_filled_in_and_sent() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/")).await;
    let done =
        good(&mut tab, json!({"action": "TYPE", "selector": "#name", "text": "Zoë B"})).await;
    assert_eq!(done.input.unwrap()["text"], "Zoë B");
    good(&mut tab, json!({"action": "FILL", "selector": "#mail", "text": "z@example.org"})).await;
    assert_eq!(value(&mut tab, "said.textContent + said.title").await, "z@example.org1");
    let choose = |text: &str| json!({"action": "SELECT_OPTION", "selector": "#size", "text": text});
    good(&mut tab, choose("l")).await;
    good(&mut tab, choose("Small")).await;
    let done = good(&mut tab, choose("Large")).await;
    assert_eq!(done.data["value"], "l");
    assert_eq!(value(&mut tab, "said.dataset.size").await, "l");
    assert_eq!(bad(&mut tab, choose("huge")).await, "not_found");
    good(&mut tab, json!({"action": "CLICK", "selector": "#box"})).await;
    good(&mut tab, json!({"action": "HOVER", "selector": "#hover"})).await;
    assert_eq!(value(&mut tab, "hover.textContent").await, "over");
    let press = json!({"action": "KEY_PRESS", "selector": "#keys", "key": "ArrowDown"});
    good(&mut tab, press).await;
    assert_eq!(value(&mut tab, "said.dataset.key").await, "ArrowDowntrue");
    good(&mut tab, json!({"action": "KEY_PRESS", "key": "q"})).await;
    assert_eq!(value(&mut tab, "keys.value").await, "q");
    for (act, code) in [
        (json!({"action": "CLICK", "selector": "#none"}), "not_found"),
        (json!({"action": "CLICK", "selector": "#away"}), "not_visible"),
        (json!({"action": "FILL", "selector": "#box", "text": "x"}), "bad_field"),
        (json!({"action": "TYPE", "selector": "#said", "text": "x"}), "bad_field"),
        (json!({"action": "KEY_PRESS", "key": "Nothing"}), "bad_action"),
        (json!({"action": "CLICK", "selector": "#box", "text": "x"}), "bad_action"),
        (json!({"action": "CLICK"}), "bad_action"),
        (json!({"action": "WAIT", "ms": 60000}), "bad_action"),
        (json!({"action": "EXPORT_PROOF"}), "not_here"),
        (json!({"action": "OUTPUT_TO_FILE", "name": "../x", "text": "x"}), "bad_action"),
        (json!({"action": "HANDLE_DIALOG", "accept": true}), "no_dialog"),
        (json!({"action": "EVAL", "script": "nothing.at.all"}), "script_error"),
    ] {
        assert_eq!(bad(&mut tab, act.clone()).await, code, "{act}");
    }
    let done = good(&mut tab, json!({"action": "CLICK", "selector": "#send"})).await;
    assert_eq!(done.url.as_deref(), Some(server.url("/sent").as_str()));
    let done = good(&mut tab, json!({"action": "EXTRACT", "selector": "pre"})).await;
    let sent = done.data["text"].as_str().unwrap().to_owned();
    for part in ["name=Zo%C3%AB+B", "mail=z%40example.org", "size=l", "box=on"] {
        assert!(sent.contains(part), "{part} is not in {sent}");
    }
}

#[tokio::test]
async fn what_cannot_be_looked_into_counts_as_the_most_secret() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/closed")).await;
    let typing = json!({"action": "TYPE", "selector": "#host", "text": "x"});
    let refused = by(&mut tab, Tier::Basic, typing).await;
    assert_eq!(refused.needs_tier, Some(Tier::Trusted), "{refused:?}");
    good(&mut tab, json!({"action": "EVAL", "script": "host.focus()"})).await;
    let key = json!({"action": "KEY_PRESS", "key": "x"});
    let refused = by(&mut tab, Tier::Basic, key).await;
    assert_eq!(refused.needs_tier, Some(Tier::Trusted), "{refused:?}");
    assert_eq!(value(&mut tab, "said.textContent").await, "");
}

#[tokio::test]
async fn half_a_character_ends_no_session() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/halves")).await;
    let said = good(&mut tab, json!({"action": "EXTRACT", "selector": "#said"})).await;
    assert!(said.data.to_string().contains('\u{fffd}'), "{said:?}");
    let heard = good(&mut tab, json!({"action": "CONSOLE_MESSAGES"})).await;
    assert!(heard.data.to_string().contains('\u{fffd}'), "{heard:?}");
}

#[tokio::test]
async fn passwords_and_payments_need_a_higher_tier() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/")).await;
    let gates = [
        ("#pass", Tier::Basic, Tier::Verified),
        ("#turns", Tier::Basic, Tier::Verified),
        ("#covered", Tier::Basic, Tier::Verified),
        ("#number", Tier::Verified, Tier::Trusted),
        ("#cc", Tier::Verified, Tier::Trusted),
        ("#iban", Tier::Verified, Tier::Trusted),
    ];
    for (selector, low, enough) in gates {
        for how in ["TYPE", "FILL"] {
            let act = json!({"action": how, "selector": selector, "text": "s3cret"});
            let done = by(&mut tab, low, act.clone()).await;
            assert_eq!(done.error.unwrap().code, "tier", "{act}");
            assert_eq!(done.needs_tier, Some(enough), "{act}");
            let script = format!("document.querySelector('{selector}').value");
            assert_eq!(value(&mut tab, &script).await, "", "{act} has written");
            let done = by(&mut tab, enough, act.clone()).await;
            assert!(done.error.is_none(), "{act}: {done:?}");
            assert_eq!(done.input.unwrap()["text"], "[REDACTED]");
            assert_eq!(value(&mut tab, &script).await, "s3cret");
            value(&mut tab, &format!("document.querySelector('{selector}').value = ''")).await;
        }
    }
    // A key goes where the focus is, and a Tab moves it.
    good(&mut tab, json!({"action": "CLICK", "selector": "#pass"})).await;
    let done = by(&mut tab, Tier::Basic, json!({"action": "KEY_PRESS", "key": "x"})).await;
    assert_eq!(done.needs_tier, Some(Tier::Verified));
    assert_eq!(done.input.unwrap()["key"], "[REDACTED]");
    let act = json!({"action": "TYPE", "selector": "#mail", "text": "me\ts3cret"});
    let done = by(&mut tab, Tier::Basic, act).await;
    // Something was typed: it is a step that failed, and stands in the log.
    assert_eq!((done.needs_tier, done.error.unwrap().code.as_str()), (None, "tier"));
    assert_eq!(value(&mut tab, "pass.value + '|' + mail.value").await, "|me");

    // What is in a frame of another site cannot be seen, so it may be anything.
    go(&mut tab, &server.url("/inner").replace("127.0.0.1", "localhost")).await;
    go(&mut tab, &server.url("/frame")).await;
    good(&mut tab, json!({"action": "CLICK", "selector": "#frame"})).await;
    let done = by(&mut tab, Tier::Verified, json!({"action": "KEY_PRESS", "key": "x"})).await;
    assert_eq!(done.needs_tier, Some(Tier::Trusted), "{done:?}");
    good(&mut tab, json!({"action": "KEY_PRESS", "key": "x"})).await;

    for (act, needs) in [
        (json!({"action": "CLICK", "selector": "#frame"}), Tier::Basic),
        (json!({"action": "EVAL", "script": "1"}), Tier::Verified),
    ] {
        let done = by(&mut tab, Tier::Unverified, act).await;
        assert_eq!((done.needs_tier, done.error.unwrap().code.as_str()), (Some(needs), "tier"));
    }
}

#[tokio::test]
async fn a_dialog_waits_for_its_answer() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    let done = go(&mut tab, &server.url("/greets")).await;
    assert_eq!(done.data["dialog"], json!({"type": "alert", "message": "Hello"}));
    assert_eq!(bad(&mut tab, json!({"action": "EXTRACT"})).await, "dialog_open");
    good(&mut tab, json!({"action": "HANDLE_DIALOG", "accept": true})).await;
    let done = good(&mut tab, json!({"action": "EXTRACT"})).await;
    assert_eq!(done.data["text"], "text");

    go(&mut tab, &server.url("/dialogs")).await;
    let click = |selector: &str| json!({"action": "CLICK", "selector": selector});
    let done = good(&mut tab, click("#alert")).await;
    assert_eq!(done.data["dialog"]["message"], "Careful");
    assert_eq!(bad(&mut tab, click("#ask")).await, "dialog_open");
    good(&mut tab, json!({"action": "HANDLE_DIALOG", "accept": true})).await;
    good(&mut tab, click("#ask")).await;
    good(&mut tab, json!({"action": "HANDLE_DIALOG", "accept": true, "text": "Ada"})).await;
    assert_eq!(value(&mut tab, "said.textContent").await, "Ada");
    good(&mut tab, click("#sure")).await;
    good(&mut tab, json!({"action": "HANDLE_DIALOG", "accept": false})).await;
    assert_eq!(value(&mut tab, "said.textContent").await, "false");
    // It asks whether to leave, and gets no answer but yes.
    let done = go(&mut tab, &server.url("/")).await;
    assert_eq!(done.data["title"], "Form");
    let done = good(&mut tab, json!({"action": "EVAL", "script": "await 5 + confirm('x')"})).await;
    assert_eq!(done.data["dialog"]["type"], "confirm");
    good(&mut tab, json!({"action": "HANDLE_DIALOG", "accept": true})).await;
}
