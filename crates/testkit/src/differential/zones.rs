//! Difficult zones generated from a seed.
//!
//! They contain wildcards at many depths, empty non-terminals, delegations below delegations, glue in and out of
//! bailiwick, DNAMEs, chains and loops of CNAMEs, odd octets in labels, mixed case, MX, SRV and SVCB that point
//! everywhere, large RRsets, unknown types, and parent and child both served. They do not contain data that one of the
//! servers refuses to load (NS at a wildcard, data below a DNAME).

use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A record: owner labels relative to the zone, from the left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Empty at the apex.
    pub owner: Vec<String>,
    /// Type mnemonic.
    pub rtype: &'static str,
    /// Data as text, names absolute.
    pub data: String,
}

/// A zone under construction.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The zone name without the final dot.
    pub name: String,
    /// All records except the SOA.
    pub entries: Vec<Entry>,
    ttls: BTreeMap<(Vec<String>, &'static str), u32>,
    text: String,
}

const LABELS: &[&str] = &[
    "a", "b", "c", "d", "*", "a", "b", "e", "_x", "\\000", "z\\255", "a\\.b", "sub", "www", "xx--",
    "\\001",
];

/// Names that no server here has.
const ELSEWHERE: &[&str] = &[
    "ns.example.",
    "a.b.example.",
    "*.example.",
    "p.tesT-not.example.",
];

/// A name in the child zone that only the parent has.
pub(super) const STALE: &str = "stale.c.p.test.";

/// Generates the zones of a seed: a parent, its child, and one more.
pub fn zones(seed: u64) -> Vec<Zone> {
    let mut random = Random::new(seed);
    let names = ["p.test", "c.p.test", "other.test"];
    let mut zones: Vec<Zone> = names.iter().map(|name| Zone::new(name)).collect();
    zones[0].add(&["c"], "NS", "ns1.c.p.test.");
    zones[0].add(&["ns1", "c"], "A", "192.0.2.66");
    if random.one_in(2) {
        let digest = "AB".repeat(32);
        zones[0].add(&["c"], "DS", &format!("1 13 2 {digest}"));
    }
    for zone in &mut zones {
        add_chains(zone);
    }
    for _ in 0..150 {
        let index = random.below(zones.len());
        let target = any_name(&zones, &mut random);
        grow(&mut zones[index], &target, &mut random);
    }
    for zone in &mut zones {
        zone.text = zone.print(&mut random);
    }
    zones
}

/// Adds names that chance rarely produces: loops, a long chain, a substitution that may not fit, data of the child that
/// the parent still has.
fn add_chains(zone: &mut Zone) {
    let name = zone.name.clone();
    zone.add(&["l1"], "CNAME", &format!("l2.{name}."));
    zone.add(&["l2"], "CNAME", &format!("l1.{name}."));
    zone.add(&["d1"], "DNAME", &format!("d2.{name}."));
    zone.add(&["d2"], "DNAME", &format!("d1.{name}."));
    for step in 0..9 {
        let owner = format!("k{step}");
        zone.add(&[&owner], "CNAME", &format!("k{}.{name}.", step + 1));
    }
    zone.add(&["k9"], "A", "192.0.2.9");
    // 192 octets plus the zone name: room for two or three labels of a query name, not for more.
    let long = [
        "x".repeat(63),
        "y".repeat(63),
        "z".repeat(63 - name.len() / 2),
    ]
    .join(".");
    zone.add(&["long"], "DNAME", &format!("{long}.{name}."));
    if name == "p.test" {
        zone.add(&["stale", "c"], "A", "192.0.2.67");
    }
}

/// Returns an absolute name: existing, below an existing one, made up, or elsewhere.
pub(super) fn any_name(zones: &[Zone], random: &mut Random) -> String {
    let zone = random.pick(zones);
    if random.one_in(8) {
        return (*random.pick(ELSEWHERE)).to_string();
    }
    let entry = random.pick(&zone.entries);
    let mut labels = entry.owner.clone();
    match random.below(6) {
        0 => labels.insert(0, (*random.pick(LABELS)).to_string()),
        1 => labels = made_up(random),
        2 => labels.truncate(labels.len().saturating_sub(1)),
        _ => {}
    }
    absolute(&labels, &zone.name)
}

