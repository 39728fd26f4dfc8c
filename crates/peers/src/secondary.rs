//! Secondary zones: refresh checks, transfers, expiry (RFC 1034 section 4.3.5, RFC 1996).
//!
//! ```text
//! due        a check starts: the zone's next primary is queried
//! answer     newer: committed, durable before it is served; same: confirmed; wrong or none: the next primary, then retry
//! NOTIFY     the check is due at once, before all that are merely timed
//! expire     no primary has confirmed the zone for too long: SERVFAIL until one does
//! ```
//! There is no clock, no socket and no thread in here. Time is passed as `now`; queries to primaries go out through
//! [`QueryPrimary`] and their answers come back through [`Secondaries::answered`]; a zone is stored in a
//! [`SecondaryStorage`], whose reports end up in a queue that [`Secondaries::run`] drains. So everything runs in a
//! simulation. [`driver`] adds a clock and a thread.

mod check;
mod commit_thread;
mod copy;
mod database_storage;
mod difference_change;
pub mod driver;
mod expiry;
mod query;
mod start;
mod state_storage;
mod status;
mod storage;
mod storage_poll;
pub mod zone;
mod zone_state;

use crate::secondary::zone::{SecondarySettings, SharedName, ZoneState};
use nameward_maintain::commit::Commits;
use nameward_maintain::policy::{PolicySource, ZonePolicy};
use nameward_maintain::schedule::{
    ClassLimit, EventUrgency, Moment, Schedule, ZoneEvent, ZoneNumber,
};
use nameward_maintain::table::lower_case;
use nameward_wire::{Name, NameBuf};
use nameward_zone::Serial;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use copy::CopyWriter;
use expiry::ExpiryTimes;
use state_storage::StateStorage;
use zone_state::{PollReason, Secondary, StorageReport};

pub use database_storage::DatabaseStorage;
pub use query::{
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestId,
    PrimaryRequestStep, QueryPrimary, TransferWay,
};
pub use status::{
    BehindPrimary, SecondariesSummary, SecondaryStatus, UntransferredZone, UntransferredZones,
};
pub use storage::{
    HeldVersion, SecondaryStorage, SeenDone, StorageError, StorageOutcome, StorageState,
    StorageStates, VersionDone, ZoneInStorage,
};

/// Maximum number of concurrent serial queries. Each has a socket for the duration of a round trip, or for the eight
/// seconds that a silent primary is given.
const CHECKS: usize = 400;
/// Maximum time over which the first checks after a start are spread.
const SPREAD: Duration = Duration::from_secs(300);

/// The new owner of a zone that is no longer a secondary zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneSuccessor {
    /// It is withdrawn.
    None,
    /// A file of the configuration: its version replaces ours.
    File,
}

/// Called when a storage has reported, so that the driver calls [`Secondaries::run`].
type Wake = Arc<dyn Fn() + Send + Sync>;

/// All secondary zones.
pub struct Secondaries<O> {
    store: Arc<StateStorage>,
    /// The storage of zones in backends, by backend rank.
    databases: HashMap<u16, Arc<dyn SecondaryStorage>>,
    outgoing: O,
    schedule: Schedule,
    /// When zones expire. Not among the events of the schedule: those of a zone wait while it is checked, and a check
    /// may take hours.
    expiries: BTreeSet<(Moment, ZoneNumber)>,
    /// The same times by name, for other threads.
    expiry_times: Arc<ExpiryTimes>,
    zones: HashMap<ZoneNumber, Box<Secondary>>,
    numbers: HashMap<SharedName, ZoneNumber>,
    /// Zones whose storage is being read before they are taken over.
    listing: HashMap<SharedName, SecondarySettings>,
    /// Zones whose checks were left to another server.
    left: HashSet<ZoneNumber>,
    next_number: ZoneNumber,
    next_request_id: u64,
    /// Each report ends a request of this thread, so no more wait than requests are under way. Not bounded by itself: the
    /// state writer and the database threads must not wait for the thread that hands them work.
    reports: (Sender<StorageReport>, Receiver<StorageReport>),
    wake: Wake,
    copies: CopyWriter,
    random: u64,
}

impl<O: QueryPrimary> Secondaries<O> {
    /// Creates a set without zones. `seed` is for spreading checks.
    pub fn new(commits: Arc<Commits>, outgoing: O, seed: u64) -> Self {
        let mut schedule = Schedule::default();
        schedule.limit_checks(ClassLimit {
            running: CHECKS,
            per_lane: CHECKS,
        });
        Secondaries {
            store: Arc::new(StateStorage::new(commits)),
            databases: HashMap::new(),
            outgoing,
            schedule,
            expiries: BTreeSet::new(),
            expiry_times: Arc::default(),
            zones: HashMap::new(),
            numbers: HashMap::new(),
            listing: HashMap::new(),
            left: HashSet::new(),
            next_number: 0,
            next_request_id: 0,
            reports: channel(),
            wake: Arc::new(|| ()),
            copies: CopyWriter::default(),
            random: seed | 1,
        }
    }

