//! The policies of a database's zones: read with the zone list and with each zone that changed.
//!
//! They take effect before a zone is published, and a zone whose metadata cannot be read denies all access, unless it
//! was read before: then the previous settings stay.

use super::{DatabaseFollower, LINES_MAX};
use crate::policy::{
    Autoprimary, PolicyFragment, PolicySet, PolicySource, PolicyTable, SharedApiKey, ZoneKind,
    database::{read_cookies, read_keys, read_policy},
    database_templates::DatabaseTemplates,
};
use nameward_sql::{
    PackedZones, SettingItem, SettingItems, SqlBackend, SqlError, StoredAutoprimary, StoredTsigKey,
    ZoneRow,
};
use nameward_wire::{Name, NameBuf};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The zone settings in a database; access to each table may be denied separately.
pub(super) struct StoredSettings {
    items: Result<SettingItems, SqlError>,
    keys: Result<Vec<StoredTsigKey>, SqlError>,
    autoprimaries: Result<Vec<StoredAutoprimary>, SqlError>,
}

impl StoredSettings {
    pub(super) async fn read(backend: &SqlBackend) -> Self {
        StoredSettings {
            items: backend.setting_items(None).await,
            keys: backend.tsig_keys().await,
            autoprimaries: backend.autoprimaries().await,
        }
    }
}

pub(super) struct FollowedPolicies {
    table: Arc<PolicyTable>,
    source: PolicySource,
    /// Fragments in use: most zones of a database have the same.
    shared: HashMap<PolicyFragment, Arc<PolicyFragment>>,
    /// The metadata of all zones was read once.
    is_read: bool,
    /// Everything but the fragments of zones, as last read.
    common: PolicySet,
    templates: DatabaseTemplates,
    logged: HashSet<String>,
}

impl FollowedPolicies {
    pub(super) fn new(table: &Arc<PolicyTable>, rank: u16) -> Self {
        FollowedPolicies {
            table: Arc::clone(table),
            source: PolicySource::Backend(rank),
            shared: HashMap::new(),
            is_read: false,
            common: PolicySet::default(),
            templates: DatabaseTemplates::default(),
            logged: HashSet::new(),
        }
    }

    pub(super) fn table(&self) -> Arc<PolicyTable> {
        Arc::clone(&self.table)
    }

    /// Checks whether a zone is transferred from primaries.
    pub(super) fn is_transferred(&self, zone: Name<'_>) -> bool {
        self.table.load().get(zone).kind.is_transferred()
    }

    /// Checks whether a zone is a catalog of this database, which is built from its members.
    pub(super) fn is_made_of_members(&self, zone: Name<'_>) -> bool {
        let policies = self.table.load();
        let policy = policies.get(zone);
        policy.kind == ZoneKind::Producer && policy.declared_by == self.source
    }

    /// Checks whether the rows of a zone include its signatures (PRESIGNED).
    pub(super) fn is_presigned(&self, zone: Name<'_>) -> bool {
        self.table.load().get(zone).is_presigned
    }

    fn share(&mut self, part: PolicyFragment) -> Arc<PolicyFragment> {
        let shared = self.shared.entry(part);
        Arc::clone(shared.or_insert_with_key(|part| Arc::new(part.clone())))
    }

    fn part(
        &mut self,
        row: &ZoneRow,
        mut items: Vec<SettingItem>,
        name: &str,
    ) -> Option<Arc<PolicyFragment>> {
        if let Some(template) = self.templates.complete(&mut items) {
            let zone = row.name;
            self.log(format!(
                "{name}: zone {zone}: template {template} is not a zone of this database"
            ));
        }
        let policy = read_policy(row, &items);
        for problem in policy.problems {
            self.log(format!("{name}: zone {}: {problem}", row.name));
        }
        policy.part.map(|part| self.share(part))
    }

    fn closed(&mut self, row: &ZoneRow) -> Arc<PolicyFragment> {
        self.share(PolicyFragment::closed(row.kind))
    }

    /// Logs a problem, once.
    fn log(&mut self, problem: String) {
        if self.logged.len() < LINES_MAX && !self.logged.contains(&problem) {
            tracing::warn!("{problem}");
            self.logged.insert(problem);
        }
    }
}

