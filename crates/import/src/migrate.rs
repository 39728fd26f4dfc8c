//! The common model of a move: what a configuration of another server becomes here, and the report of it.
//!
//! ```text
//! pdns.conf, named.conf, nsd.conf, knot.conf
//!   texts            files and what they include, bounded
//!   a reader each    syntax of its own; fills one [`MovedServer`]
//!   toml_text        nameward.toml, each setting with the file and line that it comes from
//! ```
//! A setting is named once in the report: taken, changed, not needed or not possible. A zone that would leak (to clients
//! that were not let in) or break (without its signatures, or never filled) is left out, and the move counts as failed.

pub mod fuzzing;
pub mod knot;
pub mod nsd;
pub mod pdns;
pub(crate) mod peers;
mod report;
mod texts;
mod toml_text;

use std::path::PathBuf;

use nameward_wire::{Name, NameBuf};

pub use report::{ConfigPlace, MoveNote, MoveReport, MoveVerdict};
pub use toml_text::{SecretPlace, TomlPlan, secret_file_name};

/// A value of a setting here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MovedValue {
    /// A string.
    Text(String),
    /// A number.
    Number(u64),
    /// A switch.
    Switch(bool),
    /// A list of strings.
    Texts(Vec<String>),
}

/// A setting here that a setting of the other server became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedSetting {
    /// The table that it stands in.
    pub table: &'static str,
    /// Its key.
    pub key: &'static str,
    /// Its value.
    pub value: MovedValue,
    /// Where the other server's setting stands; `None` for a default of that server.
    pub place: Option<ConfigPlace>,
}

/// A number that means the same here: the other server's name, table and key, factor, least and most.
type NumberRow = (&'static str, (&'static str, &'static str), u64, u64, u64);

/// A key of TSIG. The secret is base64.
#[derive(Clone, PartialEq, Eq)]
pub struct MovedKey {
    /// Its name with the final dot.
    pub name: String,
    /// Its algorithm, `hmac-sha256` and the like.
    pub algorithm: String,
    /// Its secret in base64.
    pub secret: String,
    /// Where it stands.
    pub place: ConfigPlace,
}

/// The secret is not printed.
impl std::fmt::Debug for MovedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MovedKey({}, {})", self.name, self.algorithm)
    }
}

/// Another server: its address with a port if that is not 53, a key, the address to send from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MovedRemote {
    /// `192.0.2.1` or `[2001:db8::1]:5300`.
    pub address: String,
    /// The name of a key.
    pub key: Option<String>,
    /// The address to send from.
    pub source: Option<String>,
}

/// A rule of who may update which names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MovedUpdateRule {
    /// The key that an update is signed with.
    pub key: String,
    /// Names that may be changed.
    pub scope: MovedScope,
    /// Types that may be changed; empty for all.
    pub types: Vec<String>,
}

/// Names that a rule is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MovedScope {
    /// All of the zone.
    #[default]
    WholeZone,
    /// A name and all below it.
    Subtree(String),
    /// One name.
    OneName(String),
    /// The name of the key.
    KeyItself,
}

/// Settings of a zone; what is `None` is inherited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MovedTerms {
    /// Clients that may ask.
    pub allow_query: Option<Vec<String>>,
    /// Peers that may transfer.
    pub allow_transfer: Option<Vec<String>>,
    /// Peers that may notify.
    pub allow_notify: Option<Vec<String>>,
    /// Peers that may update.
    pub allow_update: Option<Vec<String>>,
    /// Rules for updates.
    pub update_policy: Vec<MovedUpdateRule>,
    /// Servers to transfer from.
    pub primaries: Vec<MovedRemote>,
    /// Servers to notify.
    pub also_notify: Vec<MovedRemote>,
    /// Whether the servers of the NS records are notified.
    pub notify_name_servers: Option<bool>,
    /// Whether updates go to the primary.
    pub forward_updates: Option<bool>,
    /// Whether transfers have addresses in place of ALIAS records.
    pub expand_alias: Option<bool>,
    /// SOA-EDIT of signed zones in databases that have no such metadata; in the defaults only.
    pub soa_edit: Option<String>,
    /// MiB that a transferred zone may have.
    pub transfer_size_max_mb: Option<u64>,
    /// The catalog that the zone is in.
    pub catalog: Option<String>,
    /// Its group there.
    pub catalog_group: Option<String>,
    /// Its label there, by which consumers know it.
    pub catalog_label: Option<String>,
    /// Whether incremental transfers are requested from the primaries.
    pub request_ixfr: Option<bool>,
    /// The use of ZONEMD records.
    pub zonemd: Option<&'static str>,
    /// The policy that signs the zone.
    pub dnssec_policy: Option<String>,
    /// The directory of its keys.
    pub key_directory: Option<PathBuf>,
}

/// The kind of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MovedKind {
    /// Served from its file.
    Native,
    /// Served from its file; others are notified.
    Primary,
    /// Transferred.
    Secondary,
    /// A catalog that is made here.
    Producer,
    /// A catalog that is followed.
    Consumer,
}

