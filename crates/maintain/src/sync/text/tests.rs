//! Tests with texts of zone files before and after inserting a difference.

use super::*;
use nameward_wire::NameBuf;
use nameward_zone::{Zone, ZoneBuilder};

const ZONE: &str = "; our zone
$ORIGIN example.
$TTL 300
@\tIN SOA ns1 host (
\t\t10    ; serial
\t\t3600 600 86400 300 )
\tNS ns1   ; the first
\tNS ns2
ns1  A 192.0.2.1
; web servers
www  A 192.0.2.10  ; left
     A 192.0.2.11  ; right
     TXT \"a ; b\" ; not data
$GENERATE 1-3 g$ A 192.0.2.$
last 60 A 192.0.2.99";

fn options() -> Options {
    Options::new(apex())
}

fn apex() -> NameBuf {
    "example.".parse().unwrap()
}

fn zone(text: &[u8]) -> Zone {
    let mut builder = ZoneBuilder::new(apex().as_name());
    let report = parse_bytes("test", text, &options(), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.unwrap()
}

/// Returns the text after the change from one zone to another.
fn patched(wanted: &str) -> Result<String, TextFault> {
    let difference = zone(wanted.as_bytes()).difference_from(&zone(ZONE.as_bytes()));
    let place = NewRecordLocation::BesideOwner;
    let text = put_difference(ZONE.as_bytes(), &options(), &difference, place)?;
    assert!(zone(&text).has_same_records(&zone(wanted.as_bytes())));
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn nothing_but_the_changed_lines_changes() {
    for (from, to, also) in [
        ("10    ;", "11    ;", None),
        ("192.0.2.10 ", "192.0.2.12 ", None),
        ("A 192.0.2.11  ; right", "A 192.0.2.13  ; right", None),
        ("\tNS ns2\n", "", None),
        ("NS ns2", "NS ns3.example.", None),
        ("last 60 A 192.0.2.99", "last 60 A 192.0.2.98", None),
        // The owner moves to the line that inherited it.
        (
            "www  A 192.0.2.10  ; left\n",
            "",
            Some(("     A 192.0.2.11", "www.example.     A 192.0.2.11")),
        ),
    ] {
        let wanted = ZONE.replace(from, to);
        let wanted = also.map_or(wanted.clone(), |(from, to)| wanted.replace(from, to));
        assert_eq!(patched(&wanted).unwrap(), wanted, "{from}");
    }
}

#[test]
fn new_records_are_added_after_their_owner_or_at_the_end() {
    let text = patched(&format!("{ZONE}\nwww AAAA 2001:db8::1\nnew A 192.0.2.50\n")).unwrap();
    let beside = "\"a ; b\" ; not data\nwww.example.\t300\tIN\tAAAA\t2001:db8::1\n$GENERATE";
    assert!(text.contains(beside), "{text}");
    let end = "last 60 A 192.0.2.99\nnew.example.\t300\tIN\tA\t192.0.2.50\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_whole_name_is_removed_and_its_comment_lines_stay() {
    let wanted = ZONE
        .lines()
        .filter(|line| !line.contains("192.0.2.1") || line.contains("ns1"))
        .filter(|line| !line.contains("TXT"));
    let wanted: Vec<&str> = wanted.collect();
    let text = patched(&wanted.join("\n")).unwrap();
    assert!(text.contains("; web servers\n$GENERATE"), "{text}");
}

#[test]
fn records_of_directives_are_left_to_the_operator() {
    let fault = patched(&ZONE.replace("1-3", "1-2")).unwrap_err();
    let TextFault::Directive { line, owner, .. } = fault else {
        panic!("{fault}");
    };
    assert_eq!((line, owner.as_str()), (14, "g3.example."));
}

#[test]
fn a_soa_with_other_fields_is_rewritten() {
    let text = patched(&ZONE.replace("3600 600", "7200 600")).unwrap();
    assert!(text.contains("example.\t300\tIN\tSOA\t"), "{text}");
    assert!(text.contains("\n\tNS ns1   ; the first\n"), "{text}");
}
