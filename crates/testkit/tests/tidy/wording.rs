//! The wording of messages and documents: phrases that are not written any more, and the list of all message templates.

use crate::literals::literals;
use crate::sources::{Workspace, root};
use std::fmt::Write as _;
use std::fs;

/// Phrases that sound translated, with what to write instead.
const PHRASES: [(&str, &str); 30] = [
    ("all the same", "still"),
    ("anew", "again"),
    ("are to be", "must be"),
    ("asked for over", "requested via"),
    ("at the most", "at most"),
    ("collector of dnstap", "dnstap collector"),
    ("for want of", "for lack of"),
    ("goes on with", "continues with"),
    ("gone on with", "continuing"),
    ("have it done", "let it run"),
    ("is none of", "is not one of"),
    ("is to be", "must be"),
    ("key of TSIG", "TSIG key"),
    ("keys of TSIG", "TSIG keys"),
    ("look after", "manage"),
    ("looked after", "managed"),
    ("looks after", "manages"),
    ("meanwhile", "in the meantime"),
    ("mend", "fix"),
    ("nobody", "name the component or the client"),
    ("of late", "recently"),
    ("passed over", "skipped"),
    ("reckon", "estimate"),
    ("stands at", "is at"),
    ("stands below", "is below"),
    ("stands in", "is in"),
    ("the like", "similar"),
    ("the one who", "name the component"),
    ("whoever", "name the component or the client"),
    ("zones of databases", "database zones"),
];

/// Returns the phrases of a text, each with what to write instead.
fn phrases(text: &str) -> Vec<String> {
    // `user = "nobody"` is a Unix user.
    let lower = text.to_lowercase().replace("\"nobody\"", "");
    let mut found: Vec<String> = PHRASES
        .iter()
        .filter(|(phrase, _)| has_words(&lower, &phrase.to_lowercase()))
        .map(|(phrase, instead)| format!("{phrase:?}, write {instead:?}"))
        .collect();
    // "There is no such zone" is good English, "x is no zone" is not.
    let is_no = lower.match_indices(" is no ").any(|(at, matched)| {
        let (before, after) = (&lower[..at], &lower[at + matched.len()..]);
        !before.ends_with("there")
            && !after.starts_with("longer")
            && !after.starts_with("more than")
    });
    if is_no {
        found.push(String::from("\"is no\", write \"is not a\" or \"invalid\""));
    }
    found
}

fn has_words(text: &str, words: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

/// Returns phrases in string literals of production code and in documents.
pub fn relapses(workspace: &Workspace) -> Vec<(String, usize)> {
    let mut faults = Vec::new();
    for file in workspace
        .files
        .iter()
        .filter(|file| !file.is_test() && !["testkit", "answer"].contains(&file.crate_name()))
    {
        for literal in literals(file) {
            let line = file.text[..literal.start].matches('\n').count() + 1;
            // The schema of a released version stays as it is.
            if literal.text.contains("CREATE TABLE") {
                continue;
            }
            let found = phrases(&literal.text);
            faults.extend(
                found
                    .iter()
                    .map(|what| (format!("{}:{line}: {what}", file.path), 1)),
            );
        }
    }
    for (path, text) in documents() {
        for (number, line) in text.lines().enumerate() {
            let found = phrases(line);
            faults.extend(
                found
                    .iter()
                    .map(|what| (format!("{path}:{}: {what}", number + 1), 1)),
            );
        }
    }
    faults
}

/// Returns the documents for users and developers.
fn documents() -> Vec<(String, String)> {
    let root = root();
    let mut paths: Vec<_> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
    ]
    .map(|name| root.join(name))
    .to_vec();
    let entries = fs::read_dir(root.join("docs")).expect("docs is there");
    paths.extend(entries.map(|entry| entry.expect("an entry of docs").path()));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("a document is text");
        let name = path
            .strip_prefix(&root)
            .expect("below the root")
            .to_path_buf();
        (name.to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the templates of all log lines and error types, a line each: crate, level, text.
pub fn message_templates(workspace: &Workspace) -> String {
    let mut lines = Vec::new();
    for file in workspace
        .files
        .iter()
        .filter(|file| !file.is_test() && file.crate_name() != "testkit")
    {
        for literal in literals(file) {
            if let Some(level) = level_of(&file.text[..literal.start]) {
                lines.push(format!("{} {level} {}", file.crate_name(), literal.text));
            }
        }
    }
    lines.sort();
    lines.dedup();
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the level of the log line, or `error-type`, whose message follows this source.
fn level_of(before: &str) -> Option<&'static str> {
    if before.trim_end().ends_with("#[error(") {
        return Some("error-type");
    }
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    let start = before.rfind("tracing::")?;
    let call = &before[start + "tracing::".len()..];
    let level = LEVELS.into_iter().find(|level| {
        call.strip_prefix(level)
            .is_some_and(|rest| rest.starts_with("!("))
    })?;
    // Fields may come before the message; a statement that has ended may not.
    (!call.contains(['"', ';', '{', '}'])).then_some(level)
}
