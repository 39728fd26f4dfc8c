//! The name servers of zones that are looked up in a database: their names at the zone's apex, and the address of each in the zone
//! here that has it.
//!
//! One look-up for a zone at a time, and few at one time. It goes past the caches, since it follows a change.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use nameward_maintain::notify_out::{host_addresses, notified_servers};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{LookupError, NameKey};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::pipeline::ServingState;

/// Zones whose name servers are being looked up; the name servers of more are not notified of this change.
const ZONES_MAX: usize = 10_000;
/// Zones that are looked up at one time.
const LOOKUPS_MAX: usize = 8;
/// Name servers of one zone that are looked up.
const HOSTS_MAX: usize = 32;

/// When the name servers of a zone are to be notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotifyTime {
    /// At once.
    Now,
    /// With the other changes of a minute.
    NextRound,
}

/// The name servers of a zone, as a database has them.
pub(super) struct LiveServers {
    pub(super) zone: NameBuf,
    pub(super) time: NotifyTime,
    pub(super) addresses: Vec<IpAddr>,
    /// Name servers whose addresses are in no zone here.
    pub(super) unknown: Vec<NameBuf>,
    /// Why not all of it is known.
    pub(super) failure: Option<LookupError>,
}

/// Looks up the name servers of zones.
pub(super) struct LiveServerLookup {
    shared: Arc<ServingState>,
    /// The runtime that the connections of databases belong to.
    runtime: Handle,
    found: mpsc::Sender<LiveServers>,
    under_way: HashSet<NameBuf>,
    places: Arc<Semaphore>,
}

impl LiveServerLookup {
    /// Makes one that sends what it finds to `found`.
    pub(super) fn new(
        shared: Arc<ServingState>,
        runtime: Handle,
        found: mpsc::Sender<LiveServers>,
    ) -> Self {
        LiveServerLookup {
            shared,
            runtime,
            found,
            under_way: HashSet::new(),
            places: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }

    /// Looks up the name servers of a zone. Where that is being done already, its end comes after this change, too.
    pub(super) fn look_up(&mut self, zone: NameBuf, time: NotifyTime) {
        if self.under_way.len() >= ZONES_MAX || !self.under_way.insert(zone) {
            return;
        }
        let (shared, found) = (Arc::clone(&self.shared), self.found.clone());
        let (places, runtime) = (Arc::clone(&self.places), self.runtime.clone());
        tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            // SQLite keeps its thread waiting.
            let current = runtime.clone();
            let looking =
                runtime.spawn_blocking(move || LiveServers::look_up(zone, time, &shared, &current));
            if let Ok(servers) = looking.await {
                // Nobody listens any more at the end of the server.
                let _ = found.send(servers).await;
            }
        });
    }

    /// Takes note that the name servers of a zone were looked up.
    pub(super) fn finish(&mut self, zone: &NameBuf) {
        self.under_way.remove(zone);
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
                .with_contents((zone, self.zone), runtime, |part| {
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
