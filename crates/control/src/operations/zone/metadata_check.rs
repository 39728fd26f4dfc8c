//! Checks metadata set by a command: an unknown kind or an invalid value is refused, where a server would only log it
//! later. The readers of policies and of signing decide, so both agree.

use nameward_dnssec::{MAX_ITERATIONS, Nsec3Param, SigningPolicy};
use nameward_maintain::policy::database::read_policy;
use nameward_sql::write::{AttributeChange, MetadataEdit};
use nameward_sql::{SettingItem, ZoneRow, term_kind};
use serde::{Deserialize, Serialize};

use crate::operations::{OperationError, Outcome};

/// Metadata kinds that this server does not read, but a PowerDNS on the same database may.
const POWERDNS_ONLY: [&str; 6] = [
    "API-RECTIFY",
    "GSS-ACCEPTOR-PRINCIPAL",
    "GSS-ALLOW-AXFR-PRINCIPAL",
    "LUA-AXFR-SCRIPT",
    "SIGNALING-ZONE",
    "SOA-EDIT-API",
];
/// Kinds for signing, which the signer reads.
const SIGNING: [&str; 5] = [
    "NSEC3PARAM",
    "NSEC3NARROW",
    "PUBLISH-CDS",
    "PUBLISH-CDNSKEY",
    "SOA-EDIT",
];
/// Kinds that are on or off.
const SWITCHES: [&str; 7] = [
    "API-RECTIFY",
    "FORWARD-DNSUPDATE",
    "IXFR",
    "NOTIFY-DNSUPDATE",
    "SIGNALING-ZONE",
    "SLAVE-RENOTIFY",
    "ENABLE-LUA-RECORDS",
];
/// The keywords of switches.
const SWITCH_WORDS: [&str; 6] = ["0", "1", "no", "yes", "false", "true"];
/// The keywords of SOA-EDIT-API.
const API_WORDS: [&str; 6] = [
    "DEFAULT",
    "INCREASE",
    "EPOCH",
    "SOA-EDIT",
    "SOA-EDIT-INCREASE",
    "OFF",
];

/// All items of one kind of metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataSpec {
    /// The kind, as `SOA-EDIT-API`.
    pub kind: String,
    /// The items; none deletes the kind.
    #[serde(default)]
    pub content: Vec<String>,
}

impl MetadataSpec {
    /// Checks the items and returns the change that stores them.
    pub(crate) fn change(&self) -> Outcome<AttributeChange> {
        if !self.content.is_empty() {
            check_kind(&self.kind)?;
            check_values(&self.kind, &self.content)?;
        }
        if is_signing_kind(&self.kind) {
            for content in &self.content {
                check_item(&self.kind, content)?;
            }
        }
        Ok(AttributeChange::Metadata(
            self.kind.clone(),
            MetadataEdit::Set,
            self.content.clone(),
        ))
    }
}

/// Refuses a metadata kind that neither this server nor PowerDNS reads. Kinds with `X-` belong to the operator.
pub(crate) fn check_kind(kind: &str) -> Outcome<()> {
    let is_known = kind.starts_with("X-")
        || SIGNING.contains(&kind)
        || POWERDNS_ONLY.contains(&kind)
        || term_kind(kind).is_some();
    if is_known {
        Ok(())
    } else {
        Err(OperationError::invalid(format!(
            "unknown metadata kind {kind}: neither this server nor PowerDNS uses it; custom kinds start with X-"
        )))
    }
}

/// Refuses values that no reader of the kind understands.
pub(crate) fn check_values(kind: &str, values: &[String]) -> Outcome<()> {
    for value in values {
        check_value(kind, value)?;
    }
    Ok(())
}

/// Checks whether a metadata kind determines denial of existence, and the name order of PowerDNS.
pub(crate) fn is_signing_kind(kind: &str) -> bool {
    matches!(kind, "NSEC3PARAM" | "NSEC3NARROW" | "PRESIGNED")
}

