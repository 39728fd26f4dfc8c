//! Keys of zones in databases by our own commands: rows as `pdnsutil` writes and reads them, answers of this server and of
//! `pdns_server` that BIND finds secure through every change, and an end without traces.

use super::operation::wait_for_code;
use super::powerdns::{Store, ZONE, powerdns_with};
use super::signed::{anchors, question, whole};
use nameward_testkit::TestServer;
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::validator::Validator;
use nameward_testkit::wire::{Message, Record};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const NAME: &str = "keys.test";
const SOA: u16 = 6;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const NSEC3: u16 = 50;
/// PowerDNS shows what is in the database now.
pub(crate) const UNCACHED: &str = "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\ndnssec-key-cache-ttl=0\n\
                        domain-metadata-cache-ttl=0\nzone-cache-refresh-interval=0\n";

pub(crate) fn pdnsutil(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("pdnsutil")
        .arg(format!("--config-dir={}", directory.display()))
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("pdnsutil: {error}: run scripts/install-deps"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    text.into_owned()
}

/// Writes the configuration of PowerDNS and loads the zone with its tool.
pub(crate) fn load_zone(store: &Store, directory: &Path, text: &str) {
    std::fs::write(directory.join("pdns.conf"), store.powerdns()).unwrap();
    let file = directory.join(NAME);
    std::fs::write(&file, format!("$ORIGIN {NAME}.\n{text}")).unwrap();
    pdnsutil(directory, &["load-zone", NAME, file.to_str().unwrap()]);
}

pub(crate) fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let log = server.log();
    assert!(output.status.success(), "{arguments:?}: {text}\n{log}");
    text.into_owned()
}

pub(crate) fn code(server: &TestServer, arguments: &[&str]) -> Option<i32> {
    server.command(arguments).status.code()
}

/// Number, tag and use of each key, as `key list` prints them.
pub(crate) fn listed(server: &TestServer) -> Vec<(String, String, String)> {
    let text = run(server, &["key", "list", NAME]);
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[1].into(), words[2].into(), words[5..].join(" "))
    });
    lines.collect()
}

pub(crate) fn is_signed(at: SocketAddr) -> bool {
    let reply = whole(at, &question("ns1.keys.test.", "A"));
    reply.answer.iter().any(|record| record.rtype == RRSIG)
}

/// The serial that the database has.
fn stored_serial(store: &Store) -> u32 {
    let lines = store.lines("SELECT content FROM records WHERE type = 'SOA'");
    let mut fields = lines.split([' ', '\t', '|', '\n']);
    let serial = fields.nth(2).and_then(|field| field.parse().ok());
    serial.unwrap_or_else(|| panic!("{lines:?}"))
}

/// BIND finds the answers of a server secure.
pub(crate) fn validate(validator: &Validator, at: SocketAddr, salt: &str) {
    for (name, rtype) in [
        ("ns1".to_owned(), "A"),
        ("ns1".into(), "TXT"),
        (format!("no{salt}"), "A"),
        (format!("no{salt}.deep.below.an.empty.name"), "A"),
        ("below.an.empty.name".into(), "A"),
        (format!("x{salt}.wild"), "TXT"),
        (format!("x{salt}.wild"), "A"),
        ("sub".into(), "DS"),
        ("signedsub".into(), "DS"),
    ] {
        let ask = question(&format!("{name}.{NAME}."), rtype);
        let mut query = ask.encode(8);
        query[2] |= 1;
        let reply = validator.ask(&query).unwrap();
        let log = validator.log_tail();
        // It may answer with proofs from its cache: with compact denial the server itself answers NOERROR.
        let is_answer = matches!(reply.rcode(), 0 | 3);
        assert!(is_answer, "{salt}: {ask}: {}\n{log}", reply.rcode());
        // RFC 5155 section 9.2: with Opt-Out a name that is denied may be an insecure delegation, one for which a wildcard
        // stands as well.
        let is_secure = reply.flags & 0x20 != 0;
        let is_denied = reply.answer.is_empty() || name.ends_with(".wild");
        let is_opt_out = salt == "nsec3-opt-out" && is_denied;
        assert!(is_secure || is_opt_out, "{salt}: {ask} at {at}\n{log}");
    }
}

/// The columns derived by PowerDNS are equal to those of `pdnsutil rectify-zone`.
fn check_rectified(store: &Store, directory: &Path, after: &str) {
    let columns = "SELECT name, COALESCE(type, '-'), auth, COALESCE(ordername, '-') FROM records ORDER BY 1, 2, 4";
    let ours = store.lines(columns);
    pdnsutil(directory, &["rectify-zone", NAME]);
    assert_eq!(ours, store.lines(columns), "after {after}");
}

