//! No NSEC and no NSEC3 that leaves the server denies a name or a type that exists: a resolver may keep each of them and
//! answer other questions from it (RFC 8198).
//!
//! The rules of denial are written down here once more, from RFC 4034 section 4, RFC 5155 section 8 and RFC 6840
//! section 4.1, over octets that hickory takes out of the replies.

use data_encoding::BASE32HEX_NOPAD;
use hickory_proto::op::Message;
use hickory_proto::rr::{Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use nameward_answer::{Engine, Medium, Scratch};
use nameward_dnssec::{
    Denial, DenialStyle, KeyUse, Keys, Nsec3, SignatureCache, Signing, SigningKey, SigningPolicy,
};
use nameward_testkit::property_cases;
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{
    ChainLister, ListedChain, NameKey, NameRecord, SigningWithList, Zone, ZoneBuilder, ZoneTable,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod out_of_date;
mod types;

const APEX: &str = "$TTL 300\n@ SOA ns.other. host 1 2 3 4 60\n@ NS ns.other.\n";
const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const TXT: u16 = 16;
const DNAME: u16 = 39;
const DS: u16 = 43;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;

const KEY: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                   PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

/// Labels in lower case, from the root: their order is the canonical one (RFC 4034 section 6.1).
type Labels = Vec<Vec<u8>>;

fn labels(wire: &[u8]) -> Labels {
    let (mut labels, mut rest) = (Vec::new(), wire);
    while let [len @ (1..=63), tail @ ..] = rest {
        let (label, tail) = tail.split_at(usize::from(*len));
        labels.push(label.to_ascii_lowercase());
        rest = tail;
    }
    labels.reverse();
    labels
}

fn types_of_bitmap(mut windows: &[u8]) -> BTreeSet<u16> {
    let mut types = BTreeSet::new();
    while let [window, len, rest @ ..] = windows {
        let (bits, rest) = rest.split_at(usize::from(*len));
        for bit in 0..bits.len() * 8 {
            if bits[bit / 8] & 0x80 >> (bit % 8) != 0 {
                types.insert(u16::from(*window) << 8 | bit as u16);
            }
        }
        windows = rest;
    }
    types
}

/// An NSEC or NSEC3 record, its names or hashes in an order.
#[derive(Debug)]
struct Range<T> {
    owner: T,
    next: T,
    types: BTreeSet<u16>,
}

impl<T: Ord> Range<T> {
    fn covers(&self, name: &T) -> bool {
        if self.owner < self.next {
            self.owner < *name && *name < self.next
        } else {
            // The last one of the zone.
            self.owner < *name || *name < self.next
        }
    }

    /// RFC 6840 section 4.1: the record of a delegation proves DS only.
    fn denies_type(&self, rtype: u16) -> bool {
        let is_of_parent = self.types.contains(&NS) && !self.types.contains(&SOA);
        !self.types.contains(&rtype) && (!is_of_parent || rtype == DS)
    }
}

fn nsec(record: &Record) -> Range<Labels> {
    let data = record.data.to_bytes().unwrap();
    let next = Name::split_from(&data).unwrap();
    Range {
        owner: labels(&record.name.to_bytes().unwrap()),
        next: labels(next.0.as_wire()),
        types: types_of_bitmap(next.1),
    }
}

fn nsec3(record: &Record) -> Range<Vec<u8>> {
    let data = record.data.to_bytes().unwrap();
    let salt = usize::from(data[4]);
    let next = &data[6 + salt..];
    let owner = labels(&record.name.to_bytes().unwrap()).pop().unwrap();
    Range {
        owner: BASE32HEX_NOPAD.decode(&owner.to_ascii_uppercase()).unwrap(),
        next: next[..20].to_vec(),
        types: types_of_bitmap(&next[20..]),
    }
}

/// The names that exist with their types, also those without any.
type Existing = BTreeMap<Labels, (NameBuf, BTreeSet<u16>)>;

/// Names of the zone that it is authoritative for, from the lines it is made of.
fn existing(apex: &NameBuf, owners: &[(NameBuf, u16)]) -> Existing {
    let mut all = Existing::new();
    for (owner, rtype) in owners {
        let mut name = Some(owner.as_name());
        while let Some(each) = name.filter(|name| name.is_at_or_below(apex.as_name())) {
            all.entry(labels(each.as_wire()))
                .or_insert((each.into(), BTreeSet::new()));
            name = each.parent();
        }
        all.get_mut(&labels(owner.as_name().as_wire()))
            .unwrap()
            .1
            .insert(*rtype);
    }
    let is_cut = |types: &BTreeSet<u16>| types.contains(&NS) && !types.contains(&SOA);
    // RFC 6840 section 4.1: neither denies what is below it.
    let hides = |types: &BTreeSet<u16>| is_cut(types) || types.contains(&DNAME);
    let cuts: Vec<Labels> = all
        .iter()
        .filter(|(_, (_, types))| hides(types))
        .map(|(name, _)| name.clone())
        .collect();
    all.retain(|name, _| !cuts.iter().any(|cut| name.starts_with(cut) && name != cut));
    for (_, types) in all.values_mut().filter(|(_, types)| is_cut(types)) {
        types.retain(|rtype| matches!(*rtype, NS | DS));
    }
    all
}

fn build(apex: &NameBuf, text: &str) -> Option<Zone> {
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(*apex), &mut builder);
    if report.has_errors() {
        None
    } else {
        builder.finish().0
    }
}

/// Keeps the lists of names that zones use.
type Lists = Vec<Arc<ListedChain>>;

/// Lists the names of a zone as a backend does.
fn list(zone: &Zone, signing: &Signing) -> Arc<ListedChain> {
    let mut lister = ChainLister::new(zone.apex_name(), signing, 1 << 20);
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            lister.push(node.name(), NameRecord::Of(rrset.rtype()));
        }
    }
    Arc::new(lister.finish().unwrap())
}

