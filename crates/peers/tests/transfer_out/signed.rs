//! Zones that are signed while they are sent: shared by their clients, stored for the next one, and cancelled at once
//! when the last client disconnects.

use super::*;
use nameward_testkit::wait_until;

/// RSA-2048: a signature takes most of a millisecond.
const RSA: &[u8] = include_bytes!("../../../serve/tests/rsa2048.private");

/// A zone that is signed while it is served, with a cache that holds next to nothing.
fn signed(name: &str, key: &[u8], text: &str) -> Zone {
    let keys = vec![SigningKey::read(key, 257, KeyUse::EVERYTHING).unwrap()];
    let apex: NameBuf = name.parse().unwrap();
    let cache = Arc::new(SignatureCache::new(4));
    let policy = Arc::new(SigningPolicy::default());
    let signing = Signing::new(apex.as_name(), Arc::new(Keys::new(keys)), policy, cache);
    let mut zone = zone(name, text);
    zone.set_signing(Some(Arc::new(signing)));
    zone
}

/// Signing gets next to no CPU time, so `rsa.` is not signed before the test ends.
fn slow() -> LiveSettings {
    LiveSettings {
        signing_cpu_percent: 1,
        ..LiveSettings::for_tests()
    }
}

fn limits(total: usize) -> TransferLimits {
    TransferLimits {
        total,
        per_client: total,
        sent_octets_max: 64 << 20,
    }
}

fn request(server: &Loopback, name: &str) -> TcpStream {
    let mut stream = server.tcp();
    send(&mut stream, &plain_query(name, Type::AXFR));
    stream
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_client_that_disconnects_releases_its_slot_and_cancels_its_work_at_once() {
    let zones = vec![
        signed("rsa.", RSA, &text(7, 20_000)),
        signed("small.", KEY, &text(7, 3)),
    ];
    let primary = Primary::start_with(slow(), zones, limits(1), false);
    let server = &primary.server;
    let transfers = &primary.transfers;
    let large = request(server, "rsa.");
    wait_until("the zone is being signed", || {
        transfers.copies_in_progress() == 1 && transfers.counts().0 == 1
    });
    // A client that waits for a slot releases its position, too.
    let waiting = request(server, "small.");
    wait_until("another waits", || transfers.counts() == (1, 1));
    drop(waiting);
    wait_until("it has left", || transfers.counts() == (1, 0));
    drop(large);
    wait_until("the place is free", || transfers.counts() == (0, 0));
    assert_eq!(transfers.copies_in_progress(), 0);
    assert!(axfr(server, "small.").is_some());
    let signatures = server.counter("signatures");
    assert!(signatures < 20_000, "{signatures} of 60,000");
}

#[test]
fn many_abandoned_requests_delay_no_other_transfer() {
    let zones = vec![
        signed("rsa.", RSA, &text(7, 20_000)),
        signed("small.", KEY, &text(7, 3)),
        zone("open.", &text(7, 5)),
    ];
    let primary = Primary::start_with(slow(), zones, limits(100), true);
    let (server, transfers) = (&primary.server, &primary.transfers);
    assert!(axfr(server, "small.").is_some() && axfr(server, "there.").is_some());
    let before = threads();
    for round in 0..3 {
        let abandoned: Vec<TcpStream> = (0..240)
            .map(|n| request(server, ["rsa.", "rsa.", "there.", "small."][n % 4]))
            .collect();
        wait_until("places are taken", || transfers.counts().0 > 0);
        drop(abandoned);
        wait_until("all places are free", || transfers.counts() == (0, 0));
        assert_eq!(transfers.copies_in_progress(), 0, "round {round}");
    }
    for name in ["small.", "there.", "open."] {
        assert!(axfr(server, name).is_some(), "{name}");
    }
    // A few threads read databases and the journal; they end when they have been idle for some seconds.
    let (after, limit) = (threads(), before + 8);
    assert!(after <= limit, "{after} threads, {before} before");
}

#[test]
fn clients_share_a_copy_and_the_next_one_gets_the_version_that_was_sent() {
    let zones = vec![signed("open.", KEY, &text(7, 200))];
    let primary = Primary::start_with(LiveSettings::for_tests(), zones, limits(10), false);
    let server = &primary.server;
    let mut streams: Vec<TcpStream> = (0..4).map(|_| request(server, "open.")).collect();
    let read: Vec<Vec<String>> = streams
        .iter_mut()
        .map(|stream| read_whole(stream).expect("the whole zone"))
        .collect();
    assert!(read.windows(2).all(|pair| pair[0] == pair[1]));
    wait_until("the copy is kept", || {
        primary.transfers.copies_in_progress() == 0
    });
    let made = server.counter("signatures");
    assert_eq!(axfr(server, "open.").unwrap(), read[0]);
    assert_eq!(
        server.counter("signatures"),
        made,
        "nothing is signed again"
    );
}

#[test]
fn a_change_of_a_signed_zone_costs_its_own_signatures() {
    let zones = vec![signed("open.", KEY, &text(7, 500))];
    let primary = Primary::start_with(LiveSettings::for_tests(), zones, limits(10), false);
    let server = &primary.server;
    let whole = axfr(server, "open.").unwrap();
    wait_until("the copy is kept", || {
        primary.transfers.copies_in_progress() == 0
    });
    let made = server.counter("signatures");
    server.replace(Arc::new(signed("open.", KEY, &text(8, 501))));
    let mut stream = server.tcp();
    send(&mut stream, &ixfr_request("open.", 7));
    let records = answers(&receive(&mut stream).unwrap());
    let soas = records.iter().filter(|record| is_soa(record)).count();
    assert_eq!(soas, 4, "a difference: {} records", records.len());
    assert!(records.len() < 30 && whole.len() > 2000);
    let again = server.counter("signatures") - made;
    assert!(again < 10, "{again} signatures after {made}");
}

#[test]
fn clients_that_never_read_lose_their_slots_to_one_that_reads() {
    // Larger than the socket buffers.
    let primary = Primary::start(vec![zone("open.", &text(7, 120_000))], limits(3), false);
    let (server, transfers) = (&primary.server, &primary.transfers);
    let _stalled: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = server.slow_tcp();
            send(&mut stream, &plain_query("open.", Type::AXFR));
            stream
        })
        .collect();
    wait_until("all places are taken", || transfers.counts().0 == 3);
    let records = axfr(server, "open.").expect("the whole zone");
    assert_eq!(records.len(), 3 + 240_000);
    assert!(server.counter("transfers_out_failed") >= 1);
}
