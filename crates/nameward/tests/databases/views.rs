//! Zone versions for views from a database: `shop.test..inside` in `domains`, as PowerDNS 5 names variants.

use super::alias::with_shop;
use super::rows::Sqlite;
use super::servers::{backend, fill, run as run_sql, started};
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::wire::{Client, Transport};
use nameward_testkit::{Setup, TestServer};
use std::process::Command;

const SHOP: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.10\n\
                    outside TXT yes\nalias CNAME www\n";
const VIEWS: &str = "[[view]]\nname = \"office\"\nnetworks = [\"127.0.0.2\"]\n\
                     zones = [{ name = \"shop.test\", variant = \"inside\", allow_transfer = [\"any\"] }]\n\
                     [[view]]\nname = \"lab\"\nnetworks = [\"127.0.0.3\"]\n\
                     zones = [{ name = \"shop.test\", variant = \"inside\" }]\n\
                     [[view]]\nname = \"lost\"\nnetworks = [\"127.0.0.4\"]\nzones = [{ name = \"shop.test\" }]\n";

/// Adds the version `shop.test..inside` to `shop.test`.
const INSIDE: &str =
    "INSERT INTO domains (id, name, type) VALUES (100, 'shop.test..inside', 'NATIVE');
    INSERT INTO records (domain_id, name, type, content, ttl) VALUES
        (100, 'shop.test', 'SOA', 'ns.shop.test h.shop.test 7 2 3 4 60', 60),
        (100, 'shop.test', 'NS', 'ns.shop.test', 60),
        (100, 'ns.shop.test', 'A', '127.0.0.1', 60),
        (100, 'www.shop.test', 'A', '10.0.0.10', 60),
        (100, 'alias.shop.test', 'CNAME', 'www.shop.test', 60);";

fn server(mode: &str) -> TestServer {
    let (setup, backend) = with_shop(Setup::new(), SHOP, mode, None);
    let path = setup.dir().join("zones.db");
    Sqlite { path }.run(INSIDE);
    setup.config(&format!("{VIEWS}{backend}")).start()
}

/// The response code and the last octets of the addresses that a client gets.
fn ask(server: &TestServer, client: &str, transport: Transport, name: &str) -> (u16, Vec<u8>) {
    let client = Client::new(client, server.address());
    let reply = client.ask(transport, name, "A");
    let addresses = reply.answer.iter().filter(|record| record.rtype == 1);
    let first = addresses.filter_map(|record| record.data.first().copied());
    (reply.rcode(), first.collect())
}

fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text
}

#[test]
fn versions_of_a_database_zone_are_never_mixed() {
    for mode in ["live", "resident"] {
        let server = server(mode);
        let (outside, inside) = ((0, vec![192]), (0, vec![10]));
        for round in 0..4 {
            for transport in [Transport::Udp, Transport::Tcp] {
                for name in ["www.shop.test", "alias.shop.test"] {
                    for (client, expected) in [
                        ("127.0.0.1", &outside),
                        ("127.0.0.2", &inside),
                        ("127.0.0.3", &inside),
                        ("127.0.0.4", &(2, Vec::new())),
                    ] {
                        let got = ask(&server, client, transport, name);
                        assert_eq!(got, *expected, "{mode} {round} {client} {name}");
                    }
                }
            }
        }
        let absent = ask(&server, "127.0.0.2", Transport::Udp, "outside.shop.test");
        assert_eq!(absent, (3, vec![]));
        // A change of one version, by command, is not visible in the other.
        run(
            &server,
            &[
                "record",
                "set",
                "shop.test..inside",
                "www",
                "A",
                "60",
                "11.0.0.1",
            ],
        );
        server.wait_until("the change is served", || {
            ask(&server, "127.0.0.3", Transport::Udp, "www.shop.test") == (0, vec![11])
        });
        assert_eq!(
            ask(&server, "127.0.0.1", Transport::Udp, "www.shop.test"),
            outside
        );
        let listed = run(&server, &["zone", "list"]);
        let line = listed
            .lines()
            .find(|line| line.starts_with("shop.test..inside"));
        assert!(line.is_some_and(|line| line.contains(" 8 ")), "{listed}");
        let records = run(&server, &["record", "list", "shop.test..inside"]);
        assert!(
            records.contains("11.0.0.1") && !records.contains("outside"),
            "{records}"
        );
        let views = run(&server, &["view", "list", "--json"]);
        assert!(
            views.contains("\"zones\":[\"shop.test..inside\"]"),
            "{views}"
        );
    }
}

