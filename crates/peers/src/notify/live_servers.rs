//! The name servers of zones that are looked up in a database: their names at the zone's apex, and their addresses in
//! our zones.
//!
//! At most one look-up per zone and few in parallel. They bypass the caches, because they follow a
//! change.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::notify::pending::{host_addresses, notified_servers};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{LookupError, NameKey};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use nameward_serve::pipeline::ServingState;

/// Maximum number of pending zones; for further zones the name servers are not notified of this
/// change.
const ZONES_MAX: usize = 10_000;
/// Maximum number of concurrent look-ups.
const LOOKUPS_MAX: usize = 8;
/// Maximum number of name servers looked up per zone.
const HOSTS_MAX: usize = 32;

/// When a zone's name servers are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotifyTime {
    /// At once.
    Now,
    /// With the other changes of a minute.
    NextRound,
}

/// A zone's name servers according to a database.
pub(super) struct LiveServers {
    pub(super) zone: NameBuf,
    pub(super) time: NotifyTime,
    pub(super) addresses: Vec<IpAddr>,
    /// Name servers whose addresses are outside our zones.
    pub(super) unknown: Vec<NameBuf>,
    /// Why the result is incomplete.
    pub(super) failure: Option<LookupError>,
}

/// Looks up the name servers of zones.
pub(super) struct LiveServerLookup {
    shared: Arc<ServingState>,
    /// The runtime that the database connections belong to.
    runtime: Handle,
    found: mpsc::Sender<LiveServers>,
    in_progress: HashSet<NameBuf>,
    slots: Arc<Semaphore>,
}

impl LiveServerLookup {
    /// Creates a look-up that sends its results to `found`.
    pub(super) fn new(
        shared: Arc<ServingState>,
        runtime: Handle,
        found: mpsc::Sender<LiveServers>,
    ) -> Self {
        LiveServerLookup {
            shared,
            runtime,
            found,
            in_progress: HashSet::new(),
            slots: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }

    /// Looks up the name servers of a zone. If a look-up is in progress, its NOTIFY covers this
    /// change, too.
    pub(super) fn look_up(&mut self, zone: NameBuf, time: NotifyTime) {
        if self.in_progress.len() >= ZONES_MAX || !self.in_progress.insert(zone) {
            return;
        }
        let (shared, found) = (Arc::clone(&self.shared), self.found.clone());
        let (slots, runtime) = (Arc::clone(&self.slots), self.runtime.clone());
        tokio::spawn(async move {
            let _slot = slots.acquire_owned().await;
            // SQLite blocks its thread.
            let current = runtime.clone();
            let looking =
                runtime.spawn_blocking(move || LiveServers::look_up(zone, time, &shared, &current));
            if let Ok(servers) = looking.await {
                // At shutdown the receiver is already dropped.
                let _ = found.send(servers).await;
            }
        });
    }

    /// Records that the name servers of a zone were looked up.
    pub(super) fn finish(&mut self, zone: &NameBuf) {
        self.in_progress.remove(zone);
    }
}

impl LiveServers {
    /// Looks up the name servers of a zone; blocks until the database has answered. `runtime` is the one that its
    /// connections belong to.
    pub(super) fn look_up(
        zone: NameBuf,
        time: NotifyTime,
        shared: &ServingState,
        runtime: &Handle,
    ) -> Self {
        let mut servers = LiveServers {
            zone,
            time,
            addresses: Vec::new(),
            unknown: Vec::new(),
            failure: None,
        };
        servers.failure = servers.fill(shared, runtime).err();
        servers
    }

    fn fill(&mut self, shared: &ServingState, runtime: &Handle) -> Result<(), LookupError> {
        let table = shared.zones.load();
        let Some(zone) = table.exact(self.zone.as_name()) else {
            return Ok(());
        };
        let hosts: Option<Vec<NameBuf>> =
            shared
                .live
                .with_contents((zone, zone.apex_name().into()), runtime, |part| {
                    let servers = notified_servers(part).take(HOSTS_MAX);
                    servers.map(NameBuf::from).collect()
                })?;
        for mut host in hosts.unwrap_or_default() {
            host.make_lowercase();
            let Some(zone) = table.zone_for(&NameKey::new(host.as_name()), Type::A) else {
                self.unknown.push(host);
                continue;
            };
            shared.live.with_contents((zone, host), runtime, |part| {
                self.addresses.extend(host_addresses(part, host.as_name()));
            })?;
        }
        Ok(())
    }
}
