//! One measurement of one server, and the table of all of them.

use std::fmt::Write;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use nameward_testkit::TestFailure;
use nameward_testkit::peers::{Peer, PeerError, PeerOptions};

use crate::alternate::{self, Contender};
use crate::binaries::Binaries;
use crate::load::{Generator, Limit, Outcome, Shape};
use crate::process::{self, Memory};
use crate::queries::Queries;
use crate::server::Server;
use crate::sys::{self, ModeSamples};
use crate::zones::ZoneFiles;

/// How a server is measured.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The programs.
    pub binaries: &'a Binaries,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the load.
    pub client_core: usize,
    /// Load before the measurement.
    pub warm_up: Duration,
    /// The end of the measurement.
    pub limit: Limit,
    /// Sockets and windows.
    pub shape: Shape,
    /// How long a server may take to load.
    pub ready_timeout: Duration,
}

/// The figures of one server.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Answers and latencies.
    pub outcome: Outcome,
    /// Processor time for one answer, microseconds in user mode.
    pub user_us: f64,
    /// The same in the kernel.
    pub system_us: f64,
    /// Processor seconds until it answered for its zones.
    pub load_cpu: f64,
    /// Memory after the run.
    pub memory: Memory,
    /// Processor time of anything else on the machine, as cores.
    pub other_load: f64,
}

/// Starts a server, loads it with queries, and stops it.
pub fn measure(
    server: Server,
    files: &ZoneFiles,
    queries: &Queries,
    plan: &Plan<'_>,
) -> Result<Measurement, TestFailure> {
    let peer = start(server, files, plan)?;
    run(&peer, queries, plan).map_err(TestFailure::from)
}

/// Starts all servers, lets them take turns, and returns their table.
pub fn alternate(
    servers: &[Server],
    (files, queries): (&ZoneFiles, &Queries),
    slices: NonZeroUsize,
    plan: &Plan<'_>,
) -> Result<String, TestFailure> {
    let mut contenders = Vec::new();
    for server in servers {
        let name = server.to_string();
        let peer = start(*server, files, plan);
        let peer = peer.map_err(|error| TestFailure::from(error).at(&name))?;
        contenders.push(Contender { name, peer });
    }
    Ok(alternate::run(&contenders, queries, plan, slices)?)
}

fn start(server: Server, files: &ZoneFiles, plan: &Plan<'_>) -> Result<Peer, PeerError> {
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ready_timeout: plan.ready_timeout,
        ..PeerOptions::default()
    };
    server.start(plan.binaries, files, options)
}

/// Loads a running server with queries.
pub fn run(peer: &Peer, queries: &Queries, plan: &Plan<'_>) -> io::Result<Measurement> {
    let pids = process::tree(peer.pid())?;
    let load_cpu = process::cpu_time(&pids).total();
    sys::pin_to_core(plan.client_core)?;
    let mut generator = Generator::connect(peer.addr(), queries, plan.shape)?;
    generator.run(Limit::Time(plan.warm_up))?;

    let own = [std::process::id()];
    let everybody = |pids: &[u32]| (process::cpu_time(pids), process::cpu_time(&own));
    // Without the right to sample, the kernel's own coarse split has to do.
    let samples = ModeSamples::begin(plan.server_core).ok();
    let (busy, (before, own_before)) = (process::machine_busy(), everybody(&pids));
    let outcome = generator.run(plan.limit)?;
    let (after, own_after) = everybody(&pids);
    let busy = process::machine_busy() - busy;
    let used = after - before;
    let (user, system) = match samples.map(|samples| samples.end(|pid| pids.contains(&pid))) {
        Some((user, kernel)) if user + kernel > 0 => {
            let share = user as f64 / (user + kernel) as f64;
            (used.total() * share, used.total() * (1.0 - share))
        }
        _ => (used.user, used.system),
    };
    let answered = outcome.answered.max(1) as f64;
    let other = busy - used.total() - (own_after - own_before).total();
    Ok(Measurement {
        user_us: user * 1e6 / answered,
        system_us: system * 1e6 / answered,
        load_cpu,
        memory: process::memory(&pids),
        other_load: (other / outcome.elapsed.as_secs_f64()).max(0.0),
        outcome,
    })
}

