//! External test dependencies that may be missing on this machine: databases, other name servers, tools, a browser.
//!
//! A test whose dependency is missing fails: passing without it would prove nothing. `NAMEWARD_ALLOW_MISSING=1` allows
//! such tests to be skipped; each one is then written to the file named in `NAMEWARD_SKIPPED`, so that `scripts/test`
//! can report their number.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Returns the dependency of a test, or `None` if the test may be skipped.
///
/// # Panics
/// If the dependency is missing and that was not allowed.
pub fn require<T>(part: Option<T>, what: &str) -> Option<T> {
    if part.is_none() {
        let is_allowed = env::var_os("NAMEWARD_ALLOW_MISSING").is_some_and(|value| value == "1");
        assert!(
            is_allowed,
            "{what} is missing: run scripts/install-deps, or set NAMEWARD_ALLOW_MISSING=1 to skip such tests"
        );
        note_skip(what);
    }
    part
}

/// Records that the test of this thread is skipped.
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
        // One write, so that lines of concurrent tests do not mix.
        .and_then(|mut file| file.write_all(format!("{program} {test}: {what}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
