//! Whole zones: created, deleted, found, and listed with everything stored about them.

use super::super::dialect::{SqlEngine, record_columns};
use super::super::row::{
    Cells, RowFault, name_text, read_content, read_name, read_ttl, read_type, zone_name_text,
};
use super::super::{SqlBackend, ZoneRow};
use super::commit::{LockedZone, change, lock_zone};
use super::content::keeps_text;
use super::history;
use super::request::RequestedChange;
use super::session::{Failure, Session, Value};
use super::zone_copy::{self, CopyOrder};
use super::zone_row::{find, kind_column};
use super::{AttributeChange, Committed, WriteError, attributes};
use crate::SqlFuture;
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::{ChangeOrigin, Edit, RrsetData, ZoneChange};
use nameward_zone::{SerialRule, ZoneKind};
use std::fmt::Write;
use std::time::SystemTime;

/// Maximum number of characters in `domains.master` in the narrowest of the schemas.
pub const MASTER_MAX: usize = 128;

/// A zone to create.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone)]
pub struct NewZone {
    pub name: NameBuf,
    pub kind: ZoneKind,
    /// `master`: the primaries of a secondary.
    pub primaries: Option<String>,
    /// `account`: the owner of the zone; may be empty.
    pub account: String,
    /// The key that signs transfers from the primaries.
    pub key: Option<NameBuf>,
    /// Its first records; none for a secondary.
    pub rrsets: Vec<RrsetData>,
    /// Metadata, keys, comments and other attributes, written with it.
    pub attributes: Vec<AttributeChange>,
    pub now: SystemTime,
}

/// A stored record, whether served or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// `records.id`.
    pub id: i64,
    /// The owner with its final dot, or as stored if it is invalid.
    pub name: String,
    /// The type as stored.
    pub rtype: String,
    /// The served TTL.
    pub ttl: u32,
    /// The data in zone file format, or as stored if it is invalid.
    pub content: String,
    /// The content as stored, where clients expect it back like that ([`super::keeps_text`]).
    pub text: Option<String>,
    /// Why it cannot be served.
    pub problem: Option<String>,
    /// It is not served.
    pub disabled: bool,
}

impl StoredRecord {
    /// Reads a row: id, name, type, ttl, prio, content, disabled.
    pub(super) fn read(row: &dyn Cells) -> Self {
        let (name, rtype, content) = (
            row.text(1).unwrap_or_default(),
            row.text(2).unwrap_or_default(),
            row.text(5).unwrap_or_default(),
        );
        let mut owner = NameBuf::root();
        let owner = read_name(name, &mut owner).map(|()| {
            let mut text = String::with_capacity(name.len() + 1);
            // Writing to a String cannot fail.
            let _ = write!(text, "{owner}");
            text
        });
        let known = read_type(rtype);
        let keeps = known.as_ref().is_ok_and(|rtype| keeps_text(*rtype));
        let data = known.and_then(|rtype| {
            let mut rdata = Vec::with_capacity(content.len());
            read_content(rtype, row.int(4), content, &mut rdata)?;
            let mut text = String::with_capacity(content.len() + 1);
            nameward_wire::rdata::write_text(rtype, &rdata, &mut text)
                .map_err(|error| RowFault::Content(rtype, error.to_string()))?;
            Ok(text)
        });
        let keeps = keeps && data.is_ok();
        let problem = owner.as_ref().err().or(data.as_ref().err());
        let problem = problem.map(ToString::to_string);
        StoredRecord {
            id: row.int(0).unwrap_or(0),
            name: owner.unwrap_or_else(|_| escaped(name)),
            rtype: escaped(rtype),
            ttl: read_ttl(row.int(3)),
            content: data.unwrap_or_else(|_| escaped(content)),
            text: if keeps {
                std::str::from_utf8(content).ok().map(str::to_owned)
            } else {
                None
            },
            problem,
            disabled: row.int(6) != Some(0),
        }
    }
}

/// Returns the columns that [`StoredRecord::read`] expects.
pub(super) fn stored_columns(engine: SqlEngine) -> String {
    let disabled = match engine {
        SqlEngine::Postgres => "CAST(CAST(disabled AS INT) AS BIGINT)",
        _ => "disabled",
    };
    format!("{}, {disabled}", record_columns(engine))
}