impl DatabaseFollower {
    /// Applies the policies of all zones. Call before new zones are published.
    pub(super) fn apply_policies(&mut self, zones: &PackedZones, settings: StoredSettings) {
        self.apply_keys(settings.keys, settings.autoprimaries);
        let name = self.name.clone();
        let policies = &mut self.policies;
        let mut set = policies.common.clone();
        match settings.items {
            Ok(mut items) => {
                policies.is_read = true;
                // Drops fragments that no zone has any longer.
                policies.shared.clear();
                let names = zones.rows().map(|row| (row.id, row.name));
                policies.templates = DatabaseTemplates::collect(names, &items);
                for row in zones.rows() {
                    let items = items.remove(&row.id).unwrap_or_default();
                    if let Some(part) = policies.part(&row, items, &name) {
                        set.set_zone(row.name.as_name(), part);
                    }
                }
                policies.table.set(policies.source, set);
            }
            Err(error) => {
                policies.log(format!(
                    "{name}: cannot read domainmetadata: {error}; zones not loaded yet refuse all transfers, NOTIFY \
                     and updates"
                ));
                let is_read = policies.is_read;
                let is_new = |row: &ZoneRow| !is_read || !self.zones.contains(row.id);
                let new = zones.rows().filter(is_new);
                let closed = new.map(|row| (row.name, Some(policies.closed(&row))));
                let closed: Vec<_> = closed.collect();
                policies.table.change(policies.source, closed);
            }
        }
    }

    /// Adopts keys and autoprimaries; if they cannot be read, the previous ones stay.
    fn apply_keys(
        &mut self,
        keys: Result<Vec<StoredTsigKey>, SqlError>,
        autoprimaries: Result<Vec<StoredAutoprimary>, SqlError>,
    ) {
        let name = &self.name;
        let policies = &mut self.policies;
        match keys {
            Ok(rows) => {
                let (keys, problems) = read_keys(&rows);
                let (cookies, invalid) = read_cookies(&rows);
                let (api_keys, incomplete) = SharedApiKey::from_rows(&rows);
                let common = &mut policies.common;
                (common.keys, common.cookies, common.api_keys) = (keys, cookies, api_keys);
                for problem in problems.into_iter().chain(invalid).chain(incomplete) {
                    policies.log(format!("{name}: {problem}"));
                }
            }
            Err(error) => policies.log(format!("{name}: cannot read tsigkeys: {error}")),
        }
        match autoprimaries {
            Ok(rows) => {
                let listed_by = policies.source;
                let autoprimary = |row: StoredAutoprimary| Autoprimary {
                    key: None,
                    address: row.address,
                    name_server: row.name_server,
                    template: String::new(),
                    listed_by,
                    account: row.account,
                };
                policies.common.autoprimaries = rows.into_iter().map(autoprimary).collect();
            }
            Err(error) => policies.log(format!("{name}: cannot read supermasters: {error}")),
        }
    }

    /// Reads and applies the policy of one zone; `None` for a removed one.
    pub(super) async fn apply_policy(&mut self, id: i64, row: Option<&ZoneRow>) {
        let before = self.zones.get(id).map(|zone| NameBuf::from(zone.name()));
        let Some(row) = row else {
            let gone = before.map(|zone| (zone, None));
            let policies = &mut self.policies;
            let templates = &mut policies.templates;
            self.pending.list |= before.is_some_and(|zone| templates.update(zone.as_name(), None));
            return policies.table.change(policies.source, gone);
        };
        let part = match self.backend.setting_items(Some(id)).await {
            Ok(mut items) => {
                let items = items.remove(&id).unwrap_or_default();
                let templates = &mut self.policies.templates;
                // Zones that use it, or a template that was not read yet: the settings of all zones are read.
                self.pending.list |= templates.update(row.name.as_name(), Some(&items))
                    || templates.is_unread(&items);
                self.policies.part(row, items, &self.name)
            }
            // The previous settings stay.
            Err(_) if self.policies.is_read && before == Some(row.name) => return,
            Err(_) => Some(self.policies.closed(row)),
        };
        let renamed = before.filter(|before| *before != row.name);
        let renamed = renamed.map(|before| (before, None));
        let changes = renamed.into_iter().chain([(row.name, part)]);
        self.policies.table.change(self.policies.source, changes);
    }

    /// Denies all access to zones that are known only from before the start.
    pub(super) fn close_policies<'z>(&mut self, zones: impl Iterator<Item = &'z [u8]>) {
        let part = self
            .policies
            .share(PolicyFragment::closed(Default::default()));
        let closed = zones.map(|zone| {
            let name = NameBuf::from(Name::from_wire(zone).unwrap_or(Name::ROOT));
            (name, Some(Arc::clone(&part)))
        });
        self.policies.table.change(self.policies.source, closed);
    }
}