#[test]
fn a_version_in_a_database_is_transferred_and_signed_by_itself() {
    for mode in ["live", "resident"] {
        let server = server(mode);
        run(&server, &["zone", "secure", "shop.test..inside"]);
        let dig = |client: &str, arguments: &[&str]| {
            let port = server.address().port().to_string();
            let output = Command::new("dig")
                .args([
                    "@127.0.0.1",
                    "-p",
                    &port,
                    "-b",
                    client,
                    "+noall",
                    "+answer",
                    "+norecurse",
                ])
                .args(arguments)
                .output()
                .expect("dig is installed: run scripts/install-deps");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        server.wait_until("the version is signed", || {
            dig("127.0.0.2", &["+dnssec", "www.shop.test", "A"]).contains("RRSIG")
        });
        let signed = dig("127.0.0.2", &["+dnssec", "www.shop.test", "A"]);
        assert!(
            signed.contains(" shop.test. "),
            "the signer is the zone: {signed}"
        );
        let plain = dig("127.0.0.1", &["+dnssec", "www.shop.test", "A"]);
        assert!(!plain.contains("RRSIG"), "{plain}");
        let copy = dig("127.0.0.2", &["shop.test", "AXFR"]);
        assert!(
            copy.contains("10.0.0.10") && copy.contains("DNSKEY"),
            "{copy}"
        );
        assert!(!dig("127.0.0.1", &["shop.test", "AXFR"]).contains("192.0.2.10"));
        let ds = run(&server, &["zone", "ds", "shop.test..inside"]);
        assert!(ds.contains("shop.test."), "{ds}");
    }
}

/// Versions in a database server: their serials are read from the SOA at the name of the zone.
fn check_server(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let shop = ZoneText {
        name: "shop.test".into(),
        text: SHOP.into(),
    };
    run_sql(&database, kind, &fill(&[shop]));
    run_sql(&database, kind, INSIDE);
    for mode in ["live", "resident"] {
        let config = format!("{VIEWS}{}", backend(kind, &database.url(), mode));
        let server = Setup::new().without_web().config(&config).start();
        let ask = |client| ask(&server, client, Transport::Udp, "www.shop.test");
        server.wait_until("both versions are served", || {
            ask("127.0.0.1") == (0, vec![192]) && ask("127.0.0.3") == (0, vec![10])
        });
        let listed = run(&server, &["zone", "list"]);
        let line = |name: &str| listed.lines().find(|line| line.starts_with(name));
        let inside = line("shop.test..inside ");
        assert!(inside.is_some_and(|line| line.contains(" 7 ")), "{listed}");
        let outside = line("shop.test. ");
        assert!(outside.is_some_and(|line| line.contains(" 1 ")), "{listed}");
        assert!(server.stop().success());
    }
}

#[test]
fn postgres_has_versions_of_zones() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn mariadb_has_versions_of_zones() {
    check_server(DatabaseKind::Mariadb);
}

/// A version with a few names that overlays the common one, in the same database.
const OVERLAY: &str =
    "INSERT INTO domains (id, name, type) VALUES (101, 'shop.test..over', 'NATIVE');
    INSERT INTO records (domain_id, name, type, content, ttl) VALUES
        (101, 'shop.test', 'SOA', 'ns.shop.test h.shop.test 7 2 3 4 60', 60),
        (101, 'www.shop.test', 'A', '10.0.0.11', 60),
        (101, 'outside.shop.test', 'HIDE', 'TXT', 60);";
const OVERLAYS: &str = "[cache]\nzone_refresh = 1\n[[view]]\nname = \"over\"\nnetworks = [\"127.0.0.5\"]\n\
                        zones = [{ name = \"shop.test\", variant = \"over\", base = true }]\n";

/// Checks the answers of an overlay, and that it follows changes of both versions.
fn check_overlay(server: &TestServer, change: &dyn Fn(&str)) {
    let ask = |client, name| ask(server, client, Transport::Udp, name);
    server.wait_until("both versions are served", || {
        ask("127.0.0.1", "www.shop.test") == (0, vec![192])
            && ask("127.0.0.5", "www.shop.test") == (0, vec![10])
    });
    // A name that only the common version has, and one that is hidden.
    assert_eq!(ask("127.0.0.5", "alias.shop.test"), (0, vec![10]));
    assert_eq!(ask("127.0.0.5", "ns.shop.test"), (0, vec![127]));
    assert_eq!(ask("127.0.0.5", "outside.shop.test"), (3, vec![]));
    assert_eq!(ask("127.0.0.1", "outside.shop.test"), (0, vec![]));
    // A change of the common version in the database is visible in both.
    change(
        "INSERT INTO records (domain_id, name, type, content, ttl) SELECT id, 'new.shop.test', 'A', '192.0.2.44', 60 \
         FROM domains WHERE name = 'shop.test'; UPDATE records SET content = 'ns.shop.test h.shop.test 2 2 3 4 60' \
         WHERE type = 'SOA' AND domain_id IN (SELECT id FROM domains WHERE name = 'shop.test');",
    );
    for client in ["127.0.0.1", "127.0.0.5"] {
        server.wait_until("the change of the common version", || {
            ask(client, "new.shop.test") == (0, vec![192])
        });
    }
    // A change of the overlay, by command, is visible in it alone.
    run(
        server,
        &[
            "record",
            "set",
            "shop.test..over",
            "new",
            "A",
            "60",
            "11.0.0.1",
        ],
    );
    server.wait_until("the change of the overlay", || {
        ask("127.0.0.5", "new.shop.test") == (0, vec![11])
    });
    assert_eq!(ask("127.0.0.1", "new.shop.test"), (0, vec![192]));
    let records = run(server, &["record", "list", "shop.test..over"]);
    assert!(
        records.contains("HIDE") && !records.contains("alias"),
        "{records}"
    );
}

#[test]
fn a_version_in_sqlite_can_be_an_overlay() {
    let (setup, backend) = with_shop(Setup::new(), SHOP, "resident", None);
    let database = Sqlite {
        path: setup.dir().join("zones.db"),
    };
    database.run(OVERLAY);
    let server = setup.config(&format!("{OVERLAYS}{backend}")).start();
    check_overlay(&server, &|sql| database.run(sql));
}

fn check_overlay_of(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let shop = ZoneText {
        name: "shop.test".into(),
        text: SHOP.into(),
    };
    run_sql(&database, kind, &fill(&[shop]));
    run_sql(&database, kind, OVERLAY);
    let config = format!("{OVERLAYS}{}", backend(kind, &database.url(), "resident"));
    let server = Setup::new().without_web().config(&config).start();
    check_overlay(&server, &|sql| run_sql(&database, kind, sql));
}

#[test]
fn a_version_in_postgres_can_be_an_overlay() {
    check_overlay_of(DatabaseKind::Postgres);
}

#[test]
fn a_version_in_mariadb_can_be_an_overlay() {
    check_overlay_of(DatabaseKind::Mariadb);
}
