//! Database zones that are signed online: BIND validates every answer, and zones secured by the tools of PowerDNS are
//! answered like by `pdns_server`.

use super::operation::zone;
use super::probing_client::ProbingClient;
use super::rows::Sqlite;
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::differential::queries::TestQuery;
use nameward_testkit::differential::{generate_queries, zones};
use nameward_testkit::peers::PeerKind;
use nameward_testkit::validator::{Anchor, Validator};
use nameward_testkit::wait_until;
use nameward_testkit::wire::{
    Exchange, Message, Name, Question, QuestionEdns, Record, Transport, type_from_text,
};
use nameward_testkit::{Setup, TestServer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const DNAME: u16 = 39;
const DS: u16 = 43;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const DNSKEY: u16 = 48;
const ANY: u16 = 255;

/// Keys of RFC 6605 and RFC 8080.
pub const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
pub const ED25519: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                       PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

pub fn question(name: &str, rtype: &str) -> TestQuery {
    TestQuery {
        question: Question {
            name: Name::parse(name).unwrap(),
            rtype: type_from_text(rtype).unwrap(),
            class: 1,
        },
        edns: QuestionEdns::Dnssec,
        zone: None,
    }
}

/// The whole answer, over TCP.
pub fn whole(address: SocketAddr, ask: &TestQuery) -> Message {
    let late = Duration::from_secs(20);
    let reply = ProbingClient { address, late }.exchange(Transport::Tcp, &ask.encode(7));
    let reply = reply.unwrap_or_else(|error| panic!("{ask}: {error}"));
    Message::read(&reply.expect("a reply")).unwrap_or_else(|error| panic!("{ask}: {error}"))
}

/// The entry points among the keys that a server publishes.
pub fn anchors(address: SocketAddr, zones: &[&str]) -> Vec<Anchor> {
    let of_zone = |zone: &&str| {
        let reply = whole(address, &question(&format!("{zone}."), "DNSKEY"));
        let is_key = |record: &Record| record.rtype == DNSKEY;
        let is_entry_point = |record: &Record| is_key(record) && record.data[1] == 1;
        // A single key is the entry point without the SEP flag.
        let is_alone = !reply.answer.iter().any(is_entry_point);
        let keys = reply.answer.into_iter();
        let keys = keys.filter(|record| is_entry_point(record) || is_alone && is_key(record));
        let zone = zone.to_string();
        let anchors = keys.map(move |record| Anchor {
            zone: zone.clone(),
            dnskey: record.data,
        });
        anchors.collect::<Vec<_>>()
    };
    zones.iter().flat_map(of_zone).collect()
}

/// Checks whether a resolver in front of the server could give the same answer: no referral, no chain that is not
/// followed to its end, nothing from a parent that is not served.
pub fn is_complete(ask: &TestQuery, own: &Message) -> bool {
    let Question { name, rtype, .. } = &ask.question;
    let has = |rtype| own.authority.iter().any(|record| record.rtype == rtype);
    let answers = |rtype: u16| own.answer.iter().any(|record| record.rtype == rtype);
    let soa = own.authority.iter().find(|record| record.rtype == SOA);
    let is_of_parent = *rtype == DS && soa.is_some_and(|soa| soa.owner == *name);
    own.authoritative()
        && matches!(own.rcode(), 0 | 3)
        && (answers(*rtype) || soa.is_some())
        && (!has(NS) || soa.is_some())
        && !is_of_parent
        // As a resolver, BIND does not accept an alias as an answer to NSEC.
        && !(*rtype == NSEC && answers(CNAME))
        && !(*rtype == DNAME && answers(CNAME))
        // The DS that an alias leads to may belong to a parent that is not served.
        && !(*rtype == DS && answers(CNAME))
        && !matches!(*rtype, ANY | RRSIG)
}

/// Queries the resolver; returns what is wrong with its answer.
pub fn judge(validator: &Validator, ask: &TestQuery, own: &Message) -> Option<String> {
    let mut query = ask.encode(8);
    query[2] |= 1;
    let reply = match validator.ask(&query) {
        Ok(reply) => reply,
        Err(error) => return Some(format!("{ask}: {error}")),
    };
    let is_secure = reply.flags & 0x20 != 0;
    let kinds = |message: &Message| -> BTreeSet<(String, u16)> {
        let records = message.answer.iter();
        let kinds = records.map(|record| (record.owner.lowercase().to_string(), record.rtype));
        kinds.collect()
    };
    let is_same = reply.rcode() == own.rcode() && kinds(&reply) == kinds(own);
    (!is_secure || !is_same).then(|| {
        let codes = (reply.rcode(), own.rcode());
        let records = own.answer.iter().chain(&own.authority);
        let records: Vec<String> = records
            .filter(|record| record.rtype != RRSIG)
            .map(|record| format!("\n    {record}"))
            .collect();
        format!(
            "{ask}: secure {is_secure}, codes {codes:?}{}",
            records.concat()
        )
    })
}

pub fn add_key(database: &Sqlite, zone: &str, flags: u16, key: &str) {
    database.run(&format!(
        "INSERT INTO cryptokeys (domain_id, flags, active, published, content)
         SELECT id, {flags}, 1, 1, '{key}' FROM domains WHERE name = '{zone}'"
    ));
}

pub fn set_meta(database: &Sqlite, zone: &str, kind: &str, content: &str) {
    database.run(&format!(
        "INSERT INTO domainmetadata (domain_id, kind, content)
         SELECT id, '{kind}', '{content}' FROM domains WHERE name = '{zone}'"
    ));
}

/// All queries that a seed generates for its zones, with NSEC and NSEC3.
fn check_generated(seed: u64, mode: &str) {
    check_denial(seed, mode, &[]);
}

/// Like [`check_generated`], with the same metadata for all zones, if any: Opt-Out, or another denial method.
fn check_denial(seed: u64, mode: &str, metadata: &[(&str, &str)]) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let made = zones::zones(seed);
    for (index, zone) in made.iter().enumerate() {
        database.add(&ZoneText {
            name: zone.name.clone(),
            text: zone.text().into(),
        });
        if !metadata.is_empty() {
            add_key(&database, &zone.name, 257, P256);
            for (kind, content) in metadata {
                set_meta(&database, &zone.name, kind, content);
            }
            continue;
        }
        match (index as u64 + seed) % 3 {
            0 => add_key(&database, &zone.name, 257, P256),
            1 => {
                add_key(&database, &zone.name, 257, ED25519);
                set_meta(&database, &zone.name, "NSEC3PARAM", "1 0 3 aabb");
            }
            _ => {
                add_key(&database, &zone.name, 257, P256);
                add_key(
                    &database,
                    &zone.name,
                    256,
                    ED25519.replace("ODIy", "ODIz").as_str(),
                );
                add_key(
                    &database,
                    &zone.name,
                    256,
                    P256.replace("GU6S", "GU6T").as_str(),
                );
                add_key(&database, &zone.name, 257, ED25519);
                set_meta(&database, &zone.name, "NSEC3PARAM", "1 0 0 -");
            }
        }
    }
    let server = setup.config(&database.backend(mode)).start();
    let names: Vec<&str> = made.iter().map(|zone| zone.name.as_str()).collect();
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let validator = Validator::start(server.address(), &anchors(server.address(), &names));
    let validator = validator.unwrap_or_else(|error| panic!("{error}"));
    let mut contents = metadata.iter().map(|(_, content)| content);
    let is_opt_out = contents.any(|content| content.starts_with("1 1"));
    let expected = if is_opt_out {
        Judged::NotBogus
    } else {
        Judged::Secure
    };
    let asked = judge_all(
        &validator,
        server.address(),
        (generate_queries(&made, seed), is_complete),
        expected,
    );
    assert!(asked > 500, "{asked} asked");
}

