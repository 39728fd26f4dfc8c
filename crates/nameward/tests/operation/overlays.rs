//! Versions of zones that have only the names that differ from the common version (`base = true`).

use std::{fs, io, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::{
    Setup, TestServer,
    peers::{Peer, PeerKind, PeerOptions},
};

use super::secure::{delv, write_anchor};
use super::views::{OURS, Route, key_table, run};

const COMMON: &str = "$TTL 60\n@ SOA ns h 100 7200 3600 604800 60\n@ NS ns\n@ MX 10 mail\nns A 192.0.2.1\n\
    mail A 192.0.2.2\nwww A 192.0.2.3\nwww AAAA 2001:db8::3\nwww TXT public\nalias CNAME www\nold A 192.0.2.4\n\
    sub.old TXT below\n*.wild TXT public\n";
const INSIDE: &str = "$TTL 60\n@ SOA ns.inside h 7 7200 3600 604800 60\nwww A 10.0.0.3\nwww HIDE AAAA\n\
    alias A 10.0.0.4\nold HIDE ANY\nonly.here A 10.0.0.5\nx.wild A 10.0.0.6\n";
/// The answers that clients of the view get, in the format for another server.
const MERGED: &str = "$TTL 60\n@ SOA ns.inside h 107 7200 3600 604800 60\n@ NS ns\n@ MX 10 mail\nns A 192.0.2.1\n\
    mail A 192.0.2.2\nwww A 10.0.0.3\nwww TXT public\nalias A 10.0.0.4\nsub.old TXT below\n*.wild TXT public\n\
    only.here A 10.0.0.5\nx.wild A 10.0.0.6\n";
const CLIENTS: [(&str, &str); 2] = [("127.0.0.1", "outside"), ("127.0.0.2", "inside")];

/// The zone for all, and its version for 127.0.0.2.
fn config(settings: &str) -> String {
    format!(
        "{}[[zone]]\nname = \"over.example\"\nfile = \"common\"\nallow_transfer = [\"any\"]\n[[view]]\nname = \"inside\"\n\
         networks = [\"127.0.0.2\"]\nkeys = [\"k.\"]\nzones = [{{ name = \"over.example\", file = \"inside\", base = true, \
         allow_transfer = [\"any\"]{settings} }}]\n",
        key_table(),
    )
}

fn setup(config: &str) -> Setup {
    let setup = Setup::new().config(config);
    fs::write(setup.dir().join("common"), COMMON).unwrap();
    fs::write(setup.dir().join("inside"), INSIDE).unwrap();
    let address = format!("127.0.0.1:{OURS}");
    setup.listen(&[&address])
}

fn with_state(state: &Path, settings: &str) -> String {
    format!(
        "[server]\nstate_directory = \"{}\"\n{}",
        state.display(),
        config(settings)
    )
}

/// The addresses, or the response code, that a client gets.
fn address(client: &str, label: &str) -> String {
    let answer = Route::of(client).dig(&[&format!("{label}.over.example"), "A"]);
    let last = answer.rsplit(['\t', ' ']).find(|word| !word.is_empty());
    last.unwrap_or_default().to_owned()
}

fn serial(client: &str) -> String {
    let answer = Route::of(client).dig(&["over.example", "SOA"]);
    answer
        .split(' ')
        .rev()
        .nth(4)
        .unwrap_or_default()
        .to_owned()
}

/// BIND with whole zone files for both views.
fn bind(port: u16) -> Option<Peer> {
    let program = PeerKind::Bind.require()?;
    let prepare = |directory: &Path, address: SocketAddr| -> io::Result<Command> {
        let path = directory.display();
        fs::write(directory.join("outside"), COMMON)?;
        fs::write(directory.join("inside"), MERGED)?;
        let view = |name: &str, clients: &str| {
            format!(
                "view {name} {{ match-clients {{ {clients}; }}; zone over.example {{ type primary; file \"{path}/{name}\"; \
                 allow-transfer {{ any; }}; }}; }};\n"
            )
        };
        let conf = format!(
            "options {{ directory \"{path}\"; managed-keys-directory \"{path}\"; listen-on port {} {{ 127.0.0.1; }};
            listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; recursion no; notify no; empty-zones-enable no;
            dnssec-validation no; answer-cookie no; minimal-responses yes; minimal-any yes; }};\ncontrols {{ }};\n{}{}",
            address.port(),
            view("inside", "127.0.0.2"),
            view("outside", "any"),
        );
        fs::write(directory.join("named.conf"), conf)?;
        let mut command = Command::new(&program);
        command
            .args(["-g", "-n", "1", "-c"])
            .arg(directory.join("named.conf"));
        Ok(command)
    };
    let options = PeerOptions {
        address: Some(SocketAddr::from(([127, 0, 0, 1], port))),
        ..PeerOptions::default()
    };
    Some(Peer::launch(&["over.example"], &options, prepare).unwrap())
}

