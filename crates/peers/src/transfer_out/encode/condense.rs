//! Condenses many differences into one (RFC 1995 section 5): records that were added and removed again
//! are left out.

use nameward_zone::change::Difference;
use nameward_zone::{RecordList, WireRecord};
use std::collections::HashMap;

/// The net effect of all differences on a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Net {
    Goes,
    Comes,
    Stays,
}

/// Condenses differences, the oldest first, into one that leads from the first serial to the last.
pub fn condense(differences: &[Difference]) -> Difference {
    let mut nets: HashMap<WireRecordKey<'_>, usize> = HashMap::new();
    let mut order: Vec<(WireRecord<'_>, Net)> = Vec::new();
    for difference in differences {
        for (list, way) in [
            (&difference.removed, Net::Goes),
            (&difference.added, Net::Comes),
        ] {
            for record in list {
                let place = *nets.entry(key_of(&record)).or_insert_with(|| {
                    order.push((record, Net::Stays));
                    order.len() - 1
                });
                let net = &mut order[place].1;
                *net = match *net {
                    Net::Stays => way,
                    // Removed and added again, or the other way round.
                    other if other != way => Net::Stays,
                    same => same,
                };
            }
        }
    }
    let list = |way: Net| -> RecordList {
        let records = order.iter().filter(|(_, net)| *net == way);
        records.map(|(record, _)| *record).collect()
    };
    Difference {
        removed: list(Net::Goes),
        added: list(Net::Comes),
    }
}

/// Everything that identifies a record. Letter case counts: a name whose case changes is removed and
/// added.
type WireRecordKey<'a> = (&'a [u8], u16, u32, &'a [u8]);

fn key_of<'a>(record: &WireRecord<'a>) -> WireRecordKey<'a> {
    let owner = record.owner.as_wire();
    (owner, record.rtype.0, record.ttl, record.rdata)
}
