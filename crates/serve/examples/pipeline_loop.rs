//! Takes prepared questions the whole way of a datagram many times, without sockets, counters and rings included:
//! `pipeline_loop SCENARIO[+pool][+forged][+limit][+cookie][+view|+views][+repeated] COUNT`, for counting instructions
//! (`bench/instructions`) and for profiling. Every query differs from all others, unless they are `+repeated`.
//!
//! `+pool` has LUA records that name a pool of three addresses in place of A records. `+limit` is response rate limiting, `+cookie` a
//! cookie in every query, `+forged` a million client networks in random order. `+view` is one view with one network, `+views` a
//! thousand with ten networks each; the clients are in none of them.

use nameward_answer::Engine;
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_serve::cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret};
use nameward_serve::pipeline::{ServingState, UdpPipeline};
use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_serve::scripts::Scripts;
use nameward_serve::udp::{BATCH, BatchHandler, BatchTiming, DatagramBatch};
use nameward_stats::{RingCapacities, Stats};
use nameward_steering::Steering;
use nameward_steering::pools::{AllDown, PoolMember, PoolRule, PoolRules};
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{ViewId, ViewRule, Zone, ZoneBuilder, ZoneTable};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const APEX: &str =
    "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// The key of RFC 6605 section 6.1.
const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";

fn add_zone(table: &mut ZoneTable, apex: &str, text: &str) {
    table.insert(Arc::new(zone(apex, text)));
}

fn zone(apex: &str, text: &str) -> Zone {
    let origin: NameBuf = apex.parse().expect("a name");
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(apex, text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.expect("a zone")
}

/// How a zone is signed, with one key and a chain.
fn signing(apex: &str) -> Arc<Signing> {
    let apex: NameBuf = apex.parse().expect("a name");
    let key = SigningKey::read(P256.as_bytes(), 257, KeyUse::EVERYTHING).expect("a key");
    let keys = Arc::new(Keys::new(vec![key]));
    let cache = Arc::new(SignatureCache::new(10_000));
    let policy = Arc::new(SigningPolicy::default());
    Arc::new(Signing::new(apex.as_name(), keys, policy, cache))
}

/// The zones of a scenario in small, and the names that a batch asks for.
fn scenario(name: &str, has_pools: bool) -> (ZoneTable, Vec<String>) {
    let mut table = ZoneTable::default();
    let lines = |line: &dyn Fn(usize) -> String| {
        (0..1000)
            .map(line)
            .fold(APEX.to_string(), |all, one| all + &one)
    };
    let names = |name: &dyn Fn(usize) -> String| (0..BATCH).map(|i| name(i * 31)).collect();
    match name {
        "small" | "flat" => {
            let record = if has_pools {
                "LUA A \"pool('web')\""
            } else {
                "A 10.0.0.1"
            };
            let line = |i| format!("name{i} 3600 {record}\n");
            add_zone(&mut table, "small.test.", &lines(&line));
            (table, names(&|i| format!("name{i}.small.test.")))
        }
        // Asked with DO. The signatures are made in the first round.
        "signed" | "signed-absent" => {
            let line = |i| format!("name{i} 3600 A 10.0.0.1\n");
            let mut zone = zone("small.test.", &lines(&line));
            zone.set_resident_signing(Some(signing("small.test.")));
            table.insert(Arc::new(zone));
            let label = if name == "signed" { "name" } else { "absent" };
            (table, names(&|i| format!("{label}{i}.small.test.")))
        }
        "tld" => {
            let delegation = |i| {
                format!(
                    "d{i} 3600 NS ns1.d{i}\nd{i} 3600 NS ns.h{i}.example.\nns1.d{i} 3600 A 10.0.0.1\n"
                )
            };
            add_zone(&mut table, "tld.", &lines(&delegation));
            (table, names(&|i| format!("www.d{i}.tld.")))
        }
        "hosting" => {
            for i in 0..1000 {
                let text = format!("{APEX}www 3600 A 10.0.0.1\n");
                add_zone(&mut table, &format!("zone{i}.example."), &text);
            }
            (table, names(&|i| format!("www.zone{i}.example.")))
        }
        other => {
            panic!("expected small, flat, signed, signed-absent, tld or hosting, found {other}")
        }
    }
}

fn question(name: &str, is_dnssec_ok: bool) -> Vec<u8> {
    let name: NameBuf = name.parse().expect("a name");
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\0\x01".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(b"\0\x01\0\x01\0\0\x29\x04\xd0\0\0");
    packet.extend_from_slice(&[u8::from(is_dnssec_ok) << 7, 0, 0, 0]);
    packet
}

/// Returns a name without a suffix, and whether it had one.
fn without<'n>(name: &'n str, suffix: &str) -> (&'n str, bool) {
    let rest = name.strip_suffix(suffix);
    (rest.unwrap_or(name), rest.is_some())
}

