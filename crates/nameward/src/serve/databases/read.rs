//! Owns what follows when a database is read: which zones there are, and what they hold.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use nameward_store::sql::{Change, LiveZone, RowError, SqlError, ZoneList, ZoneRow, db, row_error};
use nameward_wire::{Name, NameBuf, zonefile::Severity};
use nameward_zone::{Live, Zone, ZoneBuilder};
use tokio::sync::mpsc;

use super::{
    follower::{Follower, Known, LINES_MAX},
    owed::Owed,
    publish::Step,
};
use crate::{cli::print::zone_text, config::settings::BackendMode, memory, serve::counted};

/// Zones in memory that are made visible together, while many are loaded.
const PUBLISH_AT: usize = 1000;
/// Zones in a row that may fail before the database is left alone for a while.
const MAX_FAILURES: usize = 3;
/// How long one that is loaded waits for others at the most.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

impl Follower {
    /// Reads what is owed. What fails stays owed.
    pub(super) async fn settle(
        &mut self,
        owed: &mut Owed,
        changes: &mut mpsc::Receiver<Change>,
    ) -> Result<(), SqlError> {
        while !owed.is_nothing() {
            if !owed.zones.is_empty() {
                self.settle_zones(owed).await?;
                self.tell_waiting(owed);
            } else if !owed.sweep.is_empty() {
                self.sweep(owed, changes).await?;
            } else {
                let list = self.backend.zones().await?;
                self.take_list(&list, owed);
            }
            self.take_notes(changes, owed);
        }
        self.tell_waiting(owed);
        Ok(())
    }

    /// Reads zones that are known to have changed. One that cannot be read does not keep others waiting.
    async fn settle_zones(&mut self, owed: &mut Owed) -> Result<(), SqlError> {
        let mut failures = Vec::new();
        for id in owed.zones.iter().copied().collect::<Vec<_>>() {
            match self.settle_zone(id, owed).await {
                Ok(()) => {
                    owed.zones.remove(&id);
                }
                Err(error) => {
                    let is_down = matches!(error, SqlError::Unavailable(_));
                    failures.push(error);
                    if is_down || failures.len() >= MAX_FAILURES {
                        break;
                    }
                }
            }
        }
        failures.pop().map_or(Ok(()), Err)
    }

    /// Reads one zone that has changed, is new or gone.
    async fn settle_zone(&mut self, id: i64, owed: &mut Owed) -> Result<(), SqlError> {
        let row = match self.backend.zone(id).await {
            Err(SqlError::Row(error)) => {
                tracing::warn!("{}: {error}", self.name);
                None
            }
            row => row?,
        };
        let mut steps = Vec::new();
        let before = self.known.get(&id).map(|known| known.name.clone());
        match &row {
            Some(row) => self.admit(row, &mut steps),
            None => {
                self.tell_gone(id);
                self.forget(id, &mut steps);
            }
        }
        if let [Step::Withdraw(_), ..] = steps[..] {
            self.owe_namesake(before.as_deref(), owed);
        }
        let loaded = match self.mode {
            BackendMode::Resident => self.load(id, &mut steps).await,
            BackendMode::Live => Ok(()),
        };
        self.publish(&steps);
        loaded
    }

    /// A zone gave its name up. Another that took the name before that was told has to be put into the table again.
    fn owe_namesake(&mut self, name: Option<&[u8]>, owed: &mut Owed) {
        let mut known = self.known.iter();
        let namesake = known.find(|(_, known)| Some(&known.name[..]) == name);
        if let Some((&id, _)) = namesake {
            self.known.remove(&id);
            owed.zones.insert(id);
        }
    }

    /// Takes the whole list of zones over; what zones in memory hold is then owed.
    pub(super) fn take_list(&mut self, list: &ZoneList, owed: &mut Owed) {
        self.tell_bad(&list.bad);
        let there: HashSet<i64> = list.zones.iter().map(|row| row.id).collect();
        let known = self.known.keys().copied();
        let gone: Vec<i64> = known.filter(|id| !there.contains(id)).collect();
        let mut steps = Vec::new();
        for (n, id) in gone.iter().enumerate() {
            if n < LINES_MAX {
                self.tell_gone(*id);
            }
            self.forget(*id, &mut steps);
        }
        if gone.len() > LINES_MAX {
            let (name, zones) = (&self.name, counted(gone.len(), "zone"));
            tracing::info!("{name}: removed {zones} in all");
        }
        for row in &list.zones {
            self.admit(row, &mut steps);
        }
        self.publish(&steps);
        if self.mode == BackendMode::Resident {
            let is_owed = |known: &Known| owed.contents || known.fingerprint.is_none();
            let known = self.known.iter().filter(|(_, known)| is_owed(known));
            owed.sweep = known.map(|(id, _)| *id).collect();
        }
        (owed.list, owed.contents) = (false, false);
        if !std::mem::replace(&mut self.is_listed, true) {
            let (name, zones) = (&self.name, counted(self.known.len(), "zone"));
            tracing::info!("{name}: found {zones}");
            self.tell_foreign_content();
        }
        memory::give_back();
    }

