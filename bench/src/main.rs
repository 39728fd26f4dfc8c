//! Load generator and comparison of name servers: see bench/README.md.

#![deny(unsafe_code)]

mod alternate;
mod binaries;
mod bind_keys;
mod compare;
mod databases;
mod encrypted;
mod flood;
mod latency;
mod load;
mod process;
mod queries;
mod random;
mod recursion;
mod rows;
mod scenario;
mod secondaries;
mod server;
mod signed;
mod signing;
#[allow(unsafe_code)] // system calls of the load generator
mod sys;
mod transfers;
mod updates;
mod zones;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use nameward_testkit::TestFailure;
use nameward_testkit::wire::QuestionEdns;

use crate::binaries::{Binaries, BinaryArguments};
use crate::compare::Plan;
use crate::load::{Generator, Limit, MAX_WINDOW, Shape};
use crate::scenario::Scenario;
use crate::server::Server;

/// Measures name servers on this machine, over loopback.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure each server in each scenario.
    Compare(CompareArguments),
    /// Measure Nameward and PowerDNS with zones in databases.
    Databases(DatabaseArguments),
    /// Measure transfers from each server and into each, and NOTIFY to many servers.
    Transfers(TransferArguments),
    /// Measure signing a zone of a million names, with BIND and Knot.
    Signing(SigningArguments),
    /// Measure updates (RFC 2136) from one client and from many.
    Updates(UpdateArguments),
    /// Query Nameward for its own names during a flood of queries for a recursor that hangs.
    Recursion(RecursionArguments),
    /// Flood each server from one network without and with response rate limiting.
    Flood(FloodArguments),
    /// Measure queries, handshakes and idle connections over TLS, HTTPS and QUIC.
    Encrypted(encrypted::EncryptedArguments),
    /// Write the zone files of a scenario.
    Zones {
        /// Scenario whose zone files are written.
        scenario: Scenario,
        /// Directory in which zone files are kept between runs.
        #[arg(long, default_value = "target/bench-data")]
        data: PathBuf,
    },
    /// Query a running server that has the zones of a scenario.
    Load {
        /// Scenario whose queries are sent.
        scenario: Scenario,
        /// Address and port of the server.
        server: SocketAddr,
        #[command(flatten)]
        load: LoadArguments,
    },
}

#[derive(Args)]
struct CompareArguments {
    /// Scenario to run; may be repeated. Default: all without signatures.
    #[arg(long)]
    scenario: Vec<Scenario>,
    /// Servers, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = Server::ALL.map(|s| s.to_string()))]
    server: Vec<String>,
    /// Directory in which zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    /// Run all servers at once and load each in turn, for this many slices of 150 ms: for a machine whose speed changes.
    #[arg(long)]
    slices: Option<NonZeroUsize>,
    #[command(flatten)]
    run: RunArguments,
}

/// A table of `transfers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TransferTable {
    /// A whole zone from each server.
    AxfrOut,
    /// A whole zone of three million records into each server.
    AxfrIn,
    /// A hundred changes of a zone of a million records into each server.
    IxfrIn,
    /// NOTIFY to ten thousand servers.
    Notify,
    /// A start with a hundred thousand secondary zones.
    Zones,
}

#[derive(Args)]
struct TransferArguments {
    /// Tables, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["axfr-out", "axfr-in", "ixfr-in", "notify", "zones"])]
    table: Vec<TransferTable>,
    /// Scenario whose first zone is transferred.
    #[arg(long, default_value = "tld")]
    scenario: Scenario,
    /// Servers, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = ["nameward", "nsd", "knot", "bind"].map(String::from))]
    server: Vec<String>,
    /// Directory in which zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Args)]
struct SigningArguments {
    /// Scenario whose zone is signed.
    #[arg(long, default_value = "flat")]
    scenario: Scenario,
    /// Directory in which zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    /// Maximum time in which a server must load its zones, in seconds.
    #[arg(long, default_value_t = 120.0)]
    ready_timeout: f64,
    #[command(flatten)]
    binaries: BinaryArguments,
}

#[derive(Args)]
struct DatabaseArguments {
    /// Databases, separated by commas. Default: all.
    #[arg(long, value_delimiter = ',')]
    engine: Vec<databases::Engine>,
    /// Cases, separated by commas. Default: those whose results depend on the database.
    #[arg(long, value_delimiter = ',')]
    case: Vec<databases::Case>,
    /// Run all servers at once and load each in turn, for this many slices of 150 ms; SQLite only.
    #[arg(long)]
    slices: Option<NonZeroUsize>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Args)]
