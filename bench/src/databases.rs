//! Zones in databases: fills a database once, lets ours and PowerDNS serve it in turn, and prints a table.
//!
//! SQLite is measured on one core, the load on the other. A database server takes part in the work, so there
//! nothing is pinned: name server, database and load share the machine, and the database's time has a column.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::peers::{Peer, PeerConfig, PeerError, PeerKind, PeerOptions};
use nameward_testkit::wire::QuestionEdns;
use tempfile::TempDir;

use crate::alternate::{self, Contender};
use crate::compare::{Plan, median_by};
use crate::load::{Generator, Limit, Outcome};
use crate::process::{self, CpuTime};
use crate::queries::Queries;
use crate::rows;
use crate::scenario::Scenario;
use crate::signed::{BenchKey, SignedCase};
use crate::sys::{self, ModeSamples};

/// A brand of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// In the process of the name server.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

/// The contents of the database and the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// One zone of 1,000,000 names, queried at random: hardly anything is cached.
    Random,
    /// One zone of 1,000 names: all answers are in the packet cache.
    Hot,
    /// 100,000 zones of 8 records, queried at random.
    Zones,
    /// The zone of `random` loaded into memory (ours only).
    Resident,
    /// The zone of `hot`, signed with P-256, ours in memory: all signatures are in the cache.
    Signed,
    /// Names that it does not have, denied by the chain of NSEC.
    NoNameChain,
    /// The same, by NSEC3 records for each answer (NSEC3NARROW).
    NoNameNarrow,
    /// The same, by compact denial (ours only; PowerDNS has its chain).
    NoNameCompact,
    /// The chain of NSEC with a key of RSA-2048.
    NoNameRsa,
    /// The same, looked up.
    NoNameRsaLive,
}

impl Case {
    /// Every case, in the order of the tables.
    pub const ALL: [Self; 10] = [
        Self::Random,
        Self::Hot,
        Self::Zones,
        Self::Resident,
        Self::Signed,
        Self::NoNameChain,
        Self::NoNameNarrow,
        Self::NoNameCompact,
        Self::NoNameRsa,
        Self::NoNameRsaLive,
    ];

    /// How the zone is signed, if it is.
    fn signed(self) -> Option<SignedCase> {
        let (key, metadata): (_, &[_]) = match self {
            Self::Random | Self::Hot | Self::Zones | Self::Resident => return None,
            Self::Signed | Self::NoNameChain => (BenchKey::P256, &[]),
            Self::NoNameNarrow => {
                let narrow = &[("NSEC3PARAM", "1 0 0 -"), ("NSEC3NARROW", "1")];
                (BenchKey::P256, narrow)
            }
            Self::NoNameCompact => (BenchKey::P256, &[("X-NAMEWARD-DENIAL", "compact")]),
            Self::NoNameRsa | Self::NoNameRsaLive => (BenchKey::Rsa, &[]),
        };
        Some(SignedCase {
            key,
            metadata,
            is_absent: self != Self::Signed,
        })
    }

    fn queries(self, edns: QuestionEdns) -> Queries {
        match self.signed() {
            Some(signed) => signed.queries(),
            None => self.scenario().queries(edns),
        }
    }

    fn scenario(self) -> Scenario {
        match self {
            Self::Random | Self::Resident => Scenario::Flat,
            Self::Zones => Scenario::Hosting,
            _ => Scenario::Small,
        }
    }

    fn mode(self) -> &'static str {
        match self {
            Self::Random | Self::Hot | Self::Zones | Self::NoNameRsaLive => "live",
            _ => "resident",
        }
    }
}

/// A server of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Nameward,
    Before,
    Pdns,
}

/// A database with the rows of a scenario.
struct Filled {
    engine: Engine,
    location: DatabaseLocation,
}

enum DatabaseLocation {
    File(TempDir),
    Server(Database),
}

impl Filled {
    /// Makes a database with the schema of `nameward db init`, which is that of PowerDNS, and fills it.
    fn make(engine: Engine, case: Case, nameward: &Path) -> Result<Self, TestFailure> {
        eprintln!("{engine:?} {case:?}: filling the database ...");
        let filled = Self::fill(engine, case, nameward);
        Ok(filled.map_err(|error| format!("{engine:?}: {error}"))?)
    }

