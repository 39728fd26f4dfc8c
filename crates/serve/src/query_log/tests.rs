//! Tests of the query log: what is logged, and what is dropped.

use super::*;
use nameward_stats::RingCapacities;
use std::io::{self, Write};
use std::sync::mpsc::Sender;

/// Builds a response to a query for a name and type A.
fn reply(name: &str) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut message = b"\x12\x34\x84\0\0\x01\0\0\0\0\0\0".to_vec();
    message.extend_from_slice(name.as_name().as_wire());
    message.extend_from_slice(&[0, 1, 0, 1]);
    message
}

fn exchange<'e>(client: &str, reply: &'e [u8]) -> Exchange<'e> {
    Exchange {
        protocol: Protocol::Udp,
        client: SocketAddr::new(client.parse().unwrap(), 5300),
        local: None,
        view: None,
        query: None,
        reply: Some(reply),
        received: SystemTime::UNIX_EPOCH,
        replied: SystemTime::UNIX_EPOCH,
    }
}

/// A stream whose writer waits for the reader after each block.
struct Handed(Sender<(String, SyncSender<()>)>);

impl Write for Handed {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let (done, wait) = mpsc::sync_channel(1);
        let text = String::from_utf8_lossy(octets).into_owned();
        self.0.send((text, done)).map_err(io::Error::other)?;
        wait.recv().map_err(io::Error::other)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Logged {
    log: QueryLog,
    tap: Arc<ExchangeTap>,
    stats: Arc<Stats>,
    blocks: Receiver<(String, SyncSender<()>)>,
}

impl Logged {
    fn new(capacity: usize) -> Self {
        let (sender, blocks) = mpsc::channel();
        let (tap, stats) = (Arc::default(), Stats::new(RingCapacities::default()));
        let output = QueryLogOutput::stream(Handed(sender), QueryLogFormat::Journal);
        let log = QueryLog::start(&tap, &stats, output, capacity).unwrap();
        Logged {
            log,
            tap,
            stats,
            blocks,
        }
    }

    /// Reads this many lines.
    fn read(&self, lines: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < lines {
            let (text, done) = self.blocks.recv_timeout(Duration::from_secs(60)).unwrap();
            all.extend(text.lines().map(str::to_owned));
            done.send(()).unwrap();
        }
        all
    }
}

fn filter(zones: &[&str], clients: &[&str], one_in: u32) -> QueryFilter {
    QueryFilter {
        zones: zones.iter().map(|zone| zone.parse().unwrap()).collect(),
        clients: clients.iter().map(|net| net.parse().unwrap()).collect(),
        one_in,
    }
}

#[test]
fn only_matching_responses_are_logged_and_none_after_it_is_turned_off() {
    let logged = Logged::new(100);
    assert!(!logged.tap.is_on());
    logged
        .log
        .turn_on(filter(&["A.test."], &["192.0.2.0/24"], 1));
    assert!(logged.tap.is_on() && logged.log.state().is_on);
    for (client, name) in [
        ("192.0.2.1", "www.a.test."),
        ("192.0.2.1", "www.b.test."),
        ("198.51.100.1", "www.a.test."),
        ("192.0.2.2", "a.test."),
        ("192.0.2.2", "aa.test."),
    ] {
        logged.tap.pass(&exchange(client, &reply(name)));
    }
    let lines = logged.read(2);
    assert!(
        lines[0].starts_with("<6>query www.a.test. A from 192.0.2.1 port 5300 "),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("<6>query a.test. A from 192.0.2.2 "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);
    logged.log.turn_off();
    assert!(!logged.tap.is_on() && !logged.log.state().is_on);
    // A sample of all responses.
    logged.log.turn_on(filter(&[], &[], 10));
    for _ in 0..100 {
        logged.tap.pass(&exchange("192.0.2.1", &reply("x.test.")));
    }
    assert_eq!(logged.read(10).len(), 10);
    assert_eq!(logged.log.state().dropped, 0);
}

#[test]
fn a_blocked_writer_drops_lines_which_are_counted_and_delays_no_worker() {
    let logged = Logged::new(4);
    logged.log.turn_on(filter(&[], &[], 1));
    let (text, octets) = ("192.0.2.1", reply("x.test."));
    logged.tap.pass(&exchange(text, &octets));
    // The writer holds this line and waits for us.
    let (_, done) = logged.blocks.recv_timeout(Duration::from_secs(60)).unwrap();
    for _ in 0..10 {
        logged.tap.pass(&exchange(text, &octets));
    }
    assert_eq!(logged.log.state().dropped, 6);
    done.send(()).unwrap();
    assert_eq!(logged.read(4).len(), 4);
    // Counted once the writer has processed it.
    let logged = || {
        let counted = logged.stats.snapshot().counter(Counter::QueryLogDrops);
        (counted, logged.log.state().written)
    };
    let start = Instant::now();
    while logged() != (6, 5) {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", logged());
        thread::sleep(Duration::from_millis(5));
    }
}
