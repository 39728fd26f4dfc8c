//! Objects in requests: zones, records and keys to create, and the keywords for zone kinds.

use nameward_zone::ZoneKind;
use serde::{Deserialize, Serialize};

use super::{BatchRecords, OperationError, Outcome};

/// A key to generate or import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTemplate {
    /// The zone.
    pub zone: String,
    /// `ksk`, `zsk` or `csk`; `csk` by default.
    pub role: Option<String>,
    /// The algorithm, by number or name; ECDSAP256SHA256 by default.
    pub algorithm: Option<String>,
    /// Size of a new RSA key in bits; 2048 by default.
    pub bits: Option<u32>,
    /// It does not sign yet.
    #[serde(default)]
    pub inactive: bool,
    /// It is not in the zone yet.
    #[serde(default)]
    pub unpublished: bool,
    /// Add it even if it would sign only the keys or only the zone.
    #[serde(default)]
    pub force: bool,
}

/// The DS state at the servers of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DsReport {
    /// All have the DS.
    Seen,
    /// None has the DS any longer.
    Gone,
}

/// A change of the use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChange {
    /// It signs.
    Activate,
    /// It does not sign.
    Deactivate,
    /// It is in the zone.
    Publish,
    /// It is not in the zone.
    Unpublish,
}

/// A zone to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneTemplate {
    /// The name of the zone.
    pub zone: String,
    /// The kind.
    #[serde(default)]
    pub kind: ListedKind,
    /// The name servers; the first one is the MNAME of the SOA.
    #[serde(default)]
    pub name_servers: Vec<String>,
    /// The addresses that a zone of kind secondary or consumer is transferred from, with or without ports.
    #[serde(default)]
    pub primaries: Vec<String>,
    /// The mailbox in the SOA, as a name; `hostmaster` in the zone by default.
    pub hostmaster: Option<String>,
    /// The TTL of SOA and NS.
    #[serde(default = "default_ttl")]
    pub ttl: u32,
    /// The number of the backend; by default the first database or, without one, the first directory of zone files.
    pub backend: Option<u32>,
    /// The `[[template]]` for the settings of a zone that is not in a database.
    pub template: Option<String>,
    /// All records of the zone, including SOA and NS, instead of generated ones.
    #[serde(default)]
    pub records: Vec<BatchRecords>,
}

/// Returns the default TTL of the first records of a zone.
pub fn default_ttl() -> u32 {
    3600
}

/// Records of one owner and type to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordTemplate {
    /// The zone.
    pub zone: String,
    /// The owner: `@`, relative to the zone, or absolute.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The data of each record, as in a zone file.
    pub content: Vec<String>,
}

/// The kind of a zone in lists and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum ListedKind {
    /// A zone of a database, of a catalog or of the configuration.
    OfZone(ZoneKind),
    /// A zone that is read from a file.
    File,
}

impl Default for ListedKind {
    fn default() -> Self {
        ListedKind::OfZone(ZoneKind::default())
    }
}

impl ListedKind {
    /// Returns the keyword for the kind.
    pub fn name(self) -> &'static str {
        match self {
            ListedKind::OfZone(kind) => kind.word(),
            ListedKind::File => "file",
        }
    }

    /// Reads the keyword for a kind; those of PowerDNS before 4.5 are accepted too.
    pub fn from_name(text: &str) -> Outcome<Self> {
        let known = match text.to_ascii_lowercase().as_str() {
            "master" => Some(ZoneKind::Primary),
            "slave" => Some(ZoneKind::Secondary),
            "file" => return Ok(ListedKind::File),
            other => ZoneKind::from_word(other),
        };
        known.map(ListedKind::OfZone).ok_or_else(|| {
            OperationError::invalid(format!(
                "expected kind native, primary, secondary, producer or consumer, found {text:?}"
            ))
        })
    }
}

impl From<ZoneKind> for ListedKind {
    fn from(kind: ZoneKind) -> Self {
        ListedKind::OfZone(kind)
    }
}

impl From<ListedKind> for &'static str {
    fn from(kind: ListedKind) -> Self {
        kind.name()
    }
}

impl TryFrom<String> for ListedKind {
    type Error = OperationError;

    fn try_from(text: String) -> Outcome<Self> {
        ListedKind::from_name(&text)
    }
}
