//! The servers that are notified of a zone's changes.

use nameward_maintain::policy::{RemoteServer, ZoneOrigin, ZonePolicy};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Node, Zone, ZoneTable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of name servers.
const DNS_PORT: u16 = 53;
/// The domain of names that never exist (RFC 6761 section 6.4), such as the name server of a catalog zone.
const INVALID: &[u8] = b"\x07invalid\0";
/// Maximum number of notified servers per zone.
const TARGETS_MAX: usize = 20_000;

/// The servers that are notified of a change of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyTargets {
    /// The servers whose addresses are known.
    pub servers: Vec<RemoteServer>,
    /// Name servers of the zone whose addresses are outside our zones.
    pub unknown: Vec<NameBuf>,
}

/// Lists the servers that are notified of a change of a zone: its name servers except the SOA MNAME, which is the
/// primary (RFC 1996 section 2), and those that the policy adds.
pub fn notify_targets(
    (zone, origin): (&Zone, ZoneOrigin),
    table: &ZoneTable,
    policy: &ZonePolicy,
) -> NotifyTargets {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    if policy.notifies_name_servers(origin) && !zone.is_stub() {
        for host in notified_servers(zone) {
            match host_in_memory(host, zone, table) {
                KnownHost::Here(node) => found.extend(node_addresses(node)),
                KnownHost::Nowhere => {}
                KnownHost::Elsewhere => unknown.push(host.into()),
            }
        }
    }
    let mut servers = name_server_targets(policy, found);
    servers.extend(policy.also_notify.iter().cloned());
    servers.sort_by_key(|target| target.address);
    servers.dedup_by_key(|target| target.address);
    servers.truncate(TARGETS_MAX);
    NotifyTargets { servers, unknown }
}

/// Lists the name servers of a zone except the SOA MNAME, which is the primary (RFC 1996 section 2).
pub fn notified_servers(zone: &Zone) -> impl Iterator<Item = Name<'_>> {
    let soa = zone.soa().and_then(|soa| soa.records().next());
    let mname = soa.and_then(|soa| Name::split_from(soa.rdata).ok());
    let servers = zone.apex().rrset(Type::NS).into_iter();
    let hosts = servers.flat_map(|rrset| rrset.records());
    let hosts = hosts.filter_map(|record| Name::from_wire(record.rdata).ok());
    hosts.filter(move |host| mname.is_none_or(|(mname, _)| mname != *host))
}

/// Lists the addresses of a host in a zone.
pub fn host_addresses(zone: &Zone, host: Name<'_>) -> Vec<IpAddr> {
    let node = zone.node_of(host);
    node.into_iter().flat_map(node_addresses).collect()
}

/// Returns the addresses of name servers as targets, with the settings configured for them. One that is listed in the policy
/// is notified once, with its key there.
pub fn name_server_targets(
    policy: &ZonePolicy,
    addresses: impl IntoIterator<Item = IpAddr>,
) -> Vec<RemoteServer> {
    let targets = addresses
        .into_iter()
        .map(|ip| RemoteServer::plain(SocketAddr::new(ip, DNS_PORT)))
        .map(|server| server.configured_by(&policy.remotes));
    let is_named = |target: &RemoteServer| {
        // One with TLS settings has another port, and must not be notified in plain text as well.
        let same = |other: &RemoteServer| {
            other.address == target.address
                || other.tls.is_some() && other.address.ip() == target.address.ip()
        };
        policy.also_notify.iter().any(same)
    };
    targets.filter(|target| !is_named(target)).collect()
}

/// The location of a host.
enum KnownHost<'z> {
    /// In a zone in memory.
    Here(Node<'z>),
    /// One of our zones should have it and does not, or does not know: "invalid." never exists (RFC 6761).
    Nowhere,
    /// In a zone of another server.
    Elsewhere,
}

/// Finds a host in the zone itself, including glue, or in another zone in memory.
fn host_in_memory<'z>(host: Name<'_>, zone: &'z Zone, table: &'z ZoneTable) -> KnownHost<'z> {
    if host.is_at_or_below(zone.apex_name())
        && let Some(node) = zone.node_of(host)
    {
        return KnownHost::Here(node);
    }
    let mut name = Some(host);
    while let Some(apex) = name {
        if let Some(other) = table.exact(apex) {
            return match other.node_of(host).filter(|_| !other.is_stub()) {
                Some(node) => KnownHost::Here(node),
                None => KnownHost::Nowhere,
            };
        }
        name = apex.parent();
    }
    if host.is_at_or_below(Name::from_valid_wire(INVALID)) {
        KnownHost::Nowhere
    } else {
        KnownHost::Elsewhere
    }
}

fn node_addresses(node: Node<'_>) -> impl Iterator<Item = IpAddr> {
    let rrsets = [Type::A, Type::AAAA].map(|rtype| node.rrset(rtype));
    let records = rrsets.into_iter().flatten();
    let records = records.flat_map(|rrset| rrset.records());
    records.filter_map(|record| address(record.rdata))
}

/// Reads the data of an A or AAAA record.
pub fn address(rdata: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(rdata).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(rdata).map(|octets| Ipv6Addr::from(octets).into());
    v4.or_else(|_| v6()).ok()
}
