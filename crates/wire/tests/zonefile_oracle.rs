//! Generated zone files, parsed by us and by the `domain` crate: the records must be the same. And
//! records that are printed must survive parsing.

use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Name as OracleName, RecordData};
use domain::zonefile::inplace::{Entry, Zonefile};
use nameward_wire::zonefile::{Options, Record, parse_bytes};
use nameward_wire::{Name, NameBuf, Type, fuzzing, rdata};
use proptest::prelude::*;

/// Owner, type, TTL and data of a record.
type Plain = (Vec<u8>, u16, u32, Vec<u8>);

fn ours(text: &str) -> Vec<Plain> {
    let options = Options::new("example.".parse::<NameBuf>().unwrap());
    let mut records = Vec::new();
    let report = parse_bytes("zone", text.as_bytes(), &options, &mut |r: &Record<'_>| {
        records.push((
            r.owner.as_wire().to_vec(),
            r.rtype.0,
            r.ttl,
            r.rdata.to_vec(),
        ));
        Ok(())
    });
    assert!(!report.has_errors(), "{text}\n{:?}", report.diagnostics);
    records
}

fn oracle(text: &str) -> Vec<Plain> {
    let mut file = Zonefile::new();
    file.extend_from_slice(text.as_bytes());
    let origin: OracleName<Vec<u8>> = "example.".parse().unwrap();
    file.set_origin(origin.to_bytes());
    file.set_default_class(domain::base::iana::Class::IN);
    let mut records = Vec::new();
    while let Some(entry) = file.next_entry().unwrap_or_else(|e| panic!("{text}\n{e}")) {
        let Entry::Record(record) = entry else {
            panic!("an entry that is no record in {text}");
        };
        let mut data = Vec::new();
        record.data().compose_rdata(&mut data).unwrap();
        records.push((
            record.owner().to_vec().into_octets(),
            record.data().rtype().to_int(),
            record.ttl().as_secs(),
            data,
        ));
    }
    records
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-zA-Z0-9_-]{1,12}",
        1 => Just("*".to_string()),
        1 => r"([a-z]|\\\.|\\092|\\\\|\\000|\\255|\\;|\\\(){1,6}",
    ]
}

fn owner() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => name(),
        1 => Just("@".to_string()),
        2 => Just(String::new()),
    ]
}

/// A name in record data, where the oracle does not know `@`.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(".".to_string()),
        4 => prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join(".")),
        2 => prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join(".") + "."),
    ]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![r"[a-z0-9=:]{1,9}", r#""([ a-z;()@]|\\"|\\\\|\\007){0,20}""#,]
}

/// Type and data, as separate words.
fn data() -> impl Strategy<Value = Vec<String>> {
    let words = |list: &[&str]| list.iter().map(|w| w.to_string()).collect::<Vec<_>>();
    prop_oneof![
        any::<[u8; 4]>().prop_map(move |a| words(&["A", &std::net::Ipv4Addr::from(a).to_string()])),
        any::<[u8; 16]>()
            .prop_map(move |a| words(&["AAAA", &std::net::Ipv6Addr::from(a).to_string()])),
        name().prop_map(move |n| words(&["NS", &n])),
        name().prop_map(move |n| words(&["cname", &n])),
        (any::<u16>(), name()).prop_map(move |(p, n)| words(&["MX", &p.to_string(), &n])),
        (any::<[u16; 3]>(), name()).prop_map(move |([a, b, c], n)| {
            words(&["SRV", &a.to_string(), &b.to_string(), &c.to_string(), &n])
        }),
        prop::collection::vec(string(), 1..4).prop_map(|strings| {
            let mut words = vec!["TXT".to_string()];
            words.extend(strings);
            words
        }),
        (name(), name(), any::<[u32; 5]>()).prop_map(move |(a, b, numbers)| {
            let mut words = words(&["SOA", &a, &b]);
            words.extend(numbers.map(|n| (n >> 1).to_string()));
            words
        }),
    ]
}

/// Separators that may appear between two words.
fn gap() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(" "), 2 => Just("\t"), 1 => Just("   \t ")]
}

