//! The page is read continuously while workers write at full speed: every relation holds on every page.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nameward_stats::{
    Answered, IpVersion, Outcome, Received, Ring, RingCapacities, Stamp, Stats, Transport,
    VARIABLES, VariableKind,
};

use super::client::{Server, rows, settings, value};

fn write_until(stats: &Arc<Stats>, stop: &AtomicBool, worker: u8) {
    let mut recorder = stats.recorder();
    let outcomes = [
        Outcome::Answer,
        Outcome::NoData,
        Outcome::NxDomain,
        Outcome::Unauth,
        Outcome::BackendFailure,
    ];
    let mut n = 0u32;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..=(n % 31) {
            n = n.wrapping_add(1);
            let transport = Transport::ALL[n as usize % Transport::ALL.len()];
            let client = match transport.ip {
                IpVersion::V4 => IpAddr::V4(Ipv4Addr::new(10, worker, (n >> 8) as u8, n as u8)),
                IpVersion::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n as u16)),
            };
            let qname = [&[1u8, b'a' + (n % 26) as u8][..], b"\x07example\0"].concat();
            recorder.received(&Received {
                transport,
                client,
                qname: &qname,
                qtype: 1,
                rd: false,
                dnssec_ok: false,
                cookie: false,
            });
            recorder.answered(&Answered {
                transport,
                client,
                qname: &qname,
                qtype: 1,
                bytes: 77,
                rcode: 0,
                outcome: outcomes[n as usize % 5],
            });
            if n.is_multiple_of(100) {
                recorder.corrupt(client);
            }
        }
        recorder.flush(Stamp::now(), None);
    }
}

fn assert_relations(html: &str) {
    for family in ["queries", "answers", "answers-bytes"] {
        for transport in ["udp", "tcp", "tls", "https", "quic"] {
            let of = |version: &str| value(html, &format!("{transport}{version}-{family}"));
            assert_eq!(of(""), of("4") + of("6"), "{transport}-{family}");
        }
    }
    let header = html[..html.find("</header>").expect("a header")].to_owned();
    let total = value(html, "udp-queries");
    assert!(
        header.contains(&format!("<span class=\"big\">{total}</span>")),
        "Total queries is not udp-queries"
    );
    for ring in Ring::ALL {
        let (capacity, size) = (
            value(html, &format!("ring-{}-capacity", ring.name())),
            value(html, &format!("ring-{}-size", ring.name())),
        );
        assert!(size <= capacity, "{}", ring.name());
        let rows = rows(html, &format!("ring-{}", ring.name()));
        let count = |row: &Vec<String>| row[1].parse::<u64>().expect("a count");
        let (total, listed) = rows.split_last().expect("a total");
        assert_eq!(
            (total[0].as_str(), count(total)),
            ("Total:", size),
            "{}",
            ring.name()
        );
        assert_eq!(
            listed.iter().map(count).sum::<u64>(),
            size,
            "{}",
            ring.name()
        );
        let entries: Vec<u64> = listed
            .iter()
            .filter(|row| row[0] != "Rest:")
            .map(count)
            .collect();
        assert!(
            entries.len() <= 10 && entries.is_sorted_by(|a, b| a >= b),
            "{}",
            ring.name()
        );
    }
}

#[test]
fn every_relation_holds_on_every_page_under_full_load() {
    let mut capacities = RingCapacities::default();
    capacities.set(Ring::RemotesUnauth, 20_000); // unoptimised builds rank slowly
    let stats = Stats::new(capacities);
    let server = Server::over(Arc::clone(&stats), settings());
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..2u8)
        .map(|worker| {
            let (stats, stop) = (Arc::clone(&stats), Arc::clone(&stop));
            thread::spawn(move || write_until(&stats, &stop, worker))
        })
        .collect();
    let token = server.token();
    let mut before: Vec<u64> = vec![0; VARIABLES.len()];
    for n in 0..40u64 {
        match n % 8 {
            2 => assert_eq!(
                server
                    .get(&format!("/?resetring=remotes&token={token}"))
                    .status(),
                302
            ),
            5 => assert_eq!(
                server
                    .get(&format!(
                        "/?resizering=queries&size={}&token={token}",
                        10 + n
                    ))
                    .status(),
                302
            ),
            7 => stats.tick(Stamp(n * 1_000_000_000)),
            _ => {}
        }
        let html = server.get("/").text();
        assert_relations(&html);
        for (variable, before) in VARIABLES.iter().zip(&mut before) {
            let now = value(&html, variable.name);
            assert!(
                variable.kind == VariableKind::Gauge || now >= *before,
                "{} fell",
                variable.name
            );
            *before = now;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().expect("a worker");
    }
}
