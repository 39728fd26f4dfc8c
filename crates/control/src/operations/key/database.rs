//! Operations on the keys of database zones: rows of `cryptokeys`, read and written as PowerDNS does, and the
//! metadata for denial of existence.

use nameward_dnssec::{Denial, DenialSettings, KeyError, Nsec3, SigningKey};
use nameward_maintain::keys::database::{number_of, read_row, read_rows};
use nameward_maintain::keys::local::{ZoneKey, ZoneKeysError};
use nameward_store::sql::ZoneRow;
use nameward_store::sql::write::{
    AttributeChange, KeyEdit, KeyRefusal, MetadataEdit, StoredKey, WriteError,
};
use nameward_wire::NameBuf;

use super::signing_settings::{RequestedSigning, check_denial, signed_already};
use super::zone_keys::{listed, no_keys, of_keys};
use crate::operations::{
    Database, ErrorKind, KeyChange, ListedZoneKey, OperationError, Operations,
};

/// Metadata that is removed with the keys of a zone: as `pdnsutil disable-dnssec`, and our own kind.
pub(in crate::operations) const DENIAL_KINDS: [&str; 4] = [
    "NSEC3PARAM",
    "NSEC3NARROW",
    "PRESIGNED",
    "X-NAMEWARD-DENIAL",
];

/// A zone of a database.
pub(in crate::operations) type DatabaseZone<'o> = (&'o Database, ZoneRow);

impl Operations {
    /// Finds the database that stores the keys of a zone; `None` for zones whose keys are in the state store.
    pub(in crate::operations) fn key_home(
        &self,
        name: &NameBuf,
    ) -> Result<Option<DatabaseZone<'_>>, OperationError> {
        let rank = (self.rank_of)(name.as_name());
        let is_database = |rank| self.databases.iter().any(|one| one.rank == rank);
        match rank {
            Some(rank) if is_database(rank) => self.locate(name).map(Some),
            Some(_) => Ok(None),
            // One that cannot be served yet, or the keys of a missing file.
            None => match self.locate(name) {
                Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
                found => found.map(Some),
            },
        }
    }

    /// Reads the key rows of a zone.
    pub(in crate::operations) fn key_rows(
        &self,
        (database, row): &DatabaseZone<'_>,
    ) -> Result<Vec<StoredKey>, OperationError> {
        let rows = self.runtime.block_on(database.backend.stored_keys(row));
        rows.map_err(|error| database.error(&error))
    }

    /// Reads the keys of a zone from its database, except inactive ones with an unknown algorithm.
    pub(in crate::operations) fn database_keys(
        &self,
        zone: &DatabaseZone<'_>,
    ) -> Result<Vec<ZoneKey>, OperationError> {
        let rows = self.key_rows(zone)?;
        let mut keys = read_rows(&rows).map_err(of_keys(&zone.1.name))?;
        self.keeper.add_lives(zone.1.name.as_name(), &mut keys);
        Ok(keys)
    }

    /// Lists the keys of a zone in its database, including unreadable ones.
    pub(in crate::operations) fn listed_rows(
        &self,
        zone: &DatabaseZone<'_>,
    ) -> Result<Vec<ListedZoneKey>, OperationError> {
        let (rows, name) = (self.key_rows(zone)?, &zone.1.name);
        let mut keys: Vec<ZoneKey> = rows.iter().filter_map(|row| read_row(row).ok()).collect();
        self.keeper.add_lives(name.as_name(), &mut keys);
        let keys = rows.iter().map(|row| {
            let read = read_row(row).and_then(|key| {
                // The library may reject the numbers.
                SigningKey::new(&key.private, key.flags, key.usage)?;
                Ok(key)
            });
            let number = number_of(row);
            match read {
                Ok(key) => {
                    let with_life = keys.iter().find(|other| other.number == number);
                    listed(name, with_life.unwrap_or(&key), &keys)
                }
                Err(error) => Ok(unreadable(name, row, error)),
            }
        });
        keys.collect()
    }

    /// Changes keys and signing metadata in one transaction, and updates the server's answers; false if nothing
    /// changed.
    pub(in crate::operations) fn write_signing(
        &self,
        (database, row): &DatabaseZone<'_>,
        changes: &[AttributeChange],
    ) -> Result<bool, OperationError> {
        let changed = database.backend.change_attributes(row.id, changes);
        let committed = self.runtime.block_on(changed);
        let committed = committed.map_err(|error| of_attributes(database, &row.name, &error))?;
        if committed.is_changed {
            for warning in self.publish(database, &committed)? {
                tracing::warn!("zone {}: {warning}", row.name);
            }
        }
        Ok(committed.is_changed)
    }

    /// Signs a database zone: its first key and the metadata for denial and serials.
    pub(in crate::operations) fn secure_in_database(
        &self,
        zone: &DatabaseZone<'_>,
        terms: &RequestedSigning,
        key: &ZoneKey,
    ) -> Result<ListedZoneKey, OperationError> {
        let mut changes = terms.metadata();
        changes.push(AttributeChange::Key(KeyEdit::AddFirst(stored(key))));
        self.write_signing(zone, &changes)?;
        let number = self.number_of_new(zone, key)?;
        let mut keys = self.listed_rows(zone)?.into_iter();
        let key = keys.find(|listed| listed.key == number);
        key.ok_or_else(|| of_keys(&zone.1.name)(ZoneKeysError::NotThere(number)))
    }

    /// Adds a key to a database zone; returns its number.
    pub(in crate::operations) fn add_in_database(
        &self,
        zone: &DatabaseZone<'_>,
        key: &ZoneKey,
    ) -> Result<u32, OperationError> {
        let (database, row) = zone;
        key.key().map_err(of_keys(&row.name))?;
        let items = self.runtime.block_on(database.backend.stored_metadata(row));
        let items = items.map_err(|error| database.error(&error))?;
        if items.iter().any(|item| item.kind == "NSEC3PARAM") {
            let nsec3 = DenialSettings {
                denial: Denial::Nsec3(Nsec3::default()),
                ..DenialSettings::default()
            };
            check_denial(&row.name, &nsec3, std::slice::from_ref(key))?;
        }
        let change = AttributeChange::Key(KeyEdit::Add(stored(key)));
        self.write_signing(zone, &[change])?;
        self.number_of_new(zone, key)
    }

    /// Finds the number that the database assigned to a key.
    fn number_of_new(&self, zone: &DatabaseZone<'_>, key: &ZoneKey) -> Result<u32, OperationError> {
        let written = stored(key);
        let rows = self.key_rows(zone)?;
        let is_it =
            |row: &&StoredKey| (row.flags, &row.content) == (written.flags, &written.content);
        rows.iter().find(is_it).map(number_of).ok_or_else(|| {
            let name = zone.1.name;
            OperationError::backend(format!(
                "zone {name}: the new key is no longer in the database"
            ))
        })
    }

    /// Changes the use of a key in a database.
    pub(in crate::operations) fn change_in_database(
        &self,
        zone: &DatabaseZone<'_>,
        number: u32,
        change: KeyChange,
    ) -> Result<(), OperationError> {
        let id = i64::from(number);
        let edit = match change {
            KeyChange::Activate => KeyEdit::SetActive(id, true),
            KeyChange::Deactivate => KeyEdit::SetActive(id, false),
            KeyChange::Publish => KeyEdit::SetPublished(id, true),
            KeyChange::Unpublish => KeyEdit::SetPublished(id, false),
        };
        self.write_signing(zone, &[AttributeChange::Key(edit)])?;
        Ok(())
    }

    /// Removes a key from a database.
    pub(in crate::operations) fn remove_in_database(
        &self,
        zone: &DatabaseZone<'_>,
        number: u32,
    ) -> Result<(), OperationError> {
        let edit = KeyEdit::Remove(number.into());
        self.write_signing(zone, &[AttributeChange::Key(edit)])?;
        Ok(())
    }

    /// Removes all keys of a zone from its database, and the metadata for denial of existence; returns how many keys
    /// there were.
    pub(in crate::operations) fn unsecure_in_database(
        &self,
        zone: &DatabaseZone<'_>,
    ) -> Result<usize, OperationError> {
        let count = self.key_rows(zone)?.len();
        let remove =
            |kind: &str| AttributeChange::Metadata(kind.into(), MetadataEdit::Remove, Vec::new());
        let mut changes = vec![AttributeChange::Key(KeyEdit::RemoveAll)];
        changes.extend(DENIAL_KINDS.map(remove));
        self.write_signing(zone, &changes)?;
        Ok(count)
    }
}

