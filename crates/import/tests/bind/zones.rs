//! The zones of a configuration: views, types, files, servers, signed copies.

use super::*;

#[test]
fn the_zones_are_those_that_bind_finds() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bind/conf");
    let mut count = 0;
    for entry in fs::read_dir(all).unwrap() {
        let directory = entry.unwrap().path();
        let found = read(&directory.join("named.conf"), &mut OnDisk);
        let shown = directory.display();
        assert!(
            found.diagnostics.is_empty(),
            "{shown}: {:?}",
            found.diagnostics
        );
        let ours: BTreeSet<String> = found.list().iter().map(|l| l.to_lowercase()).collect();
        assert_eq!(ours, as_bind_lists(&directory), "{shown}");
        count += 1;
    }
    assert!(count >= 7);
}

#[test]
fn of_several_views_each_zone_is_a_version_for_its_view() {
    let taken = bind("views");
    let expected = [
        ("a.example..in", "views/a"),
        ("i.example..in", "views/i"),
        ("o.example..out", "views/o"),
        ("o.example..last", "views/o2"),
    ];
    assert_eq!(names(&taken.zones), expected.map(|(name, _)| name));
    for (zone, (_, file)) in taken.zones.iter().zip(expected) {
        assert!(zone.file.as_ref().unwrap().ends_with(file));
    }
    let views: Vec<_> = { taken.views.iter() }
        .map(|view| {
            let zones: Vec<_> = view.zones.iter().map(ToString::to_string).collect();
            (view.name.as_str(), zones.join(" "))
        })
        .collect();
    // What a view shows of another one is what that one has.
    assert_eq!(
        views,
        [
            ("in", "a.example..in i.example..in".to_owned()),
            ("out", "a.example..in o.example..out".to_owned()),
            ("last", "o.example..last".to_owned()),
        ]
    );
    assert_eq!(
        notes(&taken),
        [
            "2:11: warning: recursion in options ignored",
            "14:6: warning: view \"chaos\" with 1 zone ignored: class is not IN",
            "14:24: warning: zone bind. ignored: the class is not IN",
        ]
    );
}

#[test]
fn after_a_view_whose_clients_are_unknown_none_is_served() {
    let view = |name: &str, rule: &str| {
        format!("view {name} {{ {rule} zone a {{ type primary; file \"{name}\"; }}; }};\n")
    };
    let text = [
        view("one", "match-clients { 10/8; };"),
        view("two", "match-clients { geoip country DE; };"),
        view("three", ""),
    ];
    let taken = good(&text.concat());
    assert_eq!(names(&taken.zones), ["a..one"]);
    assert_eq!(taken.views.len(), 1);
    let notes = notes(&taken);
    assert!(
        notes[0].contains("view \"two\" with 1 zone ignored: "),
        "{notes:?}"
    );
    assert!(
        notes[1].contains(
            "view \"three\" with 1 zone ignored: its clients depend on those of view \"two\""
        ),
        "{notes:?}"
    );
}

#[test]
fn a_zone_that_bind_signs_is_taken_from_its_signed_copy() {
    for (rest, own, copy) in [
        ("", "dnssec-policy default;", Some("a.signed")),
        ("", "dnssec-policy default; inline-signing no;", Some("a")),
        (
            "",
            "dnssec-policy default; allow-update { 192.0.2.1; };",
            Some("a"),
        ),
        (
            "",
            "dnssec-policy default; inline-signing yes; allow-update { 192.0.2.1; };",
            Some("a.signed"),
        ),
        (
            "",
            "inline-signing yes; dnssec-policy none;",
            Some("a.signed"),
        ),
        ("", "auto-dnssec maintain;", Some("a.signed")),
        ("options { dnssec-policy default; };", "", Some("a.signed")),
        (
            "options { dnssec-policy default; };",
            "dnssec-policy none;",
            None,
        ),
        ("", "dnssec-policy insecure;", None),
        ("", "auto-dnssec off;", None),
    ] {
        let taken = one_zone(rest, own);
        let [zone] = &taken.zones[..] else {
            panic!("{rest} {own}: {:?}", taken.zones);
        };
        assert_eq!(zone.is_signed_copy(), copy.is_some(), "{rest} {own}");
        let file = zone.file.as_ref().unwrap().file_name().unwrap();
        assert_eq!(file, copy.unwrap_or("a"), "{rest} {own}");
    }
    let taken = good(
        "zone a { type secondary; primaries { 192.0.2.1; }; file \"a\"; inline-signing yes; };",
    );
    assert!(taken.zones.is_empty());
    let reason = "a. ignored: BIND signs a transferred zone (inline-signing)";
    let notes = notes(&taken);
    assert!(notes.iter().any(|note| note.contains(reason)), "{notes:?}");
}

