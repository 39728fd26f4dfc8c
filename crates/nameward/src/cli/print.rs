//! The output of commands: lines for people, or one JSON object per line for programs.

mod change;
mod server_status;
mod table;
mod zone_key;
mod zone_status;

use nameward_base::text::counted;
use std::{
    fmt::{self, Write as _},
    io::{self, BufWriter, IsTerminal, Write},
    sync::OnceLock,
};

use nameward_control::operations::{
    FoundRecord, ListedItem, ListedRecord, OperationError, OperationResult, ZoneChanged,
    ZoneDetails,
};
use serde::Serialize;
use table::Table;

use super::logs::query_log_text;
use crate::terminal;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// Lines for people.
    Text,
    /// JSON objects, one per line.
    Json,
}

/// The format from the command line; notes from lower layers use it as well.
static FORM: OnceLock<OutputForm> = OnceLock::new();

/// Sets the format of notes. Only the first call counts.
pub fn set_form(form: OutputForm) {
    let _ = FORM.set(form);
}

/// Prints a note for the operator on stderr, separate from data.
pub fn note(text: &str) {
    match FORM.get() {
        Some(OutputForm::Json) => eprintln!("{}", serde_json::json!({ "note": text })),
        _ => eprintln!("nameward: {}", terminal::line(text)),
    }
}

/// An output that its reader may close (`| head`), which is not an error.
pub struct Printer {
    out: BufWriter<io::StdoutLock<'static>>,
    form: OutputForm,
    /// On a terminal, tables have headers.
    is_terminal: bool,
    table: Table,
}

impl Printer {
    /// Prints to stdout.
    pub fn new(form: OutputForm) -> Self {
        Printer {
            out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
            form,
            is_terminal: io::stdout().is_terminal(),
            table: Table::default(),
        }
    }

    /// Prints an item of a listing.
    pub fn item(&mut self, item: &ListedItem) -> io::Result<()> {
        match self.form {
            OutputForm::Json => self.json_item(item),
            OutputForm::Text => match table::row_of(item) {
                Some(row) if self.is_terminal || row.0 == change::VERSION_HEADER => {
                    self.table.add(row, &mut self.out)
                }
                _ => self.text_item(item),
            },
        }
    }

    fn json_item(&mut self, item: &ListedItem) -> io::Result<()> {
        match item {
            ListedItem::Zone(zone) => self.json(zone),
            ListedItem::Attributes(zone) => self.json(zone),
            ListedItem::DeletedZone(zone) => self.json(zone),
            ListedItem::Record(record) => self.json(record),
            ListedItem::TsigKey(key) => self.json(key),
            ListedItem::ZoneKey(key) => self.json(key),
            ListedItem::Status(status) => self.json(status),
            ListedItem::Difference(record) => self.json(record),
            ListedItem::Changed(change) => self.json(change),
            ListedItem::Version(version) => self.json(version),
            ListedItem::Metadata(item) => self.json(item),
            ListedItem::Comment(comment) => self.json(comment),
            ListedItem::Found(found) => self.json(found),
            ListedItem::Catalog(catalog) => self.json(catalog),
            ListedItem::Member(member) => self.json(member),
            ListedItem::Autoprimary(one) => self.json(one),
            ListedItem::Secured(zone) => self.json(zone),
            ListedItem::ApiKey(key) => self.json(key),
            ListedItem::Audit(entry) => self.json(entry),
        }
    }

    /// Prints an item as a line, for pipes and files.
    fn text_item(&mut self, item: &ListedItem) -> io::Result<()> {
        let line = match item {
            ListedItem::TsigKey(key) => {
                let secret = key.secret.as_ref().map(|secret| format!(" {}", secret.0));
                let secret = secret.unwrap_or_default();
                format!("{} {}{secret} ({})", key.name, key.algorithm, key.source)
            }
            ListedItem::ZoneKey(key) => zone_key::line(key),
            ListedItem::Comment(comment) => change::comment(comment),
            ListedItem::Status(status) => zone_status::line(status),
            ListedItem::Difference(record) => change::difference(record),
            ListedItem::Found(FoundRecord { record, .. }) | ListedItem::Record(record) => {
                return write!(self.out, "{}", terminal::lines(record_line(record)));
            }
            ListedItem::Changed(one) => {
                writeln!(self.out, "{}", terminal::line(change::changed(one)))?;
                return self.warn(&one.changed.warnings);
            }
            item => table::row_of(item).map_or_else(String::new, |(_, row)| row.join(" ")),
        };
        writeln!(self.out, "{}", terminal::line(line))
    }

    /// Prints the result of an operation.
    pub fn result(&mut self, result: &OperationResult) -> io::Result<()> {
        self.table.print(&mut self.out)?;
        match (self.form, result) {
            // Already printed as items.
            (_, OperationResult::Listed { .. }) => {}
            (OutputForm::Json, result) => self.json(result)?,
            (OutputForm::Text, result) => {
                write!(self.out, "{}", terminal::lines(text(result)))?;
                self.warn(warnings_of(result))?;
            }
        }
        self.out.flush()
    }

