//! The policies of zones: their kind, whom they come from, who is notified of changes, who may transfer, notify and update.
//!
//! [`ZonePolicy`] is a zone's policy as the server acts on it. It is put together of parts ([`PolicyPart`]), each with
//! what one place says: the zone's own table in the configuration, the database or catalog that has the zone, and the
//! defaults for all zones. [`PolicyTable`] keeps the parts of all sources and publishes [`Policies`], a snapshot that
//! readers load without a lock. Nobody may transfer, notify or update a zone unless a part says so.

pub mod database;
mod fragment;
mod stored;
mod table;
mod update;
mod zonemd;

pub use fragment::PolicyPart;
pub use stored::{DeclaredZone, KeptError, KeptKey, KeptPolicies, KeptSecondary, KeptSettings};
pub use table::{Policies, PolicyChange, PolicySet, PolicySource, PolicyTable};
pub use update::{UpdateRule, UpdateScope, UpdateSerial};
pub use zonemd::ZonemdRule;

use nameward_store::sql::CatalogProperties;
use nameward_wire::NameBuf;
use nameward_zone::AccessList;
pub use nameward_zone::ZoneKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The rank of zones that the configuration itself declares: before every backend.
pub const CONFIGURED_RANK: u16 = 0;
/// The rank of zones that catalogs and the state store declare: behind every backend.
pub const UNCONFIGURED_RANK: u16 = u16::MAX - 1;

/// Another server: a primary, or one that is notified of changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteServer {
    /// Its address.
    pub address: SocketAddr,
    /// The key that messages to it are signed with.
    pub key: Option<NameBuf>,
    /// The address that messages to it are sent from; the system's choice if there is none.
    pub source: Option<IpAddr>,
}

/// Writes the address of a server as `domains.master` has it: with its port if that is not the usual one.
pub fn address_text(address: SocketAddr) -> String {
    match address.port() {
        53 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// A server whose zones become secondaries here when it notifies of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoprimary {
    /// Its address, with the port that it is asked on.
    pub address: SocketAddr,
    /// The name server that an NS record of the zone must name.
    pub name_server: NameBuf,
    /// The template whose terms the zone has; none if empty.
    pub template: String,
    /// The key that a NOTIFY must be signed with.
    pub key: Option<NameBuf>,
    /// Who lists it: a database has the zones of its own autoprimaries.
    pub listed_by: PolicySource,
    /// The account of zones that are made in a database.
    pub account: String,
}

/// The policy of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonePolicy {
    /// The kind of the zone.
    pub kind: ZoneKind,
    /// Who says that the zone is there: zones of a database are at home in it, transferred zones of others in the state
    /// store.
    pub declared_by: PolicySource,
    /// Where it is transferred from, in the order they are asked.
    pub primaries: Vec<RemoteServer>,
    /// Who is notified of changes besides the zone's name servers.
    pub also_notify: Vec<RemoteServer>,
    /// Whether the addresses of the zone's NS records are notified of changes.
    pub notify_name_servers: bool,
    /// Whether they are notified of each change at once, and not of the changes of a minute together.
    pub notify_at_once: bool,
    /// Who may transfer the zone.
    pub allow_transfer: AccessList,
    /// Whether the addresses of the zone's NS records may transfer it, too.
    pub transfer_to_name_servers: bool,
    /// Who may notify, besides the primaries.
    pub allow_notify: AccessList,
    /// Who may update the zone (RFC 2136).
    pub allow_update: AccessList,
    /// The names and types that may be updated; everything if there is no rule.
    pub update_rules: Vec<UpdateRule>,
    /// How an update raises the serial.
    pub update_serial: UpdateSerial,
    /// Whether updates of a secondary zone are forwarded to its primary.
    pub forward_updates: bool,
    /// Whether a zone that is signed while it is served goes out without signatures.
    pub transfer_unsigned: bool,
    /// Octets that a transferred zone may have.
    pub transfer_octets_max: u64,
    /// Whether incremental transfers (RFC 1995) are asked for.
    pub is_incremental: bool,
    /// Whether transfers to others have the addresses of the targets of ALIAS records in place of these.
    pub expands_alias: bool,
    /// Whether the zone's signatures are brought with it, whatever keys there are.
    pub is_presigned: bool,
    /// Where a copy of a transferred zone is written as text.
    pub copy_file: Option<PathBuf>,
    /// The producer's catalog that the zone is a member of.
    pub catalog: Option<NameBuf>,
    /// The group that it has there (RFC 9432 section 4.4.2).
    pub catalog_group: Option<String>,
    /// The catalog that it is about to move to (RFC 9432 section 4.4.1).
    pub catalog_moves_to: Option<NameBuf>,
    /// Its label and further properties there, as databases keep them.
    pub catalog_properties: CatalogProperties,
    /// The policy by which its keys live, by name.
    pub dnssec_policy: Option<String>,
    /// Where its keys are kept as files; none for the state store.
    pub key_directory: Option<PathBuf>,
    /// The use of digests over the whole zone (ZONEMD).
    pub zonemd: ZonemdRule,
}

impl ZonePolicy {
    /// Returns whether anybody is notified of changes of the zone.
    pub fn sends_notify(&self) -> bool {
        self.notify_name_servers || !self.also_notify.is_empty()
    }
}

impl ZonePolicy {
    /// Returns whether a NOTIFY from an address, signed with a key that was verified or with none, is taken: from a primary,
    /// with its key if it has one, or from a client that may.
    pub fn takes_notify(&self, peer: IpAddr, key: Option<nameward_wire::Name<'_>>) -> bool {
        let peer = peer.to_canonical();
        let is_primary = |primary: &RemoteServer| {
            let wanted = primary.key.as_ref().map(NameBuf::as_name);
            primary.address.ip().to_canonical() == peer && (wanted.is_none() || wanted == key)
        };
        self.primaries.iter().any(is_primary) || self.allow_notify.allows(peer, key)
    }
}

#[cfg(test)]
mod tests;
