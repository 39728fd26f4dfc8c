//! Automatic hints of SVCB and HTTPS records (`ipv4hint=auto`, as in PowerDNS): the addresses that the target has in the same
//! zone, filled in for each answer. They are those of the same snapshot, so they are never older than the addresses
//! themselves.
//!
//! Addresses that a script computes, or that an ALIAS or CNAME leads to, are no hints: a hint is the same for all clients,
//! and clients look up the target anyway (RFC 9460 section 7.3). A zone with stored signatures is sent as it is.

use crate::plan::Data;
use crate::view::ZoneView;
use nameward_wire::{Type, rdata};
use nameward_zone::{Node, Rrset, SigningState};

/// Maximum number of addresses in a hint: more would not help a client.
const HINTS_MAX: usize = 32;

/// Checks whether an RRset has records whose hints are filled in.
pub fn has_auto_hints(rrset: Rrset<'_>) -> bool {
    matches!(rrset.rtype(), Type::SVCB | Type::HTTPS)
        && rrset
            .records()
            .any(|record| rdata::has_auto_hints(record.rdata))
}

/// Returns the records of an RRset of a node with their hints filled in.
pub fn hinted_records<V: ZoneView>(zone: &V, node: Node<'_>, rrset: Rrset<'_>) -> Vec<Vec<u8>> {
    let records = rrset.records().map(|record| {
        let host = match zone.target(record) {
            Some(host) => Some(host),
            // RFC 9460 section 2.5.2: "." in ServiceMode is the owner itself.
            None => Some(node).filter(|_| is_own_service(rrset.rtype(), record.rdata)),
        };
        let host = host.filter(|host| !host.has_unreadable_address());
        rdata::fill_hints(record.rdata, |rtype| {
            let addresses = host.and_then(|host| host.rrset(rtype));
            let addresses = addresses.into_iter().flat_map(|rrset| rrset.records());
            let octets = addresses.take(HINTS_MAX).map(|record| record.rdata);
            octets.collect::<Vec<_>>().concat()
        })
    });
    let mut records: Vec<Vec<u8>> = records.collect();
    // RFC 2181 section 5: an RRset has no duplicates.
    records.sort_unstable();
    records.dedup();
    records
}

/// Returns an RRset as it is answered: automatic hints are filled in, unless the zone has stored signatures.
#[cold]
#[inline(never)]
pub(crate) fn service_data<'z, V: ZoneView>(zone: &V, rrset: Rrset<'z>) -> Data<'z> {
    if has_auto_hints(rrset) && !matches!(zone.signing(), SigningState::Stored(_)) {
        Data::Hinted(rrset)
    } else {
        Data::Rrset(rrset)
    }
}

/// Checks for SVCB or HTTPS in ServiceMode (priority not 0) with target "." (RFC 9460).
pub(crate) fn is_own_service(rtype: Type, rdata: &[u8]) -> bool {
    matches!(rtype, Type::SVCB | Type::HTTPS)
        && matches!(rdata, [a, b, 0, ..] if (*a, *b) != (0, 0))
}
