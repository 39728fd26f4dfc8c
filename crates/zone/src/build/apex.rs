//! The apex of a zone, packed once and reused: every fragment of a looked-up zone has the same apex records.

use super::{PlacedNode, ZoneBuilder};
use crate::node::Node;
use crate::packed::{ALIGN, put_slot, tag};
use nameward_wire::Name;
use nameward_wire::zonefile::{Record, RecordLocation, RecordLocations};

/// Location of the first node in an arena.
const FIRST_PLACE: u32 = 1;

/// The packed records of an apex, for zones that have no other records there.
pub struct PackedApex {
    node: Box<[u8]>,
    /// The node, if its records name hosts, which are resolved for each zone separately.
    with_targets: Option<PlacedNode>,
    locations: RecordLocations,
    soa_from: RecordLocation,
    records: u64,
}

impl PackedApex {
    /// Returns the zone name, in the letter case of its records.
    pub fn name(&self) -> Name<'_> {
        Node::at(&self.node).name()
    }
}

impl ZoneBuilder {
    /// Packs the records of an apex, dropping the zone in progress. Returns `None` if copying the node would not be
    /// enough: on errors, broken names, a DNAME, or source locations that need a list.
    pub fn pack_apex<'r>(
        &mut self,
        apex: Name<'_>,
        records: impl Iterator<Item = Record<'r>>,
    ) -> Option<PackedApex> {
        self.restart(apex, 0);
        self.skip_warnings();
        records.for_each(|record| self.add(&record));
        self.pack_current();
        let is_alone = self.names == 1
            && self.find(&self.apex, self.apex.labels()) == Some(FIRST_PLACE)
            && self.cut_depths == 0;
        let has_flaws = self.findings.are_fatal() || !self.broken.is_empty();
        if !is_alone || has_flaws || !self.elsewhere.is_empty() {
            return None;
        }
        Some(PackedApex {
            node: self.arena[FIRST_PLACE as usize * ALIGN..].into(),
            with_targets: self.with_targets.first().copied(),
            locations: self.locations,
            soa_from: self.soa_from,
            records: self.records,
        })
    }

    /// Starts another zone as [`ZoneBuilder::restart`] does, with its apex records in place.
    pub fn restart_with(&mut self, apex: &PackedApex, bytes: usize) {
        self.restart(apex.name(), apex.node.len() + bytes);
        self.arena.extend_from_slice(&apex.node);
        let hash = self.apex.hash(self.apex.labels());
        put_slot(&mut self.slots, tag(hash), FIRST_PLACE);
        self.names = 1;
        self.with_targets.extend(apex.with_targets);
        (self.locations, self.soa_from) = (apex.locations, apex.soa_from);
        self.records = apex.records;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Find, NameKey, Zone};
    use nameward_wire::{NameBuf, Type};

    const SOA: &[u8] =
        b"\x02ns\x07example\x03org\0\x01h\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05";
    const NS: &[u8] = b"\x02ns\x07example\x03org\0";

    fn name(text: &str) -> NameBuf {
        text.parse().unwrap()
    }

    fn record<'r>(owner: &'r NameBuf, rtype: Type, rdata: &'r [u8]) -> Record<'r> {
        Record::new(owner.as_name(), rtype, 60, rdata).at(RecordLocation::row(7))
    }

    fn pack(builder: &mut ZoneBuilder, records: &[(Type, &[u8])]) -> Option<PackedApex> {
        let apex = name("example.org");
        let records = records.iter();
        builder.pack_apex(
            apex.as_name(),
            records.map(|(rtype, rdata)| record(&apex, *rtype, rdata)),
        )
    }

    /// Lists the contents of a zone, including the nodes at which hosts are found.
    fn contents(zone: &Zone) -> Vec<String> {
        let mut contents = Vec::new();
        for (_, node) in zone.packed().nodes() {
            let owner = (node.name().to_string(), node.flags(), node.children());
            contents.push(format!("{owner:?}"));
            for rrset in node.rrsets() {
                for record in rrset.records() {
                    let host = match record.place {
                        0 => String::new(),
                        place => zone.packed().node(place).name().to_string(),
                    };
                    let rdata = (rrset.rtype(), rrset.ttl(), record.rdata, host);
                    contents.push(format!("{owner:?} {rdata:?}"));
                }
            }
        }
        contents.sort();
        contents
    }

    #[test]
    fn a_zone_with_a_packed_apex_is_the_zone_of_all_its_records() {
        let mut builder = ZoneBuilder::new(Name::ROOT);
        let apex = name("example.org");
        let packed = pack(&mut builder, &[(Type::SOA, SOA), (Type::NS, NS)]).unwrap();
        let parts: [&[(&str, Type, &[u8])]; 5] = [
            &[("www.example.org", Type::A, &[192, 0, 2, 1])],
            &[("ns.example.org", Type::A, &[192, 0, 2, 2])],
            &[
                ("example.org", Type::TXT, b"\x01x"),
                ("a.b.example.org", Type::A, &[192, 0, 2, 3]),
            ],
            &[("*.example.org", Type::A, &[192, 0, 2, 4])],
            &[],
        ];
        for records in parts {
            builder.restart(apex.as_name(), 0);
            builder.add(&record(&apex, Type::SOA, SOA));
            builder.add(&record(&apex, Type::NS, NS));
            let add_all = |builder: &mut ZoneBuilder| {
                for (owner, rtype, rdata) in records {
                    builder.add(&record(&name(owner), *rtype, rdata));
                }
                (builder.record_count(), builder.soa_location())
            };
            let counted = add_all(&mut builder);
            let (whole, findings) = builder.end();
            builder.restart_with(&packed, 0);
            assert_eq!(add_all(&mut builder), counted);
            let (part, part_findings) = builder.end();
            let (whole, part) = (whole.unwrap(), part.unwrap());
            assert_eq!(findings, part_findings);
            assert_eq!(contents(&whole), contents(&part));
            let names = ["www", "ns", "b", "a.b", "x"];
            for question in names.map(|label| name(&format!("{label}.example.org"))) {
                let key = NameKey::new(question.as_name());
                let is_exact = |zone: &Zone| matches!(zone.find(&key), Find::Exact(_));
                assert_eq!(is_exact(&whole), is_exact(&part), "{question}");
            }
        }
    }

    #[test]
    fn a_packed_apex_keeps_its_letter_case_and_is_found_in_any() {
        let mut builder = ZoneBuilder::new(Name::ROOT);
        let apex = name("Example.ORG");
        let soa = [record(&apex, Type::SOA, SOA)].into_iter();
        let packed = builder.pack_apex(apex.as_name(), soa).unwrap();
        assert_eq!(packed.name().as_wire(), apex.as_name().as_wire());
        builder.restart_with(&packed, 0);
        let zone = builder.end().0.unwrap();
        let key = NameKey::new(name("example.org").as_name());
        assert!(matches!(zone.find(&key), Find::Exact(_)));
    }

    #[test]
    fn an_apex_with_errors_or_names_below_it_is_not_packed() {
        let mut builder = ZoneBuilder::new(Name::ROOT);
        assert!(pack(&mut builder, &[]).is_none(), "nothing");
        let alias = [(Type::SOA, SOA), (Type::CNAME, NS)];
        assert!(pack(&mut builder, &alias).is_none(), "an alias");
        let dname = [(Type::SOA, SOA), (Type::DNAME, NS)];
        assert!(pack(&mut builder, &dname).is_none(), "a DNAME");
        let two = [(Type::SOA, SOA), (Type::SOA, &[&[1, b'x'], SOA].concat())];
        assert!(pack(&mut builder, &two).is_none(), "two SOA records");
        let (apex, below) = (name("example.org"), name("www.example.org"));
        let records = [
            record(&apex, Type::SOA, SOA),
            record(&below, Type::A, &[192, 0, 2, 1]),
        ];
        let packed = builder.pack_apex(apex.as_name(), records.into_iter());
        assert!(packed.is_none(), "a name below");
    }
}
