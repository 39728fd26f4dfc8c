//! The thread that runs the refresh of secondary zones with a clock, and its interface.
//!
//! ```text
//! policies      zones appear, change and vanish
//! answers       of primaries, from the client that queries them
//! NOTIFY        one entry per zone, however many arrive
//! operators     status, an immediate check
//! ```
//! All of it waits in one inbox, which is bounded: by the zones, by the queries in flight and by the operators.

use super::expiry::ExpiryTimes;
use super::start::BY_NAME;
use super::{DatabaseStorage, SecondariesSummary, SecondaryStatus, UntransferredZones};
use super::{PrimaryError, PrimaryReply, PrimaryRequestId, Secondaries, ZoneSuccessor};
use crate::primaries::{PrimaryClient, PrimaryQuerier};
use crate::secondary::zone::SecondarySettings;
use nameward_base::sync::Mutex;
use nameward_base::text::counted;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_maintain::Core;
use nameward_maintain::clock::{SteadyClock, step_text};
use nameward_maintain::commit::Commits;
use nameward_maintain::policy::{
    Policies, PolicySource, PolicyTable, UNCONFIGURED_RANK, ZonePolicy,
};
use nameward_maintain::schedule::{ClassLimit, Moment};
use nameward_maintain::table::lower_case;
use nameward_state::{StateChange, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Serial;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Interval at which the totals over all zones are computed.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(5);
/// How long contents in the state store are kept after a start for zones that no policy names: those from catalogs
/// appear only after the catalog was read.
const ORPHANS_KEPT: Duration = Duration::from_secs(600);

/// Requests that wait for the thread.
#[derive(Default)]
struct Inbox {
    answers: Vec<(PrimaryRequestId, Result<PrimaryReply, PrimaryError>)>,
    notified: HashMap<Box<[u8]>, Option<Serial>>,
    changed: HashSet<Box<[u8]>>,
    requests: Vec<OperatorRequest>,
    /// This server now refreshes the zones of a database.
    has_lease: bool,
}

/// The version that an operator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retrieval {
    /// A newer version.
    IfNewer,
    /// The version that the primary has, whatever its serial.
    Forced,
}

enum OperatorRequest {
    Status(Option<NameBuf>, SyncSender<Vec<SecondaryStatus>>),
    Check(NameBuf, Retrieval, SyncSender<bool>),
}

#[derive(Default)]
struct SecondaryDriverShared {
    mailbox: Mailbox<Inbox>,
    summary: Mutex<SecondariesSummary>,
    never_transferred: Mutex<Arc<UntransferredZones>>,
    expiries: Arc<ExpiryTimes>,
    clock: SteadyClock,
}

/// The handle of the thread; clones share it.
#[derive(Clone, Default)]
pub struct SecondaryHandle {
    shared: Arc<SecondaryDriverShared>,
}

impl SecondaryHandle {
    /// Passes on the answer of a primary.
    pub fn answered(
        &self,
        request_id: PrimaryRequestId,
        reply: Result<PrimaryReply, PrimaryError>,
    ) {
        self.shared
            .mailbox
            .put(|inbox| inbox.answers.push((request_id, reply)));
    }

    /// Passes on a NOTIFY for a secondary zone. Several for one zone count as one.
    pub fn notified(&self, zone: Name<'_>, serial: Option<Serial>) {
        self.shared.mailbox.put(|inbox| {
            // The newest serial of all NOTIFY messages; one without a serial requests a check in any case.
            let newest = inbox.notified.entry(lower_case(zone)).or_insert(serial);
            *newest = match (*newest, serial) {
                (Some(before), Some(serial)) if before.is_after(serial) => Some(before),
                (Some(_), Some(serial)) => Some(serial),
                _ => None,
            };
        });
    }

    /// Makes the checks that were left to another server.
    pub fn take_over_checks(&self) {
        self.shared.mailbox.put(|inbox| inbox.has_lease = true);
    }

    /// Returns the status of a zone, or of all.
    pub fn status(&self, zone: Option<NameBuf>) -> Vec<SecondaryStatus> {
        self.request(|reply| OperatorRequest::Status(zone, reply))
            .unwrap_or_default()
    }

    /// Checks a zone at once; false if there is no such zone.
    pub fn check(&self, zone: NameBuf, retrieval: Retrieval) -> bool {
        self.request(|reply| OperatorRequest::Check(zone, retrieval, reply))
            .unwrap_or(false)
    }

    fn request<T>(&self, request: impl FnOnce(SyncSender<T>) -> OperatorRequest) -> Option<T> {
        let (reply, replied) = sync_channel(1);
        let request = request(reply);
        // Once stopped, the request is dropped, and the reply with it.
        self.shared
            .mailbox
            .put(|inbox| inbox.requests.push(request));
        replied.recv().ok()
    }

    /// Returns the totals over all zones, at most some seconds old.
    pub fn summary(&self) -> SecondariesSummary {
        *self.shared.summary.lock()
    }