/// A limiter with the default table that limits nothing here.
fn limiter() -> Option<Arc<RateLimiter>> {
    let rate = 1_000_000;
    let limiter = RateLimiter::new(RateLimitSettings {
        rates: AnswerRates {
            responses: rate,
            nxdomains: rate,
            referrals: rate,
            errors: rate,
            all: 0,
        },
        slip: 2,
        window_seconds: 15,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 262_144,
        ..RateLimitSettings::default()
    });
    limiter.map(Arc::new)
}

/// A pool of three addresses.
fn steering() -> Arc<Steering> {
    let member = |last| PoolMember {
        address: Ipv4Addr::new(192, 0, 2, last).into(),
        weight: 1,
        order: 0,
        check: None,
    };
    let pool = PoolRule {
        name: "web".to_owned(),
        members: (1..=3).map(member).collect(),
        answers: 1,
        is_sticky: false,
        all_down: AllDown::Serve,
    };
    let steering = Arc::<Steering>::default();
    steering.set_pools(PoolRules {
        pools: vec![pool],
        maps: Vec::new(),
    });
    steering
}

/// Views with networks all over the address space, each with its own version of a zone.
fn views(number: u16, networks: u32) -> Vec<ViewRule> {
    let view = |at: u16| ViewRule {
        id: ViewId(at),
        name: format!("view{at}"),
        networks: (0..networks)
            .map(|i| {
                let network =
                    (u32::from(at) * networks + i).wrapping_mul(0x9e37_79b1) & 0x7fff_ff00;
                (Ipv4Addr::from(network | 0x8000_0000).into(), 24)
            })
            .collect(),
        keys: Vec::new(),
        listen: Vec::new(),
        match_clients: None,
        zones: vec![NameBuf::zone_from_text(&format!("small.test..view{at}")).expect("a version")],
    };
    (1..=number).map(view).collect()
}

/// Adds a COOKIE option with a client cookie to a question.
fn add_cookie(packet: &mut Vec<u8>) {
    let length = packet.len() - 1;
    packet[length] = 12;
    packet.extend_from_slice(b"\0\x0a\0\x08client-1");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(count)) = (arguments.next(), arguments.next()) else {
        panic!("pipeline_loop SCENARIO COUNT");
    };
    let count: usize = count.parse().expect("a number");
    let (name, is_repeated) = without(&name, "+repeated");
    let (name, has_views) = without(name, "+views");
    let (name, has_view) = without(name, "+view");
    let (name, has_cookies) = without(name, "+cookie");
    let (name, is_limited) = without(name, "+limit");
    let (name, is_forged) = without(name, "+forged");
    let (name, has_pools) = without(name, "+pool");
    let (mut table, names) = scenario(name, has_pools);
    match (has_view, has_views) {
        (true, _) => table.set_views(&views(1, 1)),
        (_, true) => table.set_views(&views(1000, 10)),
        _ => {}
    }
    let shared = ServingState::new(Engine::default(), Stats::new(RingCapacities::default()));
    shared.zones.store(Arc::new(table));
    if has_pools {
        shared.set_scripts(Arc::new(Scripts::new(steering(), Arc::default())));
    }
    if is_limited {
        shared.rate_limiter.store(limiter());
    }
    let mut packets: Vec<_> = names
        .iter()
        .map(|of| question(of, name.starts_with("signed")))
        .collect();
    let opt_at: Vec<usize> = packets.iter().map(|packet| packet.len() - 11).collect();
    if has_cookies {
        let settings = CookieSettings {
            secrets: vec![TimedCookieSecret::always(CookieSecret::random())],
            ..CookieSettings::default()
        };
        shared.cookies.store(Some(Arc::new(Cookies::new(settings))));
        packets.iter_mut().for_each(add_cookie);
    }
    let client = |i: usize| SocketAddr::from((Ipv4Addr::from(0x7f00_0001), 4000 + i as u16));
    let datagrams = packets.iter().enumerate().map(|(i, p)| (&p[..], client(i)));
    let mut batch = DatagramBatch::from_datagrams(&datagrams.collect::<Vec<_>>());
    let mut pipeline = UdpPipeline::new(shared);
    let timing = BatchTiming {
        receive_ns: Some(1),
        answer_ns: 1,
        send_ns: 1,
    };
    let mut networks = 1u32;
    for round in 0..count.div_ceil(BATCH) {
        for (i, at) in opt_at.iter().enumerate().filter(|_| !is_repeated) {
            // Another payload size, of which no answer here makes use.
            let size = 1232 + (round % 60_000) as u16;
            batch.query_mut(i)[at + 3..at + 5].copy_from_slice(&size.to_be_bytes());
        }
        for i in 0..if is_forged { BATCH } else { 0 } {
            // A linear congruential generator, without its lowest bits, which repeat soon.
            networks = networks.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let network = 0x0b00_0000 + ((networks >> 4 & 0xf_ffff) << 8);
            let client = SocketAddr::from((Ipv4Addr::from(network), 4000));
            batch.set_client(i, client);
        }
        pipeline.handle(&mut batch);
        pipeline.sent(&batch, timing);
    }
    for i in 0..BATCH {
        assert!(batch.replied(i).len() > 40 && matches!(batch.replied(i)[3] & 15, 0 | 3));
    }
}
