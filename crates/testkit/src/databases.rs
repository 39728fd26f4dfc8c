//! Real databases for tests: PostgreSQL and MariaDB, each in a temporary directory on a port of loopback.
//!
//! A database never waits for the disk (but loses nothing when it is killed), is never a system service, and ends when its [`Database`] is dropped or
//! this process ends. It can be killed, paused and started again, to see what others make of that.

mod galera;
mod replica;
mod tls;

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

/// How long a database may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(90);

/// The brand of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

/// A running database with an empty database `pdns` in it.
pub struct Database {
    kind: DatabaseKind,
    directory: TempDir,
    address: SocketAddr,
    /// More for its command line.
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
        database.prepare()?;
        database.restart()?;
        database.make_database()?;
        Ok(database)
    }

    /// Where it listens on TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process, while it runs; it may have children.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The directory of its socket and its data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The URL over TCP.
    pub fn url(&self) -> String {
        match self.kind {
            DatabaseKind::Postgres => format!("postgres://postgres:secret@{}/pdns", self.address),
            DatabaseKind::Mariadb => format!("mysql://root@{}/pdns", self.address),
        }
    }

    /// The URL over its socket.
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

    /// Runs SQL with the database's own client; returns what it prints.
    pub fn run(&self, sql: &str) -> io::Result<String> {
        self.client("pdns", sql)
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Stops its processes without ending them, and waits until they stand: a signal takes effect when one of the
    /// threads gets a processor, and until then the others go on answering.
    pub fn pause(&self) {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            // Again each time: a process that was being made was in no list yet.
            self.signal("STOP");
            if self.processes().iter().all(|pid| is_stopped(pid)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets them go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Starts it again on the same data and the same port.
    pub fn restart(&mut self) -> io::Result<()> {
        let started = Instant::now();
        self.spawn()?;
        while started.elapsed() < PATIENCE {
            if TcpStream::connect(self.address).is_ok() && self.client_of_all("SELECT 1").is_ok() {
                return Ok(());
            }
            let child = self.child.as_mut();
            if child.is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
                // A connection of one that was killed may need a moment to see that, and holds the data until then.
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

    /// Makes the files of a new database.
    fn prepare(&self) -> io::Result<()> {
        let user = user(self.kind);
        check(Command::new("chown").arg(user).arg(self.directory.path()))?;
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
                // Each its own: one that starts removes the temporary tables of others in a shared one.
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

    /// A program of the database, as a user that it accepts: neither runs as root.
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
        // The directory this process stands in may be closed to that user.
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

    /// Signals all processes of the database. PostgreSQL has one for each connection, each in a group of its own.
    /// The server and its children.
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
            // Fast: does not wait for clients to leave. Its own processes are the server's business.
            if let Some(child) = &self.child {
                let pid = child.id().to_string();
                let _ = Command::new("kill").args(["-s", "INT", &pid]).status();
            }
        } else {
            self.signal(signal);
        }
        if let Some(mut child) = self.child.take() {
            let started = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && started.elapsed() < PATIENCE {
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

/// Where a program is installed. Debian keeps those of PostgreSQL in a directory for each version.
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

/// The processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let is_child = |process: &fs::DirEntry| {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain anything; behind it come the state and the parent.
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

/// Whether every thread of a process is stopped (or ended).
fn is_stopped(pid: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may hold anything but ends with the last parenthesis.
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
    })
}