#[test]
fn clients_get_the_answers_of_bind_from_the_merged_zone() {
    let Some(_bind) = bind(OURS + 10) else { return };
    let server = setup(&config("")).start();
    for (client, _) in CLIENTS {
        let route = |port| Route {
            port,
            ..Route::of(client)
        };
        for (name, rtype) in [
            ("", "SOA"),
            ("", "MX"),
            ("www.", "A"),
            ("www.", "AAAA"),
            ("www.", "TXT"),
            ("www.", "TYPE65403"),
            ("alias.", "A"),
            ("old.", "A"),
            ("sub.old.", "TXT"),
            ("here.", "A"),
            ("x.wild.", "TXT"),
            ("y.wild.", "TXT"),
            ("no.", "A"),
        ] {
            let question = [&*format!("{name}over.example"), rtype];
            let (ours, theirs) = (route(OURS).dig(&question), route(OURS + 10).dig(&question));
            assert_eq!(ours, theirs, "{client} {question:?}");
        }
        let transfer = ["over.example", "AXFR"];
        assert_eq!(
            route(OURS).dig(&transfer),
            route(OURS + 10).dig(&transfer),
            "{client}"
        );
    }
    let listed = run(&server, &["zone", "list"]);
    let line = listed
        .lines()
        .find(|line| line.starts_with("over.example..inside"));
    assert!(line.is_some_and(|line| line.contains(" 107 ")), "{listed}");
    let records = run(&server, &["record", "list", "over.example..inside"]);
    assert!(
        records.contains("HIDE") && !records.contains("mail"),
        "a command is about what the version has itself: {records}"
    );
}

#[test]
fn an_overlay_follows_both_its_versions_and_a_missing_one_is_servfail() {
    let server = setup(&config("")).start();
    let (common, inside) = (server.dir().join("common"), server.dir().join("inside"));
    let changed = COMMON
        .replace(" 100 ", " 101 ")
        .replace("192.0.2.2", "192.0.2.22")
        .replace("192.0.2.3", "192.0.2.33");
    fs::write(&common, changed).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "mail"), "192.0.2.22");
    assert_eq!(address("127.0.0.2", "www"), "10.0.0.3");
    assert_eq!(address("127.0.0.1", "www"), "192.0.2.33");
    assert_eq!(
        (serial("127.0.0.1"), serial("127.0.0.2")),
        ("101".into(), "108".into())
    );
    let changed = INSIDE
        .replace(" 7 7200", " 9 7200")
        .replace("old HIDE ANY\n", "");
    fs::write(&inside, changed).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "old"), "192.0.2.4");
    assert_eq!(serial("127.0.0.2"), "110");
    // The common version no longer exists, and is there again.
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    let without = text.replace(
        "[[zone]]\nname = \"over.example\"\nfile = \"common\"\nallow_transfer = [\"any\"]\n",
        "",
    );
    assert_ne!(text, without);
    fs::write(&path, without).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "www"), "SERVFAIL");
    fs::write(&path, &text).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "www"), "10.0.0.3");
    assert_eq!(address("127.0.0.2", "mail"), "192.0.2.22");
    // The same file as a whole version, and as an overlay again.
    fs::write(&path, text.replace("base = true, ", "")).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "mail"), "NXDOMAIN");
    assert_eq!(address("127.0.0.2", "www"), "10.0.0.3");
    fs::write(&path, &text).unwrap();
    run(&server, &["reload"]);
    assert_eq!(address("127.0.0.2", "mail"), "192.0.2.22");
}

/// Asks BIND's validator in the view.
fn check_secure(server: &TestServer, anchor: &Path, questions: &[(&str, &str, &str)]) {
    for (label, rtype, expected) in questions {
        let name = format!("{label}over.example");
        let question = ["-b", "127.0.0.2", &name, rtype];
        let said = delv(server.address(), ("over.example", anchor), &question);
        assert!(said.contains(expected), "{label} {rtype}: {said}");
    }
}

