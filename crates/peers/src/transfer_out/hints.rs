//! SVCB and HTTPS records in a transferred zone: automatic hints are replaced by addresses, because other servers do
//! not support them.

use std::sync::Arc;

use nameward_answer::{has_auto_hints, hinted_records};
use nameward_wire::{Type, rdata};
use nameward_zone::change::{ChangeError, Difference};
use nameward_zone::{SigningState, WireRecord, Zone};

/// Returns a version of a zone without automatic hints. A zone with stored signatures stays as it is.
pub(super) fn with_hints(zone: Arc<Zone>) -> Result<Arc<Zone>, ChangeError> {
    if matches!(zone.signing(), SigningState::Stored(_)) {
        return Ok(zone);
    }
    let mut difference = Difference::default();
    for node in zone.nodes_in_any_order() {
        for rrset in node.rrsets().filter(|rrset| has_auto_hints(*rrset)) {
            let filled = hinted_records(&*zone, node, rrset);
            let record = |rdata| WireRecord {
                owner: node.name(),
                rtype: rrset.rtype(),
                ttl: rrset.ttl(),
                rdata,
            };
            let before: Vec<&[u8]> = rrset.records().map(|record| record.rdata).collect();
            for data in before
                .iter()
                .filter(|data| !filled.iter().any(|kept| kept == *data))
            {
                difference.removed.push(record(data));
            }
            for data in filled.iter().filter(|data| !before.contains(&&data[..])) {
                difference.added.push(record(data));
            }
        }
    }
    Ok(Arc::new(zone.apply(&difference)?))
}

/// Checks whether a record with automatic hints is removed or added: the journal does not have the addresses.
pub(super) fn changes_hints(difference: &Difference) -> bool {
    let records = difference.removed.iter().chain(difference.added.iter());
    let mut services = records.filter(|record| matches!(record.rtype, Type::SVCB | Type::HTTPS));
    services.any(|record| rdata::has_auto_hints(record.rdata))
}
