//! A database of PowerDNS with zones of every kind, taken over from `pdns_server` while its primaries and secondaries run.

use super::powerdns::Store;
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, compare,
    serial_at, wait_for_serial,
};
use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions, free_address};
use nameward_testkit::wait_with_log;
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const FLEET: &str = "fleet.example";
const OWN: &str = "own.test";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A PowerDNS with a SQLite database.
struct PowerDns {
    directory: TempDir,
    address: SocketAddr,
    running: Option<Peer>,
    /// The networks that may transfer.
    transfers_to: &'static str,
}

impl PowerDns {
    fn new(address: SocketAddr) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(None, directory.path())?;
        std::fs::write(directory.path().join("pdns.conf"), store.powerdns()).unwrap();
        Some(PowerDns {
            directory,
            address,
            running: None,
            transfers_to: "127.0.0.0/8",
        })
    }

    fn tool(&self, arguments: &[&str]) {
        let output = Command::new("pdnsutil")
            .arg(format!("--config-dir={}", self.directory.path().display()))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// Makes a zone with a server of its own.
    fn add_zone(&self, zone: &str, kind: &str) {
        self.tool(&["create-zone", zone, &format!("ns1.{zone}")]);
        self.tool(&["increase-serial", zone]);
        self.tool(&["set-kind", zone, kind]);
    }

    fn start(&mut self, ready: &[&str]) {
        let program = PeerKind::PowerDns.find_program().unwrap();
        let settings = std::fs::read_to_string(self.directory.path().join("pdns.conf")).unwrap();
        let options = PeerOptions {
            address: Some(self.address),
            ..PeerOptions::default()
        };
        let rest = format!(
            "xfr-cycle-interval=1\nzone-cache-refresh-interval=0\nzone-metadata-cache-ttl=0\nquery-cache-ttl=0\n\
             negquery-cache-ttl=0\ncache-ttl=0\nprimary=yes\nsecondary=yes\nallow-axfr-ips={}\n\
             only-notify=127.0.0.0/8\nallow-notify-from=127.0.0.0/8\n",
            self.transfers_to
        );
        let config = PeerConfig {
            main: &settings,
            rest: &rest,
            ..PeerConfig::default()
        };
        let peer = Peer::launch(ready, &options, |directory, address| {
            PeerKind::PowerDns.prepare(&program, directory, address, &config)
        });
        self.running = Some(peer.unwrap_or_else(|error| panic!("{error}")));
    }

    fn log(&self) -> String {
        let running = self.running.as_ref();
        running.map_or_else(String::new, Peer::log_tail)
    }

    /// The first column of the first row.
    fn value(&self, sql: &str) -> Option<String> {
        let path = self.directory.path().join("pdns.db");
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(TIMEOUT).unwrap();
        let read = connection.query_row(sql, [], |row| {
            let value: rusqlite::types::Value = row.get(0)?;
            Ok(match value {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                _ => String::new(),
            })
        });
        read.ok()
    }
}

fn serve(database: &PowerDns, mode: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let path = database.directory.path().join("pdns.db");
    setup
        .listen(&[&database.address.to_string()])
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n\
             [[backend]]\ntype = \"sqlite\"\npath = {path:?}\nmode = \"{mode}\"\n"
        ))
        .start()
}

