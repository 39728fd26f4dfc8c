//! Every installed brand starts, answers from its zone, and is gone when dropped.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nameward_testkit::peers::{Peer, PeerError, PeerKind, PeerOptions};

const ZONE: &str = "$TTL 300
@ IN SOA ns hostmaster 1 3600 600 86400 300
@ IN NS ns
ns IN A 192.0.2.1
www IN A 192.0.2.80
";

/// `www.example.org A`, id 7.
const QUERY: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01";

fn answers_from_its_zone_and_ends_when_dropped(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("example.org.zone");
    std::fs::write(&file, ZONE).unwrap();
    let peer = Peer::start(kind, &[("example.org", &file)], &PeerOptions::default()).unwrap();
    let (pid, home) = (peer.pid(), peer.directory().to_path_buf());

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(peer.addr()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket.send(QUERY).unwrap();
    let mut answer = [0; 1232];
    let length = socket.recv(&mut answer).unwrap();
    assert_eq!(answer[..2], QUERY[..2]);
    assert!(
        answer[..length]
            .windows(4)
            .any(|octets| octets == [192, 0, 2, 80])
    );

    drop(peer);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!home.exists());
}

#[test]
fn nsd_answers_from_its_zone_and_ends_when_dropped() {
    answers_from_its_zone_and_ends_when_dropped(PeerKind::Nsd);
}

#[test]
fn knot_answers_from_its_zone_and_ends_when_dropped() {
    answers_from_its_zone_and_ends_when_dropped(PeerKind::Knot);
}

#[test]
fn bind_answers_from_its_zone_and_ends_when_dropped() {
    answers_from_its_zone_and_ends_when_dropped(PeerKind::Bind);
}

#[test]
fn powerdns_answers_from_its_zone_and_ends_when_dropped() {
    answers_from_its_zone_and_ends_when_dropped(PeerKind::PowerDns);
}

#[test]
fn a_server_that_ends_at_once_is_an_error_with_its_log() {
    let failed = Peer::launch(&["example.org"], &PeerOptions::default(), |_, _| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such zone file >&2; exit 1"]);
        Ok(command)
    });
    match failed {
        Err(PeerError::Ended(log)) => assert_eq!(log, "no such zone file"),
        other => panic!("{other:?}"),
    }
}

/// Set for the process that holds a server until it is killed.
const HOLD: &str = "NAMEWARD_TESTKIT_HOLD";

/// Run by the test below in a separate process, which is then killed.
#[test]
#[ignore = "only a part of another test"]
fn hold_a_server_until_killed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let peer = Peer::launch(&[], &PeerOptions::default(), |_, _| {
        let mut command = Command::new("sleep");
        command.arg("600");
        Ok(command)
    })
    .unwrap();
    println!("home={}", peer.directory().display());
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_server_ends_when_its_process_is_killed() {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "peers::hold_a_server_until_killed"])
        .arg("--nocapture")
        .env(HOLD, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let home = BufReader::new(holder.stdout.take().unwrap())
        .lines()
        .find_map(|line| Some(line.unwrap().split_once("home=")?.1.to_string()))
        .unwrap();
    // The server is found by its working directory.
    let server_runs = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&home))
        })
    };
    assert!(server_runs());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while server_runs() || Path::new(&home).exists() {
        assert!(Instant::now() < deadline, "{home} still lives");
        std::thread::sleep(Duration::from_millis(20));
    }
}
