//! The status of secondary zones, for operators and for metrics.

use super::Secondaries;
use super::query::QueryPrimary;
use super::zone_state::Secondary;
use crate::secondary::zone::ZoneState;
use nameward_maintain::schedule::{Moment, ZoneEvent, ZoneNumber};
use nameward_maintain::table::lower_case;
use nameward_state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::{Serial, ZoneTable};
use std::net::SocketAddr;
use std::time::Duration;

/// The status of a zone, as shown to operators.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryStatus {
    pub zone: NameBuf,
    pub state: ZoneState,
    pub serial: Option<Serial>,
    /// The primary that was queried last.
    pub primary: Option<SocketAddr>,
    /// The last serial reported by a primary.
    pub serial_there: Option<Serial>,
    pub timers: ZoneTimers,
    /// When a primary was last queried since the start, in seconds since 1970.
    pub checked: Option<u64>,
    /// When the next check starts, in seconds since 1970; none while one is in progress.
    pub next_check: Option<u64>,
    /// Whether a check or transfer is in progress.
    pub is_checking: bool,
    /// Whether it waits for a slot among the transfers of its primary.
    pub is_queued: bool,
    /// Number of consecutive failed checks.
    pub failures: u32,
    /// Why the last check failed, if it did.
    pub last_error: Option<String>,
}

/// A zone whose primaries have a lower serial than this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BehindPrimary {
    /// Its name.
    pub zone: NameBuf,
    /// Our serial.
    pub here: Serial,
    /// The primary's serial.
    pub there: Serial,
}

/// The totals over all secondary zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondariesSummary {
    /// All of them.
    pub zones: u64,
    /// Zones that were never transferred.
    pub empty: u64,
    /// Zones that are not served because no primary has confirmed them for too long.
    pub expired: u64,
    /// The first of these by name.
    pub first_expired: Option<NameBuf>,
    /// Zones that are served although their last check failed, except those whose primary is behind.
    pub stale: u64,
    /// The first of these by name.
    pub first_stale: Option<NameBuf>,
    /// Zones whose primaries have a lower serial: nothing new is transferred.
    pub behind: u64,
    /// One of these.
    pub first_behind: Option<BehindPrimary>,
    /// Zones whose check or transfer is in progress or due.
    pub waiting: u64,
    /// Seconds since the last successful check, of the zone where that is longest ago.
    pub oldest_refresh_seconds: u64,
}

/// Zones that were never transferred.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UntransferredZones {
    /// All of them.
    pub number: usize,
    /// Zones whose transfer failed, or that have waited for [`OVERDUE`].
    pub overdue: usize,
    /// Zones that are ready in the zone table: they are looked up in a database that has no records for them.
    pub looked_up: usize,
    /// The first few that are overdue.
    pub first: Vec<UntransferredZone>,
}

/// A zone that was never transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntransferredZone {
    /// The zone.
    pub name: NameBuf,
    /// Why the last transfer failed, if it did.
    pub error: Option<String>,
}

/// Keeps the first zone in canonical order, so that a fault names the same zone each time it is read.
fn keep_first(first: &mut Option<NameBuf>, zone: &Secondary) {
    let name = zone.settings.name.to_buf();
    let is_first = first.is_none_or(|first| name.as_name().canonical_cmp(first.as_name()).is_lt());
    if is_first {
        *first = Some(name);
    }
}

/// Time after which a zone that was not transferred is overdue.
const OVERDUE: Duration = Duration::from_secs(60);
/// Maximum number of overdue zones that are named.
const NAMED_MAX: usize = 5;

impl<O: QueryPrimary> Secondaries<O> {
    /// Returns the zones that were never transferred and would be served otherwise.
    pub fn never_transferred(&self, table: &ZoneTable, now: Moment) -> UntransferredZones {
        let mut waiting = UntransferredZones::default();
        let empty = self.zones.values();
        for zone in empty.filter(|zone| zone.state == ZoneState::Empty) {
            let name = zone.settings.name.to_buf();
            let served = table.exact(name.as_name());
            match served {
                // Another backend serves a zone of this name.
                Some(served) if served.rank() != zone.settings.rank => continue,
                Some(served) if served.is_ready() => waiting.looked_up += 1,
                Some(_) => {}
                None => continue,
            }
            waiting.number += 1;
            let waited = Duration::from_millis(now.0.saturating_sub(zone.listed.0));
            if zone.failures == 0 && waited < OVERDUE {
                continue;
            }
            waiting.overdue += 1;
            if waiting.first.len() < NAMED_MAX {
                let error = zone.last_error.clone();
                waiting.first.push(UntransferredZone { name, error });
            }
        }
        waiting
    }

    /// Returns the status of a zone.
    pub fn status(&self, zone: &NameBuf) -> Option<SecondaryStatus> {
        let number = *self.numbers.get(&*lower_case(zone.as_name()))?;
        Some(self.status_of(number, self.zones.get(&number)?))
    }

    /// Returns the status of every zone, in no order.
    pub fn statuses(&self) -> impl Iterator<Item = SecondaryStatus> + '_ {
        let zones = self.zones.iter();
        zones.map(|(number, zone)| self.status_of(*number, zone))
    }

    fn status_of(&self, number: ZoneNumber, zone: &Secondary) -> SecondaryStatus {
        let planned = self.schedule.planned(number, ZoneEvent::Refresh);
        let is_checking = self.schedule.running(number).is_some();
        let is_queued = self.schedule.planned(number, ZoneEvent::Transfer).is_some();
        SecondaryStatus {
            zone: zone.settings.name.to_buf(),
            state: zone.state,
            serial: zone.serial(),
            primary: zone.primary,
            serial_there: zone.serial_there,
            timers: zone.timers,
            checked: zone.checked.map(Moment::seconds),
            next_check: planned.map(Moment::seconds),
            is_checking,
            is_queued,
            failures: zone.failures,
            last_error: zone.last_error.clone(),
        }
    }

    /// Computes the totals over all zones.
    pub fn summary(&self, now: Moment) -> SecondariesSummary {
        let mut sum = SecondariesSummary::default();
        for (number, zone) in &self.zones {
            sum.zones += 1;
            match zone.state {
                ZoneState::Empty => sum.empty += 1,
                ZoneState::Expired => {
                    sum.expired += 1;
                    keep_first(&mut sum.first_expired, zone);
                }
                ZoneState::Current if zone.behind.is_none() && zone.failures > 0 => {
                    sum.stale += 1;
                    keep_first(&mut sum.first_stale, zone);
                }
                ZoneState::Current => {}
            }
            if let (Some(here), Some(there)) = (zone.serial(), zone.behind) {
                sum.behind += 1;
                sum.first_behind.get_or_insert_with(|| BehindPrimary {
                    zone: zone.settings.name.to_buf(),
                    here,
                    there,
                });
            }
            let planned = self.schedule.planned(*number, ZoneEvent::Refresh);
            let transfer = self.schedule.planned(*number, ZoneEvent::Transfer);
            let is_due = planned.is_some_and(|at| at <= now) || transfer.is_some();
            sum.waiting += u64::from(is_due || zone.request_id.is_some() || zone.is_bringing);
            if zone.state != ZoneState::Empty {
                let age = now.seconds().saturating_sub(zone.timers.refreshed);
                sum.oldest_refresh_seconds = sum.oldest_refresh_seconds.max(age);
            }
        }
        sum
    }
}
