//! The thread that processes the keys of zones when they are due.
//!
//! It sleeps until the next step of any zone, a change of zones or policies, or the answer of a parent. The system
//! clock may be set, so it never sleeps for long, and checks all keys again when that happened. A clock that is set
//! forward makes caches look as if they had followed the last step; so steps pause for an hour, in which a wrong
//! clock is usually corrected.

use super::{ParentAnswer, QueryParent, RolloverError, RolloverManager};
use crate::local::ZoneKeysError;
use nameward_base::sync::Mutex;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_maintain::clock::{SteadyClock, step_text};
use nameward_maintain::schedule::{EventUrgency, Moment, Schedule, ZoneEvent, ZoneNumber};
use nameward_sql::write::KeyRefusal;
use nameward_wire::NameBuf;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum sleep: a clock that was set is noticed after it.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How long steps pause after the clock was set forward.
const REST: Duration = Duration::from_secs(3600);
/// Retry interval for a zone whose keys could not be read or written.
const RETRY: Duration = Duration::from_secs(60);

/// Interval at which new zones are searched that were not announced.
const NEW_ZONES_INTERVAL: Duration = Duration::from_secs(60);

/// Interval at which signed zones are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// Wakes the thread; clones share it.
#[derive(Clone, Default)]
pub struct KeyDriverHandle {
    shared: Arc<DriverShared>,
}

#[derive(Default)]
struct DriverShared {
    mailbox: Mailbox<DriverWakes>,
    waiting: AtomicU64,
    /// Number of signed zones, and the earliest expiration of their signatures.
    signed: Mutex<(u64, Option<u64>)>,
    clock: SteadyClock,
}

/// The signed zones in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedSummary {
    /// Number of zones.
    pub zones: u64,
    /// Seconds until the first of their signatures expires; 0 if there are none.
    pub seconds_left: u64,
}

/// The zones that the thread must check, and received answers.
#[derive(Default)]
struct DriverWakes {
    is_all: bool,
    zones: HashSet<NameBuf>,
    changed: HashSet<NameBuf>,
    answers: Vec<ParentAnswer>,
}

impl KeyDriverHandle {
    /// Requests a check of all zones.
    pub fn request_all(&self) {
        self.shared.mailbox.put(|wakes| wakes.is_all = true);
    }

    /// Requests a check of a zone: it was loaded, or an operator changed something.
    pub fn request(&self, zone: NameBuf) {
        self.shared.mailbox.put(|wakes| {
            wakes.zones.insert(zone);
        });
    }

    /// Requests a check of a zone whose keys an operator changed, and notifies its secondaries.
    pub fn keys_changed(&self, zone: NameBuf) {
        self.shared.mailbox.put(|wakes| {
            wakes.zones.insert(zone);
            wakes.changed.insert(zone);
        });
    }

    /// Passes on the answer of a parent.
    pub fn answered(&self, answer: ParentAnswer) {
        self.shared.mailbox.put(|wakes| wakes.answers.push(answer));
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.shared.mailbox.stop();
    }

    /// Returns how many zones are signed, and how long their signatures last.
    pub fn signed(&self) -> SignedSummary {
        let summary = self.shared.signed.lock();
        let (zones, ends) = *summary;
        SignedSummary {
            zones,
            seconds_left: ends.map_or(0, |ends| {
                ends.saturating_sub(self.shared.clock.now().seconds())
            }),
        }
    }

    /// Returns how many zones wait for the parent to publish a DS, or to remove one.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }
}

/// Starts the thread. `changed` is called for each zone that is served differently than before.
pub fn start(
    keeper: Arc<RolloverManager>,
    handle: &KeyDriverHandle,
    parent: Box<dyn QueryParent>,
    changed: impl Fn(NameBuf) + Send + 'static,
) -> io::Result<()> {
    let driver = KeyDriver {
        keeper,
        handle: handle.clone(),
        parent,
        changed: Box::new(changed),
        schedule: Schedule::default(),
        numbers: HashMap::new(),
        names: Vec::new(),
        waiting: HashSet::new(),
        counted_at: None,
        new_zones_checked_at: None,
        logged: HashMap::new(),
        rests_until: None,
    };
    worker::start("rollover", move || driver.run()).map(drop)
}

