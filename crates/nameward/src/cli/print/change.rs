//! Owns the lines about changes of zones.

use nameward_control::operations::{
    ListedChange, ListedComment, ListedDeletedZone, ListedDifference, ListedVersion, RecordFate,
    ZoneChanged,
};
use nameward_wire::calendar::UtcTime;

use super::{backend_text, zone_text};
use crate::serve::moment;

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
    let word = match change.is_trial {
        true => "would be changed",
        false => "changed",
    };
    match (change.is_changed, change.changed.serial) {
        (false, _) => format!("zone {zone}: no change"),
        (true, None) => format!("zone {zone}: {word}"),
        (true, Some(serial)) => format!("zone {zone}: {word}, serial {serial}"),
    }
}

/// A comment of an RRset.
pub fn comment(comment: &ListedComment) -> String {
    let (name, rtype, text) = (&comment.name, &comment.rtype, &comment.comment);
    match comment.account.as_str() {
        "" => format!("{name} {rtype} ; {text}"),
        account => format!("{name} {rtype} ; {text} ({account})"),
    }
}

/// A zone that was deleted, and how long it can be brought back.
pub fn deleted(changed: &ZoneChanged, kept_until: Option<u64>) -> String {
    let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
    match kept_until {
        None => format!("deleted zone {zone} from {backend}\n"),
        Some(until) => format!(
            "deleted zone {zone} from {backend}; `nameward zone undelete {zone}` brings it back until {}\n",
            moment(until)
        ),
    }
}

/// A deleted zone: name, kind, backend, serial, records, when it was deleted, until when it is kept.
pub fn deleted_zone(zone: &ListedDeletedZone) -> String {
    let serial = zone.serial.map_or("-".into(), |serial| serial.to_string());
    let (name, kind, backend, records) = (&zone.name, &zone.kind, zone.backend, zone.records);
    let (deleted, until) = (moment(zone.deleted), moment(zone.kept_until));
    format!("{name} {kind} {backend} {serial} {records} {deleted} {until}")
}

/// The header of the versions of a zone.
pub const VERSION_HEADER: &str =
    "SERIAL     BEFORE     TIME                 REMOVED ADDED   ORIGIN";

/// A version of a zone.
pub fn version(version: &ListedVersion) -> String {
    let time = UtcTime::from_unix(version.time);
    let date = time.date_number();
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let second = version.time % 86_400;
    let clock = format!(
        "{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    format!(
        "{:<10} {:<10} {year:04}-{month:02}-{day:02}T{clock} {:<7} {:<7} {}",
        version.serial, version.before, version.removed, version.added, version.origin
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_below_their_header() {
        let line = version(&ListedVersion {
            serial: 2_026_111_502,
            before: 2_026_111_501,
            time: 1_700_000_000,
            origin: "change".into(),
            removed: 1,
            added: 20,
        });
        assert_eq!(
            line,
            "2026111502 2026111501 2023-11-14T22:13:20Z 1       20      change"
        );
        for (word, column) in [("TIME", "2023"), ("REMOVED", "1  "), ("ORIGIN", "change")] {
            let at = VERSION_HEADER.find(word);
            assert_eq!(&line[at.unwrap()..][..column.len()], column);
        }
    }
}
