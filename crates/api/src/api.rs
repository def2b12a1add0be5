//! What every handler sees.

use std::{net::SocketAddr, ops::Deref, sync::Arc};

use skep_base::AgentId;
use skep_market::Market;
use skep_wire::http_signature::KeyId;

use crate::{
    config::{Config, Limits},
    docs::Documents,
    extract::AgentName,
    keys::Keys,
    problem::ApiError,
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
        let mut own_names = vec![local.to_string()];
        for name in &config.public_names {
            let name = name.to_ascii_lowercase();
            if !has_port(&name) {
                // Whether a proxy or this listener serves the default port, nobody needs to say.
                own_names.push(format!("{name}:{}", local.port()));
            }
            own_names.push(name);
        }
        if local.ip().is_loopback() {
            own_names.push(format!("localhost:{}", local.port()));
        }
        let keys = Keys::new();
        Api(Arc::new(Inner { market, keys, limits: config.limits, documents, own_names }))
    }

    /// An agent's address, also while it has no key that signs.
    pub(crate) async fn agent_id(&self, name: &KeyId) -> Result<AgentId, ApiError> {
        match name {
            KeyId::Agent(agent) => Ok(*agent),
            KeyId::Did(did) => Ok(self.market.agent(&did.to_string()).await?.agent_id),
        }
    }

    /// An agent by any name that scores go by.
    pub(crate) async fn scored(&self, name: &AgentName) -> Result<AgentId, ApiError> {
        match name {
            AgentName::Key(name) => self.agent_id(name).await,
            AgentName::Passport(id) => Ok(self.market.agent_with_passport(id).await?),
        }
    }

    /// Whether a request for this authority (in lower case) is for us.
    pub(crate) fn is_own_name(&self, authority: &str) -> bool {
        self.own_names.iter().any(|name| name == authority)
    }
}

/// `host:port`; the colons of a bare IPv6 address are no port's.
fn has_port(authority: &str) -> bool {
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    after_host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_seen() {
        let with: Vec<bool> =
            ["a.example:80", "[::1]:80", "a.example", "[::1]", "10.0.0.1:1"].map(has_port).into();
        assert_eq!(with, [true, true, false, false, true]);
    }
}
