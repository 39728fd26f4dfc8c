//! Many differences as one (RFC 1995 section 5): records that came and went again are left out.

use nameward_zone::change::Difference;
use nameward_zone::{RecordList, WireRecord};
use std::collections::HashMap;

/// Which way a record goes, all differences together.
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
                    // It goes and comes again, or the other way round.
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

/// All that makes a record itself. Letter case counts: a name that changes its letters goes and comes.
type WireRecordKey<'a> = (&'a [u8], u16, u32, &'a [u8]);

fn key_of<'a>(record: &WireRecord<'a>) -> WireRecordKey<'a> {
    let owner = record.owner.as_wire();
    (owner, record.rtype.0, record.ttl, record.rdata)
}