    /// Sets the storage for zones of the backend with this rank.
    pub fn set_storage(&mut self, rank: u16, storage: Arc<dyn SecondaryStorage>) {
        self.databases.insert(rank, storage);
    }

    /// Checks whether zones with this policy have storage: those of backends that are not databases have none.
    pub fn has_storage(&self, policy: &ZonePolicy) -> bool {
        match policy.declared_by {
            PolicySource::Backend(rank) => self.databases.contains_key(&rank),
            _ => true,
        }
    }

    /// Registers a function that is called whenever a storage has reported.
    pub fn on_report(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake = Arc::new(wake);
    }

    /// Sets the maximum number of concurrent transfers, in total and per primary.
    pub fn limit_transfers(&mut self, limit: ClassLimit) {
        self.schedule.limit_transfers(limit);
    }

    /// Returns the client that queries primaries.
    pub fn outgoing(&mut self) -> &mut O {
        &mut self.outgoing
    }

    /// Sets the policy of a zone; with other primaries it is checked at once. False if there is no such zone, or not
    /// in the storage that the policy requires.
    pub fn set_policy(&mut self, zone: Name<'_>, policy: Arc<ZonePolicy>, now: Moment) -> bool {
        if let Some(settings) = self.listing.get_mut(&*lower_case(zone)) {
            settings.policy = policy;
            return true;
        }
        let Some(&number) = self.numbers.get(&*lower_case(zone)) else {
            return false;
        };
        let Some(secondary) = self.zones.get_mut(&number) else {
            return false;
        };
        let place = |policy: &ZonePolicy| match policy.declared_by {
            PolicySource::Backend(rank) => Some(rank),
            _ => None,
        };
        if place(&secondary.settings.policy) != place(&policy) {
            self.remove(zone, ZoneSuccessor::None);
            return false;
        }
        let before = std::mem::replace(&mut secondary.settings.policy, policy);
        if before.primaries != secondary.settings.policy.primaries {
            secondary.next_primary = 0;
            secondary.is_check_requested = true;
            // A transfer that has not started waits for a slot of the previous primary.
            self.schedule.cancel(number, ZoneEvent::Transfer);
            self.plan_check(number, now, EventUrgency::Requested);
        }
        true
    }

    /// Removes a zone, with all its state. False if there is no such zone. If another follower of the same rank has
    /// taken it over (`successor`), that one's version is not withdrawn.
    pub fn remove(&mut self, zone: Name<'_>, successor: ZoneSuccessor) -> bool {
        let key = lower_case(zone);
        if self.listing.remove(&*key).is_some() {
            return true;
        }
        let Some(number) = self.numbers.remove(&*key) else {
            return false;
        };
        self.schedule.remove(number);
        let Some(secondary) = self.zones.remove(&number) else {
            return false;
        };
        if let Some(expiry) = secondary.expiry {
            self.expiries.remove(&(expiry, number));
        }
        self.expiry_times.set(&secondary.settings.name, None);
        secondary.storage.forget(&secondary.in_storage(), successor);
        true
    }

    /// Processes a NOTIFY: the zone is checked at once, unless it already has the notified serial. False if there is
    /// no such zone.
    pub fn notified(&mut self, zone: &NameBuf, serial: Option<Serial>, now: Moment) -> bool {
        let Some(&number) = self.numbers.get(&*lower_case(zone.as_name())) else {
            return false;
        };
        let Some(secondary) = self.zones.get_mut(&number) else {
            return false;
        };
        let ours = secondary
            .serial()
            .filter(|_| secondary.state == ZoneState::Current);
        let is_known = match (serial, ours) {
            (Some(notified), Some(ours)) => !notified.is_after(ours),
            _ => false,
        };
        // A transfer that waits for its turn fetches the newest version anyway.
        let is_waiting = self.schedule.planned(number, ZoneEvent::Transfer).is_some();
        if !is_known && !is_waiting {
            secondary.is_check_requested = true;
            self.plan_check(number, now, EventUrgency::Requested);
        }
        true
    }

    /// Transfers a whole zone, even if its primary has no newer serial. False if there is no such zone.
    pub fn force(&mut self, zone: &NameBuf, now: Moment) -> bool {
        let Some(&number) = self.numbers.get(&*lower_case(zone.as_name())) else {
            return false;
        };
        let Some(secondary) = self.zones.get_mut(&number) else {
            return false;
        };
        (secondary.is_check_requested, secondary.is_force_requested) = (true, true);
        self.schedule.cancel(number, ZoneEvent::Transfer);
        self.plan_check(number, now, EventUrgency::Requested);
        true
    }

