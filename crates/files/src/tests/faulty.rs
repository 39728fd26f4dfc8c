//! Tests of versions with faults: rejected or warned about, with line numbers, while the previous version
//! stays.

use super::*;

#[test]
fn a_broken_new_version_keeps_the_old_one_and_says_where() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fixture.write("one.example.zone", BROKEN);
    for _ in 0..2 {
        // Each load rejects it again until it is fixed.
        let result = fixture.load();
        assert_eq!(result.refused[0], "one.example. OldVersion");
        assert!(
            result.refused[1].contains("one.example.zone:4:"),
            "{:?}",
            result.refused
        );
        assert!(fixture.has("ns.one.example"));
    }
    fixture.write("one.example.zone", GOOD);
    assert_eq!(fixture.load().summary.loaded, 1);
}

#[test]
fn a_broken_first_version_is_not_served_and_others_are() {
    let mut fixture = Fixture::new();
    fixture.write("bad.example.zone", BROKEN);
    fixture.write("good.example.zone", GOOD);
    let result = fixture.load();
    assert_eq!(result.refused[0], "bad.example. NotReady");
    assert_eq!(fixture.served(), ["good.example."]);
    assert_eq!(fixture.not_ready(), ["bad.example."]);
    fixture.write("bad.example.zone", GOOD);
    fixture.load();
    assert_eq!(fixture.served(), ["bad.example.", "good.example."]);
}

#[test]
fn a_broken_first_version_that_is_removed_leaves_nothing() {
    let mut fixture = Fixture::new();
    fixture.write("bad.example.zone", BROKEN);
    fixture.load();
    fs::remove_file(fixture.path("bad.example.zone")).unwrap();
    assert_eq!(fixture.load().removed, ["bad.example."]);
    assert!(fixture.table.load().is_empty());
}

#[test]
fn a_zone_without_soa_is_refused_by_the_checks() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", "$TTL 1\n@ NS ns\n");
    let result = fixture.load();
    assert_eq!(result.summary.refused, 1);
    assert!(result.refused[1].contains("SOA"), "{:?}", result.refused);
}

#[test]
fn a_serial_that_stays_or_goes_back_while_contents_change_is_reported_at_its_line() {
    let mut fixture = Fixture::new();
    let version = |serial: u32, more: &str| {
        format!("$TTL 300\n\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{more}")
    };
    let mut warnings = |text: &str| {
        fixture.write("one.example.zone", text);
        let result = fixture.load();
        assert_eq!(result.summary.loaded, 1);
        let warnings = result.warnings.iter().map(|line| {
            let place = line.rsplit('/').next().unwrap_or_default();
            place.to_string()
        });
        warnings.collect::<Vec<_>>()
    };
    assert!(warnings(&version(7, "")).is_empty());
    // Touched, and different text for the same records.
    assert!(warnings(&version(7, "")).is_empty());
    assert!(
        warnings(&version(7, "ns A 192.0.2.1 ; again\n").replace("ns A 192.0.2.1\n", ""))
            .is_empty()
    );
    assert_eq!(
        warnings(&version(7, "new A 192.0.2.2\n")),
        [
            "one.example.zone:3: warning: the contents changed but the serial is still 7: secondaries will not \
             transfer this version"
        ]
    );
    assert_eq!(
        warnings(&version(5, "new A 192.0.2.2\n")),
        [
            "one.example.zone:3: warning: the serial decreased from 7 to 5: secondaries will not transfer this version"
        ]
    );
    assert!(warnings(&version(6, "newer A 192.0.2.2\n")).is_empty());
    assert!(warnings(&version(6 + 0x7fff_ffff, "")).is_empty());
    assert!(warnings(&version(2, "")).is_empty());
}

#[test]
fn a_zone_that_grows_too_large_is_refused_at_its_line_and_the_old_version_stays() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fixture.sources[0].limits.zone.octets = 1 << 20;
    // Within the limits of one line and of all lines together, but not of the zone; then not of the lines.
    let name = "a.".repeat(100);
    let deep = format!("{GOOD}; one more line\n$GENERATE 1-2000 {name}$.b.b.b A 192.0.2.1\n");
    let strings = "\"0123456789\" ".repeat(20);
    let long = format!("{GOOD}$GENERATE 1-100000 h$ TXT {strings}\n");
    for (generated, text, place, message) in [
        (2 << 20, deep, "zone:6: error: ", "(zone_max_mb)"),
        (1 << 19, long, "zone:5:1: error: ", "(generated_max_mb"),
    ] {
        fixture.sources[0].limits.generated_octets = generated;
        fixture.write("one.example.zone", &text);
        let result = fixture.load();
        assert_eq!(result.refused[0], "one.example. OldVersion");
        let refused = &result.refused[1];
        assert!(
            refused.contains(place) && refused.contains(message),
            "{refused}"
        );
        assert!(fixture.has("ns.one.example"));
    }
}
