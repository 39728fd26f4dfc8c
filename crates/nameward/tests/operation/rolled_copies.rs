//! BIND, Knot and PowerDNS as secondaries of a zone whose keys roll here: whatever version a copy is of, it is valid as a
//! whole, through the rollover of a zone-signing and of a key-signing key.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nameward_testkit::mesh::{
    KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, dump, serial_at,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestServer};

use super::secure::done;

const ZONE: &str = "fleet.example";
/// Only a hang takes so long.
const TIMEOUT: Duration = Duration::from_secs(180);

/// All delays are as short as they can be; the DS is reported by command.
const POLICY: &str = "[[dnssec_policy]]\nname = \"quick\"\nkeys = \"ksk+zsk\"\nzsk_lifetime = 0\ndnskey_ttl = 1\n\
    zone_ttl_max = 1\npropagation_delay = 0\nparent_ds_ttl = 1\nparent_propagation_delay = 0\n\
    parent_registration_delay = 0\nsafety_margin = 0\npurge_after = 0\nparent_interval = 1\n";

/// Enough names that a transfer of the whole zone is more than its differences.
fn zone_text() -> String {
    let hosts: String = (0..30)
        .map(|n| format!("host{n} A 192.0.2.{n}\n"))
        .collect();
    format!(
        "$TTL 1\n@ SOA ns1 hostmaster 10 1 1 86400 1\n@ NS ns1\nns1 A 192.0.2.1\n*.wild TXT \"any\"\n\
         child NS ns.child\nns.child A 192.0.2.2\n{hosts}"
    )
}

struct Fleet {
    server: TestServer,
    copies: Vec<(PeerKind, MeshPeer)>,
    directory: tempfile::TempDir,
    /// The serials that the copies had when they were checked last.
    checked: [Option<u32>; 3],
    /// The sets of keys that copies were seen with.
    seen: BTreeSet<Vec<String>>,
}

