//! `nameward import`: converts the configuration of another server to nameward.toml, with a report of what was
//! converted, what changed and what is not supported.

mod catalogs;
mod databases;
mod output;
mod signed_zones;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use nameward_import::{
    Files, OnDisk,
    bind::migrate as bind,
    migrate::{
        ImportReport, ImportVerdict, ImportedServer, ImportedZone, SecretLocation, TomlPlan, knot,
        nsd, pdns,
    },
};
use nameward_wire::NameBuf;
use serde_json::json;

use crate::{
    check,
    cli::{
        import::ImportArguments,
        print::{OutputForm, Printer, exit_code},
    },
    command_error::CommandResult,
    config::{Config, error::ConfigError},
    privileges::UserAndGroup,
};
use output::{FILE_NAME, ImportOutput, KEYS, NewFile};
use signed_zones::SignedLocations;

/// The directory for DNSSEC keys, in the state directory: the server replaces them.
const DNSSEC_KEYS: &str = "dnssec-keys";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OtherServer {
    /// PowerDNS Authoritative.
    PowerDns,
    Bind,
    Nsd,
    Knot,
}

/// Reads, reports and writes. The exit code is not 0 while something would leak or break.
pub fn run(server: OtherServer, arguments: &ImportArguments, form: OutputForm) -> CommandResult {
    let mut printer = Printer::new(form);
    let read: fn(&Path, &mut dyn Files) -> ImportedServer = match server {
        OtherServer::PowerDns => pdns::read,
        OtherServer::Bind => bind::read,
        OtherServer::Nsd => nsd::read,
        OtherServer::Knot => knot::read,
    };
    // Absolute, so that paths in the new file do not depend on its location.
    let mut moved = read(&absolute(&arguments.file), &mut OnDisk);
    if !moved.errors.is_empty() {
        check::print(&moved.errors, &mut printer)?;
        return Ok(ExitCode::FAILURE);
    }
    databases::survey_all(&mut moved);
    let base = absolute(&arguments.out);
    let dnssec_keys = absolute(&arguments.state_directory).join(DNSSEC_KEYS);
    let places = SignedLocations {
        out: &base,
        keys: &dnssec_keys,
    };
    let mut files = signed_zones::convert(&mut moved, &places);
    files.extend(generated_files(&mut moved, &base));
    catalogs::convert(&mut moved);
    let user = output::server_user(arguments.user.as_deref())?;
    if let Some(user) = user {
        note_unreadable(&mut moved, user);
    }
    let plan = |secrets| TomlPlan {
        from: arguments.file.display().to_string(),
        state_directory: arguments.state_directory.clone(),
        secrets,
    };
    // The output must be a valid configuration. Secrets are not in files yet.
    let inline = moved.to_toml(&plan(SecretLocation::Inline));
    let refused = Config::parse(&inline, &base).err();
    let text = moved.to_toml(&plan(SecretLocation::Directory(KEYS.into())));
    report(&moved.report, &mut printer)?;
    let is_good = refused.is_none() && moved.report.count(ImportVerdict::Breaks) == 0;
    if arguments.dry_run {
        print_file(&text, form, &mut printer)?;
    } else {
        let output = ImportOutput {
            out: &base,
            dnssec_keys: &dnssec_keys,
            user,
        };
        let sample = output.write(&text, &moved, &files)?;
        let path = arguments.out.join(FILE_NAME);
        let object = json!({ "written": path, "sample": sample });
        let kept = match sample {
            Some(sample) => format!("; the packaged sample is now {}", sample.display()),
            None => String::new(),
        };
        printer.object(&object, format_args!("wrote {}{kept}", path.display()))?;
    }
    if let Some(problems) = refused {
        let message = ConfigError::Wrong(FILE_NAME.into(), problems).to_string();
        printer.message("error", &message)?;
    }
    Ok(exit_code(is_good))
}

/// Returns the files of zones that the other server has in another form, and sets their paths.
fn generated_files(moved: &mut ImportedServer, base: &Path) -> Vec<NewFile> {
    let mut files = Vec::new();
    for zone in &mut moved.zones {
        let Some(text) = &zone.text else {
            continue;
        };
        let Ok(name) = NameBuf::zone_from_text(&zone.name) else {
            continue;
        };
        let file = signed_zones::file_of(&name);
        files.push(NewFile {
            path: base.join(&file),
            contents: text.clone().into_bytes(),
            mode: 0o644,
        });
        zone.file = Some(file);
    }
    files
}

/// Reports zone files, which stay where they are, that the server's user cannot read.
fn note_unreadable(moved: &mut ImportedServer, user: UserAndGroup) {
    let is_kept = |zone: &&ImportedZone| zone.signing.is_none() && zone.text.is_none();
    for zone in moved.zones.iter().filter(is_kept) {
        let Some(file) = zone.file.as_deref() else {
            continue;
        };
        if !output::is_readable(file, user) {
            let text = format!(
                "zone {}: the server's user cannot read {}: move the file, or change its group and mode",
                zone.name,
                file.display()
            );
            moved
                .report
                .add(ImportVerdict::Breaks, &zone.location, text);
        }
    }
}

/// Prints the file that would be written.
fn print_file(text: &str, form: OutputForm, printer: &mut Printer) -> io::Result<()> {
    match form {
        OutputForm::Json => printer.object(&json!({ "nameward_toml": text }), ""),
        OutputForm::Text => text
            .lines()
            .try_for_each(|line| printer.object(&json!(null), line)),
    }
}

/// Prints each line, then the summary.
fn report(report: &ImportReport, printer: &mut Printer) -> io::Result<()> {
    for note in report.notes() {
        let object = json!({
            "file": *note.location.file, "line": note.location.line, "verdict": note.verdict.words(),
            "message": note.text, "count": note.count,
        });
        printer.object(&object, note)?;
    }
    let counts = ImportVerdict::ALL.map(|verdict| (verdict.words(), report.count(verdict)));
    let text: Vec<String> = counts
        .iter()
        .map(|(words, count)| format!("{count} {words}"))
        .collect();
    let object: serde_json::Map<String, serde_json::Value> = counts
        .iter()
        .map(|(words, count)| {
            (
                words.replace([' ', ','], "_").replace("__", "_"),
                json!(count),
            )
        })
        .collect();
    printer.object(&object, text.join("; "))
}

fn absolute(path: &Path) -> PathBuf {
    match env::current_dir() {
        Ok(here) => here.join(path),
        Err(_) => path.to_path_buf(),
    }
}