/// The expected result for all answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Judged {
    /// Secure.
    Secure,
    /// RFC 5155 section 9.2: names denied by Opt-Out are not secure, but not bogus either.
    NotBogus,
}

/// Queries a server with DO and lets the validator check each answer that it can check; returns their number.
pub fn judge_all(
    validator: &Validator,
    server: SocketAddr,
    (queries, can_judge): (Vec<TestQuery>, impl Fn(&TestQuery, &Message) -> bool),
    expected: Judged,
) -> usize {
    let (mut asked, mut wrong) = (0, Vec::new());
    for mut ask in queries {
        ask.edns = QuestionEdns::Dnssec;
        let own = whole(server, &ask);
        if can_judge(&ask, &own) {
            asked += 1;
            let same_code = format!("codes {:?}", (own.rcode(), own.rcode()));
            // BIND returns NODATA from a wildcard without records that it has cached; ours has a separate NSEC for
            // each name.
            let mut proofs = own.authority.iter().map(|record| record.rtype);
            let is_made = ask.question.rtype == NSEC && proofs.any(|rtype| rtype == NSEC);
            let is_right = |said: &String| {
                said.contains(&same_code) && (expected == Judged::NotBogus || is_made)
            };
            wrong.extend(judge(validator, &ask, &own).filter(|said| !is_right(said)));
        }
    }
    let (count, first) = (wrong.len(), &wrong[..wrong.len().min(20)]);
    let log = validator.log_tail();
    assert!(
        wrong.is_empty(),
        "{count} of {asked}\n{}\n{log}",
        first.join("\n")
    );
    asked
}

#[test]
fn answers_of_generated_zones_that_are_looked_up_are_secure() {
    check_generated(1, "live");
}

#[test]
fn answers_of_generated_zones_in_memory_are_secure() {
    check_generated(2, "resident");
}

#[test]
fn answers_of_generated_zones_with_opt_out_are_not_bogus() {
    check_denial(6, "resident", &[("NSEC3PARAM", "1 1 0 -")]);
}

#[test]
fn answers_of_generated_zones_in_memory_with_white_lies_are_secure() {
    check_denial(7, "resident", &[("X-NAMEWARD-DENIAL", "white-lies")]);
}

#[test]
fn answers_of_generated_zones_with_compact_denial_are_secure() {
    check_denial(8, "resident", &[("X-NAMEWARD-DENIAL", "compact")]);
}

