//! Zones that commands create, change and delete on a server without a database: files in a directory, and secondaries that
//! the state store declares.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nameward_testkit::{Setup, TestServer, server::binary, wait_with_log};

use super::apply::{done, failed};
use super::ask::{answered_address, has_record, rcode, serial, serial_if_served};

const REFUSED: u16 = 5;
const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";

/// A configuration whose zone directory and state directory outlive its servers.
struct Home {
    dir: tempfile::TempDir,
    more: String,
}

impl Home {
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("zones")).unwrap();
        Home {
            dir,
            more: more.into(),
        }
    }

    fn text(&self) -> String {
        format!(
            "{}\n[server]\nstate_directory = {:?}\n[[backend]]\ntype = \"file\"\ndirectory = {:?}\n",
            self.more,
            self.dir.path().join("state"),
            self.dir.path().join("zones"),
        )
    }

    fn serve(&self) -> TestServer {
        Setup::new().without_web().config(&self.text()).start()
    }

    fn file(&self, zone: &str) -> std::path::PathBuf {
        self.dir.path().join(format!("zones/{zone}.zone"))
    }

    /// Runs a command without a server.
    fn alone(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let config = self.dir.path().join("nameward.toml");
        fs::write(&config, self.text()).unwrap();
        let output = Command::new(binary())
            .args(arguments)
            .arg("--config")
            .arg(&config)
            .env("RUNTIME_DIRECTORY", self.dir.path())
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said.into_owned())
    }
}

#[test]
fn a_zone_is_created_as_a_file_served_at_once_and_after_a_restart() {
    let home = Home::new("");
    let server = home.serve();
    let at = server.address();
    assert_eq!(rcode(at, "example.org"), REFUSED);
    let create = ["zone", "create", "Example.ORG", "--ns", "ns1.example.org"];
    let (said, warned) = done(&server, &create);
    assert_eq!(said, "created zone Example.ORG in backend 1 (file)\n");
    assert!(
        warned.contains("ns1.example.org. has no address yet"),
        "{warned}"
    );
    assert!(has_record(at, "example.org", "NS"));
    let (code, said) = failed(&server, &create);
    assert!(code == 5 && said.contains("already exists"), "{said}");
    done(
        &server,
        &[
            "record",
            "set",
            "example.org",
            "ns1",
            "A",
            "60",
            "192.0.2.1",
        ],
    );
    // A zone without name servers is created, too, and the command warns about it.
    let (_, warned) = done(&server, &["zone", "create", "bare.test"]);
    assert!(
        warned.contains("zone bare.test. has no NS records yet"),
        "{warned}"
    );
    done(
        &server,
        &[
            "zone",
            "create",
            "0/25.2.0.192.in-addr.arpa",
            "--ns",
            "ns.test.test",
        ],
    );
    let (code, said) = failed(&server, &["zone", "create", ".", "--ns", "ns.test.test"]);
    assert!(code == 7 && said.contains("root zone"), "{said}");
    // A file that is there for another reason is not touched.
    fs::write(home.file("theirs.test"), "not a zone\n").unwrap();
    let (code, said) = failed(
        &server,
        &["zone", "create", "theirs.test", "--ns", "ns.a.test"],
    );
    assert!(code == 5 && said.contains("already exists"), "{said}");
    assert_eq!(
        fs::read_to_string(home.file("theirs.test")).unwrap(),
        "not a zone\n"
    );
    fs::remove_file(home.file("theirs.test")).unwrap();
    let before = serial(at, "example.org");
    assert!(server.stop().success());
    let text = fs::read_to_string(home.file("example.org")).unwrap();
    assert!(text.contains("IN NS ns1.example.org."), "{text}");
    let server = home.serve();
    let at = server.address();
    assert_eq!(serial(at, "example.org"), before);
    assert_eq!(
        answered_address(at, "ns1.example.org"),
        Some([192, 0, 2, 1])
    );
    assert!(has_record(at, "0/25.2.0.192.in-addr.arpa", "NS"));
}

