//! Queries that repeat others within a second, on the complete path of a datagram: same octets, same counters, and always from the
//! present zones and settings.

use nameward_answer::{Engine, ServerIdentity};
use nameward_serve::cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret};
use nameward_serve::listen::bind_all;
use nameward_serve::listener::{ListenAddress, ListenerRules};
use nameward_serve::pipeline::{ServingState, UdpPipeline};
use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_serve::recursor::{ForwarderSettings, RecursorForwarder, ResolverSettings, Resolvers};
use nameward_serve::scripts::Scripts;
use nameward_serve::udp::{BatchHandler, BatchTiming, DatagramBatch, UdpWorker, WorkerSwitch};
use nameward_stats::{Counter, Ring, RingCapacities, Stats};
use nameward_steering::Steering;
use nameward_steering::pools::{AllDown, PoolMember, PoolRule, PoolRules};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{
    AccessEntry, AccessList, AccessRules, AccessSource, AccessWord, ViewId, ViewRule, Zone,
    ZoneBuilder, ZoneTable,
};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::loopback::{TIMEOUT, plain_query, query, rcode, zone};

const ZONE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
www 60 A 192.0.2.2
*.wild 60 TXT \"any\"
moved 60 DNAME elsewhere
www.elsewhere 60 A 192.0.2.9
alias 60 CNAME www.other.test.
sub 3600 NS ns.sub
ns.sub 3600 A 192.0.2.53
";
const OTHER: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
www 60 A 192.0.2.77
";

/// A version of a zone for some views.
fn version(id: &str, text: &str) -> Zone {
    let id = NameBuf::zone_from_text(id).unwrap();
    let mut builder = ZoneBuilder::new(id.as_name());
    let origin = NameBuf::from(id.as_name().zone());
    parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    builder.finish().0.unwrap()
}

fn table(text: &str) -> ZoneTable {
    let mut zones = ZoneTable::default();
    zones.insert(Arc::new(zone("example.", text)));
    zones.insert(Arc::new(zone("other.test.", OTHER)));
    zones
}

fn state() -> Arc<ServingState> {
    let identity = ServerIdentity {
        nsid: b"here".to_vec(),
        ..ServerIdentity::default()
    };
    let engine = Engine {
        identity,
        ..Engine::default()
    };
    let shared = ServingState::new(engine, Stats::new(RingCapacities::default()));
    shared.zones.store(Arc::new(table(ZONE)));
    shared
}

fn client(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 4000))
}

/// Answers datagrams as one batch.
fn answer(pipeline: &mut UdpPipeline, datagrams: &[(&[u8], SocketAddr)]) -> Vec<Vec<u8>> {
    let timing = BatchTiming {
        receive_ns: None,
        answer_ns: 1,
        send_ns: 1,
    };
    let mut batch = DatagramBatch::from_datagrams(datagrams);
    pipeline.handle(&mut batch);
    pipeline.sent(&batch, timing);
    (0..batch.len())
        .map(|i| batch.replied(i).to_vec())
        .collect()
}

/// Answers a query `times` times in batches of 32; returns the last reply.
fn ask(pipeline: &mut UdpPipeline, packet: &[u8], client: SocketAddr) -> Vec<u8> {
    let datagrams = [(packet, client); 32];
    answer(pipeline, &datagrams);
    answer(pipeline, &datagrams).remove(31)
}

fn with_id(mut packet: Vec<u8>, id: u16) -> Vec<u8> {
    packet[..2].copy_from_slice(&id.to_be_bytes());
    packet
}

/// Appends an option to the OPT record that ends a query.
fn with_option(mut packet: Vec<u8>, code: u8, value: &[u8]) -> Vec<u8> {
    let at = packet.len() - 1;
    packet[at] += 4 + value.len() as u8;
    packet.extend_from_slice(&[0, code, 0, value.len() as u8]);
    packet.extend_from_slice(value);
    packet
}

