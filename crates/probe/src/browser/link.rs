//! Chromium's own protocol, over two pipes.
//!
//! A debugging port would be open to every process of the machine, and to a page that finds it;
//! the pipes belong to us and to the browser. A message is JSON and ends with a NUL byte.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, oneshot},
};

use super::BrowserError;

/// The longest message of the browser, in bytes. A page can make it long by what it logs.
const MESSAGE_LEN_MAX: usize = 64 * 1024 * 1024;
/// How much is read at once, in bytes.
const PIECE_LEN: usize = 64 * 1024;
/// Messages to the browser that wait to be written.
const WAITING_MAX: usize = 256;
/// What the browser may tell without being asked between two actions, in bytes: a page that logs
/// without end must not keep us busy.
const UNASKED_MAX: u64 = 256 * 1024 * 1024;

/// Something that happened in the browser.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) method: String,
    /// The tab that it is about; nothing if it is the browser.
    pub(super) session: Option<String>,
    pub(super) params: Value,
}

/// Whoever hears events, in their order. It must not wait for anything.
pub(super) trait Listener: Send + Sync {
    fn heard(&self, link: &Link, event: Event);
    /// The browser is gone.
    fn ended(&self);
}

/// Clones share the pipes.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    next: AtomicU64,
    waiting: Mutex<Waiting>,
    out: mpsc::Sender<Vec<u8>>,
    unasked: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    ended: bool,
}

/// A lock whose holders cannot leave it half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets a call that nobody waits for any more.
struct Forget<'a>(&'a Inner, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).calls.remove(&self.1);
    }
}

impl Link {
    pub(super) fn new(
        mut stdin: ChildStdin,
        stdout: ChildStdout,
        listener: Arc<dyn Listener>,
    ) -> Link {
        let (out, mut to_write) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
        let link = Link(Arc::new(Inner {
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            out,
            unasked: AtomicU64::new(0),
        }));
        tokio::spawn(async move {
            while let Some(message) = to_write.recv().await {
                if stdin.write_all(&message).await.is_err() {
                    break;
                }
            }
        });
        let weak = Arc::downgrade(&link.0);
        tokio::spawn(async move {
            read(&weak, stdout, &*listener).await;
            if let Some(inner) = weak.upgrade() {
                let mut waiting = lock(&inner.waiting);
                waiting.ended = true;
                waiting.calls.clear();
            }
            listener.ended();
        });
        link
    }

    /// What the browser says before the next action counts from here.
    pub(super) fn begin_action(&self) {
        self.0.unasked.store(0, Ordering::Relaxed);
    }

    /// Asks the browser (or one of its tabs) and waits for the answer, however long that takes.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = lock(&self.0.waiting);
            if waiting.ended {
                return Err(BrowserError::Crashed);
            }
            waiting.calls.insert(id, answer);
        }
        let _forget = Forget(&self.0, id);
        let message = encode(id, session, method, &params);
        self.0.out.send(message).await.map_err(|_| BrowserError::Crashed)?;
        answered
            .await
            .map_err(|_| BrowserError::Crashed)?
            .map_err(|reason| BrowserError::Protocol { method: method.to_owned(), reason })
    }

    /// Tells the browser something and does not wait.
    pub(super) fn tell(&self, session: Option<&str>, method: &str, params: &Value) {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let _ = self.0.out.try_send(encode(id, session, method, params));
    }
}

fn encode(id: u64, session: Option<&str>, method: &str, params: &Value) -> Vec<u8> {
    let mut message = json!({"id": id, "method": method, "params": params});
    if let Some(session) = session {
        message["sessionId"] = session.into();
    }
    let mut bytes = message.to_string().into_bytes();
    bytes.push(0);
    bytes
}

/// Reads until the browser ends, says too much, or nobody listens any more.
async fn read(inner: &Weak<Inner>, mut stdout: ChildStdout, listener: &dyn Listener) {
    let mut piece = vec![0; PIECE_LEN];
    let mut message = Vec::new();
    loop {
        let count = match stdout.read(&mut piece).await {
            Ok(count) if count > 0 => count,
            _ => return,
        };
        let mut rest = &piece[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            message.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let Some(inner) = inner.upgrade() else { return };
            if !dispatch(&Link(inner), &message, listener) {
                return;
            }
            message.clear();
            // A long answer leaves its room behind; most are short.
            message.shrink_to(PIECE_LEN);
        }
        if message.len() + rest.len() > MESSAGE_LEN_MAX {
            return;
        }
        message.extend_from_slice(rest);
        tokio::task::yield_now().await;
    }
}

/// JavaScript's texts may hold half a character, which the browser writes as an escape that is no
/// character. It becomes the sign for what cannot be read, of the same length.
fn well_formed(message: &[u8]) -> Cow<'_, [u8]> {
    const UNREADABLE: &[u8] = br"\ufffd";
    let unit = |at: usize| -> Option<u16> {
        let escape = message.get(at..at + 6).filter(|escape| escape.starts_with(br"\u"))?;
        u16::from_str_radix(str::from_utf8(&escape[2..]).ok()?, 16).ok()
    };
    let mut mended = Cow::Borrowed(message);
    let mut at = 0;
    while let Some(found) = message[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.to_mut()[at..at + 6].copy_from_slice(UNREADABLE);
                6
            }
            // Whatever else is escaped, another backslash included.
            _ => 2,
        };
        at = (at + length).min(message.len());
    }
    mended
}

/// Says whether to go on.
fn dispatch(link: &Link, message: &[u8], listener: &dyn Listener) -> bool {
    let Ok(mut value) = serde_json::from_slice::<Value>(&well_formed(message)) else {
        return false;
    };
    if let Some(id) = value["id"].as_u64() {
        if let Some(call) = lock(&link.0.waiting).calls.remove(&id) {
            let answer = match value["error"]["message"].as_str() {
                Some(reason) => Err(reason.to_owned()),
                None => Ok(value["result"].take()),
            };
            let _ = call.send(answer);
        }
        return true;
    }
    let length = message.len() as u64;
    if link.0.unasked.fetch_add(length, Ordering::Relaxed) + length > UNASKED_MAX {
        return false;
    }
    let Value::String(method) = value["method"].take() else { return true };
    let session = value["sessionId"].as_str().map(str::to_owned);
    listener.heard(link, Event { method, session, params: value["params"].take() });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_mended_and_nothing_else() {
        for (given, wanted) in [
            (r#"{"a":"\ud801"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\udc01x\ud83d"}"#, r#"{"a":"\ufffdx\ufffd"}"#),
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ud83d\ude00"}"#),
            (r#"{"a":"\\ud801 \n"}"#, r#"{"a":"\\ud801 \n"}"#),
            (r#"{"a":"\ud8"#, r#"{"a":"\ud8"#),
            ("\\", "\\"),
        ] {
            assert_eq!(str::from_utf8(&well_formed(given.as_bytes())).unwrap(), wanted);
        }
    }
}
