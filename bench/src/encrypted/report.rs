//! The measurements of each table, and its text.

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::clients::{self, ClientError, EncryptedCounts, Sessions};
use super::{EncryptedBench, EncryptedLoad, EncryptedTransport};
use super::{floods, handshakes, has, https, quic, tls};
use crate::process;
use crate::queries::Queries;
use crate::server::Server;
use crate::sys;

/// Handshakes before those that count.
const FIRST_HANDSHAKES: usize = 20;
/// Time for a server to become idle.
const REST: Duration = Duration::from_secs(1);

/// The cost of queries.
struct QueryCost {
    answered: u64,
    wrong: u64,
    rate: f64,
    user_us: f64,
    system_us: f64,
    other_load: f64,
}

impl QueryCost {
    fn total(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Measures each server, transport and number of connections.
pub fn queries(bench: &EncryptedBench<'_>, queries: &Arc<Queries>) -> Result<String, ClientError> {
    let arguments = bench.arguments;
    let mut text = format!(
        "### Queries, {} under way on each connection\n\n\
         | server | transport | connections | answered/s | CPU us/query | user | sys | : Nameward | wrong | other load |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        arguments.window
    );
    for &transport in &arguments.transport {
        for &connections in &arguments.connections {
            let load = EncryptedLoad {
                transport,
                connections,
                window: arguments.window.max(1),
                warm_up: Duration::from_secs_f64(arguments.warm_up),
                time: Duration::from_secs_f64(arguments.seconds),
            };
            let mut ours = None;
            let servers = arguments.server.iter().copied();
            for server in servers.filter(|server| has(*server, transport)) {
                let mut runs = Vec::new();
                for _ in 0..arguments.repeat.max(1) {
                    eprintln!("{server}: {transport}, {connections} connections ...");
                    runs.push(query_cost(bench, server, load, queries)?);
                }
                runs.sort_by(|a, b| a.total().total_cmp(&b.total()));
                let cost = runs.swap_remove(runs.len() / 2);
                if server == Server::Nameward {
                    ours = Some(cost.total());
                }
                let ratio = ours.map_or("-".to_string(), |ours| {
                    format!("{:.2}", cost.total() / ours)
                });
                writeln!(
                    text,
                    "| {server} | {transport} | {connections} | {:.0} | {:.1} | {:.1} | {:.1} | {ratio} | {} | {:.2} |",
                    cost.rate,
                    cost.total(),
                    cost.user_us,
                    cost.system_us,
                    cost.wrong,
                    cost.other_load,
                )?;
            }
        }
    }
    Ok(text)
}

fn query_cost(
    bench: &EncryptedBench<'_>,
    server: Server,
    load: EncryptedLoad,
    queries: &Arc<Queries>,
) -> Result<QueryCost, ClientError> {
    let started = bench.start(server)?;
    let address = started.address(load.transport);
    sys::pin_to_core(bench.arguments.client_core)?;
    let pids = process::tree(started.peer.pid())?;
    let counts = EncryptedCounts::new(queries);
    let config = clients::config(&bench.authority, load.transport, Sessions::Never)?;
    let runtime = clients::runtime()?;
    let cost = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let (window, connections) = (load.window, load.connections);
        if load.transport == EncryptedTransport::Quic {
            let endpoint = quic::endpoint(config)?;
            for _ in 0..connections {
                let counts = Arc::clone(&counts);
                tasks.spawn(quic::send_queries(
                    address,
                    endpoint.clone(),
                    window,
                    counts,
                ));
            }
        } else {
            let connector = TlsConnector::from(Arc::new(config));
            for _ in 0..connections {
                let (connector, counts) = (connector.clone(), Arc::clone(&counts));
                if load.transport == EncryptedTransport::Tls {
                    tasks.spawn(tls::send_queries(address, connector, window, counts));
                } else {
                    tasks.spawn(https::send_queries(address, connector, window, counts));
                }
            }
        }
        counts.start(connections).await?;
        tokio::time::sleep(load.warm_up).await;
        Ok::<_, ClientError>(measure(&pids, &counts, load.time).await)
    })?;
    runtime.shutdown_background();
    if cost.answered == 0 {
        return Err(format!("{server}: no answer\n{}", started.peer.log_tail()).into());
    }
    Ok(cost)
}