/// The zone by AXFR passes the check of ldns.
fn check_transfer(server: &TestServer, path: &Path) {
    let (ip, port) = (
        format!("@{}", server.address().ip()),
        server.address().port().to_string(),
    );
    let transferred = || {
        let arguments = [&ip, "-p", &port, "+onesoa", "+nocomments", NAME, "AXFR"];
        let output = Command::new("dig").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut text = transferred();
    // Who may transfer is in force a moment after the metadata is.
    let start = std::time::Instant::now();
    while !text.contains("RRSIG") && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        text = transferred();
    }
    std::fs::write(path, &text).unwrap();
    let output = Command::new("ldns-verify-zone").arg(path).output();
    let output = output.expect("ldnsutils is installed: run scripts/install-deps");
    assert!(output.status.success(), "{output:?}\n{text}");
}

#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn check(kind: Option<DatabaseKind>, mode: &str) {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let Some(store) = Store::new(kind, here) else {
        return;
    };
    load_zone(&store, here, ZONE);
    let Some(peer) = powerdns_with(&store, &[NAME], UNCACHED) else {
        return;
    };
    let server = store.nameward(mode);
    wait_for_code(&server, "ns1.keys.test.", 0);
    let at = server.address();
    assert!(!is_signed(at));
    let show = || pdnsutil(here, &["show-zone", NAME]);
    // PowerDNS loads zones without the derived records.
    run(&server, &["zone", "rectify", NAME]);
    check_rectified(&store, here, "rectify");

    let secure = ["zone", "secure", NAME, "--soa-edit", "INCEPTION-EPOCH"];
    run(&server, &secure);
    assert!(is_signed(at), "{}", server.log());
    check_rectified(&store, here, "secure");
    let keys = listed(&server);
    let [(first, tag, usage)] = &keys[..] else {
        panic!("{keys:?}");
    };
    assert_eq!(usage, "active");
    assert!(show().contains(&format!("tag = {tag}")), "{}", show());
    let metadata = pdnsutil(here, &["get-meta", NAME, "SOA-EDIT"]);
    assert!(metadata.contains("INCEPTION-EPOCH"), "{metadata}");
    assert_eq!(code(&server, &["zone", "secure", NAME]), Some(5));
    // The keys shown by this server sign on the other one. Both resolvers keep their caches.
    let resolvers = [at, peer.addr()].map(|server| {
        let validator = Validator::start(server, &anchors(at, &[NAME])).unwrap();
        validate(&validator, server, "first");
        (validator, server)
    });
    let validate_all = |salt: &str| {
        for (validator, server) in &resolvers {
            validate(validator, *server, salt);
        }
    };

    let denials: &[&str] = match kind {
        None => &["nsec3", "compact", "nsec3-opt-out", "white-lies", "nsec"],
        Some(_) => &["nsec3-opt-out", "nsec"],
    };
    let anybody = ["metadata", "set", NAME, "ALLOW-AXFR-FROM", "127.0.0.0/8"];
    run(&server, &anybody);
    for denial in denials {
        run(&server, &["zone", "secure", NAME, "--denial", denial]);
        check_rectified(&store, here, denial);
        validate_all(denial);
        check_transfer(&server, &here.join("axfr"));
    }
    // What differs between engines was seen by now.
    if kind.is_none() {
        run(
            &server,
            &["pdnsutil", "set-nsec3", NAME, "1 0 2 ab", "narrow"],
        );
        check_rectified(&store, here, "narrow");
        validate_all("narrow");
        run(&server, &["metadata", "remove", NAME, "NSEC3NARROW"]);
        check_rectified(&store, here, "not narrow");
        validate_all("hashed");
        run(&server, &["pdnsutil", "zone", "unset-nsec3", NAME]);
        check_rectified(&store, here, "unset-nsec3");
        validate_all("unset");
    }

    // Records that only the signer generates are refused, wherever the zone is stored.
    for (owner, rtype, data) in [
        ("@", "NSEC3PARAM", "1 0 5 AB"),
        ("@", "DNSKEY", "257 3 13 AAAA"),
        ("ns1", "NSEC", "keys.test. A"),
    ] {
        let set = ["record", "set", NAME, owner, rtype, "60", data];
        assert_eq!(code(&server, &set), Some(7), "{rtype}");
    }
    // A zone-signing key is added, and the first key only signs the keys from then on.
    let before = stored_serial(&store);
    run(
        &server,
        &["key", "add", NAME, "--role", "zsk", "--inactive"],
    );
    assert!(
        stored_serial(&store) > before,
        "secondaries would not take the new key"
    );
    let (second, second_tag, usage) = listed(&server).remove(1);
    assert_eq!(usage, "published");
    assert!(
        show().contains(&format!("tag = {second_tag}")),
        "{}",
        show()
    );
    run(&server, &["key", "activate", NAME, &second]);
    assert_eq!(listed(&server)[1].2, "active");
    let fresh = Validator::start(at, &anchors(at, &[NAME])).unwrap();
    validate(&fresh, at, "both");
    let fresh = Validator::start(peer.addr(), &anchors(at, &[NAME])).unwrap();
    validate(&fresh, peer.addr(), "both");
    let secret = run(&server, &["key", "export", NAME, &second]);
    assert!(secret.starts_with("Private-key-format: v1."), "{secret}");
    run(&server, &["key", "remove", NAME, &second]);
    assert_eq!(code(&server, &["key", "remove", NAME, first]), Some(7));
    assert_eq!(code(&server, &["key", "deactivate", NAME, first]), Some(7));
    assert_eq!(code(&server, &["key", "activate", NAME, "99999"]), Some(4));
    assert_eq!(
        code(&server, &["metadata", "set", NAME, "PRESIGNED", "1"]),
        Some(7)
    );
    validate_all("again");

    let before = stored_serial(&store);
    run(&server, &["zone", "unsecure", NAME, "--force"]);
    assert!(
        stored_serial(&store) > before,
        "secondaries would stay signed"
    );
    assert!(!is_signed(at) && !is_signed(peer.addr()));
    check_rectified(&store, here, "unsecure");
    let shown = show();
    assert!(shown.contains("not actively secured"), "{shown}");
    assert_eq!(code(&server, &["zone", "unsecure", NAME]), Some(4));
    assert_eq!(code(&server, &["zone", "ds", NAME]), Some(4));
}

