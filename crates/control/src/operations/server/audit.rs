//! The audit log: an entry for each requested change, whether by a command, the HTTP API or the web administration,
//! and whether it succeeded, failed or was forbidden. Exports of private keys and secrets are recorded, too.
//!
//! DNS UPDATE and transfers are not requested by operators; they are in the history of a zone.

use std::fmt::Write as _;
use std::sync::Arc;

use nameward_base::time::now_seconds;
use nameward_maintain::change_feed::{FeedSettingChange, SettingSubject};
use nameward_state::{AUDIT_ENTRIES_MAX, AuditEntry, AuditFilter, StateChange};
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operations::{
    BatchStep, Caller, ItemSink, ListedItem, OperationError, OperationRequest, OperationResult,
    Operations, Outcome, RequestEffect, RequestSubject, RrsetChange, RrsetsRequest, ZoneBatch,
    or_dash, table_row, zone_name,
};
use nameward_base::text::utc_text;

/// Maximum length of the description of a change, and of an error, in octets.
const DETAIL_MAX: usize = 500;
/// Maximum number of zones of one request that have separate entries.
const ZONES_MAX: usize = 100;
/// Fields that must not be logged, and those that have their own columns.
const OMITTED_FIELDS: [&str; 6] = ["operation", "zone", "secret", "private", "records", "zones"];

/// The entries to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRequest {
    /// Only of this zone.
    pub zone: Option<String>,
    /// Only of the API key with this ID.
    pub key: Option<String>,
    /// Not older than this, in seconds since 1970.
    pub since: Option<u64>,
    /// Only with lower numbers than this one: the next page.
    pub before: Option<i64>,
    /// Maximum number of entries.
    #[serde(default = "default_limit")]
    pub limit: u64,
}

/// Returns the default number of entries.
pub fn default_limit() -> u64 {
    100
}

