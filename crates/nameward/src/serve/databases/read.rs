//! Owns what follows when a database is read: which zones there are, and what they hold.

use std::{collections::HashSet, sync::Arc};

use nameward_store::sql::{LiveZone, RowError, SqlError, ZoneRow};
use nameward_zone::{Live, Zone, ZoneBuilder};

use super::{
    follower::{Follower, Known, LINES_MAX, Owed},
    publish::Step,
};
use crate::{config::settings::BackendMode, memory, serve::counted};

/// Zones in memory that are made visible together, while many are loaded.
const PUBLISH_AT: usize = 1000;

/// Whether the contents of a zone that is known may have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    AsKnown,
    Changed,
}

impl Follower {
    /// Reads what is owed. What fails stays owed.
    pub(super) async fn settle(&mut self, owed: &mut Owed) -> Result<(), SqlError> {
        if owed.all {
            self.read_all(owed.contents).await?;
            *owed = Owed::default();
            return Ok(());
        }
        for id in owed.zones.iter().copied().collect::<Vec<_>>() {
            let row = match self.backend.zone(id).await {
                Err(SqlError::Row(error)) => {
                    tracing::warn!("{}: {error}", self.name);
                    None
                }
                row => row?,
            };
            let mut steps = Vec::new();
            match row {
                Some(row) => self.admit(&row, Contents::Changed, &mut steps).await?,
                None => self.forget(id, &mut steps),
            }
            self.publish(&steps);
            owed.zones.remove(&id);
        }
        Ok(())
    }

    async fn read_all(&mut self, contents_changed: bool) -> Result<(), SqlError> {
        let is_first = self.known.is_empty();
        let list = self.backend.zones().await?;
        self.tell_bad(&list.bad);
        let there: HashSet<i64> = list.zones.iter().map(|row| row.id).collect();
        let gone: Vec<i64> = self
            .known
            .keys()
            .filter(|id| !there.contains(id))
            .copied()
            .collect();
        let mut steps = Vec::new();
        for id in gone {
            self.forget(id, &mut steps);
        }
        let contents = match contents_changed {
            true => Contents::Changed,
            false => Contents::AsKnown,
        };
        for row in &list.zones {
            self.admit(row, contents, &mut steps).await?;
            if self.mode == BackendMode::Resident && steps.len() >= PUBLISH_AT {
                self.publish(&steps);
                steps.clear();
            }
        }
        self.publish(&steps);
        memory::give_back();
        if is_first {
            let (name, zones) = (&self.name, counted(self.known.len(), "zone"));
            tracing::info!("{name}: {zones}");
        }
        Ok(())
    }

    /// Takes a zone of the database over into the table.
    async fn admit(
        &mut self,
        row: &ZoneRow,
        contents: Contents,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        if let Some(known) = self.known.get(&row.id) {
            if known.name() != row.name.as_name() {
                // Renamed.
                self.forget(row.id, steps);
            } else if known.served && contents == Contents::AsKnown {
                return Ok(());
            } else if known.served && known.live.is_some() {
                // Its generation tells the caches.
                return Ok(());
            }
        }
        let before = self.known.get(&row.id).and_then(|known| known.live.clone());
        let (zone, live) = match self.mode {
            BackendMode::Live => {
                let live = before.unwrap_or_else(|| Live::new(self.index, row.id));
                let zone = Zone::stand_in(row.name.as_name(), Arc::clone(&live));
                (Some(zone), Some(live))
            }
            BackendMode::Resident => (self.load(row).await?, None),
        };
        // A new version that cannot be used is not taken: the old one stays.
        let Some(mut zone) = zone else {
            return Ok(());
        };
        zone.set_rank(self.rank);
        let known = self.known.entry(row.id).or_insert_with(|| Known {
            name: row.name.as_name().as_wire().into(),
            live: None,
            served: false,
        });
        known.live = live;
        steps.push(Step::Offer(row.id, Arc::new(zone)));
        Ok(())
    }

    fn forget(&mut self, id: i64, steps: &mut Vec<Step>) {
        if let Some(known) = self.known.remove(&id) {
            if known.served {
                tracing::info!("{}: zone {} is gone", self.name, known.name());
            }
            steps.push(Step::Withdraw(known.name));
        }
        self.told.remove(&id);
    }

    /// Loads a zone into memory; `None` and a line in the log if it cannot be served.
    async fn load(&self, row: &ZoneRow) -> Result<Option<Zone>, SqlError> {
        let zone = LiveZone {
            id: row.id,
            apex: row.name,
        };
        let mut builder = ZoneBuilder::new(row.name.as_name());
        let report = self.backend.load_zone(&zone, &mut builder).await?;
        self.tell_bad(&report.bad);
        let (zone, findings) = builder.finish();
        if zone.is_none() {
            let reason = findings.first().map(|finding| format!("{finding:?}"));
            let (name, reason) = (&self.name, reason.unwrap_or_default());
            tracing::error!("{name}: zone {} cannot be served: {reason}", row.name);
        }
        Ok(zone)
    }

    fn tell_bad(&self, bad: &[RowError]) {
        for error in bad.iter().take(LINES_MAX) {
            tracing::warn!("{}: {error}", self.name);
        }
    }
}