#[test]
fn keys_in_sqlite_by_our_commands_are_those_of_pdnsutil_and_secure() {
    check(None, "live");
}

#[test]
fn keys_of_resident_zones_in_sqlite_by_our_commands_are_those_of_pdnsutil_and_secure() {
    check(None, "resident");
}

#[test]
fn keys_in_postgres_by_our_commands_are_those_of_pdnsutil_and_secure() {
    check(Some(DatabaseKind::Postgres), "live");
}

#[test]
fn keys_in_mariadb_by_our_commands_are_those_of_pdnsutil_and_secure() {
    check(Some(DatabaseKind::Mariadb), "resident");
}

/// Ends a querying thread, even if the test fails in the meantime.
struct Ending<'e>(&'e AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An answer has proofs of one kind, and each has its signature.
fn check_proofs(reply: &Message) {
    let of_type = |rtype: u16| reply.authority.iter().filter(move |one| one.rtype == rtype);
    let is_signed = |proof: &Record| {
        of_type(RRSIG).any(|signature| {
            signature.owner == proof.owner && signature.data[..2] == proof.rtype.to_be_bytes()
        })
    };
    let proofs: Vec<_> = of_type(NSEC).chain(of_type(NSEC3)).collect();
    assert!(
        !proofs.is_empty() && of_type(SOA).all(is_signed),
        "{reply:?}"
    );
    assert!(proofs.into_iter().all(is_signed), "{reply:?}");
    assert!(
        of_type(NSEC).count() == 0 || of_type(NSEC3).count() == 0,
        "{reply:?}"
    );
}

#[test]
fn answers_have_proofs_of_one_kind_while_the_denial_of_a_zone_changes() {
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(None, directory.path()).unwrap();
        load_zone(&store, directory.path(), ZONE);
        let server = store.nameward(mode);
        wait_for_code(&server, "ns1.keys.test.", 0);
        run(&server, &["zone", "secure", NAME]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ending = Ending(&is_over);
            scope.spawn(|| {
                for number in 0_u64.. {
                    let name = format!("no{number}.{NAME}.");
                    check_proofs(&whole(server.address(), &question(&name, "A")));
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            for denial in ["nsec3", "nsec", "compact", "nsec3-opt-out", "white-lies"] {
                run(&server, &["zone", "secure", NAME, "--denial", denial]);
            }
        });
    }
}
