//! Names become addresses here, once for each connection, and only good ones come out.
//!
//! The connector is handed the addresses that were judged and never asks again, so an answer that
//! changes between the judgement and the connection (DNS rebinding) changes nothing.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    pin::Pin,
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use tokio::sync::Semaphore;

use super::{EgressError, address};

/// What a [`Lookup`] promises.
pub type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where the addresses of a name come from.
pub trait Lookup: Send + Sync + fmt::Debug {
    fn lookup(&self, host: &str) -> LookingUp;
}

/// Names that the operating system is asked for at a time.
static PLACES: Semaphore = Semaphore::const_new(64);

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> LookingUp {
        let host = host.to_owned();
        Box::pin(async move {
            let place = PLACES.acquire().await.map_err(io::Error::other)?;
            // The system's resolver cannot be stopped: its place is taken until it is done, even
            // if nobody waits any more, so that slow name servers do not take all threads.
            let looking = tokio::task::spawn_blocking(move || {
                let _place = place;
                let found = (host.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            looking.await.map_err(io::Error::other)?
        })
    }
}

/// Stands between reqwest and a [`Lookup`].
#[derive(Clone, Debug)]
pub(crate) struct GuardedResolver {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) allow_loopback: bool,
}

impl GuardedResolver {
    /// One bad address among good ones refuses the name: which one a connection would take is
    /// not ours to choose.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let unreachable = |reason: String| EgressError::Unreachable { host: host.into(), reason };
        let private = address::is_private_name(host);
        if private && !self.allow_loopback {
            return Err(EgressError::ForbiddenName { host: host.to_owned() });
        }
        let found = self
            .lookup
            .lookup(host)
            .await
            .map_err(|error| unreachable(format!("its name was not resolved: {error}")))?;
        if found.is_empty() {
            return Err(unreachable("its name has no address".to_owned()));
        }
        for ip in &found {
            let outside = private && !ip.is_loopback();
            if outside || address::why_forbidden(*ip, self.allow_loopback).is_some() {
                return Err(EgressError::ForbiddenAddress { host: host.to_owned(), ip: *ip });
            }
        }
        Ok(found)
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found = guard.addresses(name.as_str()).await?;
            // Port 0 stands for the port of the URL.
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}
