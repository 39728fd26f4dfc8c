//! The command `nameward hash-password`.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::{Command, Stdio},
};

use nameward_control::{operations::OperationError, web};

use super::print::{OutputForm, Printer, ended};
use crate::command_error::CommandResult;

/// Reads a password from stdin, on a terminal without echo, and prints its hash.
pub fn run(form: OutputForm) -> CommandResult {
    let is_terminal = io::stdin().is_terminal();
    if is_terminal {
        eprint!("password: ");
        let _ = io::stderr().flush();
        show_typing(false);
    }
    let mut password = String::new();
    let read = io::stdin().lock().read_line(&mut password);
    if is_terminal {
        show_typing(true);
        eprintln!();
    }
    read.map_err(|error| OperationError::invalid(format!("cannot read the password: {error}")))?;
    let password = password.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        return Err(OperationError::invalid("expected a password on stdin").into());
    }
    let hash = web::hash_password(password);
    let hash = hash.ok_or_else(|| {
        OperationError::backend("cannot generate a salt: no random numbers available")
    })?;
    let object = serde_json::json!({ "hash": hash });
    ended(Printer::new(form).object(&object, &hash))
}

/// Turns the echo of the terminal on or off.
fn show_typing(is_shown: bool) {
    let word = if is_shown { "echo" } else { "-echo" };
    // If the terminal cannot turn echo off, it is used as it is.
    let _ = Command::new("stty")
        .arg(word)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .status();
}
