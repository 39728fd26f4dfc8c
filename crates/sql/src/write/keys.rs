//! Zone keys (`cryptokeys`), read and changed like `pdnsutil` does.
//!
//! Whether a key may be added or removed is decided under the zone lock, based on its rows alone: an unreadable key can
//! still be removed. Key texts never appear in errors.

use super::super::dialect::{SqlEngine, all_keys, octets};
use super::super::row::{Cells, read_zone_name};
use super::super::{SqlBackend, ZoneRow};
use super::key_refusal::{KeyRefusal, STORED_KEYS_MAX};
use super::session::{Failure, Session, Value};
use super::{WriteError, request::read_presigned};
use crate::SqlFuture;
use nameward_base::secret::Secret;
use nameward_wire::NameBuf;

/// A row of `cryptokeys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// `cryptokeys.id`; assigned by the database for a new key.
    pub id: i64,
    /// The DNSKEY flags, as stored.
    pub flags: i64,
    /// The key signs.
    pub is_active: bool,
    /// The key is published in the zone.
    pub is_published: bool,
    /// The private key text.
    pub content: Secret<String>,
}

/// One key change.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEdit {
    /// Adds a key to a zone without keys.
    AddFirst(StoredKey),
    Add(StoredKey),
    SetActive(i64, bool),
    SetPublished(i64, bool),
    /// Sets the use of a key as its policy requires, even for the last key of a zone.
    SetUse {
        id: i64,
        is_active: bool,
        is_published: bool,
    },
    Remove(i64),
    /// Removes a key as its policy requires, even the last key of a zone.
    Forget(i64),
    RemoveAll,
}

impl StoredKey {
    fn read(row: &dyn Cells) -> Self {
        StoredKey {
            id: row.int(0).unwrap_or(0),
            flags: row.int(1).unwrap_or(0),
            is_active: row.int(2) == Some(1),
            is_published: row.int(3) == Some(1),
            content: row.string(4).unwrap_or_default().into(),
        }
    }

    /// Checks whether answers have signatures made by it and validators can find it.
    fn is_used(&self) -> bool {
        self.is_active && self.is_published
    }
}

impl SqlBackend {
    /// Reads the keys of a zone sorted by ID, on the primary.
    pub fn stored_keys<'a>(
        &'a self,
        zone: &'a ZoneRow,
    ) -> SqlFuture<'a, Result<Vec<StoredKey>, WriteError>> {
        Box::pin(async move {
            let sql = select(self.engine(), "");
            self.list(&sql, &[Value::Int(zone.id)], StoredKey::read)
                .await
        })
    }

    /// Lists the zones that have keys, on the primary.
    pub fn zones_with_keys(&self) -> SqlFuture<'_, Result<Vec<NameBuf>, WriteError>> {
        Box::pin(async move {
            let name = octets(self.engine(), "name");
            let sql = format!(
                "SELECT id, {name} FROM domains WHERE id IN (SELECT domain_id FROM cryptokeys) ORDER BY name"
            );
            let zone = |row: &dyn Cells| {
                let mut zone = NameBuf::root();
                let read = read_zone_name(row.text(1).unwrap_or_default(), &mut zone);
                read.ok().map(|()| zone)
            };
            let zones = self.list(&sql, &[], zone).await?;
            Ok(zones.into_iter().flatten().collect())
        })
    }
}

/// Reads the keys of a locked zone, for a decision that holds until the end of the transaction. MySQL reads the newest
/// rows only if they are locked; others are those of the moment at which the transaction first read.
pub(super) async fn read_locked(
    session: &mut Session,
    zone: i64,
) -> Result<Vec<StoredKey>, Failure> {
    let lock = match session.engine() {
        SqlEngine::Mysql => " FOR UPDATE",
        _ => "",
    };
    let sql = select(session.engine(), lock);
    session
        .list(&sql, &[Value::Int(zone)], StoredKey::read)
        .await
}

fn select(engine: SqlEngine, lock: &str) -> String {
    all_keys(engine) + " WHERE domain_id = ? ORDER BY id" + lock
}

