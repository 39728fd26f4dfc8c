//! `nameward pdnsutil` and `nameward pdns_control`: PowerDNS commands, mapped to our commands and operations.
//!
//! Scripts keep working, with both spellings of pdnsutil: verbs as in 4.x (`add-record`), nouns as in 5.x (`rrset
//! add`). A command that is not supported says so and exits with a non-zero code.

mod control;
mod keys;
mod secure_all;
mod tools;
mod tsig;
mod util;
mod verbs;
mod views;

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use nameward_control::operations::{
    BatchRecords, BatchRequest, BatchStep, ListedItem, ListedKind, NamedCounter, OperationError,
    OperationRequest, OperationResult, Outcome, ZoneBatch, data_text, zone_name,
};
use nameward_zone::change::set_soa_serial;

use secure_all::SerialRaise;

use super::{
    Cli, dispatch,
    print::{OutputForm, ended},
    target::RemoteArguments,
};
use crate::{
    command_error::{CommandError, CommandResult},
    config::Overrides,
    remote::{self, only},
    zone_commands,
};

#[derive(Subcommand)]
pub enum PdnsCommand {
    /// Run a pdnsutil command of PowerDNS, in the style of 4.x (add-record) or 5.x (rrset add)
    Pdnsutil {
        /// The command and its arguments
        #[arg(
            value_name = "COMMAND",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Run a pdns_control command of PowerDNS: rping, show, purge, notify, retrieve, reload
    #[command(name = "pdns_control")]
    PdnsControl {
        /// The command and its arguments
        #[arg(
            value_name = "COMMAND",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
}

pub fn run(command: PdnsCommand) -> CommandResult {
    let (words, plan): (_, Plan) = match command {
        PdnsCommand::Pdnsutil { words } => (words, util::plan),
        PdnsCommand::PdnsControl { words } => (words, control::plan),
    };
    let words = PdnsWords::read(words);
    let list: Vec<&str> = words.words.iter().map(String::as_str).collect();
    take(plan(&list)?, &words)
}

type Plan = for<'w> fn(&'w [&'w str]) -> Outcome<Vec<PdnsStep<'w>>>;

/// A step of a PowerDNS command.
enum PdnsStep<'w> {
    /// Runs one of our commands.
    Run(Vec<String>),
    /// Prints the text that the function returns.
    Answer(Answer<'w>),
    /// Signs all unsigned zones.
    SecureAll(SerialRaise),
}

/// Does the work of a step, and returns its output.
type Answer<'w> = Box<dyn FnOnce(&Overrides) -> CommandResult<String> + 'w>;

/// Returns the step that prints what a function returns.
fn answer<'w>(text: impl FnOnce(&Overrides) -> CommandResult<String> + 'w) -> Vec<PdnsStep<'w>> {
    vec![PdnsStep::Answer(Box::new(text))]
}

/// Returns the step that runs one of our commands.
fn native<'w>(words: &[&str]) -> PdnsStep<'w> {
    PdnsStep::Run(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Whether a list of zones ends with their number.
#[derive(Clone, Copy)]
enum ZoneCount {
    Printed,
    Silent,
}

/// The words of a command, without the options that only PowerDNS has.
struct PdnsWords {
    words: Vec<String>,
    config: Option<String>,
    control: Option<String>,
}

impl PdnsWords {
    fn read(all: Vec<String>) -> Self {
        let mut read = PdnsWords {
            words: Vec::new(),
            config: None,
            control: None,
        };
        let mut all = all.into_iter();
        while let Some(word) = all.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_owned(), Some(value.to_owned()))
                }
                _ => (word.clone(), None),
            };
            let mut value = || value.clone().or_else(|| all.next());
            match name.as_str() {
                "--config" => read.config = value(),
                "--control" => read.control = value(),
                // Options for the location of PowerDNS.
                "--config-dir" | "--config-name" | "--socket-dir" | "--chroot"
                | "--remote-address" | "--remote-port" | "--secret" => drop(value()),
                "-v" | "--verbose" | "-f" | "--force" | "-q" | "--quiet" => {}
                _ => read.words.push(word),
            }
        }
        read
    }

    /// Returns the flags that select our server.
    fn remote_flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (name, value) in [("--config", &self.config), ("--control", &self.control)] {
            if let Some(value) = value {
                flags.extend([name.to_owned(), value.clone()]);
            }
        }
        flags
    }

    fn overrides(&self) -> Overrides {
        let remote = RemoteArguments {
            config: self.config.clone().map(Into::into),
            control: self.control.clone().map(Into::into),
            message: None,
        };
        remote.overrides()
    }
}

