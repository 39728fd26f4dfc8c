//! Zones that are taken over when the server starts or its policies change: served from the state store before anybody is
//! asked.

use super::ask::AskPrimary;
use super::secondary::Secondary;
use super::{SPREAD, Secondaries, key, shown};
use crate::contents::{ContentsReader, read_contents};
use crate::schedule::{EventUrgency, Moment, ZoneEvent};
use crate::zone::{SecondarySettings, ZoneState};
use nameward_store::state::{
    JournalEntry, KeptZone, StateError, StateStore, TakeStoredZones, ZoneTimers,
};
use nameward_zone::{RecordList, TableChange, Zone};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Zones up to which each is looked for by its name; more are found in one pass over the whole store.
const BY_NAME: usize = 64;
/// Zones that become visible together.
const TOGETHER: usize = 1000;
/// The time that each zone adds to that over which the first checks are spread.
const SPREAD_EACH: Duration = Duration::from_millis(20);

impl<O: AskPrimary> Secondaries<O> {
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
        let taken = TakenOver {
            settings,
            version,
            timers,
        };
        let change = self.take_over(taken, SPREAD, now);
        self.commits.table().publish(&[change]);
        Ok(())
    }

    /// Takes many zones over, as [`Secondaries::add`] does. One that cannot be read back is told of in the log and begins
    /// empty.
    pub fn add_all(&mut self, list: Vec<SecondarySettings>, now: Moment) {
        let commits = Arc::clone(&self.commits);
        let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let spread = SPREAD_EACH.saturating_mul(count).min(SPREAD);
        let names: Vec<_> = list.iter().map(|settings| settings.name).collect();
        let keyed = |settings: SecondarySettings| (key(settings.name.as_name()), settings);
        let wanted: HashMap<Box<[u8]>, SecondarySettings> = list.into_iter().map(keyed).collect();
        let mut loading = Loading {
            secondaries: self,
            wanted,
            reader: None,
            changes: Vec::new(),
            spread,
            now,
        };
        if let Some(store) = commits.store() {
            let read = match names.len() <= BY_NAME {
                true => names
                    .iter()
                    .try_for_each(|name| store.zone_at_home(name, &mut loading)),
                false => store.zones_at_home(&mut loading),
            };
            if let Err(error) = read {
                tracing::error!("secondary zones not read from the state store: {error}");
            }
        }
        loading.finish();
    }

    /// Takes one zone over; returns the change that makes it visible.
    fn take_over(&mut self, taken: TakenOver, spread: Duration, now: Moment) -> TableChange {
        let number = self.next_number;
        self.next_number += 1;
        let TakenOver {
            settings,
            version,
            timers,
        } = taken;
        self.numbers.insert(key(settings.name.as_name()), number);
        let version = version.map(|mut zone| {
            zone.set_rank(settings.rank);
            Arc::new(zone)
        });
        let zone = Secondary::new(settings, version, timers, now);
        let [_, offer] = shown(&zone);
        let is_good = zone.state == ZoneState::Current;
        let check = match is_good {
            // A NOTIFY may have been missed while the server was down; but not all zones at once.
            true => now.plus(self.draw(spread)),
            false => now,
        };
        self.schedule
            .plan(number, ZoneEvent::Refresh, check, EventUrgency::Timed);
        let expires = is_good.then(|| Moment::from_seconds(zone.timers.expires));
        self.zones.insert(number, zone);
        self.plan_expiry(number, expires);
        offer
    }
}

/// A zone to be taken over.
struct TakenOver {
    settings: SecondarySettings,
    version: Option<Zone>,
    timers: Option<ZoneTimers>,
}

/// Zones that are being read back.
struct Loading<'l, O> {
    secondaries: &'l mut Secondaries<O>,
    wanted: HashMap<Box<[u8]>, SecondarySettings>,
    reader: Option<ContentsReader>,
    changes: Vec<TableChange>,
    spread: Duration,
    now: Moment,
}

impl<O: AskPrimary> Loading<'_, O> {
    fn take(&mut self, taken: TakenOver) {
        let change = self.secondaries.take_over(taken, self.spread, self.now);
        self.changes.push(change);
        if self.changes.len() >= TOGETHER {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        self.secondaries.commits.table().publish(&changes);
    }

    /// Takes the zones over that nothing is kept of.
    fn finish(mut self) {
        for settings in std::mem::take(&mut self.wanted).into_values() {
            self.take(TakenOver {
                settings,
                version: None,
                timers: None,
            });
        }
        self.publish();
    }
}

impl<O: AskPrimary> TakeStoredZones for Loading<'_, O> {
    fn begin(&mut self, zone: &KeptZone) -> bool {
        let is_wanted = self.wanted.contains_key(&key(zone.name.as_name()));
        self.reader = is_wanted.then(|| ContentsReader::new(&zone.name));
        is_wanted
    }

    fn records(&mut self, records: &RecordList) {
        if let Some(reader) = &mut self.reader {
            reader.push(records);
        }
    }

    fn end(
        &mut self,
        store: &StateStore,
        zone: &KeptZone,
        journal: Result<Vec<JournalEntry>, StateError>,
    ) {
        let reader = self.reader.take();
        let settings = self.wanted.remove(&key(zone.name.as_name()));
        let (Some(reader), Some(settings)) = (reader, settings) else {
            return;
        };
        let version = match journal.and_then(|journal| reader.finish(store, journal)) {
            Ok(version) => version,
            Err(error) => {
                tracing::error!("zone {}: {error}; it is transferred anew", zone.name);
                None
            }
        };
        self.take(TakenOver {
            settings,
            version,
            timers: zone.timers,
        });
    }
}