/// Queries of every kind, valid and not.
fn queries() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for name in [
        "example.",
        "www.example.",
        "WWW.example.",
        "x.wild.example.",
        "www.moved.example.",
        "WwW.MOVED.example.",
        "alias.example.",
        "www.sub.example.",
        "missing.example.",
        "not-ours.test.",
    ] {
        for qtype in [Type::A, Type::TXT, Type::ANY, Type::SOA, Type::AXFR] {
            packets.push(plain_query(name, qtype));
            packets.push(query(name, qtype));
        }
    }
    packets.push(with_option(query("www.example.", Type::A), 3, b""));
    packets.push(with_option(query("www.example.", Type::A), 10, b"client-1"));
    packets.push(with_option(
        query("www.example.", Type::A),
        8,
        b"\0\x01\x18\0\xc6\x33\x64",
    ));
    let mut without_recursion = plain_query("www.example.", Type::A);
    without_recursion[2] ^= 1;
    packets.push(without_recursion);
    let mut chaos = plain_query("id.server.", Type::TXT);
    *chaos.last_mut().unwrap() = 3;
    packets.push(chaos);
    let mut notify = plain_query("example.", Type::SOA);
    notify[2] |= 4 << 3;
    packets.push(notify);
    let mut response = plain_query("www.example.", Type::A);
    response[2] |= 0x80;
    packets.push(response);
    let whole = query("www.example.", Type::A);
    packets.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
    packets
}

#[test]
fn repeated_queries_get_the_same_replies_and_count_the_same() {
    const ROUNDS: u16 = 20;
    let (repeating, single) = (state(), state());
    let mut pipeline = UdpPipeline::new(Arc::clone(&repeating));
    for round in 0..ROUNDS {
        for some in queries().chunks(32) {
            let packets: Vec<_> = some
                .iter()
                .map(|packet| {
                    let has_id = packet.len() >= 2;
                    if has_id {
                        with_id(packet.clone(), round)
                    } else {
                        packet.clone()
                    }
                })
                .collect();
            let datagrams: Vec<_> = packets
                .iter()
                .map(|packet| (&packet[..], client(1)))
                .collect();
            // A new pipeline has nothing to repeat.
            let mut fresh = UdpPipeline::new(Arc::clone(&single));
            let expected = answer(&mut fresh, &datagrams);
            assert_eq!(answer(&mut pipeline, &datagrams), expected, "round {round}");
        }
    }
    drop(pipeline);
    let (repeating, single) = (repeating.stats.snapshot(), single.stats.snapshot());
    for counter in Counter::ALL {
        let (repeated, expected) = (repeating.counter(*counter), single.counter(*counter));
        assert_eq!(repeated, expected, "{counter:?}");
    }
    assert!(repeating.answers_by_rcode().eq(single.answers_by_rcode()));
    assert!(repeating.answers_by_type().eq(single.answers_by_type()));
    assert_eq!(repeating.answer_sizes().sum, single.answer_sizes().sum);
    for ring in [
        Ring::Queries,
        Ring::Remotes,
        Ring::NxdomainQueries,
        Ring::NoerrorQueries,
    ] {
        let (repeated, expected) = (repeating.ring(ring), single.ring(ring));
        assert_eq!(repeated.size(), expected.size(), "{ring:?}");
    }
}

#[test]
fn a_new_version_of_a_zone_is_answered_at_once() {
    let shared = state();
    let mut pipeline = UdpPipeline::new(Arc::clone(&shared));
    let packet = query("www.example.", Type::A);
    for last in 1..=100 {
        let text = ZONE.replace("192.0.2.2", &format!("192.0.2.{last}"));
        shared.zones.store(Arc::new(table(&text)));
        let reply = ask(&mut pipeline, &packet, client(1));
        let address = [192, 0, 2, last];
        assert!(
            reply.windows(4).any(|octets| *octets == address),
            "version {last}"
        );
    }
    shared.zones.store(Arc::default());
    assert_eq!(rcode(&ask(&mut pipeline, &packet, client(1))), 5);
}

#[test]
fn new_settings_of_the_engine_hold_at_once() {
    let shared = state();
    let mut pipeline = UdpPipeline::new(Arc::clone(&shared));
    let packet = with_option(query("www.example.", Type::A), 3, b"");
    let has = |reply: Vec<u8>, nsid: &[u8]| reply.windows(nsid.len()).any(|octets| octets == nsid);
    assert!(has(ask(&mut pipeline, &packet, client(1)), b"here"));
    let mut engine = Engine::clone(&shared.engine.load());
    engine.identity.nsid = b"there!".to_vec();
    shared.engine.store(Arc::new(engine));
    assert!(has(ask(&mut pipeline, &packet, client(1)), b"there!"));
}

fn network(last: u8) -> Arc<AccessList> {
    let word = AccessWord::Network(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 32);
    Arc::new(AccessList::new(&[AccessEntry::positive(word)]))
}

