//! Queries forwarded to a recursor: for which clients, over which transport, and without a response.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicU8, Ordering},
    thread,
    time::{Duration, Instant},
};

use nameward_testkit::wire::{Client, Message, Transport, question};
use nameward_testkit::{Setup, TestServer};

use super::scripted::{Replies, ScriptedResolver, address, last_octet, reply};
use crate::status::page::Page;

pub const ZONE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
const BOTH: [Transport; 2] = [Transport::Udp, Transport::Tcp];
/// RA of RFC 1035 section 4.1.1.
const RA: u16 = 0x80;

/// A server with one zone and these resolvers, with long timeouts for a busy machine unless a test sets others.
pub fn server(resolvers: &[SocketAddr], settings: &str) -> TestServer {
    let resolvers: Vec<String> = resolvers.iter().map(SocketAddr::to_string).collect();
    let timeout = if settings.contains("timeout_ms") {
        ""
    } else {
        "timeout_ms = 20000\n"
    };
    let config = format!("[recursor]\naddress = {resolvers:?}\n{timeout}{settings}\n");
    Setup::new().zone("example", ZONE).config(&config).start()
}

/// A query with RD.
pub fn recursive(id: u16, name: &str, rtype: &str) -> Vec<u8> {
    let mut message = question(id, name, rtype);
    message[2] |= 1;
    message
}

pub fn ask(server: &TestServer, transport: Transport, name: &str) -> Message {
    let client = Client::new("127.0.0.1", server.address());
    let answer = client.exchange(transport, &recursive(9, name, "A"));
    answer.expect("it is answered").expect("a message")
}

