//! The fuzz target `update`, shared by `fuzz/` and a short run in every test run.

use super::{UpdateChange, UpdatePermission, UpdateRequest};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, Type};
use nameward_zone::change::ConditionalChange;
use nameward_zone::{SerialRule, Zone, ZoneBuilder};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

const ZONE: &[u8] = b"$ORIGIN example.
@ 300 IN SOA ns1 host 10 3600 600 86400 300
@ 300 NS ns1
ns1 300 A 192.0.2.1
www 300 A 192.0.2.10
alias 300 CNAME www
";

struct Everything;

impl UpdatePermission for Everything {
    fn permits(&self, _: Name<'_>, _: Type) -> bool {
        true
    }
}

fn zone() -> &'static Arc<Zone> {
    static BUILT: OnceLock<Arc<Zone>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let apex = Name::from_valid_wire(b"\x07example\0");
        let mut builder = ZoneBuilder::new(apex);
        let _ = parse_bytes("zone", ZONE, &Options::new(apex.into()), &mut builder);
        Arc::new(builder.finish().0.expect("a zone that is written above"))
    })
}

/// Treats any octets as an UPDATE: they are refused, or produce a version that has an SOA, an NS and a later
/// serial.
pub fn update(octets: &[u8]) {
    let Ok(request) = UpdateRequest::read(octets) else {
        return;
    };
    let zone = zone();
    if request.zone.as_name() != zone.apex_name() {
        return;
    }
    let change = UpdateChange {
        request,
        permission: Box::new(Everything),
        serial: SerialRule::Next,
        now: UNIX_EPOCH,
    };
    let Ok(change) = change.decide(&**zone) else {
        return;
    };
    let Ok(difference) = zone.difference_of(&change) else {
        return;
    };
    if difference.is_empty() {
        return;
    }
    let Ok(version) = zone.apply(&difference) else {
        return;
    };
    assert!(version.serial().is_after(zone.serial()), "the serial moved");
    assert!(
        version.apex().rrset(Type::NS).is_some(),
        "an apex has name servers"
    );
}
