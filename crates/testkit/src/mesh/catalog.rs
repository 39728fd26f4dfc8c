//! Other name servers that produce or consume catalog zones (RFC 9432), with a TSIG key for all transfers.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{KEY_NAME, config};
use crate::peers::{Peer, PeerConfig, PeerError, PeerKind, PeerOptions};

/// The template for members of the group with this name, whose zones 127.0.0.1 may transfer without a key.
pub const OPEN_GROUP: &str = "open";

/// A member of a catalog.
#[derive(Clone, Debug)]
pub struct MemberZone {
    /// The catalog that lists it.
    pub catalog: String,
    /// Its name without the final dot.
    pub zone: String,
    /// Its group.
    pub group: Option<String>,
    /// The catalog it moves to.
    pub moves_to: Option<String>,
}

impl MemberZone {
    /// Returns a member without properties.
    pub fn new(catalog: &str, zone: &str) -> Self {
        MemberZone {
            catalog: catalog.into(),
            zone: zone.into(),
            group: None,
            moves_to: None,
        }
    }

    /// Returns the member in a group.
    pub fn in_group(self, group: &str) -> Self {
        let group = Some(group.into());
        MemberZone { group, ..self }
    }

    /// Returns the member with a change of ownership (RFC 9432 section 4.4.1).
    pub fn moving_to(self, catalog: &str) -> Self {
        let moves_to = Some(catalog.into());
        MemberZone { moves_to, ..self }
    }
}

/// Returns the text of a small zone.
pub fn member_text(zone: &str, serial: u32) -> String {
    format!(
        "$ORIGIN {zone}.\n$TTL 300\n@ SOA ns host {serial} 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n"
    )
}

/// Returns the text of a catalog zone.
pub fn catalog_text(catalog: &str, version: &str, serial: u32, members: &[MemberZone]) -> String {
    let mut text = format!(
        "$ORIGIN {catalog}.\n$TTL 0\n@ SOA invalid. invalid. {serial} 3600 600 2147483646 0\n@ NS invalid.\n\
         version TXT \"{version}\"\n"
    );
    for member in members.iter().filter(|member| member.catalog == catalog) {
        let label = member.zone.replace('.', "-");
        text += &format!("{label}.zones PTR {}.\n", member.zone);
        if let Some(group) = &member.group {
            text += &format!("group.{label}.zones TXT \"{group}\"\n");
        }
        if let Some(to) = &member.moves_to {
            text += &format!("coo.{label}.zones PTR {to}.\n");
        }
    }
    text
}

/// A running server that has catalogs.
pub struct CatalogPeer {
    peer: Peer,
    kind: PeerKind,
    address: SocketAddr,
    other: SocketAddr,
    files: TempDir,
}

impl CatalogPeer {
    /// Starts a server that transfers catalogs and their members to `other`: BIND or Knot.
    pub fn producer(
        kind: PeerKind,
        (address, other): (SocketAddr, SocketAddr),
        catalogs: &[(&str, u32)],
        members: &[MemberZone],
    ) -> Result<Self, PeerError> {
        let files = tempfile::Builder::new().prefix("catalog-").tempdir()?;
        write_zones(files.path(), catalogs, "2", members)?;
        let ready: Vec<&str> = catalogs.iter().map(|(catalog, _)| *catalog).collect();
        // BIND and Knot only answer secondaries about a catalog that they recognise as one.
        let ready = match kind {
            PeerKind::Bind => &ready[..],
            _ => &[],
        };
        let peer = launch(kind, address, ready, |program, directory| {
            let (main, rest) = produced(kind, directory, other, files.path(), members, catalogs);
            kind.prepare(program, directory, address, &with(&main, &rest))
        })?;
        Ok(CatalogPeer {
            peer,
            kind,
            address,
            other,
            files,
        })
    }

    /// Gives a producer different members. `version` is that of the schema, which is 2; Knot writes it itself.
    pub fn set_members(
        &self,
        catalogs: &[(&str, u32)],
        version: &str,
        members: &[MemberZone],
    ) -> io::Result<()> {
        let files = self.files.path();
        write_zones(files, catalogs, version, members)?;
        let directory = self.peer.directory();
        let (main, rest) = produced(self.kind, directory, self.other, files, members, catalogs);
        self.kind
            .configure(directory, self.address, &with(&main, &rest))?;
        self.peer.signal("HUP")
    }

