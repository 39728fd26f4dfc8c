//! Writes the changes that a zone file lacks into it, so that the file is complete again.
//!
//! The file is replaced atomically, never written in place, and only if it has the contents that were read: an edit
//! by hand that is not served is never overwritten, unless the operator requests that. The text is changed at the
//! records ([`text`]) and parsed again before it replaces the file; if that does not give the served zone, the
//! operator gets an error, and may have the whole zone written.

mod text;

pub use text::{NewRecordLocation, TextFault, put_difference, whole_text};

use crate::commit::Commits;
use crate::contents::contents_of;
use nameward_base::file::DurableFile;
use nameward_base::text::counted;
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{Serial, Zone, ZoneBuilder};
use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a zone file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Comments and layout stay, or nothing is written.
    KeepLayout,
    /// The whole zone is written, over whatever the file has.
    Rewrite,
}

/// The outcome of writing a zone file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The file has everything that is served.
    UpToDate(Serial),
    /// The file was written.
    Written {
        /// Its new serial.
        serial: Serial,
        /// Number of removed and added records.
        records: usize,
    },
}

/// Why a zone file was not written.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("zone {0} is not loaded from a file")]
    NoFile(String),
    /// The zone is not served, or not yet.
    #[error("zone {0} is not served")]
    NotServed(String),
    #[error(
        "{0} was edited and has not been loaded: fix it and reload, or overwrite it with --rewrite"
    )]
    Edited(PathBuf),
    #[error(
        "{path}: cannot keep the file layout: {fault}; use --rewrite to write the whole zone without comments"
    )]
    Layout { path: PathBuf, fault: LayoutFault },
    /// The file cannot be read or written.
    #[error("{path}: {error}{}", hint(error))]
    File { path: PathBuf, error: io::Error },
}

/// Returns advice about a file that cannot be written.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the server's user must be able to create files in the zone file's directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; the systemd unit does not allow writing there: keep dynamic zone files in /etc/nameward/zones, or add \
             their directory to ReadWritePaths= (systemctl edit nameward)"
        }
        _ => "",
    }
}

/// Why changes cannot be inserted into the text of a file.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFault {
    /// A record cannot be found in the text, or not changed there.
    #[error(transparent)]
    Text(#[from] TextFault),
    #[error("records inherit their TTL or owner from earlier lines")]
    Inherited,
    #[error("the new file would not match the served zone")]
    Different,
}

/// Writes what a zone's file lacks into it.
pub fn sync_zone(
    commits: &Arc<Commits>,
    (zone, rank): (&NameBuf, u16),
    path: &Path,
    mode: SyncMode,
) -> Result<SyncOutcome, SyncError> {
    let failed = |error: io::Error| SyncError::File {
        path: path.into(),
        error,
    };
    // A link stays a link: its target is replaced.
    let file = fs::canonicalize(path).map_err(failed)?;
    let served = commits.table().version(zone.as_name(), rank);
    let served = served.filter(|served| !served.is_stub());
    let served = served.ok_or_else(|| SyncError::NotServed(zone.to_string()))?;
    let metadata = fs::metadata(&file).map_err(failed)?;
    let text = fs::read(&file).map_err(failed)?;
    let options = Options {
        include_base: file.parent().map(Path::to_path_buf),
        ..Options::new(*zone)
    };
    let found = read(&text, &options, zone);
    if let Some(found) = &found
        && is_same(found, &served)
    {
        commits.file_is_current(&served);
        return Ok(SyncOutcome::UpToDate(served.serial()));
    }
    let stored = commits.stored_version(zone.as_name(), rank);
    let (new, records) = match (mode, found) {
        (SyncMode::Rewrite, found) => {
            let records = found.map_or(served.name_count(), |found| count(&served, &found));
            (whole_text(&contents_of(&served)), records)
        }
        (SyncMode::KeepLayout, Some(found)) => {
            if stored.is_none_or(|stored| !is_same(&stored, &found)) {
                return Err(SyncError::Edited(path.into()));
            }
            let new = with_layout(&text, &options, &found, &served);
            let new = new.map_err(|fault| SyncError::Layout {
                path: path.into(),
                fault,
            })?;
            (new, count(&served, &found))
        }
        (SyncMode::KeepLayout, None) => return Err(SyncError::Edited(path.into())),
    };
    match read(&new, &options, zone) {
        Some(written) if is_same(&written, &served) => {}
        _ => {
            return Err(SyncError::Layout {
                path: path.into(),
                fault: LayoutFault::Different,
            });
        }
    }
    let is_untouched = |now: &Metadata| {
        let state = |m: &Metadata| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        state(now) == state(&metadata)
    };
    let new = write_beside(&file, &new, &metadata).map_err(failed)?;
    if !fs::metadata(&file).is_ok_and(|now| is_untouched(&now)) {
        return Err(SyncError::Edited(path.into()));
    }
    new.replace().map_err(failed)?;
    commits.file_is_current(&served);
    let serial = served.serial();
    tracing::info!(
        "zone {zone}: wrote {}, serial {serial}, {} changed",
        path.display(),
        counted(records, "record")
    );
    Ok(SyncOutcome::Written { serial, records })
}

/// Checks whether two versions have the same records, whatever their layout in memory.
fn is_same(a: &Zone, b: &Zone) -> bool {
    a.difference_from(b).is_empty()
}

fn count(served: &Zone, found: &Zone) -> usize {
    let difference = served.difference_from(found);
    difference.removed.len() + difference.added.len()
}

/// Returns the text with what it lacks, as close to its layout as possible.
fn with_layout(
    text: &[u8],
    options: &Options,
    found: &Zone,
    served: &Zone,
) -> Result<Vec<u8>, LayoutFault> {
    let difference = served.difference_from(found);
    // A record between others may change the TTL of those after it; at the end it cannot.
    for place in [NewRecordLocation::BesideOwner, NewRecordLocation::End] {
        let new = put_difference(text, options, &difference, place)?;
        if read(&new, options, &options.origin).is_some_and(|zone| is_same(&zone, served)) {
            return Ok(new);
        }
    }
    Err(LayoutFault::Inherited)
}

fn read(text: &[u8], options: &Options, zone: &NameBuf) -> Option<Zone> {
    let mut builder = ZoneBuilder::with_capacity(zone.as_name(), text.len());
    let report = parse_bytes("zone file", text, options, &mut builder);
    if report.has_errors() {
        return None;
    }
    builder.finish().0
}

/// Writes the new version of a file beside it, with its owner and mode.
fn write_beside(file: &Path, text: &[u8], like: &Metadata) -> io::Result<DurableFile> {
    let mut new = DurableFile::create(file, 0o600)?;
    new.file().write_all(text)?;
    // As far as this user may: the text counts more.
    let _ = fchown(new.file(), Some(like.uid()), Some(like.gid()));
    let mode = fs::Permissions::from_mode(like.mode() & 0o7777);
    new.file().set_permissions(mode)?;
    Ok(new)
}
