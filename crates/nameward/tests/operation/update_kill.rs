//! Updates on a server that is killed, again and again, and on a disk that is full: what was acknowledged is there.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use nameward_testkit::wire::Message;
use nameward_testkit::{Setup, TestServer, run_on_small_disk};

use super::ask::{answered_address, rcode, serial};
use super::update::ZONE;

const SERVFAIL: u16 = 2;

fn wire_name(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// An UPDATE that adds one address and with it one text, so that half of it could be seen.
fn addition(id: u16, name: &str, address: [u8; 4]) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0]);
    message.extend(wire_name("dyn.example"));
    message.extend([0, 6, 0, 1]);
    for (rtype, data) in [(1, &address[..]), (16, b"\x01x")] {
        message.extend(wire_name(name));
        message.extend([0, rtype, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend(data);
    }
    message
}

/// Sends an update; the code of the reply, if there is one.
pub fn update(socket: &UdpSocket, id: u16, name: &str, address: [u8; 4]) -> Option<u16> {
    socket.send(&addition(id, name, address)).ok()?;
    let mut buffer = [0; 2048];
    loop {
        let length = socket.recv(&mut buffer).ok()?;
        let reply = Message::read(&buffer[..length]).ok()?;
        if reply.id == id {
            return Some(reply.rcode());
        }
    }
}

pub fn client(server: SocketAddr, time_limit: Duration) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(time_limit)).unwrap();
    socket
}

/// A server over files that outlive it.
fn start(home: &Path, state: &Path) -> TestServer {
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[zone]]\nname = \"dyn.example\"\nfile = {:?}\nallow_update = [\"127.0.0.1\"]\n",
        home.join("dyn.zone")
    );
    Setup::new().without_web().config(&config).start()
}

pub fn address_of(number: u32) -> [u8; 4] {
    let [_, b, c, d] = number.to_be_bytes();
    [10, b, c, d]
}

/// The number of rounds is `NAMEWARD_KILL_ROUNDS`; `scripts/update-kill-loop` runs many.
#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9_and_the_serial_never_goes_back() {
    let rounds = std::env::var("NAMEWARD_KILL_ROUNDS").ok();
    let rounds: u32 = rounds.and_then(|text| text.parse().ok()).unwrap_or(3);
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("dyn.zone"), ZONE).unwrap();
    let state = home.path().join("state");
    fs::create_dir(&state).unwrap();
    let (mut acknowledged, mut seen) = (Vec::new(), 10);
    let next = AtomicU32::new(0);
    for round in 0..rounds {
        let server = start(home.path(), &state);
        let at = server.address();
        let found = serial(at, "dyn.example");
        assert!(
            found >= seen,
            "round {round}: the serial went back from {seen} to {found}"
        );
        for &number in &acknowledged {
            let name = format!("n{number}.dyn.example");
            assert_eq!(
                answered_address(at, &name),
                Some(address_of(number)),
                "round {round}"
            );
        }
        let stop = AtomicBool::new(false);
        let taken: Vec<u32> = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let socket = client(at, Duration::from_secs(2));
                        let mut taken = Vec::new();
                        while !stop.load(Ordering::Relaxed) {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            let name = format!("n{number}.dyn.example");
                            let id = number as u16;
                            if update(&socket, id, &name, address_of(number)) == Some(0) {
                                taken.push(number);
                            }
                        }
                        taken
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(400 + u64::from(round % 7) * 53));
            seen = serial(at, "dyn.example");
            server.signal("KILL");
            stop.store(true, Ordering::Relaxed);
            let taken = clients
                .into_iter()
                .flat_map(|client| client.join().unwrap());
            taken.collect()
        });
        assert!(!taken.is_empty(), "round {round}: {}", server.log());
        acknowledged.extend(taken);
        drop(server);
    }
    let server = start(home.path(), &state);
    let at = server.address();
    for &number in &acknowledged {
        let name = format!("n{number}.dyn.example");
        assert_eq!(answered_address(at, &name), Some(address_of(number)));
    }
    // Of an update without a reply all is there, or nothing.
    for number in 0..next.load(Ordering::Relaxed) {
        let name = format!("n{number}.dyn.example");
        let has_address = answered_address(at, &name).is_some();
        assert_eq!(
            super::ask::has_record(at, &name, "TXT"),
            has_address,
            "{name}"
        );
    }
    eprintln!(
        "{} acknowledged updates in {rounds} rounds",
        acknowledged.len()
    );
}

#[test]
fn on_a_full_disk_updates_fail_nothing_is_lost_and_they_work_again_when_there_is_room() {
    run_on_small_disk("operation::update_kill::updates_on_a_small_disk", 1024);
}

#[test]
#[ignore = "run by the test above, on a disk of its own"]
fn updates_on_a_small_disk() {
    let state = &PathBuf::from(std::env::var_os("DISK").expect("run by another test"));
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("dyn.zone"), ZONE).unwrap();
    let server = start(home.path(), state);
    let at = server.address();
    let socket = client(at, Duration::from_secs(30));
    assert_eq!(update(&socket, 1, "n1.dyn.example", address_of(1)), Some(0));
    let ballast = state.join("ballast");
    let mut size = 900 << 10;
    while size > 0 && fs::write(&ballast, vec![1u8; size]).is_err() {
        size -= 4096;
    }
    let (mut taken, mut failed) = (vec![1], 0);
    for number in 2..2000u32 {
        let name = format!("n{number}.dyn.example");
        match update(&socket, number as u16, &name, address_of(number)) {
            Some(0) => taken.push(number),
            Some(code) => {
                assert_eq!(code, SERVFAIL);
                assert_ne!(rcode(at, &name), 0, "what failed is not served");
                failed += 1;
                if failed == 3 {
                    break;
                }
            }
            None => panic!("no reply\n{}", server.log()),
        }
    }
    assert_eq!(failed, 3, "the disk was never full");
    assert!(
        server.wait_for_log("no space left on the disk"),
        "{}",
        server.log()
    );
    let status = || {
        let output = server.command(&["status"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let is_fault = |status: &str| status.contains("Changes cannot be stored: state store");
    assert!(is_fault(&status()), "{}", status());
    fs::remove_file(&ballast).unwrap();
    // Without a change that shows it: the server tests the disk itself.
    server.wait_until("the end of the fault", || !is_fault(&status()));
    assert_eq!(
        update(&socket, 9, "again.dyn.example", address_of(9)),
        Some(0)
    );
    for number in taken {
        let name = format!("n{number}.dyn.example");
        assert_eq!(answered_address(at, &name), Some(address_of(number)));
    }
}