/// Formats database text on one line, safe for a terminal.
fn escaped(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    if let (true, Ok(plain)) = (text.iter().all(u8::is_ascii_graphic), str::from_utf8(text)) {
        out.push_str(plain);
        return out;
    }
    for c in String::from_utf8_lossy(text).chars() {
        if c.is_control() {
            out.extend(c.escape_unicode())
        } else {
            out.push(c)
        }
    }
    out
}

pub(super) async fn create(session: &mut Session, zone: &NewZone) -> Result<Committed, WriteError> {
    let name = zone_name_text(zone.name.as_name());
    if find(session, &name).await?.is_some() {
        return Err(WriteError::Exists(zone.name.to_string()));
    }
    let sql = "INSERT INTO domains (name, type, master, account) VALUES (?, ?, ?, ?)";
    let account = Some(zone.account.as_str()).filter(|account| !account.is_empty());
    let values = [
        Value::Text(&name),
        Value::Text(kind_column(zone.kind)),
        zone.primaries.as_deref().into(),
        account.into(),
    ];
    session.run(sql, &values).await?;
    let found = find(session, &name).await?;
    let row = found.ok_or(WriteError::NoSuchZone)?;
    if let Some(key) = &zone.key {
        sign_transfers(session, &name, key).await?;
    }
    session.notify_change(row.id).await?;
    attributes::change_locked(session, &row, &zone.attributes).await?;
    if zone.rrsets.is_empty() {
        return Ok(Committed::without_records((row.id, row.name), true));
    }
    let first = ZoneChange {
        edits: zone.rrsets.iter().cloned().map(Edit::Replace).collect(),
        origin: ChangeOrigin::Transfer,
        now: zone.now,
        serial: SerialRule::default(),
    };
    let mut locked = LockedZone::from_row(session, row).await?;
    change(session, &mut locked, RequestedChange::Change(&first)).await
}

/// Configures transfers of a zone from its primaries to be signed with a key, like `pdnsutil activate-tsig-key`.
pub(super) async fn sign_transfers(
    session: &mut Session,
    zone: &str,
    key: &NameBuf,
) -> Result<(), Failure> {
    let text = name_text(key.as_name());
    let sql = "INSERT INTO domainmetadata (domain_id, kind, content) \
               SELECT id, 'AXFR-MASTER-TSIG', ? FROM domains WHERE name = ?";
    session
        .run(sql, &[Value::Text(&text), Value::Text(zone)])
        .await
}

pub(super) async fn delete(
    session: &mut Session,
    id: i64,
    copy: Option<CopyOrder<'_>>,
) -> Result<Committed, WriteError> {
    let zone = lock_zone(session, id).await?;
    if let Some(copy) = copy {
        zone_copy::store_copy(session, &zone, copy).await?;
    }
    delete_rows_of(session, id).await?;
    Ok(Committed {
        is_gone: true,
        ..Committed::without_records((id, zone.name), true)
    })
}

/// Deletes all rows of a zone, in all tables, and notifies other servers.
pub(super) async fn delete_rows_of(session: &mut Session, id: i64) -> Result<(), Failure> {
    // Explicitly: not every schema has foreign keys, and SQLite does not enforce them by default.
    for table in ["records", "comments", "domainmetadata", "cryptokeys"] {
        let sql = format!("DELETE FROM {table} WHERE domain_id = ?");
        session.run(&sql, &[Value::Int(id)]).await?;
    }
    history::forget(session, id).await?;
    let sql = "DELETE FROM domains WHERE id = ?";
    session.run(sql, &[Value::Int(id)]).await?;
    session.notify_change(id).await
}

