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
//! [`Secondaries::run`] empties. So the whole life of a zone runs in a simulation.

mod ask;
mod secondary;

use crate::commit::{CommitError, Commits};
use crate::contents::read_contents;
use crate::schedule::{EventUrgency, Moment, Schedule, ZoneEvent, ZoneNumber};
use crate::zone::{SecondarySettings, SoaTimes, ZoneState};
use nameward_store::state::{StateChange, StateError, ZoneTimers};
use nameward_wire::NameBuf;
use nameward_zone::change::Difference;
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use secondary::{Ended, Secondary, source_of};

pub use ask::{Ask, AskPrimary, AskTicket, PrimaryAnswer, PrimaryError, SecondaryStatus};

/// Checks and transfers that run at one time.
const RUNNING: usize = 100;
/// The longest time over which the first checks after a start are spread.
const SPREAD: Duration = Duration::from_secs(300);
/// How often the retry time is doubled for a zone that was never transferred.
const DOUBLED: u32 = 5;

/// All zones that come from primaries.
pub struct Secondaries<O> {
    commits: Arc<Commits>,
    outgoing: O,
    schedule: Schedule,
    zones: HashMap<ZoneNumber, Secondary>,
    numbers: HashMap<Box<[u8]>, ZoneNumber>,
    next_number: ZoneNumber,
    next_ticket: u64,
    ended: (Sender<Ended>, Receiver<Ended>),
    random: u64,
}

impl<O: AskPrimary> Secondaries<O> {
    /// No zones yet. `seed` is for the spreading of checks.
    pub fn new(commits: Arc<Commits>, outgoing: O, seed: u64) -> Self {
        Secondaries {
            commits,
            outgoing,
            schedule: Schedule::default(),
            zones: HashMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            next_ticket: 0,
            ended: channel(),
            random: seed | 1,
        }
    }

    /// The way to the primaries.
    pub fn outgoing(&mut self) -> &mut O {
        &mut self.outgoing
    }

    /// Takes a zone over, with the contents and times that are kept of it: it is served at once, without asking anybody.
    pub fn add(
        &mut self,
        settings: SecondarySettings,
        timers: Option<ZoneTimers>,
        now: Moment,
    ) -> Result<(), StateError> {
        let version = match self.commits.store() {
            Some(store) => read_contents(store, &settings.name)?,
            None => None,
        };
        let timers = timers.unwrap_or_default();
        let number = self.next_number;
        self.next_number += 1;
        let name = settings.name;
        self.numbers.insert(key(&name), number);
        let version = version.map(|mut zone| {
            zone.set_rank(settings.rank);
            Arc::new(zone)
        });
        let is_good = version.is_some() && now.seconds() < timers.expires;
        let zone = Secondary {
            state: match (&version, is_good) {
                (None, _) => ZoneState::Empty,
                (_, true) => ZoneState::Current,
                (_, false) => ZoneState::Expired,
            },
            settings,
            version,
            timers,
            ticket: None,
            next_primary: 0,
            asked: 0,
            failures: 0,
            last_error: None,
            commits: 0,
            commit_error: None,
        };
        self.show(&zone);
        let spread = self.draw(SPREAD);
        let check = match is_good {
            // Not all at once; but not later than it would have been either, if that is later.
            true => Moment::from_seconds(timers.next_check).max(now.plus(spread)),
            false => now,
        };
        self.zones.insert(number, zone);
        self.schedule
            .plan(number, ZoneEvent::Refresh, check, EventUrgency::Timed);
        if is_good {
            let expires = Moment::from_seconds(timers.expires);
            self.schedule
                .plan(number, ZoneEvent::Expire, expires, EventUrgency::Timed);
        }
        Ok(())
    }

