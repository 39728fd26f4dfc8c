//! `nameward upgrade`: a new process takes over while clients send queries.

mod failures;
pub mod load;
mod open_connections;

use std::{fs, net::SocketAddr, os::unix::net::UnixDatagram, process::Command, time::Duration};

use nameward_testkit::{Setup, TestServer, server::binary};

use super::ask::{rcode, serial, zone};
use super::secure::done;
use super::update_kill::{address_of, client, update};
use crate::api::tls::make_certificate;
use load::Load;

/// Returns the number of upgrades in the tests under load; `scripts/upgrade-loop` sets it.
pub fn upgrades() -> usize {
    let wanted = std::env::var("NAMEWARD_UPGRADES").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Stops a server that has taken over: it is not a child of the test.
struct Successor(u32);

impl Successor {
    /// Forgets a server that was taken over: its process ID may be reused later.
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let id = self.0.to_string();
        let _ = Command::new("kill").arg(&id).status();
        nameward_testkit::wait_until("the server has ended", || !is_alive(self.0));
    }
}

fn is_alive(process: u32) -> bool {
    // One that nothing waits for is a zombie until its parent is gone.
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Upgrades a server; returns the new process.
fn upgrade(server: &TestServer) -> Successor {
    let output = server.command(&["upgrade", "--json"]);
    assert!(output.status.success(), "{output:?}\n{}", server.log());
    let text = String::from_utf8(output.stdout).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id = value["process"]
        .as_u64()
        .unwrap_or_else(|| panic!("{text}"));
    Successor(id as u32)
}

/// A server with every kind of listener.
fn setup(settings: &str) -> Setup {
    let setup = Setup::new();
    make_certificate(setup.dir(), 300);
    setup.config(&format!(
        "[server]\nstate_directory = \"state\"\nlisten_tls = [\"127.0.0.1:0\"]\n\
         listen_https = [\"127.0.0.1:0\"]\nlisten_quic = [\"127.0.0.1:0\"]\n{settings}\
         [tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n"
    ))
}

#[test]
fn upgrades_under_load_lose_no_query_and_refuse_no_connection() {
    let upgrades = upgrades();
    let server = setup("workers = 2\n")
        .zone("one.example", &zone("www"))
        .start();
    let load = Load::start(&server);
    let mut last = None;
    for number in 0..upgrades {
        let text = zone("www") + &format!("n{number} A 192.0.2.3\n");
        server.write_zone("one.example", &text);
        let next = upgrade(&server);
        if let Some(before) = last.replace(next) {
            before.leave();
        }
        let name = format!("n{number}.one.example");
        // Both read the same sockets for a moment.
        server.wait_until("the new file to be served", || {
            rcode(server.address(), &name) == 0
        });
    }
    load.wait_for_each();
    let results = load.stop();
    println!("{upgrades} upgrades");
    for result in &results {
        println!("{result}");
    }
    for result in &results {
        assert_eq!(
            (result.lost, result.refused),
            (0, 0),
            "{result}: {}",
            result.reasons()
        );
    }
    let text = done(&server, &["status"]);
    let process = format!("process        {}", last.unwrap().0);
    assert!(text.contains(&process), "{text}\n{}", server.log());
    assert!(text.contains("faults: none"), "{text}");
}

/// Sends an update of dyn.example; returns its response code.
fn change(server: SocketAddr, number: u32) -> Option<u16> {
    let socket = client(server, Duration::from_secs(60));
    let name = format!("n{number}.dyn.example");
    update(&socket, number as u16, &name, address_of(number))
}

#[test]
fn changes_before_and_after_are_served_and_stored_and_the_journal_goes_on() {
    let zone = super::update::ZONE;
    let server = setup("").zone("dyn.example", zone).config(
        "[zone_defaults]\nallow_update = [\"127.0.0.1\"]\nallow_transfer = [\"127.0.0.1\"]\n",
    );
    let server = server.start();
    let at = server.address();
    let first = serial(at, "dyn.example");
    assert_eq!(change(at, 1), Some(0));
    let middle = upgrade(&server);
    server.wait_until("the server before has ended", || !is_alive(server.pid()));
    assert_eq!(change(at, 2), Some(0));
    middle.leave();
    let _last = upgrade(&server);
    server.wait_until("one server to have the store", || change(at, 3) == Some(0));
    for number in 1..=3 {
        assert_eq!(rcode(at, &format!("n{number}.dyn.example")), 0);
    }
    let (log, hand_over) = (server.log(), "the new process serves");
    assert_eq!(log.matches(hand_over).count(), 2, "one log: {log}");
    let question = format!("IXFR={first}");
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &at.port().to_string()])
        .args(["dyn.example", &question])
        .output()
        .expect("dig is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    for number in 1..=3 {
        assert!(text.contains(&format!("n{number}.dyn.example.")), "{text}");
    }
    // An incremental transfer: the zone's other records are not in it.
    assert!(!text.contains("NS\t"), "{text}");
}

#[test]
fn a_service_manager_learns_the_new_main_process() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let server = setup("")
        .zone("one.example", &zone("www"))
        .environment("NOTIFY_SOCKET", &path)
        .start();
    // Outside the service, it would not be supervised.
    let refused = server.command(&["upgrade"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("systemctl reload"), "{text}");
    let run = |arguments: &[&str]| {
        let output = Command::new(binary())
            .args(arguments)
            .env("RUNTIME_DIRECTORY", server.dir())
            .env("NOTIFY_SOCKET", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let same = run(&["upgrade", "--if-replaced"]);
    assert!(same.contains("is this program already"), "{same}");
    let text = run(&["upgrade", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let successor = Successor(value["process"].as_u64().unwrap() as u32);
    let wanted = format!("MAINPID={}", successor.0);
    let (mut told, mut buffer) = (Vec::new(), [0; 1024]);
    while !told.contains(&wanted) {
        let length = manager.recv(&mut buffer).expect("a notification");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        told.extend(text.lines().map(str::to_owned));
    }
    assert!(!told.contains(&"STOPPING=1".to_owned()), "{told:?}");
}
