//! Signed requests (RFC 8945): verified on every transport, and every reply signed, whichever component makes it and
//! whenever.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::loopback::{Loopback, is_truncated, plain_query, query, rcode, receive, send, zone};
use nameward_dnssec::tsig::{
    TsigAlgorithm, TsigFailure, TsigKey, TsigKeys, TsigRecord, sign_request,
};
use nameward_serve::pipeline::{LateReply, ReplyPath};
use nameward_serve::request::{MessageStream, NextMessage, Request, Verdict, ZoneRequests};
use nameward_wire::message::{Message, MessageSection, MessageWriter, OwnerForm, ReplyFlags};
use nameward_wire::{Class, NameBuf, Rcode, Type};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const ZONE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
$GENERATE 1-40 big 60 TXT \"a string of some length, number $\"
";
const NOTAUTH: u8 = 9;

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn key(name: &str, algorithm: TsigAlgorithm, secret: &[u8]) -> Arc<TsigKey> {
    let name: NameBuf = name.parse().unwrap();
    let mut keys = TsigKeys::default();
    keys.insert(TsigKey::new(name.as_name(), algorithm, secret));
    Arc::clone(keys.find(name.as_name()).unwrap())
}

fn our_key() -> Arc<TsigKey> {
    key("key.example.", TsigAlgorithm::HmacSha256, SECRET)
}

/// A server with a zone in memory (`here.`) and one that is looked up (`there.`), and a key of each algorithm.
fn server() -> Loopback {
    let server = Loopback::start(vec![zone("here.", ZONE)], Some(("there.", ZONE)));
    let mut keys = TsigKeys::default();
    let mut add = |name: &str, algorithm| {
        let name: NameBuf = name.parse().unwrap();
        keys.insert(TsigKey::new(name.as_name(), algorithm, SECRET));
    };
    add("key.example.", TsigAlgorithm::HmacSha256);
    for algorithm in TsigAlgorithm::ALL {
        add(&format!("{}.example.", algorithm.word()), algorithm);
    }
    server.shared.tsig_keys.store(Arc::new(keys));
    server
}

/// Returns the reply without what differs between clients: the TSIG record and its count.
fn unsigned(mut reply: Vec<u8>) -> Vec<u8> {
    let start = TsigRecord::find(&reply)
        .unwrap()
        .expect("a signed reply")
        .start;
    reply.truncate(start);
    reply[11] -= 1;
    reply
}

#[test]
fn signed_queries_get_the_plain_answer_and_a_valid_signature() {
    let server = server();
    // Three times, so that the looked-up zone answers from its packet cache as well, which stores an answer at the
    // second.
    for round in 0..3 {
        for name in ["ns1.here.", "ns1.there.", "missing.there.", "ns1.nobody."] {
            for over_tcp in [false, true] {
                let plain = query(name, Type::A);
                let mut request = plain.clone();
                let mut verifier = sign_request(&our_key(), &mut request, now());
                let reply = server.exchange(&request, over_tcp);
                assert!(verifier.verify(&reply, now()).is_ok(), "{name} {round}");
                assert!(verifier.is_complete());
                assert_eq!(
                    unsigned(reply),
                    server.exchange(&plain, over_tcp),
                    "{name} {round}"
                );
            }
        }
    }
    // Signed and unsigned queries share the packet cache, over each transport.
    assert!(server.counter("packetcache-hit") >= 8);
    assert_eq!(server.counter("tsig_failures"), 0);
}

#[test]
fn signature_errors_are_answered_as_the_rfc_says() {
    let server = server();
    let exchange = |key: &Arc<TsigKey>, at: u64| {
        let mut request = query("ns1.here.", Type::A);
        let mut verifier = sign_request(key, &mut request, at);
        let reply = server.exchange(&request, false);
        assert_eq!(
            rcode(&reply),
            rcode(&server.exchange(&request, true)),
            "over TCP the same"
        );
        let failure = verifier.verify(&reply, at).unwrap_err();
        let message = Message::parse(&reply).unwrap();
        assert_eq!(message.promised(MessageSection::Answer), 0);
        (rcode(&reply), failure, reply)
    };
    let sha256 = TsigAlgorithm::HmacSha256;
    // RFC 8945 section 5.2.1: an unknown key, and a known one with another algorithm.
    let unknown = exchange(&key("other.example.", sha256, SECRET), now());
    assert_eq!(
        (unknown.0, unknown.1),
        (NOTAUTH, TsigFailure::RefusedByPeer(17))
    );
    let other = exchange(
        &key("key.example.", TsigAlgorithm::HmacSha512, SECRET),
        now(),
    );
    assert_eq!(
        (other.0, other.1),
        (NOTAUTH, TsigFailure::RefusedByPeer(17))
    );
    // Section 5.2.2: a wrong secret. Neither reply is signed (section 5.3.2).
    let wrong = exchange(&key("key.example.", sha256, b"another secret"), now());
    assert_eq!(
        (wrong.0, wrong.1),
        (NOTAUTH, TsigFailure::RefusedByPeer(16))
    );
    for reply in [&unknown.2, &other.2, &wrong.2] {
        assert!(TsigRecord::find(reply).unwrap().unwrap().mac.is_empty());
    }
    // Section 5.2.3: a wrong clock. That reply has a MAC, and the server's time.
    let at = now() - 4000;
    let late = exchange(&our_key(), at);
    assert_eq!((late.0, late.1), (NOTAUTH, TsigFailure::RefusedByPeer(18)));
    let record = TsigRecord::find(&late.2).unwrap().unwrap();
    assert_eq!((record.mac.len(), record.other.len()), (32, 6));
    assert_eq!(record.time_signed, at);
    server.wait_counter("tsig_failures", 8);
}