    /// Starts a server that consumes a catalog of `other`: BIND, Knot or PowerDNS.
    pub fn consumer(
        kind: PeerKind,
        (address, other): (SocketAddr, SocketAddr),
        catalog: &str,
    ) -> Result<Self, PeerError> {
        let files = tempfile::Builder::new().prefix("catalog-").tempdir()?;
        let peer = launch(kind, address, &[], |program, directory| {
            let (main, rest) = match kind {
                PeerKind::Bind => bind_consumer(directory, other, catalog),
                PeerKind::PowerDns => {
                    return config::prepare_consumer(program, directory, (address, other), catalog);
                }
                _ => knot_consumer(directory, other, catalog),
            };
            kind.prepare(program, directory, address, &with(&main, &rest))
        })?;
        Ok(CatalogPeer {
            peer,
            kind,
            address,
            other,
            files,
        })
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

fn launch(
    kind: PeerKind,
    address: SocketAddr,
    ready: &[&str],
    prepare: impl Fn(&Path, &Path) -> io::Result<Command>,
) -> Result<Peer, PeerError> {
    let program = kind.find_program();
    let program = program.ok_or(PeerError::NotInstalled(kind.program()))?;
    let options = PeerOptions {
        address: Some(address),
        ..PeerOptions::default()
    };
    Peer::launch(ready, &options, |directory, _| prepare(&program, directory))
}

fn with<'a>(main: &'a str, rest: &'a str) -> PeerConfig<'a> {
    PeerConfig {
        main,
        rest,
        ..PeerConfig::default()
    }
}

/// Returns the settings of a producer, BIND or Knot: in its main section, and after it.
fn produced(
    kind: PeerKind,
    directory: &Path,
    other: SocketAddr,
    files: &Path,
    members: &[MemberZone],
    catalogs: &[(&str, u32)],
) -> (String, String) {
    match kind {
        PeerKind::Bind => bind_producer(other, files, members, catalogs),
        _ => knot_producer(directory, other, files, members, catalogs),
    }
}

fn write_zones(
    files: &Path,
    catalogs: &[(&str, u32)],
    version: &str,
    members: &[MemberZone],
) -> io::Result<()> {
    for (catalog, serial) in catalogs {
        let text = catalog_text(catalog, version, *serial, members);
        fs::write(files.join(catalog), text)?;
    }
    for member in members {
        fs::write(files.join(&member.zone), member_text(&member.zone, 1))?;
    }
    Ok(())
}

/// Returns the zones in a list of members, without duplicates.
fn zones(members: &[MemberZone]) -> Vec<&MemberZone> {
    let mut list: Vec<&MemberZone> = members.iter().collect();
    list.sort_by(|a, b| a.zone.cmp(&b.zone));
    list.dedup_by(|a, b| a.zone == b.zone);
    list
}

fn bind_producer(
    other: SocketAddr,
    files: &Path,
    members: &[MemberZone],
    catalogs: &[(&str, u32)],
) -> (String, String) {
    let mut rest = config::bind_key();
    let notified = format!("{{ {} port {} key {KEY_NAME}; }}", other.ip(), other.port());
    let of_members = zones(members)
        .into_iter()
        .map(|member| member.zone.as_str());
    let of_catalogs = catalogs.iter().map(|(catalog, _)| *catalog);
    for zone in of_catalogs.chain(of_members) {
        let file = files.join(zone);
        rest += &format!(
            "zone \"{zone}\" {{ type primary; file \"{}\"; notify explicit; also-notify {notified}; notify-delay 0; \
             check-names ignore; check-integrity no; ixfr-from-differences yes; }};\n",
            file.display()
        );
    }
    (config::bind_options(), rest)
}

fn bind_consumer(directory: &Path, other: SocketAddr, catalog: &str) -> (String, String) {
    let primary = format!("{{ {} port {} key {KEY_NAME}; }}", other.ip(), other.port());
    let follow = format!(
        "    catalog-zones {{ zone \"{catalog}\" default-primaries {primary} in-memory yes min-update-interval 0; }};\n"
    );
    let rest = format!(
        "{}zone \"{catalog}\" {{ type secondary; file \"{}/catalog\"; primaries {primary}; notify no; }};\n",
        config::bind_key(),
        directory.display()
    );
    (config::bind_options() + &follow, rest)
}

fn knot_producer(
    directory: &Path,
    other: SocketAddr,
    files: &Path,
    members: &[MemberZone],
    catalogs: &[(&str, u32)],
) -> (String, String) {
    let mut rest = knot_lists(directory, other);
    let files = files.display();
    for (catalog, _) in catalogs {
        rest += &format!(
            "  - domain: \"{catalog}\"\n    catalog-role: generate\n    notify: other\n    acl: other\n"
        );
    }
    for member in zones(members) {
        let MemberZone { catalog, zone, .. } = member;
        rest += &format!(
            "  - domain: \"{zone}\"\n    file: \"{files}/{zone}\"\n    catalog-role: member\n    catalog-zone: \"{catalog}\"\n    \
             notify: other\n    acl: other\n"
        );
        if let Some(group) = &member.group {
            rest += &format!("    catalog-group: \"{group}\"\n");
        }
    }
    (String::new(), rest)
}

fn knot_consumer(directory: &Path, other: SocketAddr, catalog: &str) -> (String, String) {
    let mut rest = knot_lists(directory, other);
    rest += &format!(
        "  - domain: \"{catalog}\"\n    master: other\n    acl: other\n    catalog-role: interpret\n    \
         catalog-template: [ member, {OPEN_GROUP} ]\n"
    );
    (String::new(), rest)
}

/// Returns the lists of a Knot configuration, and the start of its zones.
fn knot_lists(directory: &Path, other: SocketAddr) -> String {
    let anybody = "  - id: anybody\n    address: 127.0.0.1\n    action: transfer\n";
    let storage = config::knot_storage(directory);
    format!(
        "{}template:
  - id: default
{storage}  - id: member
{storage}    master: other
    acl: other
  - id: {OPEN_GROUP}
{storage}    master: other
    acl: [other, anybody]
zone:
",
        config::knot_keys(other, anybody)
    )
}