/// Refuses an invalid item of signing metadata: the zone would not be signed, or not as intended.
pub(crate) fn check_item(kind: &str, content: &str) -> Outcome<()> {
    if kind != "NSEC3PARAM" {
        return match content {
            "0" | "1" => Ok(()),
            other => Err(OperationError::invalid(format!(
                "expected {kind} 0 or 1, found {other:?}"
            ))),
        };
    }
    Nsec3Param::read(content).map_err(|error| OperationError::invalid(error.to_string()))?;
    let iterations = content.split_whitespace().nth(2);
    let iterations = iterations.and_then(|text| text.parse::<u16>().ok());
    if iterations.is_some_and(|number| number <= MAX_ITERATIONS) {
        Ok(())
    } else {
        // RFC 9276 section 3.2: validators treat more iterations as insecure, or fail.
        Err(OperationError::invalid(format!(
            "expected at most {MAX_ITERATIONS} iterations in NSEC3PARAM; use 0 (RFC 9276): 1 0 0 -"
        )))
    }
}

fn check_value(kind: &str, value: &str) -> Outcome<()> {
    let one_of = |words: &[&str], is_it: bool| {
        if is_it {
            Ok(())
        } else {
            Err(OperationError::invalid(format!(
                "expected {kind} {}, found {value:?}",
                words.join(", ")
            )))
        }
    };
    if SWITCHES.contains(&kind) {
        return one_of(&SWITCH_WORDS, SWITCH_WORDS.contains(&value.trim()));
    }
    if kind == "SOA-EDIT-API" {
        let is_word = API_WORDS
            .iter()
            .any(|word| value.trim().eq_ignore_ascii_case(word));
        return one_of(&API_WORDS, is_word);
    }
    if kind == "PUBLISH-CDNSKEY" {
        return one_of(&["0", "1"], ["0", "1"].contains(&value.trim()));
    }
    let taken = SigningPolicy::default().take(kind, value);
    taken.map_err(|error| OperationError::invalid(format!("{kind}: {error} ({value:?})")))?;
    if let Some(kind) = term_kind(kind) {
        let item = SettingItem {
            kind,
            content: value.into(),
        };
        let problems = read_policy(&empty_row(), &[item]).problems;
        if let Some(problem) = problems.into_iter().next() {
            return Err(OperationError::invalid(problem));
        }
    }
    Ok(())
}

/// Returns a zone with nothing but the metadata to check.
fn empty_row() -> ZoneRow {
    ZoneRow {
        id: 0,
        name: nameward_wire::NameBuf::root(),
        kind: nameward_zone::ZoneKind::Primary,
        primaries: None,
        last_check: None,
        notified_serial: None,
        account: None,
        options: None,
        catalog: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_without_a_reader_are_refused() {
        for known in [
            "SOA-EDIT",
            "IXFR",
            "X-OURS",
            "LUA-AXFR-SCRIPT",
            "ALSO-NOTIFY",
        ] {
            assert_eq!(check_kind(known), Ok(()), "{known}");
        }
        for unknown in ["NONSENSE", "ALLOW-AXFR", "SOA_EDIT"] {
            let error = check_kind(unknown).unwrap_err();
            assert!(error.message.contains(unknown), "{error}");
        }
    }

    #[test]
    fn meaningless_values_are_refused() {
        for (kind, good, wrong) in [
            ("SOA-EDIT", "INCEPTION-INCREMENT", "NONSENSE"),
            ("SOA-EDIT-API", "increase", "MORE"),
            ("SOA-EDIT-DNSUPDATE", "INCREASE", "NONSENSE"),
            ("IXFR", "1", "perhaps"),
            ("PUBLISH-CDS", "2,4", "sha"),
            ("PUBLISH-CDNSKEY", "1", "delete"),
            ("ALSO-NOTIFY", "192.0.2.1:5300", "ns1.example.org"),
            ("ALLOW-AXFR-FROM", "AUTO-NS", "everybody"),
            ("AXFR-SOURCE", "192.0.2.1", "eth0"),
            ("AXFR-MASTER-TSIG", "key.example", "a..b"),
        ] {
            assert_eq!(check_value(kind, good), Ok(()), "{kind} {good}");
            let error = check_value(kind, wrong).unwrap_err();
            assert!(error.message.contains(kind), "{kind} {wrong}: {error}");
        }
        assert_eq!(check_value("X-OURS", "anything"), Ok(()));
    }
}