/// Makes one key change; returns false if it had no effect.
pub(super) async fn change(
    session: &mut Session,
    zone: i64,
    edit: &KeyEdit,
) -> Result<bool, WriteError> {
    let keys = read_locked(session, zone).await?;
    match edit {
        KeyEdit::AddFirst(_) if !keys.is_empty() => Err(KeyRefusal::HasKeys.into()),
        KeyEdit::AddFirst(key) | KeyEdit::Add(key) => {
            check_new(session, zone, key, &keys).await?;
            add(session, zone, key).await?;
            Ok(true)
        }
        KeyEdit::SetActive(id, value) => set(session, &keys, (*id, "active"), *value).await,
        KeyEdit::SetPublished(id, value) => set(session, &keys, (*id, "published"), *value).await,
        KeyEdit::SetUse {
            id,
            is_active,
            is_published,
        } => {
            let key = find(&keys, *id)?;
            let is_changed = (key.is_active, key.is_published) != (*is_active, *is_published);
            if is_changed {
                let sql = "UPDATE cryptokeys SET active = ?, published = ? WHERE id = ?";
                let values = [
                    Value::Bool(*is_active),
                    Value::Bool(*is_published),
                    Value::Int(*id),
                ];
                session.run(sql, &values).await?;
            }
            Ok(is_changed)
        }
        KeyEdit::Remove(id) => {
            find(&keys, *id)?;
            check_others(&keys, *id)?;
            remove(session, zone, *id).await
        }
        KeyEdit::Forget(id) => {
            find(&keys, *id)?;
            remove(session, zone, *id).await
        }
        KeyEdit::RemoveAll if keys.is_empty() => Err(KeyRefusal::NoKeys.into()),
        KeyEdit::RemoveAll => {
            let sql = "DELETE FROM cryptokeys WHERE domain_id = ?";
            session.run(sql, &[Value::Int(zone)]).await?;
            Ok(true)
        }
    }
}

async fn remove(session: &mut Session, zone: i64, id: i64) -> Result<bool, WriteError> {
    let sql = "DELETE FROM cryptokeys WHERE domain_id = ? AND id = ?";
    let values = [Value::Int(zone), Value::Int(id)];
    session.run(sql, &values).await?;
    Ok(true)
}

async fn check_new(
    session: &mut Session,
    zone: i64,
    key: &StoredKey,
    keys: &[StoredKey],
) -> Result<(), WriteError> {
    // The text may end with an empty line.
    let same = |other: &&StoredKey| {
        (other.flags, other.content.reveal().trim_end())
            == (key.flags, key.content.reveal().trim_end())
    };
    if let Some(same) = keys.iter().find(same) {
        return Err(KeyRefusal::Same(same.id).into());
    }
    if keys.len() >= STORED_KEYS_MAX {
        return Err(KeyRefusal::TooMany.into());
    }
    if read_presigned(session, zone).await? {
        Err(KeyRefusal::Presigned.into())
    } else {
        Ok(())
    }
}

async fn add(session: &mut Session, zone: i64, key: &StoredKey) -> Result<(), Failure> {
    let sql = "INSERT INTO cryptokeys (domain_id, flags, active, published, content) \
               VALUES (?, ?, ?, ?, ?)";
    let values = [
        Value::Int(zone),
        Value::Int(key.flags),
        Value::Bool(key.is_active),
        Value::Bool(key.is_published),
        Value::Text(key.content.reveal()),
    ];
    session.run(sql, &values).await
}

async fn set(
    session: &mut Session,
    keys: &[StoredKey],
    (id, column): (i64, &str),
    value: bool,
) -> Result<bool, WriteError> {
    let key = find(keys, id)?;
    let before = match column {
        "active" => key.is_active,
        _ => key.is_published,
    };
    if before == value {
        return Ok(false);
    }
    if !value {
        check_others(keys, id)?;
    }
    let sql = format!("UPDATE cryptokeys SET {column} = ? WHERE id = ?");
    let values = [Value::Bool(value), Value::Int(id)];
    session.run(&sql, &values).await?;
    Ok(true)
}

fn find(keys: &[StoredKey], id: i64) -> Result<&StoredKey, KeyRefusal> {
    let key = keys.iter().find(|key| key.id == id);
    key.ok_or(KeyRefusal::NotThere(id))
}

/// Refuses to remove the last key of a zone that signs: validators that know its DS would consider the zone bogus.
fn check_others(keys: &[StoredKey], id: i64) -> Result<(), KeyRefusal> {
    let was_used = keys.iter().any(|key| key.id == id && key.is_used());
    let is_left = keys.iter().any(|key| key.id != id && key.is_used());
    if was_used && !is_left {
        Err(KeyRefusal::Last(id))
    } else {
        Ok(())
    }
}
