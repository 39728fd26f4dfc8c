//! The history of zones in their database: a row for each change made by Nameward, with the records it removed and added.
//!
//! The table is optional; `nameward db init` creates it. A row is written in the transaction of its change, so that the table never has
//! a change that was not made, and servers that share the database share the history. Changes by other programs are not in it: they
//! show as a serial that no row leads to. Each zone keeps a bounded number of rows and octets.

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, int, octets};
use super::super::row::{Cells, zone_name_text};
use super::commit::{self, LockedZone};
use super::request::RequestedChange;
use super::session::{Failure, Session, Value};
use super::{Committed, WriteError};
use crate::SqlFuture;
use crate::{SqlError, ZoneRow};
use data_encoding::BASE64;
use nameward_base::time::now_seconds;
use nameward_state::{JournalEntry, JournalOrigin, JournalVersion};
use nameward_zone::change::{ChangeAuthor, ChangeOrigin, Difference};
use nameward_zone::{RecordList, Serial};
use std::time::{Duration, Instant};

/// Changes kept for each zone.
const ENTRIES_MAX: i64 = 1000;
/// Octets of all differences kept for each zone.
const OCTETS_MAX: i64 = 16 << 20;
/// Octets of one difference: as base64, a third of what MySQL takes as one statement by default (16 MiB).
const DIFFERENCE_MAX: usize = 4 << 20;
/// Old rows are deleted with every change whose number this divides.
const PRUNING_INTERVAL: i64 = 32;

/// How often the table of the history is looked for, which `nameward db init` may create while the server runs.
const HISTORY_TABLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the statement that creates the table. `total` counts the octets of all differences up to this one.
pub(crate) fn create(engine: SqlEngine) -> String {
    let (integer, zone, text, end) = match engine {
        SqlEngine::Sqlite => (
            "INTEGER",
            "INTEGER NOT NULL REFERENCES domains(id) ON DELETE CASCADE",
            "TEXT",
            ")",
        ),
        SqlEngine::Postgres => (
            "BIGINT",
            "BIGINT NOT NULL REFERENCES domains(id) ON DELETE CASCADE",
            "TEXT",
            ")",
        ),
        // Like the other tables there: without a foreign key.
        SqlEngine::Mysql => (
            "BIGINT",
            "BIGINT NOT NULL",
            "MEDIUMTEXT",
            ") ENGINE = InnoDB CHARACTER SET utf8mb4",
        ),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS nameward_history (domain_id {zone}, number {integer} NOT NULL, \
         zone VARCHAR(255) NOT NULL, from_serial {integer} NOT NULL, to_serial {integer} NOT NULL, \
         changed_at {integer} NOT NULL, origin VARCHAR(16) NOT NULL, who {text}, message {text}, \
         removed {text} NOT NULL, added {text} NOT NULL, total {integer} NOT NULL, \
         PRIMARY KEY (domain_id, number){end}"
    )
}

/// Returns the statement that finds the table, if rows can be added to it.
fn probe(engine: SqlEngine) -> &'static str {
    match engine {
        SqlEngine::Sqlite => "SELECT 1 FROM sqlite_master WHERE name = 'nameward_history'",
        SqlEngine::Postgres => {
            "SELECT CAST(oid AS BIGINT) FROM pg_class WHERE relname = 'nameward_history' \
             AND pg_table_is_visible(oid) AND has_table_privilege(oid, 'SELECT') \
             AND has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'DELETE')"
        }
        SqlEngine::Mysql => {
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() \
             AND table_name = 'nameward_history'"
        }
    }
}

impl Session {
    /// Finds out whether the database has a table of the history; not within a transaction.
    pub(super) async fn find_history(&mut self) -> Result<(), SqlError> {
        let is_due = |at: Instant| at.elapsed() >= HISTORY_TABLE_CHECK_INTERVAL;
        if self.history.is_there || !self.history.sought.is_none_or(is_due) {
            return Ok(());
        }
        self.history.sought = Some(Instant::now());
        match self.finds(probe(self.engine()), &[]).await {
            Err(Failure::Sql(error)) if error.is_of_server() => return Err(error),
            // A compatible database may not have what it is found by.
            Err(_) => {}
            Ok(found) => self.history.is_there = found,
        }
        Ok(())
    }

    /// Checks whether changes are noted in a table of the history.
    pub(super) fn has_history(&self) -> bool {
        self.history.is_there
    }
}

/// Makes a change with its row in the history; the caller ends the transaction.
pub(super) async fn change(
    session: &mut Session,
    locked: &mut LockedZone,
    requested: RequestedChange<'_>,
) -> Result<Committed, WriteError> {
    let committed = commit::change(session, locked, requested).await?;
    if session.has_history() && committed.is_changed {
        note(session, &locked.row, &committed, requested).await?;
    }
    Ok(committed)
}

