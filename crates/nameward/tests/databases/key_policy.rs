//! Database zones whose keys follow a policy, with `pdns_server` on the same database: BIND validates the answers of
//! both at every step, a server that is killed continues, and changes by `pdnsutil` are detected.

use super::operation::{wait_for_code, wait_until};
use super::powerdns::{Store, ZONE, powerdns_with};
use super::signed::{anchors, question, whole};
use super::zone_keys::{NAME, UNCACHED, code, is_signed, load_zone, pdnsutil, run, validate};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::peers::Peer;
use nameward_testkit::validator::{Anchor, Validator};
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::path::Path;

/// All delays are as short as possible; steps that wait for the parent wait for a command.
const POLICY: &str = "[[dnssec_policy]]\nname = \"quick\"\nkeys = \"ksk+zsk\"\nzsk_lifetime = 0\ndnskey_ttl = 1\n\
    zone_ttl_max = 1\npropagation_delay = 0\nparent_ds_ttl = 1\nparent_propagation_delay = 0\n\
    parent_registration_delay = 0\nsafety_margin = 0\npurge_after = 0\n";
const METADATA: &str = "X-NAMEWARD-DNSSEC-POLICY";
const DNSKEY: u16 = 48;
const CDS: u16 = 59;

struct Pair {
    store: Store,
    directory: tempfile::TempDir,
    peer: Peer,
    mode: &'static str,
}

impl Pair {
    fn new(kind: Option<DatabaseKind>, mode: &'static str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(kind, directory.path())?;
        let zone = ZONE
            .replace("$TTL 3600", "$TTL 1")
            .replace(" 1800\n", " 1\n");
        let zone = zone.replace("mail 300", "mail");
        load_zone(&store, directory.path(), &zone);
        let peer = powerdns_with(&store, &[NAME], UNCACHED)?;
        Some(Pair {
            store,
            directory,
            peer,
            mode,
        })
    }

    fn here(&self) -> &Path {
        self.directory.path()
    }

    fn start(&self) -> TestServer {
        let state = self.here().join("state");
        let (backend, mode) = (self.store.backend(), self.mode);
        let config = format!(
            "[server]\nstate_directory = {state:?}\n{POLICY}[[backend]]\n{backend}mode = \"{mode}\"\n"
        );
        let server = Setup::new().without_web().config(&config).start();
        wait_for_code(&server, &format!("ns1.{NAME}."), 0);
        server
    }

    /// Waits until `zone status` contains a text.
    fn wait_for(&self, server: &TestServer, wanted: &str) -> String {
        wait_until(
            server,
            || run(server, &["zone", "status", NAME]),
            |said| said.contains(wanted),
        )
    }

    /// BIND validates the answers of both servers with each key that the parent may have.
    fn check(&self, server: &TestServer, salt: &str) {
        let at = server.address();
        let keys = anchors(at, &[NAME]);
        for one in [at, self.peer.addr()] {
            let show = |rtype: &str| data(one, rtype);
            assert_eq!(show("DNSKEY"), data(at, "DNSKEY"), "{salt}: {one}");
            assert_eq!(show("CDS"), data(at, "CDS"), "{salt}: {one}");
            for anchor in &keys {
                let alone = Anchor {
                    zone: anchor.zone.clone(),
                    dnskey: anchor.dnskey.clone(),
                };
                let validator = Validator::start(one, &[alone]).unwrap();
                validate(&validator, one, salt);
            }
        }
    }