impl MovedKind {
    /// The word of the configuration.
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

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedZone {
    /// Its name with the final dot.
    pub name: String,
    /// Its kind.
    pub kind: MovedKind,
    /// Its file, of a zone that is not transferred.
    pub file: Option<PathBuf>,
    /// Its settings.
    pub terms: MovedTerms,
    /// How the other server signs it.
    pub signing: Option<MovedSigning>,
    /// The file that has the contents of a catalog that is made here.
    pub catalog_file: Option<PathBuf>,
    /// Where it stands.
    pub place: ConfigPlace,
}

/// A zone that the other server signs: where its signed version and its keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedSigning {
    /// The file with the signed version, which BIND may have a journal for.
    pub version: PathBuf,
    /// The file without signatures that the operator edits, if there is one.
    pub source: Option<PathBuf>,
    /// The keys.
    pub keys: MovedKeyStore,
    /// The policy; without one keys are used as their times say.
    pub policy: Option<String>,
    /// The command that has the other server write the signed version to its file.
    pub flush: &'static str,
}

/// The directory of the private keys of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MovedKeyStore {
    /// `K*.key` and `K*.private` of BIND.
    Pairs(PathBuf),
    /// `*.pem` of Knot.
    Pem(PathBuf),
}

/// The reason why something cannot be kept, in the words of the report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MoveRefusal(pub String);

impl From<String> for MoveRefusal {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for MoveRefusal {
    fn from(reason: &str) -> Self {
        Self(reason.into())
    }
}

/// Settings of a `[[dnssec_policy]]`.
pub type PolicySettings = Vec<(&'static str, MovedValue)>;

/// A policy by which zones are signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedPolicy {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: PolicySettings,
    /// Where it stands.
    pub place: ConfigPlace,
}

/// The name here of an algorithm that keys are made of; `None` for others.
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
pub struct MovedBackend {
    /// Its type here.
    pub kind: &'static str,
    /// Its settings: keys and values. A database's address holds a password.
    pub settings: Vec<(&'static str, MovedValue)>,
    /// Where it stands.
    pub place: ConfigPlace,
}

/// The address may hold a password, which is not printed.
impl std::fmt::Debug for MovedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MovedBackend({})", self.kind)
    }
}

/// A whole server as it is to be here.
#[derive(Debug, Default)]
pub struct MovedServer {
    /// Settings of the server itself.
    pub settings: Vec<MovedSetting>,
    /// Keys of TSIG.
    pub keys: Vec<MovedKey>,
    /// Settings of all zones.
    pub defaults: MovedTerms,
    /// Sources of zones.
    pub backends: Vec<MovedBackend>,
    /// Policies by which zones are signed.
    pub policies: Vec<MovedPolicy>,
    /// Zones that are declared one by one.
    pub zones: Vec<MovedZone>,
    /// The end of each setting of the other server.
    pub report: MoveReport,
    /// Mistakes in the configuration of the other server: with one of them there is nothing to move.
    pub errors: Vec<nameward_wire::zonefile::Diagnostic>,
}

impl MovedServer {
    /// Sets a setting and notes that it was taken.
    pub(crate) fn take(
        &mut self,
        place: &ConfigPlace,
        (table, key): (&'static str, &'static str),
        value: MovedValue,
        from: &str,
    ) {
        let text = format!("{from} is {key} of [{table}]");
        self.report.add(MoveVerdict::Taken, place, text);
        self.set(Some(place), (table, key), value);
    }

    /// Sets a setting.
    pub(crate) fn set(
        &mut self,
        place: Option<&ConfigPlace>,
        (table, key): (&'static str, &'static str),
        value: MovedValue,
    ) {
        self.settings
            .retain(|known| (known.table, known.key) != (table, key));
        self.settings.push(MovedSetting {
            table,
            key,
            value,
            place: place.cloned(),
        });
    }

    /// Adds a zone and notes it.
    pub(crate) fn take_zone(&mut self, zone: MovedZone) {
        let (name, kind) = (&zone.name, zone.kind.word());
        let text = match &zone.file {
            // The file of a signed zone is a new one.
            Some(file) if zone.signing.is_none() => {
                format!("zone {name} is {kind}, file {}", file.display())
            }
            _ => format!("zone {name} is {kind}"),
        };
        self.report.add(MoveVerdict::Taken, &zone.place, text);
        self.zones.push(zone);
    }

    /// Whether something is kept that needs a state directory: zones that are transferred, updates, catalogs.
    pub fn needs_state(&self) -> bool {
        let updates = |terms: &MovedTerms| {
            terms.allow_update.as_ref().is_some_and(|l| !l.is_empty())
                || !terms.update_policy.is_empty()
        };
        let zone = |zone: &MovedZone| {
            zone.kind.is_transferred()
                || zone.kind == MovedKind::Producer
                || zone.signing.is_some()
                || updates(&zone.terms)
        };
        self.zones.iter().any(zone) || updates(&self.defaults)
    }
}

/// The name of a zone or key with its final dot; `None` where it is no name.
pub(crate) fn full_name(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).ok()?;
    Some(name.to_string())
}
