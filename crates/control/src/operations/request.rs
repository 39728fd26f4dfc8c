//! Owns the requests that can be made of a running server: one JSON object each.

mod reach;

pub use reach::RequestReach;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    AutoprimaryTemplate, BatchRequest, DsReport, KeyChange, KeyTemplate, MetadataRequest,
    QueryLogTemplate, RecordComment, RecordTemplate, RecordUse, SecretText, ZoneTemplate,
    ZoneTerms,
};

/// A request line on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// The configuration whose server is meant; any server if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigFile>,
    /// The reason, which is kept with a change in the history of its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
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
    Reload {
        /// Withdraw zones whose files are missing, even where a directory has lost most of them.
        #[serde(default)]
        withdraw_missing: bool,
    },
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
    /// Returns whether answers are logged.
    QueryLogStatus,
    /// Shows the level of the log, or changes it.
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
    /// Lists the catalogs that are made here or followed.
    CatalogList,
    /// Lists the members of a catalog.
    CatalogMembers {
        /// The catalog.
        catalog: String,
    },
    /// Lists the servers whose zones become secondaries here.
    AutoprimaryList,
    /// Adds such a server to a database.
    AutoprimaryAdd(AutoprimaryTemplate),
    /// Removes such a server from databases.
    AutoprimaryRemove(AutoprimaryTemplate),
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
        /// Whether the whole zone is transferred, even with a serial that is not newer.
        #[serde(default)]
        force: bool,
    },
    /// Sends NOTIFY to the secondaries of a zone.
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
    /// Signs all zones that have no keys.
    ZoneSecureAll,
    /// Ends the signing of a zone, and removes its keys.
    ZoneUnsecure {
        /// The zone.
        zone: String,
        /// Its parent is not asked for a DS.
        #[serde(default)]
        force: bool,
    },
    /// Makes the columns of a zone's rows again that PowerDNS derives from names.
    ZoneRectify {
        /// The zone.
        zone: String,
    },
    /// Lists the records that the parent of a signed zone needs, and those that publish it for the parent.
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
        /// Its zone, part, algorithm and use; PEM does not name the algorithm.
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
    /// Reports what the parent has, for a rollover that waits for it.
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
    /// Makes a TSIG key and stores it.
    TsigGenerate {
        /// The name of the key.
        name: String,
        /// The algorithm; HMAC-SHA-256 by default.
        #[serde(default)]
        algorithm: Option<String>,
        /// The backend to store it in, 0 for the state store; by default the first database that takes it.
        #[serde(default)]
        backend: Option<u32>,
        /// Replaces a key of that name.
        #[serde(default)]
        replace: bool,
    },
    /// Stores a TSIG key that another server made.
    TsigImport {
        /// The name of the key.
        name: String,
        /// The algorithm; HMAC-SHA-256 if nothing is said.
        #[serde(default)]
        algorithm: Option<String>,
        /// The secret as base64.
        secret: SecretText,
        /// The backend to store it in, 0 for the state store; by default the first database that takes it.
        #[serde(default)]
        backend: Option<u32>,
        /// Replaces a key of that name.
        #[serde(default)]
        replace: bool,
    },
    /// Lists the TSIG keys.
    TsigList {
        /// With the secrets of those in the state store and in databases.
        #[serde(default)]
        secrets: bool,
    },
    /// Removes a TSIG key from the state store and from databases.
    TsigRemove {
        /// The name of the key.
        name: String,
    },
}

/// Records that a search finds, where the request says nothing.
fn default_found() -> u64 {
    100
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
            OperationRequest::Reload { .. } => Urgency::Reload,
            _ => Urgency::Ordinary,
        }
    }
}

#[cfg(test)]
mod tests;