    /// Takes a NOTIFY: the zone is checked at once, unless the serial told is here already. False if there is no such zone.
    pub fn notified(&mut self, zone: &NameBuf, serial: Option<Serial>, now: Moment) -> bool {
        let Some(&number) = self.numbers.get(&key(zone)) else {
            return false;
        };
        let here = self
            .zones
            .get(&number)
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

    /// Returns the status of a zone.
    pub fn status(&self, zone: &NameBuf) -> Option<SecondaryStatus> {
        let zone = self.zones.get(self.numbers.get(&key(zone))?)?;
        Some(SecondaryStatus {
            state: zone.state,
            serial: zone.version.as_ref().map(|version| version.serial()),
            timers: zone.timers,
            last_error: zone.last_error.clone(),
        })
    }

    /// When [`Secondaries::run`] has something to do, if nothing comes from outside before.
    pub fn next(&self) -> Option<Moment> {
        self.schedule.next()
    }

    /// How many checks run.
    pub fn running(&self) -> usize {
        self.schedule.running_count()
    }

    /// Does what is due.
    pub fn run(&mut self, now: Moment) {
        while let Ok(ended) = self.ended.1.try_recv() {
            self.take_ended(ended, now);
        }
        while let Some((number, event)) = self.schedule.begin(now, RUNNING) {
            match event {
                ZoneEvent::Refresh => {
                    if let Some(zone) = self.zones.get_mut(&number) {
                        zone.asked = 0;
                    }
                    self.ask_next(number, now);
                }
                ZoneEvent::Expire => self.expire(number, now),
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

    /// Asks the next primary of a zone, or gives this check up when all were asked.
    fn ask_next(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let primaries = zone.settings.primaries.len();
        if zone.asked >= primaries {
            return self.give_up(number, now);
        }
        let primary = zone.settings.primaries[zone.next_primary % primaries];
        zone.asked += 1;
        zone.ticket = Some(self.next_ticket);
        let ask = Ask {
            ticket: AskTicket {
                zone: number,
                number: self.next_ticket,
            },
            zone: zone.settings.name,
            primary,
            have: zone.version.as_ref().map(|version| version.serial()),
        };
        self.next_ticket += 1;
        self.outgoing.ask(ask);
    }

    /// Takes the answer to a question.
    pub fn answered(
        &mut self,
        ticket: AskTicket,
        answer: Result<PrimaryAnswer, PrimaryError>,
        now: Moment,
    ) {
        let Some(zone) = self.zones.get_mut(&ticket.zone) else {
            return;
        };
        if zone.ticket != Some(ticket.number) {
            return;
        }
        zone.ticket = None;
        let have = zone.version.as_ref().map(|version| version.serial());
        match answer {
            Ok(PrimaryAnswer::Same(serial)) => match have {
                Some(here) if here == serial => self.confirm(ticket.zone, now),
                // A primary that is behind us confirms nothing: another may be ahead.
                _ => self.fail(ticket.zone, format!("the primary has serial {serial}"), now),
            },
            Ok(PrimaryAnswer::Differences(differences)) => {
                self.commit_differences(ticket.zone, differences, now);
            }
            Ok(PrimaryAnswer::Whole(version)) => self.commit_whole(ticket.zone, *version, now),
            Err(error) => self.fail(ticket.zone, error.to_string(), now),
        }
    }

    fn fail(&mut self, number: ZoneNumber, error: String, now: Moment) {
        if let Some(zone) = self.zones.get_mut(&number) {
            zone.last_error = Some(error);
            zone.next_primary += 1;
        }
        self.ask_next(number, now);
    }

    /// All primaries were asked in vain: again after the retry time.
    fn give_up(&mut self, number: ZoneNumber, now: Moment) {
        let early = self.draw(Duration::from_millis(1 << 20));
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        zone.failures = zone.failures.saturating_add(1);
        let wait = match &zone.version {
            Some(version) => SoaTimes::of(version).retry,
            // Nothing says how often: not too often, and less so in time.
            None => Duration::from_secs(5) * (1 << zone.failures.min(DOUBLED)),
        };
        let early = early.min(wait / 8);
        let error = zone.last_error.as_deref().unwrap_or("there is no primary");
        tracing::warn!("zone {}: refresh failed: {error}", zone.settings.name);
        self.schedule.finish(number);
        self.schedule.hasten(
            number,
            ZoneEvent::Refresh,
            now.plus(wait - early),
            EventUrgency::Timed,
        );
    }

    /// A primary has the version that is here.
    fn confirm(&mut self, number: ZoneNumber, now: Moment) {
        let jitter = self.draw(Duration::from_millis(1 << 20));
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let Some(version) = &zone.version else {
            return self.fail(number, "there is no version to confirm".into(), now);
        };
        let times = SoaTimes::of(version);
        zone.timers = times.confirmed(now, jitter.min(times.refresh / 8));
        (zone.failures, zone.last_error) = (0, None);
        let was = std::mem::replace(&mut zone.state, ZoneState::Current);
        let (name, timers) = (zone.settings.name, zone.timers);
        if was != ZoneState::Current {
            tracing::info!("zone {name}: serial {} is confirmed", version.serial());
        }
        self.commits
            .keep(name, vec![StateChange::SetTimers { zone: name, timers }]);
        if was == ZoneState::Expired
            && let Some(zone) = self.zones.get(&number)
        {
            self.show(zone);
        }
        self.schedule.finish(number);
        let check =
            Moment::from_seconds(timers.next_check).max(now.plus(Duration::from_millis(500)));
        self.schedule
            .hasten(number, ZoneEvent::Refresh, check, EventUrgency::Timed);
        let expires = Moment::from_seconds(timers.expires);
        self.schedule
            .plan(number, ZoneEvent::Expire, expires, EventUrgency::Timed);
    }

    fn commit_differences(
        &mut self,
        number: ZoneNumber,
        differences: Vec<Difference>,
        now: Moment,
    ) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let forward = |d: &Difference| d.serials().is_some_and(|(from, to)| to.is_after(from));
        if differences.is_empty() || !differences.iter().all(forward) {
            return self.fail(
                number,
                "the differences do not lead to a newer serial".into(),
                now,
            );
        }
        if zone.state != ZoneState::Current {
            // Not in the table: the new version is made here and committed as a whole.
            let mut version = zone.version.clone();
            for difference in &differences {
                version = version
                    .and_then(|version| version.apply(difference).ok())
                    .map(Arc::new);
            }
            return match version.and_then(|version| version.pack()) {
                Some(version) => self.commit_whole(number, version, now),
                None => self.fail(number, "the differences do not fit".into(), now),
            };
        }
        let source = source_of(zone, now);
        zone.commits += differences.len();
        zone.commit_error = None;
        for difference in differences {
            let done = tell(&self.ended.0, number);
            self.commits.difference(source, difference, done);
        }
        self.run_ended(now);
    }

    fn commit_whole(&mut self, number: ZoneNumber, version: Zone, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let here = zone.version.as_ref().map(|version| version.serial());
        let (serial, name) = (version.serial(), zone.settings.name);
        if version.apex_name() != name.as_name() {
            return self.fail(
                number,
                format!("it is the zone {}", version.apex_name()),
                now,
            );
        }
        if here.is_some_and(|here| !serial.is_after(here)) {
            return self.fail(number, format!("its serial {serial} is not newer"), now);
        }
        zone.commits += 1;
        zone.commit_error = None;
        let done = tell(&self.ended.0, number);
        self.commits.version(source_of(zone, now), version, done);
        self.run_ended(now);
    }

    fn run_ended(&mut self, now: Moment) {
        while let Ok(ended) = self.ended.1.try_recv() {
            self.take_ended(ended, now);
        }
    }

    /// A commit has ended. The check ends with its last one.
    fn take_ended(&mut self, ended: Ended, now: Moment) {
        let Some(zone) = self.zones.get_mut(&ended.zone) else {
            return;
        };
        zone.commits -= 1;
        match ended.result {
            Ok(version) => {
                let serial = version.serial();
                tracing::info!("zone {}: transferred, serial {serial}", zone.settings.name);
                zone.version = Some(version);
            }
            Err(error) => zone.commit_error = Some(error.to_string()),
        }
        if zone.commits > 0 {
            return;
        }
        match zone.commit_error.take() {
            Some(error) => self.fail(ended.zone, error, now),
            None => self.confirm(ended.zone, now),
        }
    }

    fn expire(&mut self, number: ZoneNumber, now: Moment) {
        self.schedule.finish(number);
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if now.seconds() < zone.timers.expires || zone.state != ZoneState::Current {
            return;
        }
        zone.state = ZoneState::Expired;
        tracing::error!(
            "zone {}: expired: no primary has confirmed it",
            zone.settings.name
        );
        if let Some(zone) = self.zones.get(&number) {
            self.show(zone);
        }
    }

    /// Puts a zone into the table as its state says.
    fn show(&self, zone: &Secondary) {
        let (name, rank) = (&zone.settings.name, zone.settings.rank);
        let version = match (zone.state, &zone.version) {
            (ZoneState::Current, Some(version)) => Arc::clone(version),
            _ => {
                let mut stand_in = Zone::not_ready(name.as_name());
                stand_in.set_rank(rank);
                Arc::new(stand_in)
            }
        };
        // A stand-in does not take the place of a version by itself.
        let name = name.as_name().as_wire().into();
        let changes = [
            TableChange::Withdraw(name, rank),
            TableChange::Offer(version),
        ];
        self.commits.table().publish(&changes);
    }

    /// A length of time up to `most`.
    fn draw(&mut self, most: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Duration::from_millis(self.random % (most.as_millis() as u64).max(1))
    }
}

fn key(zone: &NameBuf) -> Box<[u8]> {
    zone.as_name().as_wire().to_ascii_lowercase().into()
}

/// Sends the end of a commit to the queue.
fn tell(
    ended: &Sender<Ended>,
    zone: ZoneNumber,
) -> impl FnOnce(Result<crate::CommittedVersion, CommitError>) + Send + 'static {
    let ended = ended.clone();
    move |result| {
        let result = result.map(|committed| committed.zone);
        // Nobody listens any more at the end of the server.
        let _ = ended.send(Ended { zone, result });
    }
}
