//! Real databases for tests: PostgreSQL and MariaDB, each in a temporary directory on a loopback port.
//!
//! A database never waits for the disk (but loses nothing when it is killed), is never a system service, and ends when
//! its [`Database`] is dropped or this process ends. It can be killed, paused and restarted, to test how others react.

mod galera;
mod pooler;
mod replica;
mod template;
mod tls;

pub use pooler::ConnectionPooler;

use crate::missing::require;
use crate::peers::{free_address, watch};
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout for starting or stopping a database.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The database product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

/// A running database server with an empty database `pdns`.
pub struct Database {
    kind: DatabaseKind,
    directory: TempDir,
    address: SocketAddr,
    /// Additional command line arguments.
    arguments: Vec<String>,
    child: Option<Child>,
    watchdog: Option<Child>,
}

impl Database {
    /// Starts a database; `None` if it is not installed and that is allowed ([`require`]).
    pub fn start(kind: DatabaseKind) -> Option<io::Result<Self>> {
        require(program(kind, server_program(kind)), server_program(kind))?;
        Some(Self::create(kind))
    }

    fn create(kind: DatabaseKind) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("nameward-db-").tempdir()?;
        let address = free_address()?;
        let mut database = Database {
            kind,
            directory,
            address,
            arguments: Vec::new(),
            child: None,
            watchdog: None,
        };
        database.make_files()?;
        database.restart()?;
        database.make_database()?;
        Ok(database)
    }

    /// Returns the TCP address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its process ID while it runs; it may have children.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the directory of its socket and data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the URL over TCP.
    pub fn url(&self) -> String {
        match self.kind {
            DatabaseKind::Postgres => format!("postgres://postgres:secret@{}/pdns", self.address),
            DatabaseKind::Mariadb => format!("mysql://root@{}/pdns", self.address),
        }
    }

    /// Returns the URL over its socket.
    pub fn socket_url(&self) -> String {
        let directory = self.directory.path().display();
        match self.kind {
            DatabaseKind::Postgres => format!(
                "postgres://postgres@localhost:{}/pdns?host={directory}",
                self.address.port()
            ),
            DatabaseKind::Mariadb => {
                format!("mysql://root@localhost/pdns?socket={directory}/socket")
            }
        }
    }

    /// Runs SQL with the database's own client; returns its output.
    pub fn run(&self, sql: &str) -> io::Result<String> {
        self.client("pdns", sql)
    }

    /// Kills it, like a crash.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Stops its processes without ending them, and waits until they have stopped: a signal takes effect when one of
    /// the threads gets a processor, and until then the others continue to answer.
    pub fn pause(&self) {
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            // Repeated each time: a process that was being created was in no list yet.
            self.signal("STOP");
            if self.processes().iter().all(|pid| is_stopped(pid)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resumes paused processes.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Starts it again with the same data and port.
    pub fn restart(&mut self) -> io::Result<()> {
        let started = Instant::now();
        self.spawn()?;
        while started.elapsed() < TIMEOUT {
            if TcpStream::connect(self.address).is_ok() && self.client_of_all("SELECT 1").is_ok() {
                return Ok(());
            }
            let child = self.child.as_mut();
            if child.is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
                // A connection of a killed server may need a moment to notice, and holds the data until then.
                std::thread::sleep(Duration::from_millis(200));
                self.spawn()?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!(
            "{:?} did not start:\n{log}",
            self.kind
        )))
    }

    fn spawn(&mut self) -> io::Result<()> {
        self.end("TERM");
        let log = File::create(self.directory.path().join("log"))?;
        let mut command = self.server();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let child = command.spawn()?;
        self.watchdog = Some(watch(child.id(), self.directory.path())?);
        self.child = Some(child);
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Makes the files of a new database with its own program.
    fn initialize(&self) -> io::Result<()> {
        let data = self.data().display().to_string();
        match self.kind {
            DatabaseKind::Postgres => {
                let arguments = [
                    "-D",
                    &data,
                    "-U",
                    "postgres",
                    "-A",
                    "trust",
                    "--no-sync",
                    "-E",
                    "UTF8",
                ];
                check(
                    self.command("initdb")
                        .args(arguments)
                        .arg("--locale=C.UTF-8"),
                )
            }
            DatabaseKind::Mariadb => {
                let mut command = self.command("mariadb-install-db");
                command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
                command.args(["--skip-test-db", &format!("--datadir={data}")]);
                command.arg(format!("--tmpdir={}", self.directory.path().display()));
                check(&mut command)
            }
        }
    }

    fn server(&self) -> Command {
        let mut command = self.command(server_program(self.kind));
        let (data, directory) = (
            self.data().display().to_string(),
            self.directory.path().display(),
        );
        let port = self.address.port();
        match self.kind {
            DatabaseKind::Postgres => {
                command.args(["-D", &data, "-p", &port.to_string(), "-h", "127.0.0.1"]);
                command.args(["-k", &directory.to_string(), "-F"]);
                command.args(["-c", "full_page_writes=off"]);
                command.args(["-c", "max_wal_size=4GB", "-c", "shared_buffers=256MB"]);
            }
            DatabaseKind::Mariadb => {
                command.args([
                    "--no-defaults",
                    "--bind-address=127.0.0.1",
                    "--skip-name-resolve",
                ]);
                command.args([format!("--datadir={data}"), format!("--port={port}")]);
                // Each has its own: a starting server removes the temporary tables of others in a shared one.
                command.arg(format!("--tmpdir={directory}"));
                command.args([
                    format!("--socket={directory}/socket"),
                    format!("--pid-file={directory}/pid"),
                ]);
                command.args([
                    "--innodb-flush-log-at-trx-commit=2",
                    "--innodb-flush-method=nosync",
                ]);
                command.args(["--innodb-doublewrite=0", "--innodb-buffer-pool-size=256M"]);
            }
        }
        command.args(&self.arguments);
        command
    }

    /// Returns a database program, run as a user that it accepts: neither runs as root.
    fn command(&self, name: &str) -> Command {
        let path = program(self.kind, name).unwrap_or_else(|| name.into());
        if !is_root() {
            return Command::new(path);
        }
        let mut command = Command::new("setpriv");
        let user = user(self.kind);
        command
            .args(["--reuid", user, "--regid", user, "--clear-groups"])
            .arg(path);
        // The current directory of this process may not be accessible to that user.
        command
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path());
        command
    }

    fn make_database(&self) -> io::Result<()> {
        self.client_of_all("CREATE DATABASE pdns").map(|_| ())
    }

    fn client_of_all(&self, sql: &str) -> io::Result<String> {
        match self.kind {
            DatabaseKind::Postgres => self.client("postgres", sql),
            DatabaseKind::Mariadb => self.client("mysql", sql),
        }
    }

    fn client(&self, database: &str, sql: &str) -> io::Result<String> {
        let directory = self.directory.path().display().to_string();
        let mut command = match self.kind {
            DatabaseKind::Postgres => {
                let mut command = self.command("psql");
                command.args(["-h", &directory, "-p", &self.address.port().to_string()]);
                command.args([
                    "-U",
                    "postgres",
                    "-X",
                    "-q",
                    "-A",
                    "-t",
                    "-v",
                    "ON_ERROR_STOP=1",
                ]);
                command.args(["-d", database]);
                command
            }
            DatabaseKind::Mariadb => {
                let mut command = self.command("mariadb");
                command.args(["--no-defaults", "-u", "root", "-N", "-B"]);
                command.args([&format!("--socket={directory}/socket"), database]);
                command
            }
        };
        let input = self
            .directory
            .path()
            .join(format!("sql-{:?}", std::thread::current().id()));
        fs::write(&input, sql)?;
        let output = command.stdin(File::open(&input)?).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }

    /// Returns the server process and its children. PostgreSQL has one for each connection, each in its own group.
    fn processes(&self) -> Vec<String> {
        let Some(child) = &self.child else {
            return Vec::new();
        };
        let mut processes = children_of(child.id());
        processes.insert(0, child.id().to_string());
        processes
    }

    fn signal(&self, signal: &str) {
        let processes = self.processes();
        if processes.is_empty() {
            return;
        }
        let _ = Command::new("kill")
            .args(["-s", signal])
            .args(processes)
            .stderr(Stdio::null())
            .status();
    }

    fn end(&mut self, signal: &str) {
        // First, so that it can never signal a group whose number another process has by then.
        if let Some(mut watchdog) = self.watchdog.take() {
            let _ = watchdog.kill();
            let _ = watchdog.wait();
        }
        self.signal("CONT");
        if signal == "TERM" && self.kind == DatabaseKind::Postgres {
            // Fast shutdown: does not wait for clients. Its own processes are up to the server.
            if let Some(child) = &self.child {
                let pid = child.id().to_string();
                let _ = Command::new("kill").args(["-s", "INT", &pid]).status();
            }
        } else {
            self.signal(signal);
        }
        if let Some(mut child) = self.child.take() {
            let started = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && started.elapsed() < TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.end("KILL");
    }
}

fn user(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Postgres => "postgres",
        DatabaseKind::Mariadb => "mysql",
    }
}

fn server_program(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Postgres => "postgres",
        DatabaseKind::Mariadb => "mariadbd",
    }
}

/// Returns the path of an installed program. Debian keeps those of PostgreSQL in a directory per version.
fn program(kind: DatabaseKind, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.push("/usr/sbin".into());
    if kind == DatabaseKind::Postgres
        && let Ok(versions) = fs::read_dir("/usr/lib/postgresql")
    {
        directories.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    directories
        .into_iter()
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    })
}

/// Returns the processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let is_child = |process: &fs::DirEntry| {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain anything; it is followed by the state and the parent.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    processes
        .flatten()
        .filter(is_child)
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

fn check(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {text}")))
}

/// Checks whether every thread of a process is stopped (or has ended).
fn is_stopped(pid: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may contain anything but ends with the last parenthesis.
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
    })
}