    /// Finishes the output.
    pub fn end(&mut self) -> io::Result<()> {
        self.table.print(&mut self.out)?;
        self.out.flush()
    }

    /// Prints an object: as JSON, or as one line of text.
    pub fn object(&mut self, object: &impl Serialize, text: impl fmt::Display) -> io::Result<()> {
        match self.form {
            OutputForm::Json => self.json(object)?,
            OutputForm::Text => writeln!(self.out, "{}", terminal::line(text))?,
        }
        self.out.flush()
    }

    /// Prints warnings to stderr, after the output so far.
    fn warn(&mut self, warnings: &[String]) -> io::Result<()> {
        if !warnings.is_empty() {
            self.out.flush()?;
        }
        for warning in warnings {
            eprintln!("nameward: warning: {}", terminal::line(warning));
        }
        Ok(())
    }

    fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")
    }
}

impl Drop for Printer {
    /// Prints the rows of a listing that was cut off.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Prints an error to stderr.
pub fn error(form: OutputForm, error: &OperationError) {
    match form {
        OutputForm::Text => {
            for line in error.message.lines() {
                eprintln!("nameward: {}", terminal::line(line));
            }
        }
        OutputForm::Json => eprintln!("{}", serde_json::json!({ "error": error })),
    }
}

/// Returns the name of a zone for a sentence: without its final dot, unless it is the root.
pub fn zone_text(name: &str) -> &str {
    match name.strip_suffix('.') {
        None | Some("") => name,
        Some(rest) => rest,
    }
}

/// Returns the warnings of a result.
fn warnings_of(result: &OperationResult) -> &[String] {
    match result {
        OperationResult::Reloaded(report) => &report.warnings,
        OperationResult::ZoneCreated(changed)
        | OperationResult::ZoneDeleted { changed, .. }
        | OperationResult::ZoneUndeleted(changed)
        | OperationResult::ZoneChanged(changed) => &changed.warnings,
        OperationResult::Zone(details) => &details.warnings,
        _ => &[],
    }
}

/// Formats a record as a zone file line; one that is not served is a comment.
fn record_line(record: &ListedRecord) -> String {
    let ListedRecord {
        id,
        name,
        ttl,
        rtype,
        content,
        ..
    } = record;
    let id = id.unwrap_or_default();
    let line = format!("{name} {ttl} IN {rtype} {content}\n");
    match (&record.problem, record.disabled) {
        (None, false) => line,
        (None, true) => format!("; disabled: {line}"),
        (Some(problem), false) => format!("; cannot be served, id {id}: {problem}: {line}"),
        (Some(problem), true) => format!("; disabled, id {id}: {problem}: {line}"),
    }
}

/// Formats a result in the terms that operators of BIND and PowerDNS know.
fn text(result: &OperationResult) -> String {
    match result {
        OperationResult::Status(status) => server_status::text(status),
        OperationResult::Stopping => "stopped\n".into(),
        OperationResult::Reloaded(report) => format!("reloaded: {}\n", report.summary),
        OperationResult::Counters { counters } => {
            let line = |text: &mut String, name: &str, value: u64| {
                let _ = writeln!(text, "{name} {value}");
            };
            let mut text = String::new();
            for counter in counters {
                line(&mut text, &counter.name, counter.value);
            }
            text
        }
        OperationResult::QueryLog(status) => query_log_text(status),
        OperationResult::LogLevel { level } => format!("{level}\n"),
        OperationResult::Flushed { entries: 1 } => "flushed 1 cache entry\n".into(),
        OperationResult::Flushed { entries } => {
            format!("flushed {entries} cache entries\n")
        }
        OperationResult::Listed { .. } => String::new(),
        OperationResult::Zone(details) => details_text(details),
        OperationResult::ZoneCreated(changed) => {
            let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
            format!("created zone {zone} in {backend}\n")
        }
        OperationResult::ZoneDeleted {
            changed,
            kept_until,
        } => change::deleted(changed, *kept_until),
        OperationResult::ZoneUndeleted(changed) => {
            let (zone, backend) = (zone_text(&changed.zone), backend_text(changed));
            format!("restored zone {zone} in {backend}\n")
        }
        OperationResult::ZoneChanged(changed) => {
            let zone = zone_text(&changed.zone);
            let serial = match changed.serial {
                Some(serial) => format!(", serial {serial}"),
                None => String::new(),
            };
            format!("zone {zone}: changed{serial}\n")
        }
        OperationResult::ZoneSecured { zone, key, advice } => {
            zone_key::secured(zone, key, advice.as_ref())
        }
        OperationResult::ZoneDs { zone, advice, .. } => zone_key::ds_advice(zone, advice),
        OperationResult::SigningChanged {
            zone,
            denial,
            soa_edit,
        } => zone_key::changed(zone, denial.as_deref(), soa_edit.as_deref()),
        OperationResult::ZoneUnsecured { zone, keys } => {
            let (zone, keys) = (zone_text(zone), counted(*keys, "key"));
            format!("zone {zone}: no longer signed, {keys} removed\n")
        }
        OperationResult::KeySteps(steps) => zone_key::steps(steps),
        OperationResult::ZoneKey(key) => format!("{}\n", zone_key::line(key)),
        OperationResult::ZoneKeyText { private } => private.0.clone(),
        OperationResult::ZoneKeyRemoved { zone, key } => {
            format!("zone {}: key {key} removed\n", zone_text(zone))
        }
        OperationResult::TsigKey(key) => {
            let secret = key.secret.as_ref().map_or("", |secret| &secret.0);
            format!(
                "name {}\nalgorithm {}\nsecret {secret}\nstored in {}\n",
                key.name, key.algorithm, key.source
            )
        }
        OperationResult::TsigKeyRemoved { name, source } => {
            format!("removed TSIG key {name} from {source}\n")
        }
        OperationResult::ApiKeyCreated { key, secret } => format!(
            "id {}\nkey {}\nThe key is not stored and cannot be shown again. Clients send it in the header X-API-Key.\n",
            key.id, secret.0
        ),
        OperationResult::ApiKeyDeleted { id } => format!("deleted API key {id}\n"),
        OperationResult::AutoprimaryAdded {
            address,
            name_server,
            backend,
        } => format!("added autoprimary {address} {name_server} to backend {backend}\n"),
        OperationResult::AutoprimaryRemoved {
            address,
            name_server,
            backends,
            ..
        } => {
            let backends: Vec<String> = backends.iter().map(u32::to_string).collect();
            let plural = if backends.len() == 1 { "" } else { "s" };
            let backends = backends.join(", ");
            format!("removed autoprimary {address} {name_server} from backend{plural} {backends}\n")
        }
        OperationResult::ZoneRetrieving { zone } => {
            let zone = zone_text(zone);
            format!("zone {zone}: refresh started; see `nameward zone status {zone}`\n")
        }
        OperationResult::ZoneNotifying { zone } => {
            format!("zone {}: sending notifies\n", zone_text(zone))
        }
        OperationResult::ZoneSynced {
            zone,
            serial,
            records,
        } => {
            let zone = zone_text(zone);
            match records {
                0 => format!("zone {zone}: the file is up to date, serial {serial}\n"),
                _ => {
                    let records = counted(*records, "record");
                    format!(
                        "zone {zone}: wrote the zone file, serial {serial}, {records} changed\n"
                    )
                }
            }
        }
        OperationResult::ZoneFrozen { zone } => format!("zone {}: frozen\n", zone_text(zone)),
        OperationResult::ZoneThawed { zone } => format!("zone {}: thawed\n", zone_text(zone)),
        OperationResult::ZoneDifference {
            zone, records: 0, ..
        } => format!("zone {}: no difference\n", zone_text(zone)),
        OperationResult::ZoneDifference { .. } => String::new(),
        OperationResult::NoChange { zone } => format!("zone {}: no change\n", zone_text(zone)),
    }
}

fn backend_text(changed: &ZoneChanged) -> String {
    match changed.engine.as_str() {
        "state store" => "the state store".into(),
        engine => format!("backend {} ({engine})", changed.backend),
    }
}

/// Formats a duration as "2d 3h 4m 5s", without leading zero units.
fn duration_text(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(number, _)| *number > 0);
    let shown = &parts[first.unwrap_or(parts.len() - 1)..];
    let words = shown.iter().map(|(number, unit)| format!("{number}{unit}"));
    words.collect::<Vec<_>>().join(" ")
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
        text.push_str(&zone_status::signing_lines(signing));
    }
    text
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
        assert_eq!(record(false, None), "www.a.test. 60 IN A 192.0.2.1\n");
        assert_eq!(
            record(true, None),
            "; disabled: www.a.test. 60 IN A 192.0.2.1\n"
        );
        for disabled in [false, true] {
            let line = record(disabled, Some("the name is not valid"));
            assert!(line.starts_with("; ") && line.contains("id 7"), "{line}");
        }
    }

    #[test]
    fn results_are_printed_in_the_words_of_other_servers() {
        let changed = ZoneChanged {
            zone: "example.org.".into(),
            backend: 1,
            engine: "sqlite".into(),
            serial: Some(2_026_111_502),
            warnings: vec!["look".into()],
        };
        let created = OperationResult::ZoneCreated(changed.clone());
        assert_eq!(warnings_of(&created), ["look"]);
        assert_eq!(
            text(&created),
            "created zone example.org in backend 1 (sqlite)\n"
        );
        assert_eq!(
            text(&OperationResult::ZoneChanged(changed)),
            "zone example.org: changed, serial 2026111502\n"
        );
        let zone = "example.org.".into();
        assert_eq!(
            text(&OperationResult::NoChange { zone }),
            "zone example.org: no change\n"
        );
        assert_eq!(zone_text("."), ".");
    }

    #[test]
    fn durations_leave_out_what_is_zero_in_front() {
        for (seconds, expected) in [
            (0, "0s"),
            (61, "1m 1s"),
            (3600, "1h 0m 0s"),
            (90_061, "1d 1h 1m 1s"),
        ] {
            assert_eq!(duration_text(seconds), expected);
        }
    }
}
