//! Two servers of ours that speak over TLS or QUIC in both directions: NOTIFY, serial queries, transfers and forwarded updates,
//! each allowed to the holder of a client certificate only. Nothing between them is in plain text, and what is wrong with a
//! certificate is a fault until it is right.

use super::{address, serial};
use crate::databases::rows::Sqlite;
use crate::encrypted::counted;
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::mesh::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET};
use nameward_testkit::peers::free_address;
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

const ZONE: &str = "fleet.example";

/// One of the two servers: its name, where it listens encrypted, and its certificate, for both roles.
struct FleetServer {
    name: &'static str,
    listen: SocketAddr,
    identity: IssuedCertificate,
}

/// The transport of a test, and what both servers trust.
struct Fleet {
    /// `listen_tls` or `listen_quic`.
    listener: &'static str,
    /// Further settings of a server that is contacted.
    transport: &'static str,
    authority: PathBuf,
}

impl Fleet {
    /// The settings with which `from` contacts `to`.
    fn contact(&self, from: &FleetServer, to: &FleetServer) -> String {
        format!(
            "{{ address = \"{}\", key = \"{KEY_NAME}\", tls = \"strict\", tls_name = \"{}\", tls_ca = {:?}, \
             tls_certificate = {:?}, tls_key = {:?}{} }}",
            to.listen,
            to.name,
            self.authority,
            from.identity.certificate,
            from.identity.key,
            self.transport
        )
    }

    fn setup(&self, own: &FleetServer, directory: &Path, zone: &str) -> Setup {
        let state = directory.join(own.name);
        std::fs::create_dir(&state).unwrap();
        Setup::new().config(&format!(
            "[server]\nstate_directory = {state:?}\n{} = [\"{}\"]\n[tls]\ncertificate = {:?}\nkey = {:?}\n\
             client_ca = {:?}\n[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
             [[zone]]\nname = \"{ZONE}\"\n{zone}",
            self.listener, own.listen, own.identity.certificate, own.identity.key, self.authority
        ))
    }
}

