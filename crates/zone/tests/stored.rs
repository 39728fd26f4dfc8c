//! Zones with stored signatures: how they are recognised, and which record covers a name.

use nameward_dnssec::Nsec3;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
use nameward_zone::{NameKey, SerialRule, SigningState, Zone, ZoneBuilder};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const APEX: &str = "$TTL 300\n@ SOA ns host 1 2 3 4 60\n@ NS ns\n";
const SIGNED: &str = "@ RRSIG SOA 13 1 300 20300101000000 20200101000000 1 @ AAAA\n";

fn zone(text: &str) -> Zone {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    let (zone, findings) = builder.finish();
    let mut zone = zone.unwrap_or_else(|| panic!("{findings:?}"));
    zone.set_signing(zone.stored_signatures());
    zone
}

/// Returns the owner of the record that covers or matches a name.
fn owner_for(zone: &Zone, name: &str) -> String {
    let SigningState::Stored(index) = zone.signing() else {
        panic!("not signed");
    };
    let name: NameBuf = name.parse().unwrap();
    index.at_or_before(name.as_name()).unwrap().to_string()
}

#[test]
fn a_zone_is_signed_by_its_records_if_its_soa_is_and_it_has_a_chain() {
    let chain = "@ NSEC b NS SOA RRSIG NSEC\nb NSEC @ A RRSIG NSEC\nb A 192.0.2.1\n";
    let is_signed = |parts: &[&str]| {
        let state = zone(&parts.concat()).signing().clone();
        (
            state.is_signed(),
            state.uses_nsec3(),
            state.online().is_some(),
        )
    };
    assert_eq!(is_signed(&[APEX]), (false, false, false));
    assert_eq!(is_signed(&[APEX, chain]), (false, false, false));
    assert_eq!(is_signed(&[APEX, SIGNED]), (false, false, false));
    assert_eq!(is_signed(&[APEX, SIGNED, chain]), (true, false, false));
    let hashed = "@ NSEC3PARAM 1 0 0 -\n\
                  0p9mhaveqvm6t7vbl5lop2u3t2rp3tom NSEC3 1 0 0 - 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom SOA\n";
    assert_eq!(is_signed(&[APEX, SIGNED, hashed]), (true, true, false));
}

#[test]
fn the_record_before_a_name_covers_it_also_after_a_change() {
    let text = [APEX, SIGNED, "@ NSEC b SOA\nb NSEC x.c A\nx.c NSEC @ A\n"].concat();
    let zone = Arc::new(zone(&text));
    for (name, owner) in [
        ("example.", "example."),
        ("a.example.", "example."),
        ("b.example.", "b.example."),
        ("a.b.example.", "b.example."),
        // An empty non-terminal.
        ("c.example.", "b.example."),
        ("z.example.", "x.c.example."),
    ] {
        assert_eq!(owner_for(&zone, name), owner, "{name}");
    }
    let nsec = RrsetData {
        name: "w.example.".parse().unwrap(),
        rtype: Type::NSEC,
        ttl: 60,
        records: vec![NewRecord {
            text: None,
            rdata: b"\x07example\0\0\x01\x40".to_vec(),
            disabled: false,
        }],
    };
    let change = ZoneChange {
        edits: vec![Edit::Add(nsec)],
        origin: ChangeOrigin::Operator,
        now: UNIX_EPOCH,
        serial: SerialRule::default(),
    };
    let difference = zone.difference_of(&change).unwrap();
    let changed = zone.apply(&difference).unwrap();
    assert_eq!(owner_for(&changed, "z.example."), "w.example.");
    assert_eq!(owner_for(&zone, "z.example."), "x.c.example.");
}

/// Hashes wrap around: the last one precedes the first.
#[test]
fn the_last_nsec3_covers_hashes_before_the_first() {
    let (first, last) = (
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom",
        "t644ebqk9bibcna874givr6joj62mlhv",
    );
    let chain = format!(
        "@ NSEC3PARAM 1 0 2 aabb\n{first} NSEC3 1 0 2 aabb {last} SOA\n{last} NSEC3 1 0 2 aabb {first} A\n\
         www A 192.0.2.1\n"
    );
    let zone = zone(&[APEX, SIGNED, &chain].concat());
    let SigningState::Stored(index) = zone.signing() else {
        panic!("not signed");
    };
    let hashing = Nsec3 {
        iterations: 2,
        salt: vec![0xaa, 0xbb],
    };
    assert_eq!(index.hashing(), Some(&hashing));
    for (label, owner) in [("00", last), (first, first), ("1", first), ("www", last)] {
        let name = format!("{label}.example.");
        assert_eq!(owner_for(&zone, &name), format!("{owner}.example."));
    }
}

