//! The configuration that every peer has, whatever it serves: 127.0.0.1 only, no control channel if it can be disabled, no
//! state outside its directory, a log on standard error.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PeerKind;

/// The configuration of a peer besides the lines that all have.
#[derive(Clone, Copy, Debug)]
pub struct PeerConfig<'a> {
    /// Serving threads (or processes, for NSD).
    pub threads: usize,
    /// Whether it logs events, not just problems.
    pub logs_events: bool,
    /// Lines of its main section: `server` of NSD and Knot, `options` of BIND.
    pub main: &'a str,
    /// Text after it, such as keys and zones.
    pub rest: &'a str,
}

impl Default for PeerConfig<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            logs_events: true,
            main: "",
            rest: "",
        }
    }
}

impl PeerKind {
    /// Writes the configuration into the peer's directory and returns the command that runs it in the foreground.
    pub fn prepare(
        self,
        program: &Path,
        directory: &Path,
        address: SocketAddr,
        config: &PeerConfig<'_>,
    ) -> io::Result<Command> {
        self.configure(directory, address, config)?;
        let (conf, log) = (self.config_file(directory), directory.join("log"));
        let mut command = Command::new(program);
        match self {
            Self::Nsd => command.arg("-d").arg("-c").arg(conf),
            Self::Knot => command.arg("-c").arg(conf),
            Self::Bind => {
                command.args(["-f", "-4", "-n", &config.threads.to_string()]);
                // BIND reports a wrong configuration before it has read where to log.
                command.arg("-L").arg(log).arg("-c").arg(conf)
            }
            Self::PowerDns => command.arg(format!("--config-dir={}", directory.display())),
        };
        Ok(command)
    }

    /// Writes the configuration into the peer's directory, for a start or a reload.
    pub fn configure(
        self,
        directory: &Path,
        address: SocketAddr,
        config: &PeerConfig<'_>,
    ) -> io::Result<()> {
        let text = match self {
            Self::Nsd => nsd(directory, address, config),
            Self::Knot => knot(directory, address, config),
            Self::Bind => bind(directory, address, config),
            Self::PowerDns => powerdns(directory, address, config),
        };
        fs::write(self.config_file(directory), text)
    }

    /// Returns the configuration file in a peer's directory.
    pub fn config_file(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Self::PowerDns => "pdns.conf",
            _ => "conf",
        })
    }
}

fn nsd(directory: &Path, address: SocketAddr, config: &PeerConfig<'_>) -> String {
    let (directory, ip, port) = (directory.display(), address.ip(), address.port());
    let PeerConfig { main, rest, .. } = config;
    let (threads, verbosity) = (config.threads, if config.logs_events { 2 } else { 0 });
    // An empty database name keeps zones in memory only.
    format!(
        "server:
    server-count: {threads}
    ip-address: {ip}@{port}
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: \"{directory}\"
    pidfile: \"{directory}/pid\"
    zonelistfile: \"{directory}/zone.list\"
    xfrdfile: \"{directory}/xfrd.state\"
    xfrdir: \"{directory}\"
    verbosity: {verbosity}
{main}remote-control:
    control-enable: no
{rest}"
    )
}

fn knot(directory: &Path, address: SocketAddr, config: &PeerConfig<'_>) -> String {
    let (directory, ip, port) = (directory.display(), address.ip(), address.port());
    let PeerConfig { main, rest, .. } = config;
    let (threads, level) = (config.threads, level(config));
    // The control socket cannot be disabled; it stays in the peer's own directory. Its databases are created even if they
    // stay empty.
    format!(
        "server:
    rundir: \"{directory}\"
    listen: {ip}@{port}
    udp-workers: {threads}
    tcp-workers: {threads}
    background-workers: 1
    automatic-acl: off
{main}log:
  - target: stderr
    any: {level}
database:
    storage: \"{directory}\"
    journal-db-max-size: 1G
    kasp-db-max-size: 8M
    timer-db-max-size: 64M
    catalog-db-max-size: 8M
{rest}"
    )
}

fn bind(directory: &Path, address: SocketAddr, config: &PeerConfig<'_>) -> String {
    let (directory, ip, port) = (directory.display(), address.ip(), address.port());
    let PeerConfig { main, rest, .. } = config;
    let level = level(config);
    format!(
        "options {{
    directory \"{directory}\";
    managed-keys-directory \"{directory}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    empty-zones-enable no;
{main}}};
controls {{ }};
logging {{
    channel standard_error {{ stderr; severity {level}; }};
    category default {{ standard_error; }};
}};
{rest}"
    )
}

/// PowerDNS has one section.
fn powerdns(directory: &Path, address: SocketAddr, config: &PeerConfig<'_>) -> String {
    let (directory, ip, port) = (directory.display(), address.ip(), address.port());
    let PeerConfig { main, rest, .. } = config;
    let (threads, level) = (config.threads, if config.logs_events { 6 } else { 4 });
    format!(
        "local-address={ip}
local-port={port}
socket-dir={directory}
receiver-threads={threads}
security-poll-suffix=
daemon=no
guardian=no
write-pid=no
disable-syslog=yes
loglevel={level}
{main}{rest}"
    )
}

/// The level of messages that BIND and Knot log.
fn level(config: &PeerConfig<'_>) -> &'static str {
    if config.logs_events {
        "info"
    } else {
        "warning"
    }
}