#[test]
fn a_client_outside_the_access_list_does_not_get_the_reply_of_another() {
    let shared = state();
    let mut zones = table(ZONE);
    let mut rules = AccessRules::default();
    let other = zone("other.test.", OTHER);
    rules.set_zone(other.apex_name(), network(1));
    zones.set_access(AccessSource::Configured, Arc::new(rules));
    shared.zones.store(Arc::new(zones));
    let mut pipeline = UdpPipeline::new(shared);
    let direct = query("www.other.test.", Type::A);
    let alias = query("alias.example.", Type::A);
    let answers = |reply: Vec<u8>| u16::from_be_bytes([reply[6], reply[7]]);
    assert_eq!(answers(ask(&mut pipeline, &direct, client(1))), 1);
    assert_eq!(rcode(&ask(&mut pipeline, &direct, client(2))), 5);
    // The chain ends at the edge of what the client may query.
    assert_eq!(answers(ask(&mut pipeline, &alias, client(1))), 2);
    assert_eq!(answers(ask(&mut pipeline, &alias, client(2))), 1);
}

#[test]
fn the_access_list_of_a_listener_holds_for_repeated_queries() {
    let shared = state();
    let any_port = |address: [u8; 4]| ListenAddress::from(SocketAddr::from((address, 0)));
    let mut restricted = any_port([127, 0, 0, 2]);
    restricted.rules = Arc::new(ListenerRules {
        allow_query: Some(AccessList::clone(&network(1))),
        proxies: None,
    });
    let bound = bind_all(&[any_port([127, 0, 0, 1]), restricted], 1).unwrap();
    let switch = Arc::<WorkerSwitch>::default();
    let workers = UdpPipeline::spawn_workers(&shared, bound.udp, &switch).unwrap();
    let packet = query("www.example.", Type::A);
    let rcodes = bound.addresses.iter().map(|address| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut reply = [0; 512];
        for _ in 0..20 {
            socket.send(&packet).unwrap();
            socket.recv(&mut reply).unwrap();
        }
        rcode(&reply)
    });
    assert_eq!(rcodes.collect::<Vec<_>>(), [0, 5]);
    switch.stop();
    workers.into_iter().for_each(UdpWorker::join);
}

#[test]
fn a_blackholed_client_gets_nothing() {
    let shared = state();
    let mut zones = table(ZONE);
    let mut rules = AccessRules::default();
    rules.blackhole = Some(network(2));
    zones.set_access(AccessSource::Configured, Arc::new(rules));
    shared.zones.store(Arc::new(zones));
    let mut pipeline = UdpPipeline::new(shared);
    let packet = query("www.example.", Type::A);
    assert!(!ask(&mut pipeline, &packet, client(1)).is_empty());
    assert!(ask(&mut pipeline, &packet, client(2)).is_empty());
}

#[test]
fn each_view_has_its_own_replies() {
    let shared = state();
    let mut zones = table(ZONE);
    let inside = ZONE.replace("192.0.2.2", "10.0.0.2");
    zones.insert(Arc::new(version("example..inside", &inside)));
    zones.set_views(&[ViewRule {
        id: ViewId(1),
        name: "inside".to_owned(),
        networks: vec![(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 32)],
        keys: Vec::new(),
        listen: Vec::new(),
        match_clients: None,
        zones: vec![NameBuf::zone_from_text("example..inside").unwrap()],
    }]);
    shared.zones.store(Arc::new(zones));
    let mut pipeline = UdpPipeline::new(shared);
    let packet = query("www.example.", Type::A);
    for (last, address) in [(1, [10, 0, 0, 2]), (2, [192, 0, 2, 2])] {
        let reply = ask(&mut pipeline, &packet, client(last));
        assert!(reply.windows(4).any(|octets| *octets == address), "{last}");
    }
}

