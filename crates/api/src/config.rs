//! What the HTTP face can be told. Every limit has a number, and every number a name.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// The authorities (`host` or `host:port`) under which others know this node. A request signed
    /// for another is refused. The address it listens on is always one of them.
    pub public_names: Vec<String>,
    pub tls: Option<TlsFiles>,
    /// A proxy in front ends TLS and appends the client's address to `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Test money exists: loopback only.
    pub dev: bool,
    /// Web pages of these origins may call; none by default.
    pub cors_origins: Vec<String>,
    pub limits: Limits,
    /// `None` switches rate limits off.
    pub rates: Option<Rates>,
}

impl Config {
    pub fn new(listen: SocketAddr) -> Config {
        Config {
            listen,
            public_names: Vec::new(),
            tls: None,
            behind_proxy: false,
            dev: false,
            cors_origins: Vec::new(),
            limits: Limits::default(),
            rates: Some(Rates::default()),
        }
    }
}

/// PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What one client can take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time; more wait in the kernel's queue.
    pub connections: usize,
    /// Connections of one address; more are closed at once. A proxy in front has no such limit.
    pub connections_per_address: usize,
    pub tls_handshake: Duration,
    /// From the first byte of a request to the end of its headers.
    pub header_read: Duration,
    pub headers: usize,
    pub header_bytes: usize,
    /// How long a connection may wait for its next request. HTTP/1 ends at `header_read` already.
    pub keep_alive_idle: Duration,
    /// Requests at one time on one HTTP/2 connection.
    pub streams: u32,
    pub body_bytes: usize,
    /// The longest pause in a body.
    pub body_idle: Duration,
    /// The longest time for a whole body.
    pub body_total: Duration,
    /// From the end of the headers to the answer.
    pub request: Duration,
    /// How long a shutdown waits for requests that were accepted.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            connections_per_address: 256,
            tls_handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(10),
            headers: 64,
            header_bytes: 32 * 1024,
            keep_alive_idle: Duration::from_secs(60),
            streams: 16,
            body_bytes: 64 * 1024,
            body_idle: Duration::from_secs(10),
            body_total: Duration::from_secs(20),
            request: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

/// A bucket of tokens: `burst` at once, then `per_second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub per_second: u32,
}

/// How often one address and one signer may call. Writes cost more than reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub address_read: Rate,
    pub address_write: Rate,
    pub signer_read: Rate,
    pub signer_write: Rate,
    /// How many callers are remembered; whoever was quiet longest is forgotten first.
    pub callers: usize,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            address_read: Rate { burst: 600, per_second: 200 },
            address_write: Rate { burst: 300, per_second: 100 },
            signer_read: Rate { burst: 300, per_second: 100 },
            signer_write: Rate { burst: 150, per_second: 50 },
            callers: 65_536,
        }
    }
}
