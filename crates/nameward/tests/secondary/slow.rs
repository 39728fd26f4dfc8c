//! Primaries that send slowly, or more than a server has memory for: zones of other primaries are loaded and refreshed.

use super::primary::{
    Primary, Reply, ReplyEnd, SOA, TransferRequest, Version, frame, message, record, records,
};
use super::{serial, status};
use nameward_testkit::{Setup, TestServer};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A primary of any zone that sends a small record every tenth of a second, for as long as the secondary reads.
struct SlowPrimary {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
}

impl SlowPrimary {
    fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&open);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    drip(stream);
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        SlowPrimary { address, open }
    }
}

fn drip(mut stream: TcpStream) {
    let mut length = [0; 2];
    if stream.read_exact(&mut length).is_err() {
        return;
    }
    let mut request = vec![0; u16::from_be_bytes(length).into()];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    let Some(name_end) = request[12..].iter().position(|octet| *octet == 0) else {
        return;
    };
    let question = request[12..12 + name_end + 5].to_vec();
    let reply = |record: Vec<u8>| {
        let mut reply = vec![request[0], request[1], 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
        reply.extend_from_slice(&question);
        reply.extend(record);
        frame(&reply)
    };
    let soa = b"\x01m\0\x01h\0\0\0\0\x01\0\0\x0e\x10\0\0\x0e\x10\0\x01\x51\x80\0\0\0\x3c";
    let mut next = reply(record(b"\xc0\x0c", SOA, soa));
    for host in 0u32.. {
        if stream.write_all(&next).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
        let owner = format!("{host:06}");
        let owner = [b"\x06", owner.as_bytes(), b"\xc0\x0c"].concat();
        next = reply(record(&owner, 1, &[192, 0, 2, 1]));
    }
}

fn secondary(name: &str, address: SocketAddr) -> String {
    format!(
        "[[zone]]\nname = \"{name}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{address}\" }}]\n"
    )
}

fn start(server: &str, zones: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n{server}\n{zones}"
        ))
        .start()
}

fn retrieve(server: &TestServer) {
    let output = server.command(&["zone", "retrieve", "example"]);
    assert!(output.status.success());
}

#[test]
fn two_slow_primaries_do_not_stop_the_zones_of_others() {
    let slow = [
        SlowPrimary::start("127.0.0.2:0"),
        SlowPrimary::start("127.0.0.3:0"),
    ];
    let primary = Primary::start(Version {
        serial: 1,
        times: [3600, 3600, 86_400, 60],
    });
    let mut zones = String::new();
    for number in 0..24 {
        let address = slow[number % 2].address;
        let _ = write!(zones, "{}", secondary(&format!("z{number}.test"), address));
    }
    zones += &secondary("example", primary.address);
    // Nothing cuts the slow ones off: they hold their places for the whole test.
    let limits = "transfers_in_max = 4\ntransfers_in_per_primary = 4\ntransfer_rate_min = 0";
    let server = start(limits, &zones);
    let held = || {
        slow.iter()
            .map(|one| one.open.load(Ordering::SeqCst))
            .sum::<usize>()
    };
    server.wait_until("the slow primaries have what they get", || held() == 3);
    server.wait_until("the zone of another primary", || {
        serial(server.address(), "example") == Some(1)
    });
    primary.set_serial(2);
    retrieve(&server);
    server.wait_until("its next version", || {
        serial(server.address(), "example") == Some(2)
    });
    assert_eq!(held(), 3);
    let waiting = server.command(&["zone", "status"]);
    let waiting = String::from_utf8_lossy(&waiting.stdout).into_owned();
    assert!(waiting.contains("waiting for a transfer slot"), "{waiting}");
}

#[test]
fn a_primary_that_sends_too_slowly_is_disconnected() {
    let slow = SlowPrimary::start("127.0.0.2:0");
    let zones = secondary("z0.test", slow.address);
    let server = start("transfer_idle_timeout_ms = 1000", &zones);
    server.wait_until("the cut", || {
        status(&server, "z0.test").contains("the transfer is too slow")
    });
    server.wait_until("the end of the connection", || {
        slow.open.load(Ordering::SeqCst) == 0
    });
}

/// The most memory that a server had so far, in KiB.
fn peak(server: &TestServer) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let mut words = line.unwrap().split_whitespace();
    words.nth(1).unwrap().parse().unwrap()
}

/// Names without end, in messages of 64 KiB.
fn endless(request: &TransferRequest) -> Reply {
    let list = &records(request.version)[..3];
    let mut octets = frame(&message(request.id, request.qtype, list));
    let mut host = 0u32;
    // More than the limit in memory, whatever of it is counted.
    while octets.len() < 12 << 20 {
        let hosts = (0..2500).map(|_| {
            host += 1;
            let owner = format!("{host:08}");
            let owner = [b"\x08", owner.as_bytes(), b"\xc0\x0c"].concat();
            record(&owner, 1, &[192, 0, 2, 1])
        });
        octets.extend(frame(&message(
            request.id,
            request.qtype,
            &hosts.collect::<Vec<_>>(),
        )));
    }
    Reply {
        octets,
        end: ReplyEnd::Close,
    }
}

#[test]
fn the_size_limit_of_a_zone_bounds_the_memory_of_its_transfer() {
    let primary = Primary::start(Version {
        serial: 1,
        times: [3600, 3600, 86_400, 60],
    });
    let mut zone = secondary("example", primary.address);
    zone += "transfer_size_max_mb = 32\n";
    let server = start("", &zone);
    server.wait_until("the first version", || {
        serial(server.address(), "example") == Some(1)
    });
    let before = peak(&server);
    primary.set_script(endless);
    primary.set_serial(2);
    retrieve(&server);
    server.wait_until("the refusal", || {
        status(&server, "example").contains("exceeds 32 MiB")
    });
    let grown = peak(&server) - before;
    assert!(grown < 96 << 10, "{grown} KiB");
}

#[test]
fn the_memory_of_all_transfers_is_bounded() {
    let primary = Primary::start(Version {
        serial: 1,
        times: [3600, 3600, 86_400, 60],
    });
    let server = start(
        "transfers_in_memory_mb = 16",
        &secondary("example", primary.address),
    );
    server.wait_until("the first version", || {
        serial(server.address(), "example") == Some(1)
    });
    let before = peak(&server);
    primary.set_script(endless);
    primary.set_serial(2);
    retrieve(&server);
    // One primary has half of it.
    server.wait_until("the refusal", || {
        status(&server, "example").contains("raise transfers_in_memory_mb")
    });
    // The rest of the process grows in the meantime, too, and memory of an attempt is not given back before the next.
    // Without the bound it would grow to transfer_size_max_mb, 4 GiB.
    let grown = peak(&server) - before;
    assert!(grown < 64 << 10, "{grown} KiB");
    assert_eq!(serial(server.address(), "example"), Some(1));
}
