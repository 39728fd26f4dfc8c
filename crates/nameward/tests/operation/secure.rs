//! Zones of files and secondaries that an operator has signed: secure for other implementations, through edits, restarts
//! and transfers, and with keys that come from elsewhere.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::{Setup, TestServer};

use super::ask::{eventually, has_record, serial};

const ZONE: &str = "$TTL 300\n@ SOA ns1 hostmaster 10 3600 600 86400 60\n@ NS ns1\n@ MX 10 mail\nns1 A 192.0.2.1\n\
    mail A 192.0.2.2\n*.wild TXT \"any\"\ndeep.er.names A 192.0.2.3\nchild NS ns.child\nns.child A 192.0.2.4\n\
    alias CNAME mail\n";

fn command(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// A command that has to succeed.
pub fn done(server: &TestServer, arguments: &[&str]) -> String {
    let (code, text) = command(server, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}\n{}", server.log());
    text
}

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

/// The DS of a zone as `nameward zone ds` prints it, as an anchor of BIND.
pub fn write_anchor(server: &TestServer, zone: &str, path: &Path) {
    let printed = done(server, &["zone", "ds", zone]);
    let ds = printed.lines().find(|line| line.contains(" IN DS "));
    let ds = ds.unwrap_or_else(|| panic!("no DS in {printed}"));
    let words: Vec<&str> = ds.split(" IN DS ").nth(1).unwrap().split(' ').collect();
    let [tag, algorithm, digest_type, digest @ ..] = &words[..] else {
        panic!("{ds}");
    };
    let digest = digest.concat();
    let text = format!(
        "trust-anchors {{ \"{zone}\" static-ds {tag} {algorithm} {digest_type} \"{digest}\"; }};\n"
    );
    fs::write(path, text).unwrap();
}

/// Returns the judgement of BIND's validator on an answer.
pub fn delv(at: SocketAddr, (zone, anchor): (&str, &Path), question: &[&str]) -> String {
    let (ip, port, root) = (
        format!("@{}", at.ip()),
        at.port().to_string(),
        format!("+root={zone}"),
    );
    let anchor = anchor.to_str().unwrap();
    let mut arguments = vec![ip.as_str(), "-p", &port, "-a", anchor, &root];
    arguments.extend(question);
    run("delv", &arguments).1
}

fn check_answers(at: SocketAddr, zone: &str, anchor: &Path) {
    let name = |label: &str| format!("{label}.{zone}");
    for (owner, rtype, expected) in [
        (zone.to_string(), "SOA", "; fully validated"),
        (zone.to_string(), "DNSKEY", "; fully validated"),
        (zone.to_string(), "CDS", "; fully validated"),
        (name("mail"), "A", "; fully validated"),
        (name("alias"), "A", "; fully validated"),
        (name("x.wild"), "TXT", "; fully validated"),
        (name("mail"), "AAAA", "; negative response, fully validated"),
        (name("no"), "A", "; negative response, fully validated"),
        (
            name("er.names"),
            "A",
            "; negative response, fully validated",
        ),
        (name("x.wild"), "A", "; negative response, fully validated"),
        (name("child"), "DS", "; negative response, fully validated"),
    ] {
        let said = delv(at, (zone, anchor), &[&owner, rtype]);
        assert!(said.contains(expected), "{owner} {rtype}: {said}");
    }
}

/// The zone by AXFR passes the checks of BIND, ldns and Knot.
pub fn check_transfer(at: SocketAddr, zone: &str, directory: &Path) {
    let (ip, port) = (format!("@{}", at.ip()), at.port().to_string());
    let (is_good, text) = run(
        "dig",
        &[&ip, "-p", &port, "+onesoa", "+nocomments", zone, "AXFR"],
    );
    assert!(is_good && text.contains("RRSIG"), "{text}");
    let path = directory.join(format!("{zone}.axfr"));
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    for (program, arguments) in [
        ("dnssec-verify", vec!["-z", "-o", zone, path]),
        ("ldns-verify-zone", vec![path]),
        ("kzonecheck", vec!["-o", zone, "-d", "on", path]),
    ] {
        let (is_good, said) = run(program, &arguments);
        assert!(is_good, "{program}: {said}");
    }
}

/// Two zones, a state directory that outlives the server, and the directory with all.
fn start(home: &Path) -> TestServer {
    setup(home).start()
}

fn setup(home: &Path) -> Setup {
    setup_with_page(home).without_web()
}

fn setup_with_page(home: &Path) -> Setup {
    let state = home.join("state");
    let zone = |name: &str| home.join(format!("{name}.zone"));
    let mut config = format!("[server]\nstate_directory = {state:?}\n");
    for name in ["one.test", "two.test"] {
        let path = zone(name);
        if !path.exists() {
            fs::write(&path, ZONE).unwrap();
        }
        config.push_str(&format!(
            "[[zone]]\nname = \"{name}\"\nfile = {path:?}\nallow_transfer = [\"127.0.0.1\"]\n"
        ));
    }
    Setup::new().config(&config)
}

/// The reason for which a server did not start with zones that it would have to leave unsigned.
fn reason_of_no_start(home: &Path) -> String {
    match setup(home).try_start() {
        Ok(server) => panic!("started: {}", server.log()),
        Err(failure) => {
            let reason = failure.stderr;
            assert!(reason.contains("would be served unsigned"), "{reason}");
            reason
        }
    }
}

/// Returns the answer of dig to a query with DO.
pub fn dig(at: SocketAddr, question: &[&str]) -> String {
    let (ip, port) = (format!("@{}", at.ip()), at.port().to_string());
    let arguments = [&[ip.as_str(), "-p", &port, "+dnssec"], question].concat();
    run("dig", &arguments).1
}

#[test]
fn a_server_that_cannot_open_the_store_of_its_keys_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let first = start(home.path());
    // Nothing is signed yet: a second server has no journal, but serves.
    let second = start(home.path());
    assert!(
        second
            .log()
            .contains("changes are not written to the journal")
    );
    assert!(has_record(second.address(), "mail.one.test", "A"));
    assert!(second.stop().success());
    done(&first, &["zone", "secure", "one.test"]);
    let reason = reason_of_no_start(home.path());
    assert!(reason.contains("another server is using"), "{reason}");
    assert!(first.stop().success());
    let store = home.path().join("state/state.db");
    let version = |change: i64| -> i64 {
        let store = rusqlite::Connection::open(&store).unwrap();
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        let before = store.query_row("PRAGMA user_version", [], read).unwrap();
        store.pragma_update(None, "user_version", change).unwrap();
        before
    };
    let known = version(1000);
    let reason = reason_of_no_start(home.path());
    assert!(reason.contains("has schema version 1000"), "{reason}");
    version(known);
    let whole = fs::read(&store).unwrap();
    fs::write(&store, [b'x'; 9000]).unwrap();
    let reason = reason_of_no_start(home.path());
    assert!(reason.contains("state.db is corrupt"), "{reason}");
    fs::write(&store, whole).unwrap();
    let server = start(home.path());
    assert!(has_record(server.address(), "one.test", "DNSKEY"));
}

