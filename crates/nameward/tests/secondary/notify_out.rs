//! NOTIFY to secondaries: at once after a change, again until it is answered, never to the server itself.

use nameward_testkit::Setup;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// Received NOTIFY messages, in order.
type Notified = Arc<Mutex<Vec<Vec<u8>>>>;

/// A secondary that answers the NOTIFY messages from the `first` on.
fn secondary(first: usize) -> (SocketAddr, Notified) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let notified = Notified::default();
    let list = Arc::clone(&notified);
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let mut list = list.lock().unwrap();
            list.push(buffer[..length].to_vec());
            if list.len() > first {
                let mut reply = buffer[..length].to_vec();
                reply[2] |= 0x80;
                let _ = socket.send_to(&reply, from);
            }
        }
    });
    (address, notified)
}

fn zone(serial: u32) -> String {
    format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n")
}

/// The serial in the SOA that a NOTIFY brings.
fn serial_of(message: &[u8]) -> u32 {
    assert_eq!(message[2] >> 3 & 0x0f, 4, "opcode NOTIFY");
    assert_eq!((message[2] & 4, message[7]), (4, 1), "AA, and a SOA");
    let at = message.len() - 20;
    u32::from_be_bytes(message[at..at + 4].try_into().unwrap())
}

#[test]
fn secondaries_are_notified_of_a_change_until_they_answer() {
    let (prompt, notified) = secondary(0);
    let (slow, notified_slow) = secondary(2);
    let setup = Setup::new().without_web().zone("example", &zone(1));
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"example\"\nkind = \"primary\"\n\
             also_notify = [{{ address = \"{prompt}\" }}, {{ address = \"{slow}\" }}]\n"
        ))
        .start();
    // No server was notified of the zone before.
    server.wait_until("a NOTIFY", || !notified.lock().unwrap().is_empty());
    assert_eq!(serial_of(&notified.lock().unwrap()[0]), 1);
    server.write_zone("example", &zone(2));
    assert!(server.command(&["reload"]).status.success());
    server.wait_until("another NOTIFY", || notified.lock().unwrap().len() > 1);
    assert_eq!(serial_of(&notified.lock().unwrap()[1]), 2);
    server.wait_until("three tries", || notified_slow.lock().unwrap().len() >= 3);
    let list = notified_slow.lock().unwrap().clone();
    assert!(
        list.windows(2)
            .all(|two| serial_of(&two[0]) <= serial_of(&two[1]))
    );
    assert_eq!(notified.lock().unwrap().len(), 2, "it has answered");
    let output = server.command(&["zone", "notify", "example"]);
    assert!(output.status.success());
    server.wait_until("a NOTIFY that was asked for", || {
        notified.lock().unwrap().len() == 3
    });
    let output = server.command(&["zone", "notify", "none.example"]);
    assert!(!output.status.success());
}

#[test]
fn a_zone_that_changed_while_the_server_was_down_is_notified_of_at_the_start() {
    let (secondary, notified) = secondary(0);
    let state = tempfile::tempdir().unwrap();
    let start = |serial| {
        let setup = Setup::new().without_web().zone("example", &zone(serial));
        setup
            .config(&format!(
                "[server]\nstate_directory = {:?}\n[[zone]]\nname = \"example\"\nkind = \"primary\"\n\
                 also_notify = [{{ address = \"{secondary}\" }}]\n",
                state.path()
            ))
            .start()
    };
    let serials = || -> Vec<u32> {
        let notified = notified.lock().unwrap();
        notified.iter().map(|message| serial_of(message)).collect()
    };
    let server = start(1);
    server.wait_until("the first NOTIFY", || serials() == [1]);
    assert!(server.stop().success());
    let server = start(1);
    server.write_zone("example", &zone(2));
    assert!(server.command(&["reload"]).status.success());
    // The start with the same version was not notified of.
    server.wait_until("a NOTIFY of a change", || serials() == [1, 2]);
    assert!(server.stop().success());
    let server = start(3);
    server.wait_until("a NOTIFY at the start", || serials() == [1, 2, 3]);
    drop(server);
}
