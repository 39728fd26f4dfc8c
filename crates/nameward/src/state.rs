//! Owns `nameward state`: care of the state store by its operator.

use nameward_store::state::{StateError, StateStore};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{
    config::{Config, Overrides},
    serve::{counted, databases::state_directory},
};

/// Where the state store is: named on the command line, or by the configuration.
pub fn directory(named: Option<PathBuf>, overrides: &Overrides) -> Result<PathBuf, String> {
    if let Some(directory) = named {
        return Ok(directory);
    }
    let config = Config::load(overrides).map_err(|error| error.to_string())?;
    state_directory(&config).ok_or_else(|| {
        "there is no state directory: set state_directory in [server], or give --directory".into()
    })
}

/// Prints a line for each fault, and ends with a sum.
pub fn check(directory: &Path) -> Result<ExitCode, String> {
    let report = StateStore::check(directory).map_err(text)?;
    for fault in &report.faults {
        println!("{fault}");
    }
    let (zones, entries) = (
        counted(report.zones, "zone"),
        counted(report.entries, "journalled change"),
    );
    let faults = counted(report.faults.len(), "fault");
    println!(
        "state store version {}: {zones}, {entries}, {} octets, {faults}",
        report.version, report.octets
    );
    Ok(match report.faults.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Gives unused room back to the disk.
pub fn compact(directory: &Path) -> Result<ExitCode, String> {
    let report = StateStore::compact(directory).map_err(text)?;
    println!(
        "state store compacted: {} octets, {} before",
        report.after, report.before
    );
    Ok(ExitCode::SUCCESS)
}

/// Copies the store to a new file.
pub fn backup(directory: &Path, to: &Path) -> Result<ExitCode, String> {
    let octets = StateStore::backup(directory, to).map_err(text)?;
    println!("state store copied to {}: {octets} octets", to.display());
    Ok(ExitCode::SUCCESS)
}

fn text(error: StateError) -> String {
    error.to_string()
}
