//! Messages about an invalid configuration: each is one line with its position.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use nameward_base::sandbox;
pub use nameward_import::reason_of as plain;

/// Maximum number of problems listed per file.
pub const PROBLEMS_MAX: usize = 20;

/// A problem, with its position in the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    line: usize,
    column: usize,
    message: String,
}

impl Problem {
    /// Creates a problem at a span of the file's text.
    pub fn new(text: &str, span: Range<usize>, message: String) -> Self {
        let before = &text[..text.floor_char_boundary(span.start.min(text.len()))];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }

    /// Returns line and column, to sort problems in file order.
    pub fn position(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {}{}", .0.display(), plain(.1), sandbox::explain(.0, .1))]
    Unreadable(PathBuf, io::Error),
    /// The file contains invalid settings.
    #[error("{}", listed(.0, .1))]
    Wrong(PathBuf, Vec<Problem>),
    /// A running server has backends and the file no longer has any.
    #[error(
        "{}: no [[backend]], but the running configuration has one: not applied (restart the server to use it)",
        .0.display()
    )]
    NoBackend(PathBuf),
    /// The settings contradict each other, or an argument is invalid.
    #[error("{0}")]
    Contradiction(String),
}

/// Returns a line for each problem.
fn listed(path: &Path, problems: &[Problem]) -> String {
    let lines = problems.iter().take(PROBLEMS_MAX).map(|problem| {
        let (line, column) = problem.position();
        format!("{}:{line}:{column}: {}", path.display(), problem.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the known word nearest to `word`, if it is close enough to have been meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near_enough = word.len().min(12) / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the hint that a message about an unknown word ends with.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// Counts the insertions, deletions, substitutions and swaps of neighbours between two words.
fn distance(from: &str, to: &str) -> usize {
    // A word longer than any key is not a misspelling; the limit keeps the cost small.
    let from: Vec<u8> = from.bytes().map(fold).take(64).collect();
    let to: Vec<u8> = to.bytes().map(fold).take(64).collect();
    let width = to.len() + 1;
    let mut costs = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..width {
            costs[row * width + column] = if row == 0 || column == 0 {
                row + column
            } else {
                let differs = usize::from(from[row - 1] != to[column - 1]);
                let mut cost = (costs[(row - 1) * width + column] + 1)
                    .min(costs[row * width + column - 1] + 1)
                    .min(costs[(row - 1) * width + column - 1] + differs);
                let swapped = row > 1
                    && column > 1
                    && from[row - 1] == to[column - 2]
                    && from[row - 2] == to[column - 1];
                if swapped {
                    cost = cost.min(costs[(row - 2) * width + column - 2] + 1);
                }
                cost
            };
        }
    }
    costs[costs.len() - 1]
}

/// Folds letter case, and `-` and `_`, which operators confuse when they type from memory.
fn fold(byte: u8) -> u8 {
    match byte {
        b'-' => b'_',
        other => other.to_ascii_lowercase(),
    }
}

/// Returns the directory that relative paths in a file start from.
pub fn base_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_counts_lines_and_columns_from_one() {
        let text = "a = 1\nü = 2\n  key = 3\n";
        let at = text.find("key").unwrap();
        let problem = Problem::new(text, at..at + 3, String::new());
        assert_eq!((problem.line, problem.column), (3, 3));
    }

    #[test]
    fn a_similar_keyword_is_found_and_a_different_one_is_not() {
        let candidates = ["listen", "workers", "tcp_idle_timeout_ms"];
        assert_eq!(nearest("lsiten", candidates), Some("listen"));
        assert_eq!(nearest("Workers", candidates), Some("workers"));
        assert_eq!(
            nearest("tcp-idle-timeout", candidates),
            Some("tcp_idle_timeout_ms")
        );
        assert_eq!(nearest("zebra", candidates), None);
    }
}
