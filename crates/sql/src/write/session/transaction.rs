//! The beginning and the end of a session's transactions.

use super::{Failure, LOCK_SECONDS, Session};
use crate::dialect::SqlEngine;

impl Session {
    /// Begins a transaction.
    ///
    /// A Galera node that applies a change of another node rolls back the transaction in its way, and its client may not be told. The
    /// statements that follow are then committed one by one: a zone once got a new serial, but not the key that was reported as added.
    /// Where that can happen, all transactions but this one are read-only, and [`Session::commit`] checks that it is still open.
    pub(in crate::write) async fn begin(&mut self) -> Result<(), Failure> {
        self.claimed.clear();
        (self.undone, self.transaction) = (None, None);
        if self.is_guarded {
            self.command("SET SESSION TRANSACTION READ ONLY").await?;
            return self.command("START TRANSACTION READ WRITE").await;
        }
        let sql = match self.engine() {
            // Takes the lock at once: a reader that becomes a writer could not wait for another.
            SqlEngine::Sqlite => "BEGIN IMMEDIATE",
            // With a setting that ends with the transaction: a pooler may give the next one to another session.
            SqlEngine::Postgres => {
                let sql = format!("BEGIN; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'");
                return self.command(&sql).await;
            }
            SqlEngine::Mysql => "START TRANSACTION",
        };
        self.command(sql).await
    }

    /// Begins a transaction in which all statements see the same state of a SQLite file.
    pub(in crate::write) async fn begin_reading(&mut self) -> Result<(), Failure> {
        self.undone = None;
        self.command("BEGIN").await
    }

    pub(in crate::write) async fn commit(&mut self) -> Result<(), Failure> {
        if self.is_guarded && !self.is_in_transaction().await? {
            tracing::warn!(
                "a database node rolled back a transaction and did not report it; the change is made again"
            );
            let text = "rolled back by a change on another node".to_owned();
            self.undone = Some(text.clone());
            return Err(Failure::Conflict(text));
        }
        self.command("COMMIT").await?;
        self.end_guard().await;
        Ok(())
    }

    pub(in crate::write) async fn rollback(&mut self) -> Result<(), Failure> {
        self.undone = None;
        self.command("ROLLBACK").await?;
        self.end_guard().await;
        Ok(())
    }

    /// Lets the session write outside a transaction again. A failure is one of the connection, which its next use shows.
    async fn end_guard(&mut self) {
        if self.is_guarded {
            let _ = self.command("SET SESSION TRANSACTION READ WRITE").await;
        }
    }

    /// Checks whether a transaction is open. Only MariaDB knows the variable.
    pub(super) async fn is_in_transaction(&mut self) -> Result<bool, Failure> {
        let is_open = self.number("SELECT @@in_transaction", &[]).await?;
        Ok(is_open == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConnectTarget, Failure, Session};
    use crate::{DatabaseAddress, db};
    use nameward_testkit::databases::Database;

    /// The statement behind the session's back acts as a node that rolls back a transaction silently.
    #[tokio::test]
    async fn a_transaction_that_was_rolled_back_silently_writes_and_commits_nothing() {
        let Some(nodes) = Database::galera(1) else {
            return;
        };
        let nodes = nodes.unwrap();
        let address = DatabaseAddress::parse(&nodes[0].url()).unwrap();
        db::init(&address).await.unwrap();
        let target = ConnectTarget::new(&address).unwrap();
        let mut session = Session::open(&target).await.unwrap();
        let add = "INSERT INTO domains (name, type) VALUES ('one.test', 'NATIVE')";

        session.begin().await.unwrap();
        session.run(add, &[]).await.unwrap();
        session.connection.command("ROLLBACK").await.unwrap();
        let refused = session.run(add, &[]).await;
        assert!(matches!(refused, Err(Failure::Conflict(_))), "{refused:?}");
        session.rollback().await.unwrap();

        session.begin().await.unwrap();
        session.run(add, &[]).await.unwrap();
        session.connection.command("ROLLBACK").await.unwrap();
        let refused = session.commit().await;
        assert!(matches!(refused, Err(Failure::Conflict(_))), "{refused:?}");
        session.rollback().await.unwrap();
        assert_eq!(nodes[0].run("SELECT name FROM domains").unwrap(), "");

        session.begin().await.unwrap();
        session.run(add, &[]).await.unwrap();
        session.commit().await.unwrap();
        // Outside a transaction it may write, too.
        let change = "UPDATE domains SET name = 'two.test'";
        session.run(change, &[]).await.unwrap();
        let stored = nodes[0].run("SELECT name FROM domains").unwrap();
        assert_eq!(stored, "two.test\n");
    }
}