/// The maximum number of entries in one listing: all.
pub(crate) const LIMIT_MAX: u64 = AUDIT_ENTRIES_MAX;

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAudit {
    /// Its number, which rises with time.
    pub number: i64,
    /// When it was done, in seconds since 1970.
    pub time: u64,
    /// The author: `user NAME` or `api ADDRESS key ID`.
    pub who: String,
    /// The client's address; none for commands on the server's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The ID of the API key, or `config`; none for commands on the server's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The operation, as on the control socket.
    pub operation: String,
    /// The zone; none if it concerns no zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The change, in short.
    pub detail: String,
    /// The serial afterwards, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Why it failed; none if it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The reason given by the author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

table_row! { ListedAudit as item:
    "TIME" = utc_text(item.time),
    "WHO" = item.who,
    "OPERATION" = item.operation,
    "ZONE" = or_dash(item.zone.as_ref()),
    "SERIAL" = or_dash(item.serial),
    "OUTCOME" = match &item.error {
                None => "done".into(),
                Some(error) => format!("failed: {error}"),
            },
    "DETAIL" = item.detail,
}

impl From<AuditEntry> for ListedAudit {
    fn from(entry: AuditEntry) -> Self {
        ListedAudit {
            number: entry.number,
            time: entry.time,
            who: entry.who,
            address: entry.address,
            key: entry.key,
            operation: entry.operation,
            zone: entry.zone,
            detail: entry.detail,
            serial: entry.serial,
            error: entry.error,
            message: entry.message,
        }
    }
}

impl Operations {
    /// Runs a request with the permissions of its caller, and records it if it is a change. Every request of an
    /// operator takes this path.
    pub fn run_recorded(
        &self,
        caller: &Caller,
        request: &OperationRequest,
        items: ItemSink<'_>,
        run: impl FnOnce(&OperationRequest, ItemSink<'_>) -> Outcome,
    ) -> Outcome {
        if request.effect() == RequestEffect::Read {
            return caller.scope().run(request, items, run);
        }
        let mut serials = Vec::new();
        let mut take = |item: ListedItem| {
            if let ListedItem::Changed(change) = &item
                && let (Some(serial), true) = (change.changed.serial, serials.len() < ZONES_MAX)
            {
                serials.push((change.changed.zone.clone(), serial));
            }
            items(item)
        };
        let result = caller.scope().run(request, &mut take, run);
        self.record(caller, request, &result, &serials);
        if result.is_ok() {
            self.report(caller, request);
        }
        result
    }

    /// Publishes a change of settings or keys in the event feed.
    fn report(&self, caller: &Caller, request: &OperationRequest) {
        let subject = match request.effect() {
            RequestEffect::ChangeSettings => SettingSubject::Settings,
            RequestEffect::ChangeKeys => SettingSubject::Keys,
            _ => return,
        };
        let report = |zone: Option<NameBuf>| {
            self.commits
                .table()
                .feed()
                .record_setting(FeedSettingChange {
                    zone,
                    subject,
                    operation: request.name(),
                    author: Some(Arc::clone(&caller.author)),
                });
        };
        match request.subject() {
            RequestSubject::Zones(zones) => {
                let names = zones.into_iter().take(ZONES_MAX).map(zone_name);
                names.flatten().for_each(|zone| report(Some(zone)));
            }
            RequestSubject::Server | RequestSubject::Listing => report(None),
        }
    }

    fn record(
        &self,
        caller: &Caller,
        request: &OperationRequest,
        result: &Outcome,
        serials: &[(String, u32)],
    ) {
        let Some(store) = self.commits.store() else {
            return;
        };
        let error = result.as_ref().err();
        let entry = AuditEntry {
            number: 0,
            time: now_seconds(),
            who: caller.author.who.to_string(),
            address: caller.address.map(|address| address.to_string()),
            key: caller.key.as_ref().map(|key| key.id.clone()),
            operation: request.name(),
            zone: None,
            detail: cut(summary(request)),
            serial: result.as_ref().ok().and_then(serial_of),
            error: error.map(|error| cut(error.message.clone())),
            message: caller.author.message.as_deref().map(str::to_owned),
        };
        let zones = match request.subject() {
            RequestSubject::Zones(zones) => zones,
            RequestSubject::Server | RequestSubject::Listing => Vec::new(),
        };
        let of_zone = |zone: &str, detail: String| {
            let zone = plain_zone(zone);
            let mut known = serials.iter();
            let serial = known.find(|(name, _)| name.eq_ignore_ascii_case(&zone));
            AuditEntry {
                detail: cut(detail),
                serial: serial.map(|(_, serial)| *serial),
                zone: Some(zone),
                ..entry.clone()
            }
        };
        let entries: Vec<AuditEntry> = match (request, zones.as_slice()) {
            (OperationRequest::Apply(batch), [_, ..]) => {
                let batches = batch.zones.iter().take(ZONES_MAX);
                let one = |batch: &ZoneBatch| of_zone(&batch.zone, batch_summary(batch));
                batches.map(one).collect()
            }
            (OperationRequest::RrsetsBatch { zones, .. }, [_, ..]) => {
                let zones = zones.iter().take(ZONES_MAX);
                let one = |zone: &RrsetsRequest| of_zone(&zone.zone, rrsets_summary(zone));
                zones.map(one).collect()
            }
            (OperationRequest::ZoneRollback { zone, .. }, _) => {
                vec![of_zone(zone, summary(request))]
            }
            (_, [zone, ..]) => vec![AuditEntry {
                zone: Some(plain_zone(zone)),
                ..entry
            }],
            (_, []) => vec![entry],
        };
        let changes = entries.into_iter().map(Box::new).map(StateChange::Audit);
        if let Err(error) = store.write(changes.collect()) {
            tracing::error!("audit log: {} is not recorded: {error}", request.name());
        }
    }

    /// Lists entries, newest first.
    pub fn list_audit(&self, request: &AuditRequest, items: ItemSink<'_>) -> Outcome {
        let store = self.commits.store().ok_or_else(|| {
            OperationError::refused("there is no audit log: set server.state_directory")
        })?;
        let zone = request.zone.as_deref().map(zone_name).transpose()?;
        let filter = AuditFilter {
            zone: zone.map(|zone| zone.to_string().to_ascii_lowercase()),
            key: request.key.clone(),
            since: request.since,
            before: request.before,
        };
        let (mut count, limit) = (0, request.limit.clamp(1, LIMIT_MAX));
        let read = store.audit(&filter, |entry| {
            count += 1;
            items(ListedItem::Audit(Box::new(entry.into()))) && count < limit
        });
        read.map_err(|error| OperationError::backend(error.to_string()))?;
        Ok(OperationResult::Listed { items: count })
    }
}

fn plain_zone(zone: &str) -> String {
    let name = zone_name(zone);
    name.map_or_else(
        |_| cut(zone.to_owned()),
        |name| name.to_string().to_ascii_lowercase(),
    )
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(DETAIL_MAX));
    text
}

fn serial_of(result: &OperationResult) -> Option<u32> {
    match result {
        OperationResult::ZoneCreated(changed)
        | OperationResult::ZoneUndeleted(changed)
        | OperationResult::ZoneChanged(changed) => changed.serial,
        OperationResult::ZoneSynced { serial, .. } => Some(*serial),
        _ => None,
    }
}

/// Adds fragments until the text is long enough.
fn joined(fragments: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for fragment in fragments {
        if text.len() > DETAIL_MAX {
            break;
        }
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{separator}{fragment}");
    }
    text
}

/// Describes a change in short, without secrets.
fn summary(request: &OperationRequest) -> String {
    match request {
        OperationRequest::RrsetsChange(request) => rrsets_summary(request),
        OperationRequest::RrsetsBatch { zones, .. } => joined(zones.iter().map(rrsets_summary)),
        OperationRequest::Apply(batch) => joined(batch.zones.iter().map(batch_summary)),
        OperationRequest::ZoneProvision(request) => {
            format!("kind {}", request.kind.name())
        }
        other => match serde_json::to_value(other) {
            Ok(Value::Object(fields)) => {
                let is_shown = |name: &str, value: &Value| {
                    let is_empty = value.is_null()
                        || *value == Value::Bool(false)
                        || value.as_array().is_some_and(Vec::is_empty)
                        || value.as_str() == Some("");
                    !OMITTED_FIELDS.contains(&name) && !is_empty
                };
                let shown = fields.iter().filter(|(name, value)| is_shown(name, value));
                joined(shown.map(|(name, value)| match value {
                    Value::String(text) => format!("{name} {text}"),
                    other => format!("{name} {other}"),
                }))
            }
            _ => String::new(),
        },
    }
}

fn rrsets_summary(request: &RrsetsRequest) -> String {
    joined(request.rrsets.iter().map(|rrset| {
        let word = match rrset.change {
            RrsetChange::Replace => "replace",
            RrsetChange::Delete => "delete",
            RrsetChange::Extend => "extend",
            RrsetChange::Prune => "prune",
        };
        let records = rrset.records.iter().flatten();
        let records = joined(records.map(|record| record.content.clone()));
        let (name, rtype) = (&rrset.name, &rrset.rtype);
        let text = format!("{word} {name} {rtype} {records}");
        text.trim_end().to_owned()
    }))
}

fn batch_summary(batch: &ZoneBatch) -> String {
    joined(batch.steps.iter().map(|step| {
        let (word, name, rtype, content) = match step {
            BatchStep::Set(new) => ("set", &new.name, new.rtype.as_str(), &new.content),
            BatchStep::Add(new) => ("add", &new.name, new.rtype.as_str(), &new.content),
            BatchStep::Delete(old) => {
                let rtype = old.rtype.as_deref().unwrap_or_default();
                ("delete", &old.name, rtype, &old.content)
            }
        };
        let content = joined(content.iter().cloned());
        let text = format!("{word} {name} {rtype} {content}");
        text.trim_end().to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_summarized_without_secrets() {
        for (text, expected) in [
            (
                r#"{"operation":"rrsets_change","zone":"a.test","rrsets":[
                    {"name":"www.a.test.","type":"A","ttl":60,"records":[{"content":"192.0.2.1"},{"content":"192.0.2.2"}]},
                    {"name":"old.a.test.","type":"TXT","change":"delete"}]}"#,
                "replace www.a.test. A 192.0.2.1; 192.0.2.2; delete old.a.test. TXT",
            ),
            (
                r#"{"operation":"tsig_import","name":"k.","secret":"aHVudGVyMg=="}"#,
                "name k.",
            ),
            (
                r#"{"operation":"key_import","private":"hunter2","template":{"zone":"a.test"}}"#,
                r#"template {"algorithm":null,"bits":null,"force":false,"inactive":false,"role":null,"unpublished":false,"zone":"a.test"}"#,
            ),
            (r#"{"operation":"zone_delete","zone":"a.test"}"#, ""),
            (
                r#"{"operation":"metadata_change","zone":"a.test","kind":"ALSO-NOTIFY","content":["192.0.2.1"],"change":"set"}"#,
                r#"change set; content ["192.0.2.1"]; kind ALSO-NOTIFY"#,
            ),
        ] {
            let request: OperationRequest = serde_json::from_str(text).unwrap();
            assert_eq!(summary(&request), expected);
        }
    }

    #[test]
    fn long_changes_are_truncated() {
        let request = OperationRequest::RecordDelete {
            zone: "a.test".into(),
            name: "ü".repeat(1000),
            rtype: None,
            content: Vec::new(),
        };
        assert!(cut(summary(&request)).len() <= DETAIL_MAX);
    }
}