    /// Returns the zones that were never transferred, as of some seconds ago.
    pub fn never_transferred(&self) -> Arc<UntransferredZones> {
        Arc::clone(&self.shared.never_transferred.lock())
    }

    /// Returns the seconds until a secondary zone expires, if it is served. Never blocks.
    pub fn seconds_to_expiry(&self, zone: Name<'_>) -> Option<u32> {
        let now = self.shared.clock.now();
        self.shared.expiries.seconds_left(zone, now)
    }

    /// Ends the thread. Committed versions are kept; work in progress is abandoned.
    pub fn end(&self) {
        self.shared.mailbox.stop();
    }
}

/// Starts the thread. It takes over all secondary zones, calls `loaded`, and follows the policies. `transfers` limits
/// concurrent transfers, in total and per primary; `client` queries primaries. Call within the runtime of the database
/// connections.
pub fn start(
    core: &Core,
    transfers: ClassLimit,
    client: &Arc<PrimaryClient>,
    loaded: impl FnOnce() + Send + 'static,
) -> io::Result<SecondaryHandle> {
    let handle = SecondaryHandle::default();
    let (commits, policies) = (Arc::clone(&core.commits), Arc::clone(&core.policies));
    let querier = PrimaryQuerier {
        client: Arc::clone(client),
        secondaries: handle.clone(),
    };
    let mut secondaries = Secondaries::new(Arc::clone(&commits), querier, random_seed());
    secondaries.limit_transfers(transfers);
    for database in core.databases.all() {
        let storage =
            DatabaseStorage::start(database, (&commits, &core.leases), &Handle::current())?;
        secondaries.set_storage(database.rank, Arc::new(storage));
    }
    secondaries.expiry_times = Arc::clone(&handle.shared.expiries);
    let waker = handle.clone();
    secondaries.on_report(move || waker.shared.mailbox.put(|_| ()));
    let listener = handle.clone();
    policies.on_change(move |change| {
        if !change.zones.is_empty() {
            let zones = change.zones.iter().cloned();
            listener
                .shared
                .mailbox
                .put(|inbox| inbox.changed.extend(zones));
        }
    });
    let driver = SecondaryDriver {
        secondaries,
        commits,
        policies,
        handle: handle.clone(),
        changed: HashSet::new(),
        started: Instant::now(),
        summed: None,
        has_removed_orphans: false,
    };
    worker::start("secondaries", move || driver.run(loaded))?;
    Ok(handle)
}

/// Returns the seed that spreads the checks of zones: the keys of a hasher are random.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The thread's work, in the message about a bug.
const WORK: &str = "maintaining secondary zones";

/// The state of the thread.
struct SecondaryDriver {
    secondaries: Secondaries<PrimaryQuerier>,
    commits: Arc<Commits>,
    policies: Arc<PolicyTable>,
    handle: SecondaryHandle,
    /// Zones whose policy change was not processed yet.
    changed: HashSet<Box<[u8]>>,
    started: Instant,
    summed: Option<Instant>,
    has_removed_orphans: bool,
}

impl SecondaryDriver {
    fn run(mut self, loaded: impl FnOnce()) {
        let policies = self.policies.load();
        let all = policies.zones().map(|(zone, _)| zone.as_wire().into());
        let all: Vec<_> = all.collect();
        panic_guard(WORK, || self.follow(&policies, all));
        loaded();
        loop {
            panic_guard(WORK, || {
                self.follow_clock();
                self.secondaries.run(self.now());
                self.sum_up();
            });
            let Some(inbox) = self.wait() else {
                return;
            };
            self.changed.extend(inbox.changed);
            self.follow_some();
            if inbox.has_lease {
                self.secondaries.take_over_checks(self.now());
            }
            for (request_id, reply) in inbox.answers {
                let now = self.now();
                panic_guard(WORK, || self.secondaries.answered(request_id, reply, now));
            }
            for (zone, serial) in inbox.notified {
                let (zone, now) = (Name::from_valid_wire(&zone).into(), self.now());
                panic_guard(WORK, || {
                    self.secondaries.notified(&zone, serial, now);
                });
            }
            for request in inbox.requests {
                panic_guard(WORK, || self.answer(request));
            }
        }
    }

    fn now(&self) -> Moment {
        self.handle.shared.clock.now()
    }

    /// Adjusts the timers of zones to a wall clock that was set.
    fn follow_clock(&mut self) {
        let Some(step) = self.handle.shared.clock.step() else {
            return;
        };
        tracing::warn!(
            "system clock stepped {}: refresh and expire timers keep their remaining time, and all secondary zones are \
             refreshed; check the time synchronization of this host",
            step_text(step)
        );
        let now = self.now();
        self.secondaries.clock_stepped(step, now);
    }

    /// Waits until something arrives or is due; `None` at the end.
    fn wait(&self) -> Option<Inbox> {
        let most = match self.secondaries.next() {
            _ if !self.changed.is_empty() => Duration::ZERO,
            Some(at) => Duration::from_millis(at.0.saturating_sub(self.now().0)),
            None => SUMMARY_INTERVAL,
        };
        let mailbox = &self.handle.shared.mailbox;
        mailbox.wait(Some(most.min(SUMMARY_INTERVAL)))
    }

