//! Changes to `tsigkeys`, the TSIG keys that all servers on a database share, including PowerDNS.

use super::super::SqlBackend;
use super::super::dialect::SqlEngine;
use super::super::peer_settings::StoredTsigKey;
use super::super::row::name_text;
use super::super::schema::NO_ZONE_CHANGED;
use super::session::{Session, Value};
use super::{Committed, Task, WriteError};
use crate::SqlFuture;
use nameward_wire::{Name, NameBuf};

/// Maximum number of characters in `tsigkeys.secret`.
pub const TSIG_SECRET_MAX: usize = 255;

/// A change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TsigEdit {
    /// Adds a key, unless there is one with its name.
    Add(StoredTsigKey),
    /// Replaces all keys with its name.
    Replace(StoredTsigKey),
    /// Removes all keys with a name: PowerDNS allows one per algorithm.
    Remove(NameBuf),
}

impl TsigEdit {
    fn name(&self) -> Name<'_> {
        match self {
            TsigEdit::Add(key) | TsigEdit::Replace(key) => key.name.as_name(),
            TsigEdit::Remove(name) => name.as_name(),
        }
    }
}

impl SqlBackend {
    /// Changes a key on the primary and notifies other servers. Returns whether anything changed: false if a key to add
    /// exists, or a key to remove does not.
    pub fn change_tsig_key<'a>(
        &'a self,
        edit: &'a TsigEdit,
    ) -> SqlFuture<'a, Result<bool, WriteError>> {
        Box::pin(async move {
            let committed = self.transact_one(&Task::Tsig(edit)).await?;
            Ok(committed.is_changed)
        })
    }
}

/// Makes the change; the caller ends the transaction.
pub(super) async fn change(
    session: &mut Session,
    edit: &TsigEdit,
) -> Result<Committed, WriteError> {
    let name = name_text(edit.name());
    let with_dot = format!("{name}.");
    let same_name = [Value::Text(&name), Value::Text(&with_dot)];
    let lower = match session.engine() {
        SqlEngine::Mysql => "LOWER(CAST(name AS CHAR(255)))",
        _ => "LOWER(name)",
    };
    let condition = format!("{lower} = ? OR {lower} = ?");
    let sql = format!("SELECT id FROM tsigkeys WHERE {condition}");
    let is_there = session.finds(&sql, &same_name).await?;
    let is_changed = match edit {
        TsigEdit::Add(_) => !is_there,
        TsigEdit::Replace(_) => true,
        TsigEdit::Remove(_) => is_there,
    };
    if is_changed && is_there {
        let sql = format!("DELETE FROM tsigkeys WHERE {condition}");
        session.run(&sql, &same_name).await?;
    }
    if let (true, TsigEdit::Add(key) | TsigEdit::Replace(key)) = (is_changed, edit) {
        let sql = "INSERT INTO tsigkeys (name, algorithm, secret) VALUES (?, ?, ?)";
        let values = [
            Value::Text(&name),
            Value::Text(&key.algorithm),
            Value::Text(key.secret.reveal()),
        ];
        session.run(sql, &values).await?;
    }
    if is_changed {
        session.notify_change(NO_ZONE_CHANGED).await?;
    }
    let owner = NameBuf::from(edit.name());
    Ok(Committed::without_records(
        (NO_ZONE_CHANGED, owner),
        is_changed,
    ))
}
