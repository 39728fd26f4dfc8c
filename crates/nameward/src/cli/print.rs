//! The output of commands: lines for people, or one JSON object per line for programs.

mod table;

use std::{
    fmt,
    io::{self, BufWriter, IsTerminal, Write},
    process::ExitCode,
    sync::OnceLock,
};

use nameward_control::operations::{ListedItem, OperationError, OperationResult};
use serde::Serialize;
use table::Table;

use crate::{command_error::CommandResult, terminal};

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// Lines for people.
    Text,
    /// JSON objects, one per line.
    Json,
}

/// The format from the command line; notes from lower layers use it as well.
static FORM: OnceLock<OutputForm> = OnceLock::new();

/// Sets the format of notes. Only the first call counts.
pub fn set_form(form: OutputForm) {
    let _ = FORM.set(form);
}

/// Prints a note for the operator on stderr, separate from data.
pub fn note(text: &str) {
    match FORM.get() {
        Some(OutputForm::Json) => eprintln!("{}", serde_json::json!({ "note": text })),
        _ => eprintln!("nameward: {}", terminal::line(text)),
    }
}

/// Returns the exit code after output; a reader that closed the pipe is not an error.
pub fn ended(result: io::Result<()>) -> CommandResult {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the exit code of a command that checks something.
pub fn exit_code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Writes to stdout; a reader that closed the pipe (`| head`) is not an error.
pub fn write(text: &[u8]) -> CommandResult {
    ended(io::stdout().lock().write_all(text))
}

/// An output that its reader may close (`| head`), which is not an error.
pub struct Printer {
    out: BufWriter<io::StdoutLock<'static>>,
    form: OutputForm,
    /// On a terminal, tables have headers.
    is_terminal: bool,
    table: Table,
}

impl Printer {
    pub fn new(form: OutputForm) -> Self {
        Printer {
            out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
            form,
            is_terminal: io::stdout().is_terminal(),
            table: Table::default(),
        }
    }

    pub fn item(&mut self, item: &ListedItem) -> io::Result<()> {
        match self.form {
            OutputForm::Json => {
                item.write_json(&mut self.out)?;
                self.out.write_all(b"\n")
            }
            OutputForm::Text => match item.row() {
                Some(row) if self.is_terminal || matches!(item, ListedItem::Version(_)) => {
                    self.table.add(row, &mut self.out)
                }
                _ => self.text_item(item),
            },
        }
    }

    /// Prints an item as a line, for pipes and files.
    fn text_item(&mut self, item: &ListedItem) -> io::Result<()> {
        writeln!(self.out, "{}", terminal::line(item.text()))?;
        match item {
            ListedItem::Changed(one) => self.warn(&one.changed.warnings),
            _ => Ok(()),
        }
    }

    pub fn result(&mut self, result: &OperationResult) -> io::Result<()> {
        self.table.print(&mut self.out)?;
        match (self.form, result) {
            // Already printed as items.
            (_, OperationResult::Listed { .. } | OperationResult::ListedPage { .. }) => {}
            (OutputForm::Json, result) => self.json(result)?,
            (OutputForm::Text, result) => {
                write!(self.out, "{}", terminal::lines(result.text()))?;
                self.warn(result.warnings())?;
            }
        }
        self.out.flush()
    }

    /// Finishes the output.
    pub fn end(&mut self) -> io::Result<()> {
        self.table.print(&mut self.out)?;
        self.out.flush()
    }

    /// Prints an object: as JSON, or as one line of text.
    pub fn object(&mut self, object: &impl Serialize, text: impl fmt::Display) -> io::Result<()> {
        match self.form {
            OutputForm::Json => self.json(object)?,
            OutputForm::Text => writeln!(self.out, "{}", terminal::line(text))?,
        }
        self.out.flush()
    }

    /// Prints a finding: as JSON with its severity, or as a line.
    pub fn message(&mut self, severity: &str, text: &str) -> io::Result<()> {
        let object = serde_json::json!({ "severity": severity, "message": text });
        self.object(&object, text)
    }

    /// Prints warnings to stderr, after the output so far.
    fn warn(&mut self, warnings: &[String]) -> io::Result<()> {
        if !warnings.is_empty() {
            self.out.flush()?;
        }
        for warning in warnings {
            eprintln!("nameward: warning: {}", terminal::line(warning));
        }
        Ok(())
    }

    fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")
    }
}

impl Drop for Printer {
    /// Prints the rows of a listing that was cut off.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

pub fn error(form: OutputForm, error: &OperationError) {
    match form {
        OutputForm::Text => {
            for line in error.message.lines() {
                eprintln!("nameward: {}", terminal::line(line));
            }
        }
        OutputForm::Json => eprintln!("{}", serde_json::json!({ "error": error })),
    }
}