#[test]
fn a_signed_overlay_is_secure_and_denies_what_it_hides() {
    for denial in ["nsec", "nsec3"] {
        let state = tempfile::tempdir().unwrap();
        let server = setup(&with_state(state.path(), "")).start();
        // Signed with the same parameters, or not at all.
        run(
            &server,
            &["zone", "secure", "over.example", "--denial", denial],
        );
        let secure = ["zone", "secure", "over.example..inside", "--denial", denial];
        run(&server, &secure);
        let anchor = server.dir().join("anchor");
        write_anchor(&server, "over.example..inside", &anchor);
        let text = fs::read_to_string(&anchor).unwrap();
        fs::write(&anchor, text.replace("..inside", "")).unwrap();
        let (yes, no) = ("; fully validated", "; negative response, fully validated");
        let questions = [
            ("", "SOA", yes),
            ("", "MX", yes),
            ("", "DNSKEY", yes),
            ("mail.", "A", yes),
            ("www.", "A", yes),
            ("www.", "TXT", yes),
            ("www.", "AAAA", no),
            ("old.", "A", no),
            ("sub.old.", "TXT", yes),
            ("alias.", "A", yes),
            ("here.", "A", no),
            ("y.wild.", "TXT", yes),
            ("no.", "A", no),
        ];
        check_secure(&server, &anchor, &questions);
        let changed = COMMON.replace(" 100 ", " 101 ") + "new A 192.0.2.9\n";
        let changed = changed
            .replace("mail A 192.0.2.2\n", "")
            .replace("old A 192.0.2.4\n", "");
        fs::write(server.dir().join("common"), changed).unwrap();
        run(&server, &["reload"]);
        run(
            &server,
            &[
                "record",
                "set",
                "over.example..inside",
                "newer",
                "A",
                "60",
                "10.0.0.9",
            ],
        );
        let questions = [
            ("new.", "A", yes),
            ("newer.", "A", yes),
            ("mail.", "A", no),
            ("old.", "A", no),
            ("www.", "AAAA", no),
            ("y.wild.", "TXT", yes),
            ("nope.", "A", no),
        ];
        check_secure(&server, &anchor, &questions);
        assert_eq!(address("127.0.0.1", "newer"), "NXDOMAIN");
        assert!(server.stop().success());
    }
}

#[test]
fn a_secondary_of_an_overlay_follows_changes_of_the_common_version() {
    let notified = format!(
        ", notify_name_servers = false, also_notify = [{{ address = \"127.0.0.7:{}\", key = \"k.\" }}]",
        OURS + 1
    );
    let state = tempfile::tempdir().unwrap();
    let primary = setup(&with_state(state.path(), &notified)).start();
    let secondary_state = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nstate_directory = \"{}\"\n{}[[zone]]\nname = \"over.example\"\nkind = \"secondary\"\n\
         primaries = [{{ address = \"127.0.0.1:{OURS}\", key = \"k.\" }}]\n",
        secondary_state.path().display(),
        key_table(),
    );
    let address_there = format!("127.0.0.7:{}", OURS + 1);
    let secondary = Setup::new()
        .config(&config)
        .listen(&[&address_there])
        .start();
    let at = |label: &str| {
        let route = Route {
            port: OURS + 1,
            server: "127.0.0.7",
            ..Route::of("127.0.0.1")
        };
        route.dig(&[&format!("{label}.over.example"), "A"])
    };
    secondary.wait_until("the version is transferred", || {
        at("www").ends_with("10.0.0.3")
    });
    assert!(at("mail").ends_with("192.0.2.2"));
    let changed = COMMON
        .replace(" 100 ", " 101 ")
        .replace("192.0.2.2", "192.0.2.22");
    fs::write(primary.dir().join("common"), changed).unwrap();
    run(&primary, &["reload"]);
    secondary.wait_until("a change of the common version is transferred", || {
        at("mail").ends_with("192.0.2.22")
    });
    run(
        &primary,
        &[
            "record",
            "set",
            "over.example..inside",
            "www",
            "A",
            "60",
            "10.0.0.33",
        ],
    );
    secondary.wait_until("a change of the version is transferred", || {
        at("www").ends_with("10.0.0.33")
    });
    let ixfr = Route::of("127.0.0.2").dig(&["over.example", "IXFR=107"]);
    assert!(ixfr.contains("10.0.0.33"), "{ixfr}");
}

#[test]
fn changes_of_an_overlay_outlive_a_kill_and_reach_its_file_alone() {
    let (state, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(files.path().join("common"), COMMON).unwrap();
    fs::write(files.path().join("inside"), INSIDE).unwrap();
    let config = with_state(state.path(), "").replace(
        "file = \"",
        &format!("file = \"{}/", files.path().display()),
    );
    let running = setup(&config).start();
    run(
        &running,
        &[
            "record",
            "set",
            "over.example..inside",
            "added",
            "A",
            "60",
            "10.0.0.8",
        ],
    );
    let check = || {
        assert_eq!(address("127.0.0.2", "added"), "10.0.0.8");
        assert_eq!(address("127.0.0.2", "mail"), "192.0.2.2");
        assert_eq!(address("127.0.0.1", "added"), "NXDOMAIN");
    };
    check();
    let before = serial("127.0.0.2");
    running.signal("KILL");
    drop(running);
    let running = setup(&config).start();
    check();
    assert_eq!(serial("127.0.0.2"), before);
    run(&running, &["zone", "sync", "over.example..inside"]);
    let written = fs::read_to_string(files.path().join("inside")).unwrap();
    assert!(
        written.contains("10.0.0.8") && written.contains("HIDE") && !written.contains("mail"),
        "{written}"
    );
    assert_eq!(
        fs::read_to_string(files.path().join("common")).unwrap(),
        COMMON
    );
}
