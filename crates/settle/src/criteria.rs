//! What is checked: said by the requester, frozen at acceptance, never weakened after (decisions
//! 25, 33).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_wire::settle::{
    Hints, TEXT_LEN_MAX, VerificationSpec,
    criteria::{check_custom, engines_needed},
    engine,
};

use crate::offer::{BadMessage, bad};

/// The longest name of an engine.
pub const ENGINE_LEN_MAX: usize = 64;

/// The delivery names other criteria than those that were agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the terms say what {field} must be; a delivery cannot change it")]
pub struct CriteriaChanged {
    pub field: String,
}

/// Whether an offer's hints can stand.
pub(crate) fn check(hints: &Hints) -> Result<(), BadMessage> {
    check_words(hints)?;
    if hints.fingerprint_delta == Some(true) && hints.url.is_none() {
        let problem = "what must change has to be named: give the url too";
        return Err(bad("verification_hints.fingerprint_delta", problem));
    }
    let kind = hints.kind.as_deref().unwrap_or_default();
    check_custom(kind, hints.custom.as_ref())
        .map_err(|problem| bad("verification_hints.custom", problem))?;
    // What the engine would not look at must not seem to be agreed.
    let stated = [
        ("selector", hints.selector.is_some()),
        ("expected_content", hints.expected_content.is_some()),
        ("fingerprint_delta", hints.fingerprint_delta == Some(true)),
    ];
    if let Some((field, _)) = stated.iter().find(|(_, is)| *is && kind == engine::COMPOSITE) {
        let problem = "the criteria of a composite stand in its parts";
        return Err(bad(&format!("verification_hints.{field}"), problem));
    }
    Ok(())
}

/// Every engine that a verifier must have to judge frozen criteria.
pub fn engines(frozen: &Hints) -> Vec<String> {
    let kind = frozen.kind.as_deref().unwrap_or(engine::REQUESTER);
    engines_needed(kind, frozen.custom.as_ref()).into_iter().collect()
}

/// Whether hints, of an offer or of a delivery, can be read at all.
pub fn check_words(hints: &Hints) -> Result<(), BadMessage> {
    let field = |name: &str| format!("verification_hints.{name}");
    let texts = [
        ("type", &hints.kind),
        ("url", &hints.url),
        ("selector", &hints.selector),
        ("expected_content", &hints.expected_content),
    ];
    for (name, text) in texts {
        let max = if name == "type" { ENGINE_LEN_MAX } else { TEXT_LEN_MAX };
        if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > max) {
            return Err(bad(&field(name), format!("it has 1 to {max} bytes")));
        }
    }
    // It would be released without a verdict, past what decision 26 wants for that.
    if hints.kind.as_deref() == Some(engine::SELF_ATTESTED) {
        return Err(bad(&field("type"), "the provider's word is agreed on by auto_approve"));
    }
    if hints.custom.as_ref().is_some_and(|custom| !custom.is_object()) {
        return Err(bad(&field("custom"), "it is an object"));
    }
    Ok(())
}

/// Hints with what another side suggests in the places that were left open.
pub(crate) fn fill(hints: &Hints, more: &Hints) -> Hints {
    Hints {
        kind: hints.kind.clone().or_else(|| more.kind.clone()),
        url: hints.url.clone().or_else(|| more.url.clone()),
        selector: hints.selector.clone().or_else(|| more.selector.clone()),
        expected_content: hints.expected_content.clone().or(more.expected_content.clone()),
        fingerprint_delta: hints.fingerprint_delta.or(more.fingerprint_delta),
        auto_approve: hints.auto_approve,
        custom: hints.custom.clone().or_else(|| more.custom.clone()),
    }
}

/// The criteria as acceptance freezes them: with an engine that can judge them.
pub fn freeze(hints: &Hints) -> Hints {
    let named = hints.kind.as_deref().map(|kind| match kind {
        "url" => engine::HTTP,
        kind => kind,
    });
    let kind = match named {
        Some(engine::HUMAN) => engine::HUMAN,
        Some(engine::REQUESTER) => engine::REQUESTER,
        // Nothing that a machine could find wanting: the requester looks for itself.
        _ if !is_checkable(hints) => engine::REQUESTER,
        Some(kind) => kind,
        None if hints.url.is_some() => engine::HTTP,
        None => engine::ARTIFACT,
    };
    Hints { kind: Some(kind.to_owned()), auto_approve: None, ..hints.clone() }
}

fn is_checkable(hints: &Hints) -> bool {
    let custom = hints.custom.as_ref().and_then(Value::as_object);
    hints.url.is_some()
        || hints.selector.is_some()
        || hints.expected_content.is_some()
        || hints.fingerprint_delta == Some(true)
        || custom.is_some_and(|custom| !custom.is_empty())
}

