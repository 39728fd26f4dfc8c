//! Requests to a running server: one JSON object each.

mod effect;

pub use effect::{RequestEffect, RequestReach, RequestSubject, Urgency};

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    ApiKeyTemplate, AuditRequest, AutoprimaryTemplate, BatchRequest, DsReport, ForcedTarget,
    KeyChange, KeyTemplate, MetadataRequest, QueryLogTemplate, RecordComment, RecordTemplate,
    RecordUse, RrsetsRequest, SecretText, ZoneProvision, ZoneSettings, ZoneTemplate,
};

/// A request line on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// The configuration of the intended server; any server by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigFile>,
    /// The reason, which is stored with a change in the history of its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The operation.
    pub request: OperationRequest,
}

/// A configuration file, by its path and by its identity in the file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The path with symbolic links resolved.
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
#[allow(missing_docs, reason = "most fields are named after what they hold")]
pub enum OperationRequest {
    /// Returns the state of the server.
    Status,
    /// Stops the server.
    Stop,
    /// Returns how the server was started, for a successor that is started in the same way.
    Process,
    /// Hands sockets and the state store over to the requesting process.
    TakeOver,
    /// Reloads the configuration and changed zone files.
    Reload {
        /// Withdraw zones whose files are missing, even if a directory has lost most of them.
        #[serde(default)]
        withdraw_missing: bool,
    },
    /// Returns counters.
    Stats {
        /// Only these; a name may end in `*`. All if empty.
        #[serde(default)]
        names: Vec<String>,
    },
    /// Logs responses from now on.
    QueryLogOn(QueryLogTemplate),
    /// Stops logging responses.
    QueryLogOff,
    /// Returns whether responses are logged.
    QueryLogStatus,
    /// Returns the targets that are checked, and their state.
    HealthList,
    /// Forces the state of a target, regardless of its checks.
    HealthForce {
        address: IpAddr,
        state: ForcedTarget,
    },
    /// Shows the log level, or changes it.
    LogLevel {
        /// `error`, `warn`, `info`, `debug` or `trace`.
        level: Option<String>,
    },
    /// Flushes the caches.
    CacheFlush {
        /// At this name; with a final `$` at and below it. Everything by default.
        name: Option<String>,
    },
    /// Lists the zones.
    ZoneList,
    /// Shows a zone.
    ZoneShow { zone: String },
    /// Creates a zone.
    ZoneCreate(ZoneTemplate),
    /// Creates a zone with all its attributes in one transaction.
    ZoneProvision(ZoneProvision),
    /// Lists the attributes of a zone, or of all zones.
    ZoneAttributes {
        /// The zone; all by default.
        zone: Option<String>,
    },
    /// Lists one page of the attributes of all zones.
    ZoneAttributesPage {
        /// The position, from the result of the previous page; the start by default.
        #[serde(default)]
        position: String,
    },
    /// Changes RRsets with their comments in one transaction.
    RrsetsChange(RrsetsRequest),
    /// Changes RRsets of several zones, each zone all or nothing, or shows what would change.
    RrsetsBatch {
        /// The changes, each zone once.
        zones: Vec<RrsetsRequest>,
        /// Only show what would change.
        #[serde(default)]
        dry_run: bool,
    },
    /// Restores an older version of a zone from its journal, under a new serial.
    ZoneRollback {
        zone: String,
        /// The serial of the version.
        serial: u32,
        /// Only show what would change.
        #[serde(default)]
        dry_run: bool,
    },
    /// Deletes a zone.
    ZoneDelete {
        /// The serial that the zone must have, so that it was not changed in the meantime. Any by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        serial: Option<u32>,
        zone: String,
        /// Do not store a copy of it.
        #[serde(default)]
        no_copy: bool,
    },
    /// Restores a deleted zone.
    ZoneUndelete {
        zone: String,
        /// The number of the backend; by default the original one.
        backend: Option<u32>,
    },
    /// Lists the deleted zones that can be restored.
    DeletedZoneList,
    /// Lists the catalogs that are produced or consumed here.
    CatalogList,
    /// Lists the members of a catalog.
    CatalogMembers { catalog: String },
    /// Lists the autoprimaries, whose zones become secondaries here.
    AutoprimaryList,
    /// Adds an autoprimary to a database.
    AutoprimaryAdd(AutoprimaryTemplate),
    /// Removes an autoprimary from databases.
    AutoprimaryRemove(AutoprimaryTemplate),
    /// Lists the status of a zone, or of all that are transferred or notified.
    ZoneStatus {
        /// The zone; all by default.
        zone: Option<String>,
        /// Query the secondaries of the zone for their serials; takes some seconds if one does not respond.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        secondaries: bool,
    },
    /// Refreshes a secondary zone at once, and transfers a newer version.
    ZoneRetrieve {
        zone: String,
        /// Whether the whole zone is transferred, even with a serial that is not newer.
        #[serde(default)]
        force: bool,
    },
    /// Sends NOTIFY to the secondaries of a zone.
    ZoneNotify { zone: String },
    /// Lists the versions of a zone in the journal.
    ZoneHistory { zone: String },
    /// Lists the records that differ between two versions of a zone.
    ZoneDifference {
        zone: String,
        /// The serial of the older version.
        from: u32,
        /// The serial of the newer version; by default the served one.
        to: Option<u32>,
    },
    /// Writes changes to a zone's file that are not in it yet.
    ZoneSync {
        zone: String,
        /// Write the whole zone, regardless of the file's contents.
        #[serde(default)]
        rewrite: bool,
    },
    /// Suspends updates of a zone, and writes its file.
    ZoneFreeze { zone: String },
    /// Resumes updates of a zone.
    ZoneThaw { zone: String },
    /// Lists the stored records of a zone.
    RecordList {
        zone: String,
        /// Only of this owner.
        name: Option<String>,
        /// Only of this type.
        #[serde(rename = "type")]
        rtype: Option<String>,
    },
    /// Replaces the RRset of an owner and type.
    RecordSet(RecordTemplate),
    /// Adds records to the RRset of an owner and type.
    RecordAdd(RecordTemplate),
    /// Enables or disables records of a database.
    RecordUse(RecordUse),
    /// Sets the comment of an RRset in a database.
    RecordComment(RecordComment),
    /// Lists the comments of a database zone.
    CommentList { zone: String },
    /// Searches records of all zones.
    RecordSearch {
        /// A pattern for owners or data: `*` matches anything, `?` one character.
        pattern: String,
        /// Maximum number of results.
        #[serde(default = "default_found")]
        limit: u64,
    },
    /// Searches comments of all database zones.
    CommentSearch {
        /// A pattern for owners or texts: `*` matches anything, `?` one character.
        pattern: String,
        /// Maximum number of results.
        #[serde(default = "default_found")]
        limit: u64,
    },
    /// Lists the metadata of a database zone.
    MetadataList {
        zone: String,
        /// Only of this kind.
        kind: Option<String>,
    },
    /// Changes the metadata of a database zone.
    MetadataChange(MetadataRequest),
    /// Changes the kind, primaries, account or catalog of a zone.
    ZoneSet(ZoneSettings),
    /// Applies changes of several records and zones, each zone all or nothing.
    Apply(BatchRequest),
    /// Deletes an owner, an RRset or single records.
    RecordDelete {
        zone: String,
        name: String,
        /// The type; all types by default.
        #[serde(rename = "type")]
        rtype: Option<String>,
        /// The data of the records; the whole RRset if empty.
        #[serde(default)]
        content: Vec<String>,
    },
    /// Signs a zone with a new key.
    ZoneSecure {
        zone: String,
        /// The algorithm, by number or name; ECDSAP256SHA256 by default.
        algorithm: Option<String>,
        /// The denial of existence method: `nsec`, `nsec3`, `nsec3-opt-out`, `white-lies` or `compact`; `nsec` by
        /// default.
        denial: Option<String>,
        /// The serial that secondaries see, such as INCEPTION-INCREMENT.
        soa_edit: Option<String>,
    },
    /// Signs all zones that have no keys.
    ZoneSecureAll,
    /// Ends the signing of a zone, and removes its keys.
    ZoneUnsecure {
        zone: String,
        /// Do not query its parent for a DS.
        #[serde(default)]
        force: bool,
    },
    /// Recomputes the columns that PowerDNS derives from names.
    ZoneRectify { zone: String },
    /// Lists the records that the parent of a signed zone needs, and those that publish them for the parent.
    ZoneDs { zone: String },
    /// Lists the keys of a zone, or of all zones with keys here.
    KeyList {
        /// The zone; all by default.
        zone: Option<String>,
    },
    /// Generates a key for a zone.
    KeyAdd(KeyTemplate),
    /// Imports a key made by another server or tool.
    KeyImport {
        /// The text of a `.private` file, or PEM.
        private: SecretText,
        /// Its zone, role, algorithm and use; PEM does not name the algorithm.
        template: KeyTemplate,
    },
    /// Returns the private key text.
    KeyExport {
        zone: String,
        key: u32,
        /// As PEM.
        #[serde(default)]
        pem: bool,
    },
    /// Changes the use of a key.
    KeyChange {
        zone: String,
        key: u32,
        change: KeyChange,
    },
    /// Replaces keys managed by a policy by new ones.
    KeyRollover {
        zone: String,
        /// `ksk`, `zsk` or `csk`; all keys by default.
        role: Option<String>,
    },
    /// Reports the DS state at the parent, for a rollover that waits for it.
    KeyDs {
        zone: String,
        /// The number of the key; by default all that wait.
        key: Option<u32>,
        /// Whether the parent has the DS or no longer has it.
        report: DsReport,
    },
    /// Removes a key of a zone.
    KeyRemove { zone: String, key: u32 },
    /// Generates and stores a TSIG key.
    TsigGenerate {
        name: String,
        /// The algorithm; HMAC-SHA-256 by default.
        algorithm: Option<String>,
        /// The backend to store it in, 0 for the state store; by default the first writable database.
        backend: Option<u32>,
        /// Replaces a key of that name.
        #[serde(default)]
        replace: bool,
    },
    /// Stores a TSIG key that was generated elsewhere.
    TsigImport {
        name: String,
        /// The algorithm; HMAC-SHA-256 by default.
        algorithm: Option<String>,
        /// The secret as base64.
        secret: SecretText,
        /// The backend to store it in, 0 for the state store; by default the first writable database.
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
    TsigRemove { name: String },
    /// Generates a new DNS cookie secret.
    CookieRoll {
        /// Seconds until it generates cookies; by default 300 in a database and 0 in the state store.
        delay: Option<u64>,
        /// It replaces all others at once.
        #[serde(default)]
        revoke: bool,
    },
    /// Lists the DNS cookie secrets, without their octets.
    CookieList,
    /// Lists the views.
    ViewList,
    /// Gives a view its own version of a zone.
    ViewAddZone {
        view: String,
        /// The version, such as `example.org..internal`.
        zone: String,
    },
    /// Removes a zone version from a view.
    ViewRemoveZone {
        view: String,
        /// The version.
        zone: String,
    },
    /// Lists the networks with their views.
    NetworkList,
    /// Sets the view of a network.
    NetworkSet {
        /// The network, such as `10.0.0.0/8`.
        network: String,
        /// The view; `None` removes the network.
        view: Option<String>,
    },
    /// Lists entries of the audit log, newest first.
    AuditList(AuditRequest),
    /// Creates a key for the HTTP API.
    ApiKeyCreate(ApiKeyTemplate),
    /// Lists the keys of the HTTP API, without their secrets.
    ApiKeyList,
    /// Deletes a key of the HTTP API.
    ApiKeyDelete {
        /// Its ID.
        key: String,
    },
}

/// Returns the default number of search results.
fn default_found() -> u64 {
    100
}

#[cfg(test)]
mod tests;
