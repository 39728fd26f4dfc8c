//! Catalog zones (RFC 9432) between Nameward and other name servers, over TSIG: members are added and removed, have
//! groups and move, and an invalid catalog changes nothing.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use nameward_testkit::mesh::catalog::{CatalogPeer, MemberZone, OPEN_GROUP, member_text};
use nameward_testkit::mesh::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, serial_at, wait_for_serial};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::wait_with_log;
use nameward_testkit::{Setup, TestServer};

const CATALOG: &str = "catalog.example";
const OTHER_CATALOG: &str = "other.example";

fn key() -> String {
    format!(
        "[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n"
    )
}

/// Checks whether a server transfers a zone to clients without a key.
fn is_open(server: SocketAddr, zone: &str) -> bool {
    let output = Command::new("dig")
        .args(["+noall", "+answer", "+tries=1", "+time=5", "-p"])
        .arg(server.port().to_string())
        .arg(format!("@{}", server.ip()))
        .args(["-t", "AXFR", "-q", zone])
        .output()
        .expect("dig can be run");
    String::from_utf8_lossy(&output.stdout).contains("SOA")
}

/// Nameward follows catalogs of another server.
struct Consumer {
    server: TestServer,
    here: SocketAddr,
    producer: CatalogPeer,
}

impl Consumer {
    fn start(kind: PeerKind, catalogs: &[(&str, u32)], members: &[MemberZone]) -> Self {
        let (there, here) = (free_address().unwrap(), free_address().unwrap());
        let producer = CatalogPeer::producer(kind, (there, here), catalogs, members)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        let mut config = format!(
            "[server]\nstate_directory = \"state\"\n{}[[template]]\nname = \"{OPEN_GROUP}\"\n\
             allow_transfer = [\"127.0.0.1\"]\n",
            key()
        );
        for (catalog, _) in catalogs {
            config += &format!(
                "[[zone]]\nname = \"{catalog}\"\nkind = \"consumer\"\n\
                 primaries = [{{ address = \"{there}\", key = \"{KEY_NAME}\" }}]\n"
            );
        }
        let setup = Setup::new().without_web().listen(&[&here.to_string()]);
        let server = setup.config(&config).start();
        Consumer {
            server,
            here,
            producer,
        }
    }

    fn log(&self) -> String {
        format!("{}\npeer:\n{}", self.server.log(), self.producer.log_tail())
    }

    fn wait_for(&self, zone: &str) {
        wait_with_log(
            zone,
            || self.log(),
            || serial_at(self.here, zone) == Some(1),
        );
    }

    fn wait_until_gone(&self, zone: &str) {
        let what = format!("the end of {zone}");
        wait_with_log(
            &what,
            || self.log(),
            || serial_at(self.here, zone).is_none(),
        );
    }

    fn change(&self, catalogs: &[(&str, u32)], version: &str, members: &[MemberZone]) {
        let set = self.producer.set_members(catalogs, version, members);
        set.expect("the producer takes other members");
    }
}

fn member(zone: &str) -> MemberZone {
    MemberZone::new(CATALOG, zone)
}

/// Members are added and removed, and those of a group have its template.
fn is_followed(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let first = [member("a.test"), member("b.test").in_group(OPEN_GROUP)];
    let consumer = Consumer::start(kind, &[(CATALOG, 1)], &first);
    consumer.wait_for("a.test");
    consumer.wait_for("b.test");
    assert!(is_open(consumer.here, "b.test"), "{}", consumer.log());
    assert!(!is_open(consumer.here, "a.test"));
    let second = [member("b.test").in_group(OPEN_GROUP), member("c.test")];
    consumer.change(&[(CATALOG, 2)], "2", &second);
    consumer.wait_for("c.test");
    consumer.wait_until_gone("a.test");
    assert_eq!(serial_at(consumer.here, "b.test"), Some(1));
}

#[test]
fn a_catalog_of_bind_is_followed() {
    is_followed(PeerKind::Bind);
}

