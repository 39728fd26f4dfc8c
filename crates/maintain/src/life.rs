//! The life of zones that come from a primary: checks, transfers, expiry (RFC 1034 section 4.3.5, RFC 1996).
//!
//! ```text
//! due        a check begins: the zone's next primary is asked what it has
//! answer     newer: committed, durable before it is served; same: confirmed; wrong or none: the next primary, then retry
//! NOTIFY     the check is due at once, before all that is merely timed
//! expire     nobody has confirmed the zone for too long: SERVFAIL until somebody does
//! ```
//! There is no clock, no socket and no thread in here. Time comes in as `now`; questions to primaries go out by
//! [`AskPrimary`] and their answers come back by [`Secondaries::answered`]; commits end in a queue that
//! [`Secondaries::run`] empties. So the whole life of a zone runs in a simulation. [`driver`] gives it a clock and a
//! thread.

mod ask;
mod check;
mod copy;
pub mod driver;
mod secondary;
mod start;
mod status;

use crate::commit::{CommitError, Commits};
use crate::policy::ZonePolicy;
use crate::schedule::{EventUrgency, Moment, Schedule, ZoneEvent, ZoneNumber};
use crate::zone::{SecondarySettings, ZoneState};
use nameward_store::state::StateChange;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use copy::CopyWriter;
use secondary::{Ended, Secondary};

pub use ask::{Ask, AskPrimary, AskTicket, PrimaryAnswer, PrimaryError, PrimaryReply, TransferWay};
pub use status::{SecondariesSummary, SecondaryStatus};

/// Checks and transfers that run at one time, where nothing else is said.
const RUNNING: usize = 200;
/// The longest time over which the first checks after a start are spread.
const SPREAD: Duration = Duration::from_secs(300);

/// Who has a zone that is no secondary zone any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneHeir {
    /// It is withdrawn.
    Nobody,
    /// A file of the configuration: its version takes the place of ours.
    File,
}

/// Called when a commit has ended, so that somebody calls [`Secondaries::run`].
type Wake = Arc<dyn Fn() + Send + Sync>;

/// All zones that come from primaries.
pub struct Secondaries<O> {
    commits: Arc<Commits>,
    outgoing: O,
    schedule: Schedule,
    /// When zones expire. Not among the events of the schedule: those of a zone wait while it is checked, and a check may
    /// take hours.
    expiries: BTreeSet<(Moment, ZoneNumber)>,
    zones: HashMap<ZoneNumber, Secondary>,
    numbers: HashMap<Box<[u8]>, ZoneNumber>,
    next_number: ZoneNumber,
    next_ticket: u64,
    running_max: usize,
    ended: (Sender<Ended>, Receiver<Ended>),
    wake: Wake,
    copies: CopyWriter,
    random: u64,
}

impl<O: AskPrimary> Secondaries<O> {
    /// No zones yet. `seed` is for the spreading of checks.
    pub fn new(commits: Arc<Commits>, outgoing: O, seed: u64) -> Self {
        Secondaries {
            commits,
            outgoing,
            schedule: Schedule::default(),
            expiries: BTreeSet::new(),
            zones: HashMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            next_ticket: 0,
            running_max: RUNNING,
            ended: channel(),
            wake: Arc::new(|| ()),
            copies: CopyWriter::default(),
            random: seed | 1,
        }
    }

    /// Has a function called whenever a commit has ended.
    pub fn on_commit(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake = Arc::new(wake);
    }

    /// Sets how many checks and transfers may run at one time.
    pub fn set_running_max(&mut self, limit: usize) {
        self.running_max = limit.max(1);
    }

    /// The way to the primaries.
    pub fn outgoing(&mut self) -> &mut O {
        &mut self.outgoing
    }

    /// Tells whether a zone is here.
    pub fn has(&self, zone: Name<'_>) -> bool {
        self.numbers.contains_key(&key(zone))
    }

