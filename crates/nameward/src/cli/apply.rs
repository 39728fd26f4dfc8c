//! The command line of `nameward apply`.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::Args;
use nameward_control::operations::{OperationError, OperationRequest, Outcome};

use super::{
    print::OutputForm,
    target::{ChangeArguments, ServerRequest},
};
use crate::batch_text;

/// Maximum size of a batch in octets.
const BATCH_MAX: u64 = 12 << 20;

#[derive(Args)]
pub struct ApplyArguments {
    /// File with the changes; - reads stdin
    file: PathBuf,
    /// Check the changes and show the difference without applying it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    remote: ChangeArguments,
}

pub fn request(arguments: ApplyArguments, form: OutputForm) -> Outcome<ServerRequest> {
    let text = read_text(&arguments.file, BATCH_MAX)?;
    let mut batches = batch_text::read(&shown(&arguments.file), &text)?;
    batches.dry_run |= arguments.dry_run;
    batches.differences |= form == OutputForm::Json;
    Ok((OperationRequest::Apply(batches), arguments.remote.into()))
}

pub fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" {
        "stdin".into()
    } else {
        file.display().to_string()
    }
}

/// Reads the start of a text from a file, or from stdin if it is called `-`.
pub fn read_start(file: &Path, max: u64) -> io::Result<String> {
    let mut text = String::new();
    let mut read = |from: &mut dyn Read| from.take(max).read_to_string(&mut text);
    if file.as_os_str() == "-" {
        read(&mut io::stdin().lock())?;
    } else {
        read(&mut fs::File::open(file)?)?;
    }
    Ok(text)
}

/// Reads a text of limited size.
pub fn read_text(file: &Path, max: u64) -> Outcome<String> {
    let text = read_start(file, max + 1).map_err(|error| {
        OperationError::invalid(format!("cannot read {}: {error}", shown(file)))
    })?;
    if text.len() as u64 <= max {
        return Ok(text);
    }
    Err(OperationError::invalid(format!(
        "{} is larger than {} MiB: split it",
        shown(file),
        max >> 20
    )))
}
