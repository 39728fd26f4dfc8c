//! Owns reading the comments of RRsets, of one zone or by a search.

use super::super::dialect::{int, octets};
use super::super::row::Cells;
use super::super::{SqlBackend, ZoneRow};
use super::WriteError;
use super::search::like;
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
        let text = |column| row.string(column).unwrap_or_default();
        StoredComment {
            name: text(1),
            rtype: text(2),
            account: text(3),
            comment: text(4),
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
            let engine = self.engine();
            let text = |column| octets(engine, column);
            let sql = format!(
                "SELECT domain_id, {}, {}, {}, {}, {} FROM comments WHERE domain_id = ? ORDER BY name, type, id",
                text("name"),
                text("type"),
                text("account"),
                text("comment"),
                int(engine, "modified_at")
            );
            self.list(&sql, &[Value::Int(zone.id)], StoredComment::read)
                .await
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
            let engine = self.engine();
            let text = |column| octets(engine, column);
            let like = like(engine);
            let sql = format!(
                "SELECT c.domain_id, {}, {}, {}, {}, {}, {} FROM comments c JOIN domains d ON d.id = c.domain_id \
                 WHERE c.name {like} ? ESCAPE '|' OR c.comment {like} ? ESCAPE '|' ORDER BY c.name, c.type, c.id LIMIT {limit}",
                text("c.name"),
                text("c.type"),
                text("c.account"),
                text("c.comment"),
                int(engine, "c.modified_at"),
                text("d.name")
            );
            let values = [Value::Text(pattern), Value::Text(pattern)];
            let found = |row: &dyn Cells| {
                let zone = row.string(6).unwrap_or_default();
                (zone, StoredComment::read(row))
            };
            self.list(&sql, &values, found).await
        })
    }
}
