//! Results as text for people, in the terms that operators of BIND and PowerDNS know.

use std::fmt::Write as _;

use nameward_base::text::{counted, utc_text, zone_text};

use crate::operations::key::text as key_text;
use crate::operations::record::text as record_text;
use crate::operations::server::{health::health_text, logs::query_log_text, status_text};
use crate::operations::zone::status_text as zone_status_text;
use crate::operations::{
    FoundRecord, ListedItem, ListedTsigKey, NamedCounter, OperationResult, ZoneChanged, ZoneDetails,
};

impl ListedItem {
    /// Formats an item as one line, for pipes and files.
    pub fn text(&self) -> String {
        match self {
            ListedItem::TsigKey(key) => {
                let secret = key
                    .secret
                    .as_ref()
                    .map(|secret| format!(" {}", secret.reveal()));
                let secret = secret.unwrap_or_default();
                format!("{} {}{secret} ({})", key.name, key.algorithm, key.source)
            }
            ListedItem::CookieSecret(secret) => secret.line(),
            ListedItem::View(view) => view.line(),
            ListedItem::ZoneKey(key) => key_text::line(key),
            ListedItem::Comment(comment) => record_text::comment(comment),
            ListedItem::Status(status) => zone_status_text::line(status),
            ListedItem::Difference(record) => record_text::difference(record),
            ListedItem::Found(FoundRecord { record, .. }) | ListedItem::Record(record) => {
                record_text::record_line(record)
            }
            ListedItem::Changed(one) => record_text::changed(one),
            item => item
                .row()
                .map_or_else(String::new, |(_, row)| row.join(" ")),
        }
    }
}

impl OperationResult {
    /// Formats a result.
    pub fn text(&self) -> String {
        match self {
            Self::Status(status) => status_text::text(status),
            Self::Process(process) => format!("{}\n", process.id),
            Self::Stopping => "stopped\n".into(),
            Self::Reloaded(report) => format!("reloaded: {}\n", report.summary),
            Self::Counters { counters } => counters_text(counters),
            Self::QueryLog(status) => query_log_text(status),
            Self::Health { targets } => health_text(targets),
            Self::LogLevel { level } => format!("{level}\n"),
            Self::Flushed { entries: 1 } => "flushed 1 cache entry\n".into(),
            Self::Flushed { entries } => format!("flushed {entries} cache entries\n"),
            Self::Listed { .. } | Self::ListedPage { .. } => String::new(),
            Self::Zone(details) => details_text(details),
            Self::ZoneCreated(changed) => zone_in_backend("created", changed),
            Self::ZoneDeleted {
                changed,
                kept_until,
            } => deleted(changed, *kept_until),
            Self::ZoneUndeleted(changed) => zone_in_backend("restored", changed),
            Self::ZoneChanged(changed) => changed_text(changed),
            Self::ZoneSecured { zone, key, advice } => {
                key_text::secured(zone, key, advice.as_ref())
            }
            Self::ZoneDs { zone, advice, .. } => key_text::ds_advice(zone, advice),
            Self::SigningChanged {
                zone,
                denial,
                soa_edit,
            } => key_text::changed(zone, denial.as_deref(), soa_edit.as_deref()),
            Self::ZoneUnsecured { zone, keys } => unsecured_text(zone, *keys),
            Self::KeySteps(steps) => key_text::steps(steps),
            Self::ZoneKey(key) => format!("{}\n", key_text::line(key)),
            Self::ZoneKeyText { private } => private.reveal().to_owned(),
            Self::ZoneKeyRemoved { zone, key } => key_text::removed(zone, *key),
            Self::ViewChanged(change) => change.text(),
            Self::NetworkChanged(network) => network.change_text(),
            Self::CookieRolled(secret) => format!("{}\n", secret.line()),
            Self::TsigKey(key) => tsig_key_text(key),
            Self::TsigKeyRemoved { name, source } => {
                format!("removed TSIG key {name} from {source}\n")
            }
            Self::ApiKeyCreated { key, secret } => format!(
                "id {}\nkey {}\nThe key is not stored and cannot be shown again. Clients send it in the header X-API-Key.\n",
                key.id,
                secret.reveal()
            ),
            Self::ApiKeyDeleted { id } => format!("deleted API key {id}\n"),
            Self::AutoprimaryAdded {
                address,
                name_server,
                backend,
            } => format!("added autoprimary {address} {name_server} to backend {backend}\n"),
            Self::AutoprimaryRemoved {
                address,
                name_server,
                backends,
                ..
            } => {
                let backends = removed_from_text(backends);
                format!("removed autoprimary {address} {name_server} from {backends}\n")
            }
            Self::ZoneRetrieving { zone } => {
                let zone = zone_text(zone);
                format!("zone {zone}: refresh started; see `nameward zone status {zone}`\n")
            }
            Self::ZoneNotifying { zone } => format!("zone {}: sending notifies\n", zone_text(zone)),
            Self::ZoneSynced {
                zone,
                serial,
                records,
            } => synced_text(zone_text(zone), *serial, *records),
            Self::ZoneFrozen { zone } => format!("zone {}: frozen\n", zone_text(zone)),
            Self::ZoneThawed { zone } => format!("zone {}: thawed\n", zone_text(zone)),
            Self::ZoneDifference { records: 1.., .. } => String::new(),
            Self::ZoneDifference { zone, .. } => {
                format!("zone {}: no difference\n", zone_text(zone))
            }
            Self::NoChange { zone } => format!("zone {}: no change\n", zone_text(zone)),
        }
    }

