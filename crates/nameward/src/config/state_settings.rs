//! Owns the settings of what the state store keeps: journals, and copies of deleted zones.

use nameward_store::state::{CopyBounds, JournalBounds};

use super::{read::Count, setting::section};

section! {
    /// The journal of changes of each zone, kept in the state directory: from which serial to which, and the
    /// records that went and came. It is what incremental transfers (IXFR, RFC 1995) are made of. Beside it, copies of
    /// deleted zones.
    Journal = "journal" {
        /// MiB of changes that are kept for one zone; then the oldest are dropped.
        size_max_mb: Count<1, 1_048_576> = "64";
        /// Changes that are kept for one zone; then the oldest are dropped.
        changes_max: Count<1, 10_000_000> = "10000";
        /// Seconds between two times at which changes by DNS UPDATE are written into the zone files that lack them; 0
        /// writes them only when `nameward zone sync` asks for it.
        file_sync_seconds: Count<0, 31_536_000> = "0";
        /// MiB of copies of zone files that are kept in the state store: the last version of each zone that was without errors,
        /// which is served when the file has errors at the next start. A zone that does not fit has no copy; 0 keeps none.
        file_copies_max_mb: Count<0, 1_048_576> = "1024";
        /// Days for which `nameward zone undelete` can bring a zone back that `nameward zone delete` took out of a database;
        /// 0 keeps no copies.
        deleted_keep_days: Count<0, 3650> = "7";
        /// MiB of copies of deleted zones that are kept; then the oldest are dropped. A zone that is larger, or larger than
        /// 512 MiB, is deleted with `--no-copy` only.
        deleted_max_mb: Count<0, 1_048_576> = "256";
        /// Copies of deleted zones that are kept; then the oldest are dropped.
        deleted_max: Count<0, 1_000_000> = "1000";
    }
}

impl Journal {
    /// The bounds of journals.
    pub fn bounds(&self) -> JournalBounds {
        JournalBounds {
            octets: (self.size_max_mb.get() as u64) << 20,
            entries: self.changes_max.get() as u64,
        }
    }

    /// Octets of all copies of zone files.
    pub fn file_copy_octets(&self) -> u64 {
        (self.file_copies_max_mb.get() as u64) << 20
    }

    /// The bounds of copies of deleted zones.
    pub fn copy_bounds(&self) -> CopyBounds {
        CopyBounds {
            octets: (self.deleted_max_mb.get() as u64) << 20,
            copies: self.deleted_max.get() as u64,
            seconds: self.deleted_keep_days.get() as u64 * 86_400,
        }
    }
}
