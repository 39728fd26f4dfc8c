//! The journal of a running server: edits of files, zones that vanish, and zone files or databases that changed while
//! the server was down.

use super::operation::{ask, wait_for, wait_for_code, zone};
use super::own_changes::journalled;
use super::rows::Sqlite;
use nameward_testkit::{Setup, TestServer};
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

const REFUSED: u8 = 5;

/// A directory that outlives servers: zone files, a database, the state.
struct Place {
    directory: TempDir,
    database: Sqlite,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["zones", "state"] {
            std::fs::create_dir(directory.path().join(folder)).unwrap();
        }
        let database = Sqlite::new(directory.path());
        Place {
            directory,
            database,
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("zones").join("file.test.zone")
    }

    fn write(&self, serial: u32, octet: u8) {
        let text = zone("file.test", &format!("192.0.2.{octet}")).file_text();
        let text = text.replace("host 1 7200", &format!("host {serial} 7200"));
        let new = self.file().with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    /// Starts a server whose state is where the helper reads it.
    fn start(&self) -> TestServer {
        let (setup, state) = (
            Setup::new().without_web(),
            self.directory.path().join("state"),
        );
        std::os::unix::fs::symlink(&state, setup.dir().join("state")).unwrap();
        let config = format!(
            "[server]\nstate_directory = \"{}\"\n\
             [[backend]]\ntype = \"file\"\ndirectory = \"{}\"\nwatch = false\n\
             [[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"resident\"\n",
            state.display(),
            self.file().parent().unwrap().display(),
            self.database.path.display()
        );
        setup.config(&config).start()
    }
}

fn reload(server: &TestServer) {
    assert!(
        server.command(&["reload"]).status.success(),
        "{}",
        server.log()
    );
}

fn wait_for_journal(server: &TestServer, wanted: usize) {
    let start = Instant::now();
    while journalled(server) != wanted {
        assert!(start.elapsed().as_secs() < 60, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn edits_of_a_file_are_journalled_and_one_without_a_new_serial_restarts_the_journal() {
    let place = Place::new();
    place.write(1, 10);
    let server = place.start();
    for serial in 2..5 {
        place.write(serial, 10 + serial as u8);
        reload(&server);
        assert_eq!(ask(&server, "www.file.test."), Some((0, 10 + serial as u8)));
    }
    wait_for_journal(&server, 3);
    assert!(server.stop().success());
    // Nothing happened in the meantime.
    let server = place.start();
    assert_eq!(journalled(&server), 3);
    place.write(5, 15);
    reload(&server);
    wait_for_journal(&server, 4);
    assert!(server.stop().success());
    // An edit with a new serial while no server ran: the journal does not lead there.
    place.write(6, 16);
    let server = place.start();
    assert_eq!(ask(&server, "www.file.test."), Some((0, 16)));
    wait_for_journal(&server, 0);
    place.write(7, 17);
    reload(&server);
    wait_for_journal(&server, 1);
    assert!(server.stop().success());
    // An edit without a new serial.
    place.write(7, 18);
    let server = place.start();
    assert_eq!(ask(&server, "www.file.test."), Some((0, 18)));
    let warning = "zone file.test.: changed while the server was down, but the serial is still 7";
    assert!(server.wait_for_log(warning), "{}", server.log());
    wait_for_journal(&server, 0);
}

#[test]
fn journals_of_zones_that_vanish_are_dropped_and_a_database_that_is_down_has_not_vanished() {
    let place = Place::new();
    place.write(1, 10);
    for name in ["one.test", "two.test"] {
        place.database.add(&zone(name, "192.0.2.20"));
    }
    let server = place.start();
    wait_for(&server, "www.two.test.", (0, 20));
    for zone in ["one.test", "two.test"] {
        let set = ["record", "set", zone, "www", "A", "60", "192.0.2.21"];
        assert!(server.command(&set).status.success(), "{}", server.log());
    }
    place.write(2, 12);
    reload(&server);
    wait_for_journal(&server, 3);
    // While the server runs.
    assert!(
        server
            .command(&["zone", "delete", "one.test"])
            .status
            .success()
    );
    wait_for_code(&server, "www.one.test.", REFUSED);
    assert!(server.wait_for_log("zone one.test.: removed, journal deleted"));
    wait_for_journal(&server, 2);
    assert!(server.stop().success());
    // A database that is down is not a vanished zone; a file that is gone is.
    let hidden = place.directory.path().join("hidden.db");
    std::fs::rename(&place.database.path, &hidden).unwrap();
    std::fs::remove_file(place.file()).unwrap();
    let server = place.start();
    assert!(server.wait_for_log("zone file.test.: removed, journal deleted"));
    wait_for_journal(&server, 1);
    std::fs::rename(&hidden, &place.database.path).unwrap();
    wait_for(&server, "www.two.test.", (0, 21));
    assert_eq!(journalled(&server), 1);
    assert!(server.stop().success());
    // Deleted while no server ran.
    place
        .database
        .run("DELETE FROM records; DELETE FROM domains");
    let server = place.start();
    assert!(server.wait_for_log("zone two.test.: removed, journal deleted"));
    wait_for_journal(&server, 0);
}