/// Creates the error for a change that a database rejected.
pub(in crate::operations) fn of_attributes(
    database: &Database,
    name: &NameBuf,
    error: &WriteError,
) -> OperationError {
    match error {
        WriteError::Keys(refusal) => of_refusal(name, *refusal),
        error => database.error(error),
    }
}

fn of_refusal(name: &NameBuf, refusal: KeyRefusal) -> OperationError {
    let kind = match refusal {
        KeyRefusal::HasKeys => return signed_already(name),
        KeyRefusal::NoKeys => return no_keys(name),
        KeyRefusal::NotThere(_) => ErrorKind::NotFound,
        KeyRefusal::Same(_) | KeyRefusal::ChangedMeanwhile | KeyRefusal::OtherServer => {
            ErrorKind::Conflict
        }
        KeyRefusal::Last(id) => {
            return OperationError::refused(format!(
                "key {id} is the only active key of zone {name}; use `nameward zone unsecure {name}` to stop signing"
            ));
        }
        KeyRefusal::TooMany | KeyRefusal::Presigned | KeyRefusal::NoSignatures => {
            ErrorKind::Refused
        }
    };
    OperationError::new(kind, format!("zone {name}: {refusal}"))
}

pub(in crate::operations) fn stored(key: &ZoneKey) -> StoredKey {
    StoredKey {
        id: 0,
        flags: key.flags.into(),
        is_active: key.usage.is_active(),
        is_published: key.usage.published,
        content: key.private.to_stored_text(),
    }
}

/// Returns an unusable key, with what is known of it.
fn unreadable(name: &NameBuf, row: &StoredKey, error: KeyError) -> ListedZoneKey {
    let algorithm = SigningKey::unsupported_algorithm(row.content.as_bytes());
    ListedZoneKey {
        zone: name.to_string(),
        key: number_of(row),
        tag: 0,
        role: match row.flags & 1 {
            1 => "ksk".into(),
            _ => "zsk".into(),
        },
        algorithm: algorithm.map_or_else(|| "unknown".into(), |number| number.to_string()),
        algorithm_number: algorithm.unwrap_or(0),
        bits: 0,
        flags: u16::try_from(row.flags).unwrap_or_default(),
        state: None,
        active: row.is_active,
        published: row.is_published,
        created: None,
        ds: None,
        digests: Vec::new(),
        dnskey: String::new(),
        problem: Some(error.to_string()),
    }
}
