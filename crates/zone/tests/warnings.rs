//! Warnings about zone data that is probably not intended, each at the line of its record.

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, Severity, parse_bytes, parse_file};
use nameward_zone::{Finding, ZoneBuilder};

const HEAD: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

fn findings_of(apex: &str, text: &str) -> Vec<Finding> {
    let apex: NameBuf = apex.parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
    assert!(report.diagnostics.is_empty(), "{:?}", report.diagnostics);
    builder.finish().1
}

fn lines(findings: Vec<Finding>, severity: Severity) -> Vec<String> {
    let mut sorted = findings;
    sorted.sort_by_key(|finding| finding.location.line_and_file().0);
    let wanted = sorted.into_iter().filter(|f| f.severity == severity);
    wanted
        .map(|f| format!("{}: {}", f.location.line_and_file().0, f.message))
        .collect()
}

/// Returns warnings about lines after the head, which start at line 5.
fn warnings(apex: &str, more: &str) -> Vec<String> {
    lines(
        findings_of(apex, &format!("{HEAD}{more}")),
        Severity::Warning,
    )
}

#[test]
fn a_forgotten_final_dot_is_a_warning() {
    let zone = "www A 192.0.2.1\n@ MX 10 mail.Example.org\n@ NS ns.example.org\n_a._tcp SRV 1 1 1 www.example.org\n\
                alias CNAME www.example.org\nwww.example.org A 192.0.2.1\nfine CNAME www.example.org.\n";
    let twice = "which ends in example.org. twice: is a trailing dot missing?";
    assert_eq!(
        warnings("example.org", zone),
        [
            format!("6: example.org. MX points to mail.example.org.example.org., {twice}"),
            format!("7: example.org. NS points to ns.example.org.example.org., {twice}"),
            format!("8: _a._tcp.example.org. SRV points to www.example.org.example.org., {twice}"),
            format!("9: alias.example.org. CNAME points to www.example.org.example.org., {twice}"),
            "10: www.example.org.example.org. ends in example.org. twice: is a trailing dot missing?"
                .into(),
        ]
    );
    // A normal name.
    assert!(
        warnings(
            "org",
            "org A 192.0.2.1\n@ MX 10 org\nx.org CNAME org.org.\n"
        )
        .is_empty()
    );
    assert_eq!(
        warnings(
            "2.0.192.in-addr.arpa",
            "1 PTR host.example.org\n2 PTR host.example.org.\n"
        ),
        [
            "5: 1.2.0.192.in-addr.arpa. PTR points to host.example.org.2.0.192.in-addr.arpa., which is in the reverse \
             zone: is a trailing dot missing?"
        ]
    );
}

#[test]
fn servers_of_the_zone_without_an_address_are_a_warning() {
    let zone = "@ NS gone\n@ NS elsewhere.example.\n@ NS text\ntext TXT a\n@ NS a.wild\n*.wild AAAA 2001:db8::1\n\
                @ NS ns.sub\nsub NS ns.sub\nns.sub A 192.0.2.2\n@ MX 1 b.wild\n@ MX 2 gone\n@ NS ns.delegated\n\
                delegated NS ns.elsewhere.example.\n";
    let gone = "which has no A or AAAA records";
    assert_eq!(
        warnings("example.org", zone),
        [
            format!("5: example.org. NS points to gone.example.org., {gone}"),
            format!("7: example.org. NS points to text.example.org., {gone}"),
            format!("15: example.org. MX points to gone.example.org., {gone}"),
        ]
    );
}

#[test]
fn an_address_instead_of_a_host_is_a_warning() {
    let zone = "@ MX 10 192.0.2.1\n@ MX 20 192.0.2.1.\n@ NS 192.0.2.2\nx MX 10 192.0.2.1.example.\n10.2.0.192 A 192.0.2.1\n@ MX 1 10.2.0.192\n";
    let found = "expected a host name, found an address";
    assert_eq!(
        warnings("example.org", zone),
        [
            format!("5: example.org. MX points to 192.0.2.1.example.org.: {found}"),
            format!("6: example.org. MX points to 192.0.2.1.: {found}"),
            format!("7: example.org. NS points to 192.0.2.2.example.org.: {found}"),
        ]
    );
    assert!(warnings("2.0.192.in-addr.arpa", "@ NS 1.0\n1.0 A 192.0.2.1\n").is_empty());
}

