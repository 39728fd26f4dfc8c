//! Owns `nameward serve`.
use crate::config::{Config, Overrides};

/// Serves until it is told to end.
pub fn run(overrides: &Overrides) -> Result<(), String> {
    let _config = Config::load(overrides).map_err(|error| error.to_string())?;
    Err("serving is not wired yet".into())
}
