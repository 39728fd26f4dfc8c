//! `nameward check`: reads the configuration and every zone as the server would.

use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use std::{io, process::ExitCode, sync::Arc};

use arc_swap::ArcSwap;
use nameward_files::{FileBackend, FileSource, LoadEvent, LoadSummary, ZoneTarget};
use nameward_keys::local::key_file_faults;
use nameward_maintain::{
    follow,
    policy::{PolicySource, PolicyTable},
};
use nameward_wire::{
    Name,
    zonefile::{Diagnostic, Severity},
};
use nameward_zone::{AccessRules, Contest, TableChange, Zone, ZoneTable};
use serde_json::json;

use crate::{
    cli::print::{OutputForm, Printer, exit_code},
    command_error::CommandResult,
    config::{Config, Overrides, settings::ZoneSettings, steering_settings, view_settings},
    db, example,
    policies::{self, UnknownKey},
    privileges,
    serve::failures,
    start_error::StartError,
    zones,
};

/// Returns the faults of a zone's stored signatures.
fn signature_faults(zone: &Zone) -> Vec<String> {
    let inspection = zone.inspect_signatures(now_seconds());
    inspection.map_or_else(Vec::new, |inspection| inspection.faults())
}

/// The zone table of a check, which accepts the zones that the server would accept.
struct CheckedZones {
    table: ArcSwap<ZoneTable>,
    policies: PolicyTable,
}

impl CheckedZones {
    fn new(config: &Config) -> Self {
        let policies = PolicyTable::default();
        policies.set(PolicySource::Configured, policies::set(config));
        CheckedZones {
            table: ArcSwap::default(),
            policies,
        }
    }
}

impl ZoneTarget for CheckedZones {
    fn table(&self) -> Arc<ZoneTable> {
        self.table.table()
    }

    fn publish(&self, changes: Vec<TableChange>) -> Vec<Contest> {
        self.table.publish(changes)
    }

    fn set_access(&self, rules: AccessRules) {
        self.table.set_access(rules);
    }

    fn objection(&self, zone: &Zone) -> Option<String> {
        let policies = self.policies.load();
        policies.get(zone.id()).zonemd.objection(zone)
    }

    fn last_good(&self, _: Name<'_>) -> Option<Zone> {
        None
    }
}

/// Numbers of zones, errors and warnings that a check found.
#[derive(Default)]
struct CheckCounts {
    good: usize,
    errors: usize,
    warnings: usize,
}

/// Reads everything, prints a line for each fault, and ends with a summary.
pub fn run(overrides: &Overrides, form: OutputForm) -> CommandResult {
    let config = Config::load(overrides)?;
    let sources = zones::sources(&config);
    let mut printer = Printer::new(form);
    let mut counts = CheckCounts::default();
    let failures = failures(&config);
    for failure in &failures {
        counts.errors += 1;
        printer.message("error", &failure.to_string())?;
    }
    if !failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    // Run as the server's user, so that root also detects files that this user cannot read.
    let _identity = privileges::borrow_server_user(&config).map_err(StartError::from)?;
    if config.example {
        example::zone().map_err(StartError::Example)?;
        counts.good += 1;
    }
    for text in config_warnings(&config) {
        counts.warnings += 1;
        printer.message("warning", &text)?;
    }
    let table = CheckedZones::new(&config);
    for fault in key_file_faults(&table.policies.load()) {
        let severity = if fault.is_fatal {
            counts.errors += 1;
            "error"
        } else {
            counts.warnings += 1;
            "warning"
        };
        printer.message(severity, &fault.to_string())?;
    }
    let summary = check_files(&table, &sources, &mut counts, &mut printer)?;
    let databases = db::check_all(&config, &mut printer)?;
    counts.good += summary.loaded;
    counts.errors += summary.problems + databases.wrong;
    counts.warnings += databases.warnings;
    let (zones, warned) = (
        counted(counts.good, "zone"),
        counted(counts.warnings, "warning"),
    );
    let text = format!("{zones} good, {} with errors, {warned}", summary.refused);
    let object =
        json!({ "good": counts.good, "refused": summary.refused, "warnings": counts.warnings });
    printer.object(&object, text)?;
    Ok(exit_code(counts.errors == 0))
}

/// Returns what is possible, but probably not meant.
fn config_warnings(config: &Config) -> Vec<String> {
    let unknown_key = |UnknownKey { key, place }| {
        format!(
            "{place}: TSIG key {key} is not in the configuration; it works only if it is in the state store or a \
             database"
        )
    };
    let without_kind = |zone: &ZoneSettings| {
        format!(
            "zone {}: primaries are set but kind is not: it is transferred only if a database or catalog makes it a secondary",
            zone.name.0
        )
    };
    { policies::unknown_keys(config).into_iter() }
        .map(unknown_key)
        .chain(view_settings::unknown_listeners(config))
        .chain(steering_settings::missing_interpreter(config))
        .chain(zones::primaries_without_kind(config).map(without_kind))
        .collect()
}

/// Loads all zone files as a server does, and prints what is wrong with them.
fn check_files(
    table: &CheckedZones,
    sources: &[FileSource],
    counts: &mut CheckCounts,
    printer: &mut Printer,
) -> CommandResult<LoadSummary> {
    let mut written = Ok(());
    let summary = FileBackend::new().load(table, sources, &mut |event| {
        let result = match event {
            LoadEvent::Served(name, zone, diagnostics) => {
                let faults = signature_faults(zone);
                counts.warnings += diagnostics.len() + faults.len();
                let lines = faults.iter().try_for_each(|fault| {
                    printer.message("warning", &format!("zone {name}: {fault}"))
                });
                lines.and_then(|()| print(diagnostics, printer))
            }
            LoadEvent::Refused(_, diagnostics, _) => {
                counts.errors += 1;
                print(diagnostics, printer)
            }
            LoadEvent::Problem(text) => printer.message("error", text),
            LoadEvent::Note(text) => {
                counts.warnings += 1;
                printer.message("warning", text)
            }
            LoadEvent::Waiting(name, path) => {
                counts.warnings += 1;
                printer.message("warning", &follow::waiting(name, path))
            }
            LoadEvent::Removed(_)
            | LoadEvent::Missing(_)
            | LoadEvent::Returned(_)
            | LoadEvent::Contested(..)
            | LoadEvent::Progress(..)
            | LoadEvent::Known => Ok(()),
        };
        if written.is_ok() {
            written = result;
        }
    });
    written?;
    Ok(summary)
}

pub fn print(diagnostics: &[Diagnostic], printer: &mut Printer) -> io::Result<()> {
    for diagnostic in diagnostics {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let object = json!({
            "severity": severity, "file": *diagnostic.file, "line": diagnostic.line,
            "column": diagnostic.column, "message": diagnostic.message,
        });
        printer.object(&object, diagnostic)?;
    }
    Ok(())
}
