//! Other name servers as primary or secondary of a server under test, with TSIG-signed transfers.
//!
//! A [`MeshPeer`] is a real server of some brand ([`PeerKind`]) with one zone. As a primary it gets new versions of the
//! zone ([`MeshPeer::change`]) and sends NOTIFY to the other side; as a secondary it transfers the zone from there.
//! Everything stays on 127.0.0.1, each server in its own directory.

pub mod catalog;
mod config;
mod zone;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::TestFailure;
use crate::peers::{Peer, PeerError, PeerKind, PeerOptions};

pub use zone::{ChangingZone, ZoneSigner};

/// Timeout for a change to reach the other side. Generous: only a hang exceeds it.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The key that signs all transfers and NOTIFY messages of a mesh.
pub const KEY_NAME: &str = "mesh.example.";
/// The algorithm of the key.
pub const KEY_ALGORITHM: &str = "hmac-sha256";
/// The secret of the key, in base64.
pub const KEY_SECRET: &str = "bWVzaCBvZiBuYW1lIHNlcnZlcnMsIGFsbCBsb29wYmFjaw==";

/// The role of the peer in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshRole {
    /// The peer has the zone and transfers it to the other side.
    Primary,
    /// The peer transfers the zone from the other side.
    Secondary,
}

/// A peer to start.
#[derive(Clone, Debug)]
pub struct MeshSetup<'a> {
    /// The product.
    pub kind: PeerKind,
    /// Its role.
    pub role: MeshRole,
    /// The zone name.
    pub zone: &'a str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where the server under test listens.
    pub other: SocketAddr,
}

/// A running server that takes part in transfers.
pub struct MeshPeer {
    peer: Peer,
    kind: PeerKind,
    zone: String,
    address: SocketAddr,
    files: TempDir,
}

impl MeshPeer {
    /// Starts a peer. `text` is the first version of a primary's zone, and is not used for a secondary.
    pub fn start(setup: &MeshSetup<'_>, text: &str) -> Result<Self, PeerError> {
        let program = setup.kind.find_program();
        let program = program.ok_or(PeerError::NotInstalled(setup.kind.program()))?;
        let files = tempfile::Builder::new().prefix("mesh-").tempdir()?;
        let file = files.path().join("zone");
        if setup.role == MeshRole::Primary {
            fs::write(&file, text)?;
        }
        let options = PeerOptions {
            address: Some(setup.address),
            ..PeerOptions::default()
        };
        let ready: &[&str] = match setup.role {
            MeshRole::Primary => &[setup.zone],
            MeshRole::Secondary => &[],
        };
        let peer = Peer::launch(ready, &options, |directory, _| {
            config::prepare(setup, &program, directory, &file)
        })?;
        Ok(MeshPeer {
            peer,
            kind: setup.kind,
            zone: setup.zone.into(),
            address: setup.address,
            files,
        })
    }

    /// Gives a primary a new version of its zone.
    pub fn change(&self, text: &str) -> io::Result<()> {
        let file = self.files.path().join("zone");
        let new = self.files.path().join("zone.new");
        fs::write(&new, text)?;
        fs::rename(&new, &file)?;
        match self.kind {
            PeerKind::PowerDns => {
                config::pdnsutil(
                    self.peer.directory(),
                    &["load-zone", &self.zone, &file.to_string_lossy()],
                )?;
                // Sent at once, not when it next checks the serials of its zones.
                config::pdns_control(self.peer.directory(), &["purge", &self.zone])?;
                config::pdns_control(self.peer.directory(), &["notify", &self.zone])
            }
            _ => self.peer.signal("HUP"),
        }
    }

    /// Returns the end of its log.
    pub fn log_tail(&self) -> String {
        self.peer.log_tail()
    }

    /// Returns the address it answers on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Waits until a server answers with this serial for the zone; the error is the serial it has in the end.
pub fn wait_for_serial(server: SocketAddr, zone: &str, serial: u32) -> Result<(), Option<u32>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let there = serial_at(server, zone);
        if there == Some(serial) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(there);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the serial that a server answers with for the zone.
pub fn serial_at(server: SocketAddr, zone: &str) -> Option<u32> {
    let output = Command::new("dig")
        .args(["+short", "+tries=1", "+time=2", "+norec", "-p"])
        .arg(server.port().to_string())
        .arg(format!("@{}", server.ip()))
        .args(["-t", "SOA", "-q", zone])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(2)?.parse().ok()
}

/// Transfers a zone by AXFR with `dig` into a file with a single SOA record.
pub fn dump(server: SocketAddr, zone: &str, file: &Path) -> Result<(), TestFailure> {
    let output = Command::new("dig")
        .args(["+onesoa", "+noall", "+answer", "+tries=1", "-p"])
        .arg(server.port().to_string())
        .arg(format!("@{}", server.ip()))
        .args(["-y", &format!("{KEY_ALGORITHM}:{KEY_NAME}:{KEY_SECRET}")])
        .args(["-t", "AXFR", "-q", zone])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("dig: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.contains("SOA") || text.contains("Transfer failed") {
        return Err(format!("dig axfr {zone} @{server}: {text}").into());
    }
    fs::write(file, text.as_bytes()).map_err(|error| TestFailure::from(error).at(file.display()))
}

/// Compares the contents that two servers transfer, with `ldns-compare-zones`; the error describes the differences.
pub fn compare(one: SocketAddr, other: SocketAddr, zone: &str) -> Result<(), TestFailure> {
    let directory = tempfile::tempdir()?;
    let (first, second) = (directory.path().join("one"), directory.path().join("other"));
    dump(one, zone, &first)?;
    dump(other, zone, &second)?;
    let output = Command::new("ldns-compare-zones")
        .args(["-a", "-s"])
        .args([&first, &second])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ldns-compare-zones: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_equal = text
        .lines()
        .last()
        .is_some_and(|line| line.trim() == "+0\t-0\t~0");
    // ldns ignores TTLs, and only reads what it can: the lines are compared as well.
    let sorted = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .map(|line| line.to_ascii_lowercase())
            .collect();
        lines.sort();
        lines
    };
    let (ours, theirs) = (sorted(&first), sorted(&second));
    let only = |these: &[String], those: &[String]| {
        let those: std::collections::HashSet<&String> = those.iter().collect();
        let lines = these.iter().filter(|line| !those.contains(line));
        lines
            .take(10)
            .map(|line| line.chars().take(120).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n  ")
    };
    if is_equal && ours == theirs {
        Ok(())
    } else {
        Err(format!(
            "{text}{}\nonly at {one}:\n  {}\nonly at {other}:\n  {}",
            String::from_utf8_lossy(&output.stderr),
            only(&ours, &theirs),
            only(&theirs, &ours)
        )
        .into())
    }
}
