//! Panics: each one is logged with its location and counted, in every thread, even if it is caught.
//!
//! The default hook writes to standard error: the line has neither the format of the log nor a place on the status page, so a
//! bug that costs a step each hour would go unnoticed.

use crate::sync::Mutex;
use crate::time::now_seconds;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<Option<LastPanic>> = Mutex::new(None);

thread_local! {
    static IS_REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// The most recent panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPanic {
    /// Seconds since 1970.
    pub at: u64,
    /// Source file and line.
    pub location: String,
}

/// Returns the number of panics since the start.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Returns the most recent panic.
pub fn last() -> Option<LastPanic> {
    LAST.lock().clone()
}

/// Replaces the panic hook of the process by one that logs and counts.
pub fn install_hook() {
    panic::set_hook(Box::new(|info| {
        // A panic in the logger must not call the logger again.
        if IS_REPORTING.replace(true) {
            return;
        }
        report(info);
        IS_REPORTING.set(false);
    }));
}

fn report(info: &PanicHookInfo<'_>) {
    let location = info
        .location()
        .map(|at| format!("{}:{}", at.file(), at.line()));
    let location = location.unwrap_or_else(|| "an unknown location".into());
    COUNT.fetch_add(1, Ordering::Relaxed);
    *LAST.lock() = Some(LastPanic {
        at: now_seconds(),
        location: location.clone(),
    });
    let message = info.payload_as_str().unwrap_or("no message");
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    tracing::error!("internal error in thread {thread} at {location}: {message}; please report it");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        // Requested by RUST_BACKTRACE: many lines, which the log would join.
        eprintln!("{backtrace}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted_with_its_location() {
        install_hook();
        let before = count();
        let caught = panic::catch_unwind(|| panic!("a bug on purpose"));
        assert!(caught.is_err());
        // Other tests of this process may panic on purpose, too.
        assert!(count() > before);
        assert!(last().unwrap().location.contains(".rs:"));
    }
}
