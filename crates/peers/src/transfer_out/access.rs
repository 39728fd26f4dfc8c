//! Access control for transfers: by address, by key, or because the client is one of the zone's name servers.

use std::net::IpAddr;

use nameward_maintain::policy::ZonePolicy;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{NameKey, Node, ViewId, Zone, ZoneTable};

use super::OutgoingTransfers;
use super::fault::PrepareFault;
use nameward_serve::pipeline::ServingState;
use nameward_serve::request::Request;

/// Maximum number of a zone's name servers whose addresses are looked up.
const SERVERS_MAX: usize = 32;

/// Whether a client may transfer a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferAccess {
    /// The client may.
    Allowed,
    /// The client may not.
    Refused,
    /// It may if it is a name server of the zone, whose data must be looked up first.
    NameServers,
}

/// Decides whether a client may transfer a zone, as far as known without blocking.
pub(super) fn access_of(
    policy: &ZonePolicy,
    request: &Request<'_>,
    zone: &Zone,
    table: &ZoneTable,
) -> TransferAccess {
    let client = request.peer.ip();
    if policy.allow_transfer.allows(&request.client()) {
        return TransferAccess::Allowed;
    }
    if !policy.transfer_to_name_servers {
        return TransferAccess::Refused;
    }
    if zone.live().is_some() {
        return TransferAccess::NameServers;
    }
    if is_name_server((client, request.view), zone, table) {
        TransferAccess::Allowed
    } else {
        TransferAccess::Refused
    }
}

/// Checks whether an address is that of a zone's name server, according to the zones in memory.
fn is_name_server((client, view): (IpAddr, ViewId), zone: &Zone, table: &ZoneTable) -> bool {
    let mut names = name_servers(zone);
    names.any(|name| {
        let key = NameKey::new(name);
        let host = table.match_in(view, &key, Type::A);
        let node = host.and_then(|host| host.zone.node(&key, key.labels()));
        node.is_some_and(|node| has_address(node, client))
    })
}

fn name_servers(zone: &Zone) -> impl Iterator<Item = Name<'_>> {
    let servers = zone.apex().rrset(Type::NS).into_iter();
    servers.flat_map(|servers| servers.records().filter_map(|record| record.target()))
}

fn has_address(node: Node<'_>, client: IpAddr) -> bool {
    let (rtype, address) = match client.to_canonical() {
        IpAddr::V4(v4) => (Type::A, v4.octets().to_vec()),
        IpAddr::V6(v6) => (Type::AAAA, v6.octets().to_vec()),
    };
    let rrset = node.rrset(rtype).into_iter();
    rrset
        .flat_map(|rrset| rrset.records())
        .any(|record| record.rdata == address)
}

impl OutgoingTransfers {
    /// Checks whether the client is a name server of a zone whose data is looked up: the names at its apex, and their
    /// addresses in our zones. May block.
    pub(super) fn check_name_server(
        &self,
        shared: &ServingState,
        zone: &Zone,
        (client, view): (IpAddr, ViewId),
    ) -> Result<(), PrepareFault> {
        let table = shared.zones.load();
        let apex = NameBuf::from(zone.apex_name());
        let servers: Vec<NameBuf> = self.with_contents(shared, (zone, apex), |zone| {
            let servers = name_servers(zone).take(SERVERS_MAX);
            servers.map(NameBuf::from).collect()
        })?;
        for mut server in servers {
            server.make_lowercase();
            let key = NameKey::new(server.as_name());
            let Some(found) = table.match_in(view, &key, Type::A) else {
                continue;
            };
            let is_client = self.with_contents(shared, (found.zone, server), |zone| {
                let node = zone.node_of(server.as_name());
                node.is_some_and(|node| has_address(node, client))
            })?;
            if is_client {
                return Ok(());
            }
        }
        Err(PrepareFault::NotNameServer)
    }

    fn with_contents<T>(
        &self,
        shared: &ServingState,
        place: (&Zone, NameBuf),
        look: impl FnOnce(&Zone) -> T,
    ) -> Result<T, PrepareFault> {
        let found = shared.live.with_contents(place, &self.runtime, look);
        found
            .map_err(PrepareFault::Backend)?
            .ok_or(PrepareFault::Gone)
    }
}
