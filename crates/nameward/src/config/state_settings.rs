//! Settings for the state store: journals, and copies of deleted zones.

use nameward_state::{CopyBounds, JournalBounds};

use super::{read::Count, setting::section};

section! {
    /// The journal of each zone's changes in the state directory: serials, and the records removed and added. It is the
    /// source of incremental transfers (IXFR, RFC 1995). This table also contains the limits for copies of deleted zones.
    Journal = "journal" {
        /// Maximum size in MiB of a zone's journal; above it the oldest changes are dropped.
        size_max_mb: Count<1, 1_048_576> = "64";
        /// Maximum number of changes in a zone's journal; above it the oldest are dropped.
        changes_max: Count<1, 10_000_000> = "10000";
        /// Interval at which changes made by DNS UPDATE and commands are written to zone files that lack them, in
        /// seconds; 0 writes them only on `nameward zone sync`.
        file_sync_seconds: Count<0, 31_536_000> = "0";
        /// Maximum size in MiB of all copies of zone files in the state store: the last version of each zone without
        /// errors, which is served if the file has errors at the next start. A zone that does not fit has no copy; 0
        /// keeps no copies.
        file_copies_max_mb: Count<0, 1_048_576> = "1024";
        /// Days for which `nameward zone undelete` can restore a zone removed by `nameward zone delete`; 0 keeps no
        /// copies.
        deleted_keep_days: Count<0, 3650> = "7";
        /// Maximum size in MiB of all copies of deleted zones; above it the oldest are dropped. A zone larger than this,
        /// or larger than 512 MiB, can be deleted only with `--no-copy`.
        deleted_max_mb: Count<0, 1_048_576> = "256";
        /// Maximum number of copies of deleted zones; above it the oldest are dropped.
        deleted_max: Count<0, 1_000_000> = "1000";
    }
}

impl Journal {
    /// Returns the limits of journals.
    pub fn bounds(&self) -> JournalBounds {
        JournalBounds {
            octets: (self.size_max_mb.get() as u64) << 20,
            entries: self.changes_max.get() as u64,
        }
    }

    /// Returns the limit in octets for all copies of zone files.
    pub fn file_copy_octets(&self) -> u64 {
        (self.file_copies_max_mb.get() as u64) << 20
    }

    /// Returns the limits for copies of deleted zones.
    pub fn copy_bounds(&self) -> CopyBounds {
        CopyBounds {
            octets: (self.deleted_max_mb.get() as u64) << 20,
            copies: self.deleted_max.get() as u64,
            seconds: self.deleted_keep_days.get() as u64 * 86_400,
        }
    }
}
