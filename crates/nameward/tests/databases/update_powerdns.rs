//! Permissions for updates of database zones: Nameward and PowerDNS, on one database, with the same requests.
//!
//! Three answers differ intentionally: PowerDNS adds the networks of its setting `allow-dnsupdate-from` to every
//! zone, which is this machine unless it is emptied. Nameward has no such list, so a zone without networks, or with
//! other ones, accepts nothing from this machine. Keys alone are sufficient from this machine, as with the default
//! setting of PowerDNS.

use std::net::SocketAddr;

use nameward_testkit::Setup;
use nameward_testkit::peers::Peer;

use super::operation::{wait_for, wait_for_code, zone};
use super::powerdns::{Store, powerdns_with};
use super::rows::Sqlite;
use super::update::nsupdate_at;

const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";
const LOOPBACK: &str = "127.0.0.0/8";
const ELSEWHERE: &str = "192.0.2.0/24";

/// A zone: its name, its networks, its key.
const ZONES: &[(&str, Option<&str>, Option<&str>)] = &[
    ("none.test", None, None),
    ("from.test", Some(LOOPBACK), None),
    ("elsewhere.test", Some(ELSEWHERE), None),
    ("key.test", None, Some("good")),
    ("both.test", Some(LOOPBACK), Some("good")),
    ("elsewhere-key.test", Some(ELSEWHERE), Some("good")),
];

/// The response codes of a zone for an update that is not signed, signed with its key, and signed with another key.
type Codes = [&'static str; 3];
const ALL: Codes = ["NOERROR", "NOERROR", "NOERROR"];
const NOBODY: Codes = ["REFUSED", "REFUSED", "REFUSED"];
const KEY: Codes = ["REFUSED", "NOERROR", "REFUSED"];

/// Zone, PowerDNS with its defaults, PowerDNS with an empty `allow-dnsupdate-from`, Nameward.
const EXPECTED: &[(&str, Codes, Codes, Codes)] = &[
    ("none.test", ALL, NOBODY, NOBODY),
    ("from.test", ALL, ALL, ALL),
    ("elsewhere.test", ALL, NOBODY, NOBODY),
    ("key.test", KEY, NOBODY, KEY),
    ("both.test", KEY, KEY, KEY),
    ("elsewhere-key.test", KEY, NOBODY, NOBODY),
];

fn fill(store: &Store) {
    let mut sql = format!(
        "INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('good', 'hmac-sha256', '{SECRET}'), \
         ('other', 'hmac-sha256', '{SECRET}');\n"
    );
    for (number, (name, networks, key)) in ZONES.iter().enumerate() {
        let id = number + 1;
        sql.push_str(&format!(
            "INSERT INTO domains (id, name, type) VALUES ({id}, '{name}', 'NATIVE');\n\
             INSERT INTO records (domain_id, name, type, content, ttl, auth) VALUES \
             ({id}, '{name}', 'SOA', 'ns1.{name} host.{name} 1 3600 600 86400 300', 300, 1), \
             ({id}, '{name}', 'NS', 'ns1.{name}', 300, 1), ({id}, 'ns1.{name}', 'A', '192.0.2.1', 300, 1);\n"
        ));
        let items = [
            networks.map(|networks| ("ALLOW-DNSUPDATE-FROM", networks)),
            key.map(|key| ("TSIG-ALLOW-DNSUPDATE", key)),
        ];
        for (kind, content) in items.into_iter().flatten() {
            sql.push_str(&format!(
                "INSERT INTO domainmetadata (domain_id, kind, content) VALUES ({id}, '{kind}', '{content}');\n"
            ));
        }
    }
    store.run(&sql);
}

/// Sends the three updates of a zone to a server.
fn codes(at: SocketAddr, zone: &str, name: &str) -> Vec<String> {
    let keys = [None, Some("good"), Some("other")];
    let send = |key: Option<&str>| {
        let signed = key.map(|key| format!("hmac-sha256:{key}.:{SECRET}"));
        let mut arguments = vec!["-t", "60"];
        arguments.extend(signed.iter().flat_map(|signed| ["-y", signed.as_str()]));
        let host = format!("{name}-{}.{zone}.", key.unwrap_or("none"));
        let lines = format!("zone {zone}.\nupdate add {host} 60 A 192.0.2.77");
        match nsupdate_at(at, &arguments, &lines) {
            (true, _) => "NOERROR".to_owned(),
            (false, words) => words
                .lines()
                .find_map(|line| line.strip_prefix("update failed: "))
                .unwrap_or(&words)
                .to_owned(),
        }
    };
    keys.map(send).to_vec()
}

#[test]
fn networks_and_keys_of_a_database_permit_the_same_clients_as_in_powerdns() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::new(None, directory.path()) else {
        return;
    };
    fill(&store);
    let names: Vec<&str> = ZONES.iter().map(|zone| zone.0).collect();
    let start = |more: &str| -> Option<Peer> { powerdns_with(&store, &names, more) };
    let Some(usual) = start("dnsupdate=yes\n") else {
        return;
    };
    for (zone, expected, ..) in EXPECTED {
        assert_eq!(
            codes(usual.addr(), zone, "usual"),
            expected,
            "PowerDNS, {zone}"
        );
    }
    drop(usual);
    let Some(strict) = start("dnsupdate=yes\nallow-dnsupdate-from=\n") else {
        return;
    };
    for (zone, _, expected, _) in EXPECTED {
        let found = codes(strict.addr(), zone, "strict");
        assert_eq!(
            found, expected,
            "PowerDNS without a list of its own, {zone}"
        );
    }
    drop(strict);
    let server = store.nameward("live");
    for (zone, .., expected) in EXPECTED {
        wait_for_code(&server, &format!("ns1.{zone}."), 0);
        let found = codes(server.address(), zone, "own");
        assert_eq!(found, expected, "{zone}: {}", server.log());
    }
}

