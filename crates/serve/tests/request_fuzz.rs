//! The body of the fuzz target `request`: a datagram and a stream message on the complete path of a query, with fixed
//! zones and one from the input, signed or not, with or without cookies and rate limiting. Every reply must be a
//! valid message that fits what the client can receive.
//!
//! An input is an octet of options, a zone in text form if one of them requests it, a zero octet, and the packet.

use nameward_answer::Engine;
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_serve::cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret};
use nameward_serve::pipeline::{ServingState, TcpPipeline, UdpPipeline};
use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_serve::tcp::{Endpoints, answer_alone};
use nameward_serve::udp::{BatchHandler, DatagramBatch};
use nameward_stats::{RingCapacities, Stats};
use nameward_wire::NameBuf;
use nameward_wire::message::{Message, Query};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{Zone, ZoneBuilder, ZoneTable};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

/// The options of an input.
const FUZZED_ZONE: u8 = 1;
const COOKIES: u8 = 2;
const REQUIRED_COOKIES: u8 = 4;
const LIMITED: u8 = 8;
const SIGNED: u8 = 16;

const ZONE: &str = "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n\
    www 60 A 192.0.2.2\nwww 60 AAAA 2001:db8::2\n*.wild 60 TXT \"any\"\nalias 60 CNAME www\nloop 60 CNAME loop\n\
    out 60 CNAME www.other.test.\nd 60 DNAME www.other.test.\ndeleg 60 NS ns.deleg\nns.deleg 60 A 192.0.2.3\n\
    a.b.c.d.ent 60 A 192.0.2.4\nmail 60 MX 10 www\n_sip._udp 60 SRV 1 2 3 www\nhttps 60 HTTPS 1 . alpn=h2\n";

/// The key of RFC 6605 section 6.1.
const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";

struct FuzzedServer {
    shared: Arc<ServingState>,
    zones: [ZoneTable; 2],
    udp: UdpPipeline,
    tcp: TcpPipeline,
}

fn zone(apex: &str, text: &[u8], is_signed: bool) -> Option<Arc<Zone>> {
    let origin: NameBuf = apex.parse().expect("a name");
    let mut builder = ZoneBuilder::new(origin.as_name());
    parse_bytes(apex, text, &Options::new(origin), &mut builder);
    let mut zone = builder.finish().0?;
    if is_signed {
        let key = SigningKey::read(P256.as_bytes(), 257, KeyUse::EVERYTHING).expect("a key");
        let (keys, cache) = (Keys::new(vec![key]), SignatureCache::new(10_000));
        let policy = Arc::new(SigningPolicy::default());
        let signing = Signing::new(origin.as_name(), Arc::new(keys), policy, Arc::new(cache));
        zone.set_resident_signing(Some(Arc::new(signing)));
    }
    Some(Arc::new(zone))
}

impl FuzzedServer {
    fn new() -> Self {
        let shared = ServingState::new(Engine::default(), Stats::new(RingCapacities::default()));
        let zones = [false, true].map(|is_signed| {
            let mut table = ZoneTable::default();
            for apex in ["example.", "other.test."] {
                let zone = zone(apex, ZONE.as_bytes(), is_signed);
                table.insert(zone.expect("a valid zone"));
            }
            table
        });
        FuzzedServer {
            udp: UdpPipeline::new(Arc::clone(&shared)),
            tcp: TcpPipeline::new(&shared, 1),
            zones,
            shared,
        }
    }

    fn configure(&self, options: u8, fuzzed_zone: Option<Arc<Zone>>) {
        let mut table = self.zones[usize::from(options & SIGNED != 0)].clone();
        if let Some(zone) = fuzzed_zone {
            table.insert(zone);
        }
        self.shared.zones.store(Arc::new(table));
        let cookies = CookieSettings {
            secrets: vec![TimedCookieSecret::always(CookieSecret::random())],
            require: options & REQUIRED_COOKIES != 0,
            require_above: 0,
        };
        let cookies = (options & COOKIES != 0).then(|| Arc::new(Cookies::new(cookies)));
        self.shared.cookies.store(cookies);
        let limiter = (options & LIMITED != 0).then(limiter).flatten();
        self.shared.rate_limiter.store(limiter.map(Arc::new));
    }
}

