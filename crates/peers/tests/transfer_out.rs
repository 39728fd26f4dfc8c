//! Transfers to secondaries through sockets: whole zones, differences, access, limits, and hostile clients.

mod signed;

use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::loopback::{Loopback, TIMEOUT, is_truncated, plain_query, rcode, receive, send, zone};
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, TsigKeys, sign_request};
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_maintain::policy::{PolicyFragment, PolicySet, PolicySource, PolicyTable};
use nameward_peers::transfer_out::{OutgoingTransfers, TransferLimits};
use nameward_peers::zone_requests::ZoneRequestHandler;
use nameward_serve::live::LiveSettings;
use nameward_state::{JournalBounds, JournalOrigin, StateChange, StateStore, ZoneStorage};
use nameward_wire::message::{Message, MessageSection, RecordView};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{AccessEntry, AccessList, AccessWord, Zone};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const REFUSED_CODE: u8 = 5;
const NOTAUTH_CODE: u8 = 9;

fn text(serial: u32, hosts: usize) -> String {
    let mut text = format!("@ 3600 SOA ns1 host {serial} 7200 3600 1209600 300\n@ 3600 NS ns1\n");
    text += "ns1 3600 A 192.0.2.1\n";
    for n in 0..hosts {
        text += &format!("host{n} 60 A 192.0.2.7\nhost{n} 60 TXT \"some text, number {n}\"\n");
    }
    text
}

/// A server whose transfers are subject to policies.
struct Primary {
    server: Loopback,
    transfers: Arc<OutgoingTransfers>,
    store: Option<StateStore>,
    _directory: tempfile::TempDir,
}

impl Primary {
    /// Serves zones: `open.`, `there.`, `rsa.` and `small.` for every client, `keyed.` for clients with a key, others
    /// for none.
    fn start(zones: Vec<Zone>, limits: TransferLimits, has_store: bool) -> Primary {
        Self::start_with(LiveSettings::for_tests(), zones, limits, has_store)
    }

    fn start_with(
        settings: LiveSettings,
        zones: Vec<Zone>,
        limits: TransferLimits,
        has_store: bool,
    ) -> Primary {
        let server = Loopback::start_with(settings, zones, Some(("there.", &text(5, 10))));
        let directory = tempfile::tempdir().unwrap();
        let bounds = JournalBounds {
            octets: 1 << 20,
            entries: 1000,
        };
        let store = has_store.then(|| StateStore::open(directory.path(), bounds).unwrap());
        let policies = Arc::new(PolicyTable::default());
        let key: NameBuf = "key.example.".parse().unwrap();
        let mut set = PolicySet::default();
        for (name, term) in [
            ("open.", AccessWord::Any),
            ("there.", AccessWord::Any),
            ("rsa.", AccessWord::Any),
            ("small.", AccessWord::Any),
            ("keyed.", AccessWord::Key(key)),
        ] {
            let name: NameBuf = name.parse().unwrap();
            let part = PolicyFragment {
                allow_transfer: Some(AccessList::new(&[AccessEntry::positive(term)])),
                ..PolicyFragment::default()
            };
            set.set_zone(name.as_name(), Arc::new(part));
        }
        policies.set(PolicySource::Configured, set);
        let mut keys = TsigKeys::default();
        let algorithm = TsigAlgorithm::HmacSha256;
        keys.insert(TsigKey::new(key.as_name(), algorithm, SECRET));
        server.shared.tsig_keys.store(Arc::new(keys));
        let stats = Arc::clone(&server.shared.stats);
        let made = Arc::clone(&policies);
        let kept = store.clone();
        let transfers =
            server.inside(move || OutgoingTransfers::new(made, kept, limits, None, &stats));
        let handler = ZoneRequestHandler::new(policies, Arc::clone(&transfers));
        server.shared.set_zone_requests(Arc::new(handler));
        Primary {
            server,
            transfers,
            store,
            _directory: directory,
        }
    }

