//! Random updates compared with the pseudo code of RFC 2136 sections 3.2.5 and 3.4.2.7, written as it is there.

use super::change_of;
use super::memory::zone;
use super::text::{message, name, rdata, rtype};
use nameward_testkit::property_cases;
use nameward_wire::{NameBuf, Rcode, Type};
use nameward_zone::Zone;
use nameward_zone::change::ConditionalChange;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Owner in lower case, type, data with names in lower case.
type Set = BTreeSet<(String, u16, Vec<u8>)>;

/// The records as they are spelled, with their TTLs. Serials are compared separately.
fn records(zone: &Zone) -> Vec<(String, Type, u32, Vec<u8>)> {
    let mut list = Vec::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let mut data = record.rdata.to_vec();
                if rrset.rtype() == Type::SOA {
                    let at = data.len() - 20;
                    data[at..at + 4].fill(0);
                }
                list.push((node.name().to_string(), rrset.rtype(), rrset.ttl(), data));
            }
        }
    }
    list.sort();
    list
}

fn contents(zone: &Zone) -> Set {
    let records = records(zone).into_iter();
    let canonical = records.map(|(owner, rtype, _, mut data)| {
        nameward_wire::rdata::canonicalise(rtype, &mut data);
        (owner.to_ascii_lowercase(), rtype.0, data)
    });
    canonical.collect()
}

/// A line of a message, taken apart.
#[derive(Debug, Clone)]
struct Line {
    words: Vec<String>,
}

fn owners() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["@", "www", "alias", "new", "host.ent", "ent", "WWW"])
}

fn values() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("A", "192.0.2.10"),
        ("A", "192.0.2.11"),
        ("A", "192.0.2.12"),
        ("TXT", "\"web\""),
        ("CNAME", "www"),
        ("CNAME", "MAIL"),
        ("NS", "ns1"),
        ("NS", "NS2"),
        ("NS", "ns3"),
        ("MX", "10 mail"),
        ("DNAME", "www"),
    ])
}

fn line() -> impl Strategy<Value = Line> {
    let words = |words: Vec<&str>| Line {
        words: words.into_iter().map(str::to_owned).collect(),
    };
    prop_oneof![
        1 => owners().prop_map(move |o| words(vec!["prereq", "yxdomain", o])),
        1 => owners().prop_map(move |o| words(vec!["prereq", "nxdomain", o])),
        1 => (owners(), values()).prop_map(move |(o, (t, _))| words(vec!["prereq", "yxrrset", o, t])),
        1 => (owners(), values()).prop_map(move |(o, (t, _))| words(vec!["prereq", "nxrrset", o, t])),
        1 => (owners(), values()).prop_map(move |(o, (t, v))| words(vec!["prereq", "yxrrset", o, t, v])),
        9 => (owners(), values()).prop_map(move |(o, (t, v))| words(vec!["add", o, "300", t, v])),
        2 => owners().prop_map(move |o| words(vec!["delete", o])),
        3 => (owners(), values()).prop_map(move |(o, (t, _))| words(vec!["delete", o, t])),
        5 => (owners(), values()).prop_map(move |(o, (t, v))| words(vec!["delete", o, t, v])),
    ]
}

struct Model {
    apex: NameBuf,
    set: Set,
}

impl Model {
    fn record(&self, owner: &str, of: &str, value: &str) -> (String, u16, Vec<u8>) {
        let kind = rtype(of);
        let mut data = rdata(kind, value, &self.apex);
        nameward_wire::rdata::canonicalise(kind, &mut data);
        (self.owner(owner), kind.0, data)
    }

    fn owner(&self, owner: &str) -> String {
        name(owner, &self.apex).to_string().to_ascii_lowercase()
    }

    fn has(&self, owner: &str, of: Option<u16>) -> bool {
        let owner = self.owner(owner);
        self.set
            .iter()
            .any(|r| r.0 == owner && of.is_none_or(|of| r.1 == of))
    }

