//! The common model of a migration: the Nameward settings for another server's configuration, and the report.
//!
//! ```text
//! pdns.conf, named.conf, nsd.conf, knot.conf
//!   texts            files and the files they include, bounded
//!   a reader each    its own syntax; fills one [`ImportedServer`]
//!   toml_text        nameward.toml, each setting with the file and line it comes from
//! ```
//! Each setting is listed once in the report: converted, changed, not needed or not supported. A zone that would leak
//! (to clients that had no access) or break (without its signatures, or never filled) is left out, and the migration
//! counts as failed.

// Most fields are those of the settings that they are written to.
#![allow(missing_docs)]

mod entries;
pub mod fuzzing;
mod geo_scripts;
pub mod knot;
pub mod nsd;
pub mod pdns;
pub(crate) mod peers;
mod report;
mod server;
pub(crate) mod tables;
mod texts;
mod toml_text;
mod yaml;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nameward_wire::{Name, NameBuf};

pub use report::{ConfigLocation, ImportNote, ImportReport, ImportVerdict};
pub use toml_text::{SecretLocation, TomlPlan, secret_file_name};

/// The value of a Nameward setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedValue {
    Text(String),
    Number(u64),
    Switch(bool),
    Texts(Vec<String>),
    Listeners(Vec<ImportedListener>),
}

/// A listen address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedListener {
    pub address: SocketAddr,
    /// Every sender must send a PROXY header.
    pub is_for_proxies: bool,
}

/// A Nameward setting converted from a setting of the other server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSetting {
    pub table: &'static str,
    pub key: &'static str,
    pub value: ImportedValue,
    /// Location of the other server's setting; `None` for a default of that server.
    pub location: Option<ConfigLocation>,
}

/// Declares values of settings that are made of other types.
macro_rules! values {
    ($( $type:ty => $variant:ident; )+) => {$(
        impl From<$type> for ImportedValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

values! {
    &str => Text;
    String => Text;
    u64 => Number;
    bool => Switch;
    Vec<String> => Texts;
    Vec<ImportedListener> => Listeners;
}

impl From<&Path> for ImportedValue {
    fn from(path: &Path) -> Self {
        Self::Text(path.to_string_lossy().into_owned())
    }
}

/// The table of a setting, and its key.
pub(crate) type SettingKey = (&'static str, &'static str);

/// A TSIG key. The secret is in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct ImportedKey {
    /// The key name with the final dot.
    pub name: String,
    /// The algorithm, such as `hmac-sha256`.
    pub algorithm: String,
    pub secret: String,
    pub location: ConfigLocation,
}

/// Omits the secret.
impl std::fmt::Debug for ImportedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImportedKey({}, {})", self.name, self.algorithm)
    }
}

/// Another server: its address with a port if that is not 53, a key, the source address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedRemote {
    /// `192.0.2.1` or `[2001:db8::1]:5300`.
    pub address: String,
    pub key: Option<String>,
    pub source: Option<String>,
    /// How connections to it are encrypted.
    pub tls: Option<ImportedTls>,
}

/// The TLS settings of a server in `primaries` or `also_notify`. Without a name, authorities and pins any certificate is
/// accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedTls {
    /// The name that its certificate must have.
    pub name: Option<String>,
    /// The file of the authorities to trust.
    pub authorities: Option<PathBuf>,
    /// Pins of which its certificate must have one, in base64.
    pub pins: Vec<String>,
    /// The files of the certificate presented to it, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether it is reached over QUIC instead of TLS.
    pub is_quic: bool,
    /// Whether a server without ALPN is accepted, as by the other server.
    pub is_alpn_optional: bool,
}

/// A rule for which key may update which names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedUpdateRule {
    /// The key that signs the update.
    pub key: String,
    /// Names that may be changed.
    pub scope: ImportedScope,
    /// Types that may be changed; empty for all.
    pub types: Vec<String>,
}

/// The names that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ImportedScope {
    #[default]
    WholeZone,
    /// A name and everything below it.
    Subtree(String),
    OneName(String),
    KeyItself,
}

/// Zone settings; `None` means inherited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedSettings {
    pub allow_query: Option<Vec<String>>,
    pub allow_transfer: Option<Vec<String>>,
    pub allow_notify: Option<Vec<String>>,
    pub allow_update: Option<Vec<String>>,
    pub update_policy: Vec<ImportedUpdateRule>,
    pub primaries: Vec<ImportedRemote>,
    pub also_notify: Vec<ImportedRemote>,
    /// Whether the servers in the NS records are notified.
    pub notify_name_servers: Option<bool>,
    pub forward_updates: Option<bool>,
    /// Whether transfers contain addresses instead of ALIAS records.
    pub expand_alias: Option<bool>,
    /// SOA-EDIT for signed database zones without such metadata; only in the defaults.
    pub soa_edit: Option<String>,
    /// Maximum size of a transferred zone, in MiB.
    pub transfer_size_max_mb: Option<u64>,
    /// The catalog that contains the zone.
    pub catalog: Option<String>,
    pub catalog_group: Option<String>,
    /// Its label in the catalog, by which consumers identify it.
    pub catalog_label: Option<String>,
    /// Whether incremental transfers are requested from the primaries.
    pub request_ixfr: Option<bool>,
    /// How ZONEMD records are used.
    pub zonemd: Option<&'static str>,
    pub lua_records: Option<bool>,
    pub dnssec_policy: Option<String>,
    pub key_directory: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportedKind {
    /// Served from its file.
    Native,
    /// Served from its file; others are notified.
    Primary,
    /// Transferred from primaries.
    Secondary,
    /// A catalog generated here.
    Producer,
    /// A catalog consumed here.
    Consumer,
}

