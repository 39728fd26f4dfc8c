//! Items in the state store of this server only, although servers that share a database could need them, too.
//!
//! TSIG keys, cookie secrets and API keys are stored in a database if there is one that accepts changes: those listed here were created
//! before, or without it. Declared zones and views have no place in a database.

use nameward_base::text::counted;
use nameward_state::{StateError, StateStore};

/// Kinds of items in the state store, each with what an operator calls it.
const KINDS: [(&str, &str); 7] = [
    ("tsig", "TSIG key"),
    ("cookie", "cookie secret"),
    ("api-key", "API key"),
    ("zone", "declared zone"),
    ("autosecondary", "autoprimary zone"),
    ("view-zone", "view zone"),
    ("view-network", "view network"),
];

/// Returns what the store has, for people: `2 TSIG keys`.
pub fn local_items(store: &StateStore) -> Result<Vec<String>, StateError> {
    let mut found = Vec::new();
    for (kind, noun) in KINDS {
        let count = store.count_items(kind)?;
        if count > 0 {
            found.push(counted(count, noun));
        }
    }
    Ok(found)
}
