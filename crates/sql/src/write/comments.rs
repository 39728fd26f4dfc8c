//! Owns reading the comments of RRsets, of one zone or by a search.

use super::super::dialect::{SqlEngine, int};
use super::super::row::Cells;
use super::super::{SqlBackend, ZoneRow};
use super::WriteError;
use super::attributes::text_of;
use super::session::Value;
use crate::SqlFuture;

/// A comment on an RRset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredComment {
    /// The owner, as stored.
    pub name: String,
    /// The type, as stored.
    pub rtype: String,
    /// The account of the commenter.
    pub account: String,
    /// The comment text.
    pub comment: String,
    /// When it was written, in seconds since 1970.
    pub modified_at: i64,
}

impl StoredComment {
    /// Reads the columns after the first: name, type, account, comment, modified_at.
    fn read(row: &dyn Cells) -> Self {
        StoredComment {
            name: text_of(row, 1),
            rtype: text_of(row, 2),
            account: text_of(row, 3),
            comment: text_of(row, 4),
            modified_at: row.int(5).unwrap_or(0),
        }
    }
}

impl SqlBackend {
    /// Lists the comments of a zone.
    pub fn stored_comments<'a>(
        &'a self,
        zone: &'a ZoneRow,
    ) -> SqlFuture<'a, Result<Vec<StoredComment>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let engine = session.engine();
            let text = |column: &str| match engine {
                SqlEngine::Mysql => format!("CAST({column} AS BINARY)"),
                _ => format!("CAST({column} AS VARCHAR)"),
            };
            let sql = format!(
                "SELECT domain_id, {}, {}, {}, {}, {} FROM comments WHERE domain_id = ? ORDER BY name, type, id",
                text("name"),
                text("type"),
                text("account"),
                text("comment"),
                int(engine, "modified_at")
            );
            let mut comments = Vec::new();
            let each = &mut |row: &dyn Cells| {
                comments.push(StoredComment::read(row));
            };
            session.rows(&sql, &[Value::Int(zone.id)], each).await?;
            self.inner.writer.give_back(session);
            Ok(comments)
        })
    }

    /// Passes on the comments of all zones whose owner or text matches a LIKE pattern with the escape `|`, each with its zone name,
    /// up to `limit`.
    pub fn search_comments<'a>(
        &'a self,
        pattern: &'a str,
        limit: u64,
    ) -> SqlFuture<'a, Result<Vec<(String, StoredComment)>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let (text, like): (fn(&str) -> String, _) = match session.engine() {
                SqlEngine::Mysql => (|column| format!("CAST({column} AS BINARY)"), "LIKE"),
                SqlEngine::Postgres => (|column| format!("CAST({column} AS VARCHAR)"), "ILIKE"),
                SqlEngine::Sqlite => (|column| format!("CAST({column} AS VARCHAR)"), "LIKE"),
            };
            let sql = format!(
                "SELECT c.domain_id, {}, {}, {}, {}, {}, {} FROM comments c JOIN domains d ON d.id = c.domain_id \
                 WHERE c.name {like} ? ESCAPE '|' OR c.comment {like} ? ESCAPE '|' ORDER BY c.name, c.type, c.id LIMIT {limit}",
                text("c.name"),
                text("c.type"),
                text("c.account"),
                text("c.comment"),
                int(session.engine(), "c.modified_at"),
                text("d.name")
            );
            let mut found = Vec::new();
            let values = [Value::Text(pattern), Value::Text(pattern)];
            let each =
                &mut |row: &dyn Cells| found.push((text_of(row, 6), StoredComment::read(row)));
            session.rows(&sql, &values, each).await?;
            self.inner.writer.give_back(session);
            Ok(found)
        })
    }
}
