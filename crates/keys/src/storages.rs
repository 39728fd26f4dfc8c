//! The only place that decides where the keys of a zone are.
//!
//! ```text
//! zone file, secondary   state store; private keys in files if the zone has a key directory (keys::local)
//! database zone          rows of `cryptokeys`, rollover states in the state store (keys::database)
//! ```

use super::database::{DatabaseKeys, KeyDatabase};
use super::local::{LocalZoneKeys, ZoneKeys, ZoneKeysError};
use super::storage::KeyStorage;
use nameward_wire::{Name, NameBuf};
use std::sync::Arc;

/// The storages of all zones.
pub struct KeyStorages {
    local: Arc<ZoneKeys>,
    databases: DatabaseKeys,
}

impl KeyStorages {
    /// Takes the keys in the state store, and the databases that store the keys of their zones.
    pub fn new(local: Arc<ZoneKeys>, databases: Vec<KeyDatabase>) -> Self {
        KeyStorages {
            databases: DatabaseKeys::new(local.state_store().cloned(), databases),
            local,
        }
    }

    /// Returns the keys in the state store.
    pub fn local(&self) -> &Arc<ZoneKeys> {
        &self.local
    }

    /// Finds the keys of a zone by the rank of the backend that serves it. A zone that is not served may be in a
    /// database and lack a SOA, or it has keys in the state store and its file is missing.
    pub fn find(
        &self,
        zone: Name<'_>,
        rank: Option<u16>,
    ) -> Result<Box<dyn KeyStorage + '_>, ZoneKeysError> {
        match self.databases.find(zone, rank)? {
            Some(found) => Ok(Box::new(found)),
            None => Ok(Box::new(LocalZoneKeys {
                keys: &self.local,
                zone: zone.into(),
                is_served: rank.is_some(),
            })),
        }
    }

    /// Checks whether the backend of a rank stores the keys of its zones.
    pub fn is_database(&self, rank: u16) -> bool {
        self.databases.has(rank)
    }

    /// Lists the zones with keys; those of a database have its rank.
    pub fn zones(&self) -> Result<Vec<(NameBuf, Option<u16>)>, ZoneKeysError> {
        let local = match self.local.zones() {
            Err(ZoneKeysError::NoStore) if !self.databases.is_empty() => Vec::new(),
            zones => zones?,
        };
        let mut zones: Vec<_> = local.into_iter().map(|zone| (zone, None)).collect();
        zones.extend(self.databases.zones_with_keys()?);
        Ok(zones)
    }

    /// Returns the name of this server in databases.
    pub fn server_name(&self) -> Result<String, ZoneKeysError> {
        self.databases.server()
    }

    /// Lists the zones whose keys are, or were, managed by a policy, and all others in the state store.
    pub(super) fn recorded_zones(&self) -> Vec<NameBuf> {
        let mut zones = self.local.zones().unwrap_or_default();
        zones.extend(self.databases.recorded_zones().unwrap_or_default());
        zones
    }
}
