//! Lists of clients: kept at every level, or the zone is not taken.

use super::*;

#[test]
fn lists_of_clients_are_kept_at_every_level() {
    let everybody = ["10.0.0.1", "192.0.2.1", "192.0.2.10", "2001:db8::1"];
    for (rest, own, expected) in [
        ("", "", &everybody[..]),
        ("", "allow-query { any; };", &everybody),
        ("", "allow-query { none; };", &[]),
        ("", "allow-query { };", &[]),
        ("", "allow-query { 10/8; };", &["10.0.0.1"]),
        ("", "allow-query { 10.0.0.0 / 8; };", &["10.0.0.1"]),
        (
            "",
            "ALLOW-QUERY { !192.0.2.10; 192.0.2/24; };",
            &["192.0.2.1"],
        ),
        (
            "",
            "allow-query { ! { 10/8; 192.0.2.0/24; }; any; };",
            &["2001:db8::1"],
        ),
        // What a list in a list leaves out is not matched by it, so that the next entry decides.
        (
            "",
            "allow-query { { !192.0.2.1; 192.0.2/24; }; 192.0.2.1; };",
            &["192.0.2.1", "192.0.2.10"],
        ),
        ("", "allow-query { !none; };", &everybody),
        ("", "allow-query { localhost; };", &["192.0.2.10"]),
        (
            "",
            "allow-query { LocalNets; };",
            &["192.0.2.1", "192.0.2.10"],
        ),
        (
            "",
            "allow-query { !localhost; localnets; 2001:db8::/32; };",
            &["192.0.2.1", "2001:db8::1"],
        ),
        // Names of lists may come later, in any case.
        (
            "acl inner { 10/8; }; acl \"Outer\" { INNER; 2001:db8::1; };",
            "allow-query { outer; };",
            &["10.0.0.1", "2001:db8::1"],
        ),
        ("options { allow-query { 10/8; }; };", "", &["10.0.0.1"]),
        (
            "options { allow-query { 10/8; }; };",
            "allow-query { any; };",
            &everybody,
        ),
        (
            "options { allow-query { any; }; };",
            "allow-query { 10/8; };",
            &["10.0.0.1"],
        ),
        (
            "",
            "allow-query { 10/8; }; allow-query-on { any; };",
            &["10.0.0.1"],
        ),
    ] {
        let taken = one_zone(rest, own);
        assert_eq!(who(&taken.zones[0]), expected, "{rest} {own}");
        assert!(taken.notes.is_empty(), "{:?}", taken.notes);
    }
    let view = "options { allow-query { none; }; }; view v { allow-query { 10/8; }; zone a { type primary; file \"a\"; }; };";
    assert_eq!(who(&good(view).zones[0]), ["10.0.0.1"]);
}

#[test]
fn a_single_view_is_taken_for_its_own_clients() {
    let view = |rest: &str, own: &str| {
        good(&format!(
            "view v {{ {rest} zone a {{ type primary; file \"a\"; {own} }}; }};"
        ))
    };
    let taken = view("match-clients { 10/8; 192.0.2.1; };", "");
    assert_eq!(who(&taken.zones[0]), ["10.0.0.1", "192.0.2.1"]);
    let taken = view(
        "match-clients { 10/8; 192.0.2.1; };",
        "allow-query { 192.0.2/24; };",
    );
    assert_eq!(who(&taken.zones[0]), ["192.0.2.1"]);
    for (rest, reason) in [
        (
            "match-destinations { 192.0.2.1; };",
            "match-destinations is not \"any\" (/etc/named.conf:1:10)",
        ),
        (
            "match-recursive-only yes;",
            "match-recursive-only (/etc/named.conf:1:10)",
        ),
        (
            "match-clients { geoip country CH; };",
            "geoip is not supported (/etc/named.conf:1:26)",
        ),
    ] {
        let taken = view(rest, "");
        assert!(taken.zones.is_empty(), "{rest}");
        assert_eq!(
            notes(&taken)[0],
            format!("1:6: warning: view \"v\" with 1 zone ignored: {reason}")
        );
    }
}

#[test]
fn a_zone_that_cannot_be_kept_from_others_is_not_taken() {
    for (rest, own, note) in [
        (
            "",
            "allow-query-on { 192.0.2.10; };",
            "1:7: warning: zone a. ignored: allow-query-on does not include all addresses of this server, which is \
             not supported (/etc/named.conf:1:35)",
        ),
        (
            "acl ch { geoip country CH; };",
            "allow-query { ch; };",
            "1:36: warning: zone a. ignored: geoip is not supported (/etc/named.conf:1:10)",
        ),
        (
            "options { allow-query-on { localhost; }; };",
            "",
            "1:50: warning: zone a. ignored: allow-query-on does not include all addresses of this server, which \
             is not supported (/etc/named.conf:1:11)",
        ),
    ] {
        let taken = one_zone(rest, own);
        assert!(taken.zones.is_empty());
        assert_eq!(notes(&taken), [note]);
    }
    // No client has proven to have a key, so a key grants no access.
    let taken = one_zone("", "allow-query { key k; 10/8; };");
    assert_eq!(who(&taken.zones[0]), ["10.0.0.1"]);
    assert_eq!(notes(&taken).len(), 1);
    assert!(
        notes(&taken)[0].starts_with("1:49: warning: a key in a client list matches no queries")
    );
}

#[test]
fn the_clients_that_bind_drops_are_kept() {
    let taken = good("acl bad { 10/8; }; options { blackhole { !10.0.0.2; bad; }; };");
    let list = taken.blackhole.unwrap();
    assert!(list.contains("10.0.0.1".parse().unwrap()));
    assert!(!list.contains("10.0.0.2".parse().unwrap()));
    assert!(
        good("options { blackhole { none; }; };")
            .blackhole
            .is_none()
    );
}
