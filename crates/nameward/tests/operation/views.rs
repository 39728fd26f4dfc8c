//! Views: versions of zones for some clients, beside BIND with the same views; transfers, NOTIFY, UPDATE, reload and a kill by
//! view.

use std::{fs, io, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::{
    Setup, TestServer,
    peers::{Peer, PeerKind, PeerOptions},
};

/// Tests have a network of their own, so the ports are free.
pub const OURS: u16 = 5310;
const BINDS: u16 = 5320;
const SECRET: &str = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
const VIEWS: [&str; 5] = ["common", "keyed", "listener", "narrow", "wide"];

/// A zone whose records identify the version.
fn version(text: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns h 1 7200 3600 604800 60\n@ NS ns\nns A 192.0.2.1\nwhere TXT {text}\n\
         {text} A 192.0.2.2\n*.wild TXT {text}\nalias CNAME where\n"
    )
}

fn key_clause() -> String {
    format!("key k {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n")
}

pub fn key_table() -> String {
    format!("[[key]]\nname = \"k.\"\nsecret = \"{SECRET}\"\n")
}

/// Writes the versions of the zone, and the zone that all views share.
fn write_zones(directory: &Path) {
    for view in VIEWS {
        fs::write(directory.join(view), version(view)).unwrap();
    }
    fs::write(directory.join("other"), version("other")).unwrap();
}

/// The views as BIND has them: in the order that our rules amount to.
fn named_conf(directory: &Path, port: u16) -> String {
    let path = directory.display();
    let view = |name: &str, rule: &str| {
        format!(
            "view {name} {{ {rule}
             zone split.example {{ type primary; file \"{path}/{name}\"; allow-transfer {{ any; }}; }};
             zone other.example {{ type primary; file \"{path}/other\"; }}; }};\n"
        )
    };
    format!(
        "{}options {{ directory \"{path}\"; managed-keys-directory \"{path}\";
        listen-on port {port} {{ 127.0.0.1; 127.0.0.9; }}; listen-on-v6 {{ none; }};
        pid-file none; session-keyfile none; recursion no; notify no; empty-zones-enable no;
        dnssec-validation no; answer-cookie no; minimal-responses yes; minimal-any yes; }};\ncontrols {{ }};\n{}{}{}{}{}",
        key_clause(),
        view("keyed", "match-clients { key k; };"),
        view("listener", "match-destinations { 127.0.0.9; };"),
        view("narrow", "match-clients { 127.0.0.3; };"),
        view("wide", "match-clients { 127.0.0.2/31; 127.0.0.128/25; };"),
        view("common", "match-clients { any; };"),
    )
}

fn bind() -> Option<Peer> {
    let program = PeerKind::Bind.require()?;
    // BIND listens on addresses that an interface has. This network is the test's own.
    let address = ["addr", "add", "127.0.0.9/8", "dev", "lo"];
    let added = Command::new("ip").args(address).status();
    assert!(
        added.is_ok_and(|status| status.success()),
        "run by scripts/own-network"
    );
    let prepare = |directory: &Path, address: SocketAddr| -> io::Result<Command> {
        write_zones(directory);
        let conf = directory.join("named.conf");
        fs::write(&conf, named_conf(directory, address.port()))?;
        let mut command = Command::new(&program);
        command.args(["-g", "-n", "1", "-c"]).arg(conf);
        Ok(command)
    };
    let options = PeerOptions {
        address: Some(SocketAddr::from(([127, 0, 0, 1], BINDS))),
        ..PeerOptions::default()
    };
    Some(Peer::launch(&["split.example"], &options, prepare).unwrap())
}

/// The same views for us.
fn our_views(settings: &str) -> String {
    let view = |name: &str, rule: &str| {
        format!(
            "[[view]]\nname = \"{name}\"\n{rule}\nzones = [{{ name = \"split.example\", file = \"{name}\"{settings} }}]\n"
        )
    };
    [
        key_table(),
        "[[zone]]\nname = \"other.example\"\nfile = \"other\"\n".into(),
        "[[zone]]\nname = \"split.example\"\nfile = \"common\"\nallow_transfer = [\"any\"]\n"
            .into(),
        view("keyed", "keys = [\"k.\"]"),
        view("listener", &format!("listen = [\"127.0.0.9:{OURS}\"]")),
        view("narrow", "networks = [\"127.0.0.3\"]"),
        view("wide", "networks = [\"127.0.0.2/31\", \"127.0.0.128/25\"]"),
    ]
    .concat()
}

fn server(config: &str) -> TestServer {
    let setup = Setup::new().config(config);
    write_zones(setup.dir());
    let (one, other) = (format!("127.0.0.1:{OURS}"), format!("127.0.0.9:{OURS}"));
    setup.listen(&[&one, &other]).start()
}

/// The source and destination of a query.
#[derive(Clone, Copy, Debug)]
pub struct Route<'r> {
    pub port: u16,
    pub client: &'r str,
    pub server: &'r str,
    pub is_signed: bool,
}

impl Route<'_> {
    pub fn of(client: &str) -> Route<'_> {
        Route {
            port: OURS,
            client,
            server: "127.0.0.1",
            is_signed: false,
        }
    }

    /// Asks with dig: the response code and the records of the answer, sorted.
    pub fn dig(self, arguments: &[&str]) -> String {
        let mut command = Command::new("dig");
        command
            .arg(format!("@{}", self.server))
            .args(["-p", &self.port.to_string(), "-b", self.client])
            .args([
                "+tries=1",
                "+timeout=20",
                "+norecurse",
                "+noall",
                "+comments",
                "+answer",
            ])
            .args(arguments);
        if self.is_signed {
            command.args(["-y", &format!("hmac-sha256:k:{SECRET}")]);
        }
        let output = command
            .output()
            .expect("dig is installed: run scripts/install-deps");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = text.split("status: ").nth(1);
        let status = status.map(|text| text.split(',').next().unwrap_or_default());
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with(';') && !line.trim().is_empty())
            .filter(|line| !line.contains("\tTSIG\t"))
            .collect();
        lines.sort_unstable();
        format!("{} {}", status.unwrap_or_default(), lines.join(" / "))
    }

    /// Which version answers.
    fn version(self) -> String {
        let answer = self.dig(&["where.split.example", "TXT"]);
        let text = answer.split('"').nth(1);
        text.map_or(answer.clone(), str::to_owned)
    }
}

