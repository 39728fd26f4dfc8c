//! The failure of a test, a peer or a measurement, worded for the person who runs it.

use crate::peers::PeerError;
use std::fmt;
use std::io;

/// A failure in words. No code depends on its kind: it ends a test or is printed in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFailure(String);

impl TestFailure {
    /// Returns the failure prefixed with its location or subject.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {self}"))
    }

    /// Returns the first line, for a table.
    pub fn first_line(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TestFailure {}

impl From<String> for TestFailure {
    fn from(words: String) -> Self {
        Self(words)
    }
}

impl From<&str> for TestFailure {
    fn from(words: &str) -> Self {
        Self(words.into())
    }
}

impl From<io::Error> for TestFailure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<PeerError> for TestFailure {
    fn from(error: PeerError) -> Self {
        Self(error.to_string())
    }
}

impl From<fmt::Error> for TestFailure {
    fn from(error: fmt::Error) -> Self {
        Self(error.to_string())
    }
}