#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn take_over(mode: &str) {
    if PeerKind::PowerDns.require().is_none() || PeerKind::Knot.require().is_none() {
        return;
    }
    let [here, knot, behind, there, consumer] = [(); 5].map(|()| free_address().unwrap());
    let mut fleet = ChangingZone::new(FLEET, 50, 60, 17);
    let primary = MeshSetup {
        kind: PeerKind::Knot,
        role: MeshRole::Primary,
        zone: FLEET,
        address: knot,
        other: here,
    };
    let primary =
        MeshPeer::start(&primary, &fleet.text()).unwrap_or_else(|error| panic!("{error}"));

    // Produces a catalog that is followed here.
    let Some(mut producer) = PowerDns::new(there) else {
        return;
    };
    producer.add_zone("theirs.test", "producer");
    producer.tool(&["set-meta", "theirs.test", "ALSO-NOTIFY", &here.to_string()]);
    for zone in ["m1.test", "m2.test"] {
        producer.add_zone(zone, "primary");
        producer.tool(&["set-catalog", zone, "theirs.test"]);
    }
    producer.start(&["theirs.test"]);

    // The catalog that is taken over.
    let mut own = PowerDns::new(here).unwrap();
    own.tool(&["import-tsig-key", KEY_NAME, KEY_ALGORITHM, KEY_SECRET]);
    own.add_zone(OWN, "primary");
    own.tool(&["activate-tsig-key", OWN, KEY_NAME, "primary"]);
    let notified = [behind.to_string(), consumer.to_string()];
    own.tool(&["set-meta", OWN, "ALSO-NOTIFY", &notified[0], &notified[1]]);
    own.tool(&["create-secondary-zone", FLEET, &knot.to_string()]);
    own.tool(&["activate-tsig-key", FLEET, KEY_NAME, "secondary"]);
    own.tool(&["activate-tsig-key", FLEET, KEY_NAME, "primary"]);
    own.add_zone("ours.test", "producer");
    own.tool(&[
        "set-meta",
        "ours.test",
        "ALSO-NOTIFY",
        &consumer.to_string(),
    ]);
    own.tool(&["set-catalog", OWN, "ours.test"]);
    own.tool(&["set-option", OWN, "producer", "group", "g1", "g2"]);
    own.tool(&["create-secondary-zone", "theirs.test", &there.to_string()]);
    own.tool(&["set-kind", "theirs.test", "consumer"]);
    own.start(&[OWN]);

    // Follows our catalog; the other one is a secondary by its key.
    let mut follower = PowerDns::new(consumer).unwrap();
    follower.tool(&["import-tsig-key", KEY_NAME, KEY_ALGORITHM, KEY_SECRET]);
    follower.tool(&["create-secondary-zone", "ours.test", &here.to_string()]);
    follower.tool(&["set-kind", "ours.test", "consumer"]);
    follower.start(&[]);
    let secondary = MeshSetup {
        kind: PeerKind::Knot,
        role: MeshRole::Secondary,
        zone: OWN,
        address: behind,
        other: here,
    };
    let _secondary = MeshPeer::start(&secondary, "").unwrap_or_else(|error| panic!("{error}"));
    wait_for_serial(here, FLEET, fleet.serial()).unwrap_or_else(|_| panic!("{}", own.log()));
    wait_with_log(
        "members at the old server",
        || own.log(),
        || serial_at(here, "m1.test").is_some() && serial_at(here, "m2.test").is_some(),
    );
    wait_with_log(
        "members behind it",
        || follower.log(),
        || serial_at(consumer, OWN).is_some() && serial_at(behind, OWN).is_some(),
    );
    let row = |database: &PowerDns, zone: &str| {
        database.value(&format!("SELECT id FROM domains WHERE name = '{zone}'"))
    };
    let (member, member_behind) = (row(&own, "m1.test"), row(&follower, OWN));

    // Another server, the same file and port; a zone was changed in between.
    own.running = None;
    own.tool(&["increase-serial", OWN]);
    let changed = own.value("SELECT content FROM records WHERE type = 'SOA' AND name = 'own.test'");
    let serial = |soa: Option<String>| -> u32 {
        let soa = soa.unwrap();
        soa.split(' ').nth(2).unwrap().parse().unwrap()
    };
    let serial = serial(changed);
    let server = serve(&own, mode);
    let log = || server.log();
    for zone in [OWN, FLEET, "m1.test", "m2.test", "theirs.test", "ours.test"] {
        wait_with_log(zone, log, || serial_at(here, zone).is_some());
    }

    // Secondaries are notified of changes in the meantime, and transfer with their key.
    for address in [behind, consumer] {
        wait_with_log("the change at the secondaries", log, || {
            serial_at(address, OWN) == Some(serial)
        });
    }
    let noted = "SELECT notified_serial FROM domains WHERE name = 'own.test'";
    wait_with_log("notified_serial", log, || {
        own.value(noted) == Some(serial.to_string())
    });
    assert!(
        server
            .command(&["record", "set", OWN, "www", "A", "60", "192.0.2.7"])
            .status
            .success()
    );
    for address in [behind, consumer] {
        wait_with_log("a change at the secondaries", log, || {
            serial_at(address, OWN).is_some_and(|there| there > serial)
        });
    }
    compare(here, behind, OWN).unwrap_or_else(|error| panic!("{mode}: {error}"));

    // Changes of the primary arrive.
    fleet.change(20);
    primary.change(&fleet.text()).unwrap();
    wait_for_serial(here, FLEET, fleet.serial()).unwrap_or_else(|_| panic!("{}", server.log()));
    compare(knot, here, FLEET).unwrap_or_else(|error| panic!("{mode}: {error}"));

    // The followed catalog: one member is added, another one removed, the third stays unchanged.
    producer.add_zone("m3.test", "primary");
    producer.tool(&["set-catalog", "m3.test", "theirs.test"]);
    producer.tool(&["set-catalog", "m2.test", ""]);
    wait_with_log("a new member", log, || serial_at(here, "m3.test").is_some());
    wait_with_log("a member that goes", log, || {
        row(&own, "m2.test").is_none() && serial_at(here, "m2.test").is_none()
    });
    assert_eq!(row(&own, "m1.test"), member);
    let options = own.value("SELECT options FROM domains WHERE name = 'm3.test'");
    assert!(options.unwrap().contains("\"unique\""));
    let made = own.value("SELECT type || catalog FROM domains WHERE name = 'm3.test'");
    assert_eq!(made.as_deref(), Some("SLAVEtheirs.test"));

    // The produced catalog: one more member, and the previous one is unchanged.
    own.add_zone("more.test", "primary");
    own.tool(&["set-catalog", "more.test", "ours.test"]);
    wait_with_log(
        "a member of ours",
        || server.log() + &follower.log(),
        || serial_at(consumer, "more.test").is_some(),
    );
    assert_eq!(
        row(&follower, OWN),
        member_behind,
        "it was not created again"
    );
    let options = follower.value("SELECT options FROM domains WHERE name = 'own.test'");
    assert!(options.unwrap().contains("g2"));
}

