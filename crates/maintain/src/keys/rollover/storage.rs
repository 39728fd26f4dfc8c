//! Storage of keys: the state store for file zones and secondaries, the database for its zones.

use super::{DnssecPolicy, ManagedZone, NO_POLICY, RolloverError, RolloverManager, TtlSink};
use crate::keys::database::{KeyDatabase, KeyZone, POLICY_METADATA, StoredKeysError};
use crate::keys::local::{KeyPlan, SigningSettings, ZoneKey};
use nameward_store::sql::write::KEY_SERVER;
use nameward_wire::Name;
use nameward_zone::SigningState;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Where the keys of a zone are stored.
pub(super) enum KeyLocation<'k> {
    /// The state store; the zone is in memory.
    Store,
    /// The database that has the zone.
    Database(Box<KeyZone<'k>>),
}

impl RolloverManager {
    /// Sets the databases that store the keys of their zones, and the runtime that drives their connections.
    pub fn set_databases(&self, databases: Vec<KeyDatabase>, runtime: Handle) {
        self.stored.set_databases(databases, runtime);
    }

    /// Checks whether a zone has its keys in a database.
    pub(super) fn is_in_database(&self, zone: Name<'_>) -> bool {
        let table = self.table.load();
        let rank = table.exact(zone).map(|served| served.rank());
        rank.is_some_and(|rank| self.databases.contains(&rank))
    }

    /// Reads the keys of a zone, with their rollover states.
    pub fn keys_of(&self, zone: Name<'_>) -> Result<Vec<ZoneKey>, RolloverError> {
        let rank = self.database_rank(zone);
        match rank {
            None => Ok(self.keys.keys(zone)?),
            Some(rank) => {
                let found = self.stored.zone(zone, rank)?;
                let home = found.ok_or(RolloverError::NotLoaded)?;
                Ok(self.stored.keys(&home)?)
            }
        }
    }

    /// Adds the rollover states to the keys of a database zone, if a policy manages them.
    pub fn add_lives(&self, zone: Name<'_>, keys: &mut [ZoneKey]) {
        // Without a store there are no policies.
        let _ = self.stored.add_lives(zone, keys);
    }

    /// Reads how a zone is signed.
    pub(super) fn terms_of(&self, zone: Name<'_>) -> Result<SigningSettings, RolloverError> {
        Ok(if self.is_in_database(zone) {
            self.stored.terms(zone)?
        } else {
            self.keys.terms(zone)?
        })
    }

    pub(super) fn database_rank(&self, zone: Name<'_>) -> Option<u16> {
        let table = self.table.load();
        let rank = table.exact(zone)?.rank();
        self.databases.contains(&rank).then_some(rank)
    }

    /// Determines what has to be done for a zone.
    pub(super) fn looked_after(&self, zone: Name<'_>) -> Result<ManagedZone<'_>, RolloverError> {
        if let Some(rank) = self.database_rank(zone) {
            return self.looked_after_in_database(zone, rank);
        }
        let table = self.table.load();
        let served = table.exact(zone).ok_or(RolloverError::NotLoaded)?;
        let version = served.unsigned();
        if version.is_stand_in() || !version.is_ready() {
            return Err(RolloverError::NotLoaded);
        }
        if matches!(version.signing(), SigningState::Stored(_)) {
            return Err(RolloverError::Presigned);
        }
        let policy = self.named_policy(self.policy_name(zone))?;
        let mut plan = match &policy {
            Some(policy) => policy.plan(),
            None => {
                let terms: SigningSettings = self.keys.terms(zone)?;
                let managed = terms.managed.clone().ok_or(RolloverError::NoPolicy)?;
                KeyPlan::insecure(&terms, &managed)
            }
        };
        plan.rollover.times.take_ttls(&version);
        Ok(ManagedZone {
            home: KeyLocation::Store,
            plan,
            policy,
        })
    }

    fn named_policy(
        &self,
        name: Option<String>,
    ) -> Result<Option<Arc<DnssecPolicy>>, RolloverError> {
        let Some(name) = name else {
            return Ok(None);
        };
        match self.policies.load().get(&name) {
            Some(policy) => Ok(Some(Arc::clone(policy))),
            None => Err(RolloverError::NoSuchPolicy(name)),
        }
    }

    /// Like [`RolloverManager::looked_after`]. The policy is read from the metadata of the zone each time: the policy table
    /// may not have it yet, and a zone must not go insecure because of that.
    fn looked_after_in_database(
        &self,
        zone: Name<'_>,
        rank: u16,
    ) -> Result<ManagedZone<'_>, RolloverError> {
        let terms = self.stored.terms(zone);
        let found = self.stored.zone(zone, rank)?;
        let home = found.ok_or(RolloverError::NotLoaded)?;
        let metadata = self.stored.metadata(&home)?;
        let item = |wanted: &str| {
            let mut items = metadata.iter();
            let found = items.find(|(kind, content)| kind == wanted && !content.is_empty());
            found.map(|(_, content)| content.clone())
        };
        let name = match item(POLICY_METADATA) {
            Some(name) => Some(name).filter(|name| name != NO_POLICY),
            None => self.policy_name(zone),
        };
        let policy = self.named_policy(name)?;
        let mut plan = match &policy {
            Some(policy) => policy.plan(),
            None => {
                let terms = terms.map_err(|_| RolloverError::NoPolicy)?;
                let managed = terms.managed.clone().ok_or(RolloverError::NoPolicy)?;
                KeyPlan::insecure(&terms, &managed)
            }
        };
        if item("PRESIGNED").as_deref() == Some("1") {
            return Err(RolloverError::Presigned);
        }
        if home.row.kind.is_transferred() {
            return Err(StoredKeysError::Secondary.into());
        }
        if let Some(server) = item(KEY_SERVER)
            && server != self.stored.server()?
        {
            return Err(StoredKeysError::OtherServer.into());
        }
        self.stored.take_ttls(&home, &mut plan.rollover.times)?;
        Ok(ManagedZone {
            home: KeyLocation::Database(Box::new(home)),
            plan,
            policy,
        })
    }
}
