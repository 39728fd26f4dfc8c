//! Zone policies: kind, primaries, NOTIFY targets, and access control for transfers, NOTIFY and updates.
//!
//! [`ZonePolicy`] is a zone's policy as the server applies it. It is assembled from fragments ([`PolicyFragment`]), each
//! with the settings from one source: the zone's own table in the configuration, the database or catalog that has the
//! zone, and the defaults for all zones. [`PolicyTable`] keeps the fragments of all sources and publishes
//! [`Policies`], a snapshot that readers load without a lock. Transfers, NOTIFY and updates are denied unless a
//! fragment allows them.

mod api_keys;
mod cookies;
pub mod database;
pub mod database_templates;
mod fragment;
mod remote;
mod stored;
mod table;
mod update;
mod zonemd;

pub use api_keys::SharedApiKey;
pub use cookies::{COOKIE_SECRET_OCTETS, RolledCookieSecret};
pub use database_templates::POLICY_METADATA;
pub use fragment::PolicyFragment;
pub use remote::{
    AlpnRule, ClientIdentity, PeerAuthentication, PeerTls, PeerTransport, RemoteServer,
    address_text,
};
pub use stored::{
    AutoprimarySecondary, DeclaredSettings, StoredKeyRow, StoredPolicies, StoredPolicyError,
};
pub use table::{Policies, PolicyChange, PolicySet, PolicySource, PolicyTable};
pub use update::{UpdateRule, UpdateScope, UpdateSerial};
pub use zonemd::ZonemdRule;

use nameward_sql::CatalogProperties;
use nameward_wire::NameBuf;
pub use nameward_zone::ZoneKind;
use nameward_zone::{AccessClient, AccessList};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The rank of zones that the configuration itself declares: before every backend.
pub const CONFIGURED_RANK: u16 = 0;
/// The rank of zones that catalogs and the state store declare: after every backend.
pub const UNCONFIGURED_RANK: u16 = u16::MAX - 1;

/// A server whose zones become secondaries here when it sends NOTIFY for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoprimary {
    /// Its address, with the port for queries.
    pub address: SocketAddr,
    /// The name server that an NS record of the zone must name.
    pub name_server: NameBuf,
    /// The template for the zone's settings; none if empty.
    pub template: String,
    /// The key that must sign the NOTIFY.
    pub key: Option<NameBuf>,
    /// The source that lists it: a database stores the zones of its own autoprimaries.
    pub listed_by: PolicySource,
    /// The account of zones created in a database.
    pub account: String,
}

/// The policy of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonePolicy {
    /// The kind of the zone.
    pub kind: ZoneKind,
    /// The source that declares the zone: database zones are stored in their database, other transferred zones in the
    /// state store.
    pub declared_by: PolicySource,
    /// The servers it is transferred from, in order of preference.
    pub primaries: Vec<RemoteServer>,
    /// Servers that are notified of changes besides the zone's name servers.
    pub also_notify: Vec<RemoteServer>,
    /// Settings for servers that are known by their addresses only, such as those in the zone's NS records.
    pub remotes: Arc<[RemoteServer]>,
    /// Whether the servers in the zone's NS records are notified of changes.
    pub notify_name_servers: NameServerNotify,
    /// Whether each change is announced at once, rather than the changes of a minute together.
    pub notify_at_once: bool,
    /// Clients that may transfer the zone.
    pub allow_transfer: AccessList,
    /// Whether the addresses of the zone's NS records may transfer it, too.
    pub transfer_to_name_servers: bool,
    /// Peers that may send NOTIFY, besides the primaries.
    pub allow_notify: AccessList,
    /// Clients that may update the zone (RFC 2136).
    pub allow_update: AccessList,
    /// The names and types that may be updated; everything if there is no rule.
    pub update_rules: Vec<UpdateRule>,
    /// How an update increments the serial.
    pub update_serial: UpdateSerial,
    /// Whether updates of a secondary zone are forwarded to its primary.
    pub forward_updates: bool,
    /// Whether an online-signed zone is transferred without signatures.
    pub transfer_unsigned: bool,
    /// Maximum size of a transferred zone in octets.
    pub transfer_octets_max: u64,
    /// Whether incremental transfers (RFC 1995) are requested.
    pub is_incremental: bool,
    /// Whether outgoing transfers have the addresses of ALIAS targets in place of the ALIAS records.
    pub expands_alias: bool,
    /// Whether its LUA records are run; `None` if the setting for all zones decides.
    pub runs_scripts: Option<bool>,
    /// Whether the zone has its own signatures, whatever keys there are.
    pub is_presigned: bool,
    /// The file for a text copy of a transferred zone.
    pub copy_file: Option<PathBuf>,
    /// The produced catalog that lists the zone.
    pub catalog: Option<NameBuf>,
    /// Its group there (RFC 9432 section 4.4.2).
    pub catalog_group: Option<String>,
    /// The catalog that it is about to move to (RFC 9432 section 4.4.1).
    pub catalog_moves_to: Option<NameBuf>,
    /// Its label and further properties there, as stored in databases.
    pub catalog_properties: CatalogProperties,
    /// The name of the DNSSEC policy that manages its keys.
    pub dnssec_policy: Option<String>,
    /// The directory for its key files; none for the state store.
    pub key_directory: Option<PathBuf>,
    /// The use of zone digests (ZONEMD).
    pub zonemd: ZonemdRule,
}

/// Whether the servers in a zone's NS records are notified of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameServerNotify {
    /// By the policy, or because of the zone's kind.
    Always,
    /// By the policy, or because of the zone's kind.
    Never,
    /// The default of native zones. Those in a database are replicated by the database, as in PowerDNS; the secondaries of
    /// a zone file have no other way to learn of a change.
    UnlessInDatabase,
}

/// The storage of a zone, as far as defaults of its policy depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneOrigin {
    /// A database backend, live or resident.
    Database,
    /// A zone file, the state store, or contents made here.
    Local,
}

impl ZonePolicy {
    /// Returns whether the servers in the zone's NS records are notified of changes.
    pub fn notifies_name_servers(&self, origin: ZoneOrigin) -> bool {
        match self.notify_name_servers {
            NameServerNotify::Always => true,
            NameServerNotify::Never => false,
            NameServerNotify::UnlessInDatabase => origin == ZoneOrigin::Local,
        }
    }

    /// Returns whether any server is notified of changes of the zone.
    pub fn sends_notify(&self, origin: ZoneOrigin) -> bool {
        self.notifies_name_servers(origin) || !self.also_notify.is_empty()
    }

    /// Checks whether a NOTIFY is accepted: from the address of a primary, with its key if it has one, or from an allowed
    /// peer.
    pub fn takes_notify(&self, client: &AccessClient<'_>) -> bool {
        let peer = client.address.to_canonical();
        let is_primary = |primary: &RemoteServer| {
            let required_key = primary.key.as_ref().map(NameBuf::as_name);
            primary.address.ip().to_canonical() == peer
                && (required_key.is_none() || required_key == client.key)
        };
        self.primaries.iter().any(is_primary) || self.allow_notify.allows(client)
    }
}

#[cfg(test)]
mod tests;