#[test]
fn a_deleted_file_zone_is_restored_with_its_changes_keys_and_kind() {
    let home = Home::new("");
    let server = home.serve();
    let at = server.address();
    fs::write(
        home.file("a.test"),
        "; by hand\n$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n",
    )
    .unwrap();
    done(&server, &["reload"]);
    done(&server, &["zone", "set", "a.test", "--kind", "primary"]);
    done(&server, &["zone", "secure", "a.test"]);
    done(
        &server,
        &["record", "set", "a.test", "www", "A", "60", "192.0.2.7"],
    );
    done(&server, &["zone", "freeze", "a.test"]);
    let (keys, _) = done(&server, &["key", "list", "a.test"]);
    let (said, _) = done(&server, &["zone", "delete", "a.test"]);
    assert!(
        said.contains("restore it with `nameward zone undelete a.test` until 2"),
        "{said}"
    );
    assert_eq!(rcode(at, "www.a.test"), REFUSED);
    assert!(!home.file("a.test").exists());
    // A new zone of the name has nothing of the old one.
    done(&server, &["zone", "create", "a.test", "--ns", "ns.b.test"]);
    assert!(!has_record(at, "a.test", "DNSKEY"));
    let (details, _) = done(&server, &["zone", "show", "a.test", "--json"]);
    assert!(details.contains("\"kind\":\"file\""), "{details}");
    done(
        &server,
        &["record", "set", "a.test", "new", "A", "60", "192.0.2.8"],
    );
    let (code, said) = failed(&server, &["zone", "undelete", "a.test"]);
    assert!(code == 5 && said.contains("exists"), "{said}");
    done(&server, &["zone", "delete", "a.test", "--no-copy"]);
    let (listed, _) = done(&server, &["zone", "list", "--deleted", "--json"]);
    assert!(listed.contains("\"kind\":\"primary\""), "{listed}");
    done(&server, &["zone", "undelete", "a.test"]);
    assert_eq!(answered_address(at, "www.a.test"), Some([192, 0, 2, 7]));
    assert_eq!(rcode(at, "new.a.test"), 3);
    assert_eq!(done(&server, &["key", "list", "a.test"]).0, keys);
    assert!(has_record(at, "a.test", "DNSKEY"));
    let text = fs::read_to_string(home.file("a.test")).unwrap();
    assert!(
        text.starts_with("; by hand") && text.contains("192.0.2.7"),
        "{text}"
    );
    let (details, _) = done(&server, &["zone", "show", "a.test", "--json"]);
    assert!(details.contains("\"kind\":\"primary\""), "{details}");
    done(
        &server,
        &["record", "set", "a.test", "more", "A", "60", "192.0.2.9"],
    );
    assert!(server.stop().success());
    let server = home.serve();
    assert_eq!(
        answered_address(server.address(), "more.a.test"),
        Some([192, 0, 2, 9])
    );
    assert!(has_record(server.address(), "a.test", "DNSKEY"));
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// A primary that transfers its zone to holders of the key.
fn primary() -> TestServer {
    let config = format!(
        "[[key]]\nname = \"k.test\"\nsecret = \"{SECRET}\"\n[[zone]]\nname = \"sec.test\"\nallow_transfer = [\"key:k.test\"]\n"
    );
    let text = "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n";
    Setup::new()
        .without_web()
        .config(&config)
        .zone("sec.test", text)
        .start()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn a_secondary_is_created_changed_deleted_and_restored_without_its_primary() {
    let (first, home) = (primary(), Home::new(""));
    let server = home.serve();
    let at = server.address();
    done(
        &server,
        &["tsig", "import", "k.test", "hmac-sha256", SECRET],
    );
    let wait = |server: &TestServer, wanted: Option<u32>| {
        let at = server.address();
        wait_with_log(
            "the zone",
            || server.log(),
            || serial_if_served(at, "sec.test") == wanted,
        );
    };
    for wrong in [
        &["zone", "create", "sec.test", "--kind", "secondary"][..],
        &[
            "zone",
            "create",
            "sec.test",
            "--kind",
            "secondary",
            "--primary",
            "ns1",
        ],
        &[
            "zone",
            "create",
            "sec.test",
            "--kind",
            "secondary",
            "--primary",
            "192.0.2.1",
            "--ns",
            "a.b",
        ],
        &["zone", "create", "sec.test", "--primary", "192.0.2.1"],
        &[
            "zone",
            "create",
            "sec.test",
            "--kind",
            "secondary",
            "--primary",
            "192.0.2.1,a..b",
        ],
    ] {
        assert_eq!(failed(&server, wrong).0, 6, "{wrong:?}");
    }
    let with_key = format!("{},k.test", first.address());
    let create = [
        "zone",
        "create",
        "sec.test",
        "--kind",
        "secondary",
        "--primary",
        &with_key,
    ];
    let (said, _) = done(&server, &create);
    assert_eq!(said, "created zone sec.test in the state store\n");
    // The next command finds it.
    done(&server, &["zone", "status", "sec.test"]);
    wait(&server, Some(7));
    let (code, said) = failed(&server, &create);
    assert!(code == 5 && said.contains("already exists"), "{said}");
    assert!(server.stop().success());
    let server = home.serve();
    wait(&server, Some(7));
    // A primary without the key refuses; the zone is still served.
    let plain = first.address().to_string();
    let (said, _) = done(&server, &["zone", "set", "sec.test", "--primary", &plain]);
    assert!(said.starts_with("zone sec.test: changed"), "{said}");
    let (details, _) = done(&server, &["zone", "show", "sec.test", "--json"]);
    assert!(details.contains(&plain), "{details}");
    let (said, _) = done(&server, &["zone", "set", "sec.test", "--primary", &plain]);
    assert_eq!(said, "zone sec.test: no change\n");
    let (code, said) = failed(&server, &["zone", "set", "sec.test", "--primary", ""]);
    assert!(code == 6 && said.contains("needs a primary"), "{said}");
    let (code, said) = failed(&server, &["zone", "set", "sec.test", "--template", "none"]);
    assert!(code == 4 && said.contains("no [[template]]"), "{said}");
    done(
        &server,
        &["zone", "set", "sec.test", "--primary", &with_key],
    );
    done(&server, &["zone", "delete", "sec.test"]);
    assert_eq!(rcode(server.address(), "sec.test"), REFUSED);
    // Its primary is gone; its contents are restored.
    drop(first);
    done(&server, &["zone", "undelete", "sec.test"]);
    wait(&server, Some(7));
    assert!(server.stop().success());
    let server = home.serve();
    wait(&server, Some(7));
    done(&server, &["zone", "delete", "sec.test", "--no-copy"]);
    assert!(server.stop().success());
    let server = home.serve();
    assert_eq!(rcode(server.address(), "sec.test"), REFUSED);
    let _ = at;
}

#[test]
fn a_secondary_whose_primary_is_lost_becomes_a_primary_with_all_its_records() {
    let (first, home) = (primary(), Home::new(""));
    let server = home.serve();
    let import = ["tsig", "import", "k.test", "hmac-sha256", SECRET];
    done(&server, &import);
    let with_key = format!("{},k.test", first.address());
    let create = [
        "zone",
        "create",
        "sec.test",
        "--kind",
        "secondary",
        "--primary",
    ];
    done(&server, &[&create[..], &[&with_key]].concat());
    let at = server.address();
    wait_with_log(
        "the zone",
        || server.log(),
        || serial_if_served(at, "sec.test") == Some(7),
    );
    drop(first);
    let (code, said) = failed(
        &server,
        &["record", "set", "sec.test", "www", "A", "60", "192.0.2.7"],
    );
    assert!(code == 7 && said.contains("secondary"), "{said}");
    let (said, _) = done(&server, &["zone", "set", "sec.test", "--kind", "primary"]);
    assert_eq!(said, "zone sec.test: changed, serial 7\n");
    done(
        &server,
        &["record", "set", "sec.test", "www", "A", "60", "192.0.2.7"],
    );
    assert_eq!(answered_address(at, "ns.sec.test"), Some([192, 0, 2, 1]));
    assert!(server.stop().success());
    assert!(home.file("sec.test").exists());
    let server = home.serve();
    assert_eq!(
        answered_address(server.address(), "www.sec.test"),
        Some([192, 0, 2, 7])
    );
    let (details, _) = done(&server, &["zone", "show", "sec.test", "--json"]);
    assert!(details.contains("\"kind\":\"primary\""), "{details}");
}

#[test]
fn a_zone_file_becomes_a_secondary_and_a_file_again_without_a_gap() {
    let (first, home) = (primary(), Home::new(""));
    let server = home.serve();
    let at = server.address();
    let import = ["tsig", "import", "k.test", "hmac-sha256", SECRET];
    done(&server, &import);
    fs::write(
        home.file("sec.test"),
        "; by hand\n$TTL 60\n@ SOA ns h 5 3600 600 86400 60\n@ NS ns\nns A 192.0.2.9\n",
    )
    .unwrap();
    done(&server, &["reload"]);
    let record = ["record", "set", "sec.test", "www", "A", "60", "192.0.2.7"];
    done(&server, &record);
    for kind in ["consumer", "producer"] {
        let set = ["zone", "set", "sec.test", "--kind", kind];
        let (code, said) = failed(&server, &set);
        assert!(code == 6 || code == 7, "{kind}: {code} {said}");
    }
    let set = ["zone", "set", "sec.test", "--kind", "secondary"];
    let (code, said) = failed(&server, &set);
    assert!(code == 6 && said.contains("needs a primary"), "{said}");
    // An unreachable primary: the contents of the file are served, also after a restart.
    let nowhere = [&set[..], &["--primary", "127.0.0.1:1"]].concat();
    let (said, warned) = done(&server, &nowhere);
    assert_eq!(said, "zone sec.test: changed, serial 6\n");
    let copy = home.file("sec.test").with_extension("zone.kept-1");
    assert!(warned.contains(copy.to_str().unwrap()), "{warned}");
    assert_eq!(answered_address(at, "www.sec.test"), Some([192, 0, 2, 7]));
    assert!(!home.file("sec.test").exists());
    let text = fs::read_to_string(&copy).unwrap();
    assert!(
        text.starts_with("; by hand") && text.contains("192.0.2.7"),
        "{text}"
    );
    let (shown, _) = done(&server, &["zone", "show", "sec.test"]);
    assert!(
        shown.contains("\nkind secondary\n") && shown.contains("\nbackend state store\n"),
        "{shown}"
    );
    let (code, said) = failed(&server, &record);
    assert!(code == 7 && said.contains("secondary"), "{said}");
    done(&server, &["reload"]);
    assert!(server.stop().success());
    let server = home.serve();
    let at = server.address();
    wait_with_log(
        "the contents of the file",
        || server.log(),
        || serial_if_served(at, "sec.test") == Some(6),
    );
    assert_eq!(answered_address(at, "www.sec.test"), Some([192, 0, 2, 7]));
    // The first transfer replaces them.
    let with_key = format!("{},k.test", first.address());
    done(
        &server,
        &["zone", "set", "sec.test", "--primary", &with_key],
    );
    wait_with_log(
        "the transfer",
        || server.log(),
        || serial_if_served(at, "sec.test") == Some(7),
    );
    assert_eq!(answered_address(at, "ns.sec.test"), Some([192, 0, 2, 1]));
    // And back: a file with the transferred contents, next to the previous one.
    done(&server, &["zone", "set", "sec.test", "--kind", "native"]);
    assert_eq!(answered_address(at, "ns.sec.test"), Some([192, 0, 2, 1]));
    assert!(home.file("sec.test").exists() && copy.exists());
    assert!(server.stop().success());
    let server = home.serve();
    assert_eq!(serial(server.address(), "sec.test"), 7);
    let (shown, _) = done(&server, &["zone", "show", "sec.test"]);
    assert!(shown.contains("\nkind file\n"), "{shown}");
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn a_zone_file_becomes_a_secondary_without_a_server_too() {
    // A file that was written a moment ago is read again with each step of a command: the times set here decide that.
    let now = SystemTime::now();
    let minute = Duration::from_secs(60);
    for modified in [now - minute, now + minute] {
        let home = Home::new("");
        let done = |arguments: &[&str]| {
            let (code, said) = home.alone(arguments);
            assert_eq!(code, Some(0), "{arguments:?}: {said}");
        };
        done(&["zone", "create", "sec.test", "--ns", "ns.b.test"]);
        done(&["record", "set", "sec.test", "www", "A", "60", "192.0.2.7"]);
        let file = fs::File::open(home.file("sec.test")).unwrap();
        file.set_modified(modified).unwrap();
        let nowhere = "127.0.0.1:1";
        let set = ["zone", "set", "sec.test", "--kind", "secondary"];
        done(&[&set[..], &["--primary", nowhere]].concat());
        // The change is in the copy, between the lines of the file.
        let copies = fs::read_dir(home.dir.path().join("zones")).unwrap();
        let copies: Vec<_> = copies.map(|file| file.unwrap().path()).collect();
        assert_eq!(copies, [home.dir.path().join("zones/sec.test.zone.kept-1")]);
        let text = fs::read_to_string(&copies[0]).unwrap();
        assert!(text.contains("192.0.2.7"), "{text}");
        assert!(text.contains("; created by nameward"), "{text}");
        let server = home.serve();
        let at = server.address();
        assert_eq!(answered_address(at, "www.sec.test"), Some([192, 0, 2, 7]));
    }
}

#[test]
fn a_secondary_that_was_never_transferred_is_shown_with_its_state() {
    let home = Home::new("");
    let create = [
        "zone",
        "create",
        "s.test",
        "--kind",
        "secondary",
        "--primary",
    ];
    let server = home.serve();
    done(&server, &[&create[..], &["127.0.0.1:1"]].concat());
    let (shown, _) = done(&server, &["zone", "show", "s.test"]);
    let expected = "name s.test.\nkind secondary\nstate empty\nserial none\nbackend state store\nmode resident\n\
                    primaries 127.0.0.1:1\n";
    assert!(shown.starts_with(expected), "{shown}");
    let (shown, _) = done(&server, &["zone", "show", "s.test", "--json"]);
    assert!(
        shown.contains(r#""backend":0,"database":"state store""#),
        "{shown}"
    );
    let (listed, _) = done(&server, &["zone", "list"]);
    assert_eq!(listed, "s.test. secondary 0 - empty unknown\n");
    assert!(server.stop().success());
    let (code, shown) = home.alone(&["zone", "show", "s.test"]);
    assert!(
        code == Some(0) && shown.contains("\nstate not-ready\n"),
        "{shown}"
    );
    let (code, deleted) = home.alone(&["zone", "delete", "s.test"]);
    assert_eq!(code, Some(0), "{deleted}");
    let (_, listed) = home.alone(&["zone", "list", "--deleted"]);
    assert!(listed.contains("s.test. secondary 0 "), "{listed}");
}

#[test]
fn zones_of_the_configuration_are_the_operators_and_the_message_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let file = |name: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let home = Home::new(&format!(
        "[[zone]]\nname = \"own.test\"\nfile = {:?}\n[[zone]]\nname = \"sec.test\"\nkind = \"secondary\"\n\
         primaries = [{{ address = \"192.0.2.1\" }}]\n[[backend]]\ntype = \"file\"\n\
         zones = [{{ name = \"listed.test\", file = {:?} }}]\n",
        file("own"),
        file("listed")
    ));
    let server = home.serve();
    for (zone, line) in [("own.test", 2), ("sec.test", 5), ("listed.test", 10)] {
        for arguments in [
            &["zone", "delete", zone][..],
            &["zone", "set", zone, "--kind", "primary"],
        ] {
            let (code, said) = failed(&server, arguments);
            let place = format!("nameward.toml:{line}");
            assert!(code == 7 && said.contains(&place), "{arguments:?}: {said}");
        }
    }
    let (code, said) = failed(&server, &["zone", "delete", "none.test"]);
    assert!(code == 4 && said.contains("not found"), "{said}");
    let (code, said) = failed(
        &server,
        &[
            "zone",
            "create",
            "a.test",
            "--ns",
            "ns.b.test",
            "--backend",
            "9",
        ],
    );
    assert!(
        code == 7 && said.contains("backend 9 cannot store new zones"),
        "{said}"
    );
}

#[test]
fn without_a_state_directory_files_are_created_and_settings_are_refused() {
    let server = Setup::new().without_web().start();
    done(&server, &["zone", "create", "a.test", "--ns", "ns.b.test"]);
    assert!(has_record(server.address(), "a.test", "NS"));
    for refused in [
        &["zone", "set", "a.test", "--kind", "primary"][..],
        &[
            "zone",
            "create",
            "b.test",
            "--ns",
            "ns.b.test",
            "--kind",
            "primary",
        ],
        &[
            "zone",
            "create",
            "b.test",
            "--kind",
            "secondary",
            "--primary",
            "192.0.2.1",
        ],
    ] {
        let (code, said) = failed(&server, refused);
        assert!(
            code == 7 && said.contains("state_directory"),
            "{refused:?}: {said}"
        );
    }
    assert_eq!(rcode(server.address(), "b.test"), REFUSED);
    let (code, refused) = failed(&server, &["zone", "delete", "a.test"]);
    assert!(
        code == 7 && refused.contains("no copy is stored") && refused.contains("--no-copy"),
        "{refused}"
    );
    assert!(has_record(server.address(), "a.test", "NS"));
    done(&server, &["zone", "delete", "a.test", "--no-copy"]);
    assert_eq!(rcode(server.address(), "a.test"), REFUSED);
}

#[test]
fn without_a_server_zones_are_created_and_deleted_too() {
    let home = Home::new("");
    let done = |arguments: &[&str]| {
        let (code, said) = home.alone(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    done(&[
        "zone",
        "create",
        "a.test",
        "--ns",
        "ns.b.test",
        "--kind",
        "primary",
    ]);
    done(&[
        "zone",
        "create",
        "s.test",
        "--kind",
        "secondary",
        "--primary",
        "192.0.2.1",
    ]);
    let again = [
        "zone",
        "create",
        "s.test",
        "--kind",
        "secondary",
        "--primary",
        "192.0.2.1",
    ];
    assert_eq!(home.alone(&again).0, Some(5));
    done(&["zone", "create", "gone.test", "--ns", "ns.b.test"]);
    done(&["record", "set", "gone.test", "www", "A", "60", "192.0.2.3"]);
    done(&["zone", "delete", "gone.test"]);
    assert!(!home.file("gone.test").exists());
    let server = home.serve();
    assert!(has_record(server.address(), "a.test", "NS"));
    // Nothing was transferred yet, and it is ours.
    assert_eq!(rcode(server.address(), "s.test"), 2);
    assert_eq!(rcode(server.address(), "gone.test"), REFUSED);
    assert!(server.stop().success());
    done(&["zone", "undelete", "gone.test"]);
    done(&["zone", "delete", "s.test"]);
    let server = home.serve();
    assert_eq!(
        answered_address(server.address(), "www.gone.test"),
        Some([192, 0, 2, 3])
    );
    assert_eq!(rcode(server.address(), "s.test"), REFUSED);
}

#[test]
fn a_server_produces_a_catalog_of_zones_created_by_commands() {
    let home = Home::new("");
    let server = home.serve();
    done(
        &server,
        &["zone", "create", "catalog.test", "--kind", "producer"],
    );
    done(&server, &["zone", "create", "a.test", "--ns", "ns.b.test"]);
    done(
        &server,
        &["zone", "set", "a.test", "--catalog", "catalog.test"],
    );
    let members = || done(&server, &["catalog", "members", "catalog.test"]).0;
    wait_with_log(
        "the member",
        || server.log(),
        || members().contains("a.test"),
    );
    let (code, said) = failed(&server, &["zone", "set", "a.test", "--catalog", "a.test"]);
    assert!(code == 6 && said.contains("not a catalog"), "{said}");
    done(&server, &["zone", "set", "a.test", "--catalog", ""]);
    wait_with_log(
        "an empty catalog",
        || server.log(),
        || !members().contains("a.test"),
    );
}