#[test]
fn answers_of_generated_zones_that_are_looked_up_with_compact_denial_are_secure() {
    check_denial(9, "live", &[("X-NAMEWARD-DENIAL", "compact")]);
}

#[test]
fn answers_of_generated_zones_that_are_looked_up_with_a_chain_of_nsec_are_secure() {
    check_denial(10, "live", &[("X-NAMEWARD-DENIAL", "chain")]);
}

#[test]
fn answers_of_generated_zones_that_are_looked_up_with_a_chain_of_nsec3_are_secure() {
    let chain = ("X-NAMEWARD-DENIAL", "chain");
    check_denial(11, "live", &[("NSEC3PARAM", "1 0 2 ab"), chain]);
}

#[test]
fn answers_of_generated_zones_that_are_looked_up_with_opt_out_are_not_bogus() {
    let chain = ("X-NAMEWARD-DENIAL", "chain");
    check_denial(12, "live", &[("NSEC3PARAM", "1 1 0 -"), chain]);
}

pub fn gauge(server: &TestServer, name: &str) -> u64 {
    let output = server.command(&["stats", name]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = text.split_ascii_whitespace().nth(1);
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn caches_of_keys_metadata_and_signatures_are_counted_and_follow_changes() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.1"));
    database.add(&zone("two.test", "192.0.2.1"));
    add_key(&database, "one.test", 257, P256);
    let server = setup.config(&database.backend("live")).start();
    let sizes = || {
        [
            "key-cache-size",
            "meta-cache-size",
            "signature-cache-size",
            "signatures",
        ]
        .map(|name| gauge(&server, name))
    };
    let rrsigs = |name: &str| {
        let reply = whole(server.address(), &question(name, "A"));
        reply
            .answer
            .iter()
            .filter(|record| record.rtype == RRSIG)
            .count()
    };
    assert_eq!(sizes(), [0, 0, 0, 0]);
    assert_eq!((rrsigs("www.one.test."), rrsigs("www.two.test.")), (1, 0));
    // The absence of keys is cached, too.
    wait_until("the counters", || sizes() == [2, 2, 1, 1]);
    assert_eq!(rrsigs("www.one.test."), 1);
    assert_eq!(sizes()[2..], [1, 1], "the second time from the cache");

    // A second key is used without a restart, and before the TTL of the caches expires.
    add_key(&database, "one.test", 257, ED25519);
    wait_until("the new key signs", || rrsigs("www.one.test.") == 2);
    add_key(&database, "two.test", 257, ED25519);
    wait_until("the zone is signed", || rrsigs("www.two.test.") == 1);
    let reply = whole(server.address(), &question("no.two.test.", "A"));
    assert!(reply.authority.iter().any(|record| record.rtype == 47));
    set_meta(&database, "two.test", "NSEC3PARAM", "1 0 0 -");
    wait_until("NSEC3", || {
        let reply = whole(server.address(), &question("no.two.test.", "A"));
        reply.authority.iter().any(|record| record.rtype == 50)
    });
    database.run("DELETE FROM cryptokeys");
    wait_until("nothing is signed", || rrsigs("www.one.test.") == 0);
    assert!(sizes()[2] > 0);
    let output = server.command(&["cache", "flush"]);
    assert!(output.status.success());
    assert_eq!(sizes()[..3], [0, 0, 0]);
}

#[test]
fn an_unusable_key_fails_only_clients_that_request_signatures() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        for name in ["bad.test", "meta.test", "good.test"] {
            database.add(&zone(name, "192.0.2.1"));
            add_key(&database, name, 257, P256);
        }
        add_key(
            &database,
            "bad.test",
            256,
            "Private-key-format: v1.2\nAlgorithm: 16\nPrivateKey: AAAA",
        );
        set_meta(&database, "meta.test", "NSEC3PARAM", "nonsense");
        let server = setup.config(&database.backend(mode)).start();
        let code = |name: &str, edns| {
            let ask = TestQuery {
                edns,
                ..question(name, "A")
            };
            whole(server.address(), &ask).rcode()
        };
        for name in ["www.bad.test.", "no.bad.test.", "www.meta.test."] {
            assert_eq!(code(name, QuestionEdns::Dnssec), 2, "{mode} {name}");
        }
        assert_eq!(code("www.bad.test.", QuestionEdns::Plain), 0);
        assert_eq!(code("no.bad.test.", QuestionEdns::Off), 3);
        assert_eq!(code("www.good.test.", QuestionEdns::Dnssec), 0);
        let log = server.log();
        let lines = [
            "table cryptokeys, id 4: unsupported algorithm 16",
            "table domainmetadata, id 1: invalid NSEC3PARAM",
        ];
        for line in &lines {
            assert!(log.contains(line), "{mode}: {line}\n{log}");
        }
        assert!(!log.contains("AAAA"));
        let check = Command::new(env!("CARGO_BIN_EXE_nameward"))
            .args(["db", "check"])
            .arg(&database.path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stdout) + String::from_utf8_lossy(&check.stderr);
        assert!(!check.status.success());
        for line in &lines {
            assert!(said.contains(line), "{line}\n{said}");
        }
    }
}