/// Counts answers and processor time for a while.
async fn measure(pids: &[u32], counts: &EncryptedCounts, time: Duration) -> QueryCost {
    let own = [std::process::id()];
    let count = || {
        (
            counts.answered.load(Ordering::Relaxed),
            counts.wrong.load(Ordering::Relaxed),
        )
    };
    let begin = Instant::now();
    let (busy, own_before) = (process::machine_busy(), process::cpu_time(&own));
    let ((answered, wrong), cpu) = (count(), process::cpu_time(pids));
    tokio::time::sleep(time).await;
    let ((answered_after, wrong_after), cpu_after) = (count(), process::cpu_time(pids));
    let elapsed = begin.elapsed().as_secs_f64();
    let (used, own_used) = (cpu_after - cpu, process::cpu_time(&own) - own_before);
    let other = process::machine_busy() - busy - used.total() - own_used.total();
    let answered = answered_after - answered;
    let each = |seconds: f64| seconds * 1e6 / answered.max(1) as f64;
    QueryCost {
        answered,
        wrong: wrong_after - wrong,
        rate: answered as f64 / elapsed,
        user_us: each(used.user),
        system_us: each(used.system),
        other_load: (other / elapsed).max(0.0),
    }
}

/// Measures connections that are opened for one query each.
pub fn handshakes(
    bench: &EncryptedBench<'_>,
    queries: &Arc<Queries>,
) -> Result<String, ClientError> {
    let mut text = format!(
        "### Connections with one query each, {} of each kind\n\n\
         | server | transport | full handshake, CPU ms | resumed, CPU ms | resumed % |\n|---|---|--:|--:|--:|\n",
        bench.arguments.handshakes
    );
    for &transport in &bench.arguments.transport {
        // HTTPS has the handshakes of TLS.
        if transport == EncryptedTransport::Https {
            continue;
        }
        let servers = bench.arguments.server.iter().copied();
        for server in servers.filter(|server| has(*server, transport)) {
            eprintln!("{server}: handshakes over {transport} ...");
            let started = bench.start(server)?;
            sys::pin_to_core(bench.arguments.client_core)?;
            let pids = process::tree(started.peer.pid())?;
            let address = started.address(transport);
            let cost = |sessions| shake(bench, (transport, address), (&pids, queries), sessions);
            let (full, _) = cost(Sessions::Never)?;
            let (resumed, share) = cost(Sessions::Resumed)?;
            let share = share.map_or("-".to_string(), |share| format!("{share:.0}"));
            writeln!(
                text,
                "| {server} | {transport} | {full:.3} | {resumed:.3} | {share} |"
            )?;
        }
    }
    Ok(text)
}

/// Returns the milliseconds of a connection with one query, and the percentage of resumed sessions where it is known.
fn shake(
    bench: &EncryptedBench<'_>,
    (transport, address): (EncryptedTransport, std::net::SocketAddr),
    (pids, queries): (&[u32], &Arc<Queries>),
    sessions: Sessions,
) -> Result<(f64, Option<f64>), ClientError> {
    let count = bench.arguments.handshakes;
    let config = clients::config(&bench.authority, transport, sessions)?;
    let counts = EncryptedCounts::new(queries);
    clients::runtime()?.block_on(async {
        let (before, share) = if transport == EncryptedTransport::Quic {
            let endpoint = quic::endpoint(config)?;
            handshakes::over_quic(address, &endpoint, FIRST_HANDSHAKES, &counts).await?;
            let before = process::cpu_time(pids);
            handshakes::over_quic(address, &endpoint, count, &counts).await?;
            (before, None)
        } else {
            let connector = TlsConnector::from(Arc::new(config));
            handshakes::over_tls(address, &connector, FIRST_HANDSHAKES, &counts).await?;
            let before = process::cpu_time(pids);
            let resumed = handshakes::over_tls(address, &connector, count, &counts).await?;
            (before, Some(resumed as f64 * 100.0 / count.max(1) as f64))
        };
        let used = (process::cpu_time(pids) - before).total();
        Ok((used * 1e3 / count.max(1) as f64, share))
    })
}