#[test]
fn replies_to_repeated_queries_are_limited_one_by_one() {
    let shared = state();
    let limiter = RateLimiter::new(RateLimitSettings {
        rates: AnswerRates {
            responses: 5,
            nxdomains: 5,
            referrals: 5,
            errors: 5,
            all: 0,
        },
        slip: 2,
        window_seconds: 3600,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 1024,
        ..RateLimitSettings::default()
    });
    shared.rate_limiter.store(limiter.map(Arc::new));
    let mut pipeline = UdpPipeline::new(Arc::clone(&shared));
    let packet = query("www.example.", Type::A);
    let mut sent = [0; 3];
    for round in 0..100u16 {
        let packets: Vec<_> = (0..32)
            .map(|i| with_id(packet.clone(), round * 32 + i))
            .collect();
        let datagrams: Vec<_> = packets
            .iter()
            .map(|packet| (&packet[..], client(1)))
            .collect();
        for (reply, packet) in answer(&mut pipeline, &datagrams).iter().zip(&packets) {
            let kind = match reply.get(2) {
                None => 0,
                Some(flags) if flags & 2 != 0 => 1,
                Some(_) => 2,
            };
            assert!(reply.is_empty() || reply[..2] == packet[..2]);
            sent[kind] += 1;
        }
    }
    let [dropped, slipped, answered] = sent;
    assert!((5..=10).contains(&answered), "{answered} answered");
    assert!((1200..=2000).contains(&slipped), "{slipped} slipped");
    let snapshot = shared.stats.snapshot();
    assert_eq!(snapshot.counter(Counter::RateLimitDrops), dropped);
    assert_eq!(snapshot.counter(Counter::RateLimitSlips), slipped);
}

#[test]
fn cookies_are_required_of_repeated_queries_as_well() {
    let shared = state();
    let mut pipeline = UdpPipeline::new(Arc::clone(&shared));
    let packet = query("www.example.", Type::A);
    assert_eq!(ask(&mut pipeline, &packet, client(1))[2] & 2, 0);
    let settings = CookieSettings {
        secrets: vec![TimedCookieSecret::always(CookieSecret::random())],
        require: true,
        require_above: 0,
    };
    shared.cookies.store(Some(Arc::new(Cookies::new(settings))));
    assert_eq!(ask(&mut pipeline, &packet, client(1))[2] & 2, 2);
}

#[test]
fn the_cookie_of_a_reply_belongs_to_its_client() {
    let shared = state();
    let settings = CookieSettings {
        secrets: vec![TimedCookieSecret::always(CookieSecret::random())],
        require: false,
        require_above: 0,
    };
    shared.cookies.store(Some(Arc::new(Cookies::new(settings))));
    let mut pipeline = UdpPipeline::new(shared);
    let packet = with_option(query("www.example.", Type::A), 10, b"client-1");
    let [one, other] = [1, 2].map(|last| ask(&mut pipeline, &packet, client(last)));
    assert_eq!(one.len(), other.len());
    assert_ne!(one, other);
}

#[test]
fn only_clients_with_recursion_are_offered_it() {
    let shared = state();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let resolvers = Resolvers::new(&ResolverSettings {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 9))],
        timeout: Duration::from_secs(1),
        randomize_case: false,
    });
    let settings = ForwarderSettings {
        allow_from: AccessList::clone(&network(1)),
        in_flight_max: 8,
        in_flight_per_client: 8,
    };
    let handle = runtime.handle().clone();
    let forwarder = RecursorForwarder::new(Arc::new(resolvers), settings, handle);
    shared.set_hand_off(Some(forwarder));
    let mut pipeline = UdpPipeline::new(shared);
    let packet = query("www.example.", Type::A);
    let [allowed, other] = [1, 2].map(|last| ask(&mut pipeline, &packet, client(last)));
    assert_eq!([allowed[3] & 0x80, other[3] & 0x80], [0x80, 0]);
}

#[test]
fn a_pool_chooses_for_each_query() {
    let shared = state();
    let text = format!("{ZONE}pool 60 LUA A \"pool('web')\"\n");
    shared.zones.store(Arc::new(table(&text)));
    let member = |last| PoolMember {
        address: Ipv4Addr::new(192, 0, 2, last).into(),
        weight: 1,
        order: 0,
        check: None,
    };
    let steering = Arc::<Steering>::default();
    steering.set_pools(PoolRules {
        pools: vec![PoolRule {
            name: "web".to_owned(),
            members: (1..=3).map(member).collect(),
            answers: 1,
            is_sticky: false,
            all_down: AllDown::Serve,
        }],
        maps: Vec::new(),
    });
    shared.set_scripts(Arc::new(Scripts::new(steering, Arc::default())));
    let mut pipeline = UdpPipeline::new(shared);
    let packet = query("pool.example.", Type::A);
    let one = [(&packet[..], client(1))];
    let replies: HashSet<_> = (0..200).flat_map(|_| answer(&mut pipeline, &one)).collect();
    assert_eq!(replies.len(), 3);
}
