//! The changes that are written to the state store.

use super::deleted::{CopyBounds, DeletedZone};
use super::digest::ContentsDigest;
use super::file_copy::FileCopy;
use super::rebase::RebasedVersion;
use nameward_wire::NameBuf;
use nameward_zone::change::{ChangeAuthor, Difference};
use nameward_zone::{RecordList, Serial};
use std::sync::Arc;

/// Where the contents of a zone are at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneHome {
    /// In a database, which has every change.
    Database,
    /// In a zone file, which may lack the last changes of the journal.
    File,
    /// In this store: contents as of some place of the journal, and the journal from there.
    Store,
}

impl ZoneHome {
    pub(super) fn number(self) -> i64 {
        match self {
            ZoneHome::Database => 0,
            ZoneHome::File => 1,
            ZoneHome::Store => 2,
        }
    }

    pub(super) fn of(number: i64) -> Option<Self> {
        [ZoneHome::Database, ZoneHome::File, ZoneHome::Store]
            .into_iter()
            .find(|home| home.number() == number)
    }
}

/// Who made a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalOrigin {
    /// The home of the zone changed by itself: a zone file was edited. The home has it already.
    Home,
    /// A change through this server: by an operator or DNS UPDATE.
    Change,
    /// A transfer from the primary.
    Transfer,
}

impl JournalOrigin {
    pub(super) fn number(self) -> i64 {
        match self {
            JournalOrigin::Home => 0,
            JournalOrigin::Change => 1,
            JournalOrigin::Transfer => 2,
        }
    }

    pub(super) fn of(number: i64) -> Option<Self> {
        [
            JournalOrigin::Home,
            JournalOrigin::Change,
            JournalOrigin::Transfer,
        ]
        .into_iter()
        .find(|origin| origin.number() == number)
    }
}

/// The times of a secondary zone (RFC 1035 section 3.3.13), in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneTimers {
    /// When a primary last confirmed the contents.
    pub refreshed: u64,
    /// When a primary is to be asked again.
    pub next_check: u64,
    /// When the contents are not to be served any more.
    pub expires: u64,
}

/// One change of the state.
#[derive(Debug, Clone)]
pub enum StateChange {
    /// Continues the journal of a zone by one difference.
    Append {
        /// The zone.
        zone: NameBuf,
        /// Where its contents are at home.
        home: ZoneHome,
        /// Who made the difference.
        origin: JournalOrigin,
        /// The difference, from one serial to another.
        difference: Arc<Difference>,
        /// Seconds since 1970.
        time: u64,
        /// Who made it, and why.
        author: Option<Arc<ChangeAuthor>>,
    },
    /// Forgets the journal of a zone: it does not lead to what the zone is now.
    RestartJournal {
        /// The zone.
        zone: NameBuf,
        /// Where its contents are at home.
        home: ZoneHome,
        /// The serial of the zone now.
        serial: Serial,
    },
    /// Continues the journal of a zone by a version that stands on its edited file, and keeps what the file lacks.
    Rebase {
        /// The zone.
        zone: NameBuf,
        /// The version.
        version: RebasedVersion,
    },
    /// The home of a zone has all changes up to its serial now.
    Settle {
        /// The zone.
        zone: NameBuf,
        /// The serial that the home has.
        serial: Serial,
    },
    /// Sets the digest of the contents that a zone had at a serial of its journal. A difference that is appended changes
    /// it, a journal that begins anew forgets it.
    SetDigest {
        /// The zone.
        zone: NameBuf,
        /// The serial of these contents.
        serial: Serial,
        /// Their digest.
        digest: ContentsDigest,
    },
    /// Sets the contents of a zone that has no other home. If they are those at the end of the journal it goes on,
    /// otherwise it begins anew.
    SetContents {
        /// The zone.
        zone: NameBuf,
        /// The serial of the contents.
        serial: Serial,
        /// All records, in parts of some size.
        parts: Arc<Vec<RecordList>>,
    },
    /// Writes the contents of a zone that is at home here as they were at a serial of its journal, so that the entries up
    /// to there can be dropped. Those after it stay; a journal that does not have the serial any more is left alone.
    RefreshContents {
        /// The zone.
        zone: NameBuf,
        /// The serial of the contents.
        serial: Serial,
        /// All records, in parts of some size.
        parts: Arc<Vec<RecordList>>,
    },
    /// Sets the times of a zone that is known here.
    SetTimers {
        /// The zone.
        zone: NameBuf,
        /// The times.
        timers: ZoneTimers,
    },
    /// Forgets a zone with all that is kept for it.
    RemoveZone {
        /// The zone.
        zone: NameBuf,
    },
    /// Forgets a zone that its home does not have any more, unless its journal has changes that the home lacks: these are
    /// kept, and [`Written::unsettled`] names the zone.
    RemoveVanished {
        /// The zone.
        zone: NameBuf,
        /// The home that it vanished from; a zone that is at home elsewhere now is kept.
        home: ZoneHome,
    },
    /// Keeps the copy of a zone that is about to be deleted. [`Written::copy`] is its number.
    KeepCopy {
        /// The zone.
        zone: DeletedZone,
        /// The copy.
        rows: Arc<Vec<u8>>,
        /// How much is kept; the oldest copies go.
        bounds: CopyBounds,
    },
    /// Forgets the copy of a deleted zone.
    RemoveCopy {
        /// Its number.
        number: i64,
    },
    /// Forgets copies of zones that were deleted before a time.
    DropCopies {
        /// Seconds since 1970.
        before: u64,
    },
    /// Writes one part of the copy of a zone file; it counts with [`StateChange::KeepFileCopy`].
    KeepFileCopyPart {
        /// The zone.
        zone: NameBuf,
        /// The digest of the whole version.
        digest: ContentsDigest,
        /// The number of the part, from 0.
        part: u32,
        /// Its records.
        records: Arc<RecordList>,
    },
    /// Has the copy of a zone file count whose parts are written, in the place of the one before.
    KeepFileCopy {
        /// The zone.
        zone: NameBuf,
        /// The copy.
        copy: FileCopy,
    },
    /// Forgets the copy of a zone file.
    RemoveFileCopy {
        /// The zone.
        zone: NameBuf,
    },
    /// Sets a value.
    SetItem {
        /// The kind of value, as `tsig`.
        kind: &'static str,
        /// Its name.
        name: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a value.
    RemoveItem {
        /// The kind of value.
        kind: &'static str,
        /// Its name.
        name: Vec<u8>,
    },
}

impl StateChange {
    /// Whether nothing is lost with it that its home does not have: a journal of a database begins anew where it lacks something.
    pub(super) fn is_durable_elsewhere(&self) -> bool {
        match self {
            StateChange::Append { home, .. } | StateChange::RestartJournal { home, .. } => {
                *home == ZoneHome::Database
            }
            _ => false,
        }
    }
}

/// The result of changes that are on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Zones whose journals are larger than their bounds, because their homes lack the oldest entries: contents should be
    /// written anew, or the file.
    pub overfull: Vec<NameBuf>,
    /// Zones that vanished from their homes and are kept, because their journals have changes that the homes lack.
    pub unsettled: Vec<NameBuf>,
    /// Zones that vanished and are forgotten.
    pub removed: Vec<NameBuf>,
    /// The number of the copy that was kept.
    pub copy: Option<i64>,
}
