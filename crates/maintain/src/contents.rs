//! Zones stored only in the state store: reading them back, and writing them as a whole.

use nameward_state::{JournalEntry, StateError, StateStore};
use nameward_wire::NameBuf;
use nameward_zone::{RecordList, WireRecord, Zone, ZoneBuilder};
use std::path::PathBuf;
use std::sync::Arc;

/// Size of one chunk of contents in the state store, in octets.
pub const PART: usize = 256 << 10;

/// Reads the contents of a zone and applies its journal to them; `None` if there are none.
pub fn read_contents(store: &StateStore, name: &NameBuf) -> Result<Option<Zone>, StateError> {
    let mut reader = ContentsReader::new(name);
    match store.contents(name, |part| reader.push(&part))? {
        Some(journal) => reader.finish(store, journal),
        None => Ok(None),
    }
}

/// Reads a zone back from the state store, chunk by chunk.
pub struct ContentsReader {
    name: NameBuf,
    builder: ZoneBuilder,
}

impl ContentsReader {
    /// Starts a zone.
    pub fn new(name: &NameBuf) -> Self {
        ContentsReader {
            name: *name,
            builder: ZoneBuilder::new(name.as_name()),
        }
    }

    /// Adds a chunk of its records.
    pub fn push(&mut self, part: &RecordList) {
        self.builder.add_list(part);
    }

    /// Finishes the zone and applies its journal to the contents.
    pub fn finish(
        self,
        store: &StateStore,
        journal: Vec<JournalEntry>,
    ) -> Result<Option<Zone>, StateError> {
        let name = self.name;
        let corrupt = |reason: String| StateError::Corrupt {
            path: PathBuf::from(store.path()),
            reason: format!("zone {name}: {reason}"),
        };
        let (zone, findings) = self.builder.finish();
        let mut zone = zone.ok_or_else(|| {
            let first = findings.into_iter().next();
            corrupt(first.map_or_else(String::new, |finding| finding.message))
        })?;
        zone.set_signing(zone.stored_signatures());
        if journal.is_empty() {
            return Ok(Some(zone));
        }
        let mut zone = Arc::new(zone);
        for entry in journal {
            let next = zone.apply(&entry.difference);
            zone = Arc::new(next.map_err(|error| corrupt(error.to_string()))?);
        }
        // There is no other reference to it; if it is not packed now, that is done later.
        let packed = zone.pack();
        let whole = packed.or_else(|| Arc::try_unwrap(zone).ok());
        whole
            .map(Some)
            .ok_or_else(|| corrupt("it does not fit in memory".into()))
    }
}

/// Passes on all records of a zone, in chunks.
pub(crate) fn each_part<E>(
    zone: &Zone,
    mut take: impl FnMut(RecordList) -> Result<(), E>,
) -> Result<(), E> {
    let mut part = RecordList::default();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                if part.as_bytes().len() >= PART {
                    take(std::mem::take(&mut part))?;
                }
                part.push(WireRecord {
                    owner: node.name(),
                    rtype: rrset.rtype(),
                    ttl: rrset.ttl(),
                    rdata: record.rdata,
                });
            }
        }
    }
    take(part)
}

/// Returns all records of a zone, in chunks.
pub fn contents_of(zone: &Zone) -> Vec<RecordList> {
    let mut parts = Vec::new();
    let done = each_part::<std::convert::Infallible>(zone, |part| {
        parts.push(part);
        Ok(())
    });
    match done {
        Ok(()) => parts,
    }
}
