//! NOTIFY-DNSUPDATE of zones in a database: whether secondaries are notified of each update at once.

use std::time::{Duration, Instant};

use nameward_testkit::{Setup, TestServer};

use super::operation::{wait_for, zone};
use super::rows::Sqlite;
use super::update::nsupdate_at;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Counts the log lines about NOTIFY messages sent at once for a zone.
fn notified_count(server: &TestServer, zone: &str) -> usize {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(zone));
    lines
        .filter(|line| line.contains("sending notifies"))
        .count()
}

fn notify(primary: &TestServer, zone: &str) {
    let output = primary.command(&["zone", "notify", zone]);
    assert!(output.status.success(), "{output:?}");
}

fn update(primary: &TestServer, zone: &str) {
    let lines = format!("zone {zone}.\nupdate add new.{zone}. 60 A 192.0.2.77");
    let sent = nsupdate_at(primary.address(), &["-t", "60"], &lines);
    assert_eq!(sent, (true, String::new()), "{}", primary.log());
}

#[test]
fn notify_dnsupdate_controls_whether_secondaries_are_notified_of_updates_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    for name in ["at-once.test", "later.test", "unsaid.test"] {
        database.add(&zone(name, "192.0.2.10"));
    }
    let of = |name: &str| format!("(SELECT id FROM domains WHERE name = '{name}')");
    let (at_once, later) = (of("at-once.test"), of("later.test"));
    database.run(&format!(
        "UPDATE domains SET type = 'MASTER';\n\
         INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'ALLOW-DNSUPDATE-FROM', '127.0.0.1' FROM domains;\n\
         INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'ALLOW-AXFR-FROM', '127.0.0.1' FROM domains;\n\
         INSERT INTO domainmetadata (domain_id, kind, content) VALUES ({at_once}, 'NOTIFY-DNSUPDATE', '1'), \
         ({later}, 'NOTIFY-DNSUPDATE', '0');"
    ));
    let path = database.path.display();
    let backend =
        format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"resident\"\n");
    let primary = Setup::new().without_web().config(&backend).start();
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let mut config = format!("[server]\nstate_directory = {state:?}\n");
    for name in ["at-once.test", "later.test", "unsaid.test"] {
        config.push_str(&format!(
            "[[zone]]\nname = \"{name}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{}\" }}]\n",
            primary.address()
        ));
    }
    let secondary = setup.config(&config).start();
    for name in ["at-once.test", "later.test", "unsaid.test"] {
        wait_for(&secondary, &format!("www.{name}."), (0, 10));
    }
    database.run(&format!(
        "INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'ALSO-NOTIFY', '{}' FROM domains;",
        secondary.address()
    ));
    let start = Instant::now();
    for name in ["at-once.test", "later.test", "unsaid.test"] {
        while notified_count(&primary, name) == 0 {
            assert!(start.elapsed() < TIMEOUT, "{}", primary.log());
            notify(&primary, name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let before = notified_count(&primary, "later.test");
    update(&primary, "later.test");
    for name in ["at-once.test", "unsaid.test"] {
        update(&primary, name);
        wait_for(&secondary, &format!("new.{name}."), (0, 77));
    }
    assert_eq!(
        notified_count(&primary, "later.test"),
        before,
        "{}",
        primary.log()
    );
    // A request of an operator does not wait for the next round.
    notify(&primary, "later.test");
    wait_for(&secondary, "new.later.test.", (0, 77));
}
