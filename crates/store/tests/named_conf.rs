//! Configurations of BIND: the same zones as BIND itself finds in them, and errors that say where.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use nameward_store::file::named_conf::{Files, Found, OnDisk, Remote, Taken, Zone, ZoneType, read};
use nameward_wire::NameBuf;

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
}

fn parse(text: &str, others: &[(&str, &str)]) -> Found {
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

fn names(zones: &[Zone]) -> Vec<String> {
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
fn of_several_views_the_first_for_everybody_is_taken_and_the_others_are_told() {
    let taken = bind("views");
    assert_eq!(names(&taken.zones), ["a.example.", "o.example."]);
    // What it shows of another view is what that one has.
    assert!(taken.zones[0].file.as_ref().unwrap().ends_with("views/a"));
    assert!(taken.zones[1].file.as_ref().unwrap().ends_with("views/o"));
    assert_eq!(
        taken.notes,
        [
            "the view \"in\" with 2 zones is not taken: it is for some clients only, and there are no views here",
            "the view \"last\" with 1 zone is not taken: the view \"out\" comes first, and there is one view here",
            "the view \"chaos\" with 1 zone is not taken: its class is not IN",
        ]
    );
}

#[test]
fn types_that_are_not_served_are_told_once_each() {
    let taken = bind("types");
    assert_eq!(names(&taken.zones), ["signed.example.", "p.example."]);
    assert_eq!(
        taken.notes,
        [
            "the zone signed.example. is served as in the file: the keys of BIND are not used",
            "the zone db.example. is not taken: the contents are in no file",
            "the zone d.example. is not taken: type delegation-only",
            "the zone f.example. is not taken: type forward",
            "the zone m.example. is not taken: type mirror",
            "the zone ss.example. is not taken: type static-stub",
            "the zone st.example. is not taken: type stub",
        ]
    );
    let many = "zone a { type hint; }; zone b { type hint; };";
    let note = "2 zones, a. the first of them, are not taken: type hint";
    assert_eq!(good(many).notes, [note]);
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
    assert!(has_journal("dnssec-policy default;"));
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
    if !path.exists() {
        return;
    }
    let found = read(path, &mut OnDisk);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    assert!(found.files.len() >= 4);
    let taken = found.take();
    assert!(names(&taken.zones).contains(&"localhost.".to_string()));
}