    fn fill(engine: Engine, case: Case, nameward: &Path) -> io::Result<Self> {
        let started = |kind| match Database::start(kind) {
            Some(database) => database.map(DatabaseLocation::Server),
            None => Err(io::Error::other("not installed; run scripts/install-deps")),
        };
        let location = match engine {
            Engine::Sqlite => {
                DatabaseLocation::File(tempfile::Builder::new().prefix("bench-").tempdir()?)
            }
            Engine::Postgres => started(DatabaseKind::Postgres)?,
            Engine::Mariadb => started(DatabaseKind::Mariadb)?,
        };
        let filled = Filled { engine, location };
        let output = Command::new(nameward)
            .args(["db", "init", &filled.address()])
            .output()?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(reason));
        }
        filled.run(&rows::sql(case.scenario()))?;
        if let Some(signed) = case.signed() {
            filled.run(&signed.sql())?;
        }
        Ok(filled)
    }

    fn run(&self, sql: &str) -> io::Result<()> {
        let directory = match &self.location {
            DatabaseLocation::Server(database) => return database.run(sql).map(|_| ()),
            DatabaseLocation::File(directory) => directory.path(),
        };
        let script = directory.join("rows.sql");
        fs::write(&script, sql)?;
        let output = Command::new("sqlite3")
            .arg("-bail")
            .arg(directory.join("zones.db"))
            .stdin(fs::File::open(&script)?)
            .stdout(Stdio::null())
            .output()?;
        fs::remove_file(&script)?;
        if output.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ))
        }
    }

    fn address(&self) -> String {
        match &self.location {
            DatabaseLocation::File(directory) => {
                directory.path().join("zones.db").display().to_string()
            }
            DatabaseLocation::Server(database) => database.url(),
        }
    }

    fn backend(&self, mode: &str) -> String {
        let address = self.address();
        match self.engine {
            Engine::Sqlite => {
                format!("type = \"sqlite\"\npath = \"{address}\"\nmode = \"{mode}\"\n")
            }
            Engine::Postgres => {
                format!("type = \"postgres\"\nurl = \"{address}\"\nmode = \"{mode}\"\n")
            }
            Engine::Mariadb => {
                format!("type = \"mysql\"\nurl = \"{address}\"\nmode = \"{mode}\"\n")
            }
        }
    }

    /// PowerDNS with its defaults, on TCP as ours.
    fn powerdns(&self) -> String {
        let (host, port) = match &self.location {
            DatabaseLocation::File(_) => {
                return format!(
                    "launch=gsqlite3\ngsqlite3-database={}\ngsqlite3-dnssec=yes\n",
                    self.address()
                );
            }
            DatabaseLocation::Server(database) => {
                (database.address().ip(), database.address().port())
            }
        };
        match self.engine {
            Engine::Mariadb => format!(
                "launch=gmysql\ngmysql-host={host}\ngmysql-port={port}\ngmysql-user=root\n\
                 gmysql-password=\ngmysql-dbname=pdns\ngmysql-dnssec=yes\n"
            ),
            _ => format!(
                "launch=gpgsql\ngpgsql-host={host}\ngpgsql-port={port}\ngpgsql-user=postgres\n\
                 gpgsql-password=secret\ngpgsql-dbname=pdns\ngpgsql-dnssec=yes\n"
            ),
        }
    }

    fn pids(&self) -> io::Result<Vec<u32>> {
        match &self.location {
            DatabaseLocation::File(_) => Ok(Vec::new()),
            DatabaseLocation::Server(database) => {
                database.pid().map_or(Ok(Vec::new()), process::tree)
            }
        }
    }

    fn is_pinned(&self) -> bool {
        self.engine == Engine::Sqlite
    }
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Nameward => "nameward",
            Self::Before => "before",
            Self::Pdns => "pdns",
        }
    }

    fn start(self, filled: &Filled, case: Case, plan: &Plan<'_>) -> Result<Peer, PeerError> {
        let options = PeerOptions {
            cpu: filled.is_pinned().then_some(plan.server_core),
            ready_timeout: plan.ready_timeout,
            ..PeerOptions::default()
        };
        let names = case.scenario().zone_names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Peer::launch(&names, &options, |directory, addr| match self {
            Self::Nameward | Self::Before => {
                let config = directory.join("nameward.toml");
                let control = directory.join("control.sock");
                let text = format!(
                    "[server]\nlisten = [\"{addr}\"]\nworkers = 1\ncontrol_socket = \"{}\"\n\n\
                     [[backend]]\n{}",
                    control.display(),
                    filled.backend(case.mode())
                );
                fs::write(&config, text)?;
                let before = plan.binaries.before.as_ref();
                let program = match self {
                    Self::Before => before.unwrap_or(&plan.binaries.nameward),
                    _ => &plan.binaries.nameward,
                };
                let mut command = Command::new(program);
                command.arg("serve").arg("--config").arg(config);
                Ok(command)
            }
            Self::Pdns => {
                let kind = PeerKind::PowerDns;
                let program = plan.binaries.peer(kind).map_err(io::Error::other)?;
                let config = PeerConfig {
                    logs_events: false,
                    main: &filled.powerdns(),
                    rest: "webserver=no\napi=no\ndisable-axfr=yes\n",
                    ..PeerConfig::default()
                };
                kind.prepare(&program, directory, addr, &config)
            }
        })
    }
}