fn update(server: &TestServer, label: &str) {
    let script = format!(
        "server 127.0.0.1 {}\nzone {ZONE}\nkey {KEY_ALGORITHM}:{KEY_NAME} {KEY_SECRET}\nupdate add {label}.{ZONE}. 60 A \
         192.0.2.77\nsend\n",
        server.address().port()
    );
    let file = server.dir().join("update");
    std::fs::write(&file, script).unwrap();
    let mut command = Command::new("nsupdate");
    let output = command.args(["-t", "30"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{}", server.log());
}

fn zone_text(serial: u32) -> String {
    format!(
        "$TTL 60\n@ SOA ns1 h {serial} 36000 600 864000 60\n@ NS ns1\nns1 A 127.0.0.1\nwww A 192.0.2.{serial}\n"
    )
}

fn notifies_updates_and_transfers(listener: &'static str, transport: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority").unwrap();
    let [one, two] = ["ns1.fleet.example", "ns2.fleet.example"].map(|name| FleetServer {
        name,
        listen: free_address().unwrap(),
        identity: authority.issue(name, &[name], Validity::Current).unwrap(),
    });
    let fleet = Fleet {
        listener,
        transport,
        authority: authority.path().into(),
    };
    let settings = format!(
        "kind = \"primary\"\nnotify_name_servers = false\nalso_notify = [{}]\nallow_transfer = [\"tls-name:{}\"]\n\
         allow_update = [\"tls-name:{} key:{KEY_NAME}\"]\nallow_query = [\"127.0.0.1\"]\n",
        fleet.contact(&one, &two),
        two.name,
        two.name
    );
    let primary = fleet.setup(&one, directory.path(), &settings);
    let primary = primary.zone(ZONE, &zone_text(1)).start();
    let settings = format!(
        "kind = \"secondary\"\nprimaries = [{}]\nforward_updates = true\nallow_update = [\"127.0.0.1\"]\n",
        fleet.contact(&two, &one)
    );
    let secondary = fleet.setup(&two, directory.path(), &settings).start();
    secondary.wait_until("the zone", || serial(secondary.address(), ZONE) == Some(1));

    // The refresh interval is hours: what changes arrives because of a NOTIFY.
    primary.write_zone(ZONE, &zone_text(2));
    let reloaded = primary.command(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    secondary.wait_until("the change", || {
        address(secondary.address(), &format!("www.{ZONE}")) == Some(2)
    });
    update(&secondary, "new");
    secondary.wait_until("the update", || {
        address(secondary.address(), &format!("new.{ZONE}")) == Some(77)
    });
    assert_eq!(counted(&primary, "dnsupdate-changes"), 1);
    // One for the change, one for the update; the one at start may have been sent before the secondary ran.
    let notified = counted(&secondary, "incoming-notifications");
    assert!(notified >= 2, "{notified}");
    let name = listener.trim_start_matches("listen_");
    // One more may arrive between the two readings.
    secondary.wait_until("all of them were sent over the listener", || {
        let notified = counted(&secondary, "incoming-notifications");
        counted(&secondary, &format!("{name}-queries")) == notified
    });
    // Serial queries, a transfer and the update.
    assert!(counted(&primary, &format!("{name}-queries")) >= 3);
    assert!(secondary.wait_for_log("IXFR"), "{}", secondary.log());
    for server in [&primary, &secondary] {
        assert_eq!(counted(server, "tcp-queries"), 0);
    }
}

#[test]
fn servers_notify_transfer_and_forward_updates_over_tls() {
    notifies_updates_and_transfers("listen_tls", "");
}

#[test]
fn servers_notify_transfer_and_forward_updates_over_quic() {
    notifies_updates_and_transfers("listen_quic", ", quic = true");
}

/// The text of a fault on the status page, in `nameward status`, and the number of such faults in `/metrics`.
fn shows_fault(server: &TestServer, text: &str) -> bool {
    let status = String::from_utf8(server.command(&["status"]).stdout).unwrap();
    let fetch = |path: &str| {
        let url = format!("http://{}{path}", server.web());
        let output = Command::new("curl").args(["--silent", &url]).output();
        String::from_utf8(output.expect("curl is installed").stdout).unwrap()
    };
    let in_metrics = fetch("/metrics").contains("nameward_faults{kind=\"peer_tls\"} 1");
    let shown = [
        status.contains(&format!("peer_tls: {text}")),
        fetch("/").contains(text),
        in_metrics,
    ];
    shown == [true; 3]
}

fn shows_no_fault(server: &TestServer) -> bool {
    let status = String::from_utf8(server.command(&["status"]).stdout).unwrap();
    !status.contains("peer_tls")
}

#[test]
fn a_certificate_of_another_name_is_a_fault_of_both_sides_until_it_is_replaced() {
    for (listener, transport, word) in [
        ("listen_tls", "", "TLS"),
        ("listen_quic", ", quic = true", "QUIC"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), "authority").unwrap();
        let [one, two] = ["ns1.fleet.example", "ns2.fleet.example"].map(|name| FleetServer {
            name,
            listen: free_address().unwrap(),
            // Not for the name of the server.
            identity: authority
                .issue(name, &["x.example"], Validity::Current)
                .unwrap(),
        });
        let fleet = Fleet {
            listener,
            transport,
            authority: authority.path().into(),
        };
        let settings = format!(
            "kind = \"primary\"\nnotify_name_servers = false\nalso_notify = [{}]\nallow_transfer = [\"tls\"]\n",
            fleet.contact(&one, &two)
        );
        let primary = fleet.setup(&one, directory.path(), &settings);
        let primary = primary.zone(ZONE, &zone_text(1)).start();
        let settings = format!(
            "kind = \"secondary\"\nprimaries = [{}]\n",
            fleet.contact(&two, &one)
        );
        let secondary = fleet.setup(&two, directory.path(), &settings).start();
        let text = format!(
            "No encrypted connection to the primary {} ({word}): ",
            one.listen
        );
        secondary.wait_until(&text, || shows_fault(&secondary, &text));
        let text = format!(
            "No encrypted connection to the secondary {} ({word}): ",
            two.listen
        );
        primary.wait_until(&text, || shows_fault(&primary, &text));
        for name in [one.name, two.name] {
            authority.issue(name, &[name], Validity::Current).unwrap();
        }
        // Certificates are read again when their files change.
        secondary.wait_until("the zone", || {
            let _ = secondary.command(&["zone", "retrieve", ZONE]);
            serial(secondary.address(), ZONE) == Some(1)
        });
        secondary.wait_until("no fault", || shows_no_fault(&secondary));
        primary.wait_until("no fault", || {
            let _ = primary.command(&["zone", "notify", ZONE]);
            shows_no_fault(&primary)
        });
    }
}

/// A primary that transfers its zone over TLS only, and the setting that describes it for others.
fn tls_primary(directory: &Path) -> (TestServer, SocketAddr, String) {
    let authority = Authority::new(directory, "authority").unwrap();
    let own = FleetServer {
        name: "ns1.fleet.example",
        listen: free_address().unwrap(),
        identity: authority
            .issue("ns1", &["ns1.fleet.example"], Validity::Current)
            .unwrap(),
    };
    let fleet = Fleet {
        listener: "listen_tls",
        transport: "",
        authority: authority.path().into(),
    };
    let settings = "kind = \"primary\"\nnotify_name_servers = false\nallow_transfer = [\"tls\"]\n";
    let primary = fleet.setup(&own, directory, settings);
    let primary = primary.zone(ZONE, &zone_text(1)).start();
    let remotes = format!(
        "remotes = [{{ address = \"{}\", tls = \"strict\", tls_name = \"{}\", tls_ca = {:?} }}]\n",
        own.listen, own.name, fleet.authority
    );
    (primary, own.listen, remotes)
}

/// Checks that a server has the zone, and that the primary was contacted over TLS only.
fn is_transferred_over_tls(primary: &TestServer, secondary: &TestServer) {
    secondary.wait_until("the zone", || serial(secondary.address(), ZONE) == Some(1));
    assert!(counted(primary, "tls-queries") >= 1);
    for plain in ["udp-queries", "tcp-queries"] {
        assert_eq!(counted(primary, plain), 0, "{plain}");
    }
}

#[test]
fn database_zones_have_the_tls_settings_configured_for_the_address_of_their_primary() {
    for (mode, has_port) in [("live", true), ("resident", false)] {
        let directory = tempfile::tempdir().unwrap();
        let (primary, address, remotes) = tls_primary(directory.path());
        let database = Sqlite::new(directory.path());
        // PowerDNS stores the address without its port if that is 53.
        let master = if has_port {
            address.to_string()
        } else {
            address.ip().to_string()
        };
        database.run(&format!(
            "INSERT INTO domains (name, type, master) VALUES ('{ZONE}', 'SLAVE', '{master}')"
        ));
        let state = directory.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let secondary = Setup::new().config(&format!(
            "[server]\nstate_directory = {state:?}\n{remotes}[[backend]]\ntype = \"sqlite\"\npath = {:?}\nmode = \"{mode}\"\n",
            database.path
        ));
        is_transferred_over_tls(&primary, &secondary.start());
    }
}

#[test]
fn zones_of_commands_have_the_tls_settings_configured_for_the_address_of_their_primary() {
    let directory = tempfile::tempdir().unwrap();
    let (primary, address, remotes) = tls_primary(directory.path());
    let state = directory.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let server = format!("[server]\nstate_directory = {state:?}\n");
    let secondary = Setup::new().config(&format!("{server}{remotes}")).start();
    let address = address.to_string();
    let create = [
        "zone",
        "create",
        ZONE,
        "--kind",
        "secondary",
        "--primary",
        &address,
    ];
    let created = secondary.command(&create);
    assert!(created.status.success(), "{created:?}");
    is_transferred_over_tls(&primary, &secondary);
    let status = super::status(&secondary, ZONE);
    assert!(status.contains(&address), "{status}");

    // A reload changes the settings of all zones.
    let file = secondary.dir().join("nameward.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let wrong = config.replace("tls_name = \"ns1.", "tls_name = \"other.");
    assert_ne!(wrong, config);
    std::fs::write(&file, wrong).unwrap();
    let reloaded = secondary.command(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    let text =
        format!("No encrypted connection to the primary {address} (TLS): certificate is for ns1.");
    secondary.wait_until("a fault", || {
        let _ = secondary.command(&["zone", "retrieve", ZONE]);
        shows_fault(&secondary, &text)
    });
}

/// A server that notifies another one over TLS and transfers only over TLS, and that other one, which knows the first by its
/// address and `remotes`.
struct Notified {
    directory: tempfile::TempDir,
    fleet: Fleet,
    primary: FleetServer,
    secondary: FleetServer,
}

impl Notified {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), "authority").unwrap();
        let [primary, secondary] =
            ["ns1.fleet.example", "ns2.fleet.example"].map(|name| FleetServer {
                name,
                listen: free_address().unwrap(),
                identity: authority.issue(name, &[name], Validity::Current).unwrap(),
            });
        Self {
            fleet: Fleet {
                listener: "listen_tls",
                transport: "",
                authority: authority.path().into(),
            },
            directory,
            primary,
            secondary,
        }
    }

    /// Starts a server of the two with settings of the server, further tables, and its zone, if it has one.
    fn start(
        &self,
        own: &FleetServer,
        remotes: &str,
        tables: &str,
        zone: Option<&str>,
    ) -> TestServer {
        let state = self.directory.path().join(own.name);
        std::fs::create_dir(&state).unwrap();
        let setup = Setup::new().config(&format!(
            "[server]\nstate_directory = {state:?}\nlisten_tls = [\"{}\"]\nremotes = [{remotes}]\n[tls]\ncertificate = {:?}\nkey \
             = {:?}\nclient_ca = {:?}\n[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \
             \"{KEY_SECRET}\"\n{tables}",
            own.listen, own.identity.certificate, own.identity.key, self.fleet.authority
        ));
        match zone {
            Some(text) => setup.zone(ZONE, text).start(),
            None => setup.start(),
        }
    }
}