impl SqlBackend {
    /// Finds a zone by name, on the primary.
    pub fn find_zone<'a>(
        &'a self,
        name: Name<'a>,
    ) -> SqlFuture<'a, Result<Option<ZoneRow>, WriteError>> {
        Box::pin(async move {
            let text = zone_name_text(name);
            let mut session = self.reader().await?;
            let found = find(&mut session, &text).await?;
            self.inner.writer.give_back(session);
            Ok(found)
        })
    }

    /// Passes on all stored records of a zone, or of one of its names, on the primary, including disabled and unusable
    /// ones. The SOA comes first, then the apex, then other names sorted as text. Ends when `each` returns false.
    pub fn stored_records<'a>(
        &'a self,
        zone: &'a ZoneRow,
        name: Option<Name<'a>>,
        each: &'a mut (dyn FnMut(StoredRecord) -> bool + Send),
    ) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let session = self.reader().await?;
            let columns = stored_columns(session.engine());
            let apex = name_text(zone.name.as_name().zone());
            let owner = name.map(name_text);
            let mut sql =
                format!("SELECT {columns} FROM records WHERE domain_id = ? AND type IS NOT NULL");
            let mut values = vec![Value::Int(zone.id)];
            let each = &mut |row: &dyn Cells| each(StoredRecord::read(row));
            if let Some(owner) = &owner {
                sql.push_str(" AND name = ?");
                values.push(Value::Text(owner));
            } else if session.engine() == SqlEngine::Sqlite {
                return self
                    .stream_by_index(session, &sql, (zone.id, &apex), each)
                    .await;
            }
            // Sorted by the database: a zone may be larger than the memory that one command should take here.
            sql.push_str(
                " ORDER BY CASE WHEN type = 'SOA' THEN 0 WHEN name = ? THEN 1 ELSE 2 END, name, type, id",
            );
            values.push(Value::Text(&apex));
            self.stream_rows(session, (&sql, &values), each).await
        })
    }

    /// Passes on the rows of a zone in a SQLite file: first the apex, then the rest in the order of the index on zone, name and
    /// type, which PowerDNS has. Sorting a large zone takes longer than reading it.
    async fn stream_by_index(
        &self,
        mut session: Session,
        sql: &str,
        (zone, apex): (i64, &str),
        each: &mut (dyn FnMut(&dyn Cells) -> bool + Send),
    ) -> Result<(), WriteError> {
        let values = [Value::Int(zone), Value::Text(apex)];
        let first = format!("{sql} AND name = ? ORDER BY type <> 'SOA', type, id");
        let others = format!("{sql} AND name IS NOT ? ORDER BY name, type, id");
        // Both see the same state of the file.
        session.begin_reading().await?;
        for sql in [first, others] {
            if !session.rows_while(&sql, &values, each).await? {
                return Ok(());
            }
        }
        session.commit().await?;
        self.inner.writer.give_back(session);
        Ok(())
    }

    /// Passes on the rows of a statement until `each` returns false, and keeps the connection if all of them were read.
    pub(super) async fn stream_rows(
        &self,
        mut session: Session,
        (sql, values): (&str, &[Value<'_>]),
        each: &mut (dyn FnMut(&dyn Cells) -> bool + Send),
    ) -> Result<(), WriteError> {
        if session.rows_while(sql, values, each).await? {
            self.inner.writer.give_back(session);
        }
        Ok(())
    }

    /// Reads the rows of a statement on the primary.
    pub(super) async fn list<T: Send>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&dyn Cells) -> T + Send,
    ) -> Result<Vec<T>, WriteError> {
        let mut session = self.reader().await?;
        let found = session.list(sql, values, read).await?;
        self.inner.writer.give_back(session);
        Ok(found)
    }

    /// Returns a connection to the primary that is known to respond.
    pub(super) async fn reader(&self) -> Result<Session, WriteError> {
        let (writer, primary) = (&self.inner.writer, &self.inner.primary);
        let has_others = primary.has_several_servers();
        if let Some(mut session) = writer.take(primary) {
            if session.engine() == SqlEngine::Sqlite || session.responds(has_others).await {
                return Ok(session);
            }
            writer.leave(session, primary);
        }
        Ok(Session::open(primary).await?)
    }

    /// Ends the use of a session by statements with this result: undoes what they may have left open, and keeps the
    /// session if its server is not at fault.
    pub(super) async fn end_use<T>(&self, mut session: Session, result: &Result<T, Failure>) {
        let (writer, primary) = (&self.inner.writer, &self.inner.primary);
        match result {
            Err(Failure::Sql(error)) if error.is_of_server() => writer.leave(session, primary),
            // A transaction that was started ends with the session.
            Err(_) if session.rollback().await.is_err() => {}
            _ => writer.give_back(session),
        }
    }

    /// Returns a session for a change, which is repeated if the session turns out to be broken. One that hangs is found out
    /// before, if there is another server.
    pub(super) async fn changer(&self) -> Result<Session, WriteError> {
        let (writer, primary) = (&self.inner.writer, &self.inner.primary);
        if primary.has_several_servers() {
            return self.reader().await;
        }
        match writer.take(primary) {
            Some(session) => Ok(session),
            None => Ok(Session::open(primary).await?),
        }
    }
}
