//! Owns the requests that can be made of a running server: one JSON object each.

use std::path::PathBuf;

use nameward_zone::ZoneKind;
use serde::{Deserialize, Serialize};

use super::{
    BatchRecords, BatchRequest, MetadataRequest, OperationError, QueryLogTemplate, RecordComment,
    RecordUse, SecretText, ZoneTerms,
};

/// A request line on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// The configuration whose server is meant; any server if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigFile>,
    /// The operation.
    pub request: OperationRequest,
}

/// A configuration file, by its path and by its number in the file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The path without links.
    pub path: PathBuf,
    /// Device and inode: one file may have several paths.
    pub identity: (u64, u64),
}

/// An operation on a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "operation",
    rename_all = "snake_case",
    rename_all_fields = "snake_case",
    deny_unknown_fields
)]
pub enum OperationRequest {
    /// The state of the server.
    Status,
    /// Ends the server.
    Stop,
    /// Reads the configuration and changed zone files again.
    Reload,
    /// Counters.
    Stats {
        /// These only; a name may end in `*`. All if empty.
        #[serde(default)]
        names: Vec<String>,
    },
    /// Logs answers from now on.
    QueryLogOn(QueryLogTemplate),
    /// Logs no answers any more.
    QueryLogOff,
    /// Tells whether answers are logged.
    QueryLogStatus,
    /// Tells the level of the log, or changes it.
    LogLevel {
        /// `error`, `warn`, `info`, `debug` or `trace`.
        #[serde(default)]
        level: Option<String>,
    },
    /// Drops entries of the caches.
    CacheFlush {
        /// At this name; with a final `$` at and below it. Everything if nothing is said.
        #[serde(default)]
        name: Option<String>,
    },
    /// Lists the zones.
    ZoneList,
    /// Shows a zone of a database.
    ZoneShow {
        /// The zone.
        zone: String,
    },
    /// Creates a zone in a database.
    ZoneCreate(ZoneTemplate),
    /// Deletes a zone from its database.
    ZoneDelete {
        /// The zone.
        zone: String,
        /// No copy of it is kept.
        #[serde(default)]
        no_copy: bool,
    },
    /// Brings a deleted zone back.
    ZoneUndelete {
        /// The zone.
        zone: String,
        /// The number of the backend; the one that it was in if nothing is said.
        #[serde(default)]
        backend: Option<u32>,
    },
    /// Lists the deleted zones that can be brought back.
    DeletedZoneList,
    /// Lists the status of a zone, or of all that are transferred or notified.
    ZoneStatus {
        /// The zone; all if nothing is said.
        #[serde(default)]
        zone: Option<String>,
    },
    /// Checks a secondary zone at once, and transfers what is newer.
    ZoneRetrieve {
        /// The zone.
        zone: String,
    },
    /// Tells the secondaries of a zone that it has changed.
    ZoneNotify {
        /// The zone.
        zone: String,
    },
    /// Lists the versions of a zone that the journal knows.
    ZoneHistory {
        /// The zone.
        zone: String,
    },
    /// Lists the records that differ between two versions of a zone.
    ZoneDifference {
        /// The zone.
        zone: String,
        /// The serial of the version before.
        from: u32,
        /// The serial of the version after; the one that is served if nothing is said.
        #[serde(default)]
        to: Option<u32>,
    },
    /// Writes the changes that a zone's file lacks into it.
    ZoneSync {
        /// The zone.
        zone: String,
        /// Writes the whole zone, over whatever the file has.
        #[serde(default)]
        rewrite: bool,
    },
    /// Refuses updates of a zone, and writes its file.
    ZoneFreeze {
        /// The zone.
        zone: String,
    },
    /// Takes updates of a zone again.
    ZoneThaw {
        /// The zone.
        zone: String,
    },
    /// Lists the stored records of a zone.
    RecordList {
        /// The zone.
        zone: String,
        /// Of this owner only.
        #[serde(default)]
        name: Option<String>,
        /// Of this type only.
        #[serde(default, rename = "type")]
        rtype: Option<String>,
    },
    /// Replaces the RRset of an owner and type.
    RecordSet(RecordTemplate),
    /// Adds records to the RRset of an owner and type.
    RecordAdd(RecordTemplate),
    /// Has records of a database served, or kept and not served.
    RecordUse(RecordUse),
    /// Sets the comment of an RRset of a database.
    RecordComment(RecordComment),
    /// Lists the comments of a zone of a database.
    CommentList {
        /// The zone.
        zone: String,
    },
    /// Finds records of all zones.
    RecordSearch {
        /// A pattern for owners or data: `*` stands for anything, `?` for one character.
        pattern: String,
        /// Records that are found at the most.
        #[serde(default = "default_found")]
        limit: u64,
    },
    /// Lists the metadata of a zone of a database.
    MetadataList {
        /// The zone.
        zone: String,
        /// Of this kind only.
        #[serde(default)]
        kind: Option<String>,
    },
    /// Changes the metadata of a zone of a database.
    MetadataChange(MetadataRequest),
    /// Gives a zone of a database another kind, primaries, account or catalog.
    ZoneSet(ZoneTerms),
    /// Makes changes of several records and zones, each zone all or nothing.
    Apply(BatchRequest),
    /// Deletes an owner, an RRset or single records.
    RecordDelete {
        /// The zone.
        zone: String,
        /// The owner.
        name: String,
        /// The type; all types if nothing is said.
        #[serde(default, rename = "type")]
        rtype: Option<String>,
        /// The data of the records; the whole RRset if empty.
        #[serde(default)]
        content: Vec<String>,
    },
    /// Signs a zone from now on, with a key that is made for it.
    ZoneSecure {
        /// The zone.
        zone: String,
        /// The algorithm, by number or name; ECDSAP256SHA256 if nothing is said.
        #[serde(default)]
        algorithm: Option<String>,
        /// How names are denied: `nsec`, `nsec3`, `nsec3-opt-out`, `white-lies` or `compact`; `nsec` if nothing is said.
        #[serde(default)]
        denial: Option<String>,
        /// The serial that secondaries see, as INCEPTION-INCREMENT.
        #[serde(default)]
        soa_edit: Option<String>,
    },
    /// Ends the signing of a zone, and removes its keys.
    ZoneUnsecure {
        /// The zone.
        zone: String,
    },
    /// Lists the records that the parent of a signed zone needs, and those that tell it so.
    ZoneDs {
        /// The zone.
        zone: String,
    },
    /// Lists the keys of a zone, or of all zones whose keys are kept here.
    KeyList {
        /// The zone; all if nothing is said.
        #[serde(default)]
        zone: Option<String>,
    },
    /// Makes a key for a zone.
    KeyAdd(KeyTemplate),
    /// Takes a key that another server or tool made.
    KeyImport {
        /// The text of a `.private` file, or PEM.
        private: SecretText,
        /// Its zone, part, algorithm and use; PEM does not tell the algorithm.
        template: KeyTemplate,
    },
    /// Returns the private text of a key.
    KeyExport {
        /// The zone.
        zone: String,
        /// The number of the key.
        key: u32,
        /// As PEM.
        #[serde(default)]
        pem: bool,
    },
    /// Changes the use of a key.
    KeyChange {
        /// The zone.
        zone: String,
        /// The number of the key.
        key: u32,
        /// The change.
        change: KeyChange,
    },
    /// Has keys that a policy looks after replaced by new ones.
    KeyRollover {
        /// The zone.
        zone: String,
        /// `ksk`, `zsk` or `csk`; all keys if nothing is said.
        #[serde(default)]
        role: Option<String>,
    },
    /// Tells what the parent has, for a rollover that waits for it.
    KeyDs {
        /// The zone.
        zone: String,
        /// The number of the key; all that wait if nothing is said.
        #[serde(default)]
        key: Option<u32>,
        /// Whether the parent has the DS or has it no more.
        report: DsReport,
    },
    /// Removes a key of a zone.
    KeyRemove {
        /// The zone.
        zone: String,
        /// The number of the key.
        key: u32,
    },
    /// Makes a key of TSIG and keeps it in the state store.
    TsigGenerate {
        /// The name of the key.
        name: String,
        /// The algorithm; HMAC-SHA-256 if nothing is said.
        #[serde(default)]
        algorithm: Option<String>,
    },
    /// Keeps a key of TSIG that another server made.
    TsigImport {
        /// The name of the key.
        name: String,
        /// The algorithm; HMAC-SHA-256 if nothing is said.
        #[serde(default)]
        algorithm: Option<String>,
        /// The secret as base64.
        secret: SecretText,
    },
    /// Lists the keys of TSIG.
    TsigList {
        /// With the secrets of those that the state store keeps.
        #[serde(default)]
        secrets: bool,
    },
    /// Removes a key of TSIG from the state store.
    TsigRemove {
        /// The name of the key.
        name: String,
    },
}

