//! Secondary zones added to a database while the server runs: by its autoprimaries (`supermasters`), or by `nameward
//! zone create`. And NOTIFY to the secondaries of database zones.

use super::secondary::{TestDatabase, ZONE, primary, start, wait_for};
use nameward_testkit::mesh::{ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestServer};
use std::net::UdpSocket;
use std::time::Duration;

/// The name server of the zones of the mesh.
const NAME_SERVER: &str = "ns.fleet.example";

/// A server that has the zone in a file and permits transfers from this machine.
fn plain_primary(zone: &ChangingZone) -> TestServer {
    Setup::new()
        .without_web()
        .zone(ZONE, &zone.text())
        .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n")
        .start()
}

/// The NOTIFY of an autoprimary creates a row like that of PowerDNS, and the zone then follows its primary.
#[test]
fn the_zone_of_a_database_autoprimary_is_created_in_that_database() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::new(None, directory.path()).unwrap();
        let (there, here) = (free_address().unwrap(), free_address().unwrap());
        let key = KEY_NAME.trim_end_matches('.');
        database.run(&format!(
            "INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('{key}', '{KEY_ALGORITHM}', '{KEY_SECRET}');
             INSERT INTO supermasters (ip, nameserver, account) VALUES
             ('192.0.2.9', '{NAME_SERVER}', 'customer 7'), ('{there}', '{NAME_SERVER}', 'customer 7'),
             ('192.0.2.10', '{NAME_SERVER}', 'somebody else');"
        ));
        let server = start(&database, mode, here);
        let mut zone = ChangingZone::new(ZONE, 7, 40, 5);
        let peer = primary(PeerKind::Knot, there, here, &zone.text());
        wait_for(&server, here, zone.serial());
        assert!(
            server.wait_for_log("created as a secondary of autoprimary"),
            "{}",
            server.log()
        );
        let row = format!(
            "SELECT count(*) FROM domains WHERE name = '{ZONE}' AND type = 'SLAVE' \
             AND master = '{there}, 192.0.2.9' AND account = 'customer 7'"
        );
        assert_eq!(database.number(&row), Some(1), "{mode}");
        let signed = format!(
            "SELECT count(*) FROM domainmetadata WHERE kind = 'AXFR-MASTER-TSIG' AND content = '{key}'"
        );
        assert_eq!(database.number(&signed), Some(1), "{mode}");
        zone.change(5);
        peer.change(&zone.text()).unwrap();
        wait_for(&server, here, zone.serial());
        // Only the database stores it: when its row is deleted the zone is removed, and the state store does not
        // restore it.
        drop(peer);
        assert!(server.stop().success());
        database.run("DELETE FROM records; DELETE FROM domainmetadata; DELETE FROM domains;");
        let server = start(&database, mode, here);
        let status = server.command(&["zone", "status", ZONE]);
        assert!(!status.status.success(), "{mode}: {}", server.log());
    }
}

/// A zone that an operator creates as a secondary is transferred at once, into the database.
#[test]
fn zone_create_creates_a_secondary_that_follows_its_primary() {
    let directory = tempfile::tempdir().unwrap();
    let database = TestDatabase::new(None, directory.path()).unwrap();
    let mut zone = ChangingZone::new(ZONE, 7, 40, 5);
    let there = plain_primary(&zone);
    let here = free_address().unwrap();
    let server = start(&database, "live", here);
    let output = server.command(&[
        "zone",
        "create",
        ZONE,
        "--kind",
        "secondary",
        "--primary",
        &there.address().to_string(),
    ]);
    assert!(output.status.success(), "{output:?}\n{}", server.log());
    wait_for(&server, here, zone.serial());
    let rows = database.number("SELECT count(*) FROM records");
    assert!(rows.is_some_and(|rows| rows > 40), "{rows:?}");
    zone.change(5);
    there.write_zone(ZONE, &zone.text());
    assert!(there.command(&["reload"]).status.success());
    let retrieved = server.command(&["zone", "retrieve", ZONE]);
    assert!(retrieved.status.success(), "{retrieved:?}");
    wait_for(&server, here, zone.serial());
}

/// A secondary zone notifies others of what it has transferred if SLAVE-RENOTIFY says so.
#[test]
fn slave_renotify_has_a_secondary_notify_others() {
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::new(None, directory.path()).unwrap();
        let zone = ChangingZone::new(ZONE, 7, 10, 5);
        let there = plain_primary(&zone);
        let behind = UdpSocket::bind("127.0.0.1:0").unwrap();
        behind
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        database.run(&format!(
            "INSERT INTO domains (name, type, master) VALUES ('{ZONE}', 'SLAVE', '{}');
             INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'SLAVE-RENOTIFY', '1' FROM domains;
             INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'ALSO-NOTIFY', '{}' FROM domains;",
            there.address(),
            behind.local_addr().unwrap()
        ));
        let server = start(&database, mode, free_address().unwrap());
        let mut message = [0; 512];
        let received = behind.recv(&mut message);
        let length = received.unwrap_or_else(|error| panic!("{mode}: {error}\n{}", server.log()));
        assert_eq!(message[2] >> 3 & 0x0f, 4, "{mode}: opcode NOTIFY");
        let name = b"\x05fleet\x07example\0";
        assert_eq!(&message[12..12 + name.len()], name, "{length} octets");
    }
}

/// The name servers of a zone that is looked up are found in its database.
#[test]
fn name_servers_of_a_zone_that_is_looked_up_are_notified() {
    let directory = tempfile::tempdir().unwrap();
    let database = TestDatabase::new(None, directory.path()).unwrap();
    database.run(&format!(
        "INSERT INTO domains (id, name, type) VALUES (1, '{ZONE}', 'MASTER'), (2, 'hosts.test', 'NATIVE');
         INSERT INTO records (domain_id, name, type, content, ttl) VALUES
         (1, '{ZONE}', 'SOA', 'ns1.{ZONE} h.{ZONE} 7 2 3 4 5', 60), (2, 'hosts.test', 'SOA', 'ns.hosts.test h.hosts.test 1 2 3 4 5', 60),
         (1, '{ZONE}', 'NS', 'ns1.{ZONE}', 60), (1, '{ZONE}', 'NS', 'ns2.{ZONE}', 60), (1, '{ZONE}', 'NS', 'NS3.hosts.test', 60),
         (1, '{ZONE}', 'NS', 'ns4.elsewhere.test', 60), (1, 'ns1.{ZONE}', 'A', '127.0.0.51', 60),
         (1, 'ns2.{ZONE}', 'A', '127.0.0.52', 60), (2, 'ns3.hosts.test', 'A', '127.0.0.53', 60);"
    ));
    let server = start(&database, "live", free_address().unwrap());
    // Except for the one in the SOA, which is the primary.
    let wanted = "sending notifies to 127.0.0.52:53, 127.0.0.53:53";
    assert!(server.wait_for_log(wanted), "{}", server.log());
    let unknown = "cannot send NOTIFY to name server ns4.elsewhere.test.";
    assert!(server.wait_for_log(unknown), "{}", server.log());
    let noted = "SELECT notified_serial FROM domains WHERE id = 1";
    server.wait_until("notified_serial", || database.number(noted) == Some(7));
}
