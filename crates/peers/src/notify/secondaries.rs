//! The serials of a zone's secondaries, queried for an operator who wants to know whether all have
//! a version.
//!
//! These are the servers that are notified of changes. All are queried in parallel with one
//! deadline, so an unresponsive server does not delay the others.

use std::sync::Arc;
use std::time::Duration;

use crate::notify::pending::{name_server_targets, notify_targets};
use crate::transfer_in::SoaReply;
use nameward_maintain::policy::RemoteServer;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use tokio::time::timeout;

use super::live_servers::{LiveServers, NotifyTime};
use super::sender::is_own_address;
use super::{Notifier, NotifyContext};
use crate::connections::PeerConnections;
use crate::primaries::QueryForm;
use crate::primaries::soa::query_soa;

/// Maximum number of servers queried per zone.
const SERVERS_MAX: usize = 64;
/// Timeout for a server.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why a secondary's serial is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownSerial(pub String);

/// A secondary's serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondarySerial {
    /// Its address and port, or its name if no address is known.
    pub server: String,
    /// The serial, or why it is unknown.
    pub serial: Result<Serial, UnknownSerial>,
}

impl Notifier {
    /// Queries the serials of the servers that are notified of a zone's changes. Blocks for some
    /// seconds at most; must not be called on a runtime thread.
    pub fn secondary_serials(&self, zone: NameBuf) -> Vec<SecondarySerial> {
        let context = &self.shared.context;
        let (mut targets, unknown) = context.targets(zone);
        targets.truncate(SERVERS_MAX);
        let mut serials: Vec<SecondarySerial> = context.runtime.block_on(async {
            let mut asking = tokio::task::JoinSet::new();
            for target in targets {
                let connections = Arc::clone(&context.connections);
                asking.spawn(async move { query_serial(&connections, target, zone).await });
            }
            asking.join_all().await
        });
        serials.extend(unknown.into_iter().take(SERVERS_MAX).map(|host| {
            let reason = "its address is not in a zone of this server; list it in also_notify";
            SecondarySerial {
                server: host.to_string(),
                serial: Err(UnknownSerial(reason.into())),
            }
        }));
        serials.sort_by(|a, b| a.server.cmp(&b.server));
        serials
    }
}

impl NotifyContext {
    /// Lists the servers that are notified of a zone's changes, and the name servers whose addresses are unknown.
    fn targets(&self, zone: NameBuf) -> (Vec<RemoteServer>, Vec<NameBuf>) {
        let (table, policies) = self.load();
        let Some(served) = table.exact(zone.as_name()) else {
            return (Vec::new(), Vec::new());
        };
        let policy = policies.get(zone.as_name());
        let origin = self.databases.origin(served);
        let mut found = notify_targets((served, origin), &table, policy);
        if policy.notifies_name_servers(origin) && served.live().is_some() {
            let servers =
                LiveServers::look_up(zone, NotifyTime::Now, &self.shared, &self.database_runtime);
            let addresses = servers.addresses.into_iter();
            found.servers.extend(name_server_targets(policy, addresses));
            found.unknown.extend(servers.unknown);
        }
        found.servers.sort_by_key(|target| target.address);
        found.servers.dedup_by_key(|target| target.address);
        let is_other = |target: &RemoteServer| !is_own_address(&self.listens, target.address);
        found.servers.retain(is_other);
        (found.servers, found.unknown)
    }
}

async fn query_serial(
    connections: &PeerConnections,
    target: RemoteServer,
    zone: NameBuf,
) -> SecondarySerial {
    let server = target.address.to_string();
    // Without a key: it is an ordinary query that anyone may send.
    let queried = query_soa(connections, (&target, None), zone, QueryForm::Plain);
    let serial = match timeout(TIMEOUT, queried).await {
        Err(_) => Err(UnknownSerial("no response".into())),
        Ok(Err(error)) => Err(UnknownSerial(error.to_string())),
        Ok(Ok(SoaReply::Serial(serial, _))) => Ok(serial),
        Ok(Ok(SoaReply::Truncated)) => Err(UnknownSerial("the response is truncated".into())),
    };
    SecondarySerial { server, serial }
}
