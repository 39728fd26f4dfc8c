//! Owns `nameward import`: the configuration of another server, written anew as nameward.toml, with a report of what was
//! taken, changed and is not possible.

use std::{
    env, fs,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use nameward_import::{
    Files, OnDisk,
    bind::moving as bind,
    moving::{
        MoveReport, MoveVerdict, MovedServer, SecretPlace, TomlPlan, knot, nsd, pdns,
        secret_file_name,
    },
};
use serde_json::json;

use crate::{
    check,
    cli::print::{OutputForm, Printer},
    command_error::CommandError,
    config::{Config, error::ConfigError},
};

const FILE_NAME: &str = "nameward.toml";
/// The directory of the secrets, beside the file.
const KEYS: &str = "keys";

/// The server that is left.
#[derive(Clone, Copy)]
pub enum OtherServer {
    /// PowerDNS Authoritative.
    PowerDns,
    /// BIND.
    Bind,
    /// NSD.
    Nsd,
    /// Knot.
    Knot,
}

/// An order to read a configuration, and where to write.
pub struct ImportOrder {
    /// The kind of the configuration.
    pub server: OtherServer,
    /// The configuration.
    pub file: PathBuf,
    /// The directory for what is written.
    pub out: PathBuf,
    /// Nothing is written.
    pub is_dry_run: bool,
    /// The state directory of the new server.
    pub state_directory: PathBuf,
}

/// Reads, reports and writes. The exit code is not 0 while something would leak or break.
pub fn run(order: &ImportOrder, form: OutputForm) -> Result<ExitCode, CommandError> {
    let mut printer = Printer::new(form);
    let read: fn(&Path, &mut dyn Files) -> MovedServer = match order.server {
        OtherServer::PowerDns => pdns::read,
        OtherServer::Bind => bind::read,
        OtherServer::Nsd => nsd::read,
        OtherServer::Knot => knot::read,
    };
    // Paths in the new file do not depend on where it is put.
    let moved = read(&absolute(&order.file), &mut OnDisk);
    if !moved.errors.is_empty() {
        check::print(&moved.errors, &mut printer).map_err(CommandError::Output)?;
        return Ok(ExitCode::FAILURE);
    }
    let plan = |secrets| TomlPlan {
        from: order.file.display().to_string(),
        state_directory: order.state_directory.clone(),
        secrets,
    };
    // What is written has to be a configuration. Secrets are in no file yet.
    let base = absolute(&order.out);
    let inline = moved.to_toml(&plan(SecretPlace::Inline));
    let refused = Config::parse(&inline, &base).err();
    let text = moved.to_toml(&plan(SecretPlace::Directory(KEYS.into())));
    report(&moved.report, &mut printer).map_err(CommandError::Output)?;
    let is_good = refused.is_none() && moved.report.count(MoveVerdict::Breaks) == 0;
    if order.is_dry_run {
        print_file(&text, form, &mut printer).map_err(CommandError::Output)?;
    } else {
        write_all(&order.out, &text, &moved)?;
        let path = order.out.join(FILE_NAME);
        let object = json!({ "written": path });
        printer
            .object(&object, format_args!("wrote {}", path.display()))
            .map_err(CommandError::Output)?;
    }
    if let Some(problems) = refused {
        let message = ConfigError::Wrong(FILE_NAME.into(), problems).to_string();
        let object = json!({ "severity": "error", "message": message });
        printer
            .object(&object, message)
            .map_err(CommandError::Output)?;
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
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

/// Prints each line, then the sum.
fn report(report: &MoveReport, printer: &mut Printer) -> io::Result<()> {
    for note in report.notes() {
        let object = json!({
            "file": *note.place.file, "line": note.place.line, "verdict": note.verdict.words(),
            "message": note.text, "count": note.count,
        });
        printer.object(&object, note)?;
    }
    let counts = MoveVerdict::ALL.map(|verdict| (verdict.words(), report.count(verdict)));
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

/// Writes the secrets and then the file that names them. A file that is there is left alone.
fn write_all(out: &Path, text: &str, moved: &MovedServer) -> Result<(), CommandError> {
    let target = out.join(FILE_NAME);
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| CommandError::Import(path, error)
    };
    if target.exists() {
        let there = io::Error::other("it is there already: move it away, or give another --out");
        return Err(CommandError::Import(target, there));
    }
    let keys = out.join(KEYS);
    let needed = match moved.keys.is_empty() {
        true => out,
        false => &keys,
    };
    fs::create_dir_all(needed).map_err(failed(needed))?;
    for key in &moved.keys {
        let path = keys.join(secret_file_name(&key.name));
        let secret = format!("{}\n", key.secret);
        write_new(&path, &secret, 0o600).map_err(failed(&path))?;
    }
    // It may hold the password of a database.
    write_new(&target, text, 0o640).map_err(failed(&target))
}

fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
