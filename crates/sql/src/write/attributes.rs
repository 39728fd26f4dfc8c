//! Zone data in a database other than records: kind, primaries, account, catalog, metadata, comments.
//!
//! They are written in one transaction under the zone lock, like records, and announced to all servers.

use super::super::dialect::octets;
use super::super::row::{Cells, name_text};
use super::super::{SqlBackend, SqlError, ZoneRow};
use super::commit::{LockedZone, lock_zone};
use super::derive::CachedDenial;
use super::history;
use super::key_refusal::KeyRefusal;
use super::keys::{self, KeyEdit};
use super::rectify::rectify;
use super::request::{RequestedChange, SigningRows, read_signing};
use super::serial::RaisedSerial;
use super::session::{Failure, Session, Value};
use super::zone_row::kind_column;
use super::{Committed, Task, WriteError};
use crate::SqlFuture;
use nameward_wire::NameBuf;
use nameward_zone::ZoneKind;
use std::time::SystemTime;

/// Metadata kinds about signing.
const SIGNING_KINDS: [&str; 5] = [
    "NSEC3PARAM",
    "NSEC3NARROW",
    "PRESIGNED",
    "SOA-EDIT",
    "X-NAMEWARD-DENIAL",
];

/// A change to zone data other than records.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeChange {
    /// Adds or removes a key, or changes its use.
    Key(KeyEdit),
    /// Recomputes the columns that PowerDNS derives from names.
    Rectify,
    /// Changes items of a metadata kind.
    Metadata(String, MetadataEdit, Vec<String>),
    SetKind(ZoneKind),
    /// Sets `domains.master`, as written there.
    SetPrimaries(String),
    /// Sets `domains.account`.
    SetAccount(String),
    /// Sets the catalog of which the zone is a member, without its final dot; empty for none.
    SetCatalog(String),
    /// Sets `domains.options`, as JSON.
    SetOptions(String),
    /// Replaces all comments of an RRset.
    SetComments {
        name: Box<NameBuf>,
        /// The type, as stored.
        rtype: String,
        comments: Vec<NewComment>,
    },
}

/// A comment to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// The text.
    pub comment: String,
    /// The account of its author.
    pub account: String,
    /// Seconds since 1970.
    pub time: i64,
}

impl AttributeChange {
    /// Checks whether secondaries have to transfer the zone again.
    fn alters_transfers(&self) -> bool {
        match self {
            AttributeChange::Key(KeyEdit::Add(key)) => key.is_active || key.is_published,
            AttributeChange::Key(_) => true,
            AttributeChange::Metadata(kind, ..) => TRANSFERRED_KINDS.contains(&kind.as_str()),
            _ => false,
        }
    }

    /// Checks whether it affects how the zone is signed, and nothing in the list of zones.
    fn is_about_signing(&self) -> bool {
        match self {
            AttributeChange::Key(_) | AttributeChange::Rectify => true,
            AttributeChange::Metadata(kind, ..) => SIGNING_KINDS.contains(&kind.as_str()),
            _ => false,
        }
    }
}

/// Metadata kinds that change the contents of a signed zone transfer.
const TRANSFERRED_KINDS: [&str; 5] = [
    "NSEC3PARAM",
    "PRESIGNED",
    "PUBLISH-CDNSKEY",
    "PUBLISH-CDS",
    "SOA-EDIT",
];

/// How metadata items are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataEdit {
    /// Replaces all items of their kind; an empty list deletes the kind.
    Set,
    /// Adds them to the existing ones.
    Add,
    /// Removes them; all of their kind if the list is empty.
    Remove,
}

/// A metadata item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMetadata {
    /// The kind, such as `ALLOW-AXFR-FROM`.
    pub kind: String,
    /// The content as stored.
    pub content: String,
}

impl SqlBackend {
    /// Makes changes to zone data other than records, all or none.
    pub fn change_attributes<'a>(
        &'a self,
        zone: i64,
        changes: &'a [AttributeChange],
    ) -> SqlFuture<'a, Result<Committed, WriteError>> {
        Box::pin(async move {
            let committed = self.transact_one(&Task::Attributes(zone, changes)).await;
            // The list of zones contains kinds and primaries.
            if !changes.iter().all(AttributeChange::is_about_signing) {
                self.forget(None);
            }
            committed
        })
    }

    /// Lists the metadata of a zone, sorted by kind.
    pub fn stored_metadata<'a>(
        &'a self,
        zone: &'a ZoneRow,
    ) -> SqlFuture<'a, Result<Vec<StoredMetadata>, WriteError>> {
        Box::pin(async move {
            let content = octets(self.engine(), "content");
            let sql = format!(
                "SELECT domain_id, CAST(kind AS CHAR(32)), {content} FROM domainmetadata WHERE domain_id = ? ORDER BY kind, id"
            );
            let item = |row: &dyn Cells| StoredMetadata {
                kind: row.string(1).unwrap_or_default().trim().into(),
                content: row.string(2).unwrap_or_default(),
            };
            self.list(&sql, &[Value::Int(zone.id)], item).await
        })
    }
}

