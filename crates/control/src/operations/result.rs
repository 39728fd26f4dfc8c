//! Results of operations: one JSON object each, and one for each item of a listing.

mod listed;
mod text;

pub use listed::{Columns, ListedItem};
pub(crate) use listed::{TableRow, dash_if_empty, list_all, or_dash, table_row};
use serde::{Deserialize, Serialize};

use super::{
    ChangedView, DsAdvice, FoundRecord, HealthTarget, KeySteps, ListedApiKey, ListedCookieSecret,
    ListedKind, ListedNetwork, ListedTsigKey, ListedZoneKey, OperationError, QueryLogStatus,
    SecretText, ServerProcess, ServerStatus, ZoneDetails,
};

/// A reply line on the control socket: any number of items, then one final line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyLine {
    /// An item of a listing; more follows.
    Item(ListedItem),
    /// The operation is done.
    Done(OperationResult),
    /// The operation failed. The items before it are an incomplete listing.
    Failed(OperationError),
}

/// A zone of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedZone {
    /// The name, with its final dot.
    pub name: String,
    /// The kind.
    pub kind: ListedKind,
    /// The number of the backend; 0 for zones in the state store and for files of `[[zone]]`.
    pub backend: u32,
    /// The serial that clients get; none if the zone has no data, or its database does not respond.
    pub serial: Option<u32>,
    /// `current`, `live` (looked up in a database), `stale` (the last refresh failed), `expired`, `empty` (never
    /// transferred), `no SOA`, `not ready` (no data to serve), `not loaded` (no server is running), or `not served`
    /// (another backend has the zone, or it was not read yet).
    #[serde(default)]
    pub state: String,
    /// How it is signed, as in [`ListedSigning::signed`], or `unknown`.
    #[serde(default)]
    pub signing: String,
}

table_row! { ListedZone as item:
    "ZONE" = item.name,
    "KIND" = item.kind.name(),
    "BACKEND" = item.backend,
    "SERIAL" = or_dash(item.serial),
    "STATE" = item.state.replace(' ', "-"),
    "SIGNING" = item.signing.replace(' ', "-"),
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRecord {
    /// `records.id`; none where no database has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// The owner with its final dot; as stored if it is not valid.
    pub name: String,
    /// The TTL.
    pub ttl: u32,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data as in a zone file; as stored if it is not valid.
    pub content: String,
    /// The data as a client wrote it, if a database stores it in another form than `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// It is stored but not served.
    pub disabled: bool,
    /// Why it cannot be served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A record removed or added by a change, or between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDifference {
    /// The zone.
    pub zone: String,
    /// Whether it is removed or added.
    pub change: RecordChange,
    /// The owner with its final dot.
    pub name: String,
    /// The TTL.
    pub ttl: u32,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data as in a zone file.
    pub content: String,
}

/// Whether a record is removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordChange {
    /// It is in the older version only.
    Removed,
    /// It is in the newer version only.
    Added,
}

/// A zone of a batch, after its change or trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedChange {
    /// False if the zone already had this state.
    pub is_changed: bool,
    /// It was only tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// The zone, its serial and warnings.
    #[serde(flatten)]
    pub changed: ZoneChanged,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
