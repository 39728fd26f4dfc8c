//! Queries about a set of zones.

use super::random::Random;
use super::zones::{Zone, any_name, mixed_case};
use crate::wire::{
    Name, Question, QuestionEdns, encode_opt, encode_question, type_from_text, type_text,
};
use std::fmt;

/// One query.
#[derive(Clone, Debug)]
pub struct TestQuery {
    /// Name and type.
    pub question: Question,
    /// How it uses EDNS.
    pub edns: QuestionEdns,
    /// The served zone that contains the name, without the final dot.
    pub zone: Option<String>,
}

impl fmt::Display for TestQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edns = match self.edns {
            QuestionEdns::Off => "",
            QuestionEdns::Plain => " +edns",
            QuestionEdns::Dnssec => " +do",
            QuestionEdns::Compact => " +do +co",
        };
        write!(
            f,
            "{} {}{edns}",
            self.question.name,
            type_text(self.question.rtype)
        )
    }
}

impl TestQuery {
    /// Returns the message in wire form.
    pub fn encode(&self, id: u16) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        let opt = self.edns.opt();
        message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
        encode_question(&mut message, &self.question);
        if let Some(opt) = opt {
            encode_opt(&mut message, &opt);
        }
        message
    }
}

#[rustfmt::skip]
const TYPES: &[&str] = &[
    "A", "A", "A", "AAAA", "TXT", "MX", "SRV", "NS", "SOA", "CNAME", "DNAME", "DS", "HTTPS", "ANY",
    "TYPE65280", "TYPE65281", "HINFO", "DNSKEY", "RRSIG", "NSEC", "PTR",
];

/// Returns all queries of a seed.
pub(super) fn queries(zones: &[Zone], random: &mut Random) -> Vec<TestQuery> {
    let mut names: Vec<String> = zones.iter().flat_map(|zone| zone.names()).collect();
    names.sort();
    names.dedup();
    let mut generated = Vec::new();
    for name in &names {
        for below in ["", "q.", "*.", "a.", "b.a.", "www.q."] {
            let name = format!("{below}{name}");
            let count = if below.is_empty() { 5 } else { 2 };
            for _ in 0..count {
                generated.extend(random_query(&name, zones, random));
            }
        }
    }
    for zone in zones {
        for length in [1, 20, 40, 50, 60, 63] {
            let name = format!("{}.long.{}.", "q".repeat(length), zone.name);
            generated.extend(random_query(&name, zones, random));
        }
    }
    for _ in 0..200 {
        let name = any_name(zones, random);
        generated.extend(random_query(&name, zones, random));
    }
    generated
}

fn random_query(name: &str, zones: &[Zone], random: &mut Random) -> Option<TestQuery> {
    let name = if random.one_in(5) {
        mixed_case(name, random)
    } else {
        name.to_string()
    };
    let name = Name::parse(&name).ok()?;
    let mnemonic: &&str = random.pick(TYPES);
    let rtype = type_from_text(mnemonic)?;
    let edns = *random.pick(&[QuestionEdns::Off, QuestionEdns::Plain, QuestionEdns::Dnssec]);
    let zone = zone_of(&name, zones);
    Some(TestQuery {
        question: Question {
            name,
            rtype,
            class: 1,
        },
        edns,
        zone,
    })
}

/// Returns the longest served zone that contains a name.
pub(super) fn zone_of(name: &Name, zones: &[Zone]) -> Option<String> {
    let within = zones.iter().filter(|zone| {
        Name::parse(&format!("{}.", zone.name)).is_ok_and(|apex| name.is_within(&apex))
    });
    within
        .max_by_key(|zone| zone.name.len())
        .map(|zone| zone.name.clone())
}
