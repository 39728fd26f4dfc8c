//! Zones and records shared by the tests of this crate.

#![allow(dead_code, reason = "each test uses a part")]

use nameward_dnssec::{Keys, SignatureCache, Signing, SigningPolicy};
use nameward_wire::zonefile::Record;
use nameward_wire::{NameBuf, Type};
use nameward_zone::{Node, RecordList, WireRecord, Zone, ZoneBuilder};
use std::collections::BTreeSet;
use std::sync::Arc;

pub const APEX: &str = "example.";

/// A record of the model: owner in lower case, type, data.
pub type Rec = (String, u16, Vec<u8>);

pub fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

pub fn wire_name(text: &str) -> Vec<u8> {
    name(text).as_name().as_wire().to_vec()
}

pub fn soa(serial: u32) -> Rec {
    let mut rdata = [wire_name("ns.example."), wire_name("host.example.")].concat();
    rdata.extend([serial, 1, 2, 3, 4].iter().flat_map(|n| n.to_be_bytes()));
    (APEX.into(), 6, rdata)
}

pub fn build(records: impl IntoIterator<Item = Rec>) -> Zone {
    let mut builder = ZoneBuilder::new(name(APEX).as_name());
    for (owner, rtype, rdata) in records {
        add(&mut builder, &owner, rtype, &rdata);
    }
    let (zone, findings) = builder.finish();
    zone.unwrap_or_else(|| panic!("{findings:?}"))
}

pub fn add(builder: &mut ZoneBuilder, owner: &str, rtype: u16, rdata: &[u8]) {
    let owner = name(owner);
    builder.add(&Record::new(owner.as_name(), Type(rtype), 300, rdata));
}

pub fn contents(zone: &Zone) -> BTreeSet<Rec> {
    let mut set = BTreeSet::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                set.insert((
                    node.name().to_string().to_ascii_lowercase(),
                    rrset.rtype().0,
                    record.rdata.to_vec(),
                ));
            }
        }
    }
    set
}

pub fn list<'r>(records: impl IntoIterator<Item = &'r Rec>) -> RecordList {
    let mut list = RecordList::default();
    for (owner, rtype, rdata) in records {
        list.push(WireRecord {
            owner: name(owner).as_name(),
            rtype: Type(*rtype),
            ttl: 300,
            rdata,
        });
    }
    list
}

/// Checks whether two zones differ in anything visible to a search or a transfer.
pub fn differs(a: &Zone, b: &Zone) -> bool {
    let names = |zone: &Zone| -> Vec<(String, u8, u32)> {
        let apex = zone.apex_labels();
        let node = |node: Node<'_>| {
            // Children of the apex are not counted.
            let is_apex = node.name().label_count() == apex;
            let children = if is_apex { 0 } else { node.children() };
            (
                node.name().to_string().to_ascii_lowercase(),
                node.flags(),
                children,
            )
        };
        zone.nodes_in_order().map(node).collect()
    };
    names(a) != names(b)
        || contents(a) != contents(b)
        || a.name_count() != b.name_count()
        || !a.difference_from(b).is_empty()
        || !b.difference_from(a).is_empty()
}

/// Returns a signing state without any keys.
pub fn signing(apex: &str) -> Arc<Signing> {
    let cache = Arc::new(SignatureCache::new(1));
    let signing = Signing::new(
        name(apex).as_name(),
        Arc::new(Keys::default()),
        Arc::new(SigningPolicy::default()),
        cache,
    );
    Arc::new(signing)
}
