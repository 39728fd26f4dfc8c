//! Serves the status page with invented traffic, to view it without a name server.
//!
//! `cargo run -p nameward-control --example demo_page -- 127.0.0.1:8081`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use nameward_control::web::{Settings, Web, tick_every_second};
use nameward_stats::{
    Answered, Counter, Gauge, Outcome, Received, RingCapacities, Stamp, Stats, Timing, Transport,
};

/// Small, repeatable, good enough for a picture.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Small numbers are much more likely.
    fn skewed(&mut self, sides: u64) -> u64 {
        let first = self.roll(sides) + 1;
        self.roll(first)
    }
}

fn wire_name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in text.split('.') {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

#[expect(clippy::too_many_lines, reason = "one list")]
fn batch(stats: &Arc<Stats>, dice: &mut Dice, load: u64) {
    let hosts = [
        "www",
        "mail",
        "ns1",
        "WwW",
        "api",
        "_dmarc",
        "autodiscover",
        "<script>alert(1)</script>",
    ];
    let types = [1, 28, 15, 16, 257, 65, 43, 65280];
    let mut recorder = stats.recorder();
    for _ in 0..load {
        let (outcome, rcode, zone) = match dice.roll(40) {
            0..=3 => (Outcome::NxDomain, 3, "example.org"),
            4..=6 => (Outcome::NoData, 0, "example.org"),
            7..=8 => (Outcome::Unauth, 5, "elsewhere.test"),
            9 if dice.roll(30) == 0 => (Outcome::BackendFailure, 2, "slow.example"),
            _ => (Outcome::Answer, 0, "example.org"),
        };
        let host = hosts[dice.skewed(hosts.len() as u64) as usize];
        let qname = wire_name(&format!("{host}.{zone}"));
        let qtype = types[dice.skewed(types.len() as u64) as usize];
        let transport = [
            Transport::UDP4,
            Transport::UDP6,
            Transport::UDP4,
            Transport::TCP4,
        ][dice.roll(4) as usize];
        let n = dice.skewed(400) as u16;
        let client = match transport {
            Transport::UDP6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)),
            _ => IpAddr::V4(Ipv4Addr::new(192, 0, 2, n as u8)),
        };
        recorder.received(&Received {
            transport,
            client,
            qname: &qname,
            qtype,
            rd: n.is_multiple_of(3),
            dnssec_ok: n.is_multiple_of(2),
            cookie: n.is_multiple_of(5),
        });
        recorder.answered(&Answered {
            transport,
            client,
            qname: &qname,
            qtype,
            bytes: 60 + 3 * n as usize,
            rcode,
            outcome,
        });
        recorder.zone_cache(outcome != Outcome::Unauth);
        recorder.add(
            if dice.roll(10) < 8 {
                Counter::PacketcacheHit
            } else {
                Counter::PacketcacheMiss
            },
            1,
        );
        if dice.roll(50) == 0 {
            recorder.add(Counter::BackendQueries, 1);
            recorder.add(
                if dice.roll(3) < 2 {
                    Counter::QueryCacheHit
                } else {
                    Counter::QueryCacheMiss
                },
                1,
            );
        }
        if dice.roll(500) == 0 {
            recorder.corrupt(client);
        }
    }
    let timing = Timing {
        received: load as u32,
        answered: load as u32,
        receive_ns: Some(load * 900),
        answer_ns: 20_000 + dice.roll(60_000),
        send_ns: Some(load * 1100),
    };
    recorder.flush(Stamp::now(), Some(timing));
}

fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8081".into());
    let stats = Stats::new(RingCapacities::default());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    // Ten minutes of history, so that the charts show something at once.
    let now = Stamp::now().0;
    for second in 0..600u64 {
        let load = 40 + (60.0 * (1.0 + (second as f64 / 70.0).sin())) as u64 + dice.roll(30);
        batch(&stats, &mut dice, load);
        stats.tick(Stamp(now + second * 1_000_000_000));
    }
    stats.set_gauge(Gauge::ZoneCacheSize, 3);
    stats.set_gauge(Gauge::PacketcacheSize, 128);
    stats.log("Failed to retrieve security status update for '0.1.0' on 'auth-0.1.0.security-status.example.': RCODE was Refused");
    let writer = Arc::clone(&stats);
    thread::spawn(move || {
        loop {
            let load = 1 + dice.roll(20);
            batch(&writer, &mut dice, load);
            thread::sleep(Duration::from_millis(100));
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&address).await?;
        println!("http://{}/", listener.local_addr()?);
        let loopback = [127, 0, 0, 1].into();
        let settings = Settings {
            api_key: "demo".into(),
            ..Settings::new(vec![IpNet::from(IpAddr::V4(loopback))], 64 << 20)
        };
        let web = Web::with_status(Arc::clone(&stats), settings, Arc::default)
            .map_err(std::io::Error::other)?;
        tokio::select! {
            () = web.serve(listener, std::future::pending()) => {}
            () = tick_every_second(stats) => {}
        }
        Ok(())
    })
}
