//! Owns `nameward db`: the schema of a database, made and checked.

use nameward_store::sql::{
    Address, SqlError,
    db::{self, CheckReport},
};
use std::process::ExitCode;

use crate::{
    config::Config,
    serve::{counted, databases},
    terminal,
};

/// Makes what is missing of the schema.
pub fn init(database: &str) -> Result<ExitCode, String> {
    let address = Address::parse(database).map_err(|error| error.to_string())?;
    let warnings = wait_for(db::init(&address)).map_err(|error| format!("{address}: {error}"))?;
    for warning in &warnings {
        println!("{}", terminal::line(format_args!("{address}: {warning}")));
    }
    println!("{}: the schema is there", terminal::line(address));
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each thing that is wrong, and ends with a sum.
pub fn check(database: &str) -> Result<ExitCode, String> {
    let address = Address::parse(database).map_err(|error| error.to_string())?;
    let report = wait_for(db::check(&address)).map_err(|error| format!("{address}: {error}"))?;
    print(&report, "");
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Prints what is wrong with the databases of a configuration, each line with the database it is about. Returns how
/// many are not in order.
pub fn check_all(config: &Config) -> Result<usize, String> {
    let mut wrong = 0;
    for (_, _, backend) in databases::prepare(config, &Default::default())? {
        let address = &backend.options().address;
        let is_clean = match wait_for(db::check(address)) {
            Ok(report) => {
                print(&report, &format!("{address}: "));
                report.is_clean()
            }
            Err(error) => {
                println!("{}", terminal::line(format_args!("{address}: {error}")));
                false
            }
        };
        let replica = backend.options().replica.as_ref();
        let is_read = replica.is_none_or(|replica| match wait_for(backend.zones()) {
            Ok(_) => true,
            Err(error) => {
                println!("{}", terminal::line(format_args!("{replica}: {error}")));
                false
            }
        });
        wrong += usize::from(!is_clean || !is_read);
    }
    Ok(wrong)
}

fn print(report: &CheckReport, prefix: &str) {
    for problem in &report.schema {
        println!("{}", terminal::line(format_args!("{prefix}{problem}")));
    }
    for row in &report.rows {
        println!("{}", terminal::line(format_args!("{prefix}{row}")));
    }
    let hidden = report.bad_rows - report.rows.len() as u64;
    if hidden > 0 {
        println!(
            "{prefix}... and {} like these",
            counted(hidden as usize, "row")
        );
    }
    let rows = counted(report.checked_rows as usize, "row");
    let bad = counted(report.bad_rows as usize, "row");
    println!("{prefix}{rows} read, {bad} that cannot be served");
}

fn wait_for<T>(task: impl Future<Output = Result<T, SqlError>>) -> Result<T, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(task)
        .map_err(|error| error.to_string())
}
