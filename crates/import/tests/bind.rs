//! Configurations of BIND: the same zones as BIND itself finds in them, and errors that say where.

mod access;
mod errors;
mod zones;

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use nameward_import::bind::{BindZone, NamedConf, Remote, Taken, ZoneType, read};
use nameward_import::{Files, OnDisk};
use nameward_testkit::require;
use nameward_wire::{NameBuf, zonefile::Diagnostic};

/// A configuration of several files in memory.
struct Texts(HashMap<PathBuf, String>);

impl Files for Texts {
    fn read(&mut self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).cloned();
        text.map(String::into_bytes)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn matching(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        let all = [("127.0.0.1", 8), ("::1", 128), ("192.0.2.10", 24)];
        Ok(all
            .map(|(address, bits)| (address.parse().unwrap(), bits))
            .into())
    }
}

fn parse(text: &str, others: &[(&str, &str)]) -> NamedConf {
    let mut files: HashMap<PathBuf, String> = others
        .iter()
        .map(|(path, text)| (path.into(), text.to_string()))
        .collect();
    files.insert("/etc/named.conf".into(), text.into());
    read(Path::new("/etc/named.conf"), &mut Texts(files))
}

fn good(text: &str) -> Taken {
    let found = parse(text, &[]);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    found.take()
}

fn errors(text: &str, others: &[(&str, &str)]) -> Vec<String> {
    let found = parse(text, others);
    found.diagnostics.iter().map(ToString::to_string).collect()
}

/// The warnings, without the path of the one file.
fn notes(taken: &Taken) -> Vec<String> {
    let text = |note: &Diagnostic| {
        let text = note.to_string();
        let file = text.find("named.conf:").unwrap();
        text[file + "named.conf:".len()..].to_string()
    };
    taken.notes.iter().map(text).collect()
}

fn names(zones: &[BindZone]) -> Vec<String> {
    zones.iter().map(|zone| zone.name().to_string()).collect()
}

/// Lines of `named-checkconf -l`, with names and types as we print them.
fn as_bind_lists(directory: &Path) -> BTreeSet<String> {
    let output = Command::new("named-checkconf")
        .args(["-l", "named.conf"])
        .current_dir(directory)
        .output()
        .expect("bind9-utils is installed");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {said}", directory.display());
    // Warnings, which have a line number, stand between the zones.
    let zones = said.lines().filter(|line| !line.contains(".conf:"));
    let as_ours = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        let name: NameBuf = format!("{}.", name.trim_end_matches('.')).parse().unwrap();
        let rest = rest.replace(" master", " primary");
        format!("{name} {}", rest.replace(" slave", " secondary")).to_lowercase()
    };
    zones.map(as_ours).collect()
}

fn bind(name: &str) -> Taken {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bind/conf");
    read(&all.join(name).join("named.conf"), &mut OnDisk).take()
}

/// Clients of several kinds that may ask a zone.
fn who(zone: &BindZone) -> Vec<&'static str> {
    let clients = ["10.0.0.1", "192.0.2.1", "192.0.2.10", "2001:db8::1"];
    let may_ask = |client: &&str| {
        let client = client.parse().unwrap();
        zone.allow_query().is_none_or(|list| list.contains(client))
    };
    clients.into_iter().filter(may_ask).collect()
}

fn one_zone(rest: &str, own: &str) -> Taken {
    good(&format!(
        "{rest} zone a {{ type primary; file \"a\"; {own} }};"
    ))
}