#[test]
fn records_that_are_out_of_place_or_cut_are_format_errors() {
    let server = server();
    let mut request = query("ns1.here.", Type::A);
    sign_request(&our_key(), &mut request, now());
    let start = TsigRecord::find(&request).unwrap().unwrap().start;
    // RFC 8945 section 5.1: two TSIG records; one that is not the last record; one in the answer section.
    let record = request[start..].to_vec();
    let twice = |extra: &[u8]| {
        let mut packet = [&request[..], extra].concat();
        packet[11] += 1;
        packet
    };
    let not_last = twice(b"\x01a\0\x00\x01\x00\x01\0\0\0\0\x00\x04\x7f\0\0\x01");
    let mut in_answer = plain_query("ns1.here.", Type::A);
    in_answer.extend_from_slice(&record);
    in_answer[7] = 1;
    // Section 5.2.2.1: a MAC of nine octets.
    let mut short = request[..request.len() - 6 - 32].to_vec();
    let mac_len_at = short.len() - 2;
    short[mac_len_at + 1] = 9;
    short.extend_from_slice(&[0; 9 + 6]);
    let len_at = start + "key.example.".len() + 1 + 8;
    let len = u16::from_be_bytes([short[len_at], short[len_at + 1]]) - 23;
    short[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    for (what, packet) in [
        ("two records", twice(&record)),
        ("not the last", not_last),
        ("in the answer section", in_answer),
        ("a MAC of nine octets", short),
    ] {
        for over_tcp in [false, true] {
            let reply = server.exchange(&packet, over_tcp);
            assert_eq!(rcode(&reply), 1, "{what}");
            assert!(TsigRecord::find(&reply).unwrap().is_none(), "{what}");
        }
    }
}

#[test]
fn a_datagram_without_room_beside_the_signature_has_only_the_question_and_tc() {
    let server = server();
    for name in ["big.here.", "big.there."] {
        let mut request = query(name, Type::TXT);
        let mut verifier = sign_request(&our_key(), &mut request, now());
        let reply = server.exchange(&request, false);
        let len = verifier.verify(&reply, now()).unwrap();
        assert!(is_truncated(&reply) && rcode(&reply) == 0, "{name}");
        assert!(reply.len() < 250, "{name}: {}", reply.len());
        // RFC 8945 section 5.3: only the question, apart from the OPT record.
        assert_eq!(len, query(name, Type::TXT).len(), "{name}");
        let mut request = query(name, Type::TXT);
        let mut verifier = sign_request(&our_key(), &mut request, now());
        let reply = server.exchange(&request, true);
        assert!(
            verifier.verify(&reply, now()).is_ok() && !is_truncated(&reply),
            "{name}"
        );
        assert!(reply.len() > 1500, "{name}: {}", reply.len());
    }
}

#[test]
fn names_of_maximum_length_get_a_signed_reply() {
    let server = server();
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.", "b".repeat(61));
    let name: NameBuf = long.parse().unwrap();
    let mut keys = TsigKeys::default();
    let algorithm = TsigAlgorithm::HmacSha512;
    keys.insert(TsigKey::new(name.as_name(), algorithm, SECRET));
    server.shared.tsig_keys.store(Arc::new(keys));
    let mut request = plain_query(&long, Type::A);
    let mut verifier = sign_request(&key(&long, algorithm, SECRET), &mut request, now());
    let reply = server.exchange(&request, false);
    assert!(verifier.verify(&reply, now()).is_ok());
    assert_eq!(rcode(&reply), 5);
}

/// Sends any zone as three messages, answers an UPDATE when the test does, and records the keys of requests.
#[derive(Default)]
struct Handler {
    keys: Mutex<Vec<Option<String>>>,
    updates: Mutex<Vec<LateReply>>,
}

impl Handler {
    fn note(&self, request: &Request<'_>) {
        let name = request.key_name().map(|name| name.to_string());
        self.keys.lock().unwrap().push(name);
    }
}

impl ZoneRequests for Handler {
    fn notify(&self, request: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        self.note(request);
        Verdict::Code(Rcode::NoError, None)
    }

    fn update(&self, request: &Request<'_>, way_back: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        self.note(request);
        let late = way_back.take().expect("a way back");
        self.updates.lock().unwrap().push(late);
        Verdict::Later
    }

    fn transfer(&self, request: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        self.note(request);
        let query = request.query.packet()[..request.query.question_end].to_vec();
        Verdict::Stream(Box::new(Three { query, left: 3 }))
    }
}

struct Three {
    query: Vec<u8>,
    left: u8,
}

impl MessageStream for Three {
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage {
        if self.left == 0 {
            return NextMessage::End;
        }
        self.left -= 1;
        // As large as the limit allows.
        let room = out.len();
        let mut writer = MessageWriter::without_question(out, room);
        let (owner, fixed) = (OwnerForm::Root, (Type(65_400), Class::IN, 0));
        let data = vec![7; room - 12 - 11];
        let written = writer.record(MessageSection::Answer, owner, fixed, &data);
        assert_eq!(written, Ok(()));
        NextMessage::Written(writer.finish(&self.query, ReplyFlags::default()))
    }
}

#[test]
fn every_message_of_a_stream_is_signed() {
    let server = server();
    let handler = Arc::new(Handler::default());
    server.shared.set_zone_requests(handler.clone());
    let mut stream = server.tcp();
    let mut request = plain_query("here.", Type::AXFR);
    let mut verifier = sign_request(&our_key(), &mut request, now());
    send(&mut stream, &request);
    for _ in 0..3 {
        let message = receive(&mut stream).expect("a message");
        assert_eq!(
            message.len(),
            65_535 - 6,
            "all the room but that of a time which did not fit"
        );
        assert!(TsigRecord::find(&message).unwrap().is_some());
        assert!(verifier.verify(&message, now()).is_ok());
    }
    assert!(verifier.is_complete());
    // Without a signature on the request there are none on the messages.
    send(&mut stream, &plain_query("here.", Type::AXFR));
    let message = receive(&mut stream).expect("a message");
    assert!(TsigRecord::find(&message).unwrap().is_none());
    let keys = handler.keys.lock().unwrap().clone();
    assert_eq!(keys, [Some("key.example.".to_string()), None]);
}

#[test]
fn late_replies_are_signed_when_they_are_sent() {
    let server = server();
    let handler = Arc::new(Handler::default());
    server.shared.set_zone_requests(handler.clone());
    let mut request = plain_query("here.", Type::SOA);
    request[2] = 5 << 3;
    let mut verifier = sign_request(&our_key(), &mut request, now());
    let socket = server.udp();
    socket.send(&request).unwrap();
    server.wait_counter("dnsupdate-queries", 1);
    let late = loop {
        if let Some(late) = handler.updates.lock().unwrap().pop() {
            break late;
        }
        std::thread::yield_now();
    };
    let mut reply = plain_query("here.", Type::SOA);
    (reply[2], reply[3]) = (5 << 3 | 0x80, 0);
    late.send(&reply, Rcode::NoError);
    let mut received = [0; 512];
    let len = socket.recv(&mut received).unwrap();
    assert_eq!(verifier.verify(&received[..len], now()), Ok(reply.len()));
    assert_eq!(
        *handler.keys.lock().unwrap(),
        [Some("key.example.".to_string())]
    );
}

/// Returns the output of a tool for a signed query.
fn run(tool: &str, server: &Loopback, arguments: &[&str]) -> String {
    let port = server.address.port().to_string();
    let output = Command::new(tool)
        .args(["-p", &port, "@127.0.0.1"])
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}: run scripts/install-deps"));
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn dig_and_kdig_take_signed_answers_of_every_algorithm_over_both_transports() {
    let server = server();
    let secret = data_encoding::BASE64.encode(SECRET);
    for algorithm in TsigAlgorithm::ALL {
        let signer = format!("{algorithm}:{algorithm}.example:{secret}");
        for name in ["ns1.here", "ns1.there"] {
            for transport in ["+notcp", "+tcp"] {
                let text = run("dig", &server, &["-y", &signer, transport, name, "A"]);
                assert!(text.contains("192.0.2.1"), "{text}");
                assert!(text.contains("TSIG PSEUDOSECTION"), "{text}");
                assert!(!text.contains("Couldn't verify"), "{text}");
                let text = run("kdig", &server, &["-y", &signer, transport, name, "A"]);
                assert!(text.contains("192.0.2.1"), "{text}");
                assert!(
                    !text.contains(";; WARNING") && !text.contains(";; ERROR"),
                    "{text}"
                );
            }
        }
    }
    let text = run(
        "dig",
        &server,
        &["-y", &format!("hmac-sha256:other:{secret}"), "ns1.here"],
    );
    assert!(
        text.contains("NOTAUTH") && text.contains("BADKEY"),
        "{text}"
    );
    let other = data_encoding::BASE64.encode(b"not the secret");
    let signer = format!("hmac-sha256:key.example:{other}");
    let text = run("kdig", &server, &["-y", &signer, "ns1.here"]);
    assert!(text.contains("BADSIG"), "{text}");
}
