//! Reads zones back from the state store: one thread reads the store, the others build zones.
//!
//! The reading thread also takes the zones over, and builds some itself when the others are busy. A zone that is
//! larger than one chunk of contents, or has a long journal, is built by it while it is read, so that its records are
//! not in memory twice and little waits for a thread.

use super::{LoadedSecondary, held};
use crate::secondary::zone::{SecondarySettings, SharedName};
use nameward_base::sync::Mutex;
use nameward_maintain::table::lower_case;
use nameward_maintain::{ContentsReader, PART};
use nameward_state::{
    JournalEntry, JournaledZone, StateError, StateStore, StoredZoneSink, ZoneTimers,
};
use nameward_wire::NameBuf;
use nameward_zone::RecordList;
use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread;

/// Zones passed to a thread together.
const TOGETHER: usize = 64;
/// Maximum number of building threads besides the reading one: it cannot keep more of them busy.
const HELPERS_MAX: usize = 3;
/// Maximum number of zone groups waiting for a thread.
const WAITING_MAX: usize = 4;

/// Zones by name.
pub(super) type RequestedZones = HashMap<SharedName, SecondarySettings>;

/// Reads zones back, `few` by name or all in one pass, and passes them on. Returns the zones without stored state.
pub(super) fn read_back(
    store: &StateStore,
    requested: RequestedZones,
    few: Option<Vec<NameBuf>>,
    take: &mut dyn FnMut(LoadedSecondary),
) -> RequestedZones {
    let helpers = match few {
        Some(_) => 0,
        None => thread::available_parallelism().map_or(0, |count| count.get() - 1),
    };
    let (read_sender, read_receiver) = mpsc::sync_channel(WAITING_MAX);
    let (built_sender, built_receiver) = mpsc::channel();
    let read_receiver = Mutex::new(read_receiver);
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..helpers.min(HELPERS_MAX) {
            let (receiver, sender) = (&read_receiver, built_sender.clone());
            let work = move || build_all(store, receiver, &sender);
            let thread = thread::Builder::new().name("read-back".into());
            // Without helpers this thread builds all zones.
            started += usize::from(thread.spawn_scoped(scope, work).is_ok());
        }
        drop(built_sender);
        let mut reading = Reading {
            requested,
            zone: None,
            together: Vec::new(),
            helpers: (started > 0).then_some(read_sender),
            built: built_receiver,
            take,
        };
        let read = match &few {
            Some(names) => names
                .iter()
                .try_for_each(|name| store.stored_zone(name, &mut reading)),
            None => store.stored_zones(&mut reading),
        };
        if let Err(error) = read {
            tracing::error!("cannot read secondary zones from the state store: {error}");
        }
        reading.finish(store)
    })
}

/// Builds zones until no more are read.
fn build_all(
    store: &StateStore,
    read: &Mutex<Receiver<Vec<ReadZone>>>,
    built: &Sender<Vec<LoadedSecondary>>,
) {
    loop {
        let next = read.lock().recv();
        let Ok(zones) = next else {
            return;
        };
        let zones = zones.into_iter().map(|zone| zone.build(store));
        if built.send(zones.collect()).is_err() {
            return;
        }
    }
}

/// A zone with its complete stored state.
struct ReadZone {
    settings: SecondarySettings,
    contents: ReadRecords,
    journal: Result<Vec<JournalEntry>, StateError>,
    timers: Option<ZoneTimers>,
}

/// The records of a zone read so far.
enum ReadRecords {
    /// One chunk, or none yet.
    Part(RecordList),
    /// More: they are already in the zone.
    Begun(Box<ContentsReader>),
}

impl ReadZone {
    fn build(self, store: &StateStore) -> LoadedSecondary {
        let name = self.settings.name.to_buf();
        let reader = match self.contents {
            ReadRecords::Begun(reader) => *reader,
            ReadRecords::Part(records) => {
                let mut reader = ContentsReader::new(&name);
                reader.push(&records);
                reader
            }
        };
        let version = self
            .journal
            .and_then(|journal| reader.finish(store, journal));
        let version = version.unwrap_or_else(|error| {
            tracing::error!("zone {name}: {error}; transferring it again");
            None
        });
        LoadedSecondary {
            settings: self.settings,
            held: held(version),
            timers: self.timers,
        }
    }
}

/// Zones being read.
struct Reading<'r> {
    requested: RequestedZones,
    /// The zone whose chunks are being read.
    zone: Option<(SecondarySettings, Option<ReadRecords>)>,
    /// Zones that are read and not built yet.
    together: Vec<ReadZone>,
    /// The building threads, if there are any.
    helpers: Option<SyncSender<Vec<ReadZone>>>,
    built: Receiver<Vec<LoadedSecondary>>,
    take: &'r mut dyn FnMut(LoadedSecondary),
}

impl Reading<'_> {
    /// Passes on the zones that were read, and takes over those that are built.
    fn hand_over(&mut self, store: &StateStore) {
        let zones = std::mem::take(&mut self.together);
        let left = match &self.helpers {
            Some(helpers) => match helpers.try_send(zones) {
                Ok(()) => Vec::new(),
                Err(TrySendError::Full(zones) | TrySendError::Disconnected(zones)) => zones,
            },
            None => zones,
        };
        for zone in left {
            (self.take)(zone.build(store));
        }
        for zone in self.built.try_iter().flatten() {
            (self.take)(zone);
        }
    }

    /// Finishes reading; returns the zones that were not found.
    fn finish(mut self, store: &StateStore) -> RequestedZones {
        self.hand_over(store);
        self.helpers = None;
        // Reading may have failed within a zone.
        if let Some((settings, _)) = self.zone {
            self.requested.insert(settings.name.clone(), settings);
        }
        for zone in self.built.iter().flatten() {
            (self.take)(zone);
        }
        self.requested
    }
}

impl StoredZoneSink for Reading<'_> {
    fn begin(&mut self, zone: &JournaledZone) -> bool {
        let settings = self.requested.remove(&*lower_case(zone.name.as_name()));
        self.zone = settings.map(|settings| (settings, None));
        self.zone.is_some()
    }

    fn records(&mut self, records: RecordList) {
        let Some((settings, contents)) = &mut self.zone else {
            return;
        };
        *contents = Some(match contents.take() {
            None => ReadRecords::Part(records),
            Some(ReadRecords::Part(first)) => {
                let mut reader = ContentsReader::new(&settings.name.to_buf());
                reader.push(&first);
                reader.push(&records);
                ReadRecords::Begun(Box::new(reader))
            }
            Some(ReadRecords::Begun(mut reader)) => {
                reader.push(&records);
                ReadRecords::Begun(reader)
            }
        });
    }

    fn end(
        &mut self,
        store: &StateStore,
        zone: &JournaledZone,
        journal: Result<Vec<JournalEntry>, StateError>,
    ) {
        let Some((settings, contents)) = self.zone.take() else {
            return;
        };
        let contents = contents.unwrap_or_else(|| ReadRecords::Part(RecordList::default()));
        let is_large = matches!(contents, ReadRecords::Begun(_)) || zone.octets > PART as u64;
        let read = ReadZone {
            settings,
            contents,
            journal,
            timers: zone.timers,
        };
        if is_large {
            return (self.take)(read.build(store));
        }
        self.together.push(read);
        if self.together.len() >= TOGETHER {
            self.hand_over(store);
        }
    }
}