#[test]
fn a_catalog_of_knot_is_followed() {
    is_followed(PeerKind::Knot);
}

#[test]
fn a_broken_catalog_of_bind_changes_nothing() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let consumer = Consumer::start(PeerKind::Bind, &[(CATALOG, 1)], &[member("a.test")]);
    consumer.wait_for("a.test");
    // An unknown schema version (RFC 9432 section 4.3.1).
    consumer.change(&[(CATALOG, 2)], "17", &[member("b.test")]);
    assert!(
        consumer
            .server
            .wait_for_log("serial 2 is invalid and ignored"),
        "{}",
        consumer.log()
    );
    assert_eq!(serial_at(consumer.here, "a.test"), Some(1));
    assert_eq!(serial_at(consumer.here, "b.test"), None);
    consumer.change(&[(CATALOG, 3)], "2", &[member("b.test")]);
    consumer.wait_for("b.test");
    consumer.wait_until_gone("a.test");
}

#[test]
fn a_member_moves_from_one_catalog_of_bind_to_another() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let here = |zone: &str| MemberZone::new(OTHER_CATALOG, zone);
    let consumer = Consumer::start(
        PeerKind::Bind,
        &[(CATALOG, 1), (OTHER_CATALOG, 1)],
        &[member("a.test"), here("b.test")],
    );
    consumer.wait_for("a.test");
    consumer.wait_for("b.test");
    // Without a change-of-ownership property the zone stays with its catalog.
    let claimed = [
        member("a.test"),
        here("a.test").in_group(OPEN_GROUP),
        here("b.test"),
    ];
    consumer.change(&[(CATALOG, 1), (OTHER_CATALOG, 2)], "2", &claimed);
    assert!(
        consumer
            .server
            .wait_for_log("member zone a.test. ignored: it belongs to catalog catalog.example."),
        "{}",
        consumer.log()
    );
    assert!(!is_open(consumer.here, "a.test"));
    let moving = [
        member("a.test").moving_to(OTHER_CATALOG),
        here("a.test").in_group(OPEN_GROUP),
        here("b.test"),
    ];
    consumer.change(&[(CATALOG, 2), (OTHER_CATALOG, 2)], "2", &moving);
    wait_with_log(
        "the move",
        || consumer.log(),
        || is_open(consumer.here, "a.test"),
    );
    let moved = [here("a.test").in_group(OPEN_GROUP), here("b.test")];
    consumer.change(&[(CATALOG, 3), (OTHER_CATALOG, 2)], "2", &moved);
    assert!(
        consumer
            .server
            .wait_for_log("catalog catalog.example.: serial 3, 0 members")
    );
    assert_eq!(serial_at(consumer.here, "a.test"), Some(1));
    consumer.change(&[(CATALOG, 3), (OTHER_CATALOG, 3)], "2", &[here("b.test")]);
    consumer.wait_until_gone("a.test");
    assert_eq!(serial_at(consumer.here, "b.test"), Some(1));
}

/// The configuration of Nameward as the producer of a catalog with these members, each with its group.
fn producer_config((kind, consumer): (PeerKind, SocketAddr), members: &[(&str, &str)]) -> String {
    let notify = format!("also_notify = [{{ address = \"{consumer}\", key = \"{KEY_NAME}\" }}]\n");
    // PowerDNS assigns members no key. If it checks a member while it applies the catalog, it gives up the catalog
    // ("database is locked") until the next version, so only the catalog is notified.
    let (of_all, of_catalog, of_members) = match kind {
        PeerKind::PowerDns => ("", &notify[..], "allow_transfer = [\"127.0.0.1\"]\n"),
        _ => (&notify[..], "", ""),
    };
    let mut text = format!(
        "[server]\nstate_directory = \"state\"\n{}[zone_defaults]\nallow_transfer = [\"key:{KEY_NAME}\"]\n\
         notify_name_servers = false\n{of_all}\
         [[zone]]\nname = \"{CATALOG}\"\nkind = \"producer\"\n{of_catalog}",
        key()
    );
    for (zone, group) in members {
        text += &format!(
            "[[zone]]\nname = \"{zone}\"\nkind = \"primary\"\nfile = \"{zone}.text\"\ncatalog = \"{CATALOG}\"\n\
             catalog_group = \"{group}\"\n{of_members}"
        );
    }
    text
}