#[test]
fn an_unreadable_key_fails_its_zone_and_no_other() {
    let home = tempfile::tempdir().unwrap();
    let server = start(home.path());
    for zone in ["one.test", "two.test"] {
        done(&server, &["zone", "secure", zone]);
    }
    assert!(server.stop().success());
    let store = home.path().join("state/state.db");
    let change = |sql: &str| {
        let connection = rusqlite::Connection::open(&store).unwrap();
        assert_eq!(connection.execute(sql, []).unwrap(), 1);
    };
    let key = "kind = 'dnssec-key' AND name = x'036f6e6504746573740000000001'";
    // A key that is cut off, and one in a form that is not known.
    for value in ["CAST(substr(value, 1, 60) AS BLOB)", "x'63'"] {
        let sql = format!("UPDATE item SET value = {value} WHERE {key}");
        change(&sql);
        let server = start(home.path());
        let at = server.address();
        assert!(
            server.log().contains("zone one.test.: cannot sign"),
            "{}",
            server.log()
        );
        for question in [
            ["mail.one.test", "A"],
            ["one.test", "DNSKEY"],
            ["no.one.test", "A"],
        ] {
            let said = dig(at, &question);
            assert!(said.contains("status: SERVFAIL"), "{sql}: {said}");
        }
        let said = dig(at, &["one.test", "AXFR"]);
        assert!(!said.contains("192.0.2."), "{sql}: {said}");
        let said = dig(at, &["mail.two.test", "A"]);
        assert!(said.contains("RRSIG"), "{said}");
        // A reload reads the zone again, and it has the same key still.
        let edited = ZONE.replace(" 10 3600", " 11 3600");
        fs::write(home.path().join("one.test.zone"), edited).unwrap();
        done(&server, &["reload"]);
        assert_eq!(eventually(|| serial(at, "one.test"), |s| *s == 12), 12);
        let said = dig(at, &["mail.one.test", "A"]);
        assert!(said.contains("status: SERVFAIL"), "{sql}: {said}");
        assert!(server.stop().success());
    }
    change(&format!("UPDATE item SET name = x'3f' WHERE {key}"));
    let reason = reason_of_no_start(home.path());
    assert!(reason.contains("belongs to no zone"), "{reason}");
}