async fn note(
    session: &mut Session,
    zone: &ZoneRow,
    committed: &Committed,
    requested: RequestedChange<'_>,
) -> Result<(), Failure> {
    let (Some(difference), Some(previous)) = (&committed.difference, committed.previous) else {
        // What it did is not known, or the zone is new.
        return Ok(());
    };
    if difference.octets() > DIFFERENCE_MAX {
        // Nothing leads across it.
        return forget(session, zone.id).await;
    }
    let engine = session.engine();
    let sql = format!(
        "SELECT {}, {} FROM nameward_history WHERE domain_id = ? ORDER BY number DESC LIMIT 1",
        int(engine, "number"),
        int(engine, "total")
    );
    let read = |row: &dyn Cells| (row.int(0).unwrap_or(0), row.int(1).unwrap_or(0));
    let mut rows = session.list(&sql, &[Value::Int(zone.id)], read).await?;
    let (last, total) = rows.pop().unwrap_or_default();
    let (number, total) = (last + 1, total + difference.octets() as i64);
    let name = zone_name_text(zone.name.as_name());
    let author = requested.author();
    let message = author.as_ref().and_then(|author| author.message.as_deref());
    let (removed, added) = (encode(&difference.removed), encode(&difference.added));
    let sql = "INSERT INTO nameward_history (domain_id, number, zone, from_serial, to_serial, changed_at, origin, \
               who, message, removed, added, total) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let values = [
        Value::Int(zone.id),
        Value::Int(number),
        Value::Text(&name),
        Value::Int(previous.0.into()),
        Value::Int(committed.serial.0.into()),
        Value::Int(now_seconds() as i64),
        Value::Text(match requested.origin() {
            ChangeOrigin::Operator => "change",
            ChangeOrigin::Transfer => "transfer",
        }),
        author.as_ref().map(|author| &*author.who).into(),
        message.into(),
        Value::Text(&removed),
        Value::Text(&added),
        Value::Int(total),
    ];
    session.run(sql, &values).await?;
    if number % PRUNING_INTERVAL == 0 {
        let sql =
            "DELETE FROM nameward_history WHERE domain_id = ? AND (number <= ? OR total <= ?)";
        let values = [
            Value::Int(zone.id),
            Value::Int(number - ENTRIES_MAX),
            Value::Int(total - OCTETS_MAX),
        ];
        session.run(sql, &values).await?;
    }
    Ok(())
}

/// Deletes the history of a zone.
pub(super) async fn forget(session: &mut Session, zone: i64) -> Result<(), Failure> {
    if !session.has_history() {
        return Ok(());
    }
    let sql = "DELETE FROM nameward_history WHERE domain_id = ?";
    session.run(sql, &[Value::Int(zone)]).await
}

fn encode(list: &RecordList) -> String {
    BASE64.encode(list.as_bytes())
}

impl SqlBackend {
    /// Reads the history of a zone, the oldest change first; `None` if the database has no table for it.
    pub fn history<'a>(
        &'a self,
        zone: &'a ZoneRow,
    ) -> SqlFuture<'a, Result<Option<Vec<JournalVersion>>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            session.find_history().await?;
            if !session.has_history() {
                self.inner.writer.give_back(session);
                return Ok(None);
            }
            let engine = session.engine();
            let integers =
                ["from_serial", "to_serial", "changed_at"].map(|column| int(engine, column));
            let texts = ["origin", "who", "message", "removed", "added"]
                .map(|column| octets(engine, column));
            let sql = format!(
                "SELECT {}, {} FROM nameward_history WHERE domain_id = ? AND zone = ? ORDER BY number",
                integers.join(", "),
                texts.join(", ")
            );
            let name = zone_name_text(zone.name.as_name());
            let values = [Value::Int(zone.id), Value::Text(&name)];
            let unreadable = || SqlError::row("nameward_history", zone.id, "unreadable change");
            let versions = session.list(&sql, &values, read).await?;
            self.inner.writer.give_back(session);
            let versions = versions.into_iter().map(|read| read.ok_or_else(unreadable));
            let versions = versions.collect::<Result<Vec<_>, _>>();
            Ok(Some(versions?))
        })
    }
}

fn read(row: &dyn Cells) -> Option<JournalVersion> {
    let serial = |column| Some(Serial(u32::try_from(row.int(column)?).ok()?));
    let list = |column| RecordList::from_bytes(BASE64.decode(row.text(column)?).ok()?).ok();
    let entry = JournalEntry {
        from: serial(0)?,
        to: serial(1)?,
        origin: match row.string(3)?.as_str() {
            "transfer" => JournalOrigin::Transfer,
            _ => JournalOrigin::Change,
        },
        time: u64::try_from(row.int(2)?).ok()?,
        difference: Difference {
            removed: list(6)?,
            added: list(7)?,
        },
    };
    let message = row.string(5);
    let author = row.string(4);
    let author = author.map(|who| ChangeAuthor::new(&who, message.as_deref()));
    Some((entry, author))
}
