//! Owns `nameward db`: the schema of a database, made and checked.

use nameward_store::sql::{Address, SqlError, db};
use std::process::ExitCode;

use crate::serve::counted;

/// Makes what is missing of the schema.
pub fn init(database: &str) -> Result<ExitCode, String> {
    let address = Address::parse(database).map_err(|error| error.to_string())?;
    let warnings = wait_for(db::init(&address)).map_err(|error| format!("{address}: {error}"))?;
    for warning in &warnings {
        println!("{address}: {warning}");
    }
    println!("{address}: the schema is there");
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each thing that is wrong, and ends with a sum.
pub fn check(database: &str) -> Result<ExitCode, String> {
    let address = Address::parse(database).map_err(|error| error.to_string())?;
    let report = wait_for(db::check(&address)).map_err(|error| format!("{address}: {error}"))?;
    for problem in &report.schema {
        println!("{problem}");
    }
    for row in &report.rows {
        println!("{row}");
    }
    let hidden = report.bad_rows - report.rows.len() as u64;
    if hidden > 0 {
        println!("... and {} like these", counted(hidden as usize, "row"));
    }
    let rows = counted(report.checked_rows as usize, "row");
    let bad = counted(report.bad_rows as usize, "row");
    println!("{rows} read, {bad} that cannot be served");
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn wait_for<T>(task: impl Future<Output = Result<T, SqlError>>) -> Result<T, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(task)
        .map_err(|error| error.to_string())
}
