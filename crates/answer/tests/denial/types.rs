//! The types that records of denial name: the real ones of an owner that exists, and none that clients cannot ask for.

use super::*;

#[test]
fn a_proof_that_has_a_name_of_the_zone_for_its_owner_has_its_real_types() {
    let apex: NameBuf = "example.".parse().unwrap();
    let (long, parent) = ("x".repeat(62), deep());
    // Names of 255 octets: between the two there is room for no other.
    let owner: NameBuf = format!("{long}a.{parent}.{apex}").parse().unwrap();
    let asked: NameBuf = format!("{long}b.{parent}.{apex}").parse().unwrap();
    let lines = [
        (format!("{long}a.{parent}"), "A 192.0.2.1", A),
        (format!("{long}a.{parent}"), "TXT x", TXT),
    ];
    let (table, existing, _) = signed_zone(&apex, &lines, &Denial::Nsec, Contents::Whole);
    let reply = ask(&table, asked.as_name(), A);
    let proofs = reply.authorities.iter();
    let proofs = proofs.filter(|record| record.record_type() == RecordType::NSEC);
    let mut ranges = proofs.map(nsec);
    let wanted = labels(owner.as_name().as_wire());
    let range = ranges
        .find(|range| range.owner == wanted)
        .expect("its NSEC");
    assert_eq!(range.types, BTreeSet::from([A, TXT, RRSIG, NSEC]));
    assert!(check(&table, &existing, &[asked], &Denial::Nsec) > 2);
}

#[test]
fn alias_and_lua_records_are_never_shown_to_clients() {
    let apex: NameBuf = "example.".parse().unwrap();
    let text = format!(
        "{APEX}alias ALIAS target.example.\nalias MX 10 mail.other.\nonly ALIAS target.example.\n\
         target A 192.0.2.1\nscript TYPE65402 \\# 4 00010161\nscript TXT x\n"
    );
    let internal = [Type::ALIAS.0, Type::LUA.0];
    for (denial, contents) in denials() {
        let mut zone = build(&apex, &text).unwrap();
        let _lists = sign(&mut zone, &apex, &denial, contents);
        let mut table = ZoneTable::default();
        table.insert(Arc::new(zone));
        for label in ["alias", "only", "script"] {
            let name: NameBuf = format!("{label}.{apex}").parse().unwrap();
            for qtype in [Type::ALIAS.0, Type::LUA.0, Type::ANY.0, Type(33).0] {
                let reply = ask(&table, name.as_name(), qtype);
                let mut shown = reply.answers.iter();
                assert!(
                    !shown.any(|record| internal.contains(&u16::from(record.record_type()))),
                    "{label} {qtype}: {reply:?}"
                );
                let proofs = reply.authorities.iter().chain(&reply.answers);
                for record in proofs {
                    let types = match record.record_type() {
                        RecordType::NSEC => nsec(record).types,
                        RecordType::NSEC3 => nsec3(record).types,
                        _ => continue,
                    };
                    assert!(
                        internal.iter().all(|rtype| !types.contains(rtype)),
                        "{record}"
                    );
                }
            }
        }
    }
}
