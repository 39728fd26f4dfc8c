//! pgbouncer in front of a PostgreSQL database, in transaction mode.

use super::{Database, DatabaseKind};
use crate::peers::free_address;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Time until it must accept connections.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Its connections to the database: fewer than its clients have, so that they share them.
const SERVER_CONNECTIONS: usize = 3;

/// A running connection pooler.
#[derive(Debug)]
pub struct ConnectionPooler {
    child: Child,
    address: SocketAddr,
}

impl Database {
    /// Starts a pooler in front of it. PostgreSQL only.
    pub fn pooler(&self) -> io::Result<ConnectionPooler> {
        assert_eq!(self.kind, DatabaseKind::Postgres);
        let address = free_address()?;
        let file = self.directory.path().join("pgbouncer.ini");
        std::fs::write(
            &file,
            format!(
                "[databases]\npdns = host={} port={} dbname=pdns user=postgres password=secret\n\
                 [pgbouncer]\nlisten_addr = {}\nlisten_port = {}\nunix_socket_dir =\nauth_type = any\n\
                 pool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 200\n",
                self.address.ip(),
                self.address.port(),
                address.ip(),
                address.port(),
            ),
        )?;
        let mut command = self.command("/usr/sbin/pgbouncer");
        command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut pooler = ConnectionPooler {
            child: command.spawn()?,
            address,
        };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if started.elapsed() > TIMEOUT || pooler.child.try_wait()?.is_some() {
                return Err(io::Error::other("pgbouncer does not accept connections"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(pooler)
    }
}

impl ConnectionPooler {
    /// Returns the URL of the database behind it.
    pub fn url(&self) -> String {
        format!("postgres://postgres:secret@{}/pdns", self.address)
    }
}

impl Drop for ConnectionPooler {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