    /// Warns of content that is served otherwise than by PowerDNS, once. It reads the names of all records, so it runs
    /// beside everything else.
    fn tell_foreign_content(&self) {
        let options = self.backend.options();
        let address = options.replica.as_ref().unwrap_or(&options.address).clone();
        let (name, runtime) = (self.name.clone(), tokio::runtime::Handle::current());
        tokio::task::spawn_blocking(move || match runtime.block_on(db::survey(&address)) {
            Ok(found) => found
                .iter()
                .for_each(|content| tracing::warn!("{name}: {content}")),
            Err(error) => tracing::debug!("{name}: the content is not known: {error}"),
        });
    }

    /// Loads zones one after the other, until all are or one is known to have changed.
    async fn sweep(
        &mut self,
        owed: &mut Owed,
        changes: &mut mpsc::Receiver<Change>,
    ) -> Result<(), SqlError> {
        let (mut steps, mut last) = (Vec::new(), Instant::now());
        let mut result = Ok(());
        while let Some(&id) = owed.sweep.last() {
            result = self.load(id, &mut steps).await;
            if result.is_err() {
                // The others go before it the next time.
                owed.sweep.rotate_right(1);
                break;
            }
            owed.sweep.pop();
            if steps.len() >= PUBLISH_AT || last.elapsed() >= PUBLISH_EVERY {
                self.publish(&steps);
                steps.clear();
                last = Instant::now();
            }
            self.take_notes(changes, owed);
            if !owed.zones.is_empty() {
                break;
            }
        }
        self.publish(&steps);
        if owed.sweep.is_empty() {
            memory::give_back();
        }
        result
    }

    /// Takes a zone of the list over: into the table with what stands for its contents, unless it is there.
    fn admit(&mut self, row: &ZoneRow, steps: &mut Vec<Step>) {
        match self.known.get(&row.id) {
            Some(known) if known.name() == row.name.as_name() => return,
            // Renamed.
            Some(_) => self.forget(row.id, steps),
            None => {}
        }
        self.remembered.note_change();
        self.stand_in(row.id, row.name.as_name(), steps);
    }

    fn stand_in(&mut self, id: i64, name: Name<'_>, steps: &mut Vec<Step>) {
        let (live, zone) = match self.mode {
            BackendMode::Live => {
                let live = Live::new(self.index, id);
                (Some(Arc::clone(&live)), Zone::stand_in(name, live))
            }
            BackendMode::Resident => (None, Zone::not_ready(name)),
        };
        let known = Known {
            name: name.as_wire().into(),
            live,
            fingerprint: None,
        };
        self.known.insert(id, known);
        self.offer(id, zone, steps);
    }

    fn offer(&self, id: i64, mut zone: Zone, steps: &mut Vec<Step>) {
        zone.set_rank(self.rank);
        steps.push(Step::Offer(id, Arc::new(zone)));
    }

    /// A zone is not in the database any more.
    fn forget(&mut self, id: i64, steps: &mut Vec<Step>) {
        if let Some(known) = self.known.remove(&id) {
            self.remembered.note_change();
            steps.push(Step::Withdraw(known.name));
        }
        self.told.remove(&id);
    }

    fn tell_gone(&self, id: i64) {
        if let Some(known) = self.known.get(&id) {
            let zone = known.name().to_string();
            tracing::info!("{}: removed zone {}", self.name, zone_text(&zone));
        }
    }

    /// Puts the zones that are known from before into the table; false if there are none.
    pub(super) fn recall(&mut self) -> bool {
        let (mut steps, start) = (Vec::new(), Instant::now());
        for (id, name) in self.remembered.read() {
            self.stand_in(id, Name::from_wire(&name).unwrap_or(Name::ROOT), &mut steps);
        }
        self.publish(&steps);
        if !steps.is_empty() {
            let (name, zones) = (&self.name, counted(steps.len(), "zone"));
            let took = start.elapsed();
            tracing::debug!(?took, "the list of zones is read");
            tracing::warn!(
                "{name}: {zones} known from before, answered SERVFAIL until the database answers"
            );
        }
        !steps.is_empty()
    }

    /// Loads a zone into memory, unless its rows are those it was made of. One that cannot be served is told in the
    /// log; the version from before stays.
    async fn load(&mut self, id: i64, steps: &mut Vec<Step>) -> Result<(), SqlError> {
        let Some(known) = self.known.get_mut(&id) else {
            return Ok(());
        };
        let apex: NameBuf = known.name().into();
        let mut builder = ZoneBuilder::new(known.name());
        let report = self
            .backend
            .load_zone(&LiveZone { id, apex }, &mut builder)
            .await?;
        let before = known.fingerprint.replace(report.fingerprint);
        if before == Some(report.fingerprint) {
            return Ok(());
        }
        self.tell_bad(&report.bad);
        let (zone, findings) = builder.finish();
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<RowError> = errors.map(|error| row_error(id, error)).collect();
        self.tell_bad(&errors);
        match zone {
            Some(mut zone) => {
                zone.set_signing(report.signing);
                let (name, serial) = (apex.to_string(), zone.serial().0);
                let name = zone_text(&name);
                tracing::debug!("{}: loaded zone {name} serial {serial}", self.name);
                self.offer(id, zone, steps);
            }
            None => tracing::error!("{}: zone {apex} cannot be served", self.name),
        }
        Ok(())
    }

    fn tell_bad(&self, bad: &[RowError]) {
        for error in bad.iter().take(LINES_MAX) {
            tracing::warn!("{}: {error}", self.name);
        }
    }
}