/// The figures of one server.
struct Measurement {
    outcome: Outcome,
    /// Processor time for an answer, in microseconds: in the server's own code, in the kernel for it, in the database.
    user_us: f64,
    system_us: f64,
    database_us: f64,
    /// From the start until it answers for its zones.
    ready: Duration,
    memory: u64,
    other_load: f64,
}

/// Runs a case on an engine and returns its table.
pub fn compare(
    engine: Engine,
    case: Case,
    (edns, repeat): (QuestionEdns, usize),
    plan: &Plan<'_>,
) -> Result<String, TestFailure> {
    let queries = case.queries(edns);
    let filled = Filled::make(engine, case, &plan.binaries.nameward)?;
    let servers = servers_for(case, plan);
    let mut runs: Vec<Vec<_>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..repeat.max(1) {
        for (server, runs) in servers.iter().zip(&mut runs) {
            eprintln!("{engine:?} {case:?}: {} ...", server.name());
            runs.push(measure(*server, &filled, case, &queries, plan)?);
        }
    }
    let rows: Vec<_> = servers
        .iter()
        .zip(runs)
        .filter_map(|(server, runs)| Some((*server, median_by(runs, |run| run.user_us)?)))
        .collect();
    Ok(table(&rows))
}

/// Runs a case with servers that take turns, and returns their table. Only SQLite, whose work is done by the servers: a
/// database server's CPU time is not counted here.
pub fn alternate(
    engine: Engine,
    case: Case,
    (edns, slices): (QuestionEdns, NonZeroUsize),
    plan: &Plan<'_>,
) -> Result<String, TestFailure> {
    if engine != Engine::Sqlite {
        return Err("--slices supports SQLite only; add --engine sqlite".into());
    }
    let queries = case.queries(edns);
    let filled = Filled::make(engine, case, &plan.binaries.nameward)?;
    let mut contenders = Vec::new();
    for server in servers_for(case, plan) {
        let name = server.name().to_string();
        let peer = server.start(&filled, case, plan);
        let peer = peer.map_err(|error| TestFailure::from(error).at(&name))?;
        contenders.push(Contender { name, peer });
    }
    Ok(alternate::run(&contenders, &queries, plan, slices)?)
}

fn servers_for(case: Case, plan: &Plan<'_>) -> Vec<Server> {
    let mut servers = vec![Server::Nameward];
    if plan.binaries.before.is_some() {
        servers.push(Server::Before);
    }
    if case != Case::Resident {
        servers.push(Server::Pdns);
    }
    servers
}

fn measure(
    server: Server,
    filled: &Filled,
    case: Case,
    queries: &Queries,
    plan: &Plan<'_>,
) -> Result<Measurement, TestFailure> {
    let started = Instant::now();
    let at = |error: TestFailure| error.at(server.name());
    let peer = server.start(filled, case, plan);
    let peer = peer.map_err(|error| at(error.into()))?;
    let ready = started.elapsed();
    run(&peer, ready, filled, queries, plan).map_err(|error| at(error.into()))
}

