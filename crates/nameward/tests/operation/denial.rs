//! Zones that are signed here deny names with a chain that follows every change: whole zones pass the checks of three
//! implementations, and BIND's validator finds answers secure, after each update.

use std::{net::SocketAddr, path::Path};

use nameward_testkit::TestServer;

use super::secure::{check_transfer, delv, dig, done, write_anchor};
use super::update::{nsupdate, setup};

const TERMS: &str = "allow_update = [\"key:ddns.example.\"]\nallow_transfer = [\"127.0.0.1\"]";

/// Names come and go: with empty non-terminals, under delegations that hide them, with and without DS, with a DNAME, with
/// wildcards, and with octets that sort in odd places.
const UPDATES: [&str; 6] = [
    "update add a.b.c.dyn.example. 60 A 192.0.2.1\nupdate add \\000.dyn.example. 60 TXT x\n\
     update add \\255\\255.dyn.example. 60 TXT x\nupdate add dn.dyn.example. 60 DNAME else.where.",
    "update add c.dyn.example. 60 NS ns.c.dyn.example.\nupdate add ns.c.dyn.example. 60 A 192.0.2.2",
    "update add c.dyn.example. 60 DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000001",
    "update delete c.dyn.example. DS\nupdate add d.dyn.example. 60 NS ns.other.\nupdate delete dn.dyn.example.",
    "update delete c.dyn.example. NS\nupdate add *.c.dyn.example. 60 TXT any",
    "update delete a.b.c.dyn.example.\nupdate delete *.c.dyn.example.\nupdate delete d.dyn.example.",
];

/// Checks whether BIND's validator finds answers near the updated names secure, or at least not bogus.
fn check_answers(at: SocketAddr, anchor: &Path, may_be_insecure: bool) {
    for (name, rtype) in [
        ("\\001.dyn.example", "A"),
        ("zz.dyn.example", "A"),
        ("b.c.dyn.example", "A"),
        ("x.c.dyn.example", "TXT"),
        ("d.dyn.example", "DS"),
    ] {
        let said = delv(at, ("dyn.example", anchor), &[name, rtype]);
        // RFC 5155 section 9.2: what Opt-Out denies may be insecure.
        let is_insecure = may_be_insecure && said.contains("unsigned answer");
        if said.contains("fully validated") || is_insecure {
            continue;
        }
        // Delegated names do not belong to this zone.
        let own = dig(at, &[name, rtype]);
        assert!(
            !own.contains("flags: qr aa"),
            "{name} {rtype}: {said}\n{own}"
        );
    }
}

fn changed(server: &TestServer, update: &str) {
    let updated = nsupdate(server, update);
    assert_eq!(updated, (true, String::new()), "{update}: {}", server.log());
}

fn check_series(denial: &str) {
    let server = setup(TERMS).start();
    done(
        &server,
        &["zone", "secure", "dyn.example", "--denial", denial],
    );
    let directory = tempfile::tempdir().unwrap();
    let anchor = directory.path().join("anchor");
    write_anchor(&server, "dyn.example", &anchor);
    let at = server.address();
    for update in UPDATES {
        changed(&server, update);
        check_transfer(at, "dyn.example", directory.path());
        check_answers(at, &anchor, denial == "nsec3-opt-out");
    }
}

#[test]
fn a_chain_of_nsec_follows_every_update() {
    check_series("nsec");
}

#[test]
fn a_chain_of_nsec3_follows_every_update() {
    check_series("nsec3");
}

#[test]
fn a_chain_of_nsec3_with_opt_out_follows_every_update() {
    check_series("nsec3-opt-out");
}

/// RFC 3007 section 4.3: the zone's signer generates these records.
#[test]
fn records_that_signing_generates_are_not_accepted_from_updates() {
    let server = setup(TERMS).start();
    done(&server, &["zone", "secure", "dyn.example"]);
    for record in [
        "www.dyn.example. 60 NSEC a.dyn.example. A",
        "www.dyn.example. 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 dyn.example. AAAA",
        "dyn.example. 60 NSEC3PARAM 1 0 0 -",
    ] {
        let (is_taken, said) = nsupdate(&server, &format!("update add {record}"));
        assert!(!is_taken && said.contains("REFUSED"), "{record}: {said}");
    }
    changed(&server, "update add new.dyn.example. 60 A 192.0.2.9");
}
