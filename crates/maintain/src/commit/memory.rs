//! Whether there is memory to commit a large version.
//!
//! A zone is built with fallible allocations, so that one which is too large fails alone. What follows is not: comparing it with
//! the served version and encoding the difference for the journal allocate in many places, and an allocation that fails there
//! ends the process. So the memory is requested in one piece before, and the version is rejected if the system refuses it.

use super::Commits;
use nameward_base::memory::is_available;
use nameward_zone::Zone;

/// Versions below this size are committed with what is at hand.
const LARGE: usize = 8 << 20;
/// Memory for the steps of a commit, in units of the larger version: records removed and added, their copy while a list
/// grows, and the text of the journal entry.
const COMMIT_SHARE: usize = 3;

impl Commits {
    /// Returns why a version cannot replace the served one: there is no memory for that.
    pub fn memory_objection(&self, version: &Zone) -> Option<String> {
        let table = self.table.load();
        let older = table.exact(version.id());
        let older = older.filter(|older| !older.is_stub())?;
        // Without a state store versions are not compared.
        self.durable.as_ref()?;
        let larger = version.heap_bytes().max(older.heap_bytes());
        let needed = larger.saturating_mul(COMMIT_SHARE);
        if larger < LARGE || is_available(needed) {
            return None;
        }
        let needed = needed >> 20;
        Some(format!(
            "out of memory: replacing the served version needs {needed} MiB"
        ))
    }
}
