//! `nameward db`: creates and checks the schema of a database, and checks its rows.

use nameward_base::text::counted;
use nameward_sql::{
    DatabaseAddress, SqlError,
    db::{self, CheckReport},
};
use serde_json::json;
use std::process::ExitCode;

use crate::{
    cli::print::{OutputForm, Printer, exit_code},
    command_error::{CommandError, CommandResult},
    config::Config,
    serve::databases,
    start_error::StartError,
};

/// Creates the missing parts of the schema.
pub fn init(database: &str, form: OutputForm) -> CommandResult {
    let address = DatabaseAddress::parse(database).map_err(CommandError::Address)?;
    let warnings = wait_for(&address, db::init(&address))?;
    let database = address.to_string();
    let mut printer = Printer::new(form);
    let mut print = || {
        for warning in &warnings {
            warn(&address, warning, &mut printer)?;
        }
        let object = json!({ "database": database, "warnings": warnings.len() });
        printer.object(&object, format_args!("{address}: the schema is complete"))
    };
    print()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each fault, and ends with a summary.
pub fn check(database: &str, form: OutputForm) -> CommandResult {
    let address = DatabaseAddress::parse(database).map_err(CommandError::Address)?;
    let report = wait_for(&address, db::check(&address))?;
    print(&address, &report, &mut Printer::new(form))?;
    Ok(exit_code(report.is_clean()))
}

/// The result of checking the configured databases.
#[derive(Default)]
pub struct Checked {
    /// Number of databases with faults.
    pub wrong: usize,
    /// Number of warnings about their contents.
    pub warnings: usize,
}

/// Prints the faults of the configured databases, each line with its database.
pub fn check_all(config: &Config, printer: &mut Printer) -> CommandResult<Checked> {
    let mut checked = Checked::default();
    let signatures = databases::signatures(config);
    let databases = databases::prepare(config, &signatures).map_err(StartError::from)?;
    for (_, _, backend) in databases {
        let options = backend.options();
        let address = &options.address;
        let is_clean = match wait_for(address, db::check(address)) {
            Ok(report) => {
                print(address, &report, printer)?;
                checked.warnings += report.foreign.len();
                report.is_clean()
            }
            Err(error) => fail(address, &error, printer)?,
        };
        let replica = options.replica.as_ref();
        let is_read = match replica.map(|replica| (replica, wait_for(replica, backend.zones()))) {
            Some((replica, Err(error))) => fail(replica, &error, printer)?,
            _ => true,
        };
        checked.wrong += usize::from(!is_clean || !is_read);
    }
    Ok(checked)
}

/// Prints that a database cannot be checked.
fn fail(
    address: &DatabaseAddress,
    error: &CommandError,
    printer: &mut Printer,
) -> CommandResult<bool> {
    let message = error.to_string();
    let object = json!({
        "severity": "error", "database": address.to_string(), "message": message,
    });
    printer.object(&object, &message)?;
    Ok(false)
}

fn warn(address: &DatabaseAddress, text: &str, printer: &mut Printer) -> std::io::Result<()> {
    let database = address.to_string();
    let object = json!({ "severity": "warning", "database": database, "message": text });
    printer.object(&object, format_args!("{address}: warning: {text}"))
}

fn print(
    address: &DatabaseAddress,
    report: &CheckReport,
    printer: &mut Printer,
) -> std::io::Result<()> {
    let database = address.to_string();
    for problem in &report.schema {
        let object = json!({ "severity": "error", "database": database, "message": problem });
        printer.object(&object, format_args!("{address}: {problem}"))?;
    }
    for content in &report.foreign {
        warn(address, &content.to_string(), printer)?;
    }
    for problem in &report.rows {
        let object = json!({
            "severity": "error", "database": database, "zone": problem.zone,
            "table": problem.error.table, "id": problem.error.id, "message": problem.error.reason,
        });
        printer.object(&object, format_args!("{address}: {problem}"))?;
    }
    let hidden = report.bad_rows - report.rows.len() as u64;
    let more = match hidden {
        0 => String::new(),
        _ => format!(", the first {} are listed", report.rows.len()),
    };
    let rows = counted(report.checked_rows as usize, "row");
    let bad = counted(report.bad_rows as usize, "problem");
    let object = json!({
        "database": database, "rows": report.checked_rows, "problems": report.bad_rows,
        "warnings": report.foreign.len(),
    });
    printer.object(&object, format_args!("{address}: {rows} read, {bad}{more}"))
}

/// Runs one administrative task to its end.
pub fn wait_for<T>(
    address: &DatabaseAddress,
    task: impl Future<Output = Result<T, SqlError>>,
) -> CommandResult<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Threads)?
        .block_on(task)
        .map_err(|error| CommandError::Database(address.clone(), error))
}