#[test]
fn an_autoprimary_is_queried_and_its_zones_are_transferred_over_tls() {
    let both = Notified::new();
    let (one, two) = (&both.primary, &both.secondary);
    let autoprimary = format!(
        "[[autoprimary]]\naddress = \"{}\"\nname_server = \"ns1.{ZONE}\"\nkey = \"{KEY_NAME}\"\n",
        one.listen
    );
    let secondary = both.start(two, &both.fleet.contact(two, one), &autoprimary, None);
    let settings = format!(
        "[[zone]]\nname = \"{ZONE}\"\nkind = \"primary\"\nnotify_name_servers = false\nalso_notify = [{}]\n\
         allow_transfer = [\"tls-name:{}\"]\nallow_query = [\"127.0.0.1\"]\n",
        both.fleet.contact(one, two),
        two.name
    );
    let primary = both.start(one, "", &settings, Some(&zone_text(1)));
    is_transferred_over_tls(&primary, &secondary);
    assert!(secondary.wait_for_log("created as a secondary of autoprimary"));
    let notified = counted(&secondary, "incoming-notifications");
    assert!(notified >= 1);
    assert_eq!(counted(&secondary, "tls-queries"), notified);
}

#[test]
fn also_notify_in_a_database_is_sent_over_tls() {
    let both = Notified::new();
    let (one, two) = (&both.primary, &both.secondary);
    let settings = format!(
        "[[zone]]\nname = \"{ZONE}\"\nkind = \"secondary\"\nprimaries = [{}]\n",
        both.fleet.contact(two, one)
    );
    let secondary = both.start(two, "", &settings, None);
    let database = Sqlite::new(both.directory.path());
    database.run(&format!(
        "INSERT INTO domains (id, name, type) VALUES (1, '{ZONE}', 'MASTER');
         INSERT INTO records (domain_id, name, type, content, ttl, auth) VALUES
         (1, '{ZONE}', 'SOA', 'ns1.{ZONE} h.{ZONE} 1 36000 600 864000 60', 60, 1), (1, '{ZONE}', 'NS', 'ns1.{ZONE}', 60, 1),
         (1, 'ns1.{ZONE}', 'A', '127.0.0.1', 60, 1);
         INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'ALSO-NOTIFY', '{}');",
        two.listen
    ));
    let backend = format!(
        "[[backend]]\ntype = \"sqlite\"\npath = {:?}\n[zone_defaults]\nallow_transfer = [\"tls-name:{}\"]\n",
        database.path, two.name
    );
    let primary = both.start(one, &both.fleet.contact(one, two), &backend, None);
    is_transferred_over_tls(&primary, &secondary);
    // The refresh interval is hours: the change arrives because of a NOTIFY.
    let before = counted(&secondary, "incoming-notifications");
    database.run(
        "UPDATE records SET content = replace(content, ' 1 36000', ' 2 36000') WHERE type = 'SOA';",
    );
    secondary.wait_until("the change", || {
        serial(secondary.address(), ZONE) == Some(2)
    });
    let notified = counted(&secondary, "incoming-notifications");
    assert!(notified > before, "{notified}\n{}", primary.log());
    assert_eq!(counted(&secondary, "tls-queries"), notified);
    assert_eq!(counted(&secondary, "tcp-queries"), 0);
}
