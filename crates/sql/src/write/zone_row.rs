//! Rows of `domains` in a transaction.

use super::super::{SqlError, ZoneRow, read_zone};
use super::session::{Failure, Session, Value};
use crate::dialect::Statement;
use nameward_zone::ZoneKind;

/// Finds a zone by its stored name.
pub(super) async fn find(session: &mut Session, name: &str) -> Result<Option<ZoneRow>, Failure> {
    let sql = Statement::Zones.sql(session.engine(), 0) + " WHERE name = ?";
    let mut found = None;
    session
        .rows(&sql, &[Value::Text(name)], &mut |row| {
            found = Some(read_zone(row).map_err(SqlError::Row));
        })
        .await?;
    Ok(found.transpose()?)
}

/// Returns a kind as stored in `domains.type`.
pub(super) fn kind_column(kind: ZoneKind) -> &'static str {
    match kind {
        ZoneKind::Native => "NATIVE",
        ZoneKind::Primary => "MASTER",
        ZoneKind::Secondary => "SLAVE",
        ZoneKind::Producer => "PRODUCER",
        ZoneKind::Consumer => "CONSUMER",
    }
}
