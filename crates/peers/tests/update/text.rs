//! UPDATE messages written in the words of nsupdate, so that cases can be read.
//!
//! ```text
//! prereq yxdomain NAME | nxdomain NAME | yxrrset NAME TYPE [DATA] | nxrrset NAME TYPE
//! add NAME TTL TYPE DATA
//! delete NAME [TYPE [DATA]]
//! raw prereq|update NAME TYPE CLASS TTL HEX      anything else, by its numbers
//! ```
//! Names are relative to the zone, which `@` is.

use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{NewRecord, RrsetData};

const IN: u16 = 1;
const NONE: u16 = 254;
const ANY: u16 = 255;

pub fn name(text: &str, zone: &NameBuf) -> NameBuf {
    match text {
        "@" => *zone,
        text => NameBuf::from_text(text.as_bytes(), zone.as_name()).unwrap(),
    }
}

pub fn rdata(rtype: Type, text: &str, zone: &NameBuf) -> Vec<u8> {
    let mut rdata = Vec::new();
    let mut fields = Fields::new(text.as_bytes());
    parse_text(rtype, &mut fields, zone.as_name(), &mut rdata).unwrap();
    rdata
}

pub fn rtype(text: &str) -> Type {
    Type::from_text(text.as_bytes()).unwrap()
}

/// Reads lines of owner, type and data into RRsets.
pub fn rrsets(text: &str, zone: &NameBuf) -> Vec<RrsetData> {
    let mut sets: Vec<RrsetData> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.trim().splitn(3, ' ');
        let owner = name(words.next().unwrap(), zone);
        let rtype = rtype(words.next().unwrap());
        let record = NewRecord {
            text: None,
            rdata: rdata(rtype, words.next().unwrap(), zone),
            disabled: false,
        };
        match sets
            .iter_mut()
            .find(|set| set.rtype == rtype && set.name == owner)
        {
            Some(set) => set.records.push(record),
            None => sets.push(RrsetData {
                name: owner,
                rtype,
                ttl: 300,
                records: vec![record],
            }),
        }
    }
    sets
}

/// Writes a message.
pub fn message(lines: &str, zone: &NameBuf) -> Vec<u8> {
    let (mut prerequisites, mut steps) = (Vec::new(), Vec::new());
    for line in lines.split('\n').map(str::trim).filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let record = |owner: &str, rtype: u16, class: u16, ttl: u32, data: &[u8]| {
            let mut record = name(owner, zone).as_name().as_wire().to_vec();
            record.extend(rtype.to_be_bytes());
            record.extend(class.to_be_bytes());
            record.extend(ttl.to_be_bytes());
            record.extend((data.len() as u16).to_be_bytes());
            record.extend(data);
            record
        };
        let data = |from: usize, rtype: Type| rdata(rtype, &words[from..].join(" "), zone);
        match words[..] {
            ["prereq", "yxdomain", owner] => {
                prerequisites.push(record(owner, ANY, ANY, 0, &[]));
            }
            ["prereq", "nxdomain", owner] => {
                prerequisites.push(record(owner, ANY, NONE, 0, &[]));
            }
            ["prereq", "yxrrset", owner, of] => {
                prerequisites.push(record(owner, rtype(of).0, ANY, 0, &[]));
            }
            ["prereq", "nxrrset", owner, of] => {
                prerequisites.push(record(owner, rtype(of).0, NONE, 0, &[]));
            }
            ["prereq", "yxrrset", owner, of, _] => {
                let data = data(4, rtype(of));
                prerequisites.push(record(owner, rtype(of).0, IN, 0, &data));
            }
            ["add", owner, ttl, of, _] => {
                let data = data(4, rtype(of));
                steps.push(record(owner, rtype(of).0, IN, ttl.parse().unwrap(), &data));
            }
            ["delete", owner] => steps.push(record(owner, ANY, ANY, 0, &[])),
            ["delete", owner, of] => steps.push(record(owner, rtype(of).0, ANY, 0, &[])),
            ["delete", owner, of, ..] => {
                let data = data(3, rtype(of));
                steps.push(record(owner, rtype(of).0, NONE, 0, &data));
            }
            ["raw", section, owner, rtype, rest] => {
                let rest: Vec<&str> = rest.split(' ').collect();
                let data: Vec<u8> = rest.get(2).map_or(Vec::new(), |hex| {
                    let octet = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                    (0..hex.len()).step_by(2).map(octet).collect()
                });
                let (class, ttl) = (rest[0].parse().unwrap(), rest[1].parse().unwrap());
                let record = record(owner, rtype.parse().unwrap(), class, ttl, &data);
                match section {
                    "prereq" => prerequisites.push(record),
                    _ => steps.push(record),
                }
            }
            _ => panic!("{line}"),
        }
    }
    whole(zone, (Type::SOA.0, IN), &prerequisites, &steps)
}

/// Puts a message together.
pub fn whole(
    zone: &NameBuf,
    (ztype, zclass): (u16, u16),
    prerequisites: &[Vec<u8>],
    steps: &[Vec<u8>],
) -> Vec<u8> {
    let mut message = vec![0, 7, 0x28, 0, 0, 1];
    message.extend((prerequisites.len() as u16).to_be_bytes());
    message.extend((steps.len() as u16).to_be_bytes());
    message.extend([0, 0]);
    message.extend(zone.as_name().as_wire());
    message.extend(ztype.to_be_bytes());
    message.extend(zclass.to_be_bytes());
    message.extend(prerequisites.concat());
    message.extend(steps.concat());
    message
}

/// The records of a list in words: owner relative to the zone, TTL, type, data.
pub fn lines(list: &nameward_zone::RecordList, zone: &NameBuf) -> Vec<String> {
    let suffix = format!(".{zone}");
    let relative = |owner: Name<'_>| {
        let text = owner.to_string().to_ascii_lowercase();
        match text.strip_suffix(&suffix) {
            Some(first) => first.to_owned(),
            None => "@".into(),
        }
    };
    let line = |record: nameward_zone::WireRecord<'_>| {
        let mut data = String::new();
        nameward_wire::rdata::write_text(record.rtype, record.rdata, &mut data).unwrap();
        let data = data.replace(&suffix, "");
        format!(
            "{} {} {} {data}",
            relative(record.owner),
            record.ttl,
            record.rtype
        )
    };
    list.iter()
        .filter(|record| record.rtype != Type::SOA)
        .map(line)
        .collect()
}