/// The Markdown table of a scenario: of each server the median run by user time for an answer.
pub fn table(rows: &[(Server, Result<Measurement, TestFailure>)]) -> String {
    let reference = rows.iter().find_map(|(server, row)| match (server, row) {
        (Server::Nsd, Ok(measurement)) => Some(measurement.user_us),
        _ => None,
    });
    let mut text = String::from(
        "| server | answered/s | user us/query | sys us/query | user : NSD | p50 us | p99 us | \
         p99.9 us | lost | wrong | load CPU s | memory MB | peak MB | other load |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (server, row) in rows {
        let _ = match row {
            Ok(measurement) => write_row(&mut text, *server, measurement, reference),
            Err(error) => {
                let reason = error.first_line();
                writeln!(text, "| {server} | {reason} |")
            }
        };
    }
    text
}

fn write_row(
    text: &mut String,
    server: Server,
    row: &Measurement,
    reference: Option<f64>,
) -> std::fmt::Result {
    let outcome = &row.outcome;
    let rate = outcome.answered as f64 / outcome.elapsed.as_secs_f64();
    let percentile = |share| outcome.latency.percentile(share).as_nanos() / 1000;
    let ratio = match reference {
        Some(reference) if reference > 0.0 => format!("{:.2}", row.user_us / reference),
        _ => "-".to_string(),
    };
    writeln!(
        text,
        "| {server} | {rate:.0} | {:.2} | {:.2} | {ratio} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {:.1} |",
        row.user_us,
        row.system_us,
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        outcome.lost,
        outcome.wrong,
        row.load_cpu,
        row.memory.proportional >> 20,
        row.memory.peak >> 20,
        row.other_load,
    )
}

/// Returns the run with the median user time; an error only if no run succeeded.
pub fn median(mut runs: Vec<Result<Measurement, TestFailure>>) -> Result<Measurement, TestFailure> {
    if runs.iter().any(Result::is_ok) {
        runs.retain(Result::is_ok);
    }
    let time = |run: &Result<Measurement, TestFailure>| run.as_ref().map_or(0.0, |m| m.user_us);
    median_by(runs, time).unwrap_or_else(|| Err("not run".into()))
}

/// Returns the median by the value that `measure` returns.
pub fn median_by<T>(mut runs: Vec<T>, measure: impl Fn(&T) -> f64) -> Option<T> {
    runs.sort_by(|a, b| measure(a).total_cmp(&measure(b)));
    let middle = runs.len() / 2;
    (!runs.is_empty()).then(|| runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_user_time(user_us: f64) -> Measurement {
        Measurement {
            outcome: Outcome {
                elapsed: Duration::from_secs(1),
                answered: 1000,
                ..Outcome::default()
            },
            user_us,
            system_us: 3.0,
            load_cpu: 0.5,
            memory: Memory::default(),
            other_load: 0.0,
        }
    }

    #[test]
    fn the_median_passes_over_failed_runs() {
        let runs = vec![
            Ok(with_user_time(3.0)),
            Err("no".into()),
            Ok(with_user_time(1.0)),
            Ok(with_user_time(2.0)),
        ];
        assert_eq!(median(runs).unwrap().user_us, 2.0);
        assert_eq!(median(vec![Err("no".into())]).unwrap_err(), "no".into());
    }

    #[test]
    fn the_ratio_is_to_nsd_of_the_same_table() {
        let text = table(&[
            (Server::Nameward, Ok(with_user_time(0.5))),
            (Server::Nsd, Ok(with_user_time(2.0))),
            (Server::Bind, Err("named is not installed".into())),
        ]);
        assert!(
            text.contains("| nameward | 1000 | 0.50 | 3.00 | 0.25 |"),
            "{text}"
        );
        assert!(text.contains("| bind | named is not installed |"), "{text}");
    }
}
