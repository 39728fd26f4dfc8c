//! The changes that are written to the state store.

use super::audit::AuditEntry;
use super::deleted::{CopyBounds, DeletedZone};
use super::digest::ContentsDigest;
use super::file_copy::FileCopy;
use super::journal_rows::{JournalOrigin, ZoneStorage, ZoneTimers};
use nameward_base::secret::Secret;
use nameward_wire::NameBuf;
use nameward_zone::change::{ChangeAuthor, Difference};
use nameward_zone::{RecordList, Serial};
use std::sync::Arc;

/// A version of a zone merged from its edited file and the changes that the file lacks.
#[derive(Debug, Clone)]
pub struct RebasedVersion {
    /// From the previous version to this one.
    pub forward: Arc<Difference>,
    /// From the version in the file to this one.
    pub lacking: Arc<Difference>,
    /// Seconds since 1970.
    pub time: u64,
}

/// A change of the state.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone)]
pub enum StateChange {
    /// Appends a difference to the journal of a zone.
    Append {
        zone: NameBuf,
        storage: ZoneStorage,
        origin: JournalOrigin,
        /// The difference, from one serial to another.
        difference: Arc<Difference>,
        /// Seconds since 1970.
        time: u64,
        /// The author of the change, and the reason.
        author: Option<Arc<ChangeAuthor>>,
    },
    /// Drops the journal of a zone: it does not lead to the zone's current version.
    RestartJournal {
        zone: NameBuf,
        storage: ZoneStorage,
        /// The zone's current serial.
        serial: Serial,
    },
    /// Continues the journal of a zone with a version based on its edited file, and keeps what the file lacks.
    Rebase {
        zone: NameBuf,
        version: RebasedVersion,
    },
    /// Records that a zone's storage has all changes up to this serial.
    Settle {
        zone: NameBuf,
        /// The serial in its storage.
        serial: Serial,
    },
    /// Sets the digest of the contents that a zone had at a serial of its journal. Appending a difference updates it,
    /// restarting the journal drops it.
    SetDigest {
        zone: NameBuf,
        serial: Serial,
        digest: ContentsDigest,
    },
    /// Sets the contents of a zone that is stored nowhere else. If they match the end of the journal, it continues,
    /// otherwise it restarts.
    SetContents {
        zone: NameBuf,
        serial: Serial,
        /// All records, in chunks.
        parts: Arc<Vec<RecordList>>,
    },
    /// Writes the contents of a zone stored here as of a serial of its journal, so that the entries up to there can
    /// be dropped. Later entries stay; a journal that no longer has the serial is left alone.
    RefreshContents {
        zone: NameBuf,
        serial: Serial,
        /// All records, in chunks.
        parts: Arc<Vec<RecordList>>,
    },
    /// Sets the timers of a zone that is known here.
    SetTimers { zone: NameBuf, timers: ZoneTimers },
    /// Deletes a zone with all its state.
    RemoveZone { zone: NameBuf },
    /// Deletes a zone that its storage no longer has, unless its journal has changes that the storage lacks: these
    /// are kept, and [`Written::unsettled`] names the zone.
    RemoveVanished {
        zone: NameBuf,
        /// The storage that it vanished from; a zone that is now stored elsewhere is kept.
        storage: ZoneStorage,
    },
    /// Stores the copy of a zone that is about to be deleted. [`Written::copy`] is its number.
    KeepCopy {
        zone: DeletedZone,
        rows: Arc<Vec<u8>>,
        /// The limits; the oldest copies are dropped.
        bounds: CopyBounds,
    },
    /// Deletes the copy of a deleted zone.
    RemoveCopy { number: i64 },
    /// Deletes copies of zones that were deleted before a time.
    DropCopies {
        /// Seconds since 1970.
        before: u64,
    },
    /// Writes one chunk of the copy of a zone file; it takes effect with [`StateChange::KeepFileCopy`].
    KeepFileCopyPart {
        zone: NameBuf,
        /// The digest of the whole version.
        digest: ContentsDigest,
        /// The number of the chunk, from 0.
        part: u32,
        records: Arc<RecordList>,
    },
    /// Activates the copy of a zone file whose chunks are written, replacing the previous one.
    KeepFileCopy { zone: NameBuf, copy: FileCopy },
    /// Deletes the copy of a zone file.
    RemoveFileCopy { zone: NameBuf },
    /// Adds an entry to the audit log; the oldest one is dropped at the limit.
    Audit(Box<AuditEntry>),
    /// Sets a value.
    SetItem {
        /// The kind of value, such as `tsig`.
        kind: &'static str,
        name: Vec<u8>,
        /// The value, which may be a secret.
        value: Secret<Vec<u8>>,
    },
    /// Removes a value.
    RemoveItem {
        /// The kind of value.
        kind: &'static str,
        name: Vec<u8>,
    },
}

impl StateChange {
    /// Returns the change that sets a value.
    pub fn set_item(kind: &'static str, name: Vec<u8>, value: impl Into<Secret<Vec<u8>>>) -> Self {
        let value = value.into();
        StateChange::SetItem { kind, name, value }
    }

    /// Returns the change that removes a value.
    pub fn remove_item(kind: &'static str, name: Vec<u8>) -> Self {
        StateChange::RemoveItem { kind, name }
    }

    /// Checks whether the change need not wait for the disk. Losing it loses nothing that the zone's storage does not have: the
    /// journal of a database zone restarts if it lacks something. Entries of the audit log never make a change wait.
    pub(super) fn is_durable_elsewhere(&self) -> bool {
        match self {
            StateChange::Append { storage, .. } | StateChange::RestartJournal { storage, .. } => {
                *storage == ZoneStorage::Database
            }
            StateChange::Audit(_) => true,
            _ => false,
        }
    }
}

/// The result of changes that are on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Zones whose journals exceed their limits because their storage lacks the oldest entries: contents, or the
    /// file, should be written again.
    pub overfull: Vec<NameBuf>,
    /// Zones that vanished from their storage and are kept, because their journals have changes that the storage
    /// lacks.
    pub unsettled: Vec<NameBuf>,
    /// Zones that vanished and were deleted.
    pub removed: Vec<NameBuf>,
    /// The number of the stored copy.
    pub copy: Option<i64>,
}