#[test]
fn a_zone_file_is_secure_from_one_command_through_edits_and_restarts_until_another() {
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("anchor");
    let server = start(home.path());
    assert_eq!(command(&server, &["zone", "ds", "one.test"]).0, Some(4));
    let printed = done(&server, &["zone", "secure", "one.test"]);
    assert!(printed.contains("one.test. IN DS "), "{printed}");
    assert_eq!(command(&server, &["zone", "secure", "one.test"]).0, Some(5));
    done(
        &server,
        &[
            "zone",
            "secure",
            "two.test",
            "--denial",
            "nsec3",
            "--algorithm",
            "15",
        ],
    );
    for zone in ["one.test", "two.test"] {
        write_anchor(&server, zone, &anchor);
        check_answers(server.address(), zone, &anchor);
        check_transfer(server.address(), zone, home.path());
    }
    // An edit of the file is about its own records.
    write_anchor(&server, "one.test", &anchor);
    let edited = ZONE.replace(" 10 3600", " 11 3600") + "new A 192.0.2.9\n";
    fs::write(home.path().join("one.test.zone"), edited).unwrap();
    done(&server, &["reload"]);
    let at = server.address();
    assert_eq!(eventually(|| serial(at, "one.test"), |s| *s == 12), 12);
    let keys = done(&server, &["key", "list"]);
    assert!(!server.log().contains("WARN"), "{}", server.log());
    assert!(server.stop().success());
    let server = start(home.path());
    assert_eq!(done(&server, &["key", "list"]), keys);
    let at = server.address();
    check_answers(at, "one.test", &anchor);
    let said = delv(at, ("one.test", &anchor), &["new.one.test", "A"]);
    assert!(said.contains("; fully validated"), "{said}");
    assert!(!server.log().contains("WARN"), "{}", server.log());
    done(&server, &["zone", "unsecure", "one.test", "--force"]);
    assert!(!has_record(at, "one.test", "DNSKEY"));
    assert!(has_record(at, "two.test", "DNSKEY"));
    assert_eq!(
        command(&server, &["zone", "unsecure", "one.test"]).0,
        Some(4)
    );
}

