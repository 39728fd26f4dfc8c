//! Owns the results of operations: one JSON object each, and one for each item of a listing.

use serde::{Deserialize, Serialize};

use super::{
    DsAdvice, FoundRecord, KeySteps, ListedAutoprimary, ListedCatalog, ListedComment,
    ListedDeletedZone, ListedKind, ListedMember, ListedMetadata, ListedSigning, ListedTsigKey,
    ListedVersion, ListedZoneKey, OperationError, QueryLogStatus, SecretText, SecuredZone,
    ServerStatus, ZoneDetails,
};

/// A reply line on the control socket: any number of items, then one of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyLine {
    /// An item of a listing; more follows.
    Item(ListedItem),
    /// The operation is done.
    Done(OperationResult),
    /// The operation failed. Items that came before are part of a listing that is not whole.
    Failed(OperationError),
}

/// An item of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListedItem {
    /// A zone.
    Zone(ListedZone),
    /// A zone that was deleted.
    DeletedZone(ListedDeletedZone),
    /// A record.
    Record(ListedRecord),
    /// A key of TSIG.
    TsigKey(ListedTsigKey),
    /// A key of a zone.
    ZoneKey(ListedZoneKey),
    /// The status of a zone.
    Status(ListedZoneStatus),
    /// A record that goes or comes.
    Difference(ListedDifference),
    /// A zone of a batch.
    Changed(ListedChange),
    /// A version of a zone.
    Version(ListedVersion),
    /// An item of metadata.
    Metadata(ListedMetadata),
    /// A comment of an RRset.
    Comment(ListedComment),
    /// A record that a search has found.
    Found(FoundRecord),
    /// A catalog.
    Catalog(ListedCatalog),
    /// A member of a catalog.
    Member(ListedMember),
    /// An autoprimary.
    Autoprimary(ListedAutoprimary),
    /// A zone among those that are to be signed.
    Secured(SecuredZone),
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
    #[serde(default)]
    pub serial: Option<u32>,
    /// `current`, `live` (looked up in a database), `stale` (the last refresh failed), `expired`, `empty` (never
    /// transferred), `no SOA`, `not ready` (no data to serve), `not loaded` (no server is running), or `not served` (another
    /// backend has the zone, or it was not read yet).
    #[serde(default)]
    pub state: String,
    /// How it is signed, as in [`ListedSigning::signed`], or `unknown`.
    #[serde(default)]
    pub signing: String,
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRecord {
    /// `records.id`; none where no database has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// It is kept but not served.
    pub disabled: bool,
    /// Why it cannot be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A record that goes or comes with a change, or differs between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDifference {
    /// The zone.
    pub zone: String,
    /// Whether it goes or comes.
    pub change: RecordFate,
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

/// Whether a record goes or comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordFate {
    /// It is in the version before only.
    Removed,
    /// It is in the version after only.
    Added,
}

