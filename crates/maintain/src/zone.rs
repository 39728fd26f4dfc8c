//! Settings, timers and state of a secondary zone.

use crate::policy::ZonePolicy;
use crate::schedule::Moment;
use nameward_store::state::ZoneTimers;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::Zone;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

/// The timers in a SOA that a secondary observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoaTimes {
    /// The time from a check to the next one.
    pub refresh: Duration,
    /// The time from a failed check to the next one.
    pub retry: Duration,
    /// How long the contents are valid without a check.
    pub expire: Duration,
}

/// The timers of a zone that has no SOA yet.
const WITHOUT_SOA: SoaTimes = SoaTimes {
    refresh: Duration::from_secs(60),
    retry: Duration::from_secs(60),
    expire: Duration::from_secs(0),
};
/// Minimum and maximum time between two checks. A zone with a refresh of 0 would query its primary all the time, and
/// one with 68 years never again.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

impl SoaTimes {
    /// Reads the timers of a zone.
    pub fn from_zone(zone: &Zone) -> SoaTimes {
        let soa = zone.apex().rrset(Type::SOA);
        let record = soa.and_then(|soa| soa.records().next());
        record.map_or(WITHOUT_SOA, |record| SoaTimes::from_soa(record.rdata))
    }

    /// Reads the timers from SOA data in wire format.
    pub fn from_soa(rdata: &[u8]) -> SoaTimes {
        let Some(fields) = rdata.last_chunk::<16>() else {
            return WITHOUT_SOA;
        };
        let field = |at: usize| {
            let octets = [fields[at], fields[at + 1], fields[at + 2], fields[at + 3]];
            Duration::from_secs(u32::from_be_bytes(octets).into())
        };
        SoaTimes {
            refresh: field(0).clamp(SHORTEST, LONGEST),
            retry: field(4).clamp(SHORTEST, LONGEST),
            expire: field(8),
        }
    }

    /// Returns the timers of a zone that a primary confirmed at `now`; `early` shortens the wait.
    pub fn confirmed(&self, now: Moment, early: Duration) -> ZoneTimers {
        ZoneTimers {
            refreshed: now.seconds(),
            next_check: now.plus(self.refresh.saturating_sub(early)).seconds(),
            expires: now.plus(self.expire.max(self.refresh)).seconds(),
        }
    }
}