#[test]
fn keys_are_added_moved_and_removed_and_the_zone_stays_secure() {
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("anchor");
    let server = start(home.path());
    let at = server.address();
    let secure = || check_answers(at, "one.test", &anchor);
    done(
        &server,
        &["key", "add", "one.test", "--role", "ksk", "--force"],
    );
    done(&server, &["key", "add", "one.test", "--role", "zsk"]);
    write_anchor(&server, "one.test", &anchor);
    secure();
    let listed = done(&server, &["key", "list", "one.test"]);
    assert!(
        listed.contains(" ksk ECDSAP256SHA256 active") && listed.contains(" zsk "),
        "{listed}"
    );
    // Pre-publication by hand.
    done(
        &server,
        &["key", "add", "one.test", "--role", "zsk", "--inactive"],
    );
    secure();
    done(&server, &["key", "activate", "one.test", "3"]);
    done(&server, &["key", "deactivate", "one.test", "2"]);
    secure();
    done(&server, &["key", "remove", "one.test", "2"]);
    secure();
    // A key of another tool, and our key imported into another zone: the tag stays the same.
    let directory = home.path().to_str().unwrap();
    let (is_good, stem) = run(
        "dnssec-keygen",
        &["-q", "-K", directory, "-a", "14", "one.test"],
    );
    assert!(is_good, "{stem}");
    let (stem, tag) = (stem.trim(), stem.trim().rsplit('+').next().unwrap());
    let file = home.path().join(format!("{stem}.private"));
    let imported = done(
        &server,
        &[
            "key",
            "import",
            file.to_str().unwrap(),
            "two.test",
            "--role",
            "zsk",
        ],
    );
    let tag: u16 = tag.parse().unwrap();
    assert!(
        imported.contains(&format!(" {tag} csk ECDSAP384SHA384 ")),
        "{imported}"
    );
    let pem = done(&server, &["key", "export", "one.test", "1", "--pem"]);
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "{pem}");
    let path = home.path().join("key.pem");
    fs::write(&path, pem).unwrap();
    let moved = done(
        &server,
        &["key", "import", path.to_str().unwrap(), "two.test"],
    );
    let tag_of = |text: &str| text.split(' ').nth(2).unwrap().to_string();
    let listed = done(&server, &["key", "list", "one.test"]);
    assert_eq!(tag_of(&moved), tag_of(&listed));
    // The last signing key is not removed by mistake, and secrets are not logged.
    done(&server, &["key", "remove", "two.test", "2"]);
    let (code, printed) = command(&server, &["key", "remove", "two.test", "1"]);
    assert!(
        code == Some(7) && printed.contains("zone unsecure"),
        "{printed}"
    );
    let secret = fs::read_to_string(file).unwrap();
    let secret = secret
        .lines()
        .find_map(|line| line.strip_prefix("PrivateKey: "));
    assert!(!server.log().contains(secret.unwrap()));
    let (code, printed) = command(&server, &["key", "add", "one.test", "--algorithm", "16"]);
    assert!(
        code == Some(6) && printed.contains("15 (ED25519)"),
        "{printed}"
    );
}

#[test]
fn a_secondary_is_signed_inline_and_follows_its_primary() {
    let home = tempfile::tempdir().unwrap();
    let (upstream, own) = (home.path().join("upstream"), home.path().join("own"));
    fs::create_dir(&upstream).unwrap();
    let primary = start(&upstream);
    let config = format!(
        "[server]\nstate_directory = {own:?}\n[[zone]]\nname = \"one.test\"\nkind = \"secondary\"\n\
         primaries = [{{ address = \"{}\" }}]\n",
        primary.address()
    );
    let server = Setup::new().without_web().config(&config).start();
    let at = server.address();
    eventually(|| has_record(at, "mail.one.test", "A"), |there| *there);
    let anchor = home.path().join("anchor");
    done(&server, &["zone", "secure", "one.test"]);
    write_anchor(&server, "one.test", &anchor);
    check_answers(at, "one.test", &anchor);
    assert!(!has_record(primary.address(), "one.test", "DNSKEY"));
    let edited = ZONE.replace(" 10 3600", " 11 3600") + "new A 192.0.2.9\n";
    fs::write(upstream.join("one.test.zone"), edited).unwrap();
    done(&primary, &["reload"]);
    done(&server, &["zone", "retrieve", "one.test"]);
    eventually(|| has_record(at, "new.one.test", "A"), |there| *there);
    let said = delv(at, ("one.test", &anchor), &["new.one.test", "A"]);
    assert!(
        said.contains("; fully validated"),
        "{said}\n{}",
        server.log()
    );
}

