//! Rows of `domains` in a transaction.

use super::super::{SqlError, ZoneRow, read_zone};
use super::session::{Failure, Session, Value};
use crate::dialect::Statement;
use nameward_zone::ZoneKind;

/// Finds a zone by its stored name.
pub(super) async fn find(session: &mut Session, name: &str) -> Result<Option<ZoneRow>, Failure> {
    find_where(session, "name = ?", Value::Text(name)).await
}

/// Finds a zone by a condition on its row.
pub(super) async fn find_where(
    session: &mut Session,
    condition: &str,
    value: Value<'_>,
) -> Result<Option<ZoneRow>, Failure> {
    let sql = Statement::Zones.sql(session.engine(), 0) + " WHERE " + condition;
    let found = session.list(&sql, &[value], read_zone).await?.pop();
    Ok(found.transpose().map_err(SqlError::from)?)
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
