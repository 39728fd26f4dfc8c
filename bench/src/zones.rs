//! Zone files of the scenarios, written once into the data directory.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::bind_keys;
use crate::random::mix;
use crate::scenario::{Scenario, label};

/// Grows whenever what is written below changes, so that old files are not taken for new ones.
const FORMAT: u32 = 1;

/// The zones of a scenario on disk.
#[derive(Debug)]
pub struct ZoneFiles {
    /// Holds the files, each named `<zone>.zone`.
    pub directory: PathBuf,
    /// Name without final dot, and file.
    pub zones: Vec<(String, PathBuf)>,
    /// Whether our configuration lists them, however many there are.
    pub is_listed: bool,
}

/// Makes the files, or finds them made by an earlier run.
pub fn prepare(scenario: Scenario, data: &Path) -> io::Result<ZoneFiles> {
    let files_of = match scenario {
        Scenario::Listed => Scenario::Hosting,
        other => other,
    };
    let base = data.join(files_of.to_string());
    let directory = base.join("zones");
    let complete = base.join(format!("complete-{FORMAT}"));
    let names = scenario.zone_names();
    let zones: Vec<(String, PathBuf)> = names
        .into_iter()
        .map(|name| {
            let file = directory.join(format!("{name}.zone"));
            (name, file)
        })
        .collect();
    if !complete.exists() {
        if base.exists() {
            fs::remove_dir_all(&base)?;
        }
        fs::create_dir_all(&directory)?;
        for (index, (name, file)) in zones.iter().enumerate() {
            let mut out = BufWriter::with_capacity(1 << 16, File::create(file)?);
            match scenario {
                Scenario::Small | Scenario::Flat | Scenario::Signed | Scenario::SignedFlat => {
                    write_flat(&mut out, name, scenario.size())?
                }
                Scenario::Tld => write_tld(&mut out, name, scenario.size())?,
                Scenario::Hosting | Scenario::Listed => write_hosted(&mut out, name, index)?,
            }
            out.flush()?;
            if scenario.is_signed() {
                bind_keys::sign(name, file)?;
            }
        }
        File::create(&complete)?;
    }
    let directory = fs::canonicalize(directory)?;
    let zones: Vec<_> = zones
        .into_iter()
        .map(|(name, _)| {
            let file = directory.join(format!("{name}.zone"));
            (name, file)
        })
        .collect();
    Ok(ZoneFiles {
        directory,
        is_listed: scenario == Scenario::Listed || zones.len() == 1,
        zones,
    })
}

fn write_flat(out: &mut impl Write, zone: &str, names: usize) -> io::Result<()> {
    write_apex(out, zone)?;
    for index in 0..names {
        writeln!(out, "{} A {}", label(index), Address(index))?;
    }
    Ok(())
}

/// Two servers for each delegation: one below it, whose address is glue, and one of a hoster.
fn write_tld(out: &mut impl Write, zone: &str, names: usize) -> io::Result<()> {
    write_apex(out, zone)?;
    for index in 0..names {
        let (name, hoster) = (label(index), mix(index as u64) % 1000);
        write!(
            out,
            "{name} NS ns1.{name}\n{name} NS ns.h{hoster}.example.\nns1.{name} A {}\n",
            Address(index)
        )?;
    }
    Ok(())
}

fn write_apex(out: &mut impl Write, zone: &str) -> io::Result<()> {
    write!(
        out,
        "$ORIGIN {zone}.
$TTL 3600
@ SOA ns1 hostmaster 2026010101 7200 3600 1209600 300
@ NS ns1
@ NS ns2
ns1 A 192.0.2.1
ns2 A 192.0.2.2
"
    )
}

fn write_hosted(out: &mut impl Write, zone: &str, index: usize) -> io::Result<()> {
    let address = Address(index);
    write!(
        out,
        "$ORIGIN {zone}.
$TTL 3600
@ SOA ns1.hoster.test. hostmaster.hoster.test. 2026010101 7200 3600 1209600 300
@ NS ns1.hoster.test.
@ NS ns2.hoster.test.
@ MX 10 mail
@ A {address}
@ TXT \"v=spf1 mx -all\"
www A {address}
mail A {address}
"
    )
}

/// An address of 10.0.0.0/8 for an index.
pub struct Address(pub usize);

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [_, b, c, d] = (mix(self.0 as u64) as u32).to_be_bytes();
        write!(f, "10.{b}.{c}.{d}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_created_once_and_reused() {
        let data = tempfile::tempdir().unwrap();
        let made = prepare(Scenario::Small, data.path()).unwrap();
        assert_eq!(made.zones.len(), 1);
        let text = fs::read_to_string(&made.zones[0].1).unwrap();
        assert_eq!(text.lines().count(), 1_000 + 7);
        fs::write(&made.zones[0].1, "kept").unwrap();
        let found = prepare(Scenario::Small, data.path()).unwrap();
        assert_eq!(fs::read_to_string(&found.zones[0].1).unwrap(), "kept");
    }
}
