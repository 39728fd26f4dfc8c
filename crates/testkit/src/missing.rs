//! Real parts of tests that are not on this machine: databases, other name servers, tools, a browser.
//!
//! A test whose real part is missing fails: one that passes without it says nothing. Whoever runs the tests may ask for
//! such tests to be passed over with `NAMEWARD_ALLOW_MISSING=1`; then each is written to the file that
//! `NAMEWARD_SKIPPED` names, so that `scripts/test` can say how many there were.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Gives the real part of a test back, or `None` where the test may be passed over.
///
/// # Panics
/// When the part is missing and nobody asked for that to be allowed.
pub fn require<T>(part: Option<T>, what: &str) -> Option<T> {
    if part.is_none() {
        let is_allowed = env::var_os("NAMEWARD_ALLOW_MISSING").is_some_and(|value| value == "1");
        assert!(
            is_allowed,
            "{what} is missing: run scripts/install-deps, or set NAMEWARD_ALLOW_MISSING=1 to pass over such tests"
        );
        note_skip(what);
    }
    part
}

/// Writes down that the test of this thread is passed over.
fn note_skip(what: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test").to_string();
    let program = env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_stem());
    let program = program.unwrap_or_default().to_string_lossy();
    eprintln!("skipped: {what} is missing");
    let Some(path) = env::var_os("NAMEWARD_SKIPPED") else {
        return;
    };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        // One write, so that lines of tests that run at one time do not mix.
        .and_then(|mut file| file.write_all(format!("{program} {test}: {what}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
