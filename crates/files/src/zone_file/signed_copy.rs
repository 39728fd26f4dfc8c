//! Zones as signed by BIND: the copy that it periodically writes next to the zone file, and the changes in its
//! journal.
//!
//! BIND signs a zone step by step, and the copy may be from any of these steps. So all changes of the journal are
//! applied to it, or the zone is rejected; a zone whose SOA is not signed, or that has no NSEC or NSEC3 chain, is
//! rejected too.

use std::{
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_import::{
    bind::journal::{self, JournalError},
    open_regular, reason_of,
};
use nameward_wire::zonefile::Severity;
use nameward_zone::{SigningState, Zone, change::ChangeError};

use super::{ZoneRead, diagnostic};

/// Why a copy is not served.
#[derive(Debug, thiserror::Error)]
enum SignedCopyFault {
    #[error("cannot be read: {}", reason_of(.0))]
    Unreadable(#[from] io::Error),
    #[error("{0}; run `rndc sync` to write the changes to the zone file")]
    Journal(#[from] JournalError),
    #[error(
        "the journal does not match the zone file: {0}; run `rndc sync` to write the changes to the zone file"
    )]
    Change(#[from] ChangeError),
    #[error("out of memory while applying the journal")]
    Memory,
    #[error("BIND signs this zone, but the file has no signatures yet; it is not served unsigned")]
    Unsigned,
}

/// Brings the copy of a zone up to date with its journal.
pub(super) fn complete(mut read: ZoneRead, path: &Path, journal: PathBuf) -> ZoneRead {
    if let Some(zone) = read.zone.take() {
        match with_journal(zone, &journal).and_then(signed) {
            Ok(zone) => read.zone = Some(zone),
            Err(fault) => {
                let file = match fault {
                    SignedCopyFault::Unsigned => path,
                    _ => &journal,
                };
                let wrong = diagnostic(file, Severity::Error, 0, fault.to_string());
                read.diagnostics.insert(0, wrong);
            }
        }
    }
    read.includes.push(journal);
    read
}

fn with_journal(zone: Zone, path: &Path) -> Result<Zone, SignedCopyFault> {
    let file = match open_regular(path) {
        Ok((file, _)) => file,
        // All changes are in the file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(zone),
        Err(error) => return Err(error.into()),
    };
    let differences = journal::read(BufReader::new(file), zone.serial())?;
    if differences.is_empty() {
        return Ok(zone);
    }
    let mut zone = Arc::new(zone);
    for difference in &differences {
        zone = Arc::new(zone.apply(difference)?);
    }
    let packed = zone.pack();
    packed
        .or_else(|| Arc::try_unwrap(zone).ok())
        .ok_or(SignedCopyFault::Memory)
}

fn signed(mut zone: Zone) -> Result<Zone, SignedCopyFault> {
    match zone.stored_signatures() {
        SigningState::Unsigned => Err(SignedCopyFault::Unsigned),
        state => {
            zone.set_signing(state);
            Ok(zone)
        }
    }
}