/// Makes the changes; the caller ends the transaction.
pub(super) async fn change(
    session: &mut Session,
    id: i64,
    changes: &[AttributeChange],
) -> Result<Committed, WriteError> {
    let zone = lock_zone(session, id).await?;
    let is_about_keys = changes.iter().any(AttributeChange::alters_transfers);
    let before = if is_about_keys {
        read_before(session, id).await?
    } else {
        None
    };
    let is_changed = change_locked(session, &zone, changes).await?;
    let is_key_edit = |change: &AttributeChange| matches!(change, AttributeChange::Key(_));
    let has_key_edit = changes.iter().any(is_key_edit);
    let raised = if is_changed && is_about_keys {
        raise_serial(session, &zone, before, has_key_edit).await?
    } else {
        None
    };
    if is_changed && raised.is_none() {
        session.notify_change(id).await?;
    }
    let without = Committed::without_records((id, zone.name), is_changed);
    Ok(match raised {
        // A zone in memory has to be read with its keys.
        Some(raised) => Committed {
            has_soa: raised.has_soa,
            serial: raised.serial,
            ..without
        },
        None => without,
    })
}

/// Reads how a zone is signed before a change; `None` if a row is unreadable, which may be the one that the change repairs. After
/// any other failure the database may have rolled back the transaction.
async fn read_before(session: &mut Session, zone: i64) -> Result<Option<SigningRows>, Failure> {
    match read_signing(session, zone).await {
        Err(Failure::Sql(SqlError::Row(_))) => Ok(None),
        signing => signing.map(Some),
    }
}

/// Increases the serial of a zone whose signing changed, so that its secondaries transfer it again; `None` if it is
/// unchanged. The serial of a secondary zone is that of its primary, and that of a zone signed elsewhere is covered by
/// a signature.
async fn raise_serial(
    session: &mut Session,
    zone: &ZoneRow,
    before: Option<SigningRows>,
    has_key_edit: bool,
) -> Result<Option<Committed>, WriteError> {
    if zone.kind.is_transferred() {
        return Ok(None);
    }
    let mut locked = LockedZone::from_row(session, zone.clone()).await?;
    if locked.signing.is_presigned {
        return Ok(None);
    }
    let is_unsigned = |signing: &SigningRows| matches!(signing.denial, CachedDenial::Unsigned);
    let was_unsigned = before.as_ref().is_none_or(is_unsigned);
    if !has_key_edit && was_unsigned && is_unsigned(&locked.signing) {
        return Ok(None);
    }
    let now = SystemTime::now();
    let after = locked.signing.soa_edit;
    let serial = RaisedSerial {
        apex: zone.name.as_name().zone().into(),
        soa_edit: (before.map_or(after, |before| before.soa_edit), after),
        now,
    };
    let committed = history::change(session, &mut locked, RequestedChange::When(&serial)).await?;
    Ok(committed.is_changed.then_some(committed))
}

/// Makes changes to a locked zone; returns false if they had no effect.
pub(super) async fn change_locked(
    session: &mut Session,
    zone: &ZoneRow,
    changes: &[AttributeChange],
) -> Result<bool, WriteError> {
    let id = zone.id;
    let is_signing = changes.iter().any(AttributeChange::is_about_signing);
    let signing = if is_signing {
        read_before(session, id).await?
    } else {
        None
    };
    let mut is_changed = false;
    for change in changes {
        is_changed |= write(session, id, change).await?;
    }
    if is_signing && is_changed {
        follow_signing(session, zone, signing).await?;
    }
    if changes.contains(&AttributeChange::Rectify) {
        let denial = read_signing(session, id).await?.denial;
        is_changed |= rectify(session, zone, denial).await?;
    }
    Ok(is_changed)
}

/// Updates the columns that PowerDNS derives from names to a new signing state, and refuses one that is not possible.
async fn follow_signing(
    session: &mut Session,
    zone: &ZoneRow,
    before: Option<SigningRows>,
) -> Result<(), WriteError> {
    let after = read_signing(session, zone.id).await?;
    let was_presigned = before.as_ref().is_some_and(|before| before.is_presigned);
    if after.is_presigned && !was_presigned {
        check_signatures(session, zone).await?;
    }
    if before.is_none_or(|before| before.denial != after.denial) {
        rectify(session, zone, after.denial).await?;
    }
    Ok(())
}

