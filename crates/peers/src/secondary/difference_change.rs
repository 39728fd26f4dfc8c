//! The differences of an IXFR (RFC 1995) as a change of a database zone.

use nameward_maintain::table::lower_case;
use nameward_wire::rdata::canonicalise;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::change::{
    ChangeOrigin, ChangeRefused, ConditionalChange, Difference, Edit, RecordsAt, RrsetData,
    ZoneChange, soa_serial,
};
use nameward_zone::{RecordList, Serial, SerialRule, WireRecord};
use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

/// The owner in wire format and lower case, and the type.
type RrsetKey = (Box<[u8]>, Type);

/// A difference that applies to exactly one version of a zone: that is checked within the transaction.
pub(super) struct DifferenceChange {
    apex: NameBuf,
    difference: Difference,
}

impl DifferenceChange {
    pub(super) fn new(apex: NameBuf, difference: Difference) -> Self {
        DifferenceChange { apex, difference }
    }

    /// Refuses the change if the zone lacks a record that should be removed.
    fn check_removed(&self, records: &dyn RecordsAt) -> Result<(), ChangeRefused> {
        let mut stored: HashSet<(RrsetKey, Vec<u8>)> = HashSet::new();
        let mut last: Option<NameBuf> = None;
        for record in &self.difference.removed {
            // Records of one owner are usually consecutive.
            if last.as_ref().map(NameBuf::as_name) != Some(record.owner) {
                last = Some(record.owner.into());
                records.each_record(record.owner, &mut |rtype, _, rdata| {
                    stored.insert(((lower_case(record.owner), rtype), canonical(rtype, rdata)));
                });
            }
            let wanted = (key_of(&record), canonical(record.rtype, record.rdata));
            if !stored.contains(&wanted) {
                let (owner, rtype) = (record.owner, record.rtype);
                return Err(refused(format!(
                    "cannot delete {owner} {rtype}: no such record"
                )));
            }
        }
        Ok(())
    }

    fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for ((owner, rtype), rrset) in rrsets(&self.difference.removed) {
            if rtype != Type::SOA {
                edits.push(Edit::DeleteRecords {
                    name: name_of(&owner),
                    rtype,
                    rdata: rrset.into_iter().map(|(_, rdata)| rdata).collect(),
                });
            }
        }
        for ((owner, rtype), rrset) in rrsets(&self.difference.added) {
            let ttl = rrset.first().map_or(0, |(ttl, _)| *ttl);
            let data = RrsetData {
                name: name_of(&owner),
                rtype,
                ttl,
                records: rrset.into_iter().map(|(_, rdata)| rdata.into()).collect(),
            };
            edits.push(match rtype {
                Type::SOA => Edit::Replace(data),
                _ => Edit::Add(data),
            });
        }
        edits
    }
}

impl ConditionalChange for DifferenceChange {
    fn origin(&self) -> ChangeOrigin {
        ChangeOrigin::Transfer
    }

    fn names(&self) -> Vec<NameBuf> {
        let lists = [&self.difference.removed, &self.difference.added];
        let owners = lists
            .into_iter()
            .flatten()
            .map(|record| lower_case(record.owner));
        let mut owners: Vec<Box<[u8]>> = owners.collect();
        owners.push(lower_case(self.apex.as_name()));
        owners.sort_unstable();
        owners.dedup();
        owners.iter().map(|owner| name_of(owner)).collect()
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        let Some((from, to)) = self.difference.serials() else {
            return Err(refused("the differences have no SOA record".into()));
        };
        let mut current: Option<Serial> = None;
        records.each_record(self.apex.as_name(), &mut |rtype, _, rdata| {
            if rtype == Type::SOA {
                current = soa_serial(rdata);
            }
        });
        let edits = match current {
            // Another server on this database was faster.
            Some(current) if current == to => Vec::new(),
            Some(current) if current == from => {
                self.check_removed(records)?;
                self.edits()
            }
            Some(current) => {
                return Err(refused(format!(
                    "the zone has serial {current}, but the differences start at serial {from}"
                )));
            }
            None => return Err(refused("the zone has no SOA record".into())),
        };
        Ok(ZoneChange {
            edits,
            origin: ChangeOrigin::Transfer,
            now: SystemTime::now(),
            serial: SerialRule::default(),
        })
    }
}

fn refused(reason: String) -> ChangeRefused {
    ChangeRefused {
        rcode: Rcode::ServFail,
        reason,
    }
}

fn name_of(wire: &[u8]) -> NameBuf {
    Name::from_valid_wire(wire).into()
}

fn key_of(record: &WireRecord<'_>) -> RrsetKey {
    (lower_case(record.owner), record.rtype)
}

fn canonical(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    canonicalise(rtype, &mut rdata);
    rdata
}

/// Groups the records of a list by RRset: TTL and data.
fn rrsets(list: &RecordList) -> BTreeMap<RrsetKey, Vec<(u32, Vec<u8>)>> {
    let mut rrsets: BTreeMap<RrsetKey, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
    for record in list {
        let of = rrsets.entry(key_of(&record)).or_default();
        of.push((record.ttl, record.rdata.to_vec()));
    }
    rrsets
}
