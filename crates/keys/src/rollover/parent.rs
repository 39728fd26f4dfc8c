//! Compares the DS RRset at a parent's servers with the keys of a zone.

use super::RolloverManager;
use crate::local::ZoneKey;
use nameward_dnssec::rollover::DsSight;
use nameward_wire::{Name, NameBuf};
use std::net::SocketAddr;

/// DS digest types that a parent may have used for a key.
const DIGESTS: [u8; 3] = [1, 2, 4];

/// A query for the DS of a zone.
pub struct ParentQuery {
    /// The zone.
    pub zone: NameBuf,
    /// The servers of its parent; the resolvers of this server if empty.
    pub servers: Vec<SocketAddr>,
}

/// The answers of all queried servers: the DS data of each, `None` for one that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentAnswer {
    /// The zone.
    pub zone: NameBuf,
    /// One entry per server.
    pub servers: Vec<Option<Vec<Vec<u8>>>>,
}

/// Queries the parent; the answer goes to the driver, some time later or never.
pub trait QueryParent: Send {
    /// Starts a query. Must not block.
    fn ask(&mut self, question: ParentQuery);
}

impl ParentAnswer {
    /// Returns what the servers agree on about the DS of a key: all have it, none has it, or nothing certain.
    pub(super) fn sight(&self, zone: Name<'_>, key: &ZoneKey) -> Option<DsSight> {
        let made = key.key().ok()?;
        let own = DIGESTS.map(|digest| made.ds(zone, digest));
        let is_own = |ds: &Vec<u8>| own.iter().flatten().any(|own| own == ds);
        let mut has = self.servers.iter().map(|server| {
            let records = server.as_ref()?;
            Some(records.iter().any(is_own))
        });
        let first = has.next()??;
        // A server that does not answer may have either.
        match (first, has.all(|other| other == Some(first))) {
            (_, false) => None,
            (true, true) => Some(DsSight::Seen),
            (false, true) => Some(DsSight::Gone),
        }
    }
}

impl RolloverManager {
    /// Returns the query for the parent of a zone with a pending DS change, and the seconds until it is repeated.
    pub fn parent_question(&self, zone: Name<'_>) -> Option<(ParentQuery, u64)> {
        let storage = self.storage(zone).ok()?;
        let keys = storage.keys().ok()?;
        keys.iter().find_map(ZoneKey::awaited_ds)?;
        // Stored with the zone, so that it also applies after the policy is removed.
        let parent = storage.settings().ok()?.managed?.parent;
        let question = ParentQuery {
            zone: zone.into(),
            servers: parent.servers,
        };
        Some((question, parent.interval))
    }

    /// Processes the answer of a parent; returns whether it was awaited.
    pub fn take_answer(&self, answer: &ParentAnswer, now: u64) -> bool {
        let zone = answer.zone.as_name();
        let keys = self.storage(zone).and_then(|storage| Ok(storage.keys()?));
        let Ok(keys) = keys else {
            return false;
        };
        let mut is_news = false;
        for key in &keys {
            let Some(sight) = answer.sight(zone, key) else {
                continue;
            };
            if key.life.is_none() {
                continue;
            }
            match self.record_ds((zone, Some(key.number)), sight, now) {
                Ok(noted) => is_news |= !noted.is_empty(),
                Err(error) => tracing::error!("zone {zone}: {error}"),
            }
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_dnssec::rollover::KeyRole;
    use nameward_dnssec::{KeyUse, PrivateKey};

    #[test]
    fn a_ds_is_present_if_all_servers_have_it_and_absent_if_none_has() {
        let zone: NameBuf = "a.test.".parse().unwrap();
        let key = ZoneKey {
            number: 1,
            flags: 257,
            role: KeyRole::Combined,
            usage: KeyUse::EVERYTHING,
            created: 0,
            life: None,
            private: PrivateKey::generate(13, 0).unwrap(),
            location: crate::local::PrivateKeyLocation::Store,
        };
        let own = key.key().unwrap().ds(zone.as_name(), 4).unwrap();
        let other = vec![0; own.len()];
        let sight = |servers| ParentAnswer { zone, servers }.sight(zone.as_name(), &key);
        let with = || Some(vec![other.clone(), own.clone()]);
        let without = || Some(vec![other.clone()]);
        assert_eq!(sight(vec![with(), with()]), Some(DsSight::Seen));
        assert_eq!(sight(vec![without(), Some(vec![])]), Some(DsSight::Gone));
        assert_eq!(sight(vec![with(), without()]), None);
        assert_eq!(sight(vec![with(), None]), None);
        assert_eq!(sight(vec![None]), None);
        assert_eq!(sight(vec![]), None);
    }
}