    /// Returns the warnings of a result.
    pub fn warnings(&self) -> &[String] {
        match self {
            OperationResult::Reloaded(report) => &report.warnings,
            OperationResult::ZoneCreated(changed)
            | OperationResult::ZoneDeleted { changed, .. }
            | OperationResult::ZoneUndeleted(changed)
            | OperationResult::ZoneChanged(changed) => &changed.warnings,
            OperationResult::Zone(details) => &details.warnings,
            _ => &[],
        }
    }
}

fn counters_text(counters: &[NamedCounter]) -> String {
    let lines = counters.iter();
    lines
        .map(|counter| format!("{} {}\n", counter.name, counter.value))
        .collect()
}

fn unsecured_text(zone: &str, keys: usize) -> String {
    let (zone, keys) = (zone_text(zone), counted(keys, "key"));
    format!("zone {zone}: no longer signed, {keys} removed\n")
}

fn changed_text(changed: &ZoneChanged) -> String {
    let serial = match changed.serial {
        Some(serial) => format!(", serial {serial}"),
        None => String::new(),
    };
    format!("zone {}: changed{serial}\n", zone_text(&changed.zone))
}

fn synced_text(zone: &str, serial: u32, records: usize) -> String {
    if records == 0 {
        return format!("zone {zone}: the file is up to date, serial {serial}\n");
    }
    let records = counted(records, "record");
    format!("zone {zone}: wrote the zone file, serial {serial}, {records} changed\n")
}

fn tsig_key_text(key: &ListedTsigKey) -> String {
    let secret = key.secret.as_ref().map_or("", |secret| secret.reveal());
    format!(
        "name {}\nalgorithm {}\nsecret {secret}\nstored in {}\n",
        key.name, key.algorithm, key.source
    )
}

fn removed_from_text(backends: &[u32]) -> String {
    let plural = if backends.len() == 1 { "" } else { "s" };
    let backends: Vec<String> = backends.iter().map(u32::to_string).collect();
    format!("backend{plural} {}", backends.join(", "))
}

/// Formats a deleted zone, and how long it can be restored.
fn deleted(changed: &ZoneChanged, kept_until: Option<u64>) -> String {
    let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
    match kept_until {
        None => format!("deleted zone {zone} from {backend}\n"),
        Some(until) => format!(
            "deleted zone {zone} from {backend}; restore it with `nameward zone undelete {zone}` until {}\n",
            utc_text(until)
        ),
    }
}

fn zone_in_backend(done: &str, changed: &ZoneChanged) -> String {
    let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
    format!("{done} zone {zone} in {backend}\n")
}

fn backend_text(changed: &ZoneChanged) -> String {
    match changed.engine.as_str() {
        "state store" => "the state store".into(),
        engine => format!("backend {} ({engine})", changed.backend),
    }
}

fn details_text(details: &ZoneDetails) -> String {
    let serial = details
        .serial
        .map_or("none".into(), |serial| serial.to_string());
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} {value}");
    };
    line("name", &details.name);
    line("kind", details.kind.name());
    line("state", &details.state.replace(' ', "-"));
    line("serial", &serial);
    for (key, value) in [
        ("stored-serial", details.stored_serial.map(u64::from)),
        ("records", details.records),
        ("disabled", details.disabled),
    ] {
        if let Some(value) = value {
            line(key, &value.to_string());
        }
    }
    let backend = match details.backend {
        0 => details.database.clone(),
        number => format!("{number} {}", details.database),
    };
    line("backend", &backend);
    line("mode", &details.mode);
    for (key, value) in [
        ("primaries", &details.primaries),
        ("account", &details.account),
        ("catalog", &details.catalog),
    ] {
        if let Some(value) = value {
            line(key, value);
        }
    }
    if let Some(signing) = &details.signing {
        text.push_str(&zone_status_text::signing_lines(signing));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_use_the_terms_of_other_servers() {
        let changed = ZoneChanged {
            zone: "example.org.".into(),
            backend: 1,
            engine: "sqlite".into(),
            serial: Some(2_026_111_502),
            previous_serial: Some(2_026_111_501),
            warnings: vec!["look".into()],
        };
        let created = OperationResult::ZoneCreated(changed.clone());
        assert_eq!(created.warnings(), ["look"]);
        assert_eq!(
            created.text(),
            "created zone example.org in backend 1 (sqlite)\n"
        );
        assert_eq!(
            OperationResult::ZoneChanged(changed).text(),
            "zone example.org: changed, serial 2026111502\n"
        );
        let zone = "example.org.".into();
        assert_eq!(
            OperationResult::NoChange { zone }.text(),
            "zone example.org: no change\n"
        );
        assert_eq!(zone_text("."), ".");
    }
}
