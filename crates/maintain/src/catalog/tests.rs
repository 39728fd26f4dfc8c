//! Tests of catalogs as in RFC 9432, broken ones, and members listed by several catalogs.

use super::owners::{Catalogs, IgnoredMember, Ownership};
use super::*;
use nameward_sql::CatalogProperties;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Serial, Zone, ZoneBuilder};

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

fn wire(text: &str) -> Box<[u8]> {
    name(text).as_name().as_wire().into()
}

fn zone(text: &str) -> Zone {
    let apex = name("catz.example.");
    let mut builder = ZoneBuilder::new(apex.as_name());
    let head = "@ 0 SOA invalid. invalid. 7 3600 600 2147483646 0\n@ 0 NS invalid.\n$TTL 0\n";
    let text = format!("{head}{text}");
    parse_bytes(
        "catalog",
        text.as_bytes(),
        &Options::new(apex),
        &mut builder,
    );
    builder.finish().0.expect("a zone")
}

#[test]
fn members_are_read_with_their_groups_and_new_catalogs() {
    let catalog = read_catalog(&zone(
        "VERSION TXT \"2\"\n\
         Nj2xg5b.zones PTR Example.COM.\n\
         nvxxezj.zones PTR example.net.\ngroup.nvxxezj.zones TXT \"nodnssec\" \n\
         group.nvxxezj.zones TXT \"operator-\" \"x\"\ncoo.nvxxezj.zones PTR NEWCATZ.example.\n\
         prop.nvxxezj.zones TXT \"?\"\nfoo.ext.nfwxa33.zones TXT \"foo\"\nother TXT \"x\"\n",
    ));
    let catalog = catalog.unwrap();
    assert_eq!(catalog.members.len(), 2);
    let com = &catalog.members[&wire("example.com.")];
    assert_eq!((&*com.label, com.groups.len()), (&b"nj2xg5b"[..], 0));
    let net = &catalog.members[&wire("example.net.")];
    let mut groups = net.groups.clone();
    groups.sort();
    assert_eq!(groups, ["nodnssec", "operator-x"]);
    assert_eq!(net.new_catalog, Some(wire("newcatz.example.")));
}

#[test]
fn a_broken_catalog_is_not_read_in_any_part() {
    let good = "version TXT \"2\"\n";
    for (text, expected) in [
        (
            String::new(),
            CatalogError::NoVersion("catz.example.".into()),
        ),
        (
            "version TXT \"1\"\n".into(),
            CatalogError::Version("1".into()),
        ),
        (
            "version TXT \"2\"\nversion TXT \"3\"\n".into(),
            CatalogError::NotSingle("version.catz.example.".into(), "TXT"),
        ),
        (
            format!("{good}a.zones PTR one.\na.zones PTR two.\n"),
            CatalogError::NotSingle("a.zones.catz.example.".into(), "PTR"),
        ),
        (
            format!("{good}a.zones PTR one.\nb.zones PTR ONE.\n"),
            CatalogError::Repeated("one.".into()),
        ),
        (
            format!("{good}a.zones PTR one.\ncoo.a.zones PTR c.\ncoo.a.zones PTR d.\n"),
            CatalogError::NotSingle("coo.a.zones.catz.example.".into(), "PTR"),
        ),
        (
            format!("{good}a.zones PTR catz.example.\n"),
            CatalogError::Itself,
        ),
    ] {
        let found = read_catalog(&zone(&text)).unwrap_err();
        assert_eq!(
            found.to_string().to_lowercase(),
            expected.to_string().to_lowercase(),
            "{text}"
        );
    }
}

#[test]
fn a_produced_catalog_round_trips() {
    let names: Vec<NameBuf> = (0..1000).map(|n| name(&format!("z{n}.example."))).collect();
    let [even, odd] = [vec!["even".to_owned()], Vec::new()].map(|groups| CatalogProperties {
        groups,
        ..CatalogProperties::default()
    });
    let members = names.iter().enumerate().map(|(n, zone)| {
        let properties = if n % 2 == 0 { &even } else { &odd };
        (zone.as_name(), properties)
    });
    let made = make_catalog(name("catz.example.").as_name(), members.clone(), Serial(5)).unwrap();
    assert_eq!(made.serial(), Serial(5));
    let read = read_catalog(&made).unwrap();
    assert_eq!(read.members.len(), 1000);
    assert_eq!(read.members[&wire("z2.example.")].groups, ["even"]);
    assert!(read.members[&wire("z3.example.")].groups.is_empty());
    // Labels only depend on the name: another member changes no other.
    let more = members.chain([(Name::from_valid_wire(b"\x03new\0"), &odd)]);
    let again = make_catalog(name("catz.example.").as_name(), more, Serial(6)).unwrap();
    let again = read_catalog(&again).unwrap();
    assert!(
        read.members
            .iter()
            .all(|(zone, member)| again.members[zone] == *member)
    );
}