/// The thread's work, in the message about a bug.
const WORK: &str = "rolling keys";

struct KeyDriver {
    keeper: Arc<RolloverManager>,
    handle: KeyDriverHandle,
    parent: Box<dyn QueryParent>,
    changed: Box<dyn Fn(NameBuf) + Send>,
    schedule: Schedule,
    numbers: HashMap<NameBuf, ZoneNumber>,
    names: Vec<NameBuf>,
    /// Zones that wait for their parent.
    waiting: HashSet<ZoneNumber>,
    counted_at: Option<Moment>,
    /// When unannounced new zones were last searched.
    new_zones_checked_at: Option<Moment>,
    /// The last error of each zone, which is logged once.
    logged: HashMap<ZoneNumber, RolloverError>,
    /// Until when no step is taken because the clock was set forward.
    rests_until: Option<Moment>,
}

impl KeyDriver {
    fn run(mut self) {
        loop {
            self.follow_clock();
            let now = self.now();
            let next = self.schedule.next();
            let wait = next.map_or(SLEEP_MAX, |at| {
                Duration::from_millis(at.0.saturating_sub(now.0)).min(SLEEP_MAX)
            });
            let Some(wakes) = self.handle.shared.mailbox.wait(Some(wait)) else {
                return;
            };
            panic_guard(WORK, || {
                self.take(wakes);
                self.work();
            });
            let is_due = |since: Option<Moment>, interval| {
                since.is_none_or(|since| now >= since.plus(interval))
            };
            if is_due(self.new_zones_checked_at, NEW_ZONES_INTERVAL) {
                self.new_zones_checked_at = Some(now);
                panic_guard(WORK, || self.check_new_zones());
            }
            let waiting = self.waiting.len() as u64;
            let shared = Arc::clone(&self.handle.shared);
            shared.waiting.store(waiting, Ordering::Relaxed);
            if is_due(self.counted_at, COUNT_INTERVAL) {
                self.counted_at = Some(now);
                panic_guard(WORK, || {
                    let summary = self.keeper.count_signed(now.seconds());
                    *shared.signed.lock() = summary;
                });
            }
        }
    }

    fn now(&self) -> Moment {
        self.handle.shared.clock.now()
    }

    /// Checks all keys again after the clock was set.
    fn follow_clock(&mut self) {
        let Some(step) = self.handle.shared.clock.step() else {
            return;
        };
        self.schedule.shift(step);
        (self.new_zones_checked_at, self.counted_at) = (None, None);
        if self.names.is_empty() {
            return;
        }
        let now = self.now();
        self.rests_until = (step > 0).then(|| now.plus(REST));
        let rest = if step > 0 {
            "; rollovers are paused for one hour in case the clock is wrong"
        } else {
            ""
        };
        tracing::warn!(
            "system clock stepped {}: checking the keys of all signed zones{rest}; check the time synchronization of \
             this host",
            step_text(step)
        );
        for zone in self.names.clone() {
            self.plan(zone, ZoneEvent::RollKeys, now);
        }
    }

    fn take(&mut self, wakes: DriverWakes) {
        let now = self.now();
        wakes.changed.iter().for_each(|zone| (self.changed)(*zone));
        for answer in &wakes.answers {
            if self.keeper.take_answer(answer, now.seconds()) {
                self.plan(answer.zone, ZoneEvent::RollKeys, now);
            }
        }
        let all = wakes.is_all.then(|| self.keeper.all_zones());
        for zone in all.into_iter().flatten().chain(wakes.zones) {
            self.plan(zone, ZoneEvent::RollKeys, now);
        }
    }