impl ImportedKind {
    /// Returns the configuration keyword.
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }

    pub(crate) fn is_transferred(self) -> bool {
        matches!(self, Self::Secondary | Self::Consumer)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedZone {
    /// The zone name with the final dot.
    pub name: String,
    pub kind: ImportedKind,
    /// The zone file, if the zone is not transferred.
    pub file: Option<PathBuf>,
    /// The contents of a new zone file, for a zone that the other server has in another form.
    pub text: Option<String>,
    pub terms: ImportedSettings,
    /// How the other server signs it.
    pub signing: Option<ImportedSigning>,
    /// The file with the contents of a catalog generated here.
    pub catalog_file: Option<PathBuf>,
    pub location: ConfigLocation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedView {
    /// Its name here.
    pub name: String,
    /// The clients that are in it.
    pub match_clients: Vec<String>,
    /// The addresses that requests must be sent to; empty for all.
    pub listen: Vec<String>,
    /// The names of its zone versions, each with its variant.
    pub zones: Vec<String>,
    pub location: ConfigLocation,
}

/// A zone that the other server signs: the location of its signed version and its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSigning {
    /// The file with the signed version, which may have a BIND journal.
    pub version: PathBuf,
    /// The unsigned file that the operator edits, if there is one.
    pub source: Option<PathBuf>,
    pub keys: ImportedKeyStore,
    /// The policy; without one, keys are used according to their timing metadata.
    pub policy: Option<String>,
    /// The command that makes the other server write the signed version to its file.
    pub flush: &'static str,
}

/// The directory with the private keys of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedKeyStore {
    /// `K*.key` and `K*.private` files of BIND.
    Pairs(PathBuf),
    /// `*.pem` files of Knot.
    Pem(PathBuf),
}

/// The reason why something cannot be converted, as worded in the report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportRefusal(pub String);

impl From<String> for ImportRefusal {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for ImportRefusal {
    fn from(reason: &str) -> Self {
        Self(reason.into())
    }
}

/// Settings of a `[[dnssec_policy]]`.
pub type PolicySettings = Vec<(&'static str, ImportedValue)>;

/// A policy by which zones are signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPolicy {
    pub name: String,
    pub settings: PolicySettings,
    pub location: ConfigLocation,
}

/// Returns the Nameward name of an algorithm for which keys can be generated; `None` for others.
pub(crate) fn signing_algorithm(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "rsasha256" | "8" => Some("RSASHA256"),
        "rsasha512" | "10" => Some("RSASHA512"),
        "ecdsap256sha256" | "ecdsa256" | "13" => Some("ECDSAP256SHA256"),
        "ecdsap384sha384" | "ecdsa384" | "14" => Some("ECDSAP384SHA384"),
        "ed25519" | "15" => Some("ED25519"),
        _ => None,
    }
}

/// A database or another source of many zones.
#[derive(Clone, PartialEq, Eq)]
pub struct ImportedBackend {
    /// The backend type in Nameward.
    pub kind: &'static str,
    /// Its settings: keys and values. A database URL contains a password.
    pub settings: Vec<(&'static str, ImportedValue)>,
    pub location: ConfigLocation,
}

/// The URL may contain a password, which is not printed.
impl std::fmt::Debug for ImportedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImportedBackend({})", self.kind)
    }
}

/// A complete server configuration after migration.
#[derive(Debug, Default)]
pub struct ImportedServer {
    /// Settings of the server itself.
    pub settings: Vec<ImportedSetting>,
    pub keys: Vec<ImportedKey>,
    pub defaults: ImportedSettings,
    pub backends: Vec<ImportedBackend>,
    /// Policies by which zones are signed.
    pub policies: Vec<ImportedPolicy>,
    /// Zones that are declared individually. The name of a version for a view has a variant.
    pub zones: Vec<ImportedZone>,
    /// Views, in the order in which they are tried.
    pub views: Vec<ImportedView>,
    /// The outcome for each setting of the other server.
    pub report: ImportReport,
    /// Errors in the other server's configuration: if there is one, nothing is migrated.
    pub errors: Vec<nameward_wire::zonefile::Diagnostic>,
}

impl ImportedServer {
    /// Checks whether anything needs a state directory: transferred zones, updates, catalogs.
    pub fn needs_state(&self) -> bool {
        let updates = |terms: &ImportedSettings| {
            terms.allow_update.as_ref().is_some_and(|l| !l.is_empty())
                || !terms.update_policy.is_empty()
        };
        let zone = |zone: &ImportedZone| {
            zone.kind.is_transferred()
                || zone.kind == ImportedKind::Producer
                || zone.signing.is_some()
                || updates(&zone.terms)
        };
        self.zones.iter().any(zone) || updates(&self.defaults)
    }
}

/// Returns a zone or key name with its final dot; `None` if it is invalid.
pub(crate) fn full_name(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).ok()?;
    Some(name.to_string())
}
