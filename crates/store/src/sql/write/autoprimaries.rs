//! Changes of `supermasters`, the servers whose zones become secondaries of a database.

use super::super::SqlBackend;
use super::WriteError;
use super::session::{Session, Value};
use std::net::IpAddr;

/// A row to be added or removed.
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
    /// The rows that mean the same. The address is written out, because the column of PostgreSQL is INET or text; an address
    /// has no letter that could end the text.
    fn condition(&self) -> String {
        format!(
            "ip = '{}' AND (LOWER(nameserver) = ? OR LOWER(nameserver) = ?)",
            self.address
        )
    }
}

/// Counts the rows that mean the same.
async fn count(session: &mut Session, row: &AutoprimaryRow) -> Result<usize, WriteError> {
    let with_dot = format!("{}.", row.name_server);
    let values = [Value::Text(&row.name_server), Value::Text(&with_dot)];
    let sql = format!("SELECT account FROM supermasters WHERE {}", row.condition());
    let mut rows = 0;
    session.rows(&sql, &values, &mut |_| rows += 1).await?;
    Ok(rows)
}

impl SqlBackend {
    /// Adds an autoprimary; false if it is there.
    pub async fn add_autoprimary(&self, row: &AutoprimaryRow) -> Result<bool, WriteError> {
        let mut session = self.reader().await?;
        if count(&mut session, row).await? > 0 {
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
    }

    /// Removes an autoprimary; false if it is not there.
    pub async fn remove_autoprimary(&self, row: &AutoprimaryRow) -> Result<bool, WriteError> {
        let mut session = self.reader().await?;
        let is_there = count(&mut session, row).await? > 0;
        if is_there {
            let with_dot = format!("{}.", row.name_server);
            let values = [Value::Text(&row.name_server), Value::Text(&with_dot)];
            let sql = format!("DELETE FROM supermasters WHERE {}", row.condition());
            session.run(&sql, &values).await?;
        }
        self.inner.writer.give_back(session);
        Ok(is_there)
    }
}
