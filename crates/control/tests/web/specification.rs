//! Statements of the specification that no other test covers.

use nameward_stats::{Counter, Latency, Stamp, VARIABLES};

use super::client::{Server, plain, rows, value};

/// The names of section 2.4 in order, without those of rings.
const SPECIFIED: [&str; 81] = [
    "backend-queries",
    "corrupt-packets",
    "deferred-cache-inserts",
    "deferred-cache-lookup",
    "deferred-packetcache-inserts",
    "deferred-packetcache-lookup",
    "dnsupdate-answers",
    "dnsupdate-changes",
    "dnsupdate-queries",
    "dnsupdate-refused",
    "incoming-notifications",
    "noerror-packets",
    "nxdomain-packets",
    "overload-drops",
    "packetcache-hit",
    "packetcache-miss",
    "packetcache-size",
    "query-cache-hit",
    "query-cache-miss",
    "query-cache-size",
    "rd-queries",
    "recursing-answers",
    "recursing-questions",
    "recursion-unanswered",
    "security-status",
    "servfail-packets",
    "signatures",
    "tcp-answers",
    "tcp-answers-bytes",
    "tcp-cookie-queries",
    "tcp-queries",
    "tcp4-answers",
    "tcp4-answers-bytes",
    "tcp4-queries",
    "tcp6-answers",
    "tcp6-answers-bytes",
    "tcp6-queries",
    "timedout-packets",
    "udp-answers",
    "udp-answers-bytes",
    "udp-cookie-queries",
    "udp-do-queries",
    "udp-queries",
    "udp4-answers",
    "udp4-answers-bytes",
    "udp4-queries",
    "udp6-answers",
    "udp6-answers-bytes",
    "udp6-queries",
    "unauth-packets",
    "zone-cache-hit",
    "zone-cache-miss",
    "zone-cache-size",
    "backend-latency",
    "cache-latency",
    "cpu-iowait",
    "cpu-steal",
    "fd-usage",
    "key-cache-size",
    "latency",
    "meta-cache-size",
    "open-tcp-connections",
    "qsize-q",
    "real-memory-usage",
    "receive-latency",
    "send-latency",
    "signature-cache-size",
    "sys-msec",
    "user-msec",
    "uptime",
    "xfr-queue",
    "udp-in-csum-errors",
    "udp-in-errors",
    "udp-noport-errors",
    "udp-recvbuf-errors",
    "udp-sndbuf-errors",
    "udp6-in-csum-errors",
    "udp6-in-errors",
    "udp6-noport-errors",
    "udp6-recvbuf-errors",
    "udp6-sndbuf-errors",
];
/// The last name of the alphabetical part, which includes the rows of rings.
const LAST_OF_FIRST_PART: &str = "zone-cache-size";

#[test]
fn every_specified_variable_is_present_in_order() {
    let server = Server::start();
    let rows = rows(&server.get("/").text(), "variables");
    let shown: Vec<&str> = rows.iter().map(|row| &row[0][..]).collect();
    let without_rings = shown.iter().filter(|name| !name.starts_with("ring-"));
    let first: Vec<&str> = without_rings.take(SPECIFIED.len()).copied().collect();
    assert_eq!(first, SPECIFIED, "ours stand behind them");
    let end = shown.iter().position(|name| *name == LAST_OF_FIRST_PART);
    let first_part = &shown[..=end.expect("it is there")];
    assert!(first_part.is_sorted(), "{first_part:?}");
    let of_rings = first_part.iter().filter(|name| name.starts_with("ring-"));
    assert_eq!(
        of_rings.count(),
        2 * 9,
        "a capacity and a size of each ring"
    );
    assert!(rows.iter().all(|row| !row[2].is_empty()), "descriptions");
    assert_eq!(rows.len(), VARIABLES.len());
}

#[test]
fn hit_rates_and_backend_load_of_the_header_are_those_of_their_counters() {
    let server = Server::start();
    server.stats.tick(Stamp(1_000_000_000));
    let mut recorder = server.stats.recorder();
    for (counter, number) in [
        (Counter::PacketcacheHit, 900),
        (Counter::PacketcacheMiss, 300),
        (Counter::QueryCacheHit, 100),
        (Counter::QueryCacheMiss, 700),
        (Counter::BackendQueries, 600),
    ] {
        recorder.add(counter, number);
    }
    recorder.flush(Stamp(1), None);
    server.stats.tick(Stamp(2_000_000_000));
    let html = server.get("/").text();
    let text = plain(&html);
    for item in [
        "Cache hitrate, 1, 5, 10 minute averages: 75.0%, 75.0%, 75.0%",
        "Backend query cache hitrate, 1, 5, 10 minute averages: 12.5%, 12.5%, 12.5%",
        "Backend query load, 1, 5, 10 minute averages: 10, 2, 1. Max queries/second: 600",
    ] {
        assert!(text.contains(item), "{item}:\n{text}");
    }
    assert_eq!(value(&html, "backend-queries"), 600);
    assert_eq!(value(&html, "packetcache-miss"), 300);
}

#[test]
fn each_latency_is_shown_in_microseconds_under_its_name() {
    let server = Server::start();
    let mut recorder = server.stats.recorder();
    for (latency, nanoseconds) in [
        (Latency::Backend, 11_000),
        (Latency::Cache, 22_000),
        (Latency::Answer, 33_000),
        (Latency::Receive, 44_000),
        (Latency::Send, 55_000),
    ] {
        recorder.add_latency(latency, 10, 10 * nanoseconds);
    }
    recorder.flush(Stamp(1), None);
    let html = server.get("/").text();
    for (name, microseconds) in [
        ("backend-latency", 11),
        ("cache-latency", 22),
        ("latency", 33),
        ("receive-latency", 44),
        ("send-latency", 55),
    ] {
        assert_eq!(value(&html, name), microseconds, "{name}");
    }
}