/// Returns the arguments of this process, with the command inserted if it was called through a link named `pdnsutil`
/// or `pdns_control`.
pub fn spelled_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let called = arguments.first().map(PathBuf::from);
    let name = called.as_ref().and_then(|path| path.file_name());
    if let Some(name) = name.filter(|name| *name == "pdnsutil" || *name == "pdns_control") {
        let name = name.to_owned();
        arguments.insert(1, name);
    }
    arguments
}

/// Creates the error for an unsupported command, with an alternative.
fn impossible(verb: &str, instead: &str) -> OperationError {
    OperationError::refused(format!("{verb} is not supported: {instead}"))
}

fn wrong(usage: &str) -> OperationError {
    OperationError::invalid(format!("usage: {usage}"))
}

/// Performs the steps of a command; stops at the first failure.
fn take(steps: Vec<PdnsStep<'_>>, words: &PdnsWords) -> CommandResult {
    for step in steps {
        let code = match step {
            PdnsStep::Run(mut native) => {
                // After the command, before data that may start with a minus.
                let at = native.len().min(2);
                if native[0] != "hash-password" {
                    native.splice(at..at, words.remote_flags());
                }
                native.insert(0, "nameward".into());
                match Cli::try_parse_from(native) {
                    Ok(Cli {
                        command: Some(command),
                        ..
                    }) => dispatch(command, OutputForm::Text)?,
                    Ok(_) => ExitCode::SUCCESS,
                    Err(error) => {
                        let _ = error.print();
                        ExitCode::from(2)
                    }
                }
            }
            PdnsStep::SecureAll(raise) => secure_all::run(raise, &words.overrides())?,
            PdnsStep::Answer(answer) => ended(print(&answer(&words.overrides())?))?,
        };
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> std::io::Result<()> {
    let text = crate::terminal::lines(text).to_string();
    std::io::stdout().lock().write_all(text.as_bytes())
}

/// Returns a name as PowerDNS prints it: without its final dot.
fn bare(name: &str) -> &str {
    nameward_base::text::zone_text(name)
}

fn list_zone(zone: &str, overrides: &Overrides) -> CommandResult<String> {
    let request = OperationRequest::RecordList {
        zone: zone.into(),
        name: None,
        rtype: None,
    };
    let mut lines = remote::list(request, overrides, |item| match item {
        ListedItem::Record(record) if !record.disabled && record.problem.is_none() => {
            Some(format!(
                "{}\t{}\tIN\t{}\t{}\n",
                bare(&record.name),
                record.ttl,
                record.rtype,
                record.content
            ))
        }
        _ => None,
    })?;
    lines.sort_unstable();
    Ok(format!("$ORIGIN .\n{}", lines.concat()))
}

fn list_zones(
    kind: Option<&str>,
    count: ZoneCount,
    overrides: &Overrides,
) -> CommandResult<String> {
    let wanted = kind.map(ListedKind::from_name).transpose()?;
    let names = remote::list(OperationRequest::ZoneList, overrides, |item| match item {
        ListedItem::Zone(zone) if wanted.is_none_or(|kind| kind == zone.kind) => {
            Some(format!("{}\n", bare(&zone.name)))
        }
        _ => None,
    })?;
    Ok(match count {
        ZoneCount::Silent => names.concat(),
        ZoneCount::Printed => format!("{}All zonecount: {}\n", names.concat(), names.len()),
    })
}

fn list_members(catalog: &str, overrides: &Overrides) -> CommandResult<String> {
    let request = OperationRequest::CatalogMembers {
        catalog: catalog.into(),
    };
    let members = remote::list(request, overrides, only!(Member))?;
    let names = members.iter().map(|one| format!("{}\n", bare(&one.zone)));
    Ok(names.collect())
}

fn list_autoprimaries(overrides: &Overrides) -> CommandResult<String> {
    let servers = remote::list(
        OperationRequest::AutoprimaryList,
        overrides,
        only!(Autoprimary),
    )?;
    let lines = servers.iter().map(|one| {
        let (address, server) = (&one.address, bare(&one.name_server));
        format!("IP={address}, NS={server}, account={}\n", one.account)
    });
    Ok(lines.collect())
}

fn list_metadata(zone: &str, kinds: &[&str], overrides: &Overrides) -> CommandResult<String> {
    let request = OperationRequest::MetadataList {
        zone: zone.into(),
        kind: None,
    };
    let mut items: Vec<(String, Vec<String>)> = Vec::new();
    for item in remote::list(request, overrides, only!(Metadata))? {
        match items.last_mut() {
            Some((kind, contents)) if *kind == item.kind => contents.push(item.content),
            _ => items.push((item.kind, vec![item.content])),
        }
    }
    let name = zone_name(zone)?.to_string();
    let mut text = format!("Metadata for '{}'\n", bare(&name));
    let is_wanted = |kind: &str| {
        kinds.is_empty() || kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))
    };
    for (kind, contents) in items.iter().filter(|(kind, _)| is_wanted(kind)) {
        text.push_str(&format!("{kind} = {}\n", contents.join(", ")));
    }
    Ok(text)
}

