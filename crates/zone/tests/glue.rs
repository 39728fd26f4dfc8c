//! Glue is linked to its delegation whatever the order of the file: most of it while it is packed, the rest when all
//! names are known.

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{Zone, ZoneBuilder};

const HEAD: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n";

/// A zone as a registry writes it, mixed with everything that is not plain.
const LINES: &[&str] = &[
    "@ NS ns",
    "ns A 192.0.2.1",
    "one NS ns1.one",
    "one NS ns.elsewhere.test.",
    "ns1.one A 192.0.2.2",
    "two NS ns1.two",
    "two NS NS2.Two",
    "ns1.two A 192.0.2.3",
    "ns2.two A 192.0.2.4",
    "ns2.two AAAA 2001:db8::4",
    "three NS ns1.one",
    "three NS ns1.three",
    "three NS deep.ns.three",
    "three DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000",
    "ns1.three A 192.0.2.5",
    "deep.ns.three A 192.0.2.6",
    "four NS missing.four",
    "four NS *.four",
    "*.four A 192.0.2.7",
    "text.four TXT occluded",
    "five NS 192.0.2.1",
    "host.six A 192.0.2.8",
];

fn build(lines: &[&str]) -> Zone {
    let apex: NameBuf = "test".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    let text = format!("{HEAD}{}\n", lines.join("\n"));
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    let (zone, findings) = builder.finish();
    zone.unwrap_or_else(|| panic!("{findings:?}"))
}

/// Returns everything that a lookup can see in a zone.
fn describe(zone: &Zone) -> Vec<String> {
    let mut seen = Vec::new();
    for node in zone.nodes_in_order() {
        let name = node.name().to_string().to_ascii_lowercase();
        let (children, flags) = (node.children(), node.flags());
        seen.push(format!("{name} {children} {flags}"));
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let host = zone.target(record).map(|host| {
                    let types: Vec<_> = host.rrsets().map(|rrset| rrset.rtype()).collect();
                    format!("{} {types:?}", host.name().to_string().to_ascii_lowercase())
                });
                let data = record.rdata.escape_ascii().to_string().to_ascii_lowercase();
                seen.push(format!("    {} {data} -> {host:?}", rrset.rtype()));
            }
        }
    }
    seen
}

#[test]
fn hosts_and_children_are_the_same_in_any_order_of_the_file() {
    let mut lines = LINES.to_vec();
    let zone = build(&lines);
    let expected = describe(&zone);
    let glue = "    NS \\x03ns2\\x03two\\x04test\\x00 -> Some(\"ns2.two.test. [A, AAAA]\")";
    assert!(expected.iter().any(|line| line == glue), "{expected:#?}");
    assert!(expected.iter().any(|line| line.starts_with("two.test. 2 ")));
    let mut state = 1u64;
    for round in 0..500 {
        // Similar orders first, in which nearly all glue follows its delegation.
        for _ in 0..=round / 20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (a, b) = ((state >> 33) as usize, (state >> 48) as usize);
            lines.swap(a % LINES.len(), b % LINES.len());
        }
        let other = build(&lines);
        assert_eq!(describe(&other), expected, "{lines:#?}");
        assert!(other.has_same_records(&zone));
        if round < 200 {
            lines = LINES.to_vec();
        }
    }
}
