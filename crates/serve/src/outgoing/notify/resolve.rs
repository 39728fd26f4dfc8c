//! The addresses of name servers that are in no zone here, asked of the resolvers that are configured.
//!
//! One task for a zone at a time, and few that ask at one time. Without a resolver nobody is asked: the log says once which
//! name servers are not notified.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use nameward_wire::{NameBuf, Type};
use tokio::sync::{Semaphore, mpsc};

use crate::alias::{UnresolvedTarget, read_addresses};
use crate::pipeline::ServingState;
use crate::recursor::{Resolvers, UpstreamQuestion};

/// Zones whose name servers are being asked for; the name servers of more are not notified of this change.
const ZONES_MAX: usize = 10_000;
/// Zones that are asked for at one time.
const ASKING_MAX: usize = 32;
/// Name servers of one zone that are asked for.
const HOSTS_MAX: usize = 32;
/// Name servers of which the log says that they are not notified.
const LOGGED_MAX: usize = 1000;

/// The addresses of name servers of a zone.
pub(super) struct ResolvedServers {
    pub(super) zone: NameBuf,
    pub(super) addresses: Vec<IpAddr>,
    /// Name servers that have none, and why.
    failed: Vec<(NameBuf, String)>,
}

/// Asks for the addresses of name servers.
pub(super) struct NameServerResolver {
    shared: Arc<ServingState>,
    found: mpsc::Sender<ResolvedServers>,
    under_way: HashSet<NameBuf>,
    places: Arc<Semaphore>,
    logged: HashSet<NameBuf>,
}

impl NameServerResolver {
    /// Makes one that sends what it finds to `found`.
    pub(super) fn new(shared: Arc<ServingState>, found: mpsc::Sender<ResolvedServers>) -> Self {
        NameServerResolver {
            shared,
            found,
            under_way: HashSet::new(),
            places: Arc::new(Semaphore::new(ASKING_MAX)),
            logged: HashSet::new(),
        }
    }

    /// Asks for the addresses of name servers of a zone, unless that is being done.
    pub(super) fn resolve(&mut self, zone: NameBuf, mut hosts: Vec<NameBuf>) {
        let aliases = self.shared.aliases();
        let Some(resolvers) = aliases.and_then(|aliases| aliases.resolvers()) else {
            for host in hosts {
                let reason = "its address is in no zone here and there is no [recursor]";
                self.note_failure(zone, host, reason);
            }
            return;
        };
        hosts.truncate(HOSTS_MAX);
        if self.under_way.len() >= ZONES_MAX || !self.under_way.insert(zone) {
            return;
        }
        let (found, places) = (self.found.clone(), Arc::clone(&self.places));
        tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let servers = ask_all(&resolvers, zone, hosts).await;
            // Nobody listens any more at the end of the server.
            let _ = found.send(servers).await;
        });
    }

    /// Takes note that the name servers of a zone were asked for.
    pub(super) fn finish(&mut self, servers: &ResolvedServers) {
        self.under_way.remove(&servers.zone);
        for (host, reason) in &servers.failed {
            self.note_failure(servers.zone, *host, reason);
        }
    }

    /// Logs a name server that is not notified, once.
    fn note_failure(&mut self, zone: NameBuf, host: NameBuf, reason: &str) {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(host) {
            tracing::warn!(
                "zone {zone}: the name server {host} is not notified: {reason}; also_notify names servers by address"
            );
        }
    }
}

async fn ask_all(
    resolvers: &Arc<Resolvers>,
    zone: NameBuf,
    hosts: Vec<NameBuf>,
) -> ResolvedServers {
    let mut servers = ResolvedServers {
        zone,
        addresses: Vec::new(),
        failed: Vec::new(),
    };
    for host in hosts {
        let before = servers.addresses.len();
        let mut reason = String::from("it has no address");
        for rtype in [Type::A, Type::AAAA] {
            let question = UpstreamQuestion::new(host.as_name(), rtype);
            let reply = resolvers
                .ask(UpstreamQuestion::new(host.as_name(), rtype))
                .await;
            let read = reply
                .map_err(UnresolvedTarget::from)
                .and_then(|reply| read_addresses(&reply, &question));
            match read {
                Ok(found) => servers
                    .addresses
                    .extend(found.records.iter().filter_map(|octets| address(octets))),
                Err(error) => reason = error.to_string(),
            }
        }
        if servers.addresses.len() == before {
            servers.failed.push((host, reason));
        }
    }
    servers
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).into());
    v4.or_else(|_| v6()).ok()
}