struct UpdateArguments {
    /// Servers, separated by commas. Default: all.
    #[arg(long, value_delimiter = ',')]
    server: Vec<updates::UpdatedServer>,
    /// Numbers of clients, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    clients: Vec<usize>,
    /// Records in the zone before the first update. The cost of an update must not depend on it.
    #[arg(long, default_value_t = 0)]
    records: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    #[command(flatten)]
    binaries: BinaryArguments,
}

#[derive(Args)]
struct RecursionArguments {
    /// Queries of the flood per second.
    #[arg(long, default_value_t = 20_000)]
    flood: u32,
    /// Directory in which zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Args)]
struct FloodArguments {
    /// Queries of the flood per second.
    #[arg(long, default_value_t = 300_000)]
    flood: u32,
    /// Scenario whose zones are served and queried.
    #[arg(long, default_value = "small")]
    scenario: Scenario,
    /// Servers, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = ["nameward", "nsd", "knot", "bind"].map(String::from))]
    server: Vec<String>,
    /// Directory in which zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    #[command(flatten)]
    run: RunArguments,
}

/// How each server is run and loaded.
#[derive(Args)]
struct RunArguments {
    /// Runs of every server; the one with the median user time is shown.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Seconds of load before each measurement.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Maximum time in which a server must load its zones, in seconds.
    #[arg(long, default_value_t = 300.0)]
    ready_timeout: f64,
    /// CPU core for the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// CPU core for the load generator.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    #[command(flatten)]
    binaries: BinaryArguments,
    #[command(flatten)]
    load: LoadArguments,
}

#[derive(Args)]
struct LoadArguments {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Stop after this many queries instead.
    #[arg(long)]
    queries: Option<u64>,
    /// Sockets that send queries.
    #[arg(long, default_value_t = 4)]
    sockets: usize,
    /// Outstanding queries on each socket.
    #[arg(long, default_value_t = 32)]
    window: usize,
    /// EDNS of the queries: off, plain, dnssec or compact.
    #[arg(long, default_value = "plain")]
    edns: QuestionEdns,
}

impl LoadArguments {
    fn limit(&self) -> Limit {
        match self.queries {
            Some(count) => Limit::Queries(count),
            None => Limit::Time(Duration::from_secs_f64(self.seconds)),
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            sockets: self.sockets.max(1),
            window: self.window.clamp(1, MAX_WINDOW),
            timeout: Duration::from_secs(1),
        }
    }
}

impl RunArguments {
    fn plan<'a>(&self, binaries: &'a Binaries) -> Plan<'a> {
        Plan {
            binaries,
            server_core: self.server_core,
            client_core: self.client_core,
            warm_up: Duration::from_secs_f64(self.warm_up),
            limit: self.load.limit(),
            shape: self.load.shape(),
            ready_timeout: Duration::from_secs_f64(self.ready_timeout),
        }
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Task::Compare(arguments) => compare(&arguments),
        Task::Databases(arguments) => compare_databases(&arguments),
        Task::Transfers(arguments) => compare_transfers(&arguments),
        Task::Signing(arguments) => compare_signing(&arguments),
        Task::Updates(arguments) => compare_updates(&arguments),
        Task::Recursion(arguments) => compare_recursion(&arguments),
        Task::Flood(arguments) => compare_flooded(&arguments),
        Task::Encrypted(arguments) => encrypted::compare(&arguments),
        Task::Zones { scenario, data } => zones::prepare(scenario, &data)
            .map(|files| println!("{}", files.directory.display()))
            .map_err(TestFailure::from),
        Task::Load {
            scenario,
            server,
            load,
        } => ask(scenario, server, &load),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nameward-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &CompareArguments) -> Result<(), TestFailure> {
    let mut servers: Vec<Server> = arguments
        .server
        .iter()
        .map(|name| <Server as clap::ValueEnum>::from_str(name.trim(), true))
        .collect::<Result<_, _>>()?;
    let scenarios = if arguments.scenario.is_empty() {
        Scenario::ALL.to_vec()
    } else {
        arguments.scenario.clone()
    };
    let run = &arguments.run;
    let binaries = run.binaries.find()?;
    let plan = run.plan(&binaries);
    let ours = servers.iter().position(|s| *s == Server::Nameward);
    if let Some(ours) = ours.filter(|_| binaries.before.is_some())
        && !servers.contains(&Server::Before)
    {
        servers.insert(ours + 1, Server::Before);
    }
    let mut failed = 0;
    for scenario in scenarios {
        let files = zones::prepare(scenario, &arguments.data)
            .map_err(|error| format!("zone files of {scenario}: {error}"))?;
        let queries = scenario.queries(run.load.edns);
        let title = format!("### {scenario}: {}", scenario.description());
        if let Some(slices) = arguments.slices {
            let table = compare::alternate(&servers, (&files, &queries), slices, &plan)?;
            println!("{title}\n\n{table}");
            continue;
        }
        let mut runs: Vec<Vec<_>> = servers.iter().map(|_| Vec::new()).collect();
        // Rounds over all servers, so that a slow minute of the machine meets all of them.
        for _ in 0..run.repeat.max(1) {
            for (server, runs) in servers.iter().zip(&mut runs) {
                eprintln!("{scenario}: {server} ...");
                let measured = compare::measure(*server, &files, &queries, &plan);
                if let Err(error) = &measured {
                    failed += 1;
                    eprintln!("{scenario}: {server}: {error}");
                }
                runs.push(measured);
            }
        }
        let rows: Vec<_> = servers
            .iter()
            .copied()
            .zip(runs.into_iter().map(compare::median))
            .collect();
        println!("{title}\n\n{}", compare::table(&rows));
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} measurements failed").into()),
    }
}