pub fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text
}

#[test]
fn clients_get_the_same_from_bind_with_the_same_views() {
    let Some(_bind) = bind() else { return };
    let _server = server(&our_views(", allow_transfer = [\"any\"]"));
    compare_with_bind(&["split.example", "AXFR"]);
    let signed = Route {
        is_signed: true,
        ..Route::of("127.0.0.3")
    };
    assert_eq!(signed.version(), "keyed");
    assert_eq!(Route::of("127.0.0.3").version(), "narrow");
    assert_eq!(Route::of("127.0.0.2").version(), "wide");
    assert_eq!(Route::of("127.0.0.1").version(), "common");
}

#[test]
fn all_views_of_a_named_conf_are_served_and_followed() {
    let Some(_bind) = bind() else { return };
    let config = format!(
        "{}[[backend]]\ntype = \"file\"\nnamed_conf = \"named.conf\"\nwatch = false\n",
        key_table()
    );
    let setup = Setup::new().config(&config);
    write_zones(setup.dir());
    let text = named_conf(setup.dir(), BINDS);
    fs::write(setup.dir().join("named.conf"), &text).unwrap();
    let (one, other) = (format!("127.0.0.1:{OURS}"), format!("127.0.0.9:{OURS}"));
    let server = setup.listen(&[&one, &other]).start();
    compare_with_bind(&["where.other.example", "TXT"]);
    let listed = run(&server, &["view", "list"]);
    for view in VIEWS {
        assert!(listed.contains(view), "{listed}");
    }
    // A view that is not for all clients any more, and one less.
    let changed = text
        .replace("match-clients { any; }", "match-clients { 127.0.0.7; }")
        .replace(
            "match-clients { 127.0.0.3; }",
            "match-clients { 127.0.0.8; }",
        );
    fs::write(server.dir().join("named.conf"), changed).unwrap();
    run(&server, &["reload"]);
    assert_eq!(Route::of("127.0.0.3").version(), "wide");
    assert_eq!(Route::of("127.0.0.8").version(), "narrow");
    assert_eq!(Route::of("127.0.0.7").version(), "common");
    assert_eq!(Route::of("127.0.0.1").version(), "REFUSED ");
}