#[allow(missing_docs, reason = "most fields are named after what they hold")]
pub enum OperationResult {
    /// Result of `status`.
    Status(Box<ServerStatus>),
    /// How the server was started.
    Process(ServerProcess),
    /// Result of `stop`: the connection stays open until the server has ended.
    Stopping,
    /// Result of `reload`.
    Reloaded(ReloadReport),
    /// Result of `stats`.
    Counters {
        /// In the order of the status page.
        counters: Vec<NamedCounter>,
    },
    /// Result of `query-log`.
    QueryLog(QueryLogStatus),
    /// Result of `health`.
    Health {
        /// The targets, sorted.
        targets: Vec<HealthTarget>,
    },
    /// Result of `log-level`.
    LogLevel {
        /// The least important level that is logged.
        level: String,
    },
    /// Result of `cache flush`.
    Flushed {
        /// Entries that were dropped.
        entries: usize,
    },
    /// The end of a listing.
    Listed {
        /// Items that were sent.
        items: u64,
    },
    /// The end of a page of a listing.
    ListedPage {
        /// Items that were sent.
        items: u64,
        /// The position of the next page; none after the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<String>,
    },
    /// Result of `zone show`.
    Zone(ZoneDetails),
    /// Result of `zone create`.
    ZoneCreated(ZoneChanged),
    /// Result of `zone delete`.
    ZoneDeleted {
        #[serde(flatten)]
        changed: ZoneChanged,
        /// Until when `zone undelete` can restore it, in seconds since 1970; none if no copy is stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept_until: Option<u64>,
    },
    /// Result of `zone undelete`.
    ZoneUndeleted(ZoneChanged),
    /// Result of a record change.
    ZoneChanged(ZoneChanged),
    /// Result of `zone secure`.
    ZoneSecured {
        zone: String,
        key: ListedZoneKey,
        /// Whether its DS may be sent to the parent.
        #[serde(skip_serializing_if = "Option::is_none")]
        advice: Option<DsAdvice>,
    },
    /// Result of `zone ds`.
    ZoneDs {
        zone: String,
        /// Number of listed records.
        items: u64,
        /// Whether the DS may be sent to the parent.
        advice: DsAdvice,
    },
    /// Result of `zone secure` for a zone that is already signed.
    SigningChanged {
        zone: String,
        /// The new denial of existence method, if one was requested.
        #[serde(skip_serializing_if = "Option::is_none")]
        denial: Option<String>,
        /// The new serial rule, if one was requested.
        #[serde(skip_serializing_if = "Option::is_none")]
        soa_edit: Option<String>,
    },
    /// Result of `zone unsecure`.
    ZoneUnsecured {
        zone: String,
        /// Keys that were removed.
        keys: usize,
    },
    /// Result of `key add`, `key import` and changes of the use of a key.
    ZoneKey(ListedZoneKey),
    /// Result of `key export`.
    ZoneKeyText {
        /// The private text.
        private: SecretText,
    },
    /// Result of `key rollover`, `key ds-seen` and `key ds-gone`.
    KeySteps(KeySteps),
    /// Result of `key remove`.
    ZoneKeyRemoved { zone: String, key: u32 },
    /// Result of `tsig generate` and `tsig import`.
    TsigKey(ListedTsigKey),
    /// Result of `tsig remove`.
    TsigKeyRemoved {
        name: String,
        /// Where it was stored: `backend N`, `state store`, or several.
        #[serde(default)]
        source: String,
    },
    /// Result of `view add-zone` and `view remove-zone`.
    ViewChanged(ChangedView),
    /// Result of `network set`.
    NetworkChanged(ListedNetwork),
    /// Result of `cookie roll`.
    CookieRolled(ListedCookieSecret),
    /// Result of `api-key create`.
    ApiKeyCreated {
        #[serde(flatten)]
        key: ListedApiKey,
        /// The text that clients send. It cannot be shown again.
        secret: SecretText,
    },
    /// Result of `api-key delete`.
    ApiKeyDeleted { id: String },
    /// Result of `autoprimary add`.
    AutoprimaryAdded {
        address: String,
        name_server: String,
        backend: u32,
    },
    /// Result of `autoprimary remove`.
    AutoprimaryRemoved {
        address: String,
        name_server: String,
        /// The number of the first backend that had it.
        backend: u32,
        /// The numbers of all backends that had it.
        backends: Vec<u32>,
    },
    /// Result of `zone retrieve`: the check has started.
    ZoneRetrieving { zone: String },
    /// Result of `zone notify`: the messages are being sent.
    ZoneNotifying { zone: String },
    /// Result of `zone sync`.
    ZoneSynced {
        zone: String,
        /// The serial that its file has now.
        serial: u32,
        /// Number of records removed from and added to the file; 0 if it was current.
        records: usize,
    },
    /// Result of `zone freeze`.
    ZoneFrozen { zone: String },
    /// Result of `zone thaw`.
    ZoneThawed { zone: String },
    /// The end of the records that differ between two versions.
    ZoneDifference {
        zone: String,
        /// The serial of the version before.
        from: u32,
        /// The serial of the version after.
        to: u32,
        /// Records that were listed.
        records: u64,
    },
    /// Result of a change without effect.
    NoChange { zone: String },
}

/// A counter of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedCounter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// A change of a zone that is durable and served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneChanged {
    /// The zone.
    pub zone: String,
    /// The number of its backend.
    pub backend: u32,
    /// The engine of the backend.
    pub engine: String,
    /// The serial after the change; none for a zone without SOA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The serial before a change of records; none if there was no SOA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_serial: Option<u32>,
    /// Warnings for the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The report of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Counts of zones, in words.
    pub summary: String,
    /// Warnings, for example about settings that take effect after a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_listing_is_one_json_object() {
        let line = ReplyLine::Item(ListedItem::Zone(ListedZone {
            name: "a.test.".into(),
            kind: ListedKind::OfZone(nameward_zone::ZoneKind::Native),
            backend: 1,
            serial: Some(7),
            state: "current".into(),
            signing: "no".into(),
        }));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"item":{"zone":{"name":"a.test.","kind":"native","backend":1,"serial":7,"state":"current","signing":"no"}}}"#
        );
        assert_eq!(serde_json::from_str::<ReplyLine>(&text).unwrap(), line);
    }

    #[test]
    fn every_result_names_its_kind() {
        let text = serde_json::to_string(&ReplyLine::Done(OperationResult::NoChange {
            zone: "a.test.".into(),
        }));
        assert_eq!(
            text.unwrap(),
            r#"{"done":{"result":"no_change","zone":"a.test."}}"#
        );
    }
}
