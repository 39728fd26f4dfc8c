//! The servers that are notified of changes by default: those in the NS records of zone files, and none of native zones in a
//! database.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread;

use nameward_testkit::Setup;
use nameward_testkit::conformance::ZoneText;

use super::rows::Sqlite;

/// A zone with the name servers ns1 (the primary), ns2 (a secondary) and ns3 (this server under another name).
fn zone(name: &str) -> ZoneText {
    ZoneText {
        name: name.into(),
        text: "@ 60 SOA ns1 host 1 7200 3600 1209600 300\n@ 60 NS ns1\n@ 60 NS ns2\n@ 60 NS ns3\n\
               ns1 60 A 127.0.0.51\nns2 60 A 127.0.0.52\nns3 60 A 127.0.0.51\n"
            .into(),
    }
}

/// A secondary at 127.0.0.52 that answers each NOTIFY and records the first label of its zone.
fn secondary() -> Arc<Mutex<Vec<String>>> {
    let socket = UdpSocket::bind("127.0.0.52:53").unwrap();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&notified);
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let label = &buffer[13..13 + usize::from(buffer[12])];
            let label = String::from_utf8_lossy(label).into_owned();
            list.lock().unwrap().push(label);
            let mut reply = buffer[..length].to_vec();
            reply[2] |= 0x80;
            let _ = socket.send_to(&reply, from);
        }
    });
    notified
}

#[test]
fn zone_files_notify_their_name_servers_and_native_zones_of_databases_do_not() {
    let notified = secondary();
    let setup = Setup::new().without_web().listen(&["127.0.0.51:53"]);
    let database = Sqlite::new(setup.dir());
    database.add(&zone("resident.test"));
    let other = setup.dir().join("live");
    std::fs::create_dir(&other).unwrap();
    let live = Sqlite::new(&other);
    live.add(&zone("live.test"));
    let state = setup.dir().join("state");
    let server = setup
        .zone("file.test", &zone("file.test").file_text())
        .zone("native.test", &zone("native.test").file_text())
        .zone("silent.test", &zone("silent.test").file_text())
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"silent.test\"\nnotify_name_servers = false\n\
             [[zone]]\nname = \"native.test\"\nkind = \"native\"\n{}{}",
            database.backend("resident"),
            live.backend("live")
        ))
        .start();
    let count = |zone: &str| {
        let notified = notified.lock().unwrap();
        notified.iter().filter(|label| *label == zone).count()
    };
    // These zones have not been notified before.
    server.wait_until("NOTIFY at the start", || {
        count("file") == 1 && count("native") == 1
    });
    for zone in ["silent", "resident", "live", "file"] {
        let zone = format!("{zone}.test");
        let change = ["record", "set", &zone, "new", "A", "60", "192.0.2.9"];
        let output = server.command(&change);
        assert!(output.status.success(), "{zone}: {output:?}");
    }
    // One sender processes changes in order: a NOTIFY for the others would have been sent earlier.
    server.wait_until("NOTIFY of the change", || count("file") == 2);
    for zone in ["silent", "resident", "live"] {
        assert_eq!(count(zone), 0, "{zone}: {}", server.log());
    }
    let log = server.log();
    assert!(
        log.contains("zone file.test.: sending notifies (serial 2) to 1 server"),
        "{log}"
    );
    assert!(!log.contains("127.0.0.51:53 not answered"), "{log}");
}