#[test]
fn signatures_are_stored_with_the_rrset_they_cover() {
    let of = |rtype: &str, octets: &str| {
        format!("b RRSIG {rtype} 13 2 300 20300101000000 20200101000000 1 @ {octets}\n")
    };
    let text = [
        APEX,
        "b A 192.0.2.1\nb TXT x\n",
        &of("TXT", "AAAA"),
        &of("A", "AAAB"),
        &of("A", "AAAC"),
    ]
    .concat();
    let zone = zone(&text);
    let key = NameKey::new("b.example.".parse::<NameBuf>().unwrap().as_name());
    let node = zone.node(&key, key.labels()).unwrap();
    let last = |rtype| -> Vec<u8> {
        let data = node.signatures(rtype);
        data.map(|rdata| *rdata.last().unwrap()).collect()
    };
    assert_eq!(last(Type::A), [1, 2]);
    assert_eq!(last(Type::TXT), [0]);
    assert_eq!(last(Type::AAAA), []);
}

/// The time of inspections: 2026-01-01.
const NOW: u64 = 1_767_225_600;

/// Returns a zone with a name besides the apex, completely signed between two times.
fn signed_text(begin: &str, end: &str, chain: &str) -> String {
    let rrsig = |owner: &str, rtype: &str, labels: u8| {
        format!("{owner} RRSIG {rtype} 13 {labels} 300 {end} {begin} 1 @ AAAA\n")
    };
    let mut text = format!("{APEX}b A 192.0.2.1\n{chain}");
    for rtype in ["SOA", "NS", "NSEC"] {
        text += &rrsig("@", rtype, 1);
    }
    for rtype in ["A", "NSEC"] {
        text += &rrsig("b", rtype, 2);
    }
    text
}

const CLOSED: &str = "@ NSEC b NS SOA RRSIG NSEC\nb NSEC @ A RRSIG NSEC\n";

#[test]
fn the_expiry_and_defects_of_signatures_are_found() {
    let faults = |text: &str| zone(text).inspect_signatures(NOW).unwrap().faults();
    let good = signed_text("20251201000000", "20260201000000", CLOSED);
    let inspection = zone(&good).inspect_signatures(NOW).unwrap();
    assert!(!inspection.is_broken(), "{inspection:?}");
    let (end, rrset) = inspection.first_end.unwrap();
    assert_eq!(
        (end - NOW, rrset.to_string()),
        (31 * 86_400, "example. NS".into())
    );

    let ended = signed_text("20251101000000", "20251201000000", CLOSED);
    assert_eq!(
        faults(&ended),
        ["expired signatures: example. NS and 4 more"]
    );
    let early = signed_text("20260102000000", "20260201000000", CLOSED);
    let words = "signatures that are not valid yet: example. NS and 4 more";
    assert_eq!(faults(&early), [words]);
    // One valid signature of two is enough.
    let renewed = ended.clone() + "b RRSIG A 13 2 300 20260201000000 20251201000000 2 @ AAAA\n";
    assert_eq!(
        faults(&renewed),
        ["expired signatures: example. NS and 3 more"]
    );
    let unsigned = good.clone() + "c A 192.0.2.2\n";
    assert_eq!(
        faults(&unsigned),
        [
            "missing signatures: c.example. A",
            "gaps in the NSEC or NSEC3 chain: c.example. NSEC"
        ]
    );
    let open = CLOSED.replace("b NSEC @", "b NSEC c");
    let open = signed_text("20251201000000", "20260201000000", &open);
    assert_eq!(
        faults(&open),
        ["gaps in the NSEC or NSEC3 chain: b.example. NSEC"]
    );
    assert_eq!(zone(APEX).inspect_signatures(NOW), None);
}

/// Delegations and glue are not signed by the zone (RFC 4035 section 2.2).
#[test]
fn names_below_a_cut_need_no_signatures() {
    let chain = "@ NSEC b NS SOA RRSIG NSEC\nb NSEC sub A RRSIG NSEC\nsub NSEC @ NS RRSIG NSEC\n\
                 sub NS ns.sub\nns.sub A 192.0.2.3\n\
                 sub RRSIG NSEC 13 2 300 20260201000000 20251201000000 1 @ AAAA\n";
    let text = signed_text("20251201000000", "20260201000000", chain);
    let inspection = zone(&text).inspect_signatures(NOW).unwrap();
    assert_eq!(inspection.faults(), Vec::<String>::new());
}

#[test]
fn a_chain_of_hashes_must_close() {
    let (first, last) = (
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom",
        "t644ebqk9bibcna874givr6joj62mlhv",
    );
    let faults = |next: &str| {
        let mut text = format!(
            "{APEX}@ NSEC3PARAM 1 0 2 aabb\n{first} NSEC3 1 1 2 aabb {last} SOA\n{last} NSEC3 1 0 2 aabb {next} A\n\
             {first} NSEC3 1 0 0 - {first} SOA\n"
        );
        for (owner, labels, types) in [
            ("@", 1, &["SOA", "NS", "NSEC3PARAM"][..]),
            (first, 2, &["NSEC3"]),
            (last, 2, &["NSEC3"]),
        ] {
            for rtype in types {
                text += &format!(
                    "{owner} RRSIG {rtype} 13 {labels} 300 20260201000000 20251201000000 1 @ AAAA\n"
                );
            }
        }
        zone(&text).inspect_signatures(NOW).unwrap().faults()
    };
    assert_eq!(faults(first), Vec::<String>::new());
    let gap = format!("gaps in the NSEC or NSEC3 chain: {last}.example. NSEC3");
    assert_eq!(faults(last), [gap]);
}