/// A key to be made or taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTemplate {
    /// The zone.
    pub zone: String,
    /// `ksk`, `zsk` or `csk`; `csk` if nothing is said.
    #[serde(default)]
    pub role: Option<String>,
    /// The algorithm, by number or name; ECDSAP256SHA256 if nothing is said.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// Bits of a new RSA key; 2048 if nothing is said.
    #[serde(default)]
    pub bits: Option<u32>,
    /// It does not sign yet.
    #[serde(default)]
    pub inactive: bool,
    /// It is not in the zone yet.
    #[serde(default)]
    pub unpublished: bool,
}

/// A look at the servers of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DsReport {
    /// All have the DS.
    Seen,
    /// None has it any more.
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

/// A zone to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneTemplate {
    /// The name of the zone.
    pub zone: String,
    /// The kind.
    #[serde(default)]
    pub kind: ListedKind,
    /// The name servers; the first one stands in the SOA.
    #[serde(default)]
    pub name_servers: Vec<String>,
    /// The addresses that a zone of kind secondary or consumer is transferred from, with or without ports.
    #[serde(default)]
    pub primaries: Vec<String>,
    /// The mailbox in the SOA, as a name; `hostmaster` in the zone if nothing is said.
    #[serde(default)]
    pub hostmaster: Option<String>,
    /// The TTL of SOA and NS.
    #[serde(default = "default_ttl")]
    pub ttl: u32,
    /// The number of the backend; the first database if nothing is said.
    #[serde(default)]
    pub backend: Option<u32>,
    /// All records of the zone, SOA and NS among them, in place of those that are made.
    #[serde(default)]
    pub records: Vec<BatchRecords>,
}