#[test]
fn zone_show_shows_whether_and_how_a_zone_is_signed() {
    let home = tempfile::tempdir().unwrap();
    let server = setup_with_page(home.path()).start();
    let shown = done(&server, &["zone", "show", "one.test"]);
    assert!(shown.ends_with("signed no\n"), "{shown}");
    for denial in ["nsec", "nsec3", "nsec3-opt-out", "white-lies", "compact"] {
        let secure = ["zone", "secure", "one.test", "--denial", denial];
        let printed = done(&server, &secure);
        let ds = printed.split(" IN DS ").nth(1).unwrap().trim();
        let tag = ds.split(' ').next().unwrap();
        let shown = done(&server, &["zone", "show", "one.test"]);
        let expected = format!(
            "signed by hand\ndenial {denial}\nkey 1 {tag} csk by hand\nds {ds}\nsignatures-end 20"
        );
        assert!(shown.contains(&expected), "{shown} lacks {expected}");
        let page = super::ask::get(server.web(), "/?zone=one.test");
        for expected in [
            "with manually managed keys".to_string(),
            format!("<td>1</td><td>{tag}</td><td>csk</td><td>by hand</td>"),
            format!("<pre class=\"ds\">one.test. IN DS {ds}</pre>"),
        ] {
            assert!(page.contains(&expected), "{page} lacks {expected}");
        }
        let json = done(&server, &["zone", "show", "one.test", "--json"]);
        for expected in [
            "\"signed\":\"by hand\"".to_string(),
            format!("\"denial\":\"{denial}\""),
            format!("\"ds\":[\"{ds}\"]"),
            "\"signature_expires\":".to_string(),
        ] {
            assert!(json.contains(&expected), "{json} lacks {expected}");
        }
        done(&server, &["zone", "unsecure", "one.test", "--force"]);
    }
}

#[test]
fn the_denial_of_a_signed_zone_is_changed_and_every_version_is_whole_and_secure() {
    let home = tempfile::tempdir().unwrap();
    let anchor = home.path().join("anchor");
    let server = start(home.path());
    let at = server.address();
    done(&server, &["zone", "secure", "one.test"]);
    write_anchor(&server, "one.test", &anchor);
    let keys = done(&server, &["key", "list", "one.test"]);
    for denial in ["nsec3", "compact", "nsec", "white-lies", "nsec3"] {
        let printed = done(&server, &["zone", "secure", "one.test", "--denial", denial]);
        assert_eq!(
            printed,
            format!("zone one.test: signed with denial {denial}\n")
        );
        check_answers(at, "one.test", &anchor);
        check_transfer(at, "one.test", home.path());
        let said = dig(at, &["no.one.test", "A"]);
        let has_nsec3 = said.contains(" NSEC3 1 0 0 - ");
        assert_eq!(has_nsec3, denial == "nsec3", "{denial}: {said}");
    }
    assert_eq!(done(&server, &["key", "list", "one.test"]), keys);
    let again = done(
        &server,
        &["zone", "secure", "one.test", "--denial", "nsec3"],
    );
    assert_eq!(again, "zone one.test: no change\n");
    for (arguments, code) in [
        (&["zone", "secure", "one.test"][..], 5),
        (
            &[
                "zone",
                "secure",
                "one.test",
                "--denial",
                "nsec",
                "--algorithm",
                "15",
            ],
            5,
        ),
        (&["zone", "secure", "one.test", "--denial", "nsec5"], 6),
        (&["metadata", "set", "one.test", "NSEC3PARAM", "1 0 0 -"], 7),
    ] {
        let (found, said) = command(&server, arguments);
        assert_eq!(found, Some(code), "{said}");
    }
    let soa_edit = ["zone", "secure", "one.test", "--soa-edit", "EPOCH"];
    assert!(done(&server, &soa_edit).contains("SOA-EDIT EPOCH"));
    assert!(serial(at, "one.test") > 1_000_000_000);
    assert!(server.stop().success());
    let server = start(home.path());
    check_answers(server.address(), "one.test", &anchor);
    let said = dig(server.address(), &["no.one.test", "A"]);
    assert!(said.contains(" NSEC3 1 0 0 - "), "{said}");
}
