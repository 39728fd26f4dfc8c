//! Changes to `supermasters`, the servers whose zones become secondaries in a database.

use super::super::SqlBackend;
use super::WriteError;
use super::session::{Session, Value};
use crate::SqlFuture;
use std::net::IpAddr;

/// A row to add or remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoprimaryRow {
    /// `ip`.
    pub address: IpAddr,
    /// `nameserver`, in lower case and without a final dot.
    pub name_server: String,
    /// `account`.
    pub account: String,
}

impl AutoprimaryRow {
    /// Returns the condition for equivalent rows. The address is written out, because the PostgreSQL column is INET or
    /// text; an address contains no character that could end the string.
    fn condition(&self) -> String {
        format!(
            "ip = '{}' AND (LOWER(nameserver) = ? OR LOWER(nameserver) = ?)",
            self.address
        )
    }
}

/// Checks whether there are equivalent rows.
async fn is_there(session: &mut Session, row: &AutoprimaryRow) -> Result<bool, WriteError> {
    let with_dot = format!("{}.", row.name_server);
    let values = [Value::Text(&row.name_server), Value::Text(&with_dot)];
    let sql = format!("SELECT account FROM supermasters WHERE {}", row.condition());
    Ok(session.finds(&sql, &values).await?)
}

impl SqlBackend {
    /// Adds an autoprimary; returns false if it exists.
    pub fn add_autoprimary<'a>(
        &'a self,
        row: &'a AutoprimaryRow,
    ) -> SqlFuture<'a, Result<bool, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            if is_there(&mut session, row).await? {
                self.inner.writer.give_back(session);
                return Ok(false);
            }
            let sql = format!(
                "INSERT INTO supermasters (ip, nameserver, account) VALUES ('{}', ?, ?)",
                row.address
            );
            let values = [Value::Text(&row.name_server), Value::Text(&row.account)];
            session.run(&sql, &values).await?;
            self.inner.writer.give_back(session);
            Ok(true)
        })
    }

    /// Removes an autoprimary; returns false if it does not exist.
    pub fn remove_autoprimary<'a>(
        &'a self,
        row: &'a AutoprimaryRow,
    ) -> SqlFuture<'a, Result<bool, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let is_there = is_there(&mut session, row).await?;
            if is_there {
                let with_dot = format!("{}.", row.name_server);
                let values = [Value::Text(&row.name_server), Value::Text(&with_dot)];
                let sql = format!("DELETE FROM supermasters WHERE {}", row.condition());
                session.run(&sql, &values).await?;
            }
            self.inner.writer.give_back(session);
            Ok(is_there)
        })
    }
}