    /// Lists the names of the zones, in wire form and lower case.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.numbers.keys().map(|name| &**name)
    }

    /// Gives a zone another policy; with other primaries it is checked at once. False if there is no such zone.
    pub fn set_policy(&mut self, zone: Name<'_>, policy: Arc<ZonePolicy>, now: Moment) -> bool {
        let Some(&number) = self.numbers.get(&key(zone)) else {
            return false;
        };
        let Some(secondary) = self.zones.get_mut(&number) else {
            return false;
        };
        let before = std::mem::replace(&mut secondary.settings.policy, policy);
        if before.primaries != secondary.settings.policy.primaries {
            secondary.next_primary = 0;
            self.schedule
                .hasten(number, ZoneEvent::Refresh, now, EventUrgency::Asked);
        }
        true
    }

    /// Forgets a zone, with all that is kept for it. False if there is no such zone. If another follower of the same rank
    /// has taken it over (`heir`), that one's version is not withdrawn.
    pub fn remove(&mut self, zone: Name<'_>, heir: ZoneHeir) -> bool {
        let Some(number) = self.numbers.remove(&key(zone)) else {
            return false;
        };
        self.schedule.remove(number);
        let Some(secondary) = self.zones.remove(&number) else {
            return false;
        };
        if let Some(expiry) = secondary.expiry {
            self.expiries.remove(&(expiry, number));
        }
        let (name, rank) = (secondary.settings.name, secondary.settings.rank);
        if heir == ZoneHeir::Nobody {
            let withdraw = TableChange::Withdraw(name.as_name().as_wire().into(), rank);
            self.commits.table().publish(&[withdraw]);
        }
        // Behind the commits of the zone that are on their way to the disk.
        self.commits
            .keep(name, vec![StateChange::RemoveZone { zone: name }]);
        tracing::info!(
            "zone {name}: no secondary zone any more: its contents are removed from the state store"
        );
        true
    }

    /// Takes a NOTIFY: the zone is checked at once, unless the serial told is here already. False if there is no such zone.
    pub fn notified(&mut self, zone: &NameBuf, serial: Option<Serial>, now: Moment) -> bool {
        let Some(&number) = self.numbers.get(&key(zone.as_name())) else {
            return false;
        };
        let here = self
            .zones
            .get(&number)
            .filter(|zone| zone.state == ZoneState::Current)
            .and_then(|zone| zone.version.as_ref());
        let is_known = match (serial, here) {
            (Some(told), Some(here)) => !told.is_after(here.serial()),
            _ => false,
        };
        if !is_known {
            self.schedule
                .hasten(number, ZoneEvent::Refresh, now, EventUrgency::Asked);
        }
        true
    }

    /// When [`Secondaries::run`] has something to do, if nothing comes from outside before.
    pub fn next(&self) -> Option<Moment> {
        let event = match self.schedule.running_count() < self.running_max {
            true => self.schedule.next(),
            // The end of one of those that run is told.
            false => None,
        };
        let expiry = self.expiries.first().map(|(at, _)| *at);
        event.into_iter().chain(expiry).min()
    }

    /// How many checks run.
    pub fn running(&self) -> usize {
        self.schedule.running_count()
    }

    /// Does what is due.
    pub fn run(&mut self, now: Moment) {
        self.run_ended(now);
        while let Some((_, number)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expire(number, now);
        }
        while let Some((number, event)) = self.schedule.begin(now, self.running_max) {
            match event {
                ZoneEvent::Refresh => {
                    if let Some(zone) = self.zones.get_mut(&number) {
                        zone.asked = 0;
                    }
                    self.ask_next(number, now);
                }
                _ => self.schedule.finish(number),
            }
        }
    }

    /// Waits until all commits have ended, for simulations and for the end of the server.
    pub fn settle(&mut self, now: Moment) {
        while self.zones.values().any(|zone| zone.commits > 0) {
            match self.ended.1.recv() {
                Ok(ended) => self.take_ended(ended, now),
                Err(_) => return,
            }
        }
    }

    fn run_ended(&mut self, now: Moment) {
        while let Ok(ended) = self.ended.1.try_recv() {
            self.take_ended(ended, now);
        }
    }

    /// Plans when a zone expires, in place of what was planned before.
    fn plan_expiry(&mut self, number: ZoneNumber, at: Option<Moment>) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut zone.expiry, at) {
            self.expiries.remove(&(before, number));
        }
        self.expiries.extend(at.map(|at| (at, number)));
    }

    fn expire(&mut self, number: ZoneNumber, now: Moment) {
        self.plan_expiry(number, None);
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if now.seconds() < zone.timers.expires || zone.state != ZoneState::Current {
            return;
        }
        zone.state = ZoneState::Expired;
        let reason = zone.last_error.as_deref().unwrap_or("none has answered");
        tracing::error!(
            "zone {}: expired: no primary has confirmed it for the time its SOA allows ({reason}); answered SERVFAIL",
            zone.settings.name
        );
        if let Some(zone) = self.zones.get(&number) {
            self.commits.table().publish(&shown(zone));
        }
    }

    /// A length of time up to `most`.
    fn draw(&mut self, most: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Duration::from_millis(self.random % (most.as_millis() as u64).max(1))
    }
}

/// The changes of the table that show a zone as its state says.
fn shown(zone: &Secondary) -> [TableChange; 2] {
    let SecondarySettings { name, rank, .. } = &zone.settings;
    let version = match (zone.state, &zone.version) {
        (ZoneState::Current, Some(version)) => Arc::clone(version),
        _ => {
            let mut stand_in = Zone::not_ready(name.as_name());
            stand_in.set_rank(*rank);
            Arc::new(stand_in)
        }
    };
    // A stand-in does not take the place of a version by itself.
    [
        TableChange::Withdraw(name.as_name().as_wire().into(), *rank),
        TableChange::Offer(version),
    ]
}

fn key(zone: Name<'_>) -> Box<[u8]> {
    zone.as_wire().to_ascii_lowercase().into()
}

/// Sends the end of a commit to the queue.
fn tell(
    ended: &Sender<Ended>,
    wake: &Wake,
    zone: ZoneNumber,
) -> impl FnOnce(Result<crate::CommittedVersion, CommitError>) + Send + 'static {
    let (ended, wake) = (ended.clone(), Arc::clone(wake));
    move |result| {
        let result = result.map(|committed| committed.zone);
        // Nobody listens any more at the end of the server.
        let _ = ended.send(Ended { zone, result });
        wake();
    }
}