/// Measures the memory of connections without queries.
pub fn idle(bench: &EncryptedBench<'_>) -> Result<String, ClientError> {
    let count = bench.arguments.idle;
    let mut text = format!(
        "### {count} idle connections over TLS\n\n\
         | server | memory before MB | memory after MB | KB per connection |\n|---|--:|--:|--:|\n"
    );
    let servers = bench.arguments.server.iter().copied();
    for server in servers.filter(|server| has(*server, EncryptedTransport::Tls)) {
        eprintln!("{server}: {count} idle connections ...");
        let started = bench.start(server)?;
        sys::pin_to_core(bench.arguments.client_core)?;
        let pids = process::tree(started.peer.pid())?;
        let address = started.address(EncryptedTransport::Tls);
        let before = process::memory(&pids).proportional;
        let after = clients::runtime()?.block_on(async {
            let open = handshakes::open_idle(address, &bench.authority, count).await?;
            tokio::time::sleep(REST).await;
            let memory = process::memory(&pids).proportional;
            let closed = open.iter().filter(|stream| is_closed(stream.get_ref().0));
            match closed.count() {
                0 => Ok(memory),
                closed => Err(ClientError::from(format!(
                    "{closed} connections were closed"
                ))),
            }
        });
        match after {
            Ok(after) => writeln!(
                text,
                "| {server} | {:.1} | {:.1} | {:.1} |",
                before as f64 / 1e6,
                after as f64 / 1e6,
                after.saturating_sub(before) as f64 / 1e3 / count.max(1) as f64,
            )?,
            Err(error) => writeln!(text, "| {server} | {error} | | |")?,
        }
    }
    Ok(text)
}

/// Checks whether the server has closed a connection; session tickets may wait to be read.
fn is_closed(stream: &tokio::net::TcpStream) -> bool {
    let mut octets = [0; 4096];
    loop {
        match stream.try_read(&mut octets) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Measures clients over UDP during a flood of handshakes.
pub fn flood(bench: &EncryptedBench<'_>, queries: &Arc<Queries>) -> Result<String, ClientError> {
    let mut text = String::from(
        "### UDP beside a flood of handshakes: without : with\n\n\
         | server | handshakes/s | p50 us | p99 us | p99.9 us | lost |\n|---|--:|--:|--:|--:|--:|\n",
    );
    let servers = bench.arguments.server.iter().copied();
    for server in servers.filter(|server| has(*server, EncryptedTransport::Tls)) {
        eprintln!("{server}: flood of handshakes ...");
        let started = bench.start(server)?;
        sys::pin_to_core(bench.arguments.client_core)?;
        let addresses = (
            started.peer.addr(),
            started.address(EncryptedTransport::Tls),
        );
        let time = Duration::from_secs_f64(bench.arguments.seconds);
        let figures = floods::measure(addresses, &bench.authority, queries, time)?;
        let (quiet, flooded) = (&figures.quiet, &figures.flooded);
        let both = |share| {
            let us = |latency: &crate::latency::Histogram| latency.percentile(share).as_micros();
            format!("{} : {}", us(&quiet.latency), us(&flooded.latency))
        };
        writeln!(
            text,
            "| {server} | {:.0} | {} | {} | {} | {} : {} |",
            figures.handshakes,
            both(0.5),
            both(0.99),
            both(0.999),
            quiet.lost,
            flooded.lost,
        )?;
    }
    Ok(text)
}
