//! The lines of `nameward zone status`: one zone, its serials, times and problems.

use std::fmt::Write as _;

use nameward_base::text::{counted, utc_text};

use crate::operations::key::text::next_text;
use crate::operations::{ListedSigning, ListedZoneStatus, or_dash, table_row};

/// Returns the status of a zone as one line.
pub(crate) fn line(status: &ListedZoneStatus) -> String {
    let serial = status.serial.map(|serial| format!(", serial {serial}"));
    let (serial, details) = (serial.unwrap_or_default(), details(status));
    format!(
        "{} {} {}{serial}{details}",
        status.name, status.kind, status.state
    )
}

table_row! { ListedZoneStatus as item:
    "ZONE" = item.name,
    "KIND" = item.kind,
    "STATE" = item.state,
    "SERIAL" = or_dash(item.serial),
    "DETAILS" = details(item).trim_start_matches(", "),
}

fn details(status: &ListedZoneStatus) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    if let Some(primary) = &status.primary {
        let there = status.serial_at_primary;
        let _ = match there {
            Some(serial) => write!(line, ", primary {primary} has {serial}"),
            None => write!(line, ", primary {primary}"),
        };
    }
    let ago = |time: u64| status.now.saturating_sub(time);
    let ahead = |time: u64| time.saturating_sub(status.now);
    if let Some(time) = status.last_refresh {
        let _ = write!(line, ", refreshed {} s ago", ago(time));
    }
    if let Some(time) = status.last_check {
        let _ = write!(line, ", queried {} s ago", ago(time));
    }
    match (status.is_checking, status.next_check) {
        _ if status.is_queued => line.push_str(", waiting for a transfer slot"),
        (true, _) => line.push_str(", refresh in progress"),
        (false, Some(time)) => {
            let _ = write!(line, ", next refresh in {} s", ahead(time));
        }
        (false, None) => {}
    }
    if let Some(time) = status.expires {
        let _ = match status.state.as_str() {
            "expired" => write!(line, ", expired {} s ago", ago(time)),
            _ => write!(line, ", expires in {} s", ahead(time)),
        };
    }
    if let Some(transfer) = &status.transfer {
        let (peer, records, seconds) = (&transfer.primary, transfer.records, transfer.seconds);
        let kib = transfer.octets >> 10;
        let _ = write!(
            line,
            ", transferring from {peer}: {records} records, {kib} KiB, {seconds} s"
        );
    }
    if let Some(signing) = &status.signing {
        write_signing(signing, &mut line);
    }
    for secondary in status.secondaries.iter().flatten() {
        let server = &secondary.server;
        let _ = match (secondary.serial, &secondary.problem) {
            (Some(serial), _) if secondary.behind => {
                write!(line, ", secondary {server} has {serial} (behind)")
            }
            (Some(serial), _) => write!(line, ", secondary {server} has {serial}"),
            (None, Some(problem)) => write!(line, ", secondary {server}: {problem}"),
            (None, None) => write!(line, ", secondary {server} did not respond"),
        };
    }
    if let Some(error) = &status.last_error {
        let failures = status.failures;
        let _ = write!(
            line,
            ", failed {}: {error}",
            counted(failures as usize, "time")
        );
    }
    line
}

/// Appends the signing status: the policy, the keys, the next step, the expiration of signatures.
fn write_signing(signing: &ListedSigning, line: &mut String) {
    let _ = match (&signing.policy, signing.signed.as_str()) {
        (Some(policy), _) => write!(line, ", signed by policy {policy}"),
        (None, "insecure soon") => write!(line, ", signed, becoming insecure"),
        (None, how) => write!(line, ", signed ({how})"),
    };
    if !signing.keys.is_empty() {
        let _ = write!(line, ", keys: {}", signing.keys.join("; "));
    }
    for ds in &signing.ds {
        let _ = write!(line, ", DS {ds}");
    }
    if let Some(next) = &signing.next {
        let _ = write!(line, ", next: {}", next_text(next));
    }
    if let Some(ends) = signing.signature_expires {
        let _ = write!(line, ", first signature expires {}", utc_text(ends));
    }
}

/// Returns the signing status as lines of `zone show`: kind, denial, keys, DS, next step, expiration of
/// signatures.
pub(crate) fn signing_lines(signing: &ListedSigning) -> String {
    let mut text = match &signing.policy {
        Some(policy) => format!("signed {} {policy}\n", signing.signed),
        None => format!("signed {}\n", signing.signed),
    };
    let next = signing.next.as_ref().map(next_text);
    let ends = signing.signature_expires.map(utc_text);
    let one = |key, value: Option<String>| value.map(|value| (key, value));
    let many = |key, values: &[String]| values.iter().map(|value| (key, value.clone())).collect();
    let (keys, ds): (Vec<_>, Vec<_>) = (many("key", &signing.keys), many("ds", &signing.ds));
    let lines = one("denial", signing.denial.clone()).into_iter();
    let lines = lines.chain(keys).chain(ds).chain(one("next", next));
    for (key, value) in lines.chain(one("signatures-end", ends)) {
        let _ = writeln!(text, "{key} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_the_state_of_the_zone() {
        let mut status = ListedZoneStatus {
            name: "a.test.".into(),
            kind: "secondary".into(),
            state: "current".into(),
            serial: Some(7),
            primary: Some("192.0.2.1:53".into()),
            serial_at_primary: Some(8),
            last_refresh: Some(900),
            last_check: Some(990),
            next_check: Some(1060),
            expires: Some(5000),
            now: 1000,
            ..ListedZoneStatus::default()
        };
        assert_eq!(
            line(&status),
            "a.test. secondary current, serial 7, primary 192.0.2.1:53 has 8, refreshed 100 s ago, queried 10 s ago, \
             next refresh in 60 s, expires in 4000 s"
        );
        status.last_error = Some("the primary answered REFUSED".into());
        status.failures = 2;
        assert!(line(&status).ends_with(", failed 2 times: the primary answered REFUSED"));
    }
}