/// Asks us and BIND the same from all kinds of clients.
fn compare_with_bind(last: &[&str]) {
    for client in [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.3",
        "127.0.0.4",
        "127.0.0.200",
    ] {
        for to in ["127.0.0.1", "127.0.0.9"] {
            for is_signed in [false, true] {
                let route = |port| Route {
                    port,
                    client,
                    server: to,
                    is_signed,
                };
                for question in [
                    &["where.split.example", "TXT"][..],
                    &["where.split.example", "TXT", "+tcp"],
                    &["alias.split.example", "TXT"],
                    &["narrow.split.example", "A"],
                    &["x.wild.split.example", "TXT", "+tcp"],
                    last,
                ] {
                    let (ours, theirs) = (route(OURS).dig(question), route(BINDS).dig(question));
                    assert_eq!(ours, theirs, "{question:?} {:?}", route(OURS));
                }
            }
        }
    }
}

#[test]
fn a_name_that_looks_like_a_version_is_only_a_name() {
    let server = server(&our_views(", allow_transfer = [\"any\"]"));
    let route = Route::of("127.0.0.1");
    for rtype in ["TXT", "SOA", "AXFR"] {
        let answer = route.dig(&[r"\000\000narrow.split.example", rtype]);
        assert!(!answer.contains("narrow\""), "{answer}");
        assert!(!answer.starts_with("NOERROR"), "{answer}");
    }
    let listed = run(&server, &["zone", "list"]);
    assert!(listed.contains("split.example..narrow"), "{listed}");
    let status = run(&server, &["zone", "status", "split.example..wide"]);
    assert!(status.contains("split.example..wide"), "{status}");
    let records = run(&server, &["record", "list", "split.example..wide"]);
    assert!(records.contains("wide.split.example."), "{records}");
}

