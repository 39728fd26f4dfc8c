//! Records and their changes as lines of text.

use nameward_base::text::zone_text;

use crate::operations::{
    ListedChange, ListedComment, ListedDifference, ListedRecord, RecordChange,
};

/// Formats a removed or added record as a batch line.
pub(crate) fn difference(record: &ListedDifference) -> String {
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
pub(crate) fn changed(change: &ListedChange) -> String {
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
pub(crate) fn comment(comment: &ListedComment) -> String {
    let (name, rtype, text) = (&comment.name, &comment.rtype, &comment.comment);
    match comment.account.as_str() {
        "" => format!("{name} {rtype} ; {text}"),
        account => format!("{name} {rtype} ; {text} ({account})"),
    }
}

/// Formats a record as a zone file line; one that is not served is a comment.
pub(crate) fn record_line(record: &ListedRecord) -> String {
    let ListedRecord {
        id,
        name,
        ttl,
        rtype,
        content,
        ..
    } = record;
    let id = id.unwrap_or_default();
    let line = format!("{name} {ttl} IN {rtype} {content}");
    match (&record.problem, record.disabled) {
        (None, false) => line,
        (None, true) => format!("; disabled: {line}"),
        (Some(problem), false) => format!("; cannot be served, id {id}: {problem}: {line}"),
        (Some(problem), true) => format!("; disabled, id {id}: {problem}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(disabled: bool, problem: Option<&str>) -> String {
        record_line(&ListedRecord {
            id: Some(7),
            name: "www.a.test.".into(),
            ttl: 60,
            rtype: "A".into(),
            content: "192.0.2.1".into(),
            text: None,
            disabled,
            problem: problem.map(Into::into),
        })
    }

    #[test]
    fn records_that_are_not_served_are_comments() {
        assert_eq!(record(false, None), "www.a.test. 60 IN A 192.0.2.1");
        assert_eq!(
            record(true, None),
            "; disabled: www.a.test. 60 IN A 192.0.2.1"
        );
        for disabled in [false, true] {
            let line = record(disabled, Some("the name is not valid"));
            assert!(line.starts_with("; ") && line.contains("id 7"), "{line}");
        }
    }
}
