//! Diagnostics that an operator reads when a zone file is wrong: file, line, column, the found and the expected.

use core::fmt::{self, Write as _};
use std::sync::Arc;

/// So many errors, and so many warnings, are reported; then parsing stops or warnings are dropped.
pub const MAX_ERRORS: usize = 20;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The zone must not be served.
    Error,
    /// The zone can be served.
    Warning,
}

/// One message about a place in a zone file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file as it was named.
    pub file: Arc<str>,
    /// Line, from 1; 0: the whole file.
    pub line: u32,
    /// Column in bytes, from 1; 0: the whole line.
    pub column: u32,
    /// The expected, and the found.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of a file may hold line ends and what a terminal obeys; a diagnostic is one line.
        for c in self.file.chars() {
            match c.is_control() {
                true => write!(f, "\\{:03}", u32::from(c))?,
                false => f.write_char(c)?,
            }
        }
        for place in [self.line, self.column] {
            if place == 0 {
                break;
            }
            write!(f, ":{place}")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {severity}: {}", self.message)
    }
}

/// Diagnostics as they come, with their bound.
#[derive(Default)]
pub(super) struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    stopped: bool,
}

impl Diagnostics {
    /// Has reading stop without a message.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether there were so many errors that nobody needs more of them, or reading was stopped.
    pub(super) fn is_full(&self) -> bool {
        self.stopped
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        match diagnostic.severity {
            Severity::Warning => {
                self.warnings += 1;
                if self.warnings <= MAX_ERRORS {
                    self.list.push(diagnostic);
                }
            }
            Severity::Error if self.stopped => {}
            Severity::Error => {
                let (file, line) = (diagnostic.file.clone(), diagnostic.line);
                self.list.push(diagnostic);
                self.errors += 1;
                if self.errors == MAX_ERRORS {
                    self.stopped = true;
                    self.list.push(Diagnostic {
                        severity: Severity::Error,
                        file,
                        line,
                        column: 0,
                        message: format!("{MAX_ERRORS} errors: the rest of the zone was not read"),
                    });
                }
            }
        }
    }

    pub(super) fn into_list(mut self) -> Vec<Diagnostic> {
        if self.warnings > MAX_ERRORS {
            let file = self.list[0].file.clone();
            self.list.push(Diagnostic {
                severity: Severity::Warning,
                file,
                line: 0,
                column: 0,
                message: format!("{} more warnings", self.warnings - MAX_ERRORS),
            });
        }
        self.list
    }
}