#[test]
fn warnings_have_the_line_of_their_record() {
    // The owner starts lines before, and its records are sorted by type.
    let zone = "www A 192.0.2.1\nalias CNAME www\n@ TXT a\n@ MX 10 alias\n@ A 192.0.2.1\n";
    assert_eq!(
        warnings("example.org", zone),
        ["8: example.org. MX points to alias.example.org., which is a CNAME"]
    );
    let zone = "sub DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000\nsub NS a.sub\n\
                sub NS b.sub\na.sub A 192.0.2.1\n";
    assert_eq!(
        warnings("example.org", zone),
        ["7: sub.example.org. NS b.sub.example.org. has no glue (A or AAAA records)"]
    );
    let zone = "a 60 A 192.0.2.2\na 60 A 192.0.2.3\na 30 A 192.0.2.1\nb 60 TXT x\nb 60 TXT x\n";
    assert_eq!(
        warnings("example.org", zone),
        [
            "7: a.example.org. A has different TTLs: the lowest is used",
            "9: duplicate b.example.org. TXT record: merged",
        ]
    );
}

#[test]
fn records_of_an_owner_that_comes_back_are_reported_at_their_own_lines() {
    let zone = "a 60 A 192.0.2.1\nb 60 TXT x\na 60 TXT y\nb 60 TXT z\na 30 A 192.0.2.2\nb 60 TXT x\n\
                c A 192.0.2.1\n@ MX 1 alias\nalias CNAME c\n";
    assert_eq!(
        warnings("example.org", zone),
        [
            "9: a.example.org. A has different TTLs: the lowest is used",
            "10: duplicate b.example.org. TXT record: merged",
            "12: example.org. MX points to alias.example.org., which is a CNAME",
        ]
    );
    let zone = "a A 192.0.2.1\nb CNAME c\nc A 192.0.2.1\na CNAME c\nd A 192.0.2.1\nb TXT x\n";
    assert_eq!(
        lines(
            findings_of("example.org", &format!("{HEAD}{zone}")),
            Severity::Error
        ),
        [
            "8: a.example.org. has a CNAME and A: a CNAME cannot coexist with other records",
            "10: b.example.org. has a CNAME and TXT: a CNAME cannot coexist with other records",
        ]
    );
}

#[test]
fn a_wildcard_with_ns_is_a_warning() {
    assert_eq!(
        warnings(
            "example.org",
            "*.a NS ns.other.\n* A 192.0.2.1\na NS ns.other.\n"
        )[..1],
        [
            "5: *.a.example.org. NS is a wildcard delegation: RFC 4592 leaves its meaning undefined, BIND rejects such \
             zones, and validators reject answers for the names it matches"
        ]
    );
}

#[test]
fn records_of_included_files_are_reported_with_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("main", &format!("{HEAD}$INCLUDE more\n@ MX 3 gone\n"));
    write("more", "\n@ MX 1 gone\n@ MX 2 ns\n");
    let apex: NameBuf = "example.org".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    parse_file(
        &directory.path().join("main"),
        &Options::new(apex),
        &mut builder,
    );
    let findings = builder.finish().1;
    let places: Vec<_> = findings
        .iter()
        .map(|f| f.location.line_and_file())
        .collect();
    assert_eq!(places, [(2, 1), (6, 0)], "{findings:?}");
}

#[test]
fn an_rrset_that_fits_into_no_message_is_a_warning_at_its_line() {
    let text = |octets: usize| format!("\"{}\" ", "x".repeat(250)).repeat(octets / 251);
    let one = format!("big TXT {}\n", text(65_400));
    let found = warnings("example.org", &one);
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "5: big.example.org. TXT has 65";
    assert!(
        found[0].starts_with(expected) && found[0].contains("does not fit in a DNS message"),
        "{found:?}"
    );
    let several = format!("many TXT {}\n     TXT {} y\n", text(40_000), text(40_000));
    assert_eq!(warnings("example.org", &several).len(), 1);
    let good = format!("good TXT {}\n     A 192.0.2.1\n", text(60_000));
    assert!(warnings("example.org", &good).is_empty());
}
