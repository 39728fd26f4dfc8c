//! The permissions of an API key. [`crate::operations`] applies them to requests.

use nameward_wire::{Name, NameBuf};

/// The zones and operations that a key is valid for; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyScope {
    /// Zones at and below these names; all if empty.
    zones: Vec<NameBuf>,
    read_only: bool,
}

impl KeyScope {
    /// The unrestricted scope.
    pub const fn all() -> Self {
        KeyScope {
            zones: Vec::new(),
            read_only: false,
        }
    }

    /// Creates a scope: zones at and below these names, or all if there are none.
    pub fn new(zones: Vec<NameBuf>, read_only: bool) -> Self {
        KeyScope { zones, read_only }
    }

    /// Returns the names at and below which zones are in the scope; empty means all.
    pub fn zones(&self) -> &[NameBuf] {
        &self.zones
    }

    /// Checks whether it permits no changes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Checks whether it is limited to some zones.
    pub fn is_limited(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Checks whether a zone is in the scope.
    pub fn covers_name(&self, zone: Name<'_>) -> bool {
        let mut suffixes = self.zones.iter();
        !self.is_limited() || suffixes.any(|suffix| zone.is_at_or_below(suffix.as_name()))
    }
}