fn made_up(random: &mut Random) -> Vec<String> {
    let depth = 1 + random.below(3);
    (0..depth)
        .map(|_| (*random.pick(LABELS)).to_string())
        .collect()
}

/// Returns the labels below a zone as one absolute name.
pub(super) fn absolute(labels: &[String], zone: &str) -> String {
    let mut name = String::new();
    for label in labels {
        let _ = write!(name, "{label}.");
    }
    format!("{name}{zone}.")
}

fn grow(zone: &mut Zone, target: &str, random: &mut Random) {
    let mut owner = match random.below(3) {
        0 => random.pick(&zone.entries).owner.clone(),
        _ => made_up(random),
    };
    if random.one_in(3) {
        let below = random.pick(&zone.entries).owner.clone();
        owner.extend(below);
        owner.truncate(6);
    }
    let last = random.below(250);
    let owner: Vec<&str> = owner.iter().map(String::as_str).collect();
    match random.below(20) {
        0..=3 => zone.add(&owner, "A", &format!("192.0.2.{last}")),
        4 => zone.add(&owner, "AAAA", &format!("2001:db8::{last:x}")),
        5 => zone.add(&owner, "TXT", &format!("\"text {last}\"")),
        6 => zone.add(&owner, "MX", &format!("{} {target}", last % 3)),
        7 => zone.add(&owner, "SRV", &format!("0 {last} 80 {target}")),
        8 => zone.add(&owner, "HTTPS", &format!("{} {target}", 1 + last % 3)),
        9..=11 => zone.add(&owner, "CNAME", target),
        12..=13 => zone.add(&owner, "DNAME", target),
        14..=16 => delegate(zone, &owner, random),
        17 => zone.add(&owner, "TYPE65280", &format!("\\# 2 00{:02X}", last % 256)),
        18 => {
            for index in 0..12 {
                zone.add(
                    &owner,
                    "TXT",
                    &format!("\"{index} {}\"", "long ".repeat(20)),
                );
            }
        }
        _ => zone.add(&owner, "HINFO", &format!("\"a\" \"b{last}\"")),
    }
}

fn delegate(zone: &mut Zone, owner: &[&str], random: &mut Random) {
    let labels: Vec<String> = owner.iter().map(|label| (*label).to_string()).collect();
    let here = absolute(&labels, &zone.name);
    // BIND refuses a zone whose own name servers have no address.
    let servers = if owner.is_empty() {
        0
    } else {
        1 + random.below(3)
    };
    for index in 0..servers {
        match random.below(4) {
            0 => zone.add(owner, "NS", "ns.example."),
            1 => zone.add(owner, "NS", &format!("ns1.{}.", zone.name.clone())),
            _ => {
                let label = format!("ns{index}");
                zone.add(owner, "NS", &format!("{label}.{here}"));
                let mut glue = vec![label.as_str()];
                glue.extend(owner);
                if !random.one_in(5) {
                    zone.add(&glue, "A", &format!("192.0.2.{}", 100 + index));
                }
                if random.one_in(2) {
                    zone.add(&glue, "AAAA", &format!("2001:db8::5:{index}"));
                }
            }
        }
    }
    if random.one_in(3) {
        zone.add(
            owner,
            "DS",
            &format!("{} 13 2 {}", 1 + random.below(9), "CD".repeat(32)),
        );
    }
}

impl Zone {
    fn new(name: &str) -> Zone {
        let mut zone = Zone {
            name: name.to_string(),
            entries: Vec::new(),
            ttls: BTreeMap::new(),
            text: String::new(),
        };
        zone.add(&[], "NS", &format!("ns1.{name}."));
        zone.add(&[], "NS", "ns.example.");
        zone.add(&["ns1"], "A", "192.0.2.1");
        zone
    }

    /// Returns the zone file text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds a record unless a server would refuse the zone because of it.
    fn add(&mut self, owner: &[&str], rtype: &'static str, data: &str) {
        let owner: Vec<String> = owner.iter().map(|label| (*label).to_string()).collect();
        // The guard leaves room for what DNAMEs and queries prepend.
        let entry = Entry {
            owner,
            rtype,
            data: data.to_string(),
        };
        if absolute(&entry.owner, &self.name).len() < 100 && self.allows(&entry) {
            self.entries.push(entry);
        }
    }