/// Signs answers of a zone while they are made.
fn sign(zone: &mut Zone, apex: &NameBuf, denial: &Denial, contents: Contents) -> Lists {
    let usage = KeyUse::EVERYTHING;
    let keys = Keys::new(vec![SigningKey::read(KEY.as_bytes(), 257, usage).unwrap()]);
    let policy = SigningPolicy {
        denial: denial.clone(),
        style: match contents {
            Contents::Compact => DenialStyle::Compact,
            _ => DenialStyle::Chain,
        },
        is_opt_out: matches!(contents, Contents::OptOut | Contents::ListedOptOut),
        ..SigningPolicy::default()
    };
    let signing = Arc::new(Signing::new(
        apex.as_name(),
        keys.into(),
        policy.into(),
        Arc::new(SignatureCache::new(1000)),
    ));
    match contents {
        Contents::Chain | Contents::OptOut | Contents::Compact => {
            zone.set_resident_signing(Some(signing))
        }
        Contents::Whole => zone.set_signing(Some(signing)),
        // As a part that was looked up, which does not know what else exists.
        Contents::Part => {
            zone.set_signing(Some(signing));
            zone.mark_as_fragment();
        }
        Contents::Listed | Contents::ListedOptOut => {
            let chain = list(zone, &signing);
            zone.set_signing(SigningWithList::state(signing, &chain));
            zone.mark_as_fragment();
            return vec![chain];
        }
    }
    Vec::new()
}

