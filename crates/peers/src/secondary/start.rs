//! Zones taken over when the server starts or its policies change: served from the state store before any primary is
//! queried.

mod read_back;

use super::query::QueryPrimary;
use super::state_storage::shown;
use super::storage::{HeldVersion, SecondaryStorage, StorageError, StorageStates};
use super::zone_state::Secondary;
use super::zone_state::StorageReport;
use super::{SPREAD, Secondaries};
use crate::secondary::zone::{SecondarySettings, ZoneState};
use nameward_base::text::counted;
use nameward_maintain::policy::PolicySource;
use nameward_maintain::read_contents;
use nameward_maintain::schedule::{EventUrgency, Moment, ZoneNumber};
use nameward_maintain::table::lower_case;
use nameward_state::{StateError, ZoneTimers};
use nameward_wire::NameBuf;
use nameward_zone::{TableChange, Zone};
use read_back::read_back;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of zones up to which each is looked up by name; more are found in one pass over the whole store.
pub(super) const BY_NAME: usize = 1000;
/// Minimum number of zones that are published together. Each publication copies the table, so later on it is this
/// fraction of the zones already published: the copies then cost a few times the table, and not a hundred times.
const TOGETHER: usize = 1000;
const TOGETHER_SHARE: usize = 4;
/// The time that each zone adds to the spread of the first checks.
const SPREAD_EACH: Duration = Duration::from_millis(20);

impl<O: QueryPrimary> Secondaries<O> {
    /// Takes over a zone, with its stored contents and timers: it is served at once, without querying a primary.
    pub fn add(
        &mut self,
        settings: SecondarySettings,
        timers: Option<ZoneTimers>,
        now: Moment,
    ) -> Result<(), StateError> {
        let commits = Arc::clone(&self.store.commits);
        let version = match commits.store() {
            Some(store) => read_contents(store, &settings.name.to_buf())?,
            None => None,
        };
        let taken = LoadedSecondary {
            settings,
            held: held(version),
            timers,
        };
        let change = self.take_over(taken, SPREAD, now);
        commits.table().publish(&[change]);
        Ok(())
    }

    /// Takes over many zones like [`Secondaries::add`]. One that cannot be read is logged and starts empty. Database
    /// zones are taken over when their databases have answered.
    pub fn add_all(&mut self, list: Vec<SecondarySettings>, now: Moment) {
        let commits = Arc::clone(&self.store.commits);
        let mut in_databases: HashMap<u16, Vec<SecondarySettings>> = HashMap::new();
        let mut in_store = Vec::new();
        for settings in list {
            match settings.policy.declared_by {
                PolicySource::Backend(rank) => in_databases.entry(rank).or_default().push(settings),
                _ => in_store.push(settings),
            }
        }
        for (rank, list) in in_databases {
            self.list_stored(rank, list);
        }
        let list = in_store;
        if list.is_empty() {
            return;
        }
        let spread = spread_of(list.len());
        let few = (list.len() <= BY_NAME).then(|| {
            list.iter()
                .map(|zone| zone.name.to_buf())
                .collect::<Vec<_>>()
        });
        self.numbers.reserve(list.len());
        self.zones.reserve(list.len());
        let requested = list.into_iter().map(|zone| (zone.name.clone(), zone));
        let requested = requested.collect();
        let mut taking = SecondaryLoader {
            secondaries: self,
            changes: Vec::new(),
            visible: 0,
            spread,
            now,
        };
        let left = match commits.store() {
            Some(store) => read_back(store, requested, few, &mut |taken| taking.take(taken)),
            None => requested,
        };
        // There is no stored state for these.
        for settings in left.into_values() {
            taking.take(LoadedSecondary {
                settings,
                held: None,
                timers: None,
            });
        }
        taking.publish();
    }

    /// Reads zones from their storage, before they are taken over.
    fn list_stored(&mut self, rank: u16, list: Vec<SecondarySettings>) {
        let Some(storage) = self.databases.get(&rank).map(Arc::clone) else {
            return;
        };
        let names: Vec<_> = list.iter().map(|zone| zone.name.to_buf()).collect();
        let keyed = |settings: SecondarySettings| (settings.name.clone(), settings);
        self.listing.extend(list.into_iter().map(keyed));
        let requested = names.clone();
        let done = self.report(move |listed| StorageReport::Listed(names, listed));
        storage.read_states(requested, done);
    }

