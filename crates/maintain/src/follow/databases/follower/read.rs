//! Reads a database: its zone list, and the contents of zones.

use super::{DatabaseFollower, LINES_MAX, policies::StoredSettings};
use crate::follow::databases::{
    ServedFrom,
    followed_zones::{FollowedContents, FollowedZone, FoundZone, ReadContents, ZoneServing},
};
use crate::follow::unknown;
use nameward_base::text::counted;
use nameward_base::text::zone_text;
use nameward_sql::{Change, PackedZones, SqlBackend, SqlError, ZoneRow, db};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{TableChange, Zone, ZoneKind};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Resident zones that are published together, while many are loaded.
const PUBLISH_AT: usize = 1000;
/// Consecutive zones that may fail before the database is left alone for a while.
const MAX_FAILURES: usize = 3;
/// Maximum time a loaded zone waits for others.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// The zone list of a database, and the version of each zone before it was read.
pub(super) struct ListedZones {
    /// How often reads had moved to another server before the versions were read.
    moves: u64,
    list: PackedZones,
    versions: HashMap<i64, i64>,
    settings: StoredSettings,
}

impl ListedZones {
    pub(super) async fn read(
        backend: &SqlBackend,
        served_from: ServedFrom,
    ) -> Result<Self, SqlError> {
        let moves = backend.read_moves();
        let versions = match served_from {
            ServedFrom::Memory => backend.zone_versions().await?,
            ServedFrom::Lookups => HashMap::new(),
        };
        let list = backend.zones().await?;
        let settings = StoredSettings::read(backend).await;
        Ok(ListedZones {
            moves,
            list,
            versions,
            settings,
        })
    }
}

impl DatabaseFollower {
    /// Makes the pending reads. Failed ones stay pending.
    pub(super) async fn make_pending_reads(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
    ) -> Result<(), SqlError> {
        while !self.pending.is_empty() {
            if !self.pending.zones.is_empty() {
                self.read_changed_zones().await?;
                self.finish_waiting();
            } else if !self.pending.sweep.is_empty() {
                self.sweep(changes).await?;
            } else {
                let listing = ListedZones::read(&self.backend, self.served_from).await?;
                self.apply_list(listing);
            }
            self.note_changes(changes, &mut Vec::new());
        }
        self.finish_waiting();
        Ok(())
    }