#[test]
fn unsupported_settings_are_listed_once_with_their_location() {
    let taken = good(
        "options {\n directory \"/z\";\n listen-on { any; };\n};\nlogging { };\n\
         zone a { type primary; file \"a\"; allow-transfer { any; }; };\n\
         zone b { type primary; file \"b\";\n ALLOW-TRANSFER { any; }; notify no; };\n\
         zone c { type primary; file \"c\"; allow-transfer { any; }; };\n",
    );
    assert_eq!(taken.zones.len(), 3);
    assert_eq!(
        notes(&taken),
        [
            "3:2: warning: listen-on in options ignored",
            "5:1: warning: logging ignored",
            "6:34: warning: allow-transfer in a zone ignored, here and 2 more times",
            "8:27: warning: notify in a zone ignored",
        ]
    );
}

#[test]
fn types_that_are_not_served_are_reported_once_each() {
    let taken = bind("types");
    assert_eq!(names(&taken.zones), ["signed.example.", "p.example."]);
    let zones = notes(&taken);
    let zones: Vec<&str> = zones
        .iter()
        .filter_map(|note| Some(note.split_once(" warning: zone")?.1))
        .collect();
    assert_eq!(
        zones,
        [
            " f.example. ignored: type forward",
            " st.example. ignored: type stub",
            " ss.example. ignored: type static-stub",
            " d.example. ignored: type delegation-only",
            " m.example. ignored: type mirror",
            " db.example. ignored: no zone file",
        ]
    );
    let many = "zone a { type hint; };\nzone b { type hint; };";
    assert_eq!(
        notes(&good(many)),
        ["1:6: warning: zones a., b. ignored: type hint"]
    );
}

fn remote(address: &str, key: Option<&str>) -> Remote {
    Remote {
        address: address.parse::<SocketAddr>().unwrap(),
        key: key.map(Into::into),
        tls: None,
    }
}

#[test]
fn servers_are_resolved_through_lists_with_their_ports_and_keys() {
    let taken = bind("remotes");
    let [s, s2, p] = &taken.zones[..] else {
        panic!("{:?}", taken.zones);
    };
    assert_eq!(
        (s.kind, s2.kind),
        (Some(ZoneType::Secondary), Some(ZoneType::Secondary))
    );
    assert_eq!(
        s.primaries,
        [
            remote("192.0.2.1:5300", None),
            remote("[2001:db8::1]:54", Some("k.")),
            remote("192.0.2.2:5300", Some("k.")),
        ]
    );
    assert_eq!(s.also_notify, [remote("192.0.2.9:53", None)]);
    assert_eq!(s2.primaries[0], remote("192.0.2.3:99", None));
    assert_eq!(s2.primaries[1].tls.as_deref(), Some("ephemeral"));
    assert_eq!(s2.file, None);
    assert_eq!(
        p.also_notify,
        [
            remote("192.0.2.2:53", Some("k.")),
            remote("192.0.2.5:5", None)
        ]
    );
}

#[test]
fn zones_that_others_change_may_have_a_journal() {
    let has_journal = |text: &str| {
        let text = format!("zone a {{ type primary; file \"a.db\"; {text} }};");
        good(&text).zones[0].journal().is_some()
    };
    assert!(!has_journal(""));
    assert!(!has_journal("allow-update { none; };"));
    assert!(has_journal("allow-update { key k; };"));
    assert!(has_journal("update-policy local;"));
    let copy = "zone a { type slave; masters { 192.0.2.1; }; file \"a.db\"; };";
    let journal = good(copy).zones[0].journal();
    assert_eq!(journal.as_deref(), Some(Path::new("/etc/a.db.jnl")));
}

#[test]
fn relative_files_are_below_the_directory_wherever_it_is_set() {
    let zone = "zone a { type master; file \"db/a\"; };\n";
    let file = |text: &str| good(text).zones[0].file.clone().unwrap();
    assert_eq!(file(zone), Path::new("/etc/db/a"));
    let after = format!("{zone}options {{ directory \"/var/zones\"; }};");
    assert_eq!(file(&after), Path::new("/var/zones/db/a"));
    let relative = format!("options {{ directory \"zones\"; }}; {zone}");
    assert_eq!(file(&relative), Path::new("/etc/zones/db/a"));
}

#[test]
fn the_configuration_of_the_debian_package_is_read() {
    let path = Path::new("/etc/bind/named.conf");
    if require(path.exists().then_some(()), "the configuration of bind9").is_none() {
        return;
    }
    let found = read(path, &mut OnDisk);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    assert!(found.files.len() >= 4);
    let taken = found.take();
    assert!(names(&taken.zones).contains(&"localhost.".to_string()));
}
