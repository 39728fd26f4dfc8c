//! A reused builder yields the same result as a new one, whatever the previous zone was.

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, Severity, parse_bytes};
use nameward_zone::{Zone, ZoneBuilder, ZoneLimits};

const HEAD: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

/// Zones that leave as much state as possible in a builder: apex, text, record limit.
fn zones() -> Vec<(&'static str, String, u64)> {
    let many: String = (0..3000).map(|n| format!("h{n} A 192.0.2.2\n")).collect();
    let deep = "a.b.c.d TXT deep\n*.w A 192.0.2.3\n";
    let late = "x A 192.0.2.1\ny A 192.0.2.2\nx A 192.0.2.3\n";
    let cut = "sub NS ns.sub\nsub NS ns.other\nns.sub A 192.0.2.4\nns.below.sub TXT hidden\n";
    vec![
        ("example.", format!("{HEAD}{deep}"), u64::MAX),
        ("example.", format!("{HEAD}{many}"), u64::MAX),
        ("sub.example.org.", format!("{HEAD}{late}{cut}"), u64::MAX),
        ("example.", format!("{HEAD}{cut}"), u64::MAX),
        ("example.", format!("{HEAD}{many}"), 1000),
        ("example.", "www A 192.0.2.1\n".into(), u64::MAX),
        (
            "example.",
            format!("{HEAD}c CNAME ns\nc A 192.0.2.1\n"),
            u64::MAX,
        ),
        (
            ".",
            format!("{HEAD}m MX 10 192.0.2.1.\nm MX 20 nowhere\n"),
            u64::MAX,
        ),
    ]
}

fn fill(builder: &mut ZoneBuilder, apex: &str, text: &str, records: u64) {
    builder.set_limits(ZoneLimits {
        records,
        ..ZoneLimits::default()
    });
    let apex: NameBuf = apex.parse().unwrap();
    parse_bytes("zone", text.as_bytes(), &Options::new(apex), builder);
}

/// Returns everything about a zone that could differ.
fn facts(zone: Option<&Zone>) -> Option<(String, usize, usize)> {
    zone.map(|zone| {
        (
            zone.apex_name().to_string(),
            zone.name_count(),
            zone.heap_bytes(),
        )
    })
}

#[test]
fn a_used_builder_makes_the_same_zones_and_findings_as_a_new_one() {
    for (first_apex, first, first_limit) in zones() {
        for (apex, text, limit) in zones() {
            let name: NameBuf = apex.parse().unwrap();
            let mut fresh = ZoneBuilder::new(name.as_name());
            fill(&mut fresh, apex, &text, limit);
            let place = fresh.soa_location();
            let (expected, expected_findings) = fresh.finish();

            let first_name: NameBuf = first_apex.parse().unwrap();
            let mut used = ZoneBuilder::new(first_name.as_name());
            for is_ended in [true, false] {
                used.restart(first_name.as_name(), first.len());
                used.tolerate_broken_names();
                used.skip_warnings();
                used.add_empty(first_name.as_name());
                used.add_broken(first_name.as_name(), None);
                fill(&mut used, first_apex, &first, first_limit);
                if is_ended {
                    used.end();
                }
                used.restart(name.as_name(), text.len());
                fill(&mut used, apex, &text, limit);
                assert_eq!(used.soa_location(), place);
                let (zone, findings) = used.end();
                let context = format!("{first:.60} then {text:.60}");
                assert_eq!(
                    format!("{findings:?}"),
                    format!("{expected_findings:?}"),
                    "{context}"
                );
                assert_eq!(facts(zone.as_ref()), facts(expected.as_ref()), "{context}");
                if let (Some(zone), Some(expected)) = (&zone, &expected) {
                    assert!(zone.has_same_records(expected), "{context}");
                }
            }
        }
    }
}

#[test]
fn a_builder_that_ignores_warnings_makes_the_same_zone_and_reports_errors_only() {
    for (apex, text, limit) in zones() {
        let name: NameBuf = apex.parse().unwrap();
        let [mut whole, mut silent] = [(); 2].map(|()| ZoneBuilder::new(name.as_name()));
        silent.skip_warnings();
        fill(&mut whole, apex, &text, limit);
        fill(&mut silent, apex, &text, limit);
        let ((expected, reported), (zone, findings)) = (whole.finish(), silent.finish());
        let errors = reported
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<_> = errors.map(|finding| format!("{finding:?}")).collect();
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| format!("{finding:?}"))
            .collect();
        assert_eq!(findings, errors, "{text:.60}");
        assert_eq!(facts(zone.as_ref()), facts(expected.as_ref()), "{text:.60}");
    }
}
