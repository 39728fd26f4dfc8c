//! A zone that changes at random from a seed, as text; signed with BIND's tools if requested.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A zone as text that changes step by step.
pub struct ChangingZone {
    name: String,
    serial: u32,
    /// Records by owner: type and data.
    owners: BTreeMap<String, Vec<(&'static str, String)>>,
    random: u64,
}

impl ChangingZone {
    /// Creates a zone with `count` owners.
    pub fn new(name: &str, serial: u32, count: usize, seed: u64) -> Self {
        let mut zone = ChangingZone {
            name: name.into(),
            serial,
            owners: BTreeMap::new(),
            random: seed | 1,
        };
        for _ in 0..count {
            zone.change_owner();
        }
        zone
    }

    /// Returns the serial.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Changes `count` owners and increases the serial, occasionally by a step that wraps around (RFC 1982).
    pub fn change(&mut self, count: usize) {
        for _ in 0..count {
            self.change_owner();
        }
        self.serial = match self.draw(20) {
            0 => self.serial.wrapping_add(0x7000_0000),
            1 => self.serial.wrapping_add(1000),
            _ => self.serial.wrapping_add(1),
        };
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn change_owner(&mut self) {
        let number = self.draw(200);
        let owner = match self.draw(12) {
            0 => format!("*.w{number}"),
            1 => format!("a.b.c{number}"),
            // No octet 0: PowerDNS ends a name in its database there.
            2 => format!("odd\\.{number}\\255"),
            _ => format!("h{number}"),
        };
        let set = match self.draw(9) {
            0 => Vec::new(),
            1 => vec![("CNAME", format!("h{}", self.draw(200)))],
            2 => vec![
                ("MX", format!("{} h{}", self.draw(50), self.draw(200))),
                ("A", self.address()),
            ],
            3 => vec![(
                "TXT",
                format!("\"{}\"", "x".repeat(self.draw(250) as usize)),
            )],
            4 => {
                // ldns reads lines of at most a few kilobytes.
                let strings = 1 + self.draw(20);
                let texts = (0..strings).map(|i| format!("\"{i} {}\"", "long ".repeat(40)));
                vec![("TXT", texts.collect::<Vec<_>>().join(" "))]
            }
            5 => vec![
                ("AAAA", format!("2001:db8::{:x}", self.draw(65536))),
                ("TYPE65280", "\\# 4 00ff0102".into()),
                ("CAA", "0 issue \"ca.example\"".into()),
            ],
            _ => {
                let mut all: Vec<_> = (0..1 + self.draw(5))
                    .map(|_| ("A", self.address()))
                    .collect();
                all.sort();
                all.dedup();
                all
            }
        };
        if set.is_empty() {
            self.owners.remove(&owner)
        } else {
            self.owners.insert(owner, set)
        };
    }

    fn address(&mut self) -> String {
        format!("192.0.{}.{}", self.draw(256), self.draw(256))
    }

    /// Returns the zone file text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "$ORIGIN {}.\n$TTL 300\n@ SOA ns hostmaster {} 3600 600 86400 300\n@ NS ns\n@ NS ns.elsewhere.example.\nns A 192.0.2.1\n\
             cut NS ns.cut\nns.cut A 192.0.2.2\nsecure NS ns.elsewhere.example.\n\
             secure DS 60485 8 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A\n",
            self.name, self.serial
        );
        for (owner, records) in &self.owners {
            for (rtype, data) in records {
                text.push_str(&format!("{owner} {rtype} {data}\n"));
            }
        }
        text
    }
}

/// Signs versions of a zone with `dnssec-signzone`.
pub struct ZoneSigner {
    directory: TempDir,
    zone: String,
    nsec3: bool,
}

impl ZoneSigner {
    /// Creates keys for a zone.
    pub fn new(zone: &str, nsec3: bool) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("signer-").tempdir()?;
        for flags in [&["-f", "KSK"][..], &[]] {
            let made = Command::new("dnssec-keygen")
                .args(["-q", "-a", "ECDSAP256SHA256"])
                .args(flags)
                .arg("-K")
                .arg(directory.path())
                .arg(zone)
                .stdin(Stdio::null())
                .output()?;
            checked(&made, "dnssec-keygen")?;
        }
        Ok(ZoneSigner {
            directory,
            zone: zone.into(),
            nsec3,
        })
    }

    /// Signs a version.
    pub fn sign(&self, text: &str) -> io::Result<String> {
        let (plain, signed) = (self.path("plain"), self.path("signed"));
        fs::write(&plain, text)?;
        let mut command = Command::new("dnssec-signzone");
        command
            .args(["-q", "-S", "-x", "-O", "full", "-K"])
            .arg(self.directory.path());
        if self.nsec3 {
            command.args(["-3", "-", "-H", "0"]);
        }
        command
            .args(["-o", &self.zone, "-f"])
            .arg(&signed)
            .arg(&plain);
        let output = command
            .stdin(Stdio::null())
            .current_dir(self.directory.path())
            .output()?;
        checked(&output, "dnssec-signzone")?;
        fs::read_to_string(&signed)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.directory.path()).join(name)
    }
}

fn checked(output: &std::process::Output, program: &str) -> io::Result<()> {
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        )))
    }
}
