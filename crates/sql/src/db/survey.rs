//! Finds PowerDNS content that this server serves differently: one line per kind, with a count and the first names.

use super::super::connection::SqlConnection;
use super::super::dialect::{SqlEngine, int, text};
use super::super::error::SqlError;
use super::super::row::shown;
use super::super::url::DatabaseAddress;
use crate::SqlFuture;
use core::fmt;

/// Maximum number of names listed; the rest are counted.
const NAMES: usize = 3;

/// PowerDNS content that is served differently here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignKind {
    /// LUA records.
    Lua,
    /// Zones with PRESIGNED metadata but without an NSEC or NSEC3 chain.
    Presigned,
    /// Zones with LUA-AXFR-SCRIPT metadata.
    LuaTransfer,
    /// Zones with GSS-TSIG metadata.
    Gss,
}

/// All content of one kind in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignContent {
    /// The kind of content.
    pub kind: ForeignKind,
    /// Number of zones or records.
    pub count: u64,
    /// The first names.
    pub names: Vec<String>,
}

impl ForeignKind {
    const ALL: [ForeignKind; 4] = [
        ForeignKind::Lua,
        ForeignKind::Presigned,
        ForeignKind::LuaTransfer,
        ForeignKind::Gss,
    ];

    /// Returns the column with the names, and the table and condition.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            ForeignKind::Lua => ("name", "records WHERE type = 'LUA' AND NOT disabled"),
            ForeignKind::Presigned => (
                "domains.name",
                "domains JOIN domainmetadata ON domainmetadata.domain_id = domains.id \
                 WHERE domainmetadata.kind = 'PRESIGNED' AND domainmetadata.content = '1' \
                 AND NOT EXISTS (SELECT 1 FROM records WHERE records.domain_id = domains.id \
                 AND records.type IN ('NSEC', 'NSEC3'))",
            ),
            ForeignKind::LuaTransfer => (
                "name",
                "domains WHERE EXISTS (SELECT 1 FROM domainmetadata WHERE domainmetadata.domain_id = domains.id \
                 AND domainmetadata.kind = 'LUA-AXFR-SCRIPT')",
            ),
            ForeignKind::Gss => (
                "name",
                "domains WHERE EXISTS (SELECT 1 FROM domainmetadata WHERE domainmetadata.domain_id = domains.id \
                 AND domainmetadata.kind IN ('GSS-ALLOW-AXFR-PRINCIPAL', 'GSS-ACCEPTOR-PRINCIPAL'))",
            ),
        }
    }

    /// Returns the singular, the plural, and how it is handled here.
    fn words(self) -> [&'static str; 3] {
        match self {
            ForeignKind::Lua => [
                "LUA record",
                "LUA records",
                "run only with lua.records or ENABLE-LUA-RECORDS",
            ],
            ForeignKind::Presigned => [
                "presigned zone without NSEC or NSEC3 rows",
                "presigned zones without NSEC or NSEC3 rows",
                "answered without signatures and denial of existence: validation fails",
            ],
            ForeignKind::LuaTransfer => [
                "zone with LUA-AXFR-SCRIPT",
                "zones with LUA-AXFR-SCRIPT",
                "not executed: records are stored as received from the primary",
            ],
            ForeignKind::Gss => [
                "zone with GSS-TSIG principals (GSS-ALLOW-AXFR-PRINCIPAL, GSS-ACCEPTOR-PRINCIPAL)",
                "zones with GSS-TSIG principals (GSS-ALLOW-AXFR-PRINCIPAL, GSS-ACCEPTOR-PRINCIPAL)",
                "not supported: transfers and updates signed with GSS-TSIG are refused",
            ],
        }
    }
}

impl fmt::Display for ForeignContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, many, consequence] = self.kind.words();
        let noun = if self.count == 1 { one } else { many };
        write!(f, "{} {noun}, {consequence}: ", self.count)?;
        f.write_str(&self.names.join(", "))?;
        match self.count.saturating_sub(self.names.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Finds PowerDNS content that is served differently here. Reads an index over all records once.
pub fn survey(address: &DatabaseAddress) -> SqlFuture<'_, Result<Vec<ForeignContent>, SqlError>> {
    Box::pin(async move { survey_with(&mut super::open(address, false).await?).await })
}

pub(super) async fn survey_with(
    admin: &mut SqlConnection,
) -> Result<Vec<ForeignContent>, SqlError> {
    let mut found = Vec::new();
    for kind in ForeignKind::ALL {
        match count(admin, kind).await {
            Ok(content) if content.count > 0 => found.push(content),
            // A table that is missing or not readable has no content.
            Ok(_) | Err(SqlError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn count(admin: &mut SqlConnection, kind: ForeignKind) -> Result<ForeignContent, SqlError> {
    let engine: SqlEngine = admin.engine();
    let (column, source) = kind.source();
    let mut content = ForeignContent {
        kind,
        count: 0,
        names: Vec::new(),
    };
    let sql = format!("SELECT {} FROM {source}", int(engine, "count(*)"));
    admin
        .rows(&sql, &[], &mut |row| {
            content.count = row.int(0).map_or(0, i64::unsigned_abs);
        })
        .await?;
    if content.count > 0 {
        let (shown_column, zero) = (text(engine, column), int(engine, "0"));
        let sql =
            format!("SELECT {zero}, {shown_column} FROM {source} ORDER BY {column} LIMIT {NAMES}");
        admin
            .rows(&sql, &[], &mut |row| {
                content.names.push(shown(row.text(1).unwrap_or_default()));
            })
            .await?;
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_line_with_its_first_names() {
        let content = |count, names: &[&str]| ForeignContent {
            kind: ForeignKind::Lua,
            count,
            names: names.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(
            content(1, &["a.test"]).to_string(),
            "1 LUA record, run only with lua.records or ENABLE-LUA-RECORDS: a.test"
        );
        assert_eq!(
            content(12, &["a.test", "b.test", "c.test"]).to_string(),
            "12 LUA records, run only with lua.records or ENABLE-LUA-RECORDS: a.test, b.test, c.test and 9 more"
        );
    }
}