#[test]
fn the_scope_of_a_reply_covers_the_networks_that_the_selection_looked_at() {
    let config = "[client_subnet]\nallow_from = [\"127.0.0.1\"]\n[[view]]\nname = \"narrow\"\nnetworks = [\"10.0.0.0/8\"]\n\
                  zones = [{ name = \"split.example\", file = \"narrow\" }]\n[[view]]\nname = \"wide\"\n\
                  networks = [\"10.1.0.0/16\"]\nzones = [{ name = \"split.example\", file = \"wide\" }]\n\
                  [[zone]]\nname = \"split.example\"\nfile = \"common\"\n";
    let _server = server(config);
    let output = |client: &str, subnet: &str| {
        let output = Command::new("dig")
            .args([
                "@127.0.0.1",
                "-p",
                &OURS.to_string(),
                "-b",
                client,
                "+norecurse",
            ])
            .args([&format!("+subnet={subnet}"), "where.split.example", "TXT"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let scope = text
            .lines()
            .find_map(|line| line.split_once("CLIENT-SUBNET: "));
        let scope = scope.map(|(_, subnet)| subnet.to_owned());
        (text.split('"').nth(1).unwrap_or_default().to_owned(), scope)
    };
    for (subnet, version, echoed) in [
        ("10.2.3.0/24", "narrow", "10.2.3.0/24/15"),
        ("10.1.3.0/24", "wide", "10.1.3.0/24/16"),
        ("10.0.0.0/8", "narrow", "10.0.0.0/8/16"),
        ("11.0.0.0/24", "common", "11.0.0.0/24/8"),
        ("192.0.2.0/24", "common", "192.0.2.0/24/1"),
        ("0.0.0.0/0", "common", "0.0.0.0/0/0"),
        ("2001:db8::/32", "common", "2001:db8::/32/0"),
    ] {
        let expected = (version.to_owned(), Some(echoed.to_owned()));
        assert_eq!(output("127.0.0.1", subnet), expected);
        assert_eq!(output("127.0.0.2", subnet), ("common".to_owned(), None));
    }
}

/// Sends an update with nsupdate; returns whether it was accepted.
fn update(client: &str, key: bool, line: &str) -> bool {
    let mut command = Command::new("nsupdate");
    if key {
        command.args(["-y", &format!("hmac-sha256:k:{SECRET}")]);
    }
    let script = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "server 127.0.0.1 {OURS}\nlocal {client}\nzone split.example\nupdate {line}\nsend\n"
    );
    fs::write(script.path(), text).unwrap();
    let output = command.arg(script.path()).output();
    let output = output.expect("nsupdate is installed: run scripts/install-deps");
    output.status.success()
}

#[test]
fn an_update_changes_the_version_of_its_view_and_outlives_a_kill() {
    let state = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nstate_directory = \"{}\"\n{}",
        state.path().display(),
        our_views(", allow_update = [\"key:k.\", \"127.0.0.3\"]")
    );
    let files = tempfile::tempdir().unwrap();
    write_zones(files.path());
    let config = config.replace(
        "file = \"",
        &format!("file = \"{}/", files.path().display()),
    );
    let start = || server(&config);
    let running = start();
    assert!(update(
        "127.0.0.3",
        false,
        "add new.split.example 60 A 192.0.2.77"
    ));
    assert!(update(
        "127.0.0.2",
        true,
        "add new.split.example 60 A 192.0.2.78"
    ));
    // The common version allows no updates, and so does a view for clients outside it.
    assert!(!update(
        "127.0.0.1",
        false,
        "add new.split.example 60 A 192.0.2.79"
    ));
    assert!(!update(
        "127.0.0.2",
        false,
        "add new.split.example 60 A 192.0.2.79"
    ));
    let check = || {
        let new = |route: Route<'_>| route.dig(&["new.split.example", "A"]);
        assert!(new(Route::of("127.0.0.3")).ends_with("192.0.2.77"));
        let signed = Route {
            is_signed: true,
            ..Route::of("127.0.0.1")
        };
        assert!(new(signed).ends_with("192.0.2.78"));
        for client in ["127.0.0.1", "127.0.0.2"] {
            assert_eq!(new(Route::of(client)), "NXDOMAIN ");
        }
        let serial = |route: Route<'_>| route.dig(&["split.example", "SOA"]);
        assert_ne!(
            serial(Route::of("127.0.0.3")),
            serial(Route::of("127.0.0.1"))
        );
    };
    check();
    running.signal("KILL");
    drop(running);
    let running = start();
    check();
    let history = run(&running, &["zone", "history", "split.example..narrow"]);
    assert!(history.contains("127.0.0.3"), "{history}");
    run(&running, &["zone", "sync", "split.example..narrow"]);
    let written = fs::read_to_string(files.path().join("narrow")).unwrap();
    assert!(written.contains("192.0.2.77"), "{written}");
    let untouched = fs::read_to_string(files.path().join("common")).unwrap();
    assert_eq!(untouched, version("common"));
}

