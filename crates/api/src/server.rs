//! The node's own door.

use std::{fmt, future::Future, io, net::SocketAddr};

use axum::Router;
use skep_market::Market;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{
    api::Api,
    config::{Config, Limits},
    connection::{self, Drained},
    docs,
    frame::Frame,
    metrics, routes,
    tls::{self, TlsError},
};

#[cfg(test)]
mod tests;

/// Why the node does not serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{listen} cannot be listened on: {source}")]
    Listen { listen: SocketAddr, source: io::Error },
    #[error(
        "{listen} is reachable from outside: give a certificate (--tls-cert, --tls-key), or say \
         --behind-proxy if a proxy ends TLS"
    )]
    NotEncrypted { listen: SocketAddr },
    #[error("a node with test money listens on loopback only, not on {listen}")]
    DevBeyondLoopback { listen: SocketAddr },
    #[error("{listen} is no name that requests can be signed for: give a public name")]
    NoName { listen: SocketAddr },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound listener and everything that will answer on it.
pub struct Server {
    listener: TcpListener,
    local: SocketAddr,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    app: Router,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens. From here on connections wait; [`Server::serve`] answers them.
    pub async fn bind(config: Config, market: Market) -> Result<Server, StartError> {
        let (router, description) = routes::router().split_for_parts();
        let documents = docs::Documents::new(description);
        Server::bind_with(config, |config, local| {
            router.with_state(Api::new(config, market, local, documents))
        })
        .await
    }

    /// Listens and puts the layers round whatever routes there are.
    pub(crate) async fn bind_with(
        config: Config,
        routes: impl FnOnce(&Config, SocketAddr) -> Router,
    ) -> Result<Server, StartError> {
        check_exposure(&config)?;
        metrics::install();
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let listen = config.listen;
        let fault = |source| StartError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(fault)?;
        let local = listener.local_addr().map_err(fault)?;
        let app = Frame::new(&config).wrap(routes(&config, local));
        let mut limits = config.limits;
        if config.behind_proxy {
            limits.connections_per_address = usize::MAX;
        }
        Ok(Server { listener, local, tls, limits, app })
    }

    /// Where it listens; the port is known also where port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How to reach it from this machine.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.local)
    }

    /// Answers until `shutdown` is done, then finishes what was accepted and returns.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Drained {
        let upkeep = tokio::spawn(metrics::upkeep());
        let Server { listener, tls, limits, app, .. } = self;
        let drained = connection::serve(listener, tls, limits, app, shutdown).await;
        upkeep.abort();
        drained
    }
}

/// Nothing leaves the machine in the clear by accident, and test money never does.
fn check_exposure(config: &Config) -> Result<(), StartError> {
    let listen = config.listen;
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if config.dev {
        return Err(StartError::DevBeyondLoopback { listen });
    }
    if config.tls.is_none() && !config.behind_proxy {
        return Err(StartError::NotEncrypted { listen });
    }
    if listen.ip().is_unspecified() && config.public_names.is_empty() {
        return Err(StartError::NoName { listen });
    }
    Ok(())
}
