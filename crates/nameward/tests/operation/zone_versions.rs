//! Versions of zones for views in everything besides answers: catalogs, rate limits, exports, statistics and the query log.

use std::{fs, net::UdpSocket, path::Path, process::Command};

use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer};

use super::ask::get;
use super::views::run;

/// Tests have a network of their own: the clients of the view.
const INSIDE: &str = "127.0.0.2";
const OUTSIDE: &str = "127.0.0.1";

fn zone(text: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns h 1 7200 3600 604800 60\n@ NS ns\nns A 192.0.2.1\nwhere TXT {text}\n"
    )
}

/// Starts a server with a common version, and one for a view with more settings.
fn start(settings: &str, config: &str) -> TestServer {
    let setup = Setup::new().zone("split.example", &zone("common"));
    let setup = setup.zone("other.example", &zone("other"));
    let (state, file) = (setup.dir().join("state"), setup.dir().join("inside"));
    fs::write(&file, zone("inside")).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n{config}[[view]]\nname = \"inside\"\nnetworks = [\"{INSIDE}\"]\n\
         zones = [{{ name = \"split.example\", file = {file:?}{settings} }}]\n"
    );
    setup.config(&config).start()
}

/// Returns whether a command fails, and its output.
fn refused(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ask(server: &TestServer, client: &str) -> bool {
    let client = Client::new(client, server.address());
    let reply = client.ask(Transport::Udp, "where.split.example", "TXT");
    reply.truncated()
}

#[test]
fn a_catalog_has_zones_and_not_their_versions() {
    let config = "[[zone]]\nname = \"cat.example\"\nkind = \"producer\"\n[[zone]]\nname = \"split.example\"\ncatalog = \"cat.example\"\n";
    let server = start("", config);
    server.wait_until("the member", || {
        let members = run(&server, &["catalog", "members", "cat.example"]);
        members.contains("split.example.")
    });
    let members = run(&server, &["catalog", "members", "cat.example"]);
    assert!(!members.contains(".."), "{members}");
    let set = [
        "zone",
        "set",
        "split.example..inside",
        "--catalog",
        "cat.example",
    ];
    let text = refused(&server, &set);
    assert!(
        text.contains(
            "zone split.example..inside: a version for views cannot be a member of a catalog"
        ),
        "{text}"
    );
    let create = [
        "zone",
        "create",
        "new.example..inside",
        "--kind",
        "producer",
    ];
    let text = refused(&server, &create);
    assert!(
        text.contains("zone new.example..inside: a catalog has no versions for views"),
        "{text}"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nameward.toml");
    let text = fs::read_to_string(server.dir().join("nameward.toml")).unwrap();
    fs::write(
        &path,
        text.replace("\" }]", "\", catalog = \"cat.example\" }]"),
    )
    .unwrap();
    let text = refused(&server, &["check", "--config", path.to_str().unwrap()]);
    assert!(text.contains("cannot be a member of a catalog"), "{text}");
}

#[test]
fn a_version_has_its_own_rate_limit_or_that_of_the_zone() {
    let limited = "[rate_limit]\nresponses_per_second = 1\nwindow = 3600\nslip = 1\nexempt = []\n";
    for (settings, config, is_limited) in [
        ("", "", (true, true)),
        (", responses_per_second = 0", "", (true, false)),
        (
            "",
            "[[zone]]\nname = \"split.example\"\nresponses_per_second = 0\n",
            (false, false),
        ),
        (
            ", responses_per_second = 1",
            "[[zone]]\nname = \"split.example\"\nresponses_per_second = 0\n",
            (false, true),
        ),
    ] {
        let server = start(settings, &format!("{limited}{config}"));
        for client in [OUTSIDE, INSIDE] {
            let socket = UdpSocket::bind((client, 0)).unwrap();
            socket.connect(server.address()).unwrap();
            for id in 0..200 {
                let name = "where.split.example";
                socket.send(&question(id, name, "TXT")).unwrap();
                socket.recv(&mut [0; 2048]).unwrap();
            }
        }
        let found = (ask(&server, OUTSIDE), ask(&server, INSIDE));
        assert_eq!(found, is_limited, "{settings:?} {config:?}");
    }
}

#[test]
fn a_version_is_exported_by_its_name_and_by_its_view() {
    let server = start("", "");
    let text = run(&server, &["zone", "export", "split.example..inside"]);
    assert!(
        text.contains("where.split.example.\t60\tIN\tTXT\t\"inside\""),
        "{text}"
    );
    assert!(!text.contains("common"), "{text}");
    let out = tempfile::tempdir().unwrap();
    let config = server.dir().join("nameward.toml");
    let export = |view: &[&str], to: &Path| {
        let fixed = ["export", "bind", "--config", config.to_str().unwrap()];
        let to = ["--out", to.to_str().unwrap()];
        let output = server.command(&[&fixed[..], &to, view].concat());
        let read = |name: &str| fs::read_to_string(Path::new(to[1]).join(name)).unwrap_or_default();
        let zones = ["split", "other"].map(|zone| read(&format!("zones/{zone}.example.zone")));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.success(),
            text,
            zones,
            read("named.conf.nameward"),
        )
    };
    let (is_complete, text, zones, _) = export(&[], &out.path().join("common"));
    assert!(!is_complete && zones[0].contains("common"), "{text}");
    let warned = "zone split.example..inside: versions for views are exported with --view";
    assert!(text.contains(warned), "{text}");
    let (is_complete, text, zones, conf) =
        export(&["--view", "inside"], &out.path().join("inside"));
    assert!(is_complete, "{text}");
    assert!(
        zones[0].contains("inside") && !zones[0].contains("common"),
        "{zones:?}"
    );
    assert!(zones[1].contains("other"), "{zones:?}");
    assert_eq!(conf.matches("zone \"split.example\"").count(), 1, "{conf}");
    let checked = Command::new("named-checkconf")
        .args([
            "-z",
            out.path()
                .join("inside/named.conf.nameward")
                .to_str()
                .unwrap(),
        ])
        .output()
        .expect("named-checkconf is installed: run scripts/install-deps");
    assert!(checked.status.success(), "{checked:?}");
    let unknown = [
        "export", "bind", "--view", "nowhere", "--out", "x", "--config",
    ];
    let unknown = refused(
        &server,
        &[&unknown[..], &[config.to_str().unwrap()]].concat(),
    );
    assert!(unknown.contains("no such view \"nowhere\""), "{unknown}");
}

#[test]
fn requests_are_counted_and_logged_by_view() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queries");
    let server = start("", &format!("[query_log]\nfile = {file:?}\n"));
    run(&server, &["query-log", "on"]);
    for client in [INSIDE, OUTSIDE, INSIDE] {
        ask(&server, client);
    }
    let client = Client::new(INSIDE, server.address());
    client.ask(Transport::Tcp, "where.split.example", "TXT");
    server.wait_until("the log", || {
        fs::read_to_string(&file).is_ok_and(|text| text.lines().count() == 4)
    });
    let log = fs::read_to_string(&file).unwrap();
    for (client, text, count) in [
        (INSIDE, " in view inside over ", 3),
        (OUTSIDE, " in view ", 0),
    ] {
        let lines = log
            .lines()
            .filter(|line| line.contains(&format!("from {client} ")));
        let found = lines.filter(|line| line.contains(text)).count();
        assert_eq!(found, count, "{client}: {log}");
    }
    let listed = run(&server, &["view", "list", "--json"]);
    assert!(listed.contains("\"requests\":3"), "{listed}");
    server.wait_until("the metric", || {
        let metrics = get(server.web(), "/metrics");
        metrics.contains("nameward_view_requests_total{view=\"inside\"} 3\n")
    });
}