/// AXFR-SOURCE is the address that primaries see, for the SOA query and for the transfer.
#[test]
fn axfr_source_is_the_address_that_a_primary_sees() {
    if PeerKind::PowerDns.require().is_none() {
        return;
    }
    let (here, there) = (free_address().unwrap(), free_address().unwrap());
    let Some(mut primary) = PowerDns::new(there) else {
        return;
    };
    primary.add_zone(OWN, "primary");
    primary.transfers_to = "127.0.0.9";
    primary.start(&[OWN]);
    let own = PowerDns::new(here).unwrap();
    own.tool(&["create-secondary-zone", OWN, &there.to_string()]);
    let server = serve(&own, "live");
    assert!(server.wait_for_log("refresh failed"), "{}", server.log());
    own.tool(&["set-meta", OWN, "AXFR-SOURCE", "127.0.0.9"]);
    wait_with_log(
        "the transfer",
        || server.log(),
        || {
            let _ = server.command(&["zone", "retrieve", OWN]);
            serial_at(here, OWN).is_some()
        },
    );
}

#[test]
fn a_database_is_taken_over_from_powerdns_live_without_interruption() {
    take_over("live");
}

#[test]
fn a_database_is_taken_over_from_powerdns_resident_without_interruption() {
    take_over("resident");
}