impl Fleet {
    fn start(denial: &str) -> Option<Self> {
        let kinds = [PeerKind::Bind, PeerKind::Knot, PeerKind::PowerDns];
        for kind in kinds {
            kind.require()?;
        }
        let ours = free_address().unwrap();
        let places = kinds.map(|kind| (kind, free_address().unwrap()));
        let notified =
            places.map(|(_, at)| format!("{{ address = \"{at}\", key = \"{KEY_NAME}\" }}"));
        let server = Setup::new()
            .without_web()
            .listen(&[&ours.to_string()])
            .config(&format!(
                "[server]\nstate_directory = \"state\"\n{POLICY}denial = \"{denial}\"\n\
                 [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
                 [[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"key:{KEY_NAME}\"]\nalso_notify = [{}]\n\
                 dnssec_policy = \"quick\"\n",
                notified.join(", ")
            ))
            .zone(ZONE, &zone_text())
            .start();
        let start_copy = |(kind, address)| {
            let setup = MeshSetup {
                kind,
                role: MeshRole::Secondary,
                zone: ZONE,
                address,
                other: ours,
            };
            let peer = MeshPeer::start(&setup, "");
            (kind, peer.unwrap_or_else(|error| panic!("{kind}: {error}")))
        };
        Some(Fleet {
            copies: places.map(start_copy).into(),
            server,
            directory: tempfile::tempdir().unwrap(),
            checked: [None; 3],
            seen: BTreeSet::new(),
        })
    }

    /// Checks the copies as they are; one that has not been transferred yet, or not again, is skipped. So is one that
    /// changes at this moment: PowerDNS may send the SOA record of one version and the other records of the next.
    fn check(&mut self) {
        for (number, (kind, peer)) in self.copies.iter().enumerate() {
            let serial = serial_at(peer.address(), ZONE);
            if serial.is_none() || self.checked[number] == serial {
                continue;
            }
            let file = self.directory.path().join(format!("{kind}"));
            let dumped = dump(peer.address(), ZONE, &file);
            if dumped.is_err() || serial_at(peer.address(), ZONE) != serial {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            // The first transfer may be of the time before the zone was signed.
            if !text.contains("RRSIG") {
                continue;
            }
            verify(&file, &format!("{kind}\n{}", self.server.log()));
            self.checked[number] = serial;
            let keys = text.lines().filter(|line| line.contains("\tDNSKEY\t"));
            let mut keys: Vec<String> = keys.map(str::to_string).collect();
            keys.sort();
            self.seen.insert(keys);
        }
    }

    /// Checks the copies, and reports the awaited DS, until the keys are as wanted.
    fn until(&mut self, what: &str, wanted: impl Fn(&[KeyLine]) -> bool) {
        let start = Instant::now();
        loop {
            self.check();
            let keys = self.keys();
            if wanted(&keys) {
                return;
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "{what}: {keys:?}\n{}",
                self.server.log()
            );
            // Either is refused while nothing waits for it.
            for word in ["ds-seen", "ds-gone"] {
                let _ = self.server.command(&["key", word, ZONE]);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn keys(&self) -> Vec<KeyLine> {
        let listed = done(&self.server, &["key", "list", ZONE]);
        listed.lines().map(KeyLine::read).collect()
    }

    /// Waits until every copy has the newest version, and was checked with it.
    fn await_copies(&mut self) {
        let start = Instant::now();
        loop {
            self.check();
            let here = serial_at(self.server.address(), ZONE);
            if here.is_some() && self.checked.iter().all(|serial| *serial == here) {
                return;
            }
            let tails = self.copies.iter();
            let tails: String = tails.map(|(_, peer)| peer.log_tail()).collect();
            assert!(start.elapsed() < TIMEOUT, "{tails}\n{}", self.server.log());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A line of `nameward key list`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyLine {
    tag: String,
    role: String,
    state: String,
}

impl KeyLine {
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        KeyLine {
            tag: words[2].into(),
            role: words[3].into(),
            state: words[words.len() - 1].into(),
        }
    }
}

/// One key of a role that is in use, and no other of that role.
fn one_active<'k>(keys: &'k [KeyLine], role: &str) -> Option<&'k KeyLine> {
    let mut of_role = keys.iter().filter(|key| key.role == role);
    let only = of_role.next().filter(|_| of_role.next().is_none());
    only.filter(|key| key.state == "active")
}

/// The zone is valid for BIND and for ldns.
fn verify(file: &Path, context: &str) {
    let file = file.to_str().unwrap();
    for (program, arguments) in [
        ("dnssec-verify", vec!["-z", "-o", ZONE, file]),
        ("ldns-verify-zone", vec![file]),
    ] {
        let output = Command::new(program).args(&arguments).output();
        let output =
            output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}\n{context}");
    }
}

fn check_rollovers(denial: &str) {
    let Some(mut fleet) = Fleet::start(denial) else {
        return;
    };
    let is_settled =
        |keys: &[KeyLine]| one_active(keys, "ksk").is_some() && one_active(keys, "zsk").is_some();
    fleet.until("the first keys", is_settled);
    fleet.await_copies();
    for role in ["zsk", "ksk"] {
        let before = fleet.keys();
        let old = one_active(&before, role).unwrap().clone();
        done(&fleet.server, &["key", "rollover", ZONE, "--role", role]);
        let is_rolled = |keys: &[KeyLine]| {
            let new = one_active(keys, role);
            is_settled(keys) && new.is_some_and(|new| new.tag != old.tag)
        };
        fleet.until(&format!("the rollover of the {role}"), is_rolled);
        fleet.await_copies();
    }
    // The initial keys, those after one rollover and those after both are at least three sets.
    assert!(fleet.seen.len() >= 3, "{:?}", fleet.seen);
    let log = fleet.server.log();
    assert!(has_small_transfer(&log), "{log}");
}

/// Whether a transfer had what a key-signing key changes, and not the whole zone, which has 100 records and more.
fn has_small_transfer(log: &str) -> bool {
    let transfers = log.lines().filter(|line| line.contains(": IXFR to "));
    let mut records = transfers.filter_map(|line| {
        let words = line.split(" records, ").next()?;
        words.rsplit(' ').next()?.parse::<u32>().ok()
    });
    // One record is the SOA alone.
    records.any(|records| (2..50).contains(&records))
}

#[test]
fn copies_at_bind_knot_and_powerdns_are_valid_through_rollovers_with_nsec() {
    check_rollovers("nsec");
}

#[test]
fn copies_at_bind_knot_and_powerdns_are_valid_through_rollovers_with_nsec3() {
    check_rollovers("nsec3");
}
