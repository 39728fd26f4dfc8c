//! The settings, the times and the state of a zone that comes from a primary.

use crate::policy::ZonePolicy;
use crate::schedule::Moment;
use nameward_store::state::ZoneTimers;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::Zone;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The state of a zone that comes from a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneState {
    /// It was never transferred: SERVFAIL.
    Empty,
    /// It is served.
    Current,
    /// No primary has confirmed it for the time its SOA allows: SERVFAIL (RFC 1035 section 3.3.13).
    Expired,
}

/// The name of a zone in wire form and lower case, shared by all who refer to the zone: a hundred thousand zones would
/// fill many megabytes with the room that a [`NameBuf`] has for the longest name.
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

/// The settings of a zone that comes from a primary.
#[derive(Debug, Clone)]
pub struct SecondarySettings {
    /// Its name.
    pub name: SharedName,
    /// The rank of its source.
    pub rank: u16,
    /// Its policy: who may have a newer version, and how large it may be.
    pub policy: Arc<ZonePolicy>,
}

/// The times in a SOA that a secondary keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoaTimes {
    /// How long after a check the next one is made.
    pub refresh: Duration,
    /// How long after a check that failed.
    pub retry: Duration,
    /// How long the contents are good without a check.
    pub expire: Duration,
}

/// The times of a zone that has no SOA yet.
const WITHOUT_SOA: SoaTimes = SoaTimes {
    refresh: Duration::from_secs(60),
    retry: Duration::from_secs(60),
    expire: Duration::from_secs(0),
};
/// The shortest and the longest time between two checks. A zone that asks for none would ask its primary all the time,
/// and one that asks for 68 years would never again.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

impl SoaTimes {
    /// Reads the times of a zone.
    pub fn of(zone: &Zone) -> SoaTimes {
        let soa = zone.apex().rrset(Type::SOA);
        let record = soa.and_then(|soa| soa.records().next());
        record.map_or(WITHOUT_SOA, |record| SoaTimes::of_soa(record.rdata))
    }

    /// Reads the times of a SOA from its data in wire form.
    pub fn of_soa(rdata: &[u8]) -> SoaTimes {
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

    /// The times of a zone that was confirmed by a primary at `now`; `early` takes something off the wait.
    pub fn confirmed(&self, now: Moment, early: Duration) -> ZoneTimers {
        ZoneTimers {
            refreshed: now.seconds(),
            next_check: now.plus(self.refresh.saturating_sub(early)).seconds(),
            expires: now.plus(self.expire.max(self.refresh)).seconds(),
        }
    }
}
