//! Zones as a whole: made, deleted, found, and listed with all that is stored of them.

use super::super::dialect::{Engine, Statement};
use super::super::row::{read_content, write_name};
use super::super::{Kind, SqlBackend, SqlError, ZoneRow, read_zone};
use super::commit::{change, lock_zone};
use super::session::{Failure, Session, Value};
use super::{Committed, WriteError};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::{ChangeOrigin, Edit, RrsetData, ZoneChange};
use std::time::SystemTime;

/// A zone to be made.
#[derive(Debug, Clone)]
pub struct NewZone {
    /// Its name.
    pub name: NameBuf,
    /// What it is to this server.
    pub kind: Kind,
    /// `master`: where a secondary gets it from.
    pub primaries: Option<String>,
    /// Its first records; none for a secondary.
    pub rrsets: Vec<RrsetData>,
    /// The time.
    pub now: SystemTime,
}

/// A record as it is stored, whether it is served or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// `records.id`.
    pub id: i64,
    /// The owner as stored.
    pub name: String,
    /// The type as stored.
    pub rtype: String,
    /// The TTL, if there is one.
    pub ttl: Option<i64>,
    /// The data in zone-file form, or what is stored if it is not valid.
    pub content: Result<String, String>,
    /// It is not served.
    pub disabled: bool,
}

pub(super) async fn create(session: &mut Session, zone: &NewZone) -> Result<Committed, WriteError> {
    let mut name = String::new();
    write_name(zone.name.as_name(), &mut name);
    if find(session, &name).await?.is_some() {
        return Err(WriteError::Refused(format!(
            "the zone {} is there already",
            zone.name
        )));
    }
    let sql = "INSERT INTO domains (name, type, master) VALUES (?, ?, ?)";
    let values = [
        Value::Text(&name),
        Value::Text(zone.kind.text()),
        zone.primaries.as_deref().into(),
    ];
    session.run(sql, &values).await?;
    let found = find(session, &name).await?;
    let row = found.ok_or(WriteError::NoSuchZone)?;
    session.tell(row.id).await?;
    if zone.rrsets.is_empty() {
        return Ok(Committed {
            zone: row.id,
            apex: row.name,
            is_changed: true,
            is_gone: false,
            has_soa: false,
            serial: Serial::default(),
            warnings: Vec::new(),
        });
    }
    let first = ZoneChange {
        edits: zone.rrsets.iter().cloned().map(Edit::Replace).collect(),
        origin: ChangeOrigin::Transfer,
        now: zone.now,
    };
    change(session, &row, &first).await
}

pub(super) async fn delete(session: &mut Session, id: i64) -> Result<Committed, WriteError> {
    let zone = lock_zone(session, id).await?;
    // By hand: not every schema has foreign keys, and SQLite does not enforce them by default.
    for table in ["records", "comments", "domainmetadata", "cryptokeys"] {
        let sql = format!("DELETE FROM {table} WHERE domain_id = ?");
        session.run(&sql, &[Value::Int(id)]).await?;
    }
    let sql = "DELETE FROM domains WHERE id = ?";
    session.run(sql, &[Value::Int(id)]).await?;
    session.tell(id).await?;
    Ok(Committed {
        zone: id,
        apex: zone.name,
        is_changed: true,
        is_gone: true,
        has_soa: false,
        serial: Serial::default(),
        warnings: Vec::new(),
    })
}

async fn find(session: &mut Session, name: &str) -> Result<Option<ZoneRow>, Failure> {
    let sql = Statement::Zones.sql(session.engine(), 0) + " WHERE name = ?";
    let mut found = None;
    session
        .rows(&sql, &[Value::Text(name)], &mut |row| {
            found = Some(read_zone(row).map_err(SqlError::Row));
        })
        .await?;
    Ok(found.transpose()?)
}

impl Kind {
    /// As it is stored.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Native => "NATIVE",
            Kind::Primary => "MASTER",
            Kind::Secondary => "SLAVE",
            Kind::Producer => "PRODUCER",
            Kind::Consumer => "CONSUMER",
        }
    }
}

impl SqlBackend {
    /// Finds a zone by its name, on the primary.
    pub async fn find_zone(&self, name: Name<'_>) -> Result<Option<ZoneRow>, WriteError> {
        let mut text = String::new();
        write_name(name, &mut text);
        let mut session = self.reader().await?;
        let found = find(&mut session, &text).await?;
        self.inner.writer.give_back(session);
        Ok(found)
    }

    /// Hands over what is stored of a zone, or of one of its names, on the primary: disabled records and such that
    /// cannot be served too. Ends when `each` says false.
    pub async fn stored_records(
        &self,
        zone: i64,
        name: Option<Name<'_>>,
        each: &mut (dyn FnMut(StoredRecord) -> bool + Send),
    ) -> Result<(), WriteError> {
        let mut session = self.reader().await?;
        let engine = session.engine();
        let columns = Statement::ZoneRows.sql(engine, 0);
        let columns = columns
            .split(" FROM ")
            .next()
            .unwrap_or_default()
            .to_owned();
        let disabled = match engine {
            Engine::Postgres => "CAST(CAST(disabled AS INT) AS BIGINT)",
            _ => "disabled",
        };
        let mut text = String::new();
        let mut sql =
            format!("{columns}, {disabled} FROM records WHERE domain_id = ? AND type IS NOT NULL");
        let mut values = vec![Value::Int(zone)];
        if let Some(name) = name {
            write_name(name, &mut text);
            sql.push_str(" AND name = ?");
            values.push(Value::Text(&text));
        }
        let mut goes_on = true;
        session
            .rows(&sql, &values, &mut |row| {
                let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
                let content = row.text(5).unwrap_or_default();
                let mut rdata = Vec::new();
                let rtype = Type::from_text(row.text(2).unwrap_or_default());
                let read = rtype.ok_or_else(|| "the type is not known".to_owned());
                let shown = read.and_then(|rtype| {
                    read_content(rtype, row.int(4), content, &mut rdata)?;
                    let mut shown = String::new();
                    nameward_wire::rdata::write_text(rtype, &rdata, &mut shown)
                        .map_err(|_| "it cannot be shown".to_owned())?;
                    Ok(shown)
                });
                goes_on = goes_on
                    && each(StoredRecord {
                        id: row.int(0).unwrap_or(0),
                        name: text(1).into_owned(),
                        rtype: text(2).into_owned(),
                        ttl: row.int(3),
                        content: shown.map_err(|_| text(5).into_owned()),
                        disabled: row.int(6) != Some(0),
                    });
            })
            .await?;
        self.inner.writer.give_back(session);
        Ok(())
    }

    /// A connection to the primary that is known to answer.
    async fn reader(&self) -> Result<Session, WriteError> {
        let writer = &self.inner.writer;
        if let Some(mut session) = writer.take()
            && session.run("SELECT 1", &[]).await.is_ok()
        {
            return Ok(session);
        }
        Session::open(&self.inner.options.address)
            .await
            .map_err(WriteError::Sql)
    }
}