fn compare_transfers(arguments: &TransferArguments) -> Result<(), TestFailure> {
    let names = arguments.server.iter();
    let servers: Vec<Server> = names
        .map(|name| <Server as clap::ValueEnum>::from_str(name.trim(), true))
        .collect::<Result<_, _>>()?;
    let run = &arguments.run;
    let binaries = run.binaries.find()?;
    let plan = run.plan(&binaries);
    for table in &arguments.table {
        let (title, text) = match table {
            TransferTable::AxfrOut => {
                transfer_out(arguments, &servers, &plan)?;
                continue;
            }
            TransferTable::AxfrIn => (
                "AXFR into each server, 3 million records",
                secondaries::whole(&servers, run.repeat, &plan)?,
            ),
            TransferTable::IxfrIn => (
                "IXFR into each server, 100 records of a zone of a million: from the NOTIFY until they are served",
                secondaries::differences(&servers, &plan)?,
            ),
            TransferTable::Notify => (
                "NOTIFY to 10,000 servers while queries are answered",
                secondaries::notify(&plan)?,
            ),
            TransferTable::Zones => (
                "100,000 secondary zones: from the start until all are served",
                secondaries::zones(&plan)?,
            ),
        };
        println!("### {title}\n\n{text}");
    }
    Ok(())
}

fn transfer_out(
    arguments: &TransferArguments,
    servers: &[Server],
    plan: &Plan<'_>,
) -> Result<(), TestFailure> {
    let (run, scenario) = (&arguments.run, arguments.scenario);
    let files = zones::prepare(scenario, &arguments.data)
        .map_err(|error| format!("zone files of {scenario}: {error}"))?;
    let mut runs: Vec<Vec<_>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..run.repeat.max(1) {
        for (server, runs) in servers.iter().zip(&mut runs) {
            eprintln!("{scenario}: AXFR from {server} ...");
            runs.push(transfers::measure(*server, &files, plan));
        }
    }
    let runs = runs.into_iter().map(transfers::median);
    let rows: Vec<_> = servers.iter().copied().zip(runs).collect();
    println!("### AXFR of {scenario}: {}\n", scenario.description());
    println!("{}", transfers::table(&rows));
    Ok(())
}

