//! A streaming replica of a PostgreSQL database: it follows everything committed there, and is read-only.

use super::{Database, DatabaseKind, check, user};
use crate::peers::free_address;
use std::io;
use std::process::Command;

impl Database {
    /// Creates and starts a replica. PostgreSQL only.
    pub fn replica(&self) -> io::Result<Self> {
        assert_eq!(self.kind, DatabaseKind::Postgres);
        let directory = tempfile::Builder::new().prefix("nameward-db-").tempdir()?;
        check(
            Command::new("chown")
                .arg(user(self.kind))
                .arg(directory.path()),
        )?;
        let mut replica = Database {
            kind: self.kind,
            directory,
            address: free_address()?,
            arguments: Vec::new(),
            child: None,
            watchdog: None,
        };
        let from = self.directory.path().display().to_string();
        let to = replica.data().display().to_string();
        let mut copy = replica.command("pg_basebackup");
        copy.args([
            "-h",
            &from,
            "-p",
            &self.address.port().to_string(),
            "-U",
            "postgres",
        ]);
        copy.args([
            "-D",
            &to,
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
        ]);
        check(copy.arg("--no-sync"))?;
        replica.restart()?;
        Ok(replica)
    }
}