    fn answer(&mut self, request: OperatorRequest) {
        match request {
            OperatorRequest::Status(zone, reply) => {
                let list = match zone {
                    Some(zone) => self.secondaries.status(&zone).into_iter().collect(),
                    None => self.secondaries.statuses().collect(),
                };
                let _ = reply.send(list);
            }
            OperatorRequest::Check(zone, retrieval, reply) => {
                let now = self.now();
                let _ = reply.send(match retrieval {
                    Retrieval::IfNewer => self.secondaries.notified(&zone, None, now),
                    Retrieval::Forced => self.secondaries.force(&zone, now),
                });
            }
        }
    }

    /// Processes policy changes of some zones: a catalog with 200,000 new members does not delay the answer of a
    /// primary.
    fn follow_some(&mut self) {
        let some: Vec<Box<[u8]>> = self.changed.iter().take(BY_NAME).cloned().collect();
        if some.is_empty() {
            return;
        }
        for zone in &some {
            self.changed.remove(zone);
        }
        let policies = self.policies.load();
        panic_guard(WORK, || self.follow(&policies, some));
    }

    /// Applies the policies of some zones.
    fn follow(&mut self, policies: &Policies, zones: Vec<Box<[u8]>>) {
        let mut new = Vec::new();
        for zone in &zones {
            let Ok(name) = Name::from_wire(zone) else {
                continue;
            };
            let own = policies.own(name);
            let policy =
                own.filter(|policy| is_secondary(policy) && self.secondaries.has_storage(policy));
            let Some(policy) = policy else {
                let is_file = own.is_some_and(|policy| {
                    policy.declared_by == PolicySource::Configured && !policy.kind.is_transferred()
                });
                let successor = if is_file {
                    ZoneSuccessor::File
                } else {
                    ZoneSuccessor::None
                };
                self.secondaries.remove(name, successor);
                continue;
            };
            let now = self.now();
            if !self.secondaries.set_policy(name, Arc::clone(policy), now) {
                new.push(SecondarySettings {
                    name: name.into(),
                    rank: rank_of(policy),
                    policy: Arc::clone(policy),
                });
            }
        }
        if self.commits.store().is_none() {
            let count = new.len();
            new.retain(|settings| is_in_database(&settings.policy));
            if new.len() < count {
                tracing::error!(
                    "{} not served: their data is kept in the state store; set state_directory",
                    counted(count - new.len(), "secondary zone")
                );
            }
        }
        if new.is_empty() {
            return;
        }
        let (count, began) = (new.len(), Instant::now());
        let now = self.now();
        self.secondaries.add_all(new, now);
        tracing::info!(
            "loaded {} in {:.3} s",
            counted(count, "secondary zone"),
            began.elapsed().as_secs_f64()
        );
    }

    fn sum_up(&mut self) {
        if self
            .summed
            .is_some_and(|at| at.elapsed() < SUMMARY_INTERVAL)
        {
            return;
        }
        self.summed = Some(Instant::now());
        *self.handle.shared.summary.lock() = self.secondaries.summary(self.now());
        let table = self.commits.table().load();
        let waiting = self.secondaries.never_transferred(&table, self.now());
        *self.handle.shared.never_transferred.lock() = Arc::new(waiting);
        if !self.has_removed_orphans && self.started.elapsed() >= ORPHANS_KEPT {
            self.has_removed_orphans = true;
            self.remove_orphans();
        }
    }

    /// Deletes contents in the state store that no longer belong to a zone: it was removed from the configuration
    /// while the server was down.
    fn remove_orphans(&self) {
        let Some(Ok(kept)) = self.commits.store().map(|store| store.zones()) else {
            return;
        };
        let (table, policies) = (self.commits.table().load(), self.policies.load());
        for zone in kept
            .iter()
            .filter(|zone| zone.storage == ZoneStorage::Store)
        {
            let name = zone.name.as_name();
            if table.exact(name).is_none() && policies.own(name).is_none() {
                tracing::info!("zone {name}: no longer configured: removed from the state store");
                let zone = zone.name;
                self.commits
                    .write_state(zone, vec![StateChange::RemoveZone { zone }]);
            }
        }
    }
}

/// Checks whether a zone is transferred from primaries.
fn is_secondary(policy: &ZonePolicy) -> bool {
    policy.kind.is_transferred() && !policy.primaries.is_empty()
}

/// Checks whether a zone is stored in a database.
fn is_in_database(policy: &ZonePolicy) -> bool {
    matches!(policy.declared_by, PolicySource::Backend(_))
}

fn rank_of(policy: &ZonePolicy) -> u16 {
    match policy.declared_by {
        PolicySource::Configured => nameward_maintain::policy::CONFIGURED_RANK,
        PolicySource::Backend(rank) => rank,
        _ => UNCONFIGURED_RANK,
    }
}
