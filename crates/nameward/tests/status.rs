//! The status page of a whole server: known traffic in, exact numbers out.

mod dns;
pub mod page;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nameward_testkit::conformance::ZoneText;
use nameward_testkit::{Setup, TestServer};

use dns::{Exchange, TestQuery, Via};
use page::Page;

const ZONE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n\
                    sub NS ns.elsewhere.test.\n";

const EXISTING: TestQuery = TestQuery::new("www.example", 1, 0);
const MIXED_CASE: TestQuery = TestQuery::new("WwW.ExAmPlE", 1, 0);
const WRONG_TYPE: TestQuery = TestQuery::new("www.example", 15, 0);
const MISSING: TestQuery = TestQuery::new("nope.Example", 28, 3);
const NOT_OURS: TestQuery = TestQuery::new("www.other.test", 1, 5);
const DELEGATED: TestQuery = TestQuery::new("a.sub.example", 1, 0);
const DESIRING: TestQuery = TestQuery::new("www.example", 1, 0).recursion_desired();
const SIGNED: TestQuery = TestQuery::new("www.example", 1, 0).dnssec_ok_with_cookie();
const UNKNOWN_TYPE: TestQuery = TestQuery::new("www.example", 65280, 0);

const ALL: [TestQuery; 9] = [
    EXISTING,
    MIXED_CASE,
    WRONG_TYPE,
    MISSING,
    NOT_OURS,
    DELEGATED,
    DESIRING,
    SIGNED,
    UNKNOWN_TYPE,
];

fn start() -> TestServer {
    TestServer::start("", &[("example", ZONE)])
}

/// The page once everything sent has been counted: a worker counts a batch after it has sent it.
fn settled(web: SocketAddr, queries: u64, corrupt: u64) -> Page {
    for _ in 0..600 {
        let page = Page::read(web, "/");
        let seen = page.value("udp-queries") + page.value("tcp-queries");
        if seen >= queries && page.value("corrupt-packets") >= corrupt {
            return page;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the page never showed {queries} queries");
}

/// Asks everything over everything, and says what came back by transport.
fn send_all(server: &TestServer) -> BTreeMap<&'static str, Exchange> {
    let mut seen = BTreeMap::new();
    for (name, via) in [
        ("udp4", Via::Udp(server.address())),
        ("udp6", Via::Udp(server.address_v6())),
        ("tcp4", Via::Tcp(server.address())),
        ("tcp6", Via::Tcp(server.address_v6())),
    ] {
        let exchange = dns::ask_all(via, &ALL);
        assert_eq!(exchange.answers, ALL.len() as u64, "{name}");
        seen.insert(name, exchange);
    }
    seen
}

#[test]
fn known_traffic_has_its_exact_effect_on_every_counter_and_ring() {
    let page = assert_exact_effect(&start());
    // Zones in memory are answered without the packet cache.
    assert_eq!(
        page.value("packetcache-hit") + page.value("packetcache-miss"),
        0
    );
    assert_eq!(page.value("backend-queries"), 0);
}

#[test]
fn the_same_traffic_has_the_same_effect_from_the_packet_cache() {
    let setup = Setup::new();
    let database = crate::databases::rows::Sqlite::new(setup.dir());
    database.add(&ZoneText {
        name: "example".into(),
        text: ZONE.into(),
    });
    let path = database.path.display();
    let cache = "[cache]\npacket_ttl = 3600\nquery_ttl = 3600\n";
    let backend = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"live\"\n");
    let server = setup.config(&format!("{cache}{backend}")).start();
    let cold = assert_exact_effect(&server);
    let (hits, misses) = (
        cold.value("packetcache-hit"),
        cold.value("packetcache-miss"),
    );
    let looked_up = cold.value("backend-queries");
    assert!(hits > 0 && misses > 0 && looked_up > 0);
    // Everything that may come from the cache is in it now: of nine questions, one is for another zone, over four
    // transports.
    send_all(&server);
    let warm = settled(server.web(), 3 * 4 * ALL.len() as u64, 0);
    assert_eq!(warm.value("packetcache-miss"), misses);
    assert_eq!(warm.value("packetcache-hit"), hits + 4 * 8);
    assert_eq!(warm.value("backend-queries"), looked_up);
    let nodata = [
        ("www.example/MX".to_string(), 12),
        ("www.example/TYPE65280".to_string(), 12),
    ];
    assert_eq!(warm.ring("noerror-queries"), BTreeMap::from(nodata));
}