/// The name of a member, its label and where it may move to.
type Listed<'l> = (&'l str, &'l str, Option<&'l str>);

fn catalogs(list: &[(&str, &[Listed<'_>])]) -> Catalogs {
    let catalog = |members: &[Listed<'_>]| {
        let member = |(zone, label, coo): &Listed<'_>| {
            let member = CatalogMember {
                label: label.as_bytes().into(),
                groups: Vec::new(),
                new_catalog: coo.map(wire),
            };
            (wire(zone), member)
        };
        Catalog {
            members: members.iter().map(member).collect(),
        }
    };
    let entry = |(name, members): &(&str, &[Listed<'_>])| (wire(name), catalog(members));
    list.iter().map(entry).collect()
}

fn owner(ownership: &Ownership, zone: &str) -> Option<String> {
    let owner = ownership.owners.get(&wire(zone))?;
    Some(Name::from_valid_wire(&owner.catalog).to_string())
}

#[test]
fn a_member_stays_with_its_catalog_until_the_catalog_releases_it() {
    let mut ownership = Ownership::default();
    let nothing = |_: &[u8], _: &[u8]| false;
    ownership.update(&catalogs(&[("b.", &[("z.", "1", None)])]), nothing);
    // A new catalog does not get it, whatever its name.
    let both = catalogs(&[("a.", &[("z.", "2", None)]), ("b.", &[("z.", "1", None)])]);
    let change = ownership.update(&both, nothing);
    assert_eq!(owner(&ownership, "z.").unwrap(), "b.");
    let ignored = IgnoredMember {
        zone: wire("z."),
        catalog: wire("a."),
        owner: Some(wire("b.")),
    };
    assert_eq!((change.ignored, change.resets.len()), (vec![ignored], 0));
    // With coo it moves; another label means that it starts over.
    let moving = catalogs(&[
        ("a.", &[("z.", "2", None)]),
        ("b.", &[("z.", "1", Some("a."))]),
    ]);
    let change = ownership.update(&moving, nothing);
    assert_eq!(owner(&ownership, "z.").unwrap(), "a.");
    assert_eq!(
        (change.resets, change.ignored),
        (vec![wire("z.")], Vec::new())
    );
    // The old catalog lists it for a while: nothing happens.
    assert_eq!(ownership.update(&moving, nothing), Default::default());
    let moved = catalogs(&[("a.", &[("z.", "2", None)]), ("b.", &[])]);
    assert_eq!(ownership.update(&moved, nothing), Default::default());
    ownership.update(&catalogs(&[("a.", &[]), ("b.", &[])]), nothing);
    assert_eq!(owner(&ownership, "z."), None);
}

#[test]
fn a_move_with_the_same_label_keeps_the_zone() {
    let mut ownership = Ownership::default();
    ownership.update(&catalogs(&[("b.", &[("z.", "1", None)])]), |_, _| false);
    let moving = catalogs(&[
        ("a.", &[("z.", "1", None)]),
        ("b.", &[("z.", "1", Some("a."))]),
    ]);
    assert!(ownership.update(&moving, |_, _| false).resets.is_empty());
    assert_eq!(owner(&ownership, "z.").unwrap(), "a.");
}

#[test]
fn a_zone_served_from_another_source_is_not_taken_by_a_catalog() {
    let mut ownership = Ownership::default();
    let one = catalogs(&[("a.", &[("z.", "1", None), ("y.", "2", None)])]);
    let change = ownership.update(&one, |zone, _| *zone == *wire("z."));
    assert_eq!(owner(&ownership, "z."), None);
    assert_eq!(owner(&ownership, "y.").unwrap(), "a.");
    assert_eq!(change.ignored.len(), 1);
}

#[test]
fn another_label_is_another_zone() {
    let mut ownership = Ownership::default();
    ownership.update(&catalogs(&[("a.", &[("z.", "1", None)])]), |_, _| false);
    let change = ownership.update(&catalogs(&[("a.", &[("z.", "2", None)])]), |_, _| true);
    assert_eq!(change.resets, [wire("z.")]);
}