    fn with(zones: Vec<Zone>) -> Primary {
        let limits = TransferLimits {
            total: 100,
            per_client: 100,
            sent_octets_max: 1 << 20,
        };
        Self::start(zones, limits, true)
    }

    /// Commits a new version of a zone: difference, journal, table.
    fn commit(&self, older: &Zone, newer: Zone) -> Arc<Zone> {
        let change = StateChange::Append {
            zone: newer.apex_name().into(),
            storage: ZoneStorage::File,
            origin: JournalOrigin::Change,
            difference: Arc::new(newer.difference_from(older)),
            time: 1,
            author: None,
        };
        self.store.as_ref().unwrap().write(vec![change]).unwrap();
        let newer = Arc::new(newer);
        self.server.replace(Arc::clone(&newer));
        newer
    }
}

fn listed(record: &RecordView<'_>) -> String {
    let mut data = Vec::new();
    record.expand_data(&mut data).unwrap();
    let (owner, rtype, ttl) = (record.owner, record.rtype, record.ttl);
    format!("{owner} {rtype} {ttl} {data:?}")
}

fn answers(message: &[u8]) -> Vec<String> {
    let message = Message::parse(message).unwrap();
    let records = message.records().map(Result::unwrap);
    let answers = records.filter(|record| record.section == MessageSection::Answer);
    answers.map(|record| listed(&record)).collect()
}

/// The records of a zone, sorted.
fn contents(zone: &Zone) -> Vec<String> {
    let mut all = Vec::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let (owner, rtype, ttl) = (node.name(), rrset.rtype(), rrset.ttl());
                all.push(format!("{owner} {rtype} {ttl} {:?}", record.rdata));
            }
        }
    }
    all.sort();
    all
}

fn is_soa(record: &str) -> bool {
    record.contains(" SOA ")
}

/// Reads an AXFR up to its second SOA; `None` if the connection ends before that.
fn read_whole(stream: &mut TcpStream) -> Option<Vec<String>> {
    let mut records: Vec<String> = Vec::new();
    while records.iter().filter(|record| is_soa(record)).count() < 2 {
        let message = receive(stream)?;
        assert_eq!(rcode(&message), 0);
        records.extend(answers(&message));
    }
    assert_eq!(records.first(), records.last());
    records.pop();
    records.sort();
    Some(records)
}

fn axfr(server: &Loopback, name: &str) -> Option<Vec<String>> {
    let mut stream = server.tcp();
    send(&mut stream, &plain_query(name, Type::AXFR));
    read_whole(&mut stream)
}