/// Sends the known traffic twice and checks every number after each time.
fn assert_exact_effect(server: &TestServer) -> Page {
    let before = Page::read(server.web(), "/");
    let (mut expected_queries, mut last) = (0, None);
    // Twice: whatever is remembered from the first time must count the same.
    for round in 1..=2u64 {
        let seen = send_all(server);
        expected_queries += 4 * ALL.len() as u64;
        let page = settled(server.web(), expected_queries, 0);
        let grown = |name: &str| page.value(name) - before.value(name);
        let each = ALL.len() as u64;
        for (transport, exchange) in &seen {
            assert_eq!(grown(&format!("{transport}-queries")), round * each);
            assert_eq!(grown(&format!("{transport}-answers")), round * each);
            let bytes = grown(&format!("{transport}-answers-bytes"));
            assert_eq!(bytes, round * exchange.bytes, "{transport}");
        }
        for (name, each_round) in [
            ("udp-queries", 2 * each),
            ("tcp-queries", 2 * each),
            ("udp-answers", 2 * each),
            ("tcp-answers", 2 * each),
            ("rd-queries", 4),
            ("udp-do-queries", 2),
            ("udp-cookie-queries", 2),
            ("tcp-cookie-queries", 2),
            ("noerror-packets", 4 * 7),
            ("nxdomain-packets", 4),
            ("unauth-packets", 4),
            ("servfail-packets", 0),
            ("corrupt-packets", 0),
            ("zone-cache-hit", 4 * 8),
            ("zone-cache-miss", 4),
            ("overload-drops", 0),
            ("timedout-packets", 0),
        ] {
            assert_eq!(grown(name), round * each_round, "{name}, round {round}");
        }
        assert_rings(&page, round);
        assert_eq!(page.value("zone-cache-size"), 1);
        last = Some(page);
    }
    last.expect("two rounds")
}

