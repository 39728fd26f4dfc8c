//! Writes the changed rows of a zone: many similar rows with one statement.

use super::super::dialect::SqlEngine;
use super::content::write_content;
use super::derive::Derived;
use super::rows::{Row, What, text_of};
use super::session::{Failure, Session, Value};
use super::work::{Empty, Work};
use std::collections::{BTreeMap, BTreeSet};

/// Rows inserted per statement, and IDs per statement.
pub(super) const INSERTS_AT_ONCE: usize = 50;
const IDS_AT_ONCE: usize = 500;
/// Number of `ordername` values written per statement.
const ORDERNAMES_AT_ONCE: usize = 100;
/// IDs up to this number are parameters: most changes delete few rows, with a statement that is prepared once.
const FEW_DELETED: usize = 4;
/// Fewer rows with equal columns than this do not get their own statement.
const FEW_ALIKE: usize = 4;

/// Row IDs by the desired values of their derived columns.
type AlikeRows<'r> = BTreeMap<(bool, Option<&'r str>), Vec<i64>>;

/// Writes to rows of a zone, as counted by triggers: an update counts once for the row before and once for the row
/// after.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowWrites {
    pub(super) inserts: usize,
    pub(super) updates: usize,
    pub(super) deletes: usize,
}

impl RowWrites {
    /// Returns by how many versions a change advances its zone: one for each write, and one that the writer adds
    /// itself.
    pub(super) fn versions(self) -> i64 {
        (self.inserts + self.deletes + 2 * self.updates + 1) as i64
    }
}

impl Work {
    /// Writes all rows that are new, changed or deleted.
    pub(super) async fn write(
        &mut self,
        session: &mut Session,
        empties: Vec<Empty>,
    ) -> Result<RowWrites, Failure> {
        let mut gone: Vec<i64> = Vec::new();
        let mut new: Vec<Row> = Vec::new();
        for empty in empties {
            let stored = self
                .rows
                .at(&empty.name)
                .filter(|row| row.what == What::Empty);
            let stored: Vec<(i64, Option<Derived>)> = stored
                .filter_map(|row| Some((row.id?, row.derived.clone())))
                .collect();
            let kept = stored
                .iter()
                .position(|(_, derived)| empty.expected.is_some() && *derived == empty.expected);
            let unwanted = stored.iter().enumerate().filter(|(i, _)| Some(*i) != kept);
            gone.extend(unwanted.map(|(_, (id, _))| *id));
            if let (None, Some(expected)) = (kept, empty.expected) {
                new.push(Row {
                    derived: Some(expected),
                    ..Row::new(empty.name, What::Empty, 0)
                });
            }
        }
        let rows = &self.rows.list;
        gone.extend(
            rows.iter()
                .filter(|row| row.is_deleted)
                .filter_map(|row| row.id),
        );
        delete_rows(session, &gone).await?;
        self.delete_comments(session).await?;
        let updates = self.update(session).await?;
        let inserted = rows
            .iter()
            .filter(|row| row.id.is_none() && !row.is_deleted);
        let new: Vec<&Row> = inserted.chain(&new).collect();
        insert_rows(session, self.rows.zone, &new).await?;
        Ok(RowWrites {
            inserts: new.len(),
            updates,
            deletes: gone.len(),
        })
    }

    /// Updates rows whose own columns changed individually, and rows whose derived columns changed in groups. Returns
    /// the number of row updates.
    async fn update(&self, session: &mut Session) -> Result<usize, Failure> {
        let mut updates = 0;
        let mut alike = AlikeRows::new();
        for row in &self.rows.list {
            let (Some(id), false) = (row.id, row.is_deleted) else {
                continue;
            };
            if let (true, Some(derived)) = (row.is_rederived, &row.derived) {
                let same = (derived.auth, derived.ordername.as_deref());
                alike.entry(same).or_default().push(id);
            }
            if let (true, Some(columns)) = (row.is_changed, row.columns()) {
                let content = content_value(session.engine());
                let sql = format!(
                    "UPDATE records SET ttl = ?, disabled = ?, content = {content}, prio = ? WHERE id = ?"
                );
                let values = [
                    Value::Int(row.ttl.into()),
                    Value::Bool(row.disabled),
                    Value::Text(&columns.content),
                    Value::Int(columns.prio),
                    Value::Int(id),
                ];
                session.run(&sql, &values).await?;
                updates += 1;
            }
        }
        Ok(updates + derive_alike(session, alike).await?)
    }

    /// Deletes comments together with the last record of an RRset.
    async fn delete_comments(&self, session: &mut Session) -> Result<(), Failure> {
        let mut gone = BTreeSet::new();
        for row in self.rows.list.iter().filter(|row| row.is_deleted) {
            let is_left = self
                .rows
                .at(&row.name)
                .any(|left| left.rtype() == row.rtype());
            if let (false, What::Record(rtype, rdata)) = (is_left, &row.what) {
                gone.insert((text_of(&row.name), write_content(*rtype, rdata).rtype));
            }
        }
        for (name, rtype) in gone {
            let sql = "DELETE FROM comments WHERE domain_id = ? AND name = ? AND type = ?";
            let values = [
                Value::Int(self.rows.zone),
                Value::Text(&name),
                Value::Text(&rtype),
            ];
            session.run(sql, &values).await?;
        }
        Ok(())
    }
}