/// An IXFR request from a client that has this serial.
fn ixfr_request(name: &str, serial: u32) -> Vec<u8> {
    let mut packet = plain_query(name, Type::IXFR);
    packet[9] = 1;
    packet.extend_from_slice(b"\xc0\x0c\x00\x06\x00\x01\0\0\0\0\x00\x16\0\0");
    packet.extend_from_slice(&serial.to_be_bytes());
    packet.extend_from_slice(&[0; 16]);
    packet
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// The same request with an OPT record, so that more fits into the reply.
fn with_edns(mut packet: Vec<u8>) -> Vec<u8> {
    packet[11] += 1;
    packet.extend_from_slice(b"\0\x00\x29\x04\xd0\0\0\0\0\0\0");
    packet
}

#[test]
fn zones_in_memory_and_looked_up_zones_are_transferred() {
    let here = zone("open.", &text(7, 5000));
    let expected = contents(&here);
    let primary = Primary::with(vec![here]);
    assert_eq!(axfr(&primary.server, "open.").unwrap(), expected);
    let there = contents(&zone("there.", &text(5, 10)));
    assert_eq!(axfr(&primary.server, "there.").unwrap(), there);
    primary.server.wait_counter("transfers_out", 2);
    assert_eq!(primary.transfers.counts(), (0, 0));
}

#[test]
fn transfers_are_limited_to_allowed_clients_and_signed_for_signed_requests() {
    let not_ready: NameBuf = "unready.".parse().unwrap();
    let mut zones: Vec<Zone> = ["keyed.", "closed."]
        .map(|name| zone(name, &text(7, 2000)))
        .into();
    zones.push(Zone::not_ready(not_ready.as_name()));
    let primary = Primary::with(zones);
    let server = &primary.server;
    for (name, code) in [
        ("keyed.", REFUSED_CODE),
        ("closed.", REFUSED_CODE),
        ("unready.", REFUSED_CODE),
        ("host1.keyed.", NOTAUTH_CODE),
        ("nobody.", NOTAUTH_CODE),
    ] {
        for qtype in [Type::AXFR, Type::IXFR] {
            let reply = server.exchange(&plain_query(name, qtype), true);
            assert_eq!(rcode(&reply), code, "{name} {qtype}");
        }
    }
    let key: NameBuf = "key.example.".parse().unwrap();
    let keys = server.shared.tsig_keys.load();
    let key = keys.find(key.as_name()).unwrap();
    let mut request = plain_query("keyed.", Type::AXFR);
    let mut verifier = sign_request(key, &mut request, now());
    let mut stream = server.tcp();
    send(&mut stream, &request);
    let mut records: Vec<String> = Vec::new();
    while records.iter().filter(|record| is_soa(record)).count() < 2 {
        let message = receive(&mut stream).expect("a message");
        let len = verifier.verify(&message, now()).expect("a signature");
        assert!(len < message.len(), "every message is signed");
        records.extend(answers(&message));
    }
    assert!(verifier.is_complete() && records.len() == 3 + 4000 + 1);
    server.wait_counter("transfers_out_refused", 10);
}

#[test]
fn over_udp_a_whole_transfer_is_a_format_error_and_an_unreadable_serial_too() {
    let primary = Primary::with(vec![zone("open.", &text(7, 1))]);
    let server = &primary.server;
    let reply = server.exchange(&plain_query("open.", Type::AXFR), false);
    assert_eq!(rcode(&reply), 1);
    // No SOA, a truncated one, one of another zone, and one that is not a record.
    let whole = ixfr_request("open.", 5);
    let mut cut = whole.clone();
    let len_at = cut.len() - 22 - 2;
    cut[len_at + 1] = 9;
    cut.truncate(len_at + 2 + 9);
    let mut of_another = plain_query("open.", Type::IXFR);
    of_another[9] = 1;
    of_another.extend_from_slice(b"\x05other\0");
    of_another.extend_from_slice(&whole[whole.len() - 32..]);
    let mut garbage = whole.clone();
    garbage.truncate(whole.len() - 5);
    for (what, packet) in [
        ("none", plain_query("open.", Type::IXFR)),
        ("cut", cut),
        ("of another zone", of_another),
        ("garbage", garbage),
    ] {
        for over_tcp in [false, true] {
            assert_eq!(rcode(&server.exchange(&packet, over_tcp)), 1, "{what}");
        }
    }
}

#[test]
fn differences_are_sent_from_the_journal_or_else_the_whole_zone() {
    let first = zone("open.", &text(7, 3));
    let expected_first = contents(&first);
    let primary = Primary::with(vec![zone("open.", &text(7, 3))]);
    let second = primary.commit(&first, zone("open.", &text(8, 4)));
    let third = primary.commit(&second, zone("open.", &text(9, 2)));
    let server = &primary.server;
    for over_tcp in [false, true] {
        // RFC 1995 section 4: the newest SOA, then the removed and the added records of each version.
        let reply = server.exchange(&with_edns(ixfr_request("open.", 7)), over_tcp);
        let records = answers(&reply);
        assert!(!is_truncated(&reply) && rcode(&reply) == 0);
        let serials: Vec<u8> = records
            .iter()
            .filter(|record| is_soa(record))
            .map(|soa| {
                [7, 8, 9]
                    .into_iter()
                    .find(|n| soa.contains(&format!("0, 0, 0, {n},")))
            })
            .map(Option::unwrap)
            .collect();
        assert_eq!(serials, [9, 7, 8, 8, 9, 9], "{records:#?}");
        assert_eq!(records.len(), 6 + 2 + 4);
        let reply = server.exchange(&with_edns(ixfr_request("open.", 8)), over_tcp);
        assert_eq!(answers(&reply).len(), 4 + 4);
        // A client that is current, or ahead, gets the SOA alone.
        for serial in [9, 10] {
            let records = answers(&server.exchange(&ixfr_request("open.", serial), over_tcp));
            assert!(
                records.len() == 1 && is_soa(&records[0]),
                "{serial}: {records:?}"
            );
        }
    }
    // A version that the journal does not have: the whole zone over TCP, the SOA alone over UDP.
    let mut stream = server.tcp();
    send(&mut stream, &ixfr_request("open.", 3));
    assert_eq!(read_whole(&mut stream).unwrap(), contents(&third));
    assert_eq!(
        answers(&server.exchange(&ixfr_request("open.", 3), false)).len(),
        1
    );
    assert_ne!(contents(&third), expected_first);
    // A zone that is looked up has no journal here: whole over TCP, and TC over UDP.
    let mut stream = server.tcp();
    send(&mut stream, &ixfr_request("there.", 3));
    assert_eq!(
        read_whole(&mut stream).unwrap(),
        contents(&zone("there.", &text(5, 10)))
    );
    assert!(is_truncated(
        &server.exchange(&ixfr_request("there.", 3), false)
    ));
    let current = server.exchange(&ixfr_request("there.", 5), true);
    assert_eq!(answers(&current).len(), 1);
}

#[test]
fn many_differences_are_condensed_and_large_ones_are_for_tcp() {
    let mut version = Arc::new(zone("open.", &text(100, 20)));
    let primary = Primary::with(vec![zone("open.", &text(100, 20))]);
    for n in 1..=60u32 {
        let hosts = 20 + (n % 2) as usize * 10;
        version = primary.commit(&version, zone("open.", &text(100 + n, hosts)));
    }
    let server = &primary.server;
    let records = answers(&server.exchange(&ixfr_request("open.", 100), true));
    // Hosts were added and removed again; except for the SOA nothing of that remains.
    assert_eq!(records.len(), 4, "{records:?}");
    let records = answers(&server.exchange(&ixfr_request("open.", 101), true));
    assert_eq!(records.len(), 4 + 20);
    // Twenty records and four SOA do not fit into 512 octets.
    assert_eq!(
        answers(&server.exchange(&ixfr_request("open.", 101), false)).len(),
        1
    );
}

#[test]
fn the_expire_option_is_answered_where_it_is_requested() {
    let primary = Primary::with(vec![zone("open.", &text(7, 1))]);
    let expire = |packet: &[u8]| {
        let reply = primary.server.exchange(packet, true);
        reply
            .windows(8)
            .any(|window| window == [0, 9, 0, 4, 0, 0x12, 0x75, 0])
    };
    let mut request = plain_query("open.", Type::AXFR);
    assert!(!expire(&request));
    request[11] = 1;
    request.extend_from_slice(b"\0\x00\x29\x04\xd0\0\0\0\0\x00\x04\x00\x09\0\0");
    assert!(expire(&request), "1209600 seconds");
    // A query for the SOA gets the option as well, and no other query.
    let exchange = |name: &str, qtype: Type, over_tcp: bool| {
        let mut request = plain_query(name, qtype);
        request[11] = 1;
        request.extend_from_slice(b"\0\x00\x29\x04\xd0\0\0\0\0\x00\x04\x00\x09\0\0");
        let reply = primary.server.exchange(&request, over_tcp);
        let records = Message::parse(&reply).unwrap().records();
        let opt = records.map(Result::unwrap).last().unwrap();
        assert_eq!(opt.rtype, Type::OPT);
        opt.raw_data().to_vec()
    };
    for over_tcp in [false, true] {
        assert_eq!(
            exchange("open.", Type::SOA, over_tcp),
            [0, 9, 0, 4, 0, 0x12, 0x75, 0]
        );
        assert!(exchange("open.", Type::NS, over_tcp).is_empty());
        assert_eq!(
            exchange("nobody.", Type::SOA, over_tcp),
            [0, 15, 0, 2, 0, 20]
        );
    }
}

#[test]
fn a_transfer_sends_the_version_from_its_start() {
    let first = zone("open.", &text(7, 15_000));
    let expected = contents(&first);
    let primary = Primary::with(vec![first]);
    let mut stream = primary.server.slow_tcp();
    send(&mut stream, &plain_query("open.", Type::AXFR));
    let mut records = answers(&receive(&mut stream).unwrap());
    primary.server.replace(Arc::new(zone("open.", &text(8, 1))));
    while records.iter().filter(|record| is_soa(record)).count() < 2 {
        records.extend(answers(&receive(&mut stream).unwrap()));
    }
    records.pop();
    records.sort();
    assert_eq!(records, expected);
    assert_eq!(axfr(&primary.server, "open.").unwrap().len(), 5);
}

#[test]
fn clients_that_never_read_occupy_their_slots_and_delay_no_others() {
    let limits = TransferLimits {
        total: 3,
        per_client: 3,
        sent_octets_max: 1 << 20,
    };
    let big = zone("open.", &text(7, 15_000));
    let small = zone("keyed.", &text(7, 1));
    let primary = Primary::start(vec![big, small], limits, false);
    let server = &primary.server;
    let stalled: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = server.slow_tcp();
            send(&mut stream, &plain_query("open.", Type::AXFR));
            stream
        })
        .collect();
    let start = Instant::now();
    while primary.transfers.counts().0 < 3 {
        assert!(start.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Queries are answered in the meantime, over both transports.
    for over_tcp in [false, true] {
        let reply = server.exchange(&plain_query("ns1.open.", Type::A), over_tcp);
        assert_eq!(rcode(&reply), 0);
    }
    // Another transfer waits for a slot, and gets it when one of the stalled clients disconnects.
    let mut waiting = server.tcp();
    send(&mut waiting, &plain_query("open.", Type::AXFR));
    while primary.transfers.counts().1 < 1 {
        assert!(start.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stalled);
    let records = read_whole(&mut waiting).expect("the whole zone");
    assert_eq!(records.len(), 3 + 30_000);
    // Transfers to disconnected clients are counted as failed.
    server.wait_counter("transfers_out_failed", 3);
    server.wait_counter("transfers_out", 1);
    assert_eq!(primary.transfers.counts(), (0, 0));
}

#[test]
fn a_flood_of_requests_is_answered_and_occupies_no_slot() {
    let limits = TransferLimits {
        total: 2,
        per_client: 1,
        sent_octets_max: 1 << 20,
    };
    let zones = vec![zone("open.", &text(7, 3)), zone("closed.", &text(7, 3))];
    let primary = Primary::start(zones, limits, false);
    let mut stream = primary.server.tcp();
    for _ in 0..200 {
        send(&mut stream, &plain_query("closed.", Type::AXFR));
        send(&mut stream, &plain_query("open.", Type::AXFR));
    }
    for n in 0..200 {
        let refused = receive(&mut stream).unwrap_or_else(|| panic!("refusal {n}"));
        assert_eq!(rcode(&refused), REFUSED_CODE);
        assert_eq!(
            read_whole(&mut stream).map(|records| records.len()),
            Some(9),
            "{n}"
        );
    }
    primary.server.wait_counter("transfers_out", 200);
    primary.server.wait_counter("transfers_out_refused", 200);
    assert_eq!(primary.transfers.counts(), (0, 0));
}

#[test]
fn a_record_that_fits_no_message_ends_the_transfer_and_smaller_ones_are_sent() {
    let with_large = |octets: usize| {
        let data = "00".repeat(octets);
        zone(
            "open.",
            &(text(7, 2000) + &format!("large 60 TYPE65400 \\# {octets} {data}\n")),
        )
    };
    let primary = Primary::with(vec![with_large(65_000)]);
    assert_eq!(
        axfr(&primary.server, "open.").map(|all| all.len()),
        Some(4004)
    );
    primary.server.replace(Arc::new(with_large(65_535)));
    assert_eq!(axfr(&primary.server, "open."), None, "the connection ends");
    primary.server.wait_counter("transfers_out_failed", 1);
}

/// Ed25519 (RFC 8080 section 6.1).
const KEY: &[u8] = b"Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

/// A zone that is signed while it is served.
fn signed_online(metadata: &[(&str, &str)]) -> Zone {
    let usage = KeyUse::EVERYTHING;
    let mut policy = SigningPolicy::default();
    for (kind, content) in metadata {
        policy.take(kind, content).unwrap();
    }
    let keys = Arc::new(Keys::new(vec![SigningKey::read(KEY, 257, usage).unwrap()]));
    let apex: NameBuf = "open.".parse().unwrap();
    let cache = Arc::new(SignatureCache::new(1000));
    let signing = Signing::new(apex.as_name(), keys, Arc::new(policy), cache);
    let mut zone = zone("open.", &text(7, 10));
    zone.set_signing(Some(Arc::new(signing)));
    zone
}

#[test]
fn an_online_signed_zone_is_sent_with_a_chain_and_a_narrow_one_is_not() {
    let primary = Primary::with(vec![signed_online(&[])]);
    let server = &primary.server;
    let records = axfr(server, "open.").unwrap();
    let count = |word: &str| {
        records
            .iter()
            .filter(|record| record.contains(word))
            .count()
    };
    // Apex, ns1 and ten hosts; each RRset has its signature.
    assert_eq!(count(" NSEC "), 12);
    assert_eq!(count(" RRSIG "), 12 + 2 + 1 + 20);
    server.wait_counter("signatures", 35);
    // A secondary with the same serial is current; one that is behind gets the whole zone.
    assert_eq!(
        answers(&server.exchange(&ixfr_request("open.", 7), true)).len(),
        1
    );
    let mut stream = server.tcp();
    send(&mut stream, &ixfr_request("open.", 3));
    assert_eq!(read_whole(&mut stream).unwrap(), records);
    assert!(is_truncated(
        &server.exchange(&ixfr_request("open.", 3), false)
    ));
    let narrow = [("NSEC3PARAM", "1 0 0 -"), ("NSEC3NARROW", "1")];
    server.replace(Arc::new(signed_online(&narrow)));
    let reply = server.exchange(&plain_query("open.", Type::AXFR), true);
    assert_eq!(rcode(&reply), REFUSED_CODE);
}

/// Returns the output of a tool for a transfer.
fn run(tool: &str, server: &Loopback, arguments: &[&str]) -> String {
    let port = server.address.port().to_string();
    let output = Command::new(tool)
        .args(["-p", &port, "@127.0.0.1"])
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}: run scripts/install-deps"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dig_and_kdig_transfer_zones() {
    let first = zone("open.", &text(7, 3000));
    let primary = Primary::with(vec![
        zone("open.", &text(7, 3000)),
        zone("keyed.", &text(7, 5)),
    ]);
    primary.commit(&first, zone("open.", &text(8, 3001)));
    let server = &primary.server;
    for tool in ["dig", "kdig"] {
        let whole = run(tool, server, &["open", "AXFR"]);
        let records = whole.lines().filter(|line| line.contains("\tA\t")).count();
        assert_eq!(records, 3002, "{tool}");
        let differences = run(tool, server, &["open", "IXFR=7"]);
        let records = differences
            .lines()
            .filter(|line| line.contains("\tIN\t"))
            .count();
        assert_eq!(records, 6, "{tool}: {differences}");
        let secret = data_encoding::BASE64.encode(SECRET);
        let signer = format!("hmac-sha256:key.example:{secret}");
        let keyed = run(tool, server, &["-y", &signer, "keyed", "AXFR"]);
        assert!(keyed.contains("host4.keyed."), "{tool}: {keyed}");
    }
}