/// The page once forwarding has settled: each query was answered or given up.
pub fn settled(server: &TestServer, questions: u64) -> Page {
    for _ in 0..1200 {
        let page = Page::read(server.web(), "/");
        let ended = page.value("recursing-answers") + page.value("recursion-unanswered");
        if page.value("recursing-questions") >= questions && ended >= questions {
            return page;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{questions} questions never ended:\n{}", server.log());
}

#[test]
fn a_client_gets_the_answer_of_the_recursor_over_every_transport() {
    let resolver = ScriptedResolver::start(|query, _| vec![address(query, 7)]);
    let server = server(&[resolver.address], "");
    for (source, address) in [
        ("127.0.0.1", server.address()),
        ("::1", server.address_v6()),
    ] {
        for transport in BOTH {
            let client = Client::new(source, address);
            let query = recursive(77, "wWw.Elsewhere.test", "A");
            let answer = client.exchange(transport, &query).unwrap().unwrap();
            assert_eq!((answer.id, answer.rcode()), (77, 0));
            assert_eq!(last_octet(&answer), Some(7));
            assert_eq!(answer.question[0].name.to_string(), "wWw.Elsewhere.test.");
            assert_eq!(answer.answer[0].owner.to_string(), "wWw.Elsewhere.test.");
            assert!(!answer.authoritative() && answer.flags & RA != 0);
            assert!(answer.opt.is_some(), "the client sent one");
        }
    }
    let page = settled(&server, 4);
    for (name, value) in [
        ("rd-queries", 4),
        ("recursing-questions", 4),
        ("recursing-answers", 4),
        ("recursion-unanswered", 0),
        ("noerror-packets", 4),
        ("zone-cache-miss", 4),
        ("unauth-packets", 0),
        ("udp4-answers", 1),
        ("tcp6-answers", 1),
    ] {
        assert_eq!(page.value(name), value, "{name}");
    }
}

#[test]
fn a_recursor_is_queried_over_ipv6_and_ipv4() {
    let resolver = ScriptedResolver::start_at("[::1]:0", |query, transport| match transport {
        // Over TCP as well.
        Transport::Udp if query[13..].starts_with(b"cut") => {
            let mut cut = reply(query, 0, &[]);
            cut[2] |= 2;
            vec![cut]
        }
        _ => vec![address(query, 6)],
    });
    let server = server(&[resolver.address], "randomize_case = false");
    for transport in BOTH {
        for name in ["plain.test", "cut.test"] {
            let answer = ask(&server, transport, name);
            assert_eq!(last_octet(&answer), Some(6), "{name}: {answer:?}");
        }
    }
    assert!(resolver.sources().iter().all(SocketAddr::is_ipv6));
}

#[test]
fn recursion_is_for_allowed_clients_that_request_it() {
    let resolver = ScriptedResolver::start(|query, _| vec![address(query, 7)]);
    let server = server(&[resolver.address], "allow_from = [\"127.0.0.1\"]");
    let may = Client::new("127.0.0.1", server.address());
    let may_not = Client::new("127.0.0.2", server.address());
    for transport in BOTH {
        let ask = |client: &Client, query: Vec<u8>| {
            let answer = client.exchange(transport, &query).unwrap().unwrap();
            (answer.rcode(), answer.flags & RA != 0)
        };
        // Our own zones are answered here, with RA if there is recursion.
        assert_eq!(ask(&may, recursive(1, "www.example", "A")), (0, true));
        assert_eq!(ask(&may, question(1, "www.example", "A")), (0, true));
        assert_eq!(ask(&may, recursive(1, "no.example", "A")), (3, true));
        assert_eq!(ask(&may_not, recursive(1, "www.example", "A")), (0, false));
        assert_eq!(
            resolver.questions(),
            usize::from(transport == Transport::Tcp)
        );
        assert_eq!(ask(&may, question(1, "a.test", "A")), (5, true), "no RD");
        assert_eq!(ask(&may_not, recursive(1, "a.test", "A")), (5, false));
        assert_eq!(ask(&may, recursive(1, "a.test", "A")), (0, true));
    }
    let page = settled(&server, 2);
    assert_eq!(page.value("unauth-packets"), 4);
}

#[test]
fn the_next_recursor_answers_for_one_that_does_not() {
    let silent = ScriptedResolver::start(|_, _| Replies::new());
    let failing = ScriptedResolver::start(|query, _| vec![reply(query, 2, &[])]);
    let good = ScriptedResolver::start(|query, _| vec![address(query, 9)]);
    // A port without a socket: the kernel reports it.
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let all = [closed, silent.address, failing.address, good.address];
    let server = server(&all, "timeout_ms = 4000");
    for n in 0..8 {
        let answer = ask(&server, Transport::Udp, &format!("n{n}.test"));
        assert_eq!(last_octet(&answer), Some(9), "{answer:?}");
        if n >= 5 {
            continue;
        }
        assert!(failing.questions() > n, "it was asked before the next one");
    }
    assert!(server.wait_for_log(&format!(
        "recursor {closed}: not responding (5 queries in a row timed out)"
    )));
    assert!(server.wait_for_log(&format!("recursor {}: not responding", silent.address)));
    // Those that are down are no longer waited for.
    let asked = silent.questions();
    let began = Instant::now();
    assert_eq!(
        last_octet(&ask(&server, Transport::Udp, "last.test")),
        Some(9)
    );
    assert!(silent.questions() <= asked + 1 && began.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_code_of_the_only_recursor_is_handed_on() {
    static CODE: AtomicU8 = AtomicU8::new(0);
    let resolver =
        ScriptedResolver::start(|query, _| vec![reply(query, CODE.load(Ordering::Relaxed), &[])]);
    let server = server(&[resolver.address], "");
    for code in [2, 3, 5] {
        CODE.store(code, Ordering::Relaxed);
        let asked = resolver.questions();
        let answer = ask(&server, Transport::Udp, &format!("code{code}.test"));
        assert_eq!(answer.rcode(), u16::from(code));
        assert_eq!(resolver.questions(), asked + 1, "it said all it has to say");
    }
    let page = settled(&server, 3);
    assert_eq!(page.value("recursing-answers"), 3);
}

#[test]
fn a_dead_recursor_costs_only_its_client_a_servfail() {
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    let server = server(&[resolver.address], "timeout_ms = 3000");
    let client = Client::new("127.0.0.1", server.address());
    let waiting: Vec<_> = (0..100)
        .map(|n| {
            client
                .send(&recursive(n, &format!("n{n}.test"), "A"))
                .unwrap()
        })
        .collect();
    for transport in BOTH {
        for _ in 0..50 {
            let answer = client.ask(transport, "www.example", "A");
            assert_eq!(last_octet(&answer), Some(2));
        }
    }
    for (n, socket) in waiting.iter().enumerate() {
        let mut buffer = [0; 1500];
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let len = socket.recv(&mut buffer).expect("a reply in time");
        let answer = Message::read(&buffer[..len]).unwrap();
        assert_eq!((answer.id, answer.rcode()), (n as u16, 2));
        let error = answer.opt.as_ref().and_then(|opt| opt.option(15));
        assert_eq!(error, Some(&[0, 23][..]), "RFC 8914: Network Error");
    }
    let page = settled(&server, 100);
    assert_eq!(page.value("recursing-questions"), 100);
    assert_eq!(page.value("recursion-unanswered"), 100);
    assert_eq!(page.value("recursing-answers"), 0);
    assert_eq!(page.value("servfail-packets"), 100);
}

#[test]
fn equal_queries_share_one_and_each_client_gets_its_own_reply() {
    let resolver = ScriptedResolver::start(|query, _| {
        thread::sleep(Duration::from_secs(2));
        vec![address(query, 5)]
    });
    let server = server(&[resolver.address], "timeout_ms = 60000");
    let client = Client::new("127.0.0.1", server.address());
    let names = ["popular.test", "POPULAR.test", "Popular.Test"];
    let waiting: Vec<_> = (0..60)
        .map(|n| {
            client
                .send(&recursive(n, names[usize::from(n) % 3], "A"))
                .unwrap()
        })
        .collect();
    for (n, socket) in waiting.iter().enumerate() {
        let mut buffer = [0; 1500];
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let len = socket.recv(&mut buffer).expect("a reply");
        let answer = Message::read(&buffer[..len]).unwrap();
        assert_eq!((answer.id, last_octet(&answer)), (n as u16, Some(5)));
        assert_eq!(
            answer.question[0].name.to_string(),
            format!("{}.", names[n % 3])
        );
    }
    assert_eq!(resolver.questions(), 1);
    assert_eq!(settled(&server, 60).value("recursing-answers"), 60);
}

/// A client that queries again at once must not be mistaken for one that waits for the previous answer.
#[test]
fn a_query_repeated_right_after_its_answer_is_answered() {
    let resolver = ScriptedResolver::start(|query, _| vec![address(query, 7)]);
    let server = server(&[resolver.address], "");
    let clients = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];
    thread::scope(|scope| {
        for address in clients {
            let client = Client::new(address, server.address());
            scope.spawn(move || {
                for round in 0..300 {
                    let question = recursive(round, "again.test", "A");
                    let answer = client.exchange(Transport::Udp, &question);
                    let answer = answer.unwrap().expect("a message");
                    assert_eq!(last_octet(&answer), Some(7), "round {round}");
                }
            });
        }
    });
}

#[test]
fn queries_beyond_the_limit_get_servfail_at_once() {
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    let server = server(
        &[resolver.address],
        "in_flight_max = 5\nin_flight_per_client = 5\ntimeout_ms = 60000",
    );
    let client = Client::new("127.0.0.1", server.address());
    let sockets: Vec<_> = (0..50)
        .map(|n| {
            client
                .send(&recursive(n, &format!("n{n}.test"), "A"))
                .unwrap()
        })
        .collect();
    let answered = |page: &Page| page.value("servfail-packets");
    let page = (0..600).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        let page = Page::read(server.web(), "/");
        (answered(&page) >= 45).then_some(page)
    });
    let page = page.expect("SERVFAIL long before the time is over");
    assert_eq!(answered(&page), 45);
    assert_eq!(page.value("recursing-questions"), 5);
    drop(sockets);
}

#[test]
fn one_client_cannot_use_up_the_slots_of_others() {
    // Names that start with "good" are answered, all others get no reply.
    let resolver = ScriptedResolver::start(|query, _| {
        if query[13..].starts_with(b"good") {
            vec![address(query, 7)]
        } else {
            Replies::new()
        }
    });
    // A quarter of all slots is for one client by default.
    let settings = "in_flight_max = 24\nrandomize_case = false\ntimeout_ms = 60000";
    let server = server(&[resolver.address], settings);
    let greedy = Client::new("127.0.0.1", server.address());
    let sockets: Vec<_> = (0..50)
        .map(|n| {
            // Equal queries count as well.
            let name = format!("n{}.test", n / 2);
            greedy.send(&recursive(n, &name, "A")).unwrap()
        })
        .collect();
    let refused = (0..1200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        Page::read(server.web(), "/").value("servfail-packets") == 44
    });
    assert!(refused, "{}", server.log());
    let good = recursive(1, "good.test", "A");
    let answer = greedy.exchange(Transport::Udp, &good).unwrap().unwrap();
    assert_eq!(answer.rcode(), 2, "its share is used up");
    for transport in BOTH {
        let other = Client::new("127.0.0.2", server.address());
        let answer = other.exchange(transport, &good).unwrap().unwrap();
        assert_eq!(last_octet(&answer), Some(7));
    }
    assert_eq!(
        Page::read(server.web(), "/").value("recursing-questions"),
        8
    );
    drop(sockets);
}

#[test]
fn a_cut_answer_is_fetched_over_tcp_and_fits_each_client() {
    let resolver = ScriptedResolver::start(|query, transport| {
        let records: Vec<_> = (0..100).map(|n| (1, vec![192, 0, 2, n])).collect();
        match transport {
            Transport::Udp => {
                let mut cut = reply(query, 0, &[]);
                cut[2] |= 2;
                vec![cut]
            }
            Transport::Tcp => vec![reply(query, 0, &records)],
        }
    });
    let server = server(&[resolver.address], "");
    let over_tcp = ask(&server, Transport::Tcp, "large.test");
    assert_eq!((over_tcp.answer.len(), over_tcp.truncated()), (100, false));
    let over_udp = ask(&server, Transport::Udp, "large.test");
    assert_eq!((over_udp.answer.len(), over_udp.truncated()), (0, true));
    assert_eq!(
        resolver.questions(),
        4,
        "each was asked over UDP and then TCP"
    );
}
