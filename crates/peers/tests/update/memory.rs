//! The cases on zones in memory, and what only they show.

use super::cases::{CASES, ZONE};
use super::text::{lines, message, rrsets, whole};
use super::{All, change_of};
use nameward_dnssec::MadeTypes;
use nameward_peers::update::{UpdateChange, UpdatePermission, UpdateRequest};
use nameward_wire::zonefile::Record;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::change::{ConditionalChange, RecordsAt, SignedBy};
use nameward_zone::{Serial, SerialRule, Zone, ZoneBuilder};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

pub fn zone() -> Arc<Zone> {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    for rrset in rrsets(ZONE, &apex) {
        for record in &rrset.records {
            builder.add(&Record::new(
                rrset.name.as_name(),
                rrset.rtype,
                rrset.ttl,
                &record.rdata,
            ));
        }
    }
    let (zone, findings) = builder.finish();
    Arc::new(zone.unwrap_or_else(|| panic!("{findings:?}")))
}

#[test]
fn every_form_does_what_the_rfc_says() {
    let zone = zone();
    let apex: NameBuf = zone.apex_name().into();
    for case in CASES {
        let decided = change_of(&message(case.1, &apex)).and_then(|asked| asked.decide(&*zone));
        let rcode = decided
            .as_ref()
            .map_or_else(|no| no.rcode, |_| Rcode::NoError);
        assert_eq!(rcode, case.2, "{}: {decided:?}", case.0);
        let Ok(change) = decided else { continue };
        let difference = zone.difference_of(&change).unwrap();
        let gone = lines(&difference.removed, &apex).into_iter();
        let came = lines(&difference.added, &apex).into_iter();
        let gone = gone.map(|line| format!("-{line}"));
        let mut found: Vec<String> = gone.chain(came.map(|line| format!("+{line}"))).collect();
        let mut expected = case.3.to_vec();
        expected.sort_unstable();
        found.sort();
        assert_eq!(found, expected, "{}", case.0);
        let version = zone.apply(&difference).unwrap();
        let serial = match (case.sets_serial(), case.3.is_empty()) {
            (true, _) => 20,
            (false, true) => 10,
            (false, false) => 11,
        };
        assert_eq!(version.serial(), Serial(serial), "{}", case.0);
    }
}

#[test]
fn the_zone_section_names_one_zone_by_its_soa() {
    let apex: NameBuf = "example.".parse().unwrap();
    let read = |message: &[u8]| UpdateRequest::read(message).unwrap_err().rcode;
    assert_eq!(read(&whole(&apex, (1, 1), &[], &[])), Rcode::FormErr);
    assert_eq!(read(&whole(&apex, (6, 3), &[], &[])), Rcode::NotAuth);
    assert_eq!(read(&whole(&apex, (6, 255), &[], &[])), Rcode::NotAuth);
    let mut none = whole(&apex, (6, 1), &[], &[]);
    none[5] = 0;
    none.truncate(12);
    assert_eq!(read(&none), Rcode::FormErr);
    let good = whole(&apex, (6, 1), &[], &[]);
    assert!(UpdateRequest::read(&good).is_ok());
    for len in 0..good.len() {
        assert_eq!(read(&good[..len]), Rcode::FormErr, "{len}");
    }
    assert_eq!(read(&[&good[..], b"x"].concat()), Rcode::FormErr);
}

/// A signed zone.
struct Signed(Arc<Zone>, SignedBy);

impl RecordsAt for Signed {
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8])) {
        self.0.each_record(owner, each);
    }

    fn signed_by(&self) -> SignedBy {
        self.1
    }
}

#[test]
fn types_that_signing_makes_are_refused_where_this_server_signs() {
    let apex: NameBuf = "example.".parse().unwrap();
    let rcode = |signed_by, lines: &str| {
        let asked = change_of(&message(lines, &apex)).unwrap();
        let decided = asked.decide(&Signed(zone(), signed_by));
        decided.map_or_else(|refused| refused.rcode, |_| Rcode::NoError)
    };
    let steps = [
        "delete www NSEC",
        "delete www RRSIG",
        "delete www NSEC3",
        "delete @ NSEC3PARAM",
        "delete @ DNSKEY",
        "delete @ CDS",
        "delete @ CDNSKEY",
    ];
    let here = SignedBy::ThisServer(MadeTypes::ALL);
    for step in steps {
        assert_eq!(rcode(here, step), Rcode::Refused, "{step}");
        assert_eq!(rcode(SignedBy::NoSigner, step), Rcode::NoError, "{step}");
    }
    assert_eq!(rcode(here, "delete www"), Rcode::NoError);
    assert_eq!(rcode(SignedBy::Elsewhere, "delete www"), Rcode::Refused);
}

