//! Configurations of BIND: the same zones as BIND itself finds in them, and errors that say where.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use nameward_import::bind::{BindZone, NamedConf, Remote, Taken, ZoneType, read};
use nameward_import::{Files, OnDisk};
use nameward_testkit::require;
use nameward_wire::{NameBuf, zonefile::Diagnostic};

/// A configuration of several files in memory.
struct Texts(HashMap<PathBuf, String>);

impl Files for Texts {
    fn read(&mut self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).cloned();
        text.map(String::into_bytes)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn matching(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        let all = [("127.0.0.1", 8), ("::1", 128), ("192.0.2.10", 24)];
        Ok(all
            .map(|(address, bits)| (address.parse().unwrap(), bits))
            .into())
    }
}

fn parse(text: &str, others: &[(&str, &str)]) -> NamedConf {
    let mut files: HashMap<PathBuf, String> = others
        .iter()
        .map(|(path, text)| (path.into(), text.to_string()))
        .collect();
    files.insert("/etc/named.conf".into(), text.into());
    read(Path::new("/etc/named.conf"), &mut Texts(files))
}

fn good(text: &str) -> Taken {
    let found = parse(text, &[]);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    found.take()
}

fn errors(text: &str, others: &[(&str, &str)]) -> Vec<String> {
    let found = parse(text, others);
    found.diagnostics.iter().map(ToString::to_string).collect()
}

/// The warnings, without the path of the one file.
fn notes(taken: &Taken) -> Vec<String> {
    let text = |note: &Diagnostic| {
        let text = note.to_string();
        let file = text.find("named.conf:").unwrap();
        text[file + "named.conf:".len()..].to_string()
    };
    taken.notes.iter().map(text).collect()
}

fn names(zones: &[BindZone]) -> Vec<String> {
    zones.iter().map(|zone| zone.name().to_string()).collect()
}

/// Lines of `named-checkconf -l`, with names and types as we print them.
fn as_bind_lists(directory: &Path) -> BTreeSet<String> {
    let output = Command::new("named-checkconf")
        .args(["-l", "named.conf"])
        .current_dir(directory)
        .output()
        .expect("bind9-utils is installed");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {said}", directory.display());
    // Warnings, which have a line number, stand between the zones.
    let zones = said.lines().filter(|line| !line.contains(".conf:"));
    let as_ours = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        let name: NameBuf = format!("{}.", name.trim_end_matches('.')).parse().unwrap();
        let rest = rest.replace(" master", " primary");
        format!("{name} {}", rest.replace(" slave", " secondary")).to_lowercase()
    };
    zones.map(as_ours).collect()
}

#[test]
fn the_zones_are_those_that_bind_finds() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bind");
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

fn bind(name: &str) -> Taken {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bind");
    read(&all.join(name).join("named.conf"), &mut OnDisk).take()
}

#[test]
fn of_several_views_the_first_for_everybody_is_taken_and_the_others_are_reported() {
    let taken = bind("views");
    assert_eq!(names(&taken.zones), ["a.example.", "o.example."]);
    // What it shows of another view is what that one has.
    assert!(taken.zones[0].file.as_ref().unwrap().ends_with("views/a"));
    assert!(taken.zones[1].file.as_ref().unwrap().ends_with("views/o"));
    assert_eq!(
        notes(&taken),
        [
            "3:6: warning: the view \"in\" with 2 zones is not taken: it is for some clients only, and there is one view here",
            "13:6: warning: the view \"last\" with 1 zone is not taken: the view \"out\" comes first, and there is one view here",
            "14:6: warning: the view \"chaos\" with 1 zone is not taken: its class is not IN",
            "2:11: warning: recursion in options is not taken",
        ]
    );
    // Those who were meant for the other view see nothing of this one.
    for zone in &taken.zones {
        assert_eq!(who(zone), ["192.0.2.1", "192.0.2.10", "2001:db8::1"]);
    }
}

/// Clients of several kinds that may ask a zone.
fn who(zone: &BindZone) -> Vec<&'static str> {
    let clients = ["10.0.0.1", "192.0.2.1", "192.0.2.10", "2001:db8::1"];
    let may_ask = |client: &&str| {
        let client = client.parse().unwrap();
        zone.allow_query().is_none_or(|list| list.contains(client))
    };
    clients.into_iter().filter(may_ask).collect()
}

