//! Memory that the system can refuse.
//!
//! An allocation that fails ends a Rust process, unless it is made with `try_reserve`. Work that allocates in many places requests
//! what it will need in one piece before it starts, and is rejected if that is refused. Each refusal is noted here, so that it
//! becomes a fault of the server.

use crate::sync::Mutex;
use crate::time::now_seconds;

static REFUSALS: Mutex<Refusals> = Mutex::new(Refusals {
    count: 0,
    last: None,
});

/// Work that was rejected for lack of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    /// How often since the start.
    pub count: u64,
    /// The most recent one.
    pub last: Option<Refusal>,
}

/// One piece of work that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Seconds since 1970.
    pub at: u64,
    /// The work, as in "a transfer of example.org".
    pub work: String,
}

/// Checks whether the system grants so much memory now. Nothing is written to it, so it costs no page. Later allocations may still fail.
pub fn is_available(octets: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(octets).is_ok()
}

/// Notes that a piece of work was rejected.
pub fn note_refusal(work: String) {
    let mut refusals = REFUSALS.lock();
    refusals.count += 1;
    refusals.last = Some(Refusal {
        at: now_seconds(),
        work,
    });
}

/// Returns the refusals since the start.
pub fn refusals() -> Refusals {
    REFUSALS.lock().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_system_has_is_not_available() {
        assert!(is_available(1 << 20));
        assert!(!is_available(isize::MAX as usize));
    }

    #[test]
    fn the_last_refusal_is_kept() {
        note_refusal("a request".into());
        note_refusal("a transfer of example.org".into());
        let refusals = refusals();
        assert_eq!(refusals.count, 2);
        assert_eq!(refusals.last.unwrap().work, "a transfer of example.org");
    }
}