/// FORWARD-DNSUPDATE of a secondary here lets PowerDNS, as its primary, accept or refuse the update.
#[test]
fn a_secondary_forwards_updates_to_powerdns() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::new(None, directory.path()) else {
        return;
    };
    fill(&store);
    let names: Vec<&str> = ZONES.iter().map(|zone| zone.0).collect();
    // Without caches: an answer rendered before the update and cached after it would hide the new serial.
    let more = "dnsupdate=yes\nallow-dnsupdate-from=\n\
                cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n";
    let Some(primary) = powerdns_with(&store, &names, more) else {
        return;
    };
    let own = tempfile::tempdir().unwrap();
    let database = Sqlite::new(own.path());
    for name in ["from.test", "elsewhere.test"] {
        database.add(&zone(name, "192.0.2.10"));
    }
    database.run(&format!(
        "UPDATE domains SET type = 'SLAVE', master = '{}';\n\
         INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'FORWARD-DNSUPDATE', '1' FROM domains;\n\
         INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'ALLOW-DNSUPDATE-FROM', '127.0.0.1' FROM domains;",
        primary.addr()
    ));
    let path = database.path.display();
    let backend = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"live\"\n");
    let secondary = Setup::new().without_web().config(&backend);
    let secondary = secondary.start();
    wait_for(&secondary, "www.from.test.", (0, 10));
    let update = |zone: &str| {
        let lines = format!("zone {zone}.\nupdate add forwarded.{zone}. 60 A 192.0.2.77");
        nsupdate_at(secondary.address(), &["-t", "60"], &lines)
    };
    assert_eq!(
        update("from.test"),
        (true, String::new()),
        "{}",
        secondary.log()
    );
    let (is_taken, words) = update("elsewhere.test");
    assert!(!is_taken && words.contains("REFUSED"), "{words}");
    // The primary has it, and the secondary gets it from there.
    let Store::Sqlite(theirs) = &store else {
        return;
    };
    let connection = rusqlite::Connection::open(theirs).unwrap();
    let rows = "SELECT count(*) FROM records WHERE name = 'forwarded.from.test'";
    let found: i64 = connection.query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(found, 1);
    let retrieved = secondary.command(&["zone", "retrieve", "from.test"]);
    assert!(retrieved.status.success(), "{retrieved:?}");
    wait_for(&secondary, "forwarded.from.test.", (0, 77));
}