/// Refuses PRESIGNED for a zone that has keys, and no signature at its apex that could replace theirs.
async fn check_signatures(session: &mut Session, zone: &ZoneRow) -> Result<(), WriteError> {
    let apex = name_text(zone.name.as_name().zone());
    let sql = "SELECT id FROM cryptokeys WHERE domain_id = ? AND active LIMIT 1";
    let has_keys = session.finds(sql, &[Value::Int(zone.id)]).await?;
    let sql = "SELECT id FROM records WHERE domain_id = ? AND name = ? AND type = 'RRSIG' AND NOT disabled LIMIT 1";
    let values = [Value::Int(zone.id), Value::Text(&apex)];
    let has_signatures = session.finds(sql, &values).await?;
    if has_keys && !has_signatures {
        Err(KeyRefusal::NoSignatures.into())
    } else {
        Ok(())
    }
}

/// Makes one change; returns false if it had no effect.
async fn write(
    session: &mut Session,
    id: i64,
    change: &AttributeChange,
) -> Result<bool, WriteError> {
    Ok(match change {
        AttributeChange::Key(edit) => return keys::change(session, id, edit).await,
        // Done after all others.
        AttributeChange::Rectify => false,
        AttributeChange::SetKind(kind) => set(session, id, "type", kind_column(*kind)).await?,
        AttributeChange::SetPrimaries(text) => set(session, id, "master", text).await?,
        AttributeChange::SetAccount(text) => set(session, id, "account", text).await?,
        AttributeChange::SetCatalog(text) => set(session, id, "catalog", text).await?,
        AttributeChange::SetOptions(text) => set(session, id, "options", text).await?,
        AttributeChange::Metadata(kind, edit, contents) => {
            write_metadata(session, (id, kind), *edit, contents).await?
        }
        AttributeChange::SetComments {
            name,
            rtype,
            comments,
        } => write_comments(session, id, (name, rtype), comments).await?,
    })
}

/// Replaces the comments of an RRset; false if there were none and are none.
async fn write_comments(
    session: &mut Session,
    id: i64,
    (name, rtype): (&NameBuf, &str),
    comments: &[NewComment],
) -> Result<bool, Failure> {
    let owner = name_text(name.as_name());
    let values = [Value::Int(id), Value::Text(&owner), Value::Text(rtype)];
    let sql = "SELECT domain_id FROM comments WHERE domain_id = ? AND name = ? AND type = ?";
    let has_old = session.finds(sql, &values).await?;
    if has_old {
        let sql = "DELETE FROM comments WHERE domain_id = ? AND name = ? AND type = ?";
        session.run(sql, &values).await?;
    }
    for comment in comments {
        let sql = "INSERT INTO comments (domain_id, name, type, modified_at, account, comment) \
                   VALUES (?, ?, ?, ?, ?, ?)";
        let values = [
            Value::Int(id),
            Value::Text(&owner),
            Value::Text(rtype),
            Value::Int(comment.time),
            Value::Text(&comment.account),
            Value::Text(&comment.comment),
        ];
        session.run(sql, &values).await?;
    }
    Ok(has_old || !comments.is_empty())
}

/// Sets a column in the zone's row; empty text becomes NULL.
async fn set(session: &mut Session, id: i64, column: &str, value: &str) -> Result<bool, Failure> {
    let sql = format!("UPDATE domains SET {column} = ? WHERE id = ?");
    let value = (!value.is_empty()).then_some(value);
    session.run(&sql, &[value.into(), Value::Int(id)]).await?;
    Ok(true)
}

/// Reads the items of a kind.
pub(super) async fn read_metadata(
    session: &mut Session,
    (id, kind): (i64, &str),
) -> Result<Vec<String>, Failure> {
    let content = octets(session.engine(), "content");
    let sql = format!(
        "SELECT domain_id, {content} FROM domainmetadata WHERE domain_id = ? AND kind = ? ORDER BY id"
    );
    let values = [Value::Int(id), Value::Text(kind)];
    let found = session.list(&sql, &values, |row| row.string(1)).await?;
    Ok(found.into_iter().flatten().collect())
}

pub(super) async fn write_metadata(
    session: &mut Session,
    (id, kind): (i64, &str),
    edit: MetadataEdit,
    contents: &[String],
) -> Result<bool, Failure> {
    let before = read_metadata(session, (id, kind)).await?;
    let after: Vec<String> = match edit {
        MetadataEdit::Set => contents.to_vec(),
        MetadataEdit::Add => {
            let new = contents.iter().filter(|text| !before.contains(text));
            before.iter().chain(new).cloned().collect()
        }
        MetadataEdit::Remove if contents.is_empty() => Vec::new(),
        MetadataEdit::Remove => {
            let stays = |text: &&String| !contents.contains(text);
            before.iter().filter(stays).cloned().collect()
        }
    };
    if before == after {
        return Ok(false);
    }
    let sql = "DELETE FROM domainmetadata WHERE domain_id = ? AND kind = ?";
    let values = [Value::Int(id), Value::Text(kind)];
    session.run(sql, &values).await?;
    for content in &after {
        let sql = "INSERT INTO domainmetadata (domain_id, kind, content) VALUES (?, ?, ?)";
        let values = [Value::Int(id), Value::Text(kind), Value::Text(content)];
        session.run(sql, &values).await?;
    }
    Ok(true)
}
