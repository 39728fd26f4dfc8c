//! Incremental transfers of zones without a journal: signed online, or looked up. A secondary that follows them by
//! differences alone has a zone that verifies, whatever changed.

use super::rows::Sqlite;
use super::signed::{add_key, set_meta};
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::mesh::{
    KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, compare, dump,
    wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const ZONE: &str = "one.test";
const CHANGES: u32 = 40;

/// How a zone is signed.
#[derive(Clone, Copy, PartialEq)]
enum Signed {
    No,
    Nsec(&'static str),
    Nsec3(&'static str),
}

struct Fleet {
    server: TestServer,
    ours: SocketAddr,
    peer: MeshPeer,
}

fn zone_text(hosts: u32) -> ZoneText {
    let mut text = String::from(
        "@ 300 SOA ns1 host 100 3600 600 86400 300\n@ 300 NS ns1\nns1 300 A 192.0.2.1\nsub 300 NS ns1.sub\n\
         ns1.sub 300 A 192.0.2.2\n",
    );
    for host in 0..hosts {
        text += &format!("h{host} 300 A 192.0.2.{}\n", host % 250);
    }
    ZoneText {
        name: ZONE.into(),
        text,
    }
}

impl Fleet {
    fn start(mode: &str, signed: Signed, kind: PeerKind) -> Self {
        let (ours, theirs) = (free_address().unwrap(), free_address().unwrap());
        let setup = Setup::new().without_web().listen(&[&ours.to_string()]);
        let database = Sqlite::new(setup.dir());
        database.add(&zone_text(200));
        match signed {
            Signed::No => {}
            Signed::Nsec(key) => add_key(&database, ZONE, 257, key),
            Signed::Nsec3(key) => {
                add_key(&database, ZONE, 257, key);
                set_meta(&database, ZONE, "NSEC3PARAM", "1 0 0 -");
            }
        }
        let source = database.backend(mode);
        let state = setup.dir().join("state");
        let server = setup
            .config(&format!(
                "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\n\
                 secret = \"{KEY_SECRET}\"\n[[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n\
                 also_notify = [{{ address = \"{theirs}\", key = \"{KEY_NAME}\" }}]\n{source}"
            ))
            .start();
        let setup = MeshSetup {
            kind,
            role: MeshRole::Secondary,
            zone: ZONE,
            address: theirs,
            other: ours,
        };
        let peer = MeshPeer::start(&setup, "").unwrap_or_else(|error| panic!("{kind}: {error}"));
        Fleet { server, ours, peer }
    }

    /// Makes one change, and waits until the peer has it. Some have no effect: the record to delete does not exist.
    fn change(&self, number: u32) {
        let (host, name) = (number * 7 % 220, format!("h{}", number * 7 % 220));
        let address = format!("192.0.2.{}", number % 250);
        let arguments: Vec<&str> = match number % 4 {
            0 => vec!["record", "delete", ZONE, &name],
            1 => vec!["record", "set", ZONE, "a.b.deep", "A", "300", &address],
            2 if host % 2 == 0 => vec!["record", "set", ZONE, "@", "TXT", "60", "changed"],
            _ => vec!["record", "set", ZONE, &name, "A", "300", &address],
        };
        let output = self.server.command(&[&arguments[..], &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let serial = said.split("\"serial\":").nth(1).and_then(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        let Some(serial) = serial else {
            return;
        };
        wait_for_serial(self.peer.address(), ZONE, serial).unwrap_or_else(|there| {
            panic!(
                "{arguments:?}: {there:?} instead of {serial}\n{}\n{}",
                self.server.log(),
                self.peer.log_tail()
            )
        });
    }

    /// The record counts of the completed incremental transfers, and the seconds that each took.
    fn incremental(&self) -> Vec<(u64, f64)> {
        let log = self.server.log();
        let lines = log
            .lines()
            .filter(|line| line.contains(": IXFR to ") && line.contains("completed"));
        let transfers = lines.filter_map(|line| {
            let (before, after) = line.split_once(" records")?;
            let seconds = after.strip_suffix(" s")?.rsplit(' ').next()?;
            Some((
                before.rsplit(' ').next()?.parse().ok()?,
                seconds.parse().ok()?,
            ))
        });
        transfers.collect()
    }
}

/// Verifies the zone that a peer has with the tools of BIND and of ldns.
fn verify(file: &Path) {
    for (program, arguments) in [
        ("dnssec-verify", &["-z", "-E", "", "-o", ZONE][..]),
        ("ldns-verify-zone", &[]),
    ] {
        let output = Command::new(program)
            .args(arguments)
            .arg(file)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
        assert!(
            output.status.success(),
            "{program}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn follows_by_differences(mode: &str, signed: Signed, kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let fleet = Fleet::start(mode, signed, kind);
    wait_for_serial(fleet.peer.address(), ZONE, 100).unwrap();
    for number in 0..CHANGES {
        fleet.change(number);
    }
    compare(fleet.ours, fleet.peer.address(), ZONE)
        .unwrap_or_else(|difference| panic!("{mode}: {difference}\n{}", fleet.server.log()));
    if signed != Signed::No {
        let file = fleet.server.dir().join("dumped");
        dump(fleet.peer.address(), ZONE, &file).unwrap();
        verify(&file);
    }
    // Some changes are combined; none is sent as the whole zone of more than 200 records, unless a busy machine takes three
    // seconds to sign the difference.
    let transfers = fleet.incremental();
    assert!(
        transfers.len() > CHANGES as usize / 2,
        "{mode}: {transfers:?}"
    );
    let is_expected = |(records, seconds): &(u64, f64)| *records < 150 || *seconds >= 3.0;
    assert!(
        transfers.iter().all(is_expected),
        "{mode}: {transfers:?}\n{}",
        fleet.server.log()
    );
}

#[test]
fn bind_follows_a_resident_zone_with_nsec() {
    follows_by_differences(
        "resident",
        Signed::Nsec(super::signed::P256),
        PeerKind::Bind,
    );
}

#[test]
fn knot_follows_a_live_zone_with_nsec3() {
    follows_by_differences(
        "live",
        Signed::Nsec3(super::signed::ED25519),
        PeerKind::Knot,
    );
}

#[test]
fn nsd_follows_a_resident_zone_with_nsec3() {
    follows_by_differences(
        "resident",
        Signed::Nsec3(super::signed::P256),
        PeerKind::Nsd,
    );
}

#[test]
fn bind_follows_a_live_zone_without_signatures() {
    follows_by_differences("live", Signed::No, PeerKind::Bind);
}

#[test]
fn a_narrow_zone_is_transferred_without_signatures_where_configured() {
    let narrow = |settings: &str| {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone_text(5));
        add_key(&database, ZONE, 257, super::signed::ED25519);
        set_meta(&database, ZONE, "NSEC3PARAM", "1 0 0 -");
        set_meta(&database, ZONE, "NSEC3NARROW", "1");
        let source = database.backend("live");
        setup
            .config(&format!(
                "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n{settings}{source}"
            ))
            .start()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let transferred = |server: &TestServer| {
        let output = Command::new("dig")
            .args(["@127.0.0.1", "-p", &server.address().port().to_string()])
            .args(["+noall", "+answer", "+tries=1", ZONE, "AXFR"])
            .output()
            .unwrap();
        std::fs::write(file.path(), &output.stdout).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let server = narrow("");
    let text = transferred(&server);
    assert!(!text.contains("SOA"), "{text}");
    assert!(server.wait_for_log("it uses narrow NSEC3"));
    let server = narrow("transfer_unsigned = true\n");
    let text = transferred(&server);
    for (word, count) in [
        ("SOA", 2),
        ("RRSIG", 0),
        ("DNSKEY", 0),
        ("NSEC3", 0),
        ("\tA\t", 7),
    ] {
        assert_eq!(text.matches(word).count(), count, "{word}: {text}");
    }
}
