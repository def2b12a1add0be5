//! A web site of the test's own: pages that wait, fail or lead elsewhere, and what was sent there.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// What is answered at a path.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub status: u16,
    pub location: Option<String>,
    pub body: String,
    /// Whoever asks waits until this is over.
    pub held: bool,
}

impl Page {
    pub fn text(body: &str) -> Page {
        Page { status: 200, body: body.to_owned(), ..Page::default() }
    }

    pub fn status(status: u16) -> Page {
        Page { status, ..Page::default() }
    }

    pub fn to(location: &str) -> Page {
        Page { status: 302, location: Some(location.to_owned()), ..Page::default() }
    }

    pub fn held(self) -> Page {
        Page { held: true, ..self }
    }
}

/// What somebody sent.
#[derive(Clone, Debug)]
pub struct Visit {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    pages: Mutex<BTreeMap<String, Page>>,
    changed: Condvar,
    visits: Mutex<Vec<Visit>>,
}

/// Served on loopback until the test process ends; a path without a page is 404.
#[derive(Debug)]
pub struct Site {
    port: u16,
    state: Arc<State>,
}

impl Site {
    pub fn open() -> Site {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&served);
                // A verifier that was killed hangs up; nobody needs to know.
                thread::spawn(move || state.answer(stream).unwrap_or_default());
            }
        });
        Site { port, state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn put(&self, path: &str, page: Page) -> String {
        self.state.pages.lock().unwrap().insert(path.to_owned(), page);
        self.state.changed.notify_all();
        self.url(path)
    }

    pub fn visits(&self, path: &str) -> Vec<Visit> {
        let visits = self.state.visits.lock().unwrap();
        visits.iter().filter(|visit| visit.path == path).cloned().collect()
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let visit = read(&stream)?;
        let path = visit.path.clone();
        self.visits.lock().unwrap().push(visit);
        let mut pages = self.pages.lock().unwrap();
        let page = loop {
            match pages.get(&path) {
                Some(page) if page.held => pages = self.changed.wait(pages).unwrap(),
                found => break found.cloned().unwrap_or_else(|| Page::status(404)),
            }
        };
        drop(pages);
        let location = page.location.map(|to| format!("location: {to}\r\n")).unwrap_or_default();
        let is_html = page.body.starts_with("<!doctype html>");
        let kind = if is_html { "text/html; charset=utf-8" } else { "text/plain" };
        let head = format!(
            "HTTP/1.1 {} -\r\n{location}content-type: {kind}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            page.status,
            page.body.len()
        );
        stream.write_all((head + &page.body).as_bytes()).ok()
    }
}

fn read(stream: &TcpStream) -> Option<Visit> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HeaderMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let name: HeaderName = name.parse().ok()?;
        headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    let len =
        headers.get(http::header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let mut body = vec![0; len.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Visit { path, headers, body })
}