fn compare_databases(arguments: &DatabaseArguments) -> Result<(), TestFailure> {
    let run = &arguments.run;
    let binaries = run.binaries.find()?;
    let plan = run.plan(&binaries);
    for (engine, case) in databases::plan_of(&arguments.engine, &arguments.case) {
        let edns = run.load.edns;
        let table = match arguments.slices {
            Some(slices) => databases::alternate(engine, case, (edns, slices), &plan)?,
            None => databases::compare(engine, case, (edns, run.repeat), &plan)?,
        };
        println!("{}\n\n{table}", databases::title(engine, case));
    }
    Ok(())
}

fn compare_signing(arguments: &SigningArguments) -> Result<(), TestFailure> {
    let binaries = arguments.binaries.find()?;
    let scenario = arguments.scenario;
    let files = zones::prepare(scenario, &arguments.data)
        .map_err(|error| format!("zone files of {scenario}: {error}"))?;
    let ready_timeout = Duration::from_secs_f64(arguments.ready_timeout);
    let table = signing::compare(&files, &binaries, ready_timeout)?;
    println!("### Signing the zone of {scenario} with all cores\n\n{table}");
    Ok(())
}

fn compare_updates(arguments: &UpdateArguments) -> Result<(), TestFailure> {
    let binaries = arguments.binaries.find()?;
    let servers = if arguments.server.is_empty() {
        updates::UpdatedServer::ALL.to_vec()
    } else {
        arguments.server.clone()
    };
    let terms = updates::UpdateTerms {
        records: arguments.records,
        time: Duration::from_secs_f64(arguments.seconds),
    };
    updates::compare(&servers, &arguments.clients, &binaries, terms)
}

fn compare_recursion(arguments: &RecursionArguments) -> Result<(), TestFailure> {
    let (run, scenario) = (&arguments.run, Scenario::Small);
    let binaries = run.binaries.find()?;
    let plan = run.plan(&binaries);
    let files = zones::prepare(scenario, &arguments.data)
        .map_err(|error| format!("zone files of {scenario}: {error}"))?;
    let queries = scenario.queries(run.load.edns);
    let table = recursion::compare(
        (&files, &queries),
        (arguments.flood, run.repeat.max(1)),
        &plan,
    )?;
    println!("### Own names, during a flood of queries for a recursor that hangs\n\n{table}");
    Ok(())
}

fn compare_flooded(arguments: &FloodArguments) -> Result<(), TestFailure> {
    let (run, scenario) = (&arguments.run, arguments.scenario);
    let names = arguments.server.iter();
    let servers: Vec<Server> = names
        .map(|name| <Server as clap::ValueEnum>::from_str(name.trim(), true))
        .collect::<Result<_, _>>()?;
    let binaries = run.binaries.find()?;
    let plan = run.plan(&binaries);
    let files = zones::prepare(scenario, &arguments.data)
        .map_err(|error| format!("zone files of {scenario}: {error}"))?;
    let queries = scenario.queries(run.load.edns);
    let table = flood::compare(&servers, (&files, &queries), arguments.flood, &plan)?;
    println!("### A flood for one name of {scenario} from one network\n\n{table}");
    Ok(())
}

fn ask(scenario: Scenario, server: SocketAddr, load: &LoadArguments) -> Result<(), TestFailure> {
    let queries = scenario.queries(load.edns);
    let outcome = Generator::connect(server, &queries, load.shape())
        .and_then(|mut generator| generator.run(load.limit()))
        .map_err(|error| format!("{server}: {error}"))?;
    let rate = outcome.answered as f64 / outcome.elapsed.as_secs_f64();
    println!("answered    {} ({rate:.0}/s)", outcome.answered);
    println!("lost        {}", outcome.lost);
    println!("wrong kind  {}", outcome.wrong);
    for (rcode, count) in outcome.rcodes.iter().enumerate().filter(|(_, n)| **n > 0) {
        println!("rcode {rcode:<5} {count}");
    }
    let mean = outcome.octets as f64 / outcome.answered.max(1) as f64;
    println!("mean size   {mean:.0} octets");
    for share in [0.5, 0.99, 0.999] {
        println!(
            "p{:<10} {:?}",
            share * 100.0,
            outcome.latency.percentile(share)
        );
    }
    Ok(())
}