/// The TTL of the first records of a zone, where the request says none.
pub fn default_ttl() -> u32 {
    3600
}

/// Records that a search finds, where the request says nothing.
fn default_found() -> u64 {
    100
}

/// Records of one owner and type to be written.
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

/// The kind of a zone as lists and requests name it.
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
    /// Returns the word for the kind.
    pub fn name(self) -> &'static str {
        match self {
            ListedKind::OfZone(kind) => kind.word(),
            ListedKind::File => "file",
        }
    }

    /// Reads the word for a kind; those of PowerDNS before 4.5 are understood too.
    pub fn from_name(text: &str) -> Result<Self, OperationError> {
        let known = match text.to_ascii_lowercase().as_str() {
            "master" => Some(ZoneKind::Primary),
            "slave" => Some(ZoneKind::Secondary),
            "file" => return Ok(ListedKind::File),
            other => ZoneKind::from_word(other),
        };
        known.map(ListedKind::OfZone).ok_or_else(|| {
            OperationError::invalid(format!(
                "expected the kind native, primary, secondary or consumer, found {text:?}"
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

    fn try_from(text: String) -> Result<Self, OperationError> {
        ListedKind::from_name(&text)
    }
}

/// How a request is treated when many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Takes a moment and never waits for others.
    Immediate,
    /// Waits for other reloads only.
    Reload,
    /// Waits for its turn: it may be kept by a database.
    Ordinary,
}

impl OperationRequest {
    /// How it is treated when many wait.
    pub fn urgency(&self) -> Urgency {
        match self {
            OperationRequest::Status | OperationRequest::Stop | OperationRequest::Stats { .. } => {
                Urgency::Immediate
            }
            OperationRequest::Reload => Urgency::Reload,
            _ => Urgency::Ordinary,
        }
    }
}

#[cfg(test)]
mod tests;