/// Nameward produces a catalog and another server follows it.
fn is_followed_by(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let (here, there) = (free_address().unwrap(), free_address().unwrap());
    let setup = Setup::new().without_web().listen(&[&here.to_string()]);
    for zone in ["a.test", "b.test", "c.test"] {
        let file = setup.dir().join(format!("{zone}.text"));
        fs::write(file, member_text(zone, 1)).unwrap();
    }
    let config = producer_config((kind, there), &[("a.test", ""), ("b.test", OPEN_GROUP)]);
    let server = setup.config(&config).start();
    wait_for_serial(here, "a.test", 1).unwrap();
    let consumer = CatalogPeer::consumer(kind, (there, here), CATALOG)
        .unwrap_or_else(|error| panic!("{kind}: {error}"));
    let log = || format!("{}\n{kind}:\n{}", server.log(), consumer.log_tail());
    let wait_for = |zone: &str| wait_with_log(zone, log, || serial_at(there, zone) == Some(1));
    wait_for("a.test");
    wait_for("b.test");
    if kind == PeerKind::Knot {
        // The group has its template.
        assert!(
            is_open(there, "b.test") && !is_open(there, "a.test"),
            "{}",
            log()
        );
    }
    let config = producer_config((kind, there), &[("b.test", OPEN_GROUP), ("c.test", "")]);
    let backend = "[[backend]]\ntype = \"file\"\ndirectory = \"zones\"\nwatch = false\n";
    let file = server.dir().join("nameward.toml");
    fs::write(file, format!("{config}{backend}")).unwrap();
    let output = server.command(&["reload"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    wait_for("c.test");
    wait_with_log("the end of a.test", log, || {
        serial_at(there, "a.test").is_none()
    });
    assert_eq!(serial_at(there, "b.test"), Some(1), "{}", log());
}

/// The old catalog names the new one for a member that is about to move.
#[test]
fn a_produced_catalog_announces_members_that_change_their_owner() {
    let here = free_address().unwrap();
    let setup = Setup::new().without_web().listen(&[&here.to_string()]);
    fs::write(setup.dir().join("a.text"), member_text("a.test", 1)).unwrap();
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = \"state\"\n[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n\
             [[zone]]\nname = \"{CATALOG}\"\nkind = \"producer\"\n\
             [[zone]]\nname = \"a.test\"\nkind = \"primary\"\nfile = \"a.text\"\ncatalog = \"{CATALOG}\"\n\
             catalog_moves_to = \"{OTHER_CATALOG}\"\n"
        ))
        .start();
    let transferred = || {
        let output = Command::new("dig")
            .args(["+noall", "+answer", "+tries=1", "+time=20", "-p"])
            .arg(here.port().to_string())
            .arg(format!("@{}", here.ip()))
            .args(["-t", "AXFR", "-q", CATALOG])
            .output()
            .expect("dig can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let wanted = format!("{OTHER_CATALOG}.");
    let is_moving =
        |line: &str| line.starts_with("coo.") && line.split_whitespace().last() == Some(&wanted);
    wait_with_log(
        "coo",
        || server.log() + &transferred(),
        || transferred().lines().any(is_moving),
    );
}

#[test]
fn bind_follows_a_catalog() {
    is_followed_by(PeerKind::Bind);
}

#[test]
fn knot_follows_a_catalog() {
    is_followed_by(PeerKind::Knot);
}

#[test]
fn powerdns_follows_a_catalog() {
    is_followed_by(PeerKind::PowerDns);
}
