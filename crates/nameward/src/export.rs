//! `nameward export`: the files that other servers need to take over zones from this one.
//!
//! ```text
//! zones/NAME.zone   the records, with all changes and without those that signing adds
//! keys/K*           DNSSEC keys, as BIND, Knot and PowerDNS read them
//! a fragment        zones, TSIG keys and signing, in the other server's configuration format, or a script for its tool
//! ```
//! The serial of an unsigned zone is kept. That of a signed zone is one above the served one: the other server makes
//! new signatures, and secondaries only accept them with a later serial.

mod bind;
mod gather;
mod knot;
mod nsd;
mod pdns;
mod peers;

use nameward_base::{file, text::counted};
use std::{
    fs::{self, DirBuilder},
    io,
    net::IpAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use nameward_dnssec::KeyFile;
use nameward_maintain::policy::{PolicyFragment, RemoteServer};
use nameward_wire::NameBuf;
use nameward_zone::{AccessEntry, AccessList, AccessWord};
use serde_json::json;

use crate::{
    cli::{
        export::ExportArguments,
        print::{OutputForm, Printer, exit_code},
    },
    command_error::{CommandError, CommandResult},
    import::OtherServer,
};

/// A zone for another server.
struct ExportedZone {
    name: NameBuf,
    /// The zone file; `None` for a zone that is transferred.
    text: Option<Vec<u8>>,
    keys: Vec<ExportedKey>,
    /// The denial of existence method of a signed zone.
    denial: String,
    terms: PolicyFragment,
    allow_query: Option<AccessList>,
}

struct ExportedKey {
    file: KeyFile,
    /// Its file name without extension.
    stem: String,
    /// `ksk`, `zsk` or `csk`.
    role: String,
    algorithm: String,
    bits: usize,
    is_active: bool,
    is_published: bool,
}

/// A TSIG key; the secret is base64.
struct ExportedTsigKey {
    name: String,
    algorithm: String,
    secret: String,
}

#[derive(Default)]
struct ExportedServer {
    /// The output directory, absolute.
    out: PathBuf,
    zones: Vec<ExportedZone>,
    tsig_keys: Vec<ExportedTsigKey>,
    /// Settings that are not exported.
    warnings: Vec<String>,
}

/// A file of the export: name, contents, mode.
type ExportedFile = (PathBuf, Vec<u8>, u32);

/// Collects, writes and reports. The exit code is not 0 if something is not exported.
pub fn run(target: OtherServer, arguments: ExportArguments, form: OutputForm) -> CommandResult {
    let mut server = gather::collect(target, arguments)?;
    server.leave_out_tls_conditions();
    let write = match target {
        OtherServer::Bind => bind::write,
        OtherServer::Knot => knot::write,
        OtherServer::Nsd => nsd::write,
        OtherServer::PowerDns => pdns::write,
    };
    let mut warnings = Vec::new();
    let fragments = write(&server, &mut warnings);
    warnings
        .into_iter()
        .for_each(|warning| server.warn(warning));
    let mut files: Vec<ExportedFile> = Vec::new();
    for zone in &server.zones {
        if let Some(text) = &zone.text {
            files.push((zone_file(&zone.name), text.clone(), 0o644));
        }
        for key in &zone.keys {
            let public = key.file.public_text().unwrap_or_default();
            let stem = Path::new("keys").join(&key.stem);
            let with_end = |end: &str| PathBuf::from(format!("{}{end}", stem.display()));
            files.push((with_end(".key"), public.into_bytes(), 0o644));
            let private = key.file.private_text().reveal().clone().into_bytes();
            files.push((with_end(".private"), private, 0o600));
        }
    }
    files.extend(fragments);
    write_all(&server.out, &files)?;
    let mut printer = Printer::new(form);
    let mut print = || {
        for warning in &server.warnings {
            let object = json!({ "severity": "warning", "message": warning });
            printer.object(&object, format_args!("warning: {warning}"))?;
        }
        let object = json!({
            "zones": server.zones.len(), "warnings": server.warnings.len(), "out": server.out,
        });
        let zones = counted(server.zones.len(), "zone");
        let text = format!("exported {zones} to {}", server.out.display());
        printer.object(&object, text)
    };
    print()?;
    Ok(exit_code(server.warnings.is_empty()))
}

fn zone_file(zone: &NameBuf) -> PathBuf {
    let name = zone.to_string();
    let name = match name.trim_end_matches('.') {
        "" => "root".to_string(),
        name => name.replace('/', "%2F"),
    };
    Path::new("zones").join(format!("{name}.zone"))
}

/// Writes the files. If one of them exists, nothing is written.
fn write_all(out: &Path, files: &[ExportedFile]) -> CommandResult<()> {
    let failed = |path: PathBuf| move |error| CommandError::Import(path, error);
    for (name, ..) in files {
        let path = out.join(name);
        if path.exists() {
            let there = io::Error::other("the file exists: use an empty directory with --out");
            return Err(CommandError::Import(path, there));
        }
    }
    for directory in [out.to_path_buf(), out.join("zones"), out.join("keys")] {
        let is_keys = directory.ends_with("keys");
        if is_keys && !files.iter().any(|(name, ..)| name.starts_with("keys")) {
            continue;
        }
        let mode = if is_keys { 0o700 } else { 0o755 };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(mode).create(&directory);
        made.map_err(failed(directory))?;
    }
    for (name, contents, mode) in files {
        let path = out.join(name);
        file::write_new(&path, *mode, contents).map_err(failed(path))?;
    }
    fs::File::open(out)
        .and_then(|directory| directory.sync_all())
        .map_err(failed(out.to_path_buf()))
}

impl ExportedServer {
    /// Reduces access lists to what other servers can express: no client is allowed that was not before.
    fn leave_out_tls_conditions(&mut self) {
        let mut warnings = Vec::new();
        for zone in &mut self.zones {
            for (name, list) in [
                ("allow_query", &mut zone.allow_query),
                ("allow_transfer", &mut zone.terms.allow_transfer),
                ("allow_update", &mut zone.terms.allow_update),
            ] {
                let Some(list) = list.as_mut().filter(|list| list.depends_on_tls()) else {
                    continue;
                };
                // Entries after an exception may include what it excludes.
                let mut kept = list.entries();
                let is_other = |entry: &AccessEntry| match &entry.term {
                    AccessWord::OverTls(_) => entry.is_negated,
                    AccessWord::List(_) => true,
                    _ => false,
                };
                kept.truncate(kept.iter().position(is_other).unwrap_or(kept.len()));
                kept.retain(|entry| !matches!(entry.term, AccessWord::OverTls(_)));
                *list = AccessList::new(&kept);
                warnings.push(format!(
                    "zone {}: {name}: TLS conditions not converted; the list is more restrictive",
                    zone.name
                ));
            }
        }
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Records something that is not exported.
    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

impl ExportedZone {
    fn is_transferred(&self) -> bool {
        self.text.is_none()
    }

    fn is_signed(&self) -> bool {
        self.keys.iter().any(|key| key.is_active)
    }

    fn primaries(&self) -> &[RemoteServer] {
        self.terms.primaries.as_deref().unwrap_or_default()
    }

    fn also_notify(&self) -> &[RemoteServer] {
        self.terms.also_notify.as_deref().unwrap_or_default()
    }

    fn has_update_rules(&self) -> bool {
        let rules = self.terms.update_rules.as_ref();
        rules.is_some_and(|rules| !rules.is_empty())
    }

    fn signing_keys(&self) -> impl Iterator<Item = &ExportedKey> {
        self.keys.iter().filter(|key| key.is_active)
    }

    /// Checks whether one key signs everything (a CSK, in the terms of the other servers).
    fn has_combined_key(&self) -> bool {
        let mut keys = self.signing_keys();
        keys.all(|key| key.role == "csk") || !self.signing_keys().any(|key| key.role == "zsk")
    }
}

/// Returns the entries of a list; `None` if it matches no client.
fn entries(list: Option<&AccessList>) -> Option<Vec<AccessEntry>> {
    list.map(AccessList::entries)
        .filter(|list| !list.is_empty())
}

/// Formats an address or network as all servers accept it.
fn network(address: IpAddr, bits: u8) -> String {
    match (address, bits) {
        (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => address.to_string(),
        _ => format!("{address}/{bits}"),
    }
}

/// Returns a name without its final dot.
fn bare(name: &str) -> &str {
    match name {
        "." => ".",
        name => name.trim_end_matches('.'),
    }
}

/// Checks whether a list matches every client.
fn is_any(list: &AccessList) -> bool {
    let entries = list.entries();
    let is_any = |entry: &AccessEntry| !entry.is_negated && entry.term == AccessWord::Any;
    list.is_any() || entries.first().is_some_and(is_any)
}
