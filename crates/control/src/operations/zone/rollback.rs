//! Restores an older version of a zone from its journal, and converts a difference into steps of a batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use nameward_wire::Type;
use nameward_zone::change::{ChangeAuthor, Difference, set_soa_serial, soa_serial};
use nameward_zone::{Serial, WireRecord};

use crate::operations::record::data_text;
use crate::operations::{
    BatchDeletion, BatchRecords, BatchRequest, BatchStep, ItemSink, Operations, Outcome, ZoneBatch,
};

impl Operations {
    /// Restores the records of the version with this serial, under a new serial, or shows what that would change.
    pub fn roll_back(
        &self,
        (zone, serial): (&str, u32),
        dry_run: bool,
        author: Option<&Arc<ChangeAuthor>>,
        items: ItemSink<'_>,
    ) -> Outcome {
        let (name, newest, difference) = self.difference_between(zone, (serial, None))?;
        let back = Difference {
            removed: difference.added,
            added: difference.removed,
        };
        let steps = steps_of(&back);
        // Even without steps: that the history returns to its start does not rule out changes by other programs; the
        // serial does.
        let batch = BatchRequest {
            zones: vec![ZoneBatch {
                zone: name.to_string(),
                serial: Some(newest),
                steps,
            }],
            dry_run,
            differences: true,
        };
        self.apply_batches(&batch, author, items)
    }
}

/// Returns the steps of a difference. The serial of a new SOA is used if it is after the current one; otherwise the
/// server increments it.
pub fn steps_of(difference: &Difference) -> Vec<BatchStep> {
    let key = |record: &WireRecord<'_>| {
        let owner = record.owner.as_wire().to_ascii_lowercase();
        (owner, record.rtype, record.rdata.to_vec())
    };
    let added: HashSet<_> = difference.added.iter().map(|new| key(&new)).collect();
    // Only the TTL differs: adding the record again sets the TTL of the whole RRset.
    let stays = |gone: &WireRecord<'_>| added.contains(&key(gone));
    let mut steps = Vec::new();
    let removed = difference.removed.iter();
    for record in removed.filter(|record| record.rtype != Type::SOA && !stays(record)) {
        steps.push(BatchStep::Delete(BatchDeletion {
            name: record.owner.to_string(),
            rtype: Some(record.rtype.to_string()),
            content: vec![data_text(record.rtype, record.rdata)],
        }));
    }
    let old = difference.removed.first_of(Type::SOA);
    for record in &difference.added {
        let mut rdata = record.rdata.to_vec();
        if let (Type::SOA, Some(old)) = (record.rtype, old) {
            match raised_soa(old, &record) {
                Some(raised) => rdata = raised,
                None => continue,
            }
        }
        let record = WireRecord {
            rdata: &rdata,
            ..record
        };
        steps.push(BatchStep::Add(BatchRecords {
            name: record.owner.to_string(),
            rtype: record.rtype.to_string(),
            ttl: record.ttl,
            content: vec![data_text(record.rtype, record.rdata)],
        }));
    }
    steps
}

/// Returns the data of a new SOA with a serial after the old one; `None` if only the serial differs and is not after
/// the old one.
fn raised_soa(old: WireRecord<'_>, new: &WireRecord<'_>) -> Option<Vec<u8>> {
    let (before, wanted) = (soa_serial(old.rdata)?, soa_serial(new.rdata)?);
    let with = |serial: Serial| {
        let mut rdata = new.rdata.to_vec();
        set_soa_serial(&mut rdata, serial);
        rdata
    };
    if wanted.is_after(before) {
        return Some(new.rdata.to_vec());
    }
    let is_same = with(before) == old.rdata && new.ttl == old.ttl;
    (!is_same).then(|| with(before.next(SystemTime::now())))
}
