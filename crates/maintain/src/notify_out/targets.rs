//! The servers that are told of a zone's changes.

use crate::policy::{RemoteServer, ZonePolicy};
use nameward_wire::{Name, Type};
use nameward_zone::{Node, Zone, ZoneTable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of name servers.
const DNS_PORT: u16 = 53;
/// Servers that one zone may have told.
const TARGETS_MAX: usize = 20_000;

/// Lists the servers that are told of a change of a zone: the name servers of the zone but the one its SOA names, which
/// is the primary (RFC 1996 section 2), as far as their addresses are in zones of this server, and those that the policy
/// adds. No name is resolved elsewhere.
pub fn notify_targets(zone: &Zone, table: &ZoneTable, policy: &ZonePolicy) -> Vec<RemoteServer> {
    let mut targets: Vec<RemoteServer> = Vec::new();
    if policy.notify_name_servers && !zone.is_stand_in() {
        let soa = zone.soa().and_then(|soa| soa.records().next());
        let mname = soa.and_then(|soa| Name::split_from(soa.rdata).ok());
        let servers = zone.apex().rrset(Type::NS);
        for record in servers.into_iter().flat_map(|rrset| rrset.records()) {
            let Ok(host) = Name::from_wire(record.rdata) else {
                continue;
            };
            if mname.is_some_and(|(mname, _)| mname == host) {
                continue;
            }
            addresses(host, zone, table, |ip| {
                targets.push(RemoteServer {
                    address: SocketAddr::new(ip, DNS_PORT),
                    key: None,
                    source: None,
                });
            });
        }
    }
    // One that is named with a key is told with that key, and once.
    let is_named = |target: &RemoteServer| {
        let same = |other: &RemoteServer| other.address == target.address;
        policy.also_notify.iter().any(same)
    };
    targets.retain(|target| !is_named(target));
    targets.extend(policy.also_notify.iter().cloned());
    targets.sort_by_key(|target| target.address);
    targets.dedup_by_key(|target| target.address);
    targets.truncate(TARGETS_MAX);
    targets
}

/// Finds the addresses of a host in the zone itself, glue included, or in another zone in memory.
fn addresses(host: Name<'_>, zone: &Zone, table: &ZoneTable, mut found: impl FnMut(IpAddr)) {
    let own = match host.is_at_or_below(zone.apex_name()) {
        true => zone.node_of(host),
        false => None,
    };
    if let Some(node) = own {
        return node_addresses(node, found);
    }
    let mut name = Some(host);
    while let Some(apex) = name {
        if let Some(other) = table.exact(apex) {
            if !other.is_stand_in()
                && let Some(node) = other.node_of(host)
            {
                node_addresses(node, &mut found);
            }
            return;
        }
        name = apex.parent();
    }
}

fn node_addresses(node: Node<'_>, mut found: impl FnMut(IpAddr)) {
    for record in node
        .rrset(Type::A)
        .into_iter()
        .flat_map(|rrset| rrset.records())
    {
        if let Ok(octets) = <[u8; 4]>::try_from(record.rdata) {
            found(Ipv4Addr::from(octets).into());
        }
    }
    for record in node
        .rrset(Type::AAAA)
        .into_iter()
        .flat_map(|rrset| rrset.records())
    {
        if let Ok(octets) = <[u8; 16]>::try_from(record.rdata) {
            found(Ipv6Addr::from(octets).into());
        }
    }
}
