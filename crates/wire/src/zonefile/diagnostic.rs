//! Diagnostics for invalid zone files: file, line, column, what was found and what was expected.

use core::fmt::{self, Write as _};
use std::sync::Arc;

/// Maximum number of errors, and of warnings, to report; then parsing stops or warnings are dropped.
pub const MAX_ERRORS: usize = 20;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The zone must not be served.
    Error,
    /// The zone can be served.
    Warning,
}

/// One message about a location in a zone file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The file as it was named.
    pub file: Arc<str>,
    /// Line, from 1; 0: the whole file.
    pub line: u32,
    /// Column in bytes, from 1; 0: the whole line.
    pub column: u32,
    /// States what was expected and what was found.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A file name may contain line ends and terminal control characters; a diagnostic is a single line.
        for c in self.file.chars() {
            if c.is_control() {
                write!(f, "\\{:03}", u32::from(c))?
            } else {
                f.write_char(c)?
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

/// Collects diagnostics up to the limit.
#[derive(Default)]
pub(super) struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    stopped: bool,
}

impl Diagnostics {
    /// Stops parsing without a message.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Checks whether the error limit was reached, or parsing was stopped.
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
                        message: format!("{MAX_ERRORS} errors: stopped reading the zone"),
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
