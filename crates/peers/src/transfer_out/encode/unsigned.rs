//! Unsigned copies of online-signed zones, for secondaries that sign by themselves or not at all.

use nameward_dnssec::Signing;
use nameward_wire::Type;
use nameward_wire::zonefile::Record;
use nameward_zone::{Zone, ZoneBuilder};

/// Returns a zone without the records that signing adds at its apex; `None` if the rest is not a valid zone.
pub fn unsigned_copy(zone: &Zone, signing: &Signing) -> Option<Zone> {
    let made = signing.apex_records();
    let apex = zone.apex_name();
    let is_made = |rtype: Type, rdata: &[u8]| {
        let mut made = made.iter();
        made.any(|(made_type, made_data)| *made_type == rtype && made_data == rdata)
    };
    let mut builder = ZoneBuilder::new(zone.id());
    for node in zone.nodes_in_order() {
        let owner = node.name();
        for rrset in node.rrsets() {
            for record in rrset.records() {
                if owner == apex && is_made(rrset.rtype(), record.rdata) {
                    continue;
                }
                builder.add(&Record::new(
                    owner,
                    rrset.rtype(),
                    rrset.ttl(),
                    record.rdata,
                ));
            }
        }
    }
    builder.finish().0
}
