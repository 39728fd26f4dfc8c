//! The timers in a SOA (RFC 1035 section 3.3.13).

use crate::schedule::Moment;
use nameward_state::ZoneTimers;
use nameward_wire::Type;
use nameward_zone::Zone;
use std::time::Duration;

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