/// A zone of a batch, after its change or the trial of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedChange {
    /// False if the zone was like that already.
    pub is_changed: bool,
    /// It was tried and not made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// The zone, its serial and warnings.
    #[serde(flatten)]
    pub changed: ZoneChanged,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum OperationResult {
    /// Of `status`.
    Status(ServerStatus),
    /// Of `stop`: the connection stays open until the server has ended.
    Stopping,
    /// Of `reload`.
    Reloaded(ReloadReport),
    /// Of `stats`.
    Counters {
        /// In the order of the status page.
        counters: Vec<NamedCounter>,
    },
    /// Of `query-log`.
    QueryLog(QueryLogStatus),
    /// Of `log-level`.
    LogLevel {
        /// The least important level that is logged.
        level: String,
    },
    /// Of `cache flush`.
    Flushed {
        /// Entries that were dropped.
        entries: usize,
    },
    /// The end of a listing.
    Listed {
        /// Items that were sent.
        items: u64,
    },
    /// Of `zone show`.
    Zone(ZoneDetails),
    /// Of `zone create`.
    ZoneCreated(ZoneChanged),
    /// Of `zone delete`.
    ZoneDeleted {
        /// The zone.
        #[serde(flatten)]
        changed: ZoneChanged,
        /// Until when `zone undelete` can bring it back, in seconds since 1970; none if no copy is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_until: Option<u64>,
    },
    /// Of `zone undelete`.
    ZoneUndeleted(ZoneChanged),
    /// Of a change of records.
    ZoneChanged(ZoneChanged),
    /// Of `zone secure`.
    ZoneSecured {
        /// The zone.
        zone: String,
        /// The key.
        key: ListedZoneKey,
        /// Whether its DS may go to the parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<DsAdvice>,
    },
    /// Of `zone ds`.
    ZoneDs {
        /// The zone.
        zone: String,
        /// How many records were listed.
        items: u64,
        /// Whether the DS may go to the parent.
        advice: DsAdvice,
    },
    /// Of `zone secure` for a zone that is signed already.
    SigningChanged {
        /// The zone.
        zone: String,
        /// How names are denied now, if that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<String>,
        /// The serial that is shown now, if that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        soa_edit: Option<String>,
    },
    /// Of `zone unsecure`.
    ZoneUnsecured {
        /// The zone.
        zone: String,
        /// Keys that were removed.
        keys: usize,
    },
    /// Of `key add`, `key import` and changes of the use of a key.
    ZoneKey(ListedZoneKey),
    /// Of `key export`.
    ZoneKeyText {
        /// The private text.
        private: SecretText,
    },
    /// Of `key rollover`, `key ds-seen` and `key ds-gone`.
    KeySteps(KeySteps),
    /// Of `key remove`.
    ZoneKeyRemoved {
        /// The zone.
        zone: String,
        /// The number of the key.
        key: u32,
    },
    /// Of `tsig generate` and `tsig import`.
    TsigKey(ListedTsigKey),
    /// Of `tsig remove`.
    TsigKeyRemoved {
        /// The name of the key.
        name: String,
        /// Where it was stored: `backend N`, `state store`, or several.
        #[serde(default)]
        source: String,
    },
    /// Of `autoprimary add`.
    AutoprimaryAdded {
        /// The address.
        address: String,
        /// The name server.
        name_server: String,
        /// The number of the backend.
        backend: u32,
    },
    /// Of `autoprimary remove`.
    AutoprimaryRemoved {
        /// The address.
        address: String,
        /// The name server.
        name_server: String,
        /// The number of the first backend that had it.
        backend: u32,
        /// The numbers of all backends that had it.
        backends: Vec<u32>,
    },
    /// Of `zone retrieve`: the check is under way.
    ZoneRetrieving {
        /// The zone.
        zone: String,
    },
    /// Of `zone notify`: the messages are under way.
    ZoneNotifying {
        /// The zone.
        zone: String,
    },
    /// Of `zone sync`.
    ZoneSynced {
        /// The zone.
        zone: String,
        /// The serial that its file has now.
        serial: u32,
        /// Records that went and came in the file; 0 if it had all.
        records: usize,
    },
    /// Of `zone freeze`.
    ZoneFrozen {
        /// The zone.
        zone: String,
    },
    /// Of `zone thaw`.
    ZoneThawed {
        /// The zone.
        zone: String,
    },
    /// The end of the records that differ between two versions.
    ZoneDifference {
        /// The zone.
        zone: String,
        /// The serial of the version before.
        from: u32,
        /// The serial of the version after.
        to: u32,
        /// Records that were listed.
        records: u64,
    },
    /// Of a change that changes nothing.
    NoChange {
        /// The zone.
        zone: String,
    },
}

/// The status of a zone: its serial, and where it comes from primaries, how it fares with them. Times are in seconds since
/// 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedZoneStatus {
    /// The name, with its final dot.
    pub name: String,
    /// The kind: native, primary, secondary, producer, consumer.
    pub kind: String,
    /// `current`, `empty` (never transferred), `expired`, `not ready`, or `live` (looked up in a database).
    pub state: String,
    /// The serial here.
    pub serial: Option<u32>,
    /// The primary that was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// The serial that a primary had when it last said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_at_primary: Option<u32>,
    /// When a primary was last asked, since the start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<u64>,
    /// When a primary last confirmed the contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<u64>,
    /// When the next check begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check: Option<u64>,
    /// When the contents are not served any more unless a primary confirms them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether a check or transfer is under way.
    pub is_checking: bool,
    /// Whether it waits for its turn to be transferred.
    #[serde(default)]
    pub is_queued: bool,
    /// Checks that failed since the last that did not.
    pub failures: u32,
    /// Why the last check failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The transfer that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<RunningTransferStatus>,
    /// How it is signed by this server, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Box<ListedSigning>>,
    /// The server's clock.
    pub now: u64,
}

/// A transfer that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTransferStatus {
    /// The primary.
    pub primary: String,
    /// Records that have come.
    pub records: u64,
    /// Octets of these.
    pub octets: u64,
    /// Seconds since it began.
    pub seconds: u64,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Warnings for the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The report of a reload for the one who asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Counts of zones, in words.
    pub summary: String,
    /// Settings that take effect after a restart, and the like.
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
    fn results_say_what_they_are() {
        let text = serde_json::to_string(&ReplyLine::Done(OperationResult::NoChange {
            zone: "a.test.".into(),
        }));
        assert_eq!(
            text.unwrap(),
            r#"{"done":{"result":"no_change","zone":"a.test."}}"#
        );
    }
}
