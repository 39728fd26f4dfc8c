//! The serials that the secondaries of a zone have, asked of each when an operator wants to know whether all have a version.
//!
//! The servers are those that are notified of changes. All are asked at one time and with one deadline, so a server that is
//! silent costs no more than that.

use std::time::Duration;

use nameward_maintain::notify_out::{name_server_targets, notify_targets};
use nameward_maintain::policy::RemoteServer;
use nameward_maintain::transfer::SoaReply;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use tokio::time::timeout;

use super::live_servers::{LiveServers, NotifyTime};
use super::sender::is_ourselves;
use super::{Notifier, StartParts};
use crate::outgoing::QuestionForm;
use crate::outgoing::soa::ask_soa;

/// Servers of one zone that are asked.
const SERVERS_MAX: usize = 64;
/// The longest time that a server may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why the serial of a secondary is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownSerial(pub String);

/// The serial that a secondary has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondarySerial {
    /// Its address and port, or its name where no address is known.
    pub server: String,
    /// The serial, or why it is not known.
    pub serial: Result<Serial, UnknownSerial>,
}

impl Notifier {
    /// Asks the servers that are notified of a zone's changes for the serial that they have. Blocks for some seconds at
    /// most; not for threads of a runtime.
    pub fn secondary_serials(&self, zone: NameBuf) -> Vec<SecondarySerial> {
        let Some(start) = self.shared.start.get() else {
            return Vec::new();
        };
        let (mut targets, unknown) = start.targets(zone);
        targets.truncate(SERVERS_MAX);
        let mut serials: Vec<SecondarySerial> = start.runtime.block_on(async {
            let mut asking = tokio::task::JoinSet::new();
            for target in targets {
                asking.spawn(ask(target, zone));
            }
            asking.join_all().await
        });
        serials.extend(unknown.into_iter().take(SERVERS_MAX).map(|host| {
            let reason = "its address is in no zone here; also_notify names servers by address";
            SecondarySerial {
                server: host.to_string(),
                serial: Err(UnknownSerial(reason.into())),
            }
        }));
        serials.sort_by(|a, b| a.server.cmp(&b.server));
        serials
    }
}

impl StartParts {
    /// Lists the servers that are notified of a zone's changes, and name servers whose addresses are not known.
    fn targets(&self, zone: NameBuf) -> (Vec<RemoteServer>, Vec<NameBuf>) {
        let (table, policies) = (self.zones.load(), self.policies.load());
        let Some(served) = table.exact(zone.as_name()) else {
            return (Vec::new(), Vec::new());
        };
        let policy = policies.of(zone.as_name());
        let mut found = notify_targets(served, &table, policy);
        if policy.notify_name_servers && served.live().is_some() {
            let servers =
                LiveServers::look_up(zone, NotifyTime::Now, &self.shared, &self.database_runtime);
            let addresses = servers.addresses.into_iter();
            found.servers.extend(name_server_targets(policy, addresses));
            found.unknown.extend(servers.unknown);
        }
        found.servers.sort_by_key(|target| target.address);
        found.servers.dedup_by_key(|target| target.address);
        let is_other = |target: &RemoteServer| !is_ourselves(&self.listens, target.address);
        found.servers.retain(is_other);
        (found.servers, found.unknown)
    }
}

async fn ask(target: RemoteServer, zone: NameBuf) -> SecondarySerial {
    let server = target.address.to_string();
    // Without a key: it is an ordinary question that anybody may ask.
    let asked = ask_soa((&target, None), zone, QuestionForm::Plain);
    let serial = match timeout(PATIENCE, asked).await {
        Err(_) => Err(UnknownSerial("no reply".into())),
        Ok(Err(error)) => Err(UnknownSerial(error.to_string())),
        Ok(Ok(SoaReply::Serial(serial, _))) => Ok(serial),
        Ok(Ok(SoaReply::Truncated)) => Err(UnknownSerial("its reply is truncated".into())),
    };
    SecondarySerial { server, serial }
}