#[test]
fn a_reload_changes_views_without_a_gap_and_interleaved_clients_never_mix() {
    let running = server(&our_views(""));
    let expected = [
        ("127.0.0.1", "common"),
        ("127.0.0.2", "wide"),
        ("127.0.0.3", "narrow"),
    ];
    for _ in 0..3 {
        for (client, version) in expected {
            assert_eq!(Route::of(client).version(), version);
        }
    }
    let path = running.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    let swapped = text
        .replace("networks = [\"127.0.0.3\"]", "networks = [\"127.0.0.1\"]")
        .replace("name = \"wide\"", "name = \"renamed\"");
    fs::write(&path, swapped).unwrap();
    run(&running, &["reload"]);
    for (client, version) in [
        ("127.0.0.1", "narrow"),
        ("127.0.0.2", "wide"),
        ("127.0.0.3", "wide"),
    ] {
        assert_eq!(Route::of(client).version(), version);
    }
    let without = text.split("[[view]]").next().unwrap().to_owned()
        + "\n[[backend]]\ntype = \"file\"\ndirectory = \"zones\"\n";
    fs::write(&path, without).unwrap();
    run(&running, &["reload"]);
    for (client, _) in expected {
        assert_eq!(Route::of(client).version(), "common");
    }
    let listed = run(&running, &["zone", "list"]);
    assert!(!listed.contains(".."), "{listed}");
    fs::write(&path, &text).unwrap();
    run(&running, &["reload"]);
    for (client, version) in expected {
        assert_eq!(Route::of(client).version(), version);
    }
    // A version that cannot be loaded is not replaced by the common one.
    fs::write(running.dir().join("wide"), "broken (\n").unwrap();
    fs::write(&path, text.replace("name = \"wide\"", "name = \"new\"")).unwrap();
    let _ = running.command(&["reload"]);
    assert_eq!(Route::of("127.0.0.2").version(), "SERVFAIL ");
    assert_eq!(Route::of("127.0.0.1").version(), "common");
}

#[test]
fn a_secondary_follows_the_versions_of_the_views_by_key() {
    let notified = |port: u16, key: &str| {
        format!(
            "allow_transfer = [\"any\"], notify_name_servers = false, also_notify = [{{ address = \"127.0.0.7:{port}\"{key} }}]"
        )
    };
    let keyed = notified(OURS + 1, ", key = \"k.\"");
    let plain = notified(OURS + 1, "");
    let config = format!(
        "{}[[zone]]\nname = \"split.example\"\nfile = \"common\"\n{}\n[[view]]\nname = \"keyed\"\nkeys = [\"k.\"]\n\
         zones = [{{ name = \"split.example\", file = \"keyed\", {keyed} }}]\n",
        key_table(),
        plain.replace(", n", "\nn").replace(", a", "\na"),
    );
    let primary = server(&config);
    let state = tempfile::tempdir().unwrap();
    let primaries = format!("primaries = [{{ address = \"127.0.0.1:{OURS}\"");
    let config = format!(
        "[server]\nstate_directory = \"{}\"\n{}[[zone]]\nname = \"split.example\"\nkind = \"secondary\"\n{primaries} }}]\n\
         [[view]]\nname = \"inside\"\nkeys = [\"k.\"]\nnetworks = [\"127.0.0.3\"]\n\
         zones = [{{ name = \"split.example\", kind = \"secondary\", {primaries}, key = \"k.\" }}] }}]\n",
        state.path().display(),
        key_table(),
    );
    let address = format!("127.0.0.7:{}", OURS + 1);
    let secondary = Setup::new().config(&config).listen(&[&address]).start();
    let at = |client| Route {
        port: OURS + 1,
        server: "127.0.0.7",
        ..Route::of(client)
    };
    secondary.wait_until("both versions are transferred", || {
        at("127.0.0.1").version() == "common" && at("127.0.0.3").version() == "keyed"
    });
    // Each change is notified to, and transferred by, its own version.
    for (file, client) in [("keyed", "127.0.0.3"), ("common", "127.0.0.1")] {
        let changed = version(&format!("{file}-2")).replace(" 1 7200", " 2 7200");
        fs::write(primary.dir().join(file), changed).unwrap();
        run(&primary, &["reload"]);
        let expected = format!("{file}-2");
        secondary.wait_until("the change is transferred", || {
            at(client).version() == expected
        });
    }
    assert_eq!(at("127.0.0.3").version(), "keyed-2");
    let status = run(&secondary, &["zone", "status", "split.example..inside"]);
    assert!(status.contains("split.example..inside"), "{status}");
}