/// What the verifier is asked, after the delivery has filled what the frozen terms left open.
pub fn spec(
    frozen: &Hints,
    delivered: Option<&Hints>,
    timeout_seconds: u64,
) -> Result<VerificationSpec, CriteriaChanged> {
    let none = Hints::default();
    let delivered = delivered.unwrap_or(&none);
    let is_delta = frozen.fingerprint_delta == Some(true);
    let kind = delivered.kind.as_deref().map(|k| if k == "url" { engine::HTTP } else { k });
    keep("type", frozen.kind.as_deref(), kind, false)?;
    keep("fingerprint_delta", Some(&is_delta), delivered.fingerprint_delta.as_ref(), false)?;
    // A status or a method of the provider's choosing could turn a failure into a pass.
    keep("custom", Some(&frozen.custom), delivered.custom.clone().map(Some).as_ref(), false)?;
    let url = keep("url", frozen.url.as_ref(), delivered.url.as_ref(), true)?;
    // A part of the page that the provider picks could hold what the whole does not, or differ
    // from the baseline's.
    let whole = is_delta || frozen.expected_content.is_some() || frozen.custom.is_some();
    let selector = keep("selector", frozen.selector.as_ref(), delivered.selector.as_ref(), !whole)?;
    let (want, say) = (frozen.expected_content.as_ref(), delivered.expected_content.as_ref());
    let may_fill = frozen.kind.as_deref() != Some(engine::COMPOSITE);
    let expected_content = keep("expected_content", want, say, may_fill)?;
    Ok(VerificationSpec {
        kind: frozen.kind.clone().unwrap_or_else(|| engine::REQUESTER.to_owned()),
        url: url.cloned(),
        selector: selector.cloned(),
        expected_content: expected_content.cloned(),
        fingerprint_delta: is_delta,
        timeout_seconds,
        baseline_fingerprint: None,
        custom: frozen.custom.clone(),
    })
}

/// The agreed value, or the delivered one where that is allowed to fill a gap.
fn keep<'a, T: PartialEq + ?Sized>(
    field: &str,
    agreed: Option<&'a T>,
    delivered: Option<&'a T>,
    may_fill: bool,
) -> Result<Option<&'a T>, CriteriaChanged> {
    match (agreed, delivered) {
        (Some(agreed), Some(delivered)) if agreed != delivered => {
            Err(CriteriaChanged { field: field.to_owned() })
        }
        (None, Some(_)) if !may_fill => Err(CriteriaChanged { field: field.to_owned() }),
        (agreed, delivered) => Ok(agreed.or(delivered)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hints(value: Value) -> Hints {
        serde_json::from_value(value).unwrap()
    }

    fn frozen_kind(value: Value) -> String {
        freeze(&hints(value)).kind.unwrap()
    }

    #[test]
    fn the_engine_follows_from_what_can_be_checked() {
        assert_eq!(frozen_kind(json!({})), "requester");
        assert_eq!(frozen_kind(json!({"type": "url"})), "requester");
        assert_eq!(frozen_kind(json!({"type": "artifact", "custom": {}})), "requester");
        assert_eq!(frozen_kind(json!({"type": "human", "url": "http://a"})), "human");
        assert_eq!(frozen_kind(json!({"url": "http://a"})), "http");
        assert_eq!(frozen_kind(json!({"type": "url", "expected_content": "x"})), "http");
        assert_eq!(frozen_kind(json!({"expected_content": "x"})), "artifact");
        assert_eq!(frozen_kind(json!({"type": "llm", "custom": {"rubric": "r"}})), "llm");
    }

    #[test]
    fn what_an_engine_would_not_understand_is_refused_before_it_is_agreed() {
        let refused = |value| check(&hints(value)).unwrap_err().to_string();
        let part = json!({"type": "artifact", "expected_content": "x"});
        let composite = json!({"mode": "all", "of": [part]});
        for good in [
            json!({"type": "llm", "custom": {"rubric": "It rhymes."}}),
            json!({"type": "composite", "url": "http://a", "custom": composite}),
            json!({"type": "browser", "url": "http://a", "expected_content": "x"}),
            json!({"type": "somebody's own", "custom": {"steps": 7}}),
        ] {
            check(&hints(good.clone())).unwrap();
            assert_eq!(frozen_kind(good.clone()), good["type"].as_str().unwrap());
        }
        assert!(refused(json!({"type": "llm", "url": "http://a"})).contains("custom"));
        assert!(refused(json!({"type": "composite", "custom": {"mode": "all"}})).contains("of"));
        let beside = json!({"type": "composite", "selector": "p", "custom": composite});
        assert!(refused(beside).contains("in its parts"));
        assert!(refused(json!({"type": "browser", "custom": {"steps": 7}})).contains("custom"));
        let agreed = freeze(&hints(json!({"type": "composite", "custom": composite})));
        assert_eq!(engines(&agreed), ["artifact", "composite"]);
        let beside = hints(json!({"expected_content": "y"}));
        assert_eq!(spec(&agreed, Some(&beside), 9).unwrap_err().field, "expected_content");
    }

    #[test]
    fn a_delivery_fills_gaps_and_changes_nothing_else() {
        let agreed = freeze(&hints(json!({"type": "http", "expected_content": "done"})));
        let filled = spec(&agreed, Some(&hints(json!({"url": "http://a"}))), 9).unwrap();
        assert_eq!(filled.url.as_deref(), Some("http://a"));
        assert_eq!(filled.expected_content.as_deref(), Some("done"));
        let refused =
            |agreed: &Hints, delivered| spec(agreed, Some(&hints(delivered)), 9).unwrap_err().field;
        assert_eq!(refused(&agreed, json!({"expected_content": "d"})), "expected_content");
        assert_eq!(refused(&agreed, json!({"type": "artifact"})), "type");
        assert_eq!(refused(&agreed, json!({"custom": {"status": 404}})), "custom");
        assert_eq!(refused(&agreed, json!({"fingerprint_delta": true})), "fingerprint_delta");
        let delta = freeze(&hints(json!({"url": "http://a", "fingerprint_delta": true})));
        assert_eq!(refused(&delta, json!({"selector": "p"})), "selector");
        assert_eq!(refused(&delta, json!({"fingerprint_delta": false})), "fingerprint_delta");
        assert_eq!(refused(&delta, json!({"url": "http://b"})), "url");
        assert!(spec(&delta, Some(&hints(json!({"url": "http://a"}))), 9).is_ok());
    }
}
