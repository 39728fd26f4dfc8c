//! Settings and state of a secondary zone.

use nameward_maintain::policy::ZonePolicy;
use nameward_wire::{Name, NameBuf};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The state of a secondary zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneState {
    /// It was never transferred: SERVFAIL.
    Empty,
    /// It is served.
    Current,
    /// No primary has confirmed it for the time its SOA allows: SERVFAIL (RFC 1035 section 3.3.13).
    Expired,
}

/// The name of a zone in wire format and lower case, shared by all references to the zone: for a hundred thousand
/// zones, a [`NameBuf`] with its room for the longest name would waste many megabytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedName(Arc<[u8]>);

impl SharedName {
    /// Borrows the name.
    pub fn as_name(&self) -> Name<'_> {
        Name::from_valid_wire(&self.0)
    }

    /// Copies the name.
    pub fn to_buf(&self) -> NameBuf {
        self.as_name().into()
    }
}

impl From<Name<'_>> for SharedName {
    fn from(name: Name<'_>) -> Self {
        SharedName(name.as_wire().to_ascii_lowercase().into())
    }
}

impl Borrow<[u8]> for SharedName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The settings of a secondary zone.
#[derive(Debug, Clone)]
pub struct SecondarySettings {
    /// Its name.
    pub name: SharedName,
    /// The rank of its source.
    pub rank: u16,
    /// Its policy: primaries, size limit and access control.
    pub policy: Arc<ZonePolicy>,
}