    /// Checks zones that were not announced, such as database zones that were never queried.
    fn check_new_zones(&mut self) {
        if !self.keeper.has_policies() {
            return;
        }
        for zone in self.keeper.managed_zones() {
            if !self.numbers.contains_key(&zone) {
                self.plan(zone, ZoneEvent::RollKeys, self.now());
            }
        }
    }

    fn plan(&mut self, zone: NameBuf, event: ZoneEvent, at: Moment) {
        let fresh = self.names.len() as ZoneNumber;
        let number = *self.numbers.entry(zone).or_insert(fresh);
        if number == fresh {
            self.names.push(zone);
        }
        let lane = (EventUrgency::Timed, None);
        self.schedule.plan(number, event, at, lane);
    }

    /// Does everything that is due.
    fn work(&mut self) {
        while let Some(started) = self.schedule.begin(self.now()) {
            let (number, event) = (started.zone, started.event);
            self.schedule.finish(number);
            let Some(zone) = self.names.get(number as usize).copied() else {
                continue;
            };
            match event {
                ZoneEvent::QueryParent => self.ask_parent(number, zone),
                _ => self.process(number, zone),
            }
        }
    }

    fn process(&mut self, number: ZoneNumber, zone: NameBuf) {
        let now = self.now();
        self.rests_until.take_if(|until| *until <= now);
        if let Some(until) = self.rests_until {
            return self.plan(zone, ZoneEvent::RollKeys, until);
        }
        match self.keeper.take_due_steps(zone.as_name(), now.seconds()) {
            Ok(progress) => {
                self.logged.remove(&number);
                if progress.is_visible {
                    (self.changed)(zone);
                }
                let due = progress.next_at.into_iter().chain(progress.reread_at);
                if let Some(at) = due.min() {
                    // The rollover counts whole seconds, so it runs again when one has passed.
                    let at = at.max(now.seconds() + 1);
                    self.plan(zone, ZoneEvent::RollKeys, Moment::from_seconds(at));
                }
                let is_awaited = progress.keys.iter().any(|key| key.awaited_ds().is_some());
                match is_awaited {
                    true if self.waiting.insert(number) => {
                        self.plan(zone, ZoneEvent::QueryParent, now);
                    }
                    true => {}
                    false => {
                        self.waiting.remove(&number);
                        self.schedule.cancel(number, ZoneEvent::QueryParent);
                    }
                }
            }
            Err(error) => {
                // A zone that has a policy and is not loaded may appear from a database without notice.
                let is_tried_again = match &error {
                    RolloverError::Keys(_) => true,
                    RolloverError::NotLoaded => self.keeper.policy_name(zone.as_name()).is_some(),
                    _ => false,
                };
                if is_tried_again {
                    self.plan(zone, ZoneEvent::RollKeys, now.plus(RETRY));
                }
                self.log_error(number, zone, error);
            }
        }
    }

    /// Logs why nothing is done for a zone, once.
    fn log_error(&mut self, number: ZoneNumber, zone: NameBuf, error: RolloverError) {
        // A zone that is not loaded is checked when it is; one without a policy is not managed.
        if matches!(error, RolloverError::NotLoaded | RolloverError::NoPolicy) {
            return;
        }
        if let RolloverError::Keys(ZoneKeysError::Refused(KeyRefusal::OtherServer)) = error {
            return tracing::debug!("zone {zone}: {error}");
        }
        if self.logged.get(&number) != Some(&error) {
            tracing::warn!("zone {zone}: key management disabled: {error}");
            self.logged.insert(number, error);
        }
    }

    fn ask_parent(&mut self, number: ZoneNumber, zone: NameBuf) {
        let Some((question, interval)) = self.keeper.parent_question(zone.as_name()) else {
            self.waiting.remove(&number);
            return;
        };
        self.parent.ask(question);
        let again = self.now().plus(Duration::from_secs(interval.max(1)));
        self.plan(zone, ZoneEvent::QueryParent, again);
    }
}
