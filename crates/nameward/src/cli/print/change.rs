//! The lines about zone changes.

use nameward_control::operations::{
    ListedChange, ListedComment, ListedDifference, RecordChange, ZoneChanged,
};

use super::{backend_text, zone_text};
use crate::serve::moment;

/// Formats a removed or added record as a batch line.
pub fn difference(record: &ListedDifference) -> String {
    let sign = match record.change {
        RecordChange::Removed => '-',
        RecordChange::Added => '+',
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

/// Formats a zone of a batch.
pub fn changed(change: &ListedChange) -> String {
    let zone = zone_text(&change.changed.zone);
    let word = if change.is_trial {
        "would be changed"
    } else {
        "changed"
    };
    match (change.is_changed, change.changed.serial) {
        (false, _) => format!("zone {zone}: no change"),
        (true, None) => format!("zone {zone}: {word}"),
        (true, Some(serial)) => format!("zone {zone}: {word}, serial {serial}"),
    }
}

/// Formats the comment of an RRset.
pub fn comment(comment: &ListedComment) -> String {
    let (name, rtype, text) = (&comment.name, &comment.rtype, &comment.comment);
    match comment.account.as_str() {
        "" => format!("{name} {rtype} ; {text}"),
        account => format!("{name} {rtype} ; {text} ({account})"),
    }
}

/// Formats a deleted zone, and how long it can be restored.
pub fn deleted(changed: &ZoneChanged, kept_until: Option<u64>) -> String {
    let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
    match kept_until {
        None => format!("deleted zone {zone} from {backend}\n"),
        Some(until) => format!(
            "deleted zone {zone} from {backend}; restore it with `nameward zone undelete {zone}` until {}\n",
            moment(until)
        ),
    }
}

/// The header of a zone's version list, which is printed to pipes as well.
pub const VERSION_HEADER: super::table::Header = &[
    "SERIAL", "BEFORE", "TIME", "REMOVED", "ADDED", "ORIGIN", "WHO", "MESSAGE",
];
