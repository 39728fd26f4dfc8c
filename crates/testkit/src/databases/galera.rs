//! A Galera cluster: MariaDB nodes on loopback that all accept writes.
//!
//! Every node starts from a copy of one data directory and one position in the cluster's history, so that none needs a
//! state transfer.

use super::{Database, DatabaseKind, check, program, server_program, user};
use crate::missing::require;
use crate::peers::free_address;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Where Debian installs the replication library.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";
/// Timeout for the nodes to find each other.
const TIMEOUT: Duration = Duration::from_secs(90);

impl Database {
    /// Starts a cluster with this many nodes; `None` if it is not installed and that is allowed ([`require`]).
    pub fn galera(nodes: usize) -> Option<io::Result<Vec<Self>>> {
        let kind = DatabaseKind::Mariadb;
        require(program(kind, server_program(kind)), server_program(kind))?;
        let is_installed = Path::new(PROVIDER).is_file();
        require(is_installed.then_some(()), "galera-4")?;
        Some(start(nodes))
    }

    /// Waits until a cluster node sees this many nodes and accepts statements.
    pub fn await_cluster(&self, nodes: usize) -> io::Result<()> {
        let started = Instant::now();
        let sql = "SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name IN ('wsrep_cluster_size', 'wsrep_ready') ORDER BY variable_name";
        let wanted = format!("{nodes}\nON\n");
        let mut last = String::new();
        while started.elapsed() < TIMEOUT {
            last = self
                .client_of_all(sql)
                .unwrap_or_else(|error| error.to_string());
            if last == wanted {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other(format!(
            "expected a cluster of {nodes}, found {last:?}"
        )))
    }
}

fn start(count: usize) -> io::Result<Vec<Database>> {
    let mut replication = Vec::new();
    for _ in 0..count {
        replication.push(free_address()?);
    }
    let mut first = Database::create(DatabaseKind::Mariadb)?;
    // The position is written when a cluster node shuts down cleanly.
    first.arguments = arguments(replication[0], &[]);
    first.restart()?;
    first.await_cluster(1)?;
    first.end("TERM");
    let mut nodes = vec![first];
    for address in &replication[1..] {
        let node = copy(&nodes[0], *address, &replication)?;
        nodes.push(node);
    }
    for node in &mut nodes {
        node.restart()?;
    }
    for node in &mut nodes {
        node.await_cluster(count)?;
    }
    // A node that restarts joins the others and does not found its own cluster.
    nodes[0].arguments = arguments(replication[0], &replication);
    Ok(nodes)
}

fn copy(first: &Database, own: SocketAddr, all: &[SocketAddr]) -> io::Result<Database> {
    let directory = tempfile::Builder::new().prefix("nameward-db-").tempdir()?;
    let node = Database {
        kind: first.kind,
        directory,
        address: free_address()?,
        arguments: arguments(own, all),
        child: None,
        watchdog: None,
    };
    check(
        Command::new("cp")
            .arg("-a")
            .args([first.data(), node.data()]),
    )?;
    check(
        Command::new("chown")
            .arg(user(first.kind))
            .arg(node.directory.path()),
    )?;
    Ok(node)
}

/// Returns the options of a node that replicates on `own`; without others it founds a cluster.
fn arguments(own: SocketAddr, all: &[SocketAddr]) -> Vec<String> {
    let others: Vec<String> = all.iter().map(ToString::to_string).collect();
    vec![
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={PROVIDER}"),
        format!("--wsrep-cluster-address=gcomm://{}", others.join(",")),
        "--wsrep-cluster-name=nameward".into(),
        format!("--wsrep-node-address={own}"),
        "--wsrep-sst-method=rsync".into(),
        "--binlog-format=ROW".into(),
        "--innodb-autoinc-lock-mode=2".into(),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://{own};gcache.size=16M"),
    ]
}