/// One entry: owner or blank, TTL and class in any order, the words in parentheses or not.
fn entry() -> impl Strategy<Value = String> {
    let head = prop_oneof![
        Just(vec![]),
        (0u32..1 << 31).prop_map(|ttl| vec![ttl.to_string()]),
        Just(vec!["IN".to_string()]),
        (0u32..1 << 31).prop_map(|ttl| vec![ttl.to_string(), "IN".to_string()]),
        (0u32..1 << 31).prop_map(|ttl| vec!["IN".to_string(), ttl.to_string()]),
    ];
    let end = prop_oneof![4 => Just("\n"), 1 => Just(" ; comment (\n"), 1 => Just("\r\n"), 1 => Just("\n\n;\n  \n")];
    (owner(), head, data(), any::<bool>(), gap(), end).prop_map(
        |(owner, head, data, open, gap, end)| {
            let mut text = owner + gap + &head.join(gap);
            if !head.is_empty() {
                text += gap;
            }
            if open {
                text += &format!("{} ( {}", data[0], data[1..].join("; c )\n\t"));
                text += "\n )";
            } else {
                text += &data.join(gap);
            }
            text + end
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_files_have_the_records_that_the_oracle_reads(entries in prop::collection::vec(entry(), 1..12)) {
        let text = format!("$TTL 3600\n@ 300 IN NS n\n{}", entries.concat());
        let records = ours(&text);
        prop_assert_eq!(&records, &oracle(&text), "{}", text);
        // A comment forces the general path of the parser instead of the one for plain lines.
        let commented = text.replace("\r", "").replace('\n', ";\n");
        prop_assert_eq!(records, ours(&commented), "{}", text);
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzzing::zonefile(&bytes);
    }

    #[test]
    fn arbitrary_words_are_read_without_panic(words in prop::collection::vec(prop_oneof![
        Just("a"), Just("@"), Just("IN"), Just("5"), Just("SOA"), Just("TXT"), Just("A"), Just("1.2.3.4"), Just("("),
        Just(")"), Just("\n"), Just("\n"), Just(" "), Just("\""), Just("\\"), Just(";"), Just("$ORIGIN"), Just("$TTL"),
        Just("$GENERATE"), Just("1-3"), Just("x$"), Just("\r\n"),
    ], 0..60)) {
        fuzzing::zonefile(words.join(" ").as_bytes());
        fuzzing::zonefile(words.concat().as_bytes());
    }

    #[test]
    fn arbitrary_records_survive_print_and_parse(records in prop::collection::vec(
        (prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 0..5), any::<u16>(), 0u32..1 << 31, prop::collection::vec(any::<u8>(), 0..60)),
        1..8,
    )) {
        let mut text = String::new();
        let mut expected: Vec<Plain> = Vec::new();
        for (labels, rtype, ttl, data) in records {
            let mut owner = Vec::new();
            for label in &labels {
                owner.push(label.len() as u8);
                owner.extend_from_slice(label);
            }
            owner.push(0);
            // Known types with arbitrary data are mostly malformed; private types are used for
            // those here.
            let rtype = if Type(rtype).is_meta() || rdata::validate(Type(rtype), &data).is_err() {
                Type(65_280)
            } else {
                Type(rtype)
            };
            text += &format!("{} {ttl} IN {rtype} ", Name::from_wire(&owner).unwrap());
            rdata::write_text(rtype, &data, &mut text).unwrap();
            text.push('\n');
            expected.push((owner, rtype.0, ttl, data));
        }
        prop_assert_eq!(ours(&text), expected, "{}", text);
    }
}

#[test]
fn an_owner_that_cannot_be_read_is_wrong_wherever_a_block_ends() {
    for size in 0..64u8 {
        // The first octet determines the block size.
        let text = [&[b';', size + 64], &b"\n"[..]].concat();
        let text = [&text[..], b"a.b\\\n TXT x\nc 5 TXT x\n"].concat();
        fuzzing::zonefile(&text[1..]);
        fuzzing::zonefile(&text);
    }
    fuzzing::zonefile(b"$TTLSOA$GENERATEa))\r\nSOA$ORIGIN1.2.3.4\\a\\\n $ORIGIN;");
}