fn increase_serial(zone: &str, overrides: &Overrides) -> CommandResult<String> {
    let fetched = zone_commands::fetch(zone, overrides)?;
    let serial = fetched.zone.serial();
    let next = serial.next(std::time::SystemTime::now());
    let soa = fetched.zone.soa().and_then(|soa| {
        let rdata = soa.records().next()?.rdata.to_vec();
        Some((soa.ttl(), rdata))
    });
    let (ttl, mut rdata) = soa.ok_or(CommandError::Interrupted)?;
    set_soa_serial(&mut rdata, next);
    let request = BatchRequest {
        zones: vec![ZoneBatch {
            zone: fetched.name.to_string(),
            serial: Some(serial.0),
            steps: vec![BatchStep::Set(BatchRecords {
                name: "@".into(),
                rtype: "SOA".into(),
                ttl,
                content: vec![data_text(nameward_wire::Type::SOA, &rdata)],
            })],
        }],
        ..BatchRequest::default()
    };
    remote::send(OperationRequest::Apply(request), overrides, &mut drop)?;
    let name = fetched.name.to_string();
    Ok(format!(
        "SOA serial for zone {} set to {next}\n",
        bare(&name)
    ))
}

fn counters(names: Vec<String>, overrides: &Overrides) -> CommandResult<Vec<NamedCounter>> {
    let request = OperationRequest::Stats { names };
    match remote::send(request, overrides, &mut drop)? {
        OperationResult::Counters { counters } => Ok(counters),
        _ => Err(CommandError::Interrupted),
    }
}

fn show_counters(name: &str, overrides: &Overrides) -> CommandResult<String> {
    let is_one = !name.ends_with('*');
    let names = match name {
        "*" => Vec::new(),
        name => vec![name.to_owned()],
    };
    let mut text = String::new();
    for counter in counters(names, overrides)? {
        if is_one {
            text.push_str(&counter.value.to_string())
        } else {
            text.push_str(&format!("{}={},", counter.name, counter.value))
        }
    }
    text.push('\n');
    Ok(text)
}
