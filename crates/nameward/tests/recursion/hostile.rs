//! Forged, wrong and malformed replies, and queries that loop.

use std::{collections::BTreeSet, net::UdpSocket, thread, time::Duration};

use nameward_testkit::Setup;
use nameward_testkit::peers::free_address;
use nameward_testkit::wire::Transport;

use super::hand_off::{ask, recursive, server, settled};
use super::scripted::{Replies, ScriptedResolver, address, last_octet};

#[test]
fn only_a_reply_with_the_sent_id_and_question_is_accepted() {
    let resolver = ScriptedResolver::start(|query, transport| {
        if transport == Transport::Tcp {
            return Replies::new();
        }
        let good = address(query, 1);
        let bent = |at: usize, by: u8| {
            let mut forged = address(query, 66);
            forged[at] ^= by;
            forged
        };
        let question_end = good.len() - 16;
        vec![
            bent(0, 0x40),                // id
            bent(1, 0x01),                // id
            bent(2, 0x80),                // a question, not a reply
            bent(13, 0x01),               // name
            bent(13, 0x20),               // letter case
            bent(question_end - 3, 0x01), // type
            bent(question_end - 1, 0x02), // class
            bent(5, 0x03),                // two questions
            b"not a message".to_vec(),
            Vec::new(),
            good,
        ]
    });
    let server = server(&[resolver.address], "");
    for n in 0..5 {
        let answer = ask(&server, Transport::Udp, &format!("forged{n}.test"));
        assert_eq!(last_octet(&answer), Some(1));
    }
    assert_eq!(settled(&server, 5).value("recursing-answers"), 5);
}

#[test]
fn repeated_forgeries_make_the_query_use_tcp() {
    let resolver = ScriptedResolver::start(|query, transport| match transport {
        Transport::Udp => {
            let forge = |n: u8| {
                let mut forged = address(query, 66);
                forged[1] ^= n;
                forged
            };
            (1..=30).map(forge).collect()
        }
        Transport::Tcp => vec![address(query, 1)],
    });
    let server = server(&[resolver.address], "");
    let answer = ask(&server, Transport::Udp, "guessed.test");
    assert_eq!(last_octet(&answer), Some(1));
}

#[test]
fn a_reply_from_another_port_is_not_accepted() {
    // The kernel drops it: the socket of the query is connected to the resolver.
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    let server = server(&[resolver.address], "timeout_ms = 3000");
    let forger = thread::spawn({
        let query = recursive(4, "other-port.test", "A");
        let server = server.address();
        move || {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(&query, server).unwrap();
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut buffer = [0; 1500];
            let len = client.recv(&mut buffer).expect("a reply");
            buffer[..len].to_vec()
        }
    });
    while resolver.received().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    // All that the resolver itself knows, but sent from elsewhere.
    let (query, victim) = (resolver.received().remove(0), resolver.sources()[0]);
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    elsewhere.send_to(&address(&query, 66), victim).unwrap();
    let answer = forger.join().unwrap();
    assert_eq!(answer[3] & 0x0f, 2, "SERVFAIL, and not the forged address");
}

#[test]
fn replies_that_cannot_be_read_are_a_servfail() {
    let resolver = ScriptedResolver::start(|query, _| {
        let mut garbage = address(query, 1);
        garbage.truncate(garbage.len() - 3);
        vec![garbage]
    });
    let server = server(&[resolver.address], "");
    let answer = ask(&server, Transport::Udp, "garbage.test");
    assert_eq!((answer.rcode(), answer.answer.len()), (2, 0));
    assert_eq!(settled(&server, 1).value("recursion-unanswered"), 1);
}

#[test]
fn every_query_has_its_own_port_id_and_letter_case() {
    let resolver = ScriptedResolver::start(|query, _| vec![address(query, 1)]);
    let server = server(&[resolver.address], "");
    for n in 0..40 {
        ask(
            &server,
            Transport::Udp,
            &format!("abcdefghijklmnopqrstuvwxyz{n}.test"),
        );
    }
    let ports: BTreeSet<u16> = resolver.sources().iter().map(|s| s.port()).collect();
    let received = resolver.received();
    let ids: BTreeSet<&[u8]> = received.iter().map(|query| &query[..2]).collect();
    let letters: BTreeSet<&[u8]> = received.iter().map(|query| &query[13..39]).collect();
    // A few may be equal by chance.
    for (number, what) in [
        (ports.len(), "ports"),
        (ids.len(), "ids"),
        (letters.len(), "letters"),
    ] {
        assert!(number >= 35, "{number} different {what} of 40");
    }
}

#[test]
fn a_recursor_that_sends_queries_back_to_us_ends_in_one_servfail() {
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    let server = server(&[resolver.address], "timeout_ms = 3000");
    let ours = server.address();
    resolver.change(move |query, _| {
        let forward = UdpSocket::bind("127.0.0.1:0").unwrap();
        forward
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        forward.send_to(query, ours).unwrap();
        let mut buffer = [0; 1500];
        let len = forward.recv(&mut buffer).expect("a reply");
        vec![buffer[..len].to_vec()]
    });
    let answer = ask(&server, Transport::Udp, "circle.test");
    assert_eq!(answer.rcode(), 2);
    assert!(
        resolver.questions() <= 2,
        "asked {} times",
        resolver.questions()
    );
}

#[test]
fn an_own_address_as_recursor_is_refused_at_start() {
    let own = free_address().unwrap().to_string();
    let config = format!("[recursor]\naddress = \"{own}\"\n");
    let started = Setup::new().listen(&[&own]).config(&config).try_start();
    let failure = started.err().expect("it does not start").to_string();
    assert!(failure.contains("queries would loop"), "{failure}");
}
