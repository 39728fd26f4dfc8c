//! The command line for whole zones: export, compare, import, edit, history, rollback, check.

use nameward_base::text::counted;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use nameward_control::operations::{
    ErrorKind, ListedDifference, ListedItem, ListedKind, OperationError, OperationRequest,
    OperationResult, Outcome, ZoneTemplate, default_ttl, steps_of, zone_name,
};
use nameward_files::zone_from_file;
use nameward_wire::zonefile::Severity;
use nameward_zone::change::Difference;

use super::{
    print::{OutputForm, Printer, ended, exit_code},
    request::run_request,
    target::{ChangeArguments, RemoteArguments, ServerRequest, ZoneArguments},
};
use crate::{
    check,
    command_error::CommandResult,
    config::Overrides,
    remote::{self, only},
    script_check,
    zone_commands::{
        self, FetchedZone, batch, creation,
        edit::{self, EditedFile},
        fetch, listed, read_file, read_zone, records_of,
    },
};

#[derive(Subcommand)]
pub enum ZoneWorkCommand {
    /// Print a zone as a zone file
    Export {
        /// The zone
        zone: String,
        /// Omit records made by signing: RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY, CDS and CDNSKEY
        #[arg(long)]
        unsigned: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Compare a zone file with the served zone, or two versions in the journal; exits with 1 if they differ
    Diff {
        /// The zone
        zone: String,
        /// The file; lines marked + are in the file only
        #[arg(required_unless_present = "from", conflicts_with = "from")]
        file: Option<PathBuf>,
        /// Serial of the old version
        #[arg(long, value_name = "SERIAL")]
        from: Option<u32>,
        /// Serial of the new version [default: the served one]
        #[arg(long, value_name = "SERIAL", requires = "from")]
        to: Option<u32>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// List the versions in a zone's journal: serials, time, records, origin
    History(ZoneArguments),
    /// Restore the records of an older serial in the journal, under a new serial
    Rollback {
        /// The zone
        zone: String,
        /// Serial of the version to restore
        #[arg(long, value_name = "SERIAL")]
        to: u32,
        /// Show the difference without applying it
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        remote: ChangeArguments,
    },
    /// Import a zone file: create the zone, or apply the differences
    Import {
        /// The zone
        zone: String,
        /// The zone file
        file: PathBuf,
        /// Show the difference without applying it
        #[arg(long)]
        dry_run: bool,
        /// Kind of a new zone: native or primary
        #[arg(long, default_value = "native")]
        kind: String,
        /// Number of the backend for a new zone [default: the first database]
        #[arg(long, value_name = "NUMBER")]
        backend: Option<u32>,
        #[command(flatten)]
        remote: ChangeArguments,
    },
    /// Edit a zone with $VISUAL or $EDITOR; the result is checked, confirmed and applied as one change
    Edit {
        /// The zone
        zone: String,
        /// Apply without confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        remote: ChangeArguments,
    },
    /// Check a zone file, or a served zone
    Check {
        /// The zone
        zone: String,
        /// The zone file [default: the served zone]
        file: Option<PathBuf>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

/// Returns the request of a command that needs only one.
pub fn request(command: ZoneWorkCommand) -> Outcome<ServerRequest> {
    match command {
        ZoneWorkCommand::History(of) => {
            Ok(of.request(|zone| OperationRequest::ZoneHistory { zone }))
        }
        _ => Err(OperationError::invalid("more than one request")),
    }
}

pub fn run(command: ZoneWorkCommand, form: OutputForm) -> CommandResult {
    let work = |remote: RemoteArguments| ZoneWork {
        overrides: remote.overrides(),
        form,
    };
    match command {
        ZoneWorkCommand::Export {
            zone,
            unsigned,
            remote,
        } => work(remote).export(&zone, unsigned),
        ZoneWorkCommand::Diff {
            zone,
            file: Some(file),
            remote,
            ..
        } => work(remote).diff_with_file(&zone, &file),
        ZoneWorkCommand::Diff {
            zone,
            from,
            to,
            remote,
            ..
        } => {
            let from = from.unwrap_or_default();
            let request = OperationRequest::ZoneDifference { zone, from, to };
            work(remote).diff_of_versions(request)
        }
        ZoneWorkCommand::Rollback {
            zone,
            to,
            dry_run,
            remote,
        } => work(remote.into()).send(OperationRequest::ZoneRollback {
            zone,
            serial: to,
            dry_run,
        }),
        ZoneWorkCommand::Import {
            zone,
            file,
            dry_run,
            kind,
            backend,
            remote,
        } => {
            let template = ZoneTemplate {
                zone: zone.clone(),
                kind: ListedKind::from_name(&kind)?,
                name_servers: Vec::new(),
                primaries: Vec::new(),
                hostmaster: None,
                ttl: default_ttl(),
                backend,
                template: None,
                records: Vec::new(),
            };
            work(remote.into()).import(&zone, &file, dry_run, template)
        }
        ZoneWorkCommand::Edit { zone, yes, remote } => work(remote.into()).edit(&zone, yes),
        ZoneWorkCommand::Check { zone, file, remote } => work(remote).check(&zone, file),
        command @ ZoneWorkCommand::History(_) => {
            let (request, remote) = request(command)?;
            run_request(request, remote, form)
        }
    }
}

/// The server that a command is for, and the form of its output.
struct ZoneWork {
    overrides: Overrides,
    form: OutputForm,
}

impl ZoneWork {
    /// Prints what a file would change in a zone.
    fn diff_with_file(&self, zone: &str, file: &Path) -> CommandResult {
        let fetched = fetch(zone, &self.overrides)?;
        let theirs = read_file(&fetched.name, file)?;
        let difference = theirs.difference_from(&fetched.zone);
        self.print_difference(listed(&fetched.name, &difference))
    }

    /// Prints the difference between two versions in the journal.
    fn diff_of_versions(&self, request: OperationRequest) -> CommandResult {
        self.print_difference(remote::list(request, &self.overrides, only!(Difference))?)
    }

    fn export(&self, zone: &str, unsigned: bool) -> CommandResult {
        let fetched = fetch(zone, &self.overrides)?;
        let records = records_of(&fetched.zone, unsigned);
        if self.form == OutputForm::Json {
            let mut printer = Printer::new(self.form);
            for record in &records {
                let text = zone_commands::json_of(&record);
                if let Err(error) = printer.object(&text, "") {
                    return ended(Err(error));
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut write = || {
            for record in &records {
                out.write_all(zone_commands::line_of(&record).as_bytes())?;
            }
            out.flush()
        };
        let written = write();
        if fetched.hidden > 0 {
            let records = counted(fetched.hidden as usize, "record");
            eprintln!("nameward: warning: {records} omitted: disabled or not servable");
        }
        ended(written)
    }

    /// Prints a difference; exits with 1 if there is one, like diff(1).
    fn print_difference(&self, records: Vec<ListedDifference>) -> CommandResult {
        let mut printer = Printer::new(self.form);
        let is_different = !records.is_empty();
        let mut records = records.into_iter().map(ListedItem::Difference);
        if let Err(error) = records.try_for_each(|record| printer.item(&record)) {
            return ended(Err(error));
        }
        ended(printer.end())?;
        Ok(exit_code(!is_different))
    }

    fn no_change(&self, zone: &str) -> CommandResult {
        let zone = zone_name(zone)?.to_string();
        let result = OperationResult::NoChange { zone };
        ended(Printer::new(self.form).result(&result))
    }

    fn send(&self, request: OperationRequest) -> CommandResult {
        let mut printer = Printer::new(self.form);
        let mut printed = Ok(());
        let result = remote::send(request, &self.overrides, &mut |item| {
            if printed.is_ok() {
                printed = printer.item(&item);
            }
        })?;
        ended(printed.and_then(|()| printer.result(&result)))
    }

    fn import(
        &self,
        zone: &str,
        file: &Path,
        dry_run: bool,
        template: ZoneTemplate,
    ) -> CommandResult {
        let name = zone_name(zone)?;
        let theirs = read_file(&name, file)?;
        match fetch(zone, &self.overrides) {
            Ok(fetched) => {
                let difference = theirs.difference_from(&fetched.zone);
                if steps_of(&difference).is_empty() {
                    return self.no_change(&fetched.name.to_string());
                }
                self.send(batch(&fetched, &difference, dry_run))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if dry_run {
                    let all = Difference {
                        added: records_of(&theirs, false),
                        ..Difference::default()
                    };
                    self.print_difference(listed(&name, &all))?;
                    return Ok(ExitCode::SUCCESS);
                }
                self.send(creation(&name, &theirs, template))
            }
            Err(error) => Err(error),
        }
    }

    fn edit(&self, zone: &str, is_agreed: bool) -> CommandResult {
        let fetched = fetch(zone, &self.overrides)?;
        let (name, serial) = (fetched.name, fetched.zone.serial());
        let text = format!(
            "; zone {name}, serial {serial}. Save and exit to review the changes; the serial is incremented \
             automatically.\n$ORIGIN {name}\n{}",
            text_of(&fetched)
        );
        let file = EditedFile::new(&format!("{name}zone"), &text).map_err(|error| {
            OperationError::invalid(format!("cannot write a file to edit: {error}"))
        })?;
        let edited = loop {
            let text = file.edit()?;
            match read_zone(&name, &file.path().display().to_string(), &text) {
                Ok(zone) => break zone,
                Err(error) => {
                    super::print::error(self.form, &error);
                    if !edit::confirm("edit again?") {
                        return Err(OperationError::invalid("no changes made").into());
                    }
                }
            }
        };
        let difference = edited.difference_from(&fetched.zone);
        if steps_of(&difference).is_empty() {
            return self.no_change(zone);
        }
        if !is_agreed {
            self.print_difference(listed(&name, &difference))?;
            if !edit::confirm("apply these changes?") {
                return Err(OperationError::invalid("no changes made").into());
            }
        }
        self.send(batch(&fetched, &difference, false))
    }

    fn check(&self, zone: &str, file: Option<PathBuf>) -> CommandResult {
        let name = zone_name(zone)?;
        let scripts = script_check::without_pools();
        let read = match &file {
            Some(file) => zone_from_file(name.as_name(), file, &scripts),
            None => {
                let text = text_of(&fetch(zone, &self.overrides)?);
                let (name, text) = (name.as_name(), text.as_bytes());
                nameward_files::zone_from_text_with_warnings(name, "served", text, &scripts)
            }
        };
        let found = read.map_or_else(|errors| errors, |(_, warnings)| warnings);
        let mut printer = Printer::new(self.form);
        let is_error = |one: &&nameward_wire::zonefile::Diagnostic| one.severity == Severity::Error;
        let errors = found.iter().filter(is_error).count();
        let warnings = found.len() - errors;
        let text = format!(
            "zone {name}: {}, {}",
            counted(errors, "error"),
            counted(warnings, "warning")
        );
        let object = serde_json::json!({
            "zone": name.to_string(), "errors": errors, "warnings": warnings,
        });
        let print = check::print(&found, &mut printer).and_then(|()| printer.object(&object, text));
        ended(print)?;
        Ok(exit_code(errors == 0))
    }
}

/// Returns the records of a fetched zone as lines of a zone file.
fn text_of(fetched: &FetchedZone) -> String {
    let records = records_of(&fetched.zone, false);
    let lines = records.iter().map(|record| zone_commands::line_of(&record));
    lines.collect()
}
