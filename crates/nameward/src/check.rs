//! Owns `nameward check`.
use std::process::ExitCode;

use crate::config::{Config, Overrides};

/// Reads the configuration and every zone; prints what is wrong.
pub fn run(overrides: &Overrides) -> Result<ExitCode, String> {
    let _config = Config::load(overrides).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}