fn one_zone(rest: &str, own: &str) -> Taken {
    good(&format!(
        "{rest} zone a {{ type primary; file \"a\"; {own} }};"
    ))
}

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
            "it is for some addresses of this server only (/etc/named.conf:1:10)",
        ),
        (
            "match-recursive-only yes;",
            "it is for questions that ask for recursion (/etc/named.conf:1:10)",
        ),
        (
            "match-clients { geoip country CH; };",
            "geoip cannot be decided here (/etc/named.conf:1:26)",
        ),
    ] {
        let taken = view(rest, "");
        assert!(taken.zones.is_empty(), "{rest}");
        assert_eq!(
            notes(&taken)[0],
            format!("1:6: warning: the view \"v\" with 1 zone is not taken: {reason}")
        );
    }
}

#[test]
fn a_zone_that_cannot_be_kept_from_others_is_not_taken() {
    for (rest, own, note) in [
        (
            "",
            "allow-query-on { 192.0.2.10; };",
            "1:7: warning: the zone a. is not taken: allow-query-on is not for all addresses of this server, \
             and cannot be kept (/etc/named.conf:1:35)",
        ),
        (
            "acl ch { geoip country CH; };",
            "allow-query { ch; };",
            "1:36: warning: the zone a. is not taken: geoip cannot be decided here (/etc/named.conf:1:10)",
        ),
        (
            "options { allow-query-on { localhost; }; };",
            "",
            "1:50: warning: the zone a. is not taken: allow-query-on is not for all addresses of this server, \
             and cannot be kept (/etc/named.conf:1:11)",
        ),
    ] {
        let taken = one_zone(rest, own);
        assert!(taken.zones.is_empty());
        assert_eq!(notes(&taken), [note]);
    }
    // Nobody has shown that he has a key, so a key lets nobody in.
    let taken = one_zone("", "allow-query { key k; 10/8; };");
    assert_eq!(who(&taken.zones[0]), ["10.0.0.1"]);
    assert_eq!(notes(&taken).len(), 1);
    assert!(
        notes(&taken)[0].starts_with("1:49: warning: a key in a list of clients matches nobody")
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
    let reason = "a. is not taken: BIND signs the copy of another server (inline-signing)";
    let notes = notes(&taken);
    assert!(notes.iter().any(|note| note.contains(reason)), "{notes:?}");
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

#[test]
fn what_is_not_taken_is_listed_once_with_its_place() {
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
            "3:2: warning: listen-on in options is not taken",
            "5:1: warning: logging is not taken",
            "6:34: warning: allow-transfer in a zone is not taken, here and 2 times more",
            "8:27: warning: notify in a zone is not taken",
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
        .filter_map(|note| Some(note.split_once("the zone")?.1))
        .collect();
    assert_eq!(
        zones,
        [
            " f.example. is not taken: type forward",
            " st.example. is not taken: type stub",
            " ss.example. is not taken: type static-stub",
            " d.example. is not taken: type delegation-only",
            " m.example. is not taken: type mirror",
            " db.example. is not taken: the contents are in no file",
        ]
    );
    let many = "zone a { type hint; };\nzone b { type hint; };";
    assert_eq!(
        notes(&good(many)),
        ["1:6: warning: the zones a., b. are not taken: type hint"]
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
fn relative_files_start_at_the_directory_wherever_it_is_said() {
    let zone = "zone a { type master; file \"db/a\"; };\n";
    let file = |text: &str| good(text).zones[0].file.clone().unwrap();
    assert_eq!(file(zone), Path::new("/etc/db/a"));
    let after = format!("{zone}options {{ directory \"/var/zones\"; }};");
    assert_eq!(file(&after), Path::new("/var/zones/db/a"));
    let relative = format!("options {{ directory \"zones\"; }}; {zone}");
    assert_eq!(file(&relative), Path::new("/etc/zones/db/a"));
}

#[test]
fn errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        (
            "zone \"a\" {\n type master\n}",
            "3:1: error: expected ';' before '}'",
        ),
        (
            "zone \"a\" {\n type master;\n",
            "1:10: error: this '{' is not closed: expected '}'",
        ),
        (
            "zone a { type master; file \"a\"; }\nzone b { };",
            "2:1: error: expected ';' after '}', found 'zone'",
        ),
        (
            "zone a { type master; file \"a; };",
            "1:28: error: this string has no end: expected '\"'",
        ),
        (
            "\n  /* zone",
            "2:3: error: this comment has no end: expected '*/'",
        ),
        (
            "zone a { type owner; };",
            "1:15: error: expected primary, secondary or another type, found 'owner'",
        ),
        (
            "zone a { type primary; };",
            "1:6: error: the zone a. has no file",
        ),
        (
            "zone a { file \"x\"; };",
            "1:6: error: the zone a. has no type",
        ),
        (
            "zone a..b { type hint; };",
            "1:6: error: expected the name of a zone, found 'a..b': ",
        ),
        (
            "zone a { type hint; };\nzone \"A.\" { type hint; };",
            "2:6: error: the zone A. is defined twice",
        ),
        (
            "zone { type hint; };",
            "1:1: error: expected the name of the zone, found '{'",
        ),
        (
            "zone a IM { type hint; };",
            "1:8: error: expected a class or '{', found 'IM'",
        ),
        (
            "zone a IN now { type hint; };",
            "1:11: error: expected '{', found 'now'",
        ),
        ("zone a;", "1:7: error: expected '{', found ';'"),
        (
            "zne a { };",
            "1:1: error: expected zone, view, options or another statement, found 'zne'",
        ),
        ("options { }; }", "1:14: error: this '}' closes nothing"),
        ("{ };", "1:1: error: expected a statement, found '{'"),
        (
            "zone a { type slave; masters { b; }; };",
            "1:32: error: expected an address or the name of a list, found 'b'",
        ),
        (
            "masters b { b; }; zone a { type slave; masters { b; }; };",
            "1:13: error: more than 8 lists in each other: does 'b' name itself?",
        ),
        (
            "zone a { type slave; masters port x { 192.0.2.1; }; };",
            "1:35: error: expected a port, found 'x'",
        ),
        (
            "zone a { type hint; allow-query { b; }; };",
            "1:35: error: expected an address or the name of a list, found 'b'",
        ),
        (
            "acl b { { b; }; }; zone a { type hint; allow-query { b; }; };",
            "1:11: error: the list 'b' holds itself",
        ),
        (
            "zone a { type hint; allow-query { 10.0.0.1/8; }; };",
            "1:35: error: '10.0.0.1/8': the address has bits behind its prefix",
        ),
        (
            "zone a { type hint; allow-query { 10/33; }; };",
            "1:35: error: '10/33': the prefix is too long",
        ),
        ("acl any { };", "1:5: error: 'any' is built in"),
        (
            "acl b { }; acl B { };",
            "1:12: error: a list of this name is there already",
        ),
        (
            "options { blackhole { geoip country CH; }; };",
            "1:23: error: geoip cannot be decided here",
        ),
        (
            "include \"/nowhere\";",
            "1:9: error: cannot read /nowhere: ",
        ),
        (
            "include \"/no*where\";",
            "1:9: error: no file has a name like '/no*where'",
        ),
        (
            "include \"named.conf\";",
            "1:9: error: /etc/named.conf includes itself",
        ),
    ] {
        let errors = errors(text, &[]);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        let expected = format!("/etc/named.conf:{expected}");
        assert!(
            errors[0].starts_with(&expected),
            "{text}: {} {expected}",
            errors[0]
        );
    }
}

#[test]
fn an_error_in_an_included_file_names_that_file() {
    let found = errors(
        "include \"/etc/local\";",
        &[("/etc/local", "\nzone a {;};")],
    );
    assert_eq!(found, ["/etc/local:2:6: error: the zone a. has no type"]);
}

#[test]
fn what_would_never_end_is_bounded() {
    let deep = "a {".repeat(40);
    assert!(errors(&deep, &[])[0].contains("more than 32 blocks in each other"));
    // Files that include each other, each under another name.
    let files: Vec<(String, String)> = (0..40)
        .map(|n| {
            (
                format!("/etc/{n}"),
                format!("include \"/etc/{}\"; include \"/etc/{}\";", n + 1, n + 1),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let found = errors("include \"/etc/0\";", &files);
    assert!(
        found[0].contains("more than 16 files include each other"),
        "{found:?}"
    );
    assert!(found.len() <= 20);
    // Lists of lists that hold nothing.
    let mut text: String = (0..6)
        .map(|n| format!("masters l{n} {{ {} }};", format!("l{};", n + 1).repeat(20)))
        .collect();
    text.push_str("masters l6 { }; zone a { type slave; masters { l0; }; };");
    assert!(errors(&text, &[])[0].contains("more than 1000 servers"));
    let many = "zone a { };".repeat(1000);
    assert_eq!(errors(&many, &[]).len(), 20);
}

#[test]
fn the_package_of_debian_is_read() {
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