fn run(
    peer: &Peer,
    ready: Duration,
    filled: &Filled,
    queries: &Queries,
    plan: &Plan<'_>,
) -> io::Result<Measurement> {
    if filled.is_pinned() {
        sys::pin_to_core(plan.client_core)?;
    }
    let mut generator = Generator::connect(peer.addr(), queries, plan.shape)?;
    generator.run(Limit::Time(plan.warm_up))?;
    // Connections are there by now: PostgreSQL has a process for each.
    let (pids, database) = (process::tree(peer.pid())?, filled.pids()?);
    let own = [std::process::id()];
    let times = || [&pids[..], &database[..], &own[..]].map(process::cpu_time);
    let samples = if filled.is_pinned() {
        ModeSamples::begin(plan.server_core).ok()
    } else {
        None
    };
    let (busy, before) = (process::machine_busy(), times());
    let outcome = generator.run(plan.limit)?;
    let after = times();
    let busy = process::machine_busy() - busy;
    let [server, database, client]: [CpuTime; 3] = std::array::from_fn(|i| after[i] - before[i]);
    let (user, system) = match samples.map(|samples| samples.end(|pid| pids.contains(&pid))) {
        Some((user, kernel)) if user + kernel > 0 => {
            let share = user as f64 / (user + kernel) as f64;
            (server.total() * share, server.total() * (1.0 - share))
        }
        _ => (server.user, server.system),
    };
    let answered = outcome.answered.max(1) as f64;
    let other = busy - server.total() - database.total() - client.total();
    Ok(Measurement {
        user_us: user * 1e6 / answered,
        system_us: system * 1e6 / answered,
        database_us: database.total() * 1e6 / answered,
        ready,
        memory: process::memory(&pids).proportional,
        other_load: (other / outcome.elapsed.as_secs_f64()).max(0.0),
        outcome,
    })
}

fn rate(measurement: &Measurement) -> f64 {
    measurement.outcome.answered as f64 / measurement.outcome.elapsed.as_secs_f64()
}

fn table(rows: &[(Server, Measurement)]) -> String {
    let reference = rows
        .iter()
        .find(|(server, _)| *server == Server::Pdns)
        .map(|(_, measurement)| rate(measurement));
    let mut text = String::from(
        "| server | answered/s | rate : PowerDNS | user us/query | sys us/query | database us/query | p50 us | \
         p99 us | lost | wrong | ready s | memory MB | other load |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (server, row) in rows {
        let ratio = match reference {
            Some(reference) if reference > 0.0 => format!("{:.1}", rate(row) / reference),
            _ => "-".to_string(),
        };
        let percentile = |share| row.outcome.latency.percentile(share).as_micros();
        let _ = writeln!(
            text,
            "| {} | {:.0} | {ratio} | {:.2} | {:.2} | {:.2} | {} | {} | {} | {} | {:.2} | {} | {:.1} |",
            server.name(),
            rate(row),
            row.user_us,
            row.system_us,
            row.database_us,
            percentile(0.5),
            percentile(0.99),
            row.outcome.lost,
            row.outcome.wrong,
            row.ready.as_secs_f64(),
            row.memory >> 20,
            row.other_load,
        );
    }
    text
}

/// The heading of a table.
pub fn title(engine: Engine, case: Case) -> String {
    let engine = match engine {
        Engine::Sqlite => "SQLite, one core",
        Engine::Postgres => "PostgreSQL on the same cores",
        Engine::Mariadb => "MariaDB on the same cores",
    };
    let case = match case {
        Case::Random => "one zone, 1,000,000 records, random names",
        Case::Hot => "one zone, 1,000 names, hot",
        Case::Zones => "100,000 zones of 8 records, random",
        Case::Resident => "one zone, 1,000,000 records, loaded into memory",
        Case::Signed => "one zone, 1,000 names, signed with P-256, hot; ours in memory",
        Case::NoNameChain => "random names that do not exist, NSEC chain, P-256; ours in memory",
        Case::NoNameNarrow => "random names that do not exist, narrow NSEC3, P-256; ours in memory",
        Case::NoNameCompact => {
            "random names that do not exist, compact (PowerDNS: chain), P-256; ours in memory"
        }
        Case::NoNameRsa => "random names that do not exist, NSEC chain, RSA-2048; ours in memory",
        Case::NoNameRsaLive => "random names that do not exist, NSEC, RSA-2048; looked up",
    };
    format!("### {engine}: {case}")
}

/// Which measurements are made where none are named: every case of SQLite, and of database servers those in which
/// they have a part.
pub fn plan_of(engines: &[Engine], cases: &[Case]) -> Vec<(Engine, Case)> {
    let all = [Engine::Sqlite, Engine::Postgres, Engine::Mariadb];
    let engines = if engines.is_empty() {
        &all[..]
    } else {
        engines
    };
    let wanted = if cases.is_empty() {
        &Case::ALL[..]
    } else {
        cases
    };
    let mut plan = Vec::new();
    for engine in engines {
        for case in wanted {
            let by_default =
                *engine == Engine::Sqlite || matches!(case, Case::Random | Case::Zones);
            if by_default || !cases.is_empty() {
                plan.push((*engine, *case));
            }
        }
    }
    plan
}