    /// Takes over zones whose storage was read. If that failed they are read again, each when it is checked.
    pub(super) fn take_listed(
        &mut self,
        names: &[NameBuf],
        listed: Result<StorageStates, StorageError>,
        now: Moment,
    ) {
        let spread = spread_of(names.len());
        let mut states: HashMap<Box<[u8]>, _> = match listed {
            Ok(states) => {
                let keyed = states.into_iter();
                keyed
                    .map(|(name, state)| (lower_case(name.as_name()), Some(state)))
                    .collect()
            }
            Err(error) => {
                let zones = counted(names.len(), "secondary zone");
                tracing::warn!("{zones} not refreshed: {error}");
                let all = names.iter().map(|name| (lower_case(name.as_name()), None));
                all.collect()
            }
        };
        for name in names {
            let key = lower_case(name.as_name());
            // A policy change reports zones that were removed in the meantime.
            let (Some(settings), Some(state)) = (self.listing.remove(&*key), states.remove(&key))
            else {
                continue;
            };
            let PolicySource::Backend(rank) = settings.policy.declared_by else {
                continue;
            };
            let Some(storage) = self.databases.get(&rank).map(Arc::clone) else {
                continue;
            };
            let (held, refreshed) =
                state.map_or((None, None), |state| (state.held, state.refreshed));
            let timers = held.as_ref().map(|held| {
                let confirmed = refreshed.map_or(now, Moment::from_seconds).min(now);
                held.times.confirmed(confirmed, Duration::ZERO)
            });
            let taken = LoadedSecondary {
                settings,
                held,
                timers,
            };
            let number = self.take_in(taken, storage, spread, now);
            if let Some(zone) = self.zones.get(&number)
                && zone.state == ZoneState::Expired
            {
                zone.storage.show(&zone.in_storage());
            }
        }
    }

    /// Takes over one zone from the state store; returns the table change that publishes it.
    fn take_over(
        &mut self,
        mut taken: LoadedSecondary,
        spread: Duration,
        now: Moment,
    ) -> TableChange {
        let (name, rank) = (taken.settings.name.clone(), taken.settings.rank);
        if let Some(held) = &mut taken.held
            && let Some(contents) = held.contents.as_mut().and_then(Arc::get_mut)
        {
            contents.set_rank(rank);
        }
        let storage = Arc::clone(&self.store) as Arc<dyn SecondaryStorage>;
        let number = self.take_in(taken, storage, spread, now);
        let offer = self
            .zones
            .get(&number)
            .map(|zone| shown(&zone.in_storage()));
        match offer {
            Some([_, offer]) => offer,
            None => TableChange::Withdraw(name.as_name().as_wire().into(), rank),
        }
    }

    /// Registers a zone and schedules its first check.
    fn take_in(
        &mut self,
        taken: LoadedSecondary,
        storage: Arc<dyn SecondaryStorage>,
        spread: Duration,
        now: Moment,
    ) -> ZoneNumber {
        let number = self.next_number;
        self.next_number += 1;
        let LoadedSecondary {
            settings,
            held,
            timers,
        } = taken;
        self.numbers.insert(settings.name.clone(), number);
        let zone = Secondary::new(settings, storage, held, timers, now);
        let is_good = zone.state == ZoneState::Current;
        let check = if is_good {
            // A NOTIFY may have been missed while the server was down; but do not check all zones at once.
            now.plus(self.draw(spread))
        } else {
            now
        };
        let expires = is_good.then(|| Moment::from_seconds(zone.timers.expires));
        self.zones.insert(number, Box::new(zone));
        self.plan_check(number, check, EventUrgency::Timed);
        self.plan_expiry(number, expires);
        number
    }
}

/// Returns the time over which the first checks of this many zones are spread.
pub(super) fn spread_of(zones: usize) -> Duration {
    let zones = u32::try_from(zones).unwrap_or(u32::MAX);
    SPREAD_EACH.saturating_mul(zones).min(SPREAD)
}

/// A zone to be taken over.
struct LoadedSecondary {
    settings: SecondarySettings,
    held: Option<HeldVersion>,
    timers: Option<ZoneTimers>,
}

/// Returns the version that was read.
fn held(zone: Option<Zone>) -> Option<HeldVersion> {
    zone.map(|zone| Arc::new(zone).into())
}

/// Takes over zones one after the other and publishes them in groups.
struct SecondaryLoader<'l, O> {
    secondaries: &'l mut Secondaries<O>,
    changes: Vec<TableChange>,
    /// Number of zones already published.
    visible: usize,
    spread: Duration,
    now: Moment,
}

impl<O: QueryPrimary> SecondaryLoader<'_, O> {
    fn take(&mut self, taken: LoadedSecondary) {
        let change = self.secondaries.take_over(taken, self.spread, self.now);
        self.changes.push(change);
        if self.changes.len() >= TOGETHER.max(self.visible / TOGETHER_SHARE) {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        self.visible += changes.len();
        let table = self.secondaries.store.commits.table();
        table.publish(&changes);
    }
}
