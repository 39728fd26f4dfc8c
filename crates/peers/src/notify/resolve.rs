//! The addresses of name servers outside our zones, queried from the configured resolvers.
//!
//! At most one task per zone and few in parallel. Without a resolver nothing is queried: the log says once which name
//! servers are not notified.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::pending::address;
use nameward_wire::{NameBuf, Type};
use tokio::sync::{Semaphore, mpsc};

use nameward_serve::alias::{UnresolvedTarget, read_addresses};
use nameward_serve::pipeline::ServingState;
use nameward_serve::recursor::{Resolvers, UpstreamMessage};

/// Maximum number of pending zones; for further zones the name servers are not notified of this
/// change.
const ZONES_MAX: usize = 10_000;
/// Maximum number of zones resolved in parallel.
const RESOLUTIONS_MAX: usize = 32;
/// Maximum number of name servers resolved per zone.
const HOSTS_MAX: usize = 32;
/// Maximum number of name servers logged as not notified.
const LOGGED_MAX: usize = 1000;

/// The resolved name servers of a zone.
pub(super) struct ResolvedServers {
    pub(super) zone: NameBuf,
    pub(super) addresses: Vec<IpAddr>,
    /// Name servers without addresses, and why.
    failed: Vec<(NameBuf, String)>,
}

/// Resolves the addresses of name servers.
pub(super) struct NameServerResolver {
    shared: Arc<ServingState>,
    found: mpsc::Sender<ResolvedServers>,
    in_progress: HashSet<NameBuf>,
    slots: Arc<Semaphore>,
    logged: HashSet<NameBuf>,
}

impl NameServerResolver {
    /// Creates a resolver that sends its results to `found`.
    pub(super) fn new(shared: Arc<ServingState>, found: mpsc::Sender<ResolvedServers>) -> Self {
        NameServerResolver {
            shared,
            found,
            in_progress: HashSet::new(),
            slots: Arc::new(Semaphore::new(RESOLUTIONS_MAX)),
            logged: HashSet::new(),
        }
    }

    /// Resolves name servers of a zone, unless that is in progress.
    pub(super) fn resolve(&mut self, zone: NameBuf, mut hosts: Vec<NameBuf>) {
        let aliases = self.shared.aliases();
        let Some(resolvers) = aliases.and_then(|aliases| aliases.resolvers()) else {
            for host in hosts {
                let reason =
                    "its address is not in a zone of this server and no [recursor] is configured";
                self.log_failure(zone, host, reason);
            }
            return;
        };
        hosts.truncate(HOSTS_MAX);
        if self.in_progress.len() >= ZONES_MAX || !self.in_progress.insert(zone) {
            return;
        }
        let (found, slots) = (self.found.clone(), Arc::clone(&self.slots));
        tokio::spawn(async move {
            let _slot = slots.acquire_owned().await;
            let servers = resolve_all(&resolvers, zone, hosts).await;
            // At shutdown the receiver is already dropped.
            let _ = found.send(servers).await;
        });
    }

    /// Records that the name servers of a zone were resolved.
    pub(super) fn finish(&mut self, servers: &ResolvedServers) {
        self.in_progress.remove(&servers.zone);
        for (host, reason) in &servers.failed {
            self.log_failure(servers.zone, *host, reason);
        }
    }

    /// Logs a name server that is not notified, once.
    fn log_failure(&mut self, zone: NameBuf, host: NameBuf, reason: &str) {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(host) {
            tracing::warn!(
                "zone {zone}: cannot send NOTIFY to name server {host}: {reason}; list its address in also_notify"
            );
        }
    }
}

async fn resolve_all(
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
            let question = UpstreamMessage::new(host.as_name(), rtype);
            let reply = resolvers.resolve(question.clone()).await;
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
