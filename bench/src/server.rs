//! The servers that are compared, and how each is started for a scenario.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use nameward_testkit::peers::{EncryptedListeners, Peer, PeerError, PeerKind, PeerOptions};

use crate::binaries::Binaries;
use crate::zones::ZoneFiles;

/// A server of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Server {
    /// Ours.
    Nameward,
    /// A second binary of ours, given by `--before`.
    Before,
    /// NLnet Labs NSD: the ratio column refers to it.
    Nsd,
    /// CZ.NIC Knot DNS.
    Knot,
    /// ISC BIND.
    Bind,
    /// PowerDNS with its bind backend.
    Pdns,
}

impl Server {
    /// Every server that needs no flag, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::Nameward,
        Self::Nsd,
        Self::Knot,
        Self::Bind,
        Self::Pdns,
    ];

    /// Returns its brand, unless it is ours.
    pub fn peer(self) -> Option<PeerKind> {
        match self {
            Self::Nameward | Self::Before => None,
            Self::Nsd => Some(PeerKind::Nsd),
            Self::Knot => Some(PeerKind::Knot),
            Self::Bind => Some(PeerKind::Bind),
            Self::Pdns => Some(PeerKind::PowerDns),
        }
    }

    /// Returns the program of a server of ours.
    pub fn our_program(self, binaries: &Binaries) -> Result<&Path, PeerError> {
        let program = match self {
            Self::Before => binaries.before.as_deref(),
            _ => Some(binaries.nameward.as_path()),
        };
        let Some(program) = program.filter(|program| program.is_file()) else {
            let reason = match program {
                Some(path) => format!("{}: not built; bench/run builds it", path.display()),
                None => "no binary is given; --before PATH names it".to_string(),
            };
            return Err(io::Error::new(io::ErrorKind::NotFound, reason).into());
        };
        Ok(program)
    }

    /// Starts it with the zones and waits until it answers for them.
    pub fn start(
        self,
        binaries: &Binaries,
        files: &ZoneFiles,
        mut options: PeerOptions,
    ) -> Result<Peer, PeerError> {
        if let Some(kind) = self.peer() {
            let zones: Vec<(&str, &Path)> = files
                .zones
                .iter()
                .map(|(name, file)| (name.as_str(), file.as_path()))
                .collect();
            options.program = Some(binaries.peer(kind)?);
            return Peer::start(kind, &zones, &options);
        }
        let (program, options) = (self.our_program(binaries)?, &options);
        // Loopback is exempt by default, and the flood comes from there.
        let limit = options
            .responses_per_second
            .map(|rate| format!("[rate_limit]\nresponses_per_second = {rate}\nexempt = []\n\n"));
        let certificate = options.encrypted.as_ref().map(|listeners| {
            let (certificate, key) = (&listeners.certificate, &listeners.key);
            format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n\n")
        });
        let more = limit.unwrap_or_default() + &certificate.unwrap_or_default();
        launch_ours(program, files, options, &more)
    }
}

/// Starts our server with the zones and `more` settings, and waits until it answers for them.
pub fn launch_ours(
    program: &Path,
    files: &ZoneFiles,
    options: &PeerOptions,
    more: &str,
) -> Result<Peer, PeerError> {
    let names: Vec<&str> = files.zones.iter().map(|(name, _)| name.as_str()).collect();
    Peer::launch(&names, options, |directory, addr| {
        let config = directory.join("nameward.toml");
        let zones = nameward_zones(files);
        let workers = options.threads;
        // Its own control socket, so that a server of this machine is not disturbed.
        let control = directory.join("control.sock");
        let defaults = if options.allow_transfer {
            "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n\n"
        } else {
            ""
        };
        let encrypted = options.encrypted.as_ref().map(encrypted_listeners);
        let encrypted = encrypted.unwrap_or_default();
        fs::write(
            &config,
            format!(
                "[server]\nlisten = [\"{addr}\"]\nworkers = {workers}\n{encrypted}\
                 control_socket = \"{}\"\n\n\
                 [web]\nlisten = \"127.0.0.1:0\"\n\n\
                 {more}{defaults}[[backend]]\ntype = \"file\"\n{zones}",
                control.display()
            ),
        )?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(config);
        Ok(command)
    })
}

/// The listeners, with room for all connections from one address and time for those that are idle.
fn encrypted_listeners(listeners: &EncryptedListeners) -> String {
    let (tls, https, quic) = (listeners.tls, listeners.https, listeners.quic);
    format!(
        "listen_tls = [\"{tls}\"]\nlisten_https = [\"{https}\"]\nlisten_quic = [\"{quic}\"]\n\
         tcp_connections_per_client = 20000\ntcp_idle_timeout_ms = 120000\n"
    )
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nameward => "nameward",
            Self::Before => "before",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::Bind => "bind",
            Self::Pdns => "pdns",
        })
    }
}

/// One zone is listed; many are found in their directory, as a hoster would have it, unless the scenario is a list.
fn nameward_zones(files: &ZoneFiles) -> String {
    if !files.is_listed {
        return format!("directory = \"{}\"\n", files.directory.display());
    }
    let mut text = String::from("zones = [\n");
    for (name, file) in &files.zones {
        let file = file.display();
        let _ = writeln!(text, "  {{ name = \"{name}\", file = \"{file}\" }},");
    }
    text + "]\n"
}