    fn allows(&self, new: &Entry) -> bool {
        let apex = new.owner.is_empty();
        let wild = new.owner.first().is_some_and(|label| label == "*");
        let here = |rtype: &str| {
            self.entries
                .iter()
                .any(|e| e.owner == new.owner && e.rtype == rtype)
        };
        let taken = self.entries.iter().any(|e| e.owner == new.owner);
        let below = |upper: &[String], lower: &[String]| {
            lower.len() > upper.len() && lower.ends_with(upper)
        };
        let hidden = self
            .entries
            .iter()
            .any(|e| e.rtype == "DNAME" && below(&e.owner, &new.owner));
        let ns1 = new.owner == ["ns1"];
        let allowed = match new.rtype {
            "CNAME" => !apex && !taken,
            "DNAME" => {
                let parent_of_data = self.entries.iter().any(|e| below(&new.owner, &e.owner));
                !apex && !wild && !here("NS") && !here("CNAME") && !here("DNAME") && !parent_of_data
            }
            "NS" => !wild && !ns1 && !here("DNAME") && !here("CNAME"),
            "DS" => here("NS") && !here("CNAME") && !apex,
            "SOA" => false,
            _ => !here("CNAME"),
        };
        // NSD keeps all zones in one tree: the parent's data below the cut could make it refuse the child.
        let is_parent = self.name == "p.test" && new.owner.last().is_some_and(|label| label == "c");
        // A wildcard over the name that NSD wrongly finds there would turn one difference into two.
        let over_stale =
            self.name == "c.p.test" && new.owner.last().is_some_and(|label| label == "*");
        let stale = new.owner == ["stale", "c"];
        let of_child = is_parent
            && new.owner.len() > 1
            && !stale
            && (new.owner != ["ns1", "c"] || new.rtype == "DNAME");
        allowed && !over_stale && !of_child && !hidden && !self.entries.contains(new)
    }

    fn print(&mut self, random: &mut Random) -> String {
        let minimum = 60 * (1 + random.below(100));
        let mut text = format!(
            "$ORIGIN {name}.\n@ 3600 IN SOA ns1 host.{name}. 1 7200 3600 1209600 {minimum}\n",
            name = self.name
        );
        for entry in &self.entries {
            let key = (entry.owner.clone(), entry.rtype);
            let ttl = *self
                .ttls
                .entry(key)
                .or_insert_with(|| 60 * (1 + random.below(60)) as u32);
            let name = absolute(&entry.owner, &self.name);
            let name = if random.one_in(3) {
                mixed_case(&name, random)
            } else {
                name
            };
            let _ = writeln!(text, "{name} {ttl} IN {} {}", entry.rtype, entry.data);
        }
        text
    }

    /// Returns every owner name and every ancestor of one, absolute.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for entry in &self.entries {
            for start in 0..=entry.owner.len() {
                names.insert(absolute(&entry.owner[start..], &self.name));
            }
        }
        names
    }
}

/// Returns the name with some letters in the other case. Digits of `\DDD` are not affected.
pub(super) fn mixed_case(name: &str, random: &mut Random) -> String {
    let flip = |letter: char| {
        if random.one_in(2) {
            letter.to_ascii_uppercase()
        } else {
            letter
        }
    };
    name.chars().map(flip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_generates_the_same_zones() {
        assert_eq!(zones(7)[0].text(), zones(7)[0].text());
        assert_ne!(zones(7)[0].text(), zones(8)[0].text());
    }

    #[test]
    fn zones_have_unusual_contents() {
        let all: String = (0..5)
            .flat_map(zones)
            .map(|zone| zone.text().to_string())
            .collect();
        for part in [
            "*.",
            "DNAME",
            "CNAME",
            " NS ",
            "\\000",
            "TYPE65280",
            "HTTPS",
            "long long",
        ] {
            assert!(all.contains(part), "{part}");
        }
    }
}