/// A limiter that allows one answer.
fn limiter() -> Option<RateLimiter> {
    RateLimiter::new(RateLimitSettings {
        rates: AnswerRates {
            responses: 1,
            nxdomains: 1,
            referrals: 1,
            errors: 1,
            all: 1,
        },
        slip: 2,
        window_seconds: 15,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 64,
        ..RateLimitSettings::default()
    })
}

/// Runs a request through the fuzzed server.
pub fn request(input: &[u8]) {
    thread_local!(static SERVER: RefCell<FuzzedServer> = RefCell::new(FuzzedServer::new()));
    let Some((&options, rest)) = input.split_first() else {
        return;
    };
    let (text, packet) = match rest.iter().position(|octet| *octet == 0) {
        Some(end) if options & FUZZED_ZONE != 0 => (Some(&rest[..end]), &rest[end + 1..]),
        _ => (None, rest),
    };
    SERVER.with_borrow_mut(|server| {
        let fuzzed_zone = text.and_then(|text| zone("own.test.", text, options & SIGNED != 0));
        server.configure(options, fuzzed_zone);
        let client: SocketAddr = "192.0.2.77:4000".parse().expect("an address");
        // Twice, in two batches: the second answer may be from a cache, or be limited.
        let mut batch = DatagramBatch::from_datagrams(&[(packet, client), (packet, client)]);
        let mut first = Vec::new();
        for _ in 0..2 {
            server.udp.handle(&mut batch);
            for i in 0..batch.len() {
                check(batch.query(i), batch.replied(i), true);
            }
            if options & (COOKIES | LIMITED) == 0 && !first.is_empty() {
                assert_eq!(batch.replied(0), first);
            }
            first = batch.replied(0).to_vec();
        }
        let ends = Endpoints {
            client,
            local: "192.0.2.53:53".parse().expect("an address"),
        };
        check(packet, &answer_alone(&server.tcp, packet, ends), false);
    });
}

fn check(packet: &[u8], reply: &[u8], is_datagram: bool) {
    if reply.is_empty() {
        return;
    }
    let message = Message::parse(reply).expect("a reply with a header");
    assert!(message.is_response());
    assert_eq!(reply[..2], packet[..2], "the message ID");
    assert!(
        packet[2] & 0x80 == 0,
        "a response was answered: this could loop"
    );
    let mut end = 12;
    for record in message.records() {
        let record = record.expect("a whole record");
        end = record.data_offset() + record.raw_data().len();
        let mut data = Vec::new();
        record.expand_data(&mut data).expect("valid record data");
    }
    for query in message.questions() {
        assert!(query.is_ok());
        end = end.max(13);
    }
    assert!(end <= reply.len());
    if !is_datagram {
        assert!(!message.is_truncated(), "TC over a stream");
        return;
    }
    let query = Query::parse(packet);
    let edns = query.ok().and_then(|query| query.edns);
    let room = edns.map_or(512, |edns| usize::from(edns.payload).max(512));
    assert!(reply.len() <= room, "{} octets of {room}", reply.len());
}

/// The same short run each time; `scripts/fuzz request` runs for as long as desired.
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    fn seeds() -> Vec<Vec<u8>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/request");
        let mut paths: Vec<_> = fs::read_dir(directory)
            .expect("there are seeds")
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths.iter().map(|path| fs::read(path).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_packet_gets_a_valid_reply_or_none(
            seed in 0..64usize,
            options in any::<u8>(),
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6),
            cut in any::<usize>(),
        ) {
            let seeds = seeds();
            let mut input = seeds[seed % seeds.len()].clone();
            input[0] ^= options & !FUZZED_ZONE;
            for (at, octet) in changes {
                let at = 1 + at % (input.len() - 1);
                input[at] ^= octet;
            }
            if cut % 8 == 0 {
                input.truncate(1 + cut / 8 % input.len());
            }
            request(&input);
        }
    }
}
