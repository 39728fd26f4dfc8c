//! Copies a zone's keys into the copy of a deleted zone and back. Key files in a directory stay where they are: the
//! copy has their names.

use super::{KEYS, ZONES, ZoneKeys, ZoneKeysError, forget, item_name, wire};
use nameward_base::secret::Secret;
use nameward_state::StateChange;
use nameward_wire::Name;

/// The items in the state store about the signing of one zone, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeysCopy {
    /// The keys by number.
    pub keys: Vec<(u32, Secret<Vec<u8>>)>,
    /// The signing settings of the zone.
    pub terms: Option<Secret<Vec<u8>>>,
}

impl ZoneKeys {
    /// Copies everything stored about the signing of a zone; empty without a state store.
    pub fn copy(&self, zone: Name<'_>) -> Result<KeysCopy, ZoneKeysError> {
        let Some(store) = &self.store else {
            return Ok(KeysCopy::default());
        };
        Ok(KeysCopy {
            keys: self.values(zone)?,
            terms: store.item(ZONES, &wire(zone))?,
        })
    }

    /// Restores a copy and signs the zone with its keys. Call before the zone is served.
    pub fn restore(&self, zone: Name<'_>, copy: KeysCopy) -> Result<(), ZoneKeysError> {
        if copy == KeysCopy::default() {
            return Ok(());
        }
        let _changing = self.changing.lock();
        let set = |kind, name, value| StateChange::SetItem { kind, name, value };
        let keys = copy.keys.into_iter();
        let keys = keys.map(|(number, value)| set(KEYS, item_name(zone, number), value));
        let terms = copy.terms.map(|value| set(ZONES, wire(zone), value));
        self.store()?.write(keys.chain(terms).collect())?;
        self.refresh(zone)
    }

    /// Deletes the keys of a zone that is deleted. Key files in a directory stay.
    pub fn forget(&self, zone: Name<'_>) -> Result<(), ZoneKeysError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _changing = self.changing.lock();
        let values = self.values(zone)?;
        let numbers = values.iter().map(|(number, _)| *number);
        let mut changes: Vec<_> = numbers.map(|number| forget(zone, number)).collect();
        changes.push(StateChange::remove_item(ZONES, wire(zone)));
        store.write(changes)?;
        self.refresh(zone)
    }
}