fn assert_rings(page: &Page, round: u64) {
    let rows = |entries: &[(&str, u64)]| {
        let rows = entries
            .iter()
            .map(|(entry, count)| (entry.to_string(), count * round));
        rows.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(
        page.ring("queries"),
        rows(&[
            ("www.example/A", 6),
            ("WwW.ExAmPlE/A", 2),
            ("www.example/MX", 2),
            ("nope.Example/AAAA", 2),
            ("www.other.test/A", 2),
            ("a.sub.example/A", 2),
            ("www.example/TYPE65280", 2),
        ])
    );
    assert_eq!(
        page.ring("remotes"),
        rows(&[("127.0.0.1", 18), ("::1", 18)])
    );
    assert_eq!(
        page.ring("noerror-queries"),
        rows(&[("www.example/MX", 4), ("www.example/TYPE65280", 4)])
    );
    assert_eq!(
        page.ring("nxdomain-queries"),
        rows(&[("nope.Example/AAAA", 4)])
    );
    assert_eq!(
        page.ring("unauth-queries"),
        rows(&[("www.other.test/A", 4)])
    );
    assert_eq!(
        page.ring("remotes-unauth"),
        rows(&[("127.0.0.1", 2), ("::1", 2)])
    );
    assert_eq!(page.ring("servfail-queries"), rows(&[]));
    assert_eq!(page.ring("remotes-corrupt"), rows(&[]));
}

#[test]
fn malformed_packets_and_stray_responses_are_counted_separately() {
    let server = start();
    let response = dns::response("www.example");
    for packet in [&b"short"[..], &[0; 11], &dns::compression_loop(), &response] {
        dns::send(server.address(), packet);
    }
    dns::send(server.address_v6(), b"x");
    let page = settled(server.web(), 0, 5);
    assert_eq!(page.value("corrupt-packets"), 5);
    assert_eq!(page.value("udp-queries"), 0);
    // The response (QR=1) is in the counter only.
    let expected = [("127.0.0.1".to_string(), 3), ("::1".to_string(), 1)];
    assert_eq!(page.ring("remotes-corrupt"), BTreeMap::from(expected));
    assert_eq!(page.ring("remotes"), BTreeMap::new());
}

#[test]
fn every_relation_holds_while_the_server_answers_all_it_can() {
    let server = start();
    let flood = dns::Flood::start(&[server.address(), server.address_v6()]);
    let mut last: Option<Page> = None;
    for _ in 0..30 {
        let page = Page::read(server.web(), "/");
        page.assert_relations();
        if let Some(last) = &last {
            page.assert_not_below(last);
        }
        last = Some(page);
    }
    let sent = flood.stop();
    let last = last.expect("pages were read");
    assert!(last.value("udp-queries") > 0, "nothing of {sent} arrived");
}

#[test]
fn the_page_itself_is_logged_and_its_own_numbers_are_real() {
    let server = start();
    let first = Page::read(server.web(), "/");
    let second = Page::read(server.web(), "/");
    let line = format!("\"GET / HTTP/1.0\" 200 {}", first.reply_bytes);
    let logged = second.ring("logmessages");
    assert!(
        logged.keys().any(|entry| entry.ends_with(&line)),
        "{logged:?}"
    );
    assert!(second.value("real-memory-usage") > 100_000);
    assert!(second.value("fd-usage") > 3);
    assert_eq!(second.value("open-tcp-connections"), 0);
    let connection = std::net::TcpStream::connect(server.address()).expect("a connection");
    let opened = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        Page::read(server.web(), "/").value("open-tcp-connections") == 1
    });
    drop(connection);
    assert!(opened, "an open connection was not shown");
}

/// A number of /proc/net/snmp6, or of the line of UDP in /proc/net/snmp.
fn of_host(name: &str) -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let six = read("/proc/net/snmp6");
    if let Some(line) = six
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))
    {
        return line
            .split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok())
            .unwrap();
    }
    let four = read("/proc/net/snmp");
    let mut lines = four.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|word| word == name).unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
fn socket_errors_and_processor_times_are_those_of_the_system() {
    let server = start();
    for (name, of_system) in [
        ("udp-in-errors", "InErrors"),
        ("udp-noport-errors", "NoPorts"),
        ("udp-recvbuf-errors", "RcvbufErrors"),
        ("udp-sndbuf-errors", "SndbufErrors"),
        ("udp-in-csum-errors", "InCsumErrors"),
        ("udp6-in-errors", "Udp6InErrors"),
        ("udp6-noport-errors", "Udp6NoPorts"),
        ("udp6-recvbuf-errors", "Udp6RcvbufErrors"),
        ("udp6-sndbuf-errors", "Udp6SndbufErrors"),
        ("udp6-in-csum-errors", "Udp6InCsumErrors"),
    ] {
        // Others use the machine as well: what the page says was so at some moment between two looks.
        let before = of_host(of_system);
        let shown = Page::read(server.web(), "/").value(name);
        assert!(
            (before..=of_host(of_system)).contains(&shown),
            "{name}: {shown}"
        );
    }
    let of_process = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        let behind = stat.rsplit_once(')').unwrap().1.to_string();
        let field = |n: usize| {
            let ticks: u64 = behind.split_whitespace().nth(n).unwrap().parse().unwrap();
            // USER_HZ is 100 on every Linux.
            ticks * 10
        };
        (field(11), field(12))
    };
    let before = of_process();
    let page = Page::read(server.web(), "/");
    let after = of_process();
    assert!((before.0..=after.0).contains(&page.value("user-msec")));
    assert!((before.1..=after.1).contains(&page.value("sys-msec")));
}