    fn serial(&self, server: &TestServer) -> u32 {
        let show = run(server, &["zone", "show", NAME]);
        let line = show.lines().find(|line| line.starts_with("serial "));
        line.unwrap().split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The zone gets its policy, its keys and its DS.
    fn secure(&self, server: &TestServer) {
        let serial = self.serial(server);
        assert_eq!(
            code(server, &["metadata", "set", NAME, METADATA, "slow"]),
            Some(6)
        );
        run(server, &["metadata", "set", NAME, METADATA, "quick"]);
        let said = self.wait_for(server, "waiting for the DS at the parent");
        assert!(said.contains("signed by policy quick"), "{said}");
        assert!(is_signed(server.address()) && is_signed(self.peer.addr()));
        assert!(self.serial(server) > serial);
        assert_eq!(data(server.address(), "CDS").len(), 1);
        self.check(server, "first");
        let shown = run(server, &["zone", "show", NAME]);
        assert!(shown.contains("signed policy quick\n"), "{shown}");
        assert!(shown.contains("denial nsec\n"), "{shown}");
        assert_eq!(code(server, &["key", "add", NAME]), Some(7));
        assert_eq!(code(server, &["zone", "unsecure", NAME]), Some(7));
        run(server, &["key", "ds-seen", NAME]);
        self.wait_for(server, " ksk active; ");
        let listed = run(server, &["key", "list", NAME]);
        assert_eq!(listed.matches(" active, active\n").count(), 2, "{listed}");
    }

    /// The zone-signing key is replaced, which waits for no external action.
    fn roll_zone_key(&self, server: &TestServer) {
        let (serial, before) = (self.serial(server), data(server.address(), "DNSKEY"));
        run(server, &["key", "rollover", NAME, "--role", "zsk"]);
        self.wait_for_other_keys(server, &before);
        assert!(self.serial(server) > serial);
        self.check(server, "zsk");
    }

    /// Waits until one of two keys was replaced and the old one removed.
    fn wait_for_other_keys(&self, server: &TestServer, before: &[Vec<u8>]) {
        wait_until(
            server,
            || {
                let keys = data(server.address(), "DNSKEY");
                (keys, run(server, &["key", "list", NAME]).lines().count())
            },
            |(keys, count)| {
                let stayed = keys.iter().filter(|key| before.contains(key)).count();
                keys.len() == 2 && stayed == 1 && *count == 2
            },
        );
    }
}

/// The data of the records of a type at the apex, in order.
fn data(at: SocketAddr, rtype: &str) -> Vec<Vec<u8>> {
    let number = match rtype {
        "DNSKEY" => DNSKEY,
        _ => CDS,
    };
    let reply = whole(at, &question(&format!("{NAME}."), rtype));
    let records = reply.answer.into_iter();
    let records = records.filter(|record| record.rtype == number);
    let mut all: Vec<Vec<u8>> = records.map(|record| record.data).collect();
    all.sort();
    all
}

#[test]
fn keys_of_a_live_zone_in_sqlite_roll_by_a_policy_alongside_pdns_server() {
    let Some(pair) = Pair::new(None, "live") else {
        return;
    };
    let mut server = pair.start();
    pair.secure(&server);
    pair.roll_zone_key(&server);
    // A key-signing key is added to the old one. CDS requests the new DS alone.
    let before = data(server.address(), "CDS");
    run(&server, &["key", "rollover", NAME, "--role", "ksk"]);
    pair.wait_for(&server, " ksk ready");
    pair.check(&server, "ksk");
    let cds = data(server.address(), "CDS");
    assert!(cds.len() == 1 && cds != before, "{cds:?}");
    server.signal("KILL");
    server.wait();
    server = pair.start();
    pair.wait_for(&server, " ksk ready");
    assert_eq!(data(server.address(), "CDS"), cds);
    let keys = data(server.address(), "DNSKEY");
    assert_eq!(keys.len(), 3);
    let listed = run(&server, &["key", "list", NAME]);
    let number = |role: &str| -> Vec<String> {
        let lines = listed.lines().filter(|line| line.contains(role));
        lines
            .map(|line| line.split(' ').nth(1).unwrap().into())
            .collect()
    };
    let ksks = number(" ksk ");
    run(&server, &["key", "ds-seen", NAME, &ksks[1]]);
    run(&server, &["key", "ds-gone", NAME, &ksks[0]]);
    let without = |keys: &[Vec<u8>]| {
        keys.len() == 2 && run(&server, &["key", "list", NAME]).lines().count() == 2
    };
    wait_until(
        &server,
        || data(server.address(), "DNSKEY"),
        |keys| without(keys),
    );
    pair.check(&server, "new ksk");

    // Another program deactivates the zone-signing key: this is detected, and a new key replaces it.
    let before = data(server.address(), "DNSKEY");
    let zsk = &number(" zsk ")[0];
    pdnsutil(pair.here(), &["deactivate-zone-key", NAME, zsk]);
    run(&server, &["reload"]);
    pair.wait_for_other_keys(&server, &before);
    let log = server.log();
    assert!(
        log.contains(&format!("key {zsk} was changed externally")),
        "{log}"
    );
    pair.check(&server, "found");

    // Without a policy the zone goes insecure: the parent is queried first.
    run(&server, &["metadata", "set", NAME, METADATA, "none"]);
    pair.wait_for(&server, "becoming insecure");
    wait_until(
        &server,
        || data(server.address(), "CDS"),
        |cds| *cds == [[0, 0, 0, 0, 0]],
    );
    assert_eq!(data(pair.peer.addr(), "CDS"), [[0, 0, 0, 0, 0]]);
    pair.check(&server, "insecure soon");
    run(&server, &["key", "ds-gone", NAME]);
    wait_until(
        &server,
        || is_signed(server.address()),
        |is_signed| !is_signed,
    );
    let rows = || pair.store.lines("SELECT id FROM cryptokeys");
    wait_until(&server, rows, |rows| rows.trim().is_empty());
    assert!(!is_signed(pair.peer.addr()));
    let left = pair
        .store
        .lines("SELECT kind FROM domainmetadata ORDER BY kind");
    assert_eq!(left.trim(), METADATA);
}

#[test]
fn the_zone_signing_key_of_a_resident_zone_in_postgres_rolls_by_a_policy() {
    if let Some(pair) = Pair::new(Some(DatabaseKind::Postgres), "resident") {
        let server = pair.start();
        pair.secure(&server);
        pair.roll_zone_key(&server);
    }
}

#[test]
fn the_zone_signing_key_of_a_live_zone_in_mariadb_rolls_by_a_policy() {
    if let Some(pair) = Pair::new(Some(DatabaseKind::Mariadb), "live") {
        let server = pair.start();
        pair.secure(&server);
        pair.roll_zone_key(&server);
    }
}