#[test]
fn an_update_may_add_cds_only_where_this_server_does_not_publish_it() {
    let apex: NameBuf = "example.".parse().unwrap();
    let rcode = |signed_by, lines: &str| {
        let asked = change_of(&message(lines, &apex)).unwrap();
        let decided = asked.decide(&Signed(zone(), signed_by));
        decided.map_or_else(|refused| refused.rcode, |_| Rcode::NoError)
    };
    let cds = "add @ 60 CDS 0 0 0 00";
    let of_other = "add _dsboot.child._signal.ns1 60 CDS 0 0 0 00";
    let nsec = "add www 60 NSEC example. A";
    let published = SignedBy::ThisServer(MadeTypes::ALL);
    let unpublished = SignedBy::ThisServer(MadeTypes::WITHOUT_CDS);
    for (signed_by, step, expected) in [
        (published, cds, Rcode::Refused),
        (unpublished, cds, Rcode::NoError),
        (SignedBy::NoSigner, cds, Rcode::NoError),
        (published, of_other, Rcode::NoError),
        (unpublished, nsec, Rcode::Refused),
        (SignedBy::NoSigner, nsec, Rcode::Refused),
    ] {
        assert_eq!(rcode(signed_by, step), expected, "{signed_by:?} {step}");
    }
}

/// Every client may change addresses below one name.
struct Addresses(NameBuf);

impl UpdatePermission for Addresses {
    fn permits(&self, owner: Name<'_>, rtype: Type) -> bool {
        matches!(rtype, Type::A | Type::AAAA) && owner.is_at_or_below(self.0.as_name())
    }
}

#[test]
fn a_client_changes_only_what_it_is_allowed_to_and_learns_nothing_else() {
    let apex: NameBuf = "example.".parse().unwrap();
    let rcode = |lines: &str| {
        let asked = UpdateChange {
            request: UpdateRequest::read(&message(lines, &apex)).unwrap(),
            permission: Box::new(Addresses("ent.example.".parse().unwrap())),
            serial: SerialRule::Next,
            now: UNIX_EPOCH,
        };
        let decided = asked.decide(&*zone());
        decided.map_or_else(|refused| refused.rcode, |_| Rcode::NoError)
    };
    assert_eq!(rcode("add x.ent 60 A 192.0.2.1"), Rcode::NoError);
    assert_eq!(rcode("add x.ent 60 TXT x"), Rcode::Refused);
    assert_eq!(rcode("add x 60 A 192.0.2.1"), Rcode::Refused);
    assert_eq!(
        rcode("add x.ent 60 A 192.0.2.1\nadd x 60 A 192.0.2.1"),
        Rcode::Refused
    );
    // A whole name, if each of its RRsets may go.
    assert_eq!(rcode("delete host.ent"), Rcode::NoError);
    assert_eq!(rcode("delete www"), Rcode::Refused);
    // The answer is the same whether the prerequisite is met or not.
    assert_eq!(rcode("prereq yxdomain www\ndelete www"), Rcode::Refused);
    assert_eq!(rcode("prereq nxdomain www\ndelete www"), Rcode::Refused);
}

#[test]
fn all_records_that_fit_into_a_message_cost_no_more_than_their_number() {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut steps = String::new();
    for i in 0..2000u32 {
        let [_, _, c, d] = i.to_be_bytes();
        steps.push_str(&format!("add many 60 A 10.0.{c}.{d}\n"));
    }
    let zone = zone();
    let asked = change_of(&message(&steps, &apex)).unwrap();
    let change = asked.decide(&*zone).unwrap();
    assert_eq!(change.edits.len(), 1);
    let difference = zone.difference_of(&change).unwrap();
    assert_eq!(difference.added.len(), 2001);
    let _ = All;
}