    /// Section 3.2.5.
    fn prerequisites(&self, lines: &[Line]) -> Rcode {
        let mut temp = Set::new();
        for line in lines {
            let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
            match words[..] {
                ["prereq", "yxdomain", owner] if !self.has(owner, None) => return Rcode::NxDomain,
                ["prereq", "nxdomain", owner] if self.has(owner, None) => return Rcode::YxDomain,
                ["prereq", "yxrrset", owner, of] if !self.has(owner, Some(rtype(of).0)) => {
                    return Rcode::NxRrset;
                }
                ["prereq", "nxrrset", owner, of] if self.has(owner, Some(rtype(of).0)) => {
                    return Rcode::YxRrset;
                }
                ["prereq", "yxrrset", owner, of, value] => {
                    temp.insert(self.record(owner, of, value));
                }
                _ => {}
            }
        }
        for (owner, of, _) in &temp {
            let rrset = |set: &Set| -> Set {
                let own = set.iter().filter(|r| r.0 == *owner && r.1 == *of);
                own.cloned().collect()
            };
            if rrset(&self.set) != rrset(&temp) {
                return Rcode::NxRrset;
            }
        }
        Rcode::NoError
    }

    /// Section 3.4.2.7.
    fn update(&mut self, line: &Line) {
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let apex = self.owner("@");
        match words[..] {
            ["add", owner, _, of, value] => {
                let record = self.record(owner, of, value);
                let cname = Type::CNAME.0;
                let others = self.set.iter().any(|r| r.0 == record.0 && r.1 != cname);
                if record.1 == cname && others {
                    return;
                }
                if record.1 != cname && self.has(owner, Some(cname)) {
                    return;
                }
                if [cname, Type::DNAME.0].contains(&record.1) {
                    self.set.retain(|r| !(r.0 == record.0 && r.1 == record.1));
                }
                self.set.insert(record);
            }
            ["delete", owner] => {
                let owner = self.owner(owner);
                let stays = [Type::SOA.0, Type::NS.0];
                self.set
                    .retain(|r| r.0 != owner || (owner == apex && stays.contains(&r.1)));
            }
            ["delete", owner, of] => {
                let (owner, of) = (self.owner(owner), rtype(of));
                if owner == apex && matches!(of, Type::SOA | Type::NS) {
                    return;
                }
                self.set.retain(|r| !(r.0 == owner && r.1 == of.0));
            }
            ["delete", owner, of, value] => {
                let record = self.record(owner, of, value);
                let servers = self.set.iter().filter(|r| r.0 == apex && r.1 == Type::NS.0);
                if record.0 == apex && record.1 == Type::NS.0 && servers.count() == 1 {
                    return;
                }
                self.set.remove(&record);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(property_cases(600))]

    #[test]
    fn random_updates_do_what_the_pseudo_code_does(updates in prop::collection::vec(prop::collection::vec(line(), 1..7), 1..5)) {
        let mut zone = zone();
        let apex: NameBuf = zone.apex_name().into();
        let mut model = Model { apex, set: contents(&zone) };
        for lines in &updates {
            let text: Vec<String> = lines.iter().map(|line| line.words.join(" ")).collect();
            let decided = change_of(&message(&text.join("\n"), &apex)).unwrap().decide(&*zone);
            let expected = model.prerequisites(lines);
            prop_assert_eq!(decided.as_ref().map_or_else(|no| no.rcode, |_| Rcode::NoError), expected);
            let Ok(change) = decided else { continue };
            let before = model.set.clone();
            lines.iter().for_each(|line| model.update(line));
            let difference = zone.difference_of(&change).unwrap();
            prop_assert!(before == model.set || !difference.is_empty());
            if !difference.is_empty() {
                let changed = Arc::new(zone.apply(&difference).unwrap());
                prop_assert_eq!(changed.serial(), zone.serial().plus(1));
                // A record that is deleted and added again may have another spelling or TTL.
                prop_assert_ne!(records(&changed), records(&zone));
                let deletes = lines.iter().any(|line| line.words[0] == "delete");
                prop_assert!(deletes || before != model.set);
                zone = changed;
            }
            prop_assert_eq!(contents(&zone), model.set.clone());
        }
    }
}