    /// Reads zones known to have changed. One that cannot be read does not delay the others.
    async fn read_changed_zones(&mut self) -> Result<(), SqlError> {
        let mut failures = Vec::new();
        for (id, version) in self.pending.zones.clone() {
            match self.read_changed_zone(id).await {
                Ok(()) => {
                    self.pending.zones.remove(&id);
                    // Another server may have announced the version than the one that was read: it may lack the change, and
                    // announces it later.
                    let is_there = !self.backend.has_replica();
                    let zone = self.zones.in_memory(id).filter(|_| is_there);
                    if let Some(zone) = zone {
                        zone.version = zone.version.max(version);
                    }
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

    /// Reads one zone that has changed, is new or was removed.
    async fn read_changed_zone(&mut self, id: i64) -> Result<(), SqlError> {
        let row = match self.backend.zone(id).await {
            Err(SqlError::Row(error)) => {
                tracing::warn!("{}: {error}", self.name);
                None
            }
            row => row?,
        };
        self.apply_policy(id, row.as_ref()).await;
        self.follow_withholding(id);
        let mut steps = Vec::new();
        let before = self.zones.get(id).map(|known| NameBuf::from(known.name()));
        match &row {
            Some(row) => self.add_listed(row, &mut steps),
            None => {
                self.log_removed(id);
                self.remove(id, &mut steps);
            }
        }
        if let [TableChange::Withdraw(..), ..] = steps[..] {
            self.read_namesake_again(before);
        }
        let known = self.zones.get(id);
        let loaded = if known.is_some_and(FollowedZone::is_in_memory) {
            self.load(id, &mut steps).await
        } else {
            Ok(())
        };
        self.publish(steps);
        self.soa_check.request();
        loaded
    }

    /// Publishes a zone again that took over another's name before that one was seen to release it.
    fn read_namesake_again(&mut self, name: Option<NameBuf>) {
        let wanted = name.as_ref().map(NameBuf::as_name);
        let mut zones = self.zones.iter();
        let namesake = zones.find(|(_, zone)| Some(zone.name()) == wanted);
        let namesake = namesake.map(|(id, _)| id);
        drop(zones);
        if let Some(id) = namesake {
            self.zones.remove(id);
            self.pending.add(Change::Zone(id, None));
        }
    }

    /// Brings the table up to date with the whole zone list; the contents of resident zones are read afterwards.
    pub(super) fn apply_list(&mut self, listed: ListedZones) {
        let ListedZones {
            moves,
            list,
            versions,
            settings,
        } = listed;
        self.apply_policies(&list, settings);
        self.log_bad_rows(&list.bad);
        let gone = self.gone_from(&list);
        let mut steps = Vec::new();
        for (n, id) in gone.iter().enumerate() {
            if n < LINES_MAX {
                self.log_removed(*id);
            }
            self.remove(*id, &mut steps);
        }
        if gone.len() > LINES_MAX {
            let (name, zones) = (&self.name, counted(gone.len(), "zone"));
            tracing::info!("{name}: removed {zones} in total");
        }
        if self.zones.is_empty() {
            steps.reserve_exact(list.len());
        }
        for row in list.into_rows() {
            self.add_listed(&row, &mut steps);
        }
        self.publish(steps);
        self.soa_check.request();
        self.versions_moves = moves;
        let all = self.pending.contents;
        self.pending.sweep.clear();
        for (id, zone) in self.zones.all_in_memory() {
            if all || zone.contents == ReadContents::None {
                zone.version = versions.get(&id).copied().unwrap_or(0);
                self.pending.sweep.push(id);
            }
        }
        (self.pending.list, self.pending.contents) = (false, false);
        if !std::mem::replace(&mut self.is_listed, true) {
            let (name, zones) = (&self.name, counted(self.zones.len(), "zone"));
            tracing::info!("{name}: found {zones}");
            self.first_read.note_listed();
            unknown::end(self.commits.table(), self.rank);
            self.warn_of_foreign_content();
        }
        (self.give_back)();
    }

    /// Returns the zones that a list no longer has.
    fn gone_from(&self, list: &PackedZones) -> Vec<i64> {
        if self.zones.is_empty() {
            return Vec::new();
        }
        let mut listed: Vec<i64> = list.ids().collect();
        listed.sort_unstable();
        let ids = self.zones.iter().map(|(id, _)| id);
        ids.filter(|id| listed.binary_search(id).is_err()).collect()
    }

    /// Warns of content that PowerDNS treats differently, once. It reads the names of all records, so it runs in the
    /// background.
    fn warn_of_foreign_content(&self) {
        let options = self.backend.options();
        let address = options.replica.as_ref().unwrap_or(&options.address).clone();
        let (name, runtime) = (self.name.clone(), tokio::runtime::Handle::current());
        tokio::task::spawn_blocking(move || match runtime.block_on(db::survey(&address)) {
            Ok(found) => found
                .iter()
                .for_each(|content| tracing::warn!("{name}: {content}")),
            Err(error) => {
                tracing::debug!("{name}: cannot check for unsupported PowerDNS content: {error}")
            }
        });
    }

    /// Loads zones, many with each statement, until all are loaded or one is known to have changed.
    async fn sweep(&mut self, changes: &mut mpsc::Receiver<Change>) -> Result<(), SqlError> {
        let (mut steps, mut last) = (Vec::new(), Instant::now());
        let mut result = Ok(());
        while !self.pending.sweep.is_empty() {
            result = self.load_next(&mut steps).await;
            if result.is_err() {
                break;
            }
            if steps.len() >= PUBLISH_AT || last.elapsed() >= PUBLISH_INTERVAL {
                self.publish(std::mem::take(&mut steps));
                last = Instant::now();
            }
            self.note_changes(changes, &mut steps);
            if !self.pending.zones.is_empty() {
                break;
            }
        }
        self.publish(steps);
        if self.pending.sweep.is_empty() {
            (self.give_back)();
        }
        result
    }

    /// Adds a zone to the table with a stub for its contents, unless it is there.
    fn add_listed(&mut self, row: &ZoneRow, steps: &mut Vec<TableChange>) {
        if let Some(zone) = self.listed(row, steps) {
            self.zones.insert(row.id, zone);
        }
    }

    /// Returns the zone of a row with a stub for its contents, unless it is known.
    fn listed(&mut self, row: &ZoneRow, steps: &mut Vec<TableChange>) -> Option<FoundZone> {
        let serving = self.serving(row.name.as_name(), row.kind);
        match self.zones.get(row.id) {
            Some(known) if known.name() == row.name.as_name() && known.serving() == serving => {
                return None;
            }
            // Renamed, a catalog from now on, or signed elsewhere.
            Some(_) => self.remove(row.id, steps),
            None => {}
        }
        self.list_file.note_change();
        Some(self.stub(row.id, row.name.as_name(), serving, steps))
    }

    /// Returns how a zone is served: consumed catalogs are read as a whole, and produced ones have their own version,
    /// which is stored in the state store. Zones with stored signatures are read as a whole too: their proofs need
    /// the order of all names.
    fn serving(&self, name: Name<'_>, kind: ZoneKind) -> ZoneServing {
        match (kind, self.served_from) {
            (_, ServedFrom::Lookups) if self.policies.is_presigned(name) => ZoneServing::Memory,
            (ZoneKind::Consumer, _) => ZoneServing::Memory,
            (ZoneKind::Producer, _) if self.commits.store().is_some() => ZoneServing::Made,
            (_, ServedFrom::Memory) => ZoneServing::Memory,
            (_, ServedFrom::Lookups) => ZoneServing::Lookups,
        }
    }

    /// Offers the stub of a zone.
    fn stub(
        &self,
        id: i64,
        name: Name<'_>,
        serving: ZoneServing,
        steps: &mut Vec<TableChange>,
    ) -> FoundZone {
        let is_withheld = self.link.withheld.has(name);
        let is_live = serving == ZoneServing::Lookups && !is_withheld;
        let zone = if is_live {
            Zone::stub(name, self.lookup_source, id)
        } else {
            Zone::not_ready(name)
        };
        let zone = self.offered(zone, steps);
        if is_live {
            FoundZone::Live(zone)
        } else {
            FoundZone::Other(FollowedContents::new(name, serving, is_withheld))
        }
    }

    /// Withdraws a zone that must be withheld, or lets one start over that no longer is.
    fn follow_withholding(&mut self, id: i64) {
        let Some(known) = self.zones.get(id) else {
            return;
        };
        if known.is_withheld() == self.link.withheld.has(known.name()) {
            return;
        }
        let (name, serving) = (NameBuf::from(known.name()), known.serving());
        // A stub does not replace a version by itself.
        let wire = name.as_name().as_wire();
        let mut steps = vec![TableChange::Withdraw(wire.into(), self.rank)];
        let zone = self.stub(id, name.as_name(), serving, &mut steps);
        self.zones.insert(id, zone);
        self.publish(steps);
    }

    /// Offers the contents of a zone, unless it is withheld.
    pub(super) fn offer(&self, id: i64, mut zone: Zone, steps: &mut Vec<TableChange>) {
        if self.zones.get(id).is_some_and(FollowedZone::is_withheld) {
            zone = Zone::not_ready(zone.id());
        }
        self.offered(zone, steps);
    }

    fn offered(&self, mut zone: Zone, steps: &mut Vec<TableChange>) -> Arc<Zone> {
        zone.set_rank(self.rank);
        let zone = Arc::new(zone);
        steps.push(TableChange::Offer(Arc::clone(&zone)));
        zone
    }

    /// Removes a zone that is no longer in the database.
    fn remove(&mut self, id: i64, steps: &mut Vec<TableChange>) {
        if let Some(zone) = self.zones.get(id) {
            self.list_file.note_change();
            let name = NameBuf::from(zone.name());
            let wire = name.as_name().as_wire();
            self.link.faults.forget(wire);
            self.logged_contests.remove(&name);
            steps.push(TableChange::Withdraw(wire.into(), self.rank));
            self.zones.remove(id);
        }
    }

    fn log_removed(&self, id: i64) {
        if let Some(zone) = self.zones.get(id) {
            let zone = zone.name().to_string();
            tracing::info!("{}: zone {}: removed", self.name, zone_text(&zone));
        }
    }

    /// Publishes the zones known from the last run; false if there are none.
    pub(super) fn restore_list(&mut self) -> bool {
        let (mut steps, start) = (Vec::new(), Instant::now());
        if !self.zones.is_empty() {
            return true;
        }
        let restored = self.list_file.read();
        self.close_policies(restored.iter().map(|(_, name)| &name[..]));
        for (id, name) in restored {
            let name = Name::from_wire(&name).unwrap_or(Name::ROOT);
            // Its kind is unknown.
            let serving = self.serving(name, ZoneKind::Native);
            let zone = self.stub(id, name, serving, &mut steps);
            self.zones.insert(id, zone);
        }
        if steps.is_empty() {
            return false;
        }
        let (name, zones) = (self.name.clone(), counted(steps.len(), "zone"));
        self.publish(steps);
        let took = start.elapsed();
        tracing::debug!(?took, "zone list read");
        tracing::warn!(
            "{name}: zone list not received yet; {zones} from the saved zone list served in the meantime, with SERVFAIL if the \
             database does not respond"
        );
        unknown::end(self.commits.table(), self.rank);
        true
    }
}
