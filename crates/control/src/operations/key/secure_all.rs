//! Signs all unsigned zones, one after the other, reporting each as it is done.

use std::collections::{BTreeMap, HashSet};

use nameward_keys::storage::RequestedSigning;
use nameward_sql::write::WriteError;
use nameward_wire::NameBuf;
use nameward_zone::ZoneKind;
use serde::{Deserialize, Serialize};

use crate::operations::{
    ItemSink, ListedItem, OperationResult, Operations, Outcome, or_dash, table_row,
};

/// A zone among those to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecuredZone {
    /// The zone, with its final dot.
    pub zone: String,
    /// Its number among them, from 1.
    pub number: u64,
    /// How many there are.
    pub of: u64,
    /// The tag of the new key; none if it is not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<u16>,
    /// Why it is not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

table_row! { SecuredZone as item:
    "ZONE" = item.zone,
    "KEY TAG" = or_dash(item.tag),
    "PROBLEM" = or_dash(item.problem.as_ref()),
}

impl Operations {
    /// Signs all zones of databases and files that have no keys. Transferred zones and catalogs are left alone. A
    /// failure does not affect other zones; it stops early if the client disconnects.
    pub(crate) fn secure_all(&self, items: ItemSink<'_>) -> Outcome {
        let zones = self.unsigned_zones()?;
        let (of, mut secured) = (zones.len() as u64, 0);
        for (number, zone) in (1..).zip(&zones) {
            let result = self.secure_zone(&zone.to_string(), None, &RequestedSigning::default());
            let (tag, problem) = match result {
                Ok(OperationResult::ZoneSecured { key, .. }) => (Some(key.tag), None),
                Ok(_) => (None, None),
                Err(error) => (None, Some(error.message)),
            };
            secured += u64::from(tag.is_some());
            let is_open = items(ListedItem::Secured(SecuredZone {
                zone: zone.to_string(),
                number,
                of,
                tag,
                problem,
            }));
            if !is_open {
                break;
            }
        }
        Ok(OperationResult::Listed { items: secured })
    }

    /// Lists the unsigned zones that are maintained here, by name.
    fn unsigned_zones(&self) -> Outcome<Vec<NameBuf>> {
        let signed: HashSet<NameBuf> = self.zones_with_keys()?.into_iter().collect();
        let is_made_here = |kind: ZoneKind| matches!(kind, ZoneKind::Native | ZoneKind::Primary);
        let mut found = BTreeMap::new();
        let mut note = |name: NameBuf| {
            if !signed.contains(&name) {
                found.insert(name.as_name().to_string(), name);
            }
        };
        for database in &self.databases {
            let listed = self.runtime.block_on(database.backend.zones());
            let listed = listed.map_err(|error| database.error(&WriteError::Sql(error)))?;
            let own = listed.rows().filter(|zone| is_made_here(zone.kind));
            own.for_each(|zone| note(zone.name));
        }
        let policies = self.policies.load();
        (self.each_zone)(&mut |name, rank| {
            if !self.is_database(rank) && is_made_here(policies.get(name).kind) {
                note(name.into());
            }
        });
        Ok(found.into_values().collect())
    }
}
