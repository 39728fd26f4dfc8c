//! Servers to which no encrypted connection can be made, with the reason: a fault until a message
//! is exchanged with the server again, or until no zone uses it.

use std::collections::HashMap;

use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_maintain::policy::{Policies, RemoteServer, ZonePolicy};

use super::idle::{ConnectionKey, key_of};

/// Maximum number of recorded servers.
const SERVERS_MAX: usize = 256;

/// A server to which no encrypted connection can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTlsFault {
    /// Its address and transport.
    pub server: String,
    /// Its purpose.
    pub role: PeerRole,
    /// The failure in words.
    pub reason: String,
    /// When it first failed, in seconds since 1970.
    pub since: u64,
}

/// The use that zones have for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerRole {
    /// Zones are transferred from it.
    Primary,
    /// It is notified of changes.
    Secondary,
}

/// Failure of the last connection to a server.
struct RefusedConnection {
    server: RemoteServer,
    reason: String,
    since: u64,
}

/// The servers whose last connection failed.
#[derive(Default)]
pub(super) struct TlsFaults(Mutex<HashMap<ConnectionKey, RefusedConnection>>);

impl TlsFaults {
    /// Records a failure; consecutive failures share the time of the first.
    pub(super) fn record(&self, server: &RemoteServer, reason: String) {
        let Some(key) = key_of(server) else {
            return;
        };
        let mut refused = self.0.lock();
        if let Some(known) = refused.get_mut(&key) {
            known.reason = reason;
        } else if refused.len() < SERVERS_MAX {
            let connection = RefusedConnection {
                server: server.clone(),
                reason,
                since: now_seconds(),
            };
            refused.insert(key, connection);
        }
    }

    /// Clears the failure of a server: a message was exchanged with it.
    pub(super) fn clear(&self, server: &RemoteServer) {
        let mut refused = self.0.lock();
        if refused.is_empty() {
            return;
        }
        if let Some(key) = key_of(server) {
            refused.remove(&key);
        }
    }

    /// Lists the servers by address, and removes those that no zone uses any longer.
    pub(super) fn list(&self, policies: &Policies) -> Vec<PeerTlsFault> {
        let mut refused = self.0.lock();
        let mut found = Vec::new();
        refused.retain(|_, refused| {
            let role = role_of(&refused.server, policies);
            if let Some(role) = role {
                let fault = PeerTlsFault {
                    server: refused.server.to_string(),
                    role,
                    reason: refused.reason.clone(),
                    since: refused.since,
                };
                found.push((refused.server.address, fault));
            }
            role.is_some()
        });
        found.sort_by(|(one, a), (other, b)| (one, &a.reason).cmp(&(other, &b.reason)));
        found.into_iter().map(|(_, fault)| fault).collect()
    }
}

/// Returns what zones use a server for; `None` if no zone uses it.
fn role_of(server: &RemoteServer, policies: &Policies) -> Option<PeerRole> {
    let is_same = |other: &RemoteServer| {
        other.address == server.address && other.source == server.source && other.tls == server.tls
    };
    let is_primary = |policy: &ZonePolicy| policy.primaries.iter().any(is_same);
    let is_notified = |policy: &ZonePolicy| {
        let mut servers = policy.also_notify.iter().chain(&*policy.remotes);
        servers.any(is_same)
    };
    if policies.any(is_primary) {
        Some(PeerRole::Primary)
    } else {
        policies.any(is_notified).then_some(PeerRole::Secondary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_maintain::policy::{
        AlpnRule, PeerAuthentication, PeerTls, PeerTransport, PolicyFragment, PolicySet,
        PolicySource, PolicyTable,
    };
    use nameward_wire::NameBuf;
    use std::sync::Arc;

    fn server(address: &str) -> RemoteServer {
        RemoteServer {
            tls: Some(Arc::new(PeerTls {
                transport: PeerTransport::Tls,
                authentication: PeerAuthentication::Opportunistic,
                name: None,
                authorities: None,
                pins: Vec::new(),
                identity: None,
                alpn: AlpnRule::Required,
            })),
            ..RemoteServer::plain(address.parse().unwrap())
        }
    }

    #[test]
    fn a_fault_has_the_role_of_its_server_and_ends_with_it() {
        let [one, two] = ["192.0.2.1:853", "192.0.2.2:853"].map(server);
        let table = PolicyTable::default();
        let zone: NameBuf = "a.example.".parse().unwrap();
        let mut set = PolicySet::default();
        let part = PolicyFragment {
            primaries: Some(vec![one.clone()]),
            also_notify: Some(vec![two.clone()]),
            ..PolicyFragment::default()
        };
        set.set_zone(zone.as_name(), Arc::new(part));
        table.set(PolicySource::Configured, set);
        let faults = TlsFaults::default();
        faults.record(&two, "certificate expired".into());
        faults.record(&one, "certificate expired".into());
        faults.record(&one, "wrong name".into());
        faults.record(&RemoteServer::plain(one.address), "never".into());
        let shown = |faults: &TlsFaults| {
            let list = faults.list(&table.load()).into_iter();
            let list = list.map(|fault| (fault.server, fault.role, fault.reason));
            list.collect::<Vec<_>>()
        };
        let first = (
            "192.0.2.1:853 (TLS)".into(),
            PeerRole::Primary,
            "wrong name".into(),
        );
        let second = (
            "192.0.2.2:853 (TLS)".into(),
            PeerRole::Secondary,
            "certificate expired".into(),
        );
        assert_eq!(shown(&faults), [first, second.clone()]);
        faults.clear(&one);
        assert_eq!(shown(&faults), [second]);
        table.set(PolicySource::Configured, PolicySet::default());
        assert_eq!(shown(&faults), []);
        assert!(faults.0.lock().is_empty());
    }
}