    /// Returns when [`Secondaries::run`] has something to do, if no other event occurs before.
    pub fn next(&self) -> Option<Moment> {
        let expiry = self.expiries.first().map(|(at, _)| *at);
        self.schedule.next().into_iter().chain(expiry).min()
    }

    /// Returns how many checks and transfers are running.
    pub fn running(&self) -> usize {
        self.schedule.running_count()
    }

    /// Does what is due.
    pub fn run(&mut self, now: Moment) {
        self.take_reports(now);
        while let Some((_, number)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expire(number, now);
        }
        while let Some(started) = self.schedule.begin(now) {
            match started.event {
                ZoneEvent::Refresh => self.begin_check(started.zone, started.urgency, now),
                ZoneEvent::Transfer => self.begin_transfer(started.zone, now),
                _ => self.schedule.finish(started.zone),
            }
        }
    }

    /// Waits until all pending versions are stored, for simulations and for shutdown.
    pub fn wait_for_storage(&mut self, now: Moment) {
        while self.zones.values().any(|zone| zone.is_bringing) {
            match self.reports.1.recv() {
                Ok(report) => self.take_report(report, now),
                Err(_) => return,
            }
        }
    }

    /// Adjusts to a wall clock that was set by this many milliseconds: the time left until each check and each expiry
    /// stays the same, and the stored times are written again. It is unknown how long the server was inactive (a
    /// suspended machine looks the same), so all zones are checked soon, as after a start.
    pub fn clock_stepped(&mut self, milliseconds: i64, now: Moment) {
        self.schedule.shift(milliseconds);
        let spread = start::spread_of(self.zones.len());
        let numbers: Vec<ZoneNumber> = self.zones.keys().copied().collect();
        for number in numbers {
            let check = now.plus(self.draw(spread));
            let Some(zone) = self.zones.get_mut(&number) else {
                continue;
            };
            zone.shift(milliseconds);
            let expiry = zone.expiry.map(|at| at.shifted(milliseconds));
            if zone.held.is_some() && !zone.storage.is_shared() {
                zone.storage
                    .confirm(&zone.settings.name.to_buf(), zone.timers);
            }
            self.plan_expiry(number, expiry);
            self.plan_check(number, check, EventUrgency::Timed);
        }
    }

    fn take_reports(&mut self, now: Moment) {
        while let Ok(report) = self.reports.1.try_recv() {
            self.take_report(report, now);
        }
    }

    fn take_report(&mut self, report: StorageReport, now: Moment) {
        match report {
            StorageReport::Brought(zone, outcome) => self.take_brought(zone, outcome, now),
            StorageReport::Seen(zone, reason, seen) => self.take_seen(zone, reason, seen, now),
            StorageReport::Listed(names, listed) => self.take_listed(&names, listed, now),
        }
    }

    /// Returns the callback that a storage calls with its report.
    fn report<T: 'static>(
        &self,
        make: impl FnOnce(T) -> StorageReport + Send + 'static,
    ) -> Box<dyn FnOnce(T) + Send> {
        let (reports, wake) = (self.reports.0.clone(), Arc::clone(&self.wake));
        Box::new(move |report| {
            // At shutdown the receiver is already dropped.
            let _ = reports.send(make(report));
            wake();
        })
    }

    /// Schedules the next check of a zone, unless one is scheduled for an earlier time.
    fn plan_check(&mut self, number: ZoneNumber, at: Moment, urgency: EventUrgency) {
        let lane = self.zones.get(&number).and_then(|zone| zone.lane());
        self.schedule
            .hasten(number, ZoneEvent::Refresh, at, (urgency, lane));
    }

    /// Schedules the expiry of a zone, replacing an earlier one.
    fn plan_expiry(&mut self, number: ZoneNumber, at: Option<Moment>) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut zone.expiry, at) {
            self.expiries.remove(&(before, number));
        }
        self.expiry_times.set(&zone.settings.name, at);
        self.expiries.extend(at.map(|at| (at, number)));
    }

    fn expire(&mut self, number: ZoneNumber, now: Moment) {
        self.plan_expiry(number, None);
        match self.zones.get(&number) {
            // Another server may have confirmed it.
            Some(zone) if zone.storage.is_shared() => self.poll_storage(number, PollReason::Expiry),
            _ => self.expire_now(number, now),
        }
    }

    fn expire_now(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if now.seconds() < zone.timers.expires || zone.state != ZoneState::Current {
            return;
        }
        zone.state = ZoneState::Expired;
        let reason = zone.last_error.as_deref().unwrap_or("no response");
        tracing::error!(
            "zone {}: expired: no successful refresh within the SOA expire time ({reason}); answered SERVFAIL",
            zone.settings.name
        );
        zone.storage.show(&zone.in_storage());
    }

    /// Returns a random duration up to `most`.
    fn draw(&mut self, most: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Duration::from_millis(self.random % (most.as_millis() as u64).max(1))
    }
}