/// Updates derived columns, those of similar rows together. In a zone that gets a different order all differ: their
/// `ordername` values are then written together, many per statement. Returns the number of rows.
async fn derive_alike(session: &mut Session, alike: AlikeRows<'_>) -> Result<usize, Failure> {
    let mut updates = 0;
    let mut single: BTreeMap<bool, Vec<(i64, Option<&str>)>> = BTreeMap::new();
    for ((auth, ordername), ids) in alike {
        updates += ids.len();
        if ids.len() < FEW_ALIKE {
            let rows = ids.iter().map(|id| (*id, ordername));
            single.entry(auth).or_default().extend(rows);
            continue;
        }
        for chunk in ids.chunks(IDS_AT_ONCE) {
            let sql = format!(
                "UPDATE records SET auth = ?, ordername = ? WHERE id IN ({})",
                list(chunk)
            );
            let values = [Value::Bool(auth), ordername.into()];
            session.run(&sql, &values).await?;
        }
    }
    for (auth, rows) in single {
        for chunk in rows.chunks(ORDERNAMES_AT_ONCE) {
            derive_single(session, auth, chunk).await?;
        }
    }
    Ok(updates)
}

async fn derive_single(
    session: &mut Session,
    auth: bool,
    rows: &[(i64, Option<&str>)],
) -> Result<(), Failure> {
    let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
    let named = rows.iter().filter_map(|(id, name)| Some((id, (*name)?)));
    let mut values = vec![Value::Bool(auth)];
    let mut ordername = String::new();
    for (id, name) in named {
        ordername.push_str(&format!(" WHEN {id} THEN ?"));
        values.push(Value::Text(name));
    }
    let ordername = if ordername.is_empty() {
        "NULL".to_owned()
    } else {
        format!("CASE id{ordername} END")
    };
    let sql = format!(
        "UPDATE records SET auth = ?, ordername = {ordername} WHERE id IN ({})",
        list(&ids)
    );
    session.run(&sql, &values).await
}

/// Formats a list of IDs; numbers are safe to write out.
fn list(ids: &[i64]) -> String {
    let texts: Vec<String> = ids.iter().map(i64::to_string).collect();
    texts.join(", ")
}

async fn delete_rows(session: &mut Session, ids: &[i64]) -> Result<(), Failure> {
    for chunk in ids.chunks(IDS_AT_ONCE) {
        if chunk.len() <= FEW_DELETED {
            let places = vec!["?"; chunk.len()].join(", ");
            let sql = format!("DELETE FROM records WHERE id IN ({places})");
            let values: Vec<Value<'_>> = chunk.iter().map(|id| Value::Int(*id)).collect();
            session.run(&sql, &values).await?;
        } else {
            let sql = format!("DELETE FROM records WHERE id IN ({})", list(chunk));
            session.run(&sql, &[]).await?;
        }
    }
    Ok(())
}

/// Returns the parameter of the content column. Its octets are stored as they are: the column of PowerDNS is latin1 in MySQL,
/// and UTF-8 would be converted to it.
fn content_value(engine: SqlEngine) -> &'static str {
    match engine {
        SqlEngine::Mysql => "CAST(? AS BINARY)",
        _ => "?",
    }
}

pub(super) async fn insert_rows(
    session: &mut Session,
    zone: i64,
    rows: &[&Row],
) -> Result<(), Failure> {
    for chunk in rows.chunks(INSERTS_AT_ONCE) {
        let names: Vec<String> = chunk.iter().map(|row| text_of(&row.name)).collect();
        let columns: Vec<_> = chunk.iter().map(|row| row.columns()).collect();
        let mut values = Vec::with_capacity(chunk.len() * 9);
        for ((row, name), columns) in chunk.iter().zip(&names).zip(&columns) {
            values.extend([Value::Int(zone), Value::Text(name)]);
            match columns {
                Some(columns) => values.extend([
                    Value::Text(&columns.rtype),
                    Value::Text(&columns.content),
                    Value::Int(row.ttl.into()),
                    Value::Int(columns.prio),
                ]),
                None => values.extend([Value::Null; 4]),
            }
            let derived = row.derived.as_ref();
            let ordername = derived.and_then(|derived| derived.ordername.as_deref());
            values.extend([
                Value::Bool(row.disabled),
                ordername.into(),
                Value::Bool(derived.is_none_or(|derived| derived.auth)),
            ]);
        }
        let content = content_value(session.engine());
        let place = format!("(?, ?, ?, {content}, ?, ?, ?, ?, ?)");
        let places = vec![place; chunk.len()].join(", ");
        let sql = format!(
            "INSERT INTO records \
             (domain_id, name, type, content, ttl, prio, disabled, ordername, auth) VALUES {places}"
        );
        session.run(&sql, &values).await?;
    }
    Ok(())
}
