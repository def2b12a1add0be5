//! What every handler sees.

use std::{net::SocketAddr, ops::Deref, sync::Arc};

use skep_market::Market;

use crate::{
    config::{Config, Limits},
    docs::Documents,
    keys::Keys,
};

/// The state of the HTTP face. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Api(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) market: Market,
    pub(crate) keys: Keys,
    pub(crate) limits: Limits,
    pub(crate) documents: Documents,
    /// In lower case.
    own_names: Vec<String>,
}

impl Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Api {
    pub(crate) fn new(
        config: &Config,
        market: Market,
        local: SocketAddr,
        documents: Documents,
    ) -> Api {
        let mut own_names: Vec<String> =
            config.public_names.iter().map(|name| name.to_ascii_lowercase()).collect();
        own_names.push(local.to_string());
        if local.ip().is_loopback() {
            own_names.push(format!("localhost:{}", local.port()));
        }
        let keys = Keys::new();
        Api(Arc::new(Inner { market, keys, limits: config.limits, documents, own_names }))
    }

    /// Whether a request for this authority (in lower case) is for us.
    pub(crate) fn is_own_name(&self, authority: &str) -> bool {
        self.own_names.iter().any(|name| name == authority)
    }
}
