//! What a session's log says was done, and where.

use serde_json::Value;
use skep_wire::conduit::{SessionBundle, SessionStatus};

/// How a session counts, if it does. Whoever says that it went well must have done something
/// somewhere; that it went badly needs an attempt only.
pub fn outcome(bundle: &SessionBundle) -> Option<bool> {
    let log = &bundle.action_log;
    let (ok, counts) = match bundle.status {
        SessionStatus::Completed => (true, log.iter().any(|action| done_at(action).is_some())),
        SessionStatus::Failed => (false, log.iter().any(|action| host(action).is_some())),
        _ => return None,
    };
    counts.then_some(ok)
}

/// Whether an action did what it was asked for.
pub fn is_done(action: &Value) -> bool {
    action.get("success").and_then(Value::as_bool) == Some(true)
}

/// The host that something was done at.
pub fn done_at(action: &Value) -> Option<&str> {
    host(action).filter(|_| is_done(action))
}

/// The host of an action on the web: without port and user.
fn host(action: &Value) -> Option<&str> {
    let url = action.get("url")?.as_str()?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}
