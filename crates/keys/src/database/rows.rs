//! Rows of `cryptokeys` as keys, and keys as rows, like PowerDNS reads and writes them.

use crate::local::{PrivateKeyLocation, ZoneKey, ZoneKeysError, role_of};
use crate::storage::{KeyEntry, RequestedSigning, UnusableKey};
use nameward_dnssec::{KeyError, KeyUse, PrivateKey, SigningKey, SoaEdit};
use nameward_sql::write::{AttributeChange, KeyEdit, MetadataEdit, StoredKey};

/// Metadata that is removed with the keys of a zone: as `pdnsutil disable-dnssec`, and our own kind.
const DENIAL_KINDS: [&str; 4] = [
    "NSEC3PARAM",
    "NSEC3NARROW",
    "PRESIGNED",
    "X-NAMEWARD-DENIAL",
];

/// Returns the change that adds the first key of a zone.
pub fn first_key(key: &ZoneKey) -> AttributeChange {
    AttributeChange::Key(KeyEdit::AddFirst(row(key)))
}

/// Returns the changes that remove all keys of a zone, and the metadata for denial of existence.
pub fn removal() -> impl Iterator<Item = AttributeChange> {
    let remove =
        |kind: &str| AttributeChange::Metadata(kind.into(), MetadataEdit::Remove, Vec::new());
    let metadata = DENIAL_KINDS.into_iter().map(remove);
    std::iter::once(AttributeChange::Key(KeyEdit::RemoveAll)).chain(metadata)
}

/// Returns the metadata changes for requested settings, as in PowerDNS.
pub(super) fn signing_metadata(request: &RequestedSigning) -> Vec<AttributeChange> {
    let mut changes = Vec::new();
    if let Some(denial) = &request.denial {
        let items = denial.metadata();
        changes.extend(items.map(|(kind, content)| set_metadata(kind, content)));
    }
    if let Some(edit) = request.soa_edit {
        let word = (edit != SoaEdit::None).then(|| edit.word());
        changes.push(set_metadata("SOA-EDIT", word));
    }
    changes
}

/// Returns the change that sets a metadata item, or removes it.
pub(super) fn set_metadata(kind: &str, content: Option<&str>) -> AttributeChange {
    let contents = content.map(str::to_owned).into_iter().collect();
    AttributeChange::Metadata(kind.into(), MetadataEdit::Set, contents)
}

pub(super) fn row(key: &ZoneKey) -> StoredKey {
    StoredKey {
        id: 0,
        flags: key.flags.into(),
        is_active: key.usage.is_active(),
        is_published: key.usage.published,
        content: key.private.to_stored_text(),
    }
}

/// Reads rows as entries of a list: unusable keys, too.
pub(super) fn list_row(row: &StoredKey) -> KeyEntry {
    let usable = read_row(row).and_then(|key| {
        // The library may reject the numbers.
        SigningKey::new(&key.private, key.flags, key.usage)?;
        Ok(key)
    });
    match usable {
        Ok(key) => KeyEntry::Usable(Box::new(key)),
        Err(error) => KeyEntry::Unusable(UnusableKey {
            number: number_of(row),
            flags: u16::try_from(row.flags).unwrap_or_default(),
            algorithm: SigningKey::unsupported_algorithm(row.content.reveal().as_bytes()),
            is_active: row.is_active,
            is_published: row.is_published,
            reason: error.to_string(),
        }),
    }
}

/// Reads rows as keys, except inactive ones with an unknown algorithm.
pub(super) fn read_rows(rows: &[StoredKey]) -> Result<Vec<ZoneKey>, ZoneKeysError> {
    let is_idle = |row: &&StoredKey| {
        let unknown = SigningKey::unsupported_algorithm(row.content.reveal().as_bytes());
        !row.is_active && unknown.is_some()
    };
    let used = rows.iter().filter(|row| !is_idle(row));
    let keys = used.map(|row| {
        let number = number_of(row);
        read_row(row).map_err(|error| ZoneKeysError::Key { number, error })
    });
    keys.collect()
}

/// Reads a row of `cryptokeys` as a key. Databases do not store its creation time.
pub(super) fn read_row(row: &StoredKey) -> Result<ZoneKey, KeyError> {
    let flags = u16::try_from(row.flags).map_err(|_| KeyError::Flags(0))?;
    Ok(ZoneKey {
        number: number_of(row),
        flags,
        role: role_of(flags),
        usage: KeyUse::by_flags(flags, row.is_active, row.is_published),
        created: 0,
        life: None,
        private: PrivateKey::from_text(row.content.reveal().as_bytes())?,
        location: PrivateKeyLocation::Store,
    })
}

/// Returns the number of a row. They are small; a larger one cannot belong to a key that a command names.
pub(super) fn number_of(row: &StoredKey) -> u32 {
    u32::try_from(row.id).unwrap_or(u32::MAX)
}