/// Adds the lines one by one, leaving out those that would make the zone invalid.
fn signed_zone(
    apex: &NameBuf,
    lines: &[(String, &'static str, u16)],
    denial: &Denial,
    contents: Contents,
) -> (ZoneTable, Existing, Lists) {
    let mut text = APEX.to_string();
    let mut owners = vec![(*apex, SOA), (*apex, NS)];
    let mut zone = build(apex, &text).unwrap();
    for (owner, data, rtype) in lines {
        let longer = format!("{text}{owner} {data}\n");
        let Ok(name) = format!("{owner}.{apex}").parse() else {
            continue;
        };
        if let Some(larger) = build(apex, &longer) {
            (text, zone) = (longer, larger);
            owners.push((name, *rtype));
        }
    }
    let lists = sign(&mut zone, apex, denial, contents);
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone));
    (table, existing(apex, &owners), lists)
}

/// The reply to a question with DO, over TCP.
fn ask(table: &ZoneTable, name: Name<'_>, qtype: u16) -> Message {
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet.extend_from_slice(name.as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(b"\0\x01\0\x00\x29\x10\x00\0\0\x80\0\0\0");
    let query = Query::parse(&packet).unwrap();
    let key = NameKey::new(query.qname);
    let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
    let mut out = vec![0; 65_535];
    let reply = Engine::default().respond(
        table,
        &query,
        (&key, zone),
        Medium::Stream,
        &mut Scratch::default(),
        &mut out,
    );
    Message::from_vec(&out[..reply.len()]).unwrap()
}

/// Names right beside a name, and right below it.
fn around(name: Name<'_>) -> Vec<NameBuf> {
    let Some(parent) = name.parent() else {
        return Vec::new();
    };
    let label = &name.as_wire()[1..name.as_wire().len() - parent.as_wire().len()];
    let (last, head) = label.split_last().unwrap();
    let siblings = [
        [head, &[last.wrapping_add(1)]].concat(),
        [head, &[last.wrapping_sub(1)]].concat(),
        [label, &[0]].concat(),
        [label, &[0xff]].concat(),
        head.to_vec(),
    ];
    let made = |label: &[u8], parent| {
        let wire = [&[label.len() as u8], label].concat();
        let fits = (1..=63).contains(&label.len());
        fits.then(|| NameBuf::join(&wire, parent).ok()).flatten()
    };
    let beside = siblings.iter().filter_map(|label| made(label, parent));
    let below = [&[0][..], b"q", b"*", &[0xff; 63]]
        .into_iter()
        .filter_map(|label| made(label, name));
    beside.chain(below).collect()
}

fn check_nsec(table: &ZoneTable, existing: &Existing, record: &Record) {
    let range = nsec(record);
    for (name, (_, types)) in existing {
        // RFC 4592 section 2.2.2: what the next name is below exists, without a record of its own.
        let is_shown = types.is_empty() && range.next.starts_with(name);
        assert!(is_shown || !range.covers(name), "{record} denies {name:?}");
        if *name == range.owner {
            let denied = types.iter().find(|rtype| range.denies_type(**rtype));
            assert_eq!(denied, None, "{record} denies a type");
        }
    }
    // Wildcards, too, give a name types.
    let owner: Vec<u8> = record.name.to_bytes().unwrap();
    for rtype in [A, CNAME, TXT] {
        let reply = ask(table, Name::from_wire(&owner).unwrap(), rtype);
        let is_there = reply
            .answers
            .iter()
            .any(|answer| u16::from(answer.record_type()) == rtype && answer.name == record.name);
        assert!(
            !is_there || !range.denies_type(rtype),
            "{record} denies {rtype}"
        );
    }
}

fn check_nsec3(params: &Nsec3, existing: &Existing, record: &Record) {
    let range = nsec3(record);
    // RFC 5155 section 6: delegations without DS may be in the span of a record with Opt-Out.
    let is_opt_out = record.data.to_bytes().unwrap()[1] & 1 != 0;
    let is_left_out = |types: &BTreeSet<u16>| is_opt_out && *types == BTreeSet::from([NS]);
    for (name, types) in existing.values().filter(|(_, types)| !is_left_out(types)) {
        let hash = params.hash(name.as_name()).to_vec();
        assert!(!range.covers(&hash), "{record} denies {name}");
        if hash == range.owner {
            let denied = types.iter().find(|rtype| range.denies_type(**rtype));
            assert_eq!(denied, None, "{record} of {name} denies a type");
        }
    }
}

/// Asks for everything around what exists and around `others`; returns how many proofs were looked at.
fn check(table: &ZoneTable, existing: &Existing, others: &[NameBuf], denial: &Denial) -> usize {
    let mut questions: Vec<NameBuf> = others.to_vec();
    questions.extend(
        existing
            .values()
            .flat_map(|(name, _)| around(name.as_name()).into_iter().chain([*name])),
    );
    let apex = existing.keys().next().cloned().unwrap();
    questions.retain(|name| labels(name.as_name().as_wire()).starts_with(&apex));
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    for name in questions {
        for qtype in [A, TXT, DS, NSEC] {
            let reply = ask(table, name.as_name(), qtype);
            for record in reply.answers.iter().chain(&reply.authorities) {
                let mut is_new = || seen.insert(record.to_string());
                match (record.record_type(), denial) {
                    (RecordType::NSEC, _) if is_new() => check_nsec(table, existing, record),
                    (RecordType::NSEC3, Denial::Nsec3(params)) if is_new() => {
                        check_nsec3(params, existing, record)
                    }
                    _ => continue,
                }
                count += 1;
            }
        }
    }
    count
}

fn label() -> impl Strategy<Value = String> {
    let long = "x".repeat(62);
    let ends = ["a", "b", "c", r"\000", r"\255", "", "@", "[", "Z"];
    let mut labels: Vec<String> = ends.iter().map(|end| format!("{long}{end}")).collect();
    let short = [
        "a",
        "b",
        r"a\000",
        r"a\255",
        r"\000",
        r"\255",
        r"\000\000",
        r"\254",
        "*",
        "@",
        "[",
    ];
    labels.extend(
        short
            .map(String::from)
            .into_iter()
            .filter(|label| label != "@"),
    );
    labels.extend([
        r"\255".repeat(63),
        r"\000".repeat(63),
        format!("{}a", r"\255".repeat(62)),
        format!("a{}", r"\255".repeat(62)),
    ]);
    proptest::sample::select(labels)
}

/// With the zone's 9 octets a parent below which a label of 63 octets makes a name of 255.
fn deep() -> String {
    format!("{0}.{0}.{1}", "d".repeat(63), "d".repeat(53))
}

fn owner() -> impl Strategy<Value = String> {
    let parent = proptest::sample::select(vec![None, None, Some(deep())]);
    let labels = proptest::collection::vec(label(), 1..4);
    (labels, parent).prop_map(|(labels, parent)| match parent {
        Some(parent) => format!("{}.{parent}", labels[0]),
        None => labels.join("."),
    })
}

fn line() -> impl Strategy<Value = (String, &'static str, u16)> {
    let data = prop_oneof![
        4 => Just(("A 192.0.2.1", A)),
        3 => Just(("TXT x", TXT)),
        1 => Just(("NS ns.other.", NS)),
        1 => Just(("CNAME target.other.", CNAME)),
        1 => Just(("DNAME target.other.", DNAME)),
    ];
    (owner(), data).prop_map(|(owner, (data, rtype))| (owner, data, rtype))
}

/// Where records of denial come from.
#[derive(Clone, Copy, PartialEq)]
enum Contents {
    /// Made for the answer; the engine may look whether other names exist.
    Whole,
    /// Made for the answer, without.
    Part,
    /// The chain over all names.
    Chain,
    /// The chain without delegations that have no DS.
    OptOut,
    /// Made for the answer, about the name that was asked for (RFC 9824).
    Compact,
    /// The chain over names that were listed.
    Listed,
    /// The same without delegations that have no DS.
    ListedOptOut,
}

fn denials() -> [(Denial, Contents); 10] {
    let nsec3 = Nsec3 {
        iterations: 1,
        salt: vec![0xab],
    };
    [
        (Denial::Nsec, Contents::Whole),
        (Denial::Nsec, Contents::Part),
        (Denial::Nsec, Contents::Chain),
        (Denial::Nsec, Contents::Compact),
        (Denial::Nsec3(nsec3.clone()), Contents::Whole),
        (Denial::Nsec3(nsec3.clone()), Contents::Chain),
        (Denial::Nsec3(nsec3.clone()), Contents::OptOut),
        (Denial::Nsec, Contents::Listed),
        (Denial::Nsec3(nsec3.clone()), Contents::Listed),
        (Denial::Nsec3(nsec3), Contents::ListedOptOut),
    ]
}

#[test]
fn a_long_label_is_not_denied_by_a_question_for_the_one_after_it() {
    let apex: NameBuf = "example.".parse().unwrap();
    let long = "x".repeat(62);
    for parent in [String::new(), format!(".{}", deep())] {
        let lines = [
            (format!("{long}a{parent}"), "A 192.0.2.1", A),
            (format!("below.{long}a"), "TXT x", TXT),
        ];
        for (denial, contents) in denials() {
            let (table, existing, _lists) = signed_zone(&apex, &lines, &denial, contents);
            let asked: NameBuf = format!("{long}b{parent}.{apex}").parse().unwrap();
            assert!(check(&table, &existing, &[asked], &denial) > 2);
        }
    }
}

/// The types that NSEC3 records of a reply name for a name; RRSIG is left out.
fn types_at(name: &NameBuf, reply: &Message, denial: &Denial) -> Vec<BTreeSet<u16>> {
    let Denial::Nsec3(params) = denial else {
        return Vec::new();
    };
    let hash = params.hash(name.as_name()).to_vec();
    let records = reply.authorities.iter();
    let proofs = records.filter(|record| record.record_type() == RecordType::NSEC3);
    let matching = proofs.map(nsec3).filter(|range| range.owner == hash);
    let types = matching.map(|range| range.types.into_iter().filter(|&rtype| rtype != RRSIG));
    types.map(Iterator::collect).collect()
}

// RFC 5155 section 8.5: a record that names CNAME proves of no type that it is not there.
#[test]
fn a_proof_about_a_name_with_a_record_that_cannot_be_read_denies_no_type() {
    let apex: NameBuf = "example.".parse().unwrap();
    let encloser: NameBuf = "enc.example.".parse().unwrap();
    let asked: NameBuf = "x.enc.example.".parse().unwrap();
    let nsec3 = denials().into_iter();
    for (denial, contents) in nsec3.filter(|(denial, _)| matches!(denial, Denial::Nsec3(_))) {
        let mut builder = ZoneBuilder::new(apex.as_name());
        let text = format!("{APEX}enc A 192.0.2.1\n");
        parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
        builder.add_broken(encloser.as_name(), Some(Type(TXT)));
        let mut zone = builder.finish().0.unwrap();
        let _lists = sign(&mut zone, &apex, &denial, contents);
        let mut table = ZoneTable::default();
        table.insert(Arc::new(zone));
        let reply = ask(&table, asked.as_name(), A);
        assert_eq!(
            types_at(&encloser, &reply, &denial),
            [BTreeSet::from([A, CNAME])]
        );
    }
}

proptest! {
    #![proptest_config(property_cases(3))]

    #[test]
    fn no_nsec_or_nsec3_denies_what_exists(
        lines in proptest::collection::vec(line(), 1..14),
        others in proptest::collection::vec(owner(), 4),
    ) {
        let apex: NameBuf = "example.".parse().unwrap();
        let others: Vec<NameBuf> = others.iter().filter_map(|name| format!("{name}.{apex}").parse().ok()).collect();
        for (denial, contents) in denials() {
            let (table, existing, _lists) = signed_zone(&apex, &lines, &denial, contents);
            let proofs = check(&table, &existing, &others, &denial);
            prop_assert!(proofs > 0);
        }
    }
}
