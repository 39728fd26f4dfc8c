//! Searches the records of all zones in one database by owner or data.
//!
//! No index helps with a pattern, so every row is read: in pieces of the order by name, each by a statement of its own that ends in time
//! however many zones there are, and each found by the index.

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, octets, text};
use super::super::row::Cells;
use super::WriteError;
use super::session::{Session, Value};
use super::zones::{StoredRecord, stored_columns};
use crate::SqlFuture;

/// Rows that one statement reads.
const PIECE: usize = 200_000;

impl SqlBackend {
    /// Passes on stored records of all zones whose owner or data matches a LIKE pattern with the escape `|`, each with
    /// its zone name, up to `limit`. Ends when `each` returns false.
    pub fn search_records<'a>(
        &'a self,
        pattern: &'a str,
        limit: u64,
        each: &'a mut (dyn FnMut(String, StoredRecord) -> bool + Send),
    ) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let (mut after, mut found, mut is_open) = (None::<String>, 0, true);
            while is_open && found < limit {
                let mut session = self.reader().await?;
                let end = piece_end(&mut session, after.as_deref()).await?;
                let sql = statement(
                    session.engine(),
                    (after.is_some(), end.is_some()),
                    limit - found,
                );
                let mut values = vec![Value::Text(pattern), Value::Text(pattern)];
                let bounds = after.iter().chain(&end);
                values.extend(bounds.map(|name| Value::Text(name)));
                let each = &mut |row: &dyn Cells| {
                    found += 1;
                    let zone = row.string(7).unwrap_or_default();
                    is_open = each(zone, StoredRecord::read(row));
                    is_open
                };
                self.stream_rows(session, (&sql, &values), each).await?;
                match end {
                    Some(end) => after = Some(end),
                    None => break,
                }
            }
            Ok(())
        })
    }
}

/// Returns the statement for a piece with a lower and an upper bound.
fn statement(engine: SqlEngine, (has_start, has_end): (bool, bool), limit: u64) -> String {
    let columns = stored_columns(engine);
    let zone = octets(
        engine,
        "(SELECT d.name FROM domains d WHERE d.id = domain_id)",
    );
    let like = like(engine);
    let start = if has_start { " AND name > ?" } else { "" };
    let end = if has_end { " AND name <= ?" } else { "" };
    format!(
        "SELECT {columns}, {zone} FROM records \
         WHERE type IS NOT NULL AND (name {like} ? ESCAPE '|' OR content {like} ? ESCAPE '|'){start}{end} \
         ORDER BY records.name, records.type, records.id LIMIT {limit}"
    )
}

/// Returns the operator that compares with a pattern, ignoring case, as LIKE does in SQLite and with the PowerDNS collation
/// in MySQL.
pub(super) fn like(engine: SqlEngine) -> &'static str {
    match engine {
        SqlEngine::Postgres => "ILIKE",
        _ => "LIKE",
    }
}

/// Returns the last name of the piece after a name; `None` if the rest is one piece.
async fn piece_end(
    session: &mut Session,
    after: Option<&str>,
) -> Result<Option<String>, WriteError> {
    let condition = if after.is_some() {
        " WHERE name > ?"
    } else {
        ""
    };
    let name = text(session.engine(), "name");
    let sql = format!(
        "SELECT {name} FROM records{condition} ORDER BY records.name LIMIT 1 OFFSET {PIECE}"
    );
    let values: Vec<Value<'_>> = after.map(Value::Text).into_iter().collect();
    let mut ends = session.list(&sql, &values, |row| row.string(0)).await?;
    Ok(ends.pop().flatten())
}
