//! Builds the catalog zones that this server produces.

use data_encoding::BASE32HEX_NOPAD;
use nameward_dnssec::Nsec3;
use nameward_sql::CatalogProperties;
use nameward_wire::zonefile::Record;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Serial, Zone, ZoneBuilder};

/// TTL of all records: only secondaries query them (RFC 9432 section 4.1).
const TTL: u32 = 0;
/// Refresh, retry, expire and minimum as in the example of RFC 9432; expire has its maximum, because a catalog that
/// expires should not remove zones.
const TIMES: [u32; 4] = [3600, 600, 2_147_483_646, 0];
/// RFC 9432 section 4.1: a catalog needs an NS record, and the name for "no server" is "invalid.".
const NO_SERVER: &[u8] = b"\x07invalid\0";

/// Builds the catalog zone of some members, each with its properties; `None` if a name in it gets too long.
pub fn make_catalog<'m>(
    catalog: Name<'_>,
    members: impl IntoIterator<Item = (Name<'m>, &'m CatalogProperties)>,
    serial: Serial,
) -> Option<Zone> {
    let mut builder = ZoneBuilder::new(catalog);
    let mut add = |owner: Name<'_>, rtype: Type, rdata: &[u8]| {
        builder.add(&Record::new(owner, rtype, TTL, rdata));
    };
    let mut soa = [NO_SERVER, NO_SERVER].concat();
    soa.extend(serial.0.to_be_bytes());
    soa.extend(TIMES.into_iter().flat_map(u32::to_be_bytes));
    add(catalog, Type::SOA, &soa);
    add(catalog, Type::NS, NO_SERVER);
    add(
        below(b"\x07version", catalog)?.as_name(),
        Type::TXT,
        b"\x012",
    );
    let zones = below(b"\x05zones", catalog)?;
    for (member, properties) in members {
        let own = properties.label.as_ref();
        let label = own.map_or_else(
            || label(member),
            |own| [&[own.len() as u8], &own[..]].concat(),
        );
        let node = below(&label, zones.as_name())?;
        add(node.as_name(), Type::PTR, member.as_wire());
        if let Some(new) = &properties.new_catalog {
            let owner = below(b"\x03coo", node.as_name())?;
            add(owner.as_name(), Type::PTR, new);
        }
        for group in properties.groups.iter().filter(|group| group.len() <= 255) {
            let owner = below(b"\x05group", node.as_name())?;
            let rdata = [&[group.len() as u8][..], group.as_bytes()].concat();
            add(owner.as_name(), Type::TXT, &rdata);
        }
    }
    builder.finish().0
}

/// Returns the label of a member's node, with its length octet: a hash of its name, so that it is the same whenever
/// the catalog is built.
fn label(member: Name<'_>) -> Vec<u8> {
    let text = member_hash(member, Vec::new());
    [&[text.len() as u8][..], text.as_bytes()].concat()
}

/// Returns a hash of a member's name and a salt, in lower case.
pub(crate) fn member_hash(member: Name<'_>, salt: Vec<u8>) -> String {
    let hashing = Nsec3 {
        iterations: 0,
        salt,
    };
    let hash = BASE32HEX_NOPAD.encode(&hashing.hash(member));
    hash.to_ascii_lowercase()
}

fn below(label: &[u8], parent: Name<'_>) -> Option<NameBuf> {
    NameBuf::join(label, parent).ok()
}
