//! Owns the lines about changes of zones.

use nameward_control::operations::{ListedChange, ListedDifference, RecordFate};

use super::zone_text;

/// A record that goes or comes, as a line of a batch.
pub fn difference(record: &ListedDifference) -> String {
    let sign = match record.change {
        RecordFate::Removed => '-',
        RecordFate::Added => '+',
    };
    let ListedDifference {
        name,
        ttl,
        rtype,
        content,
        ..
    } = record;
    format!("{sign}{name} {ttl} IN {rtype} {content}")
}

/// A zone of a batch.
pub fn changed(change: &ListedChange) -> String {
    let zone = zone_text(&change.changed.zone);
    match (change.is_changed, change.changed.serial) {
        (false, _) => format!("zone {zone}: no change"),
        (true, None) => format!("zone {zone}: changed"),
        (true, Some(serial)) => format!("zone {zone}: changed, serial {serial}"),
    }
}
