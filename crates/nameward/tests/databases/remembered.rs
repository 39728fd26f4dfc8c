//! Databases that are down when the server starts: their zones are known from the previous run.

use super::operation::{REFUSED, SERVFAIL, ask, counter, wait_for, wait_for_code, zone};
use super::rows::Sqlite;
use nameward_testkit::{Setup, TestServer};
use std::fs;
use std::path::Path;

/// A database and a directory for state that survives a restart.
struct Place {
    directory: tempfile::TempDir,
    database: Sqlite,
    mode: &'static str,
}

impl Place {
    fn new(mode: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("state")).unwrap();
        let database = Sqlite::new(directory.path());
        database.run("PRAGMA journal_mode = DELETE");
        database.add(&zone("one.test", "192.0.2.10"));
        database.add(&zone("two.test", "192.0.2.12"));
        Place {
            directory,
            database,
            mode,
        }
    }

    fn state(&self) -> std::path::PathBuf {
        self.directory.path().join("state")
    }

    fn setup(&self) -> Setup {
        Setup::new().without_web().config(&format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"{}\"\n",
            self.database.path.display(),
            self.mode
        ))
    }

    fn start(&self) -> TestServer {
        let state = format!(
            "[server]\nstate_directory = \"{}\"\n",
            self.state().display()
        );
        self.setup().config(&state).start()
    }

    /// Runs a server until it has stored the list of zones.
    fn teach(&self) {
        let server = self.start();
        wait_for(&server, "www.two.test.", (0, 12));
        wait_for_file(&self.state());
    }

    fn hidden(&self) -> std::path::PathBuf {
        self.directory.path().join("hidden")
    }

    fn hide(&self) {
        fs::rename(&self.database.path, self.hidden()).unwrap();
    }

    fn show(&self) {
        fs::rename(self.hidden(), &self.database.path).unwrap();
    }
}

fn files(state: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(state).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_none()).collect()
}

fn wait_for_file(state: &Path) {
    let start = std::time::Instant::now();
    while files(state).is_empty() {
        assert!(start.elapsed().as_secs() < 20, "the list is never written");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn remembered_zones_fail_until_the_database_answers() {
    for mode in ["live", "resident"] {
        let place = Place::new(mode);
        place.teach();
        place.hide();
        let server = place.start();
        assert_eq!(ask(&server, "www.one.test.").unwrap().0, SERVFAIL, "{mode}");
        assert_eq!(ask(&server, "x.two.test.").unwrap().0, SERVFAIL, "{mode}");
        assert_eq!(
            ask(&server, "www.three.test.").unwrap().0,
            REFUSED,
            "{mode}"
        );
        assert_eq!(counter(&server, "servfail-packets"), 2, "{mode}");
        assert!(server.wait_for_log("2 zones from the saved zone list"));
        place.show();
        place
            .database
            .run("DELETE FROM records WHERE domain_id = 2; DELETE FROM domains WHERE id = 2");
        wait_for(&server, "www.one.test.", (0, 10));
        wait_for_code(&server, "www.two.test.", REFUSED);
    }
}

#[test]
fn a_server_is_ready_only_when_resident_zones_were_read() {
    let place = Place::new("resident");
    place.teach();
    let lock = place.database.lock();
    // Longer than the server waits for the list until remembered zones replace it, and shorter than the timeouts of
    // tests.
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        drop(lock);
    });
    let server = place.start();
    assert_eq!(
        ask(&server, "www.one.test."),
        Some((0, 10)),
        "{}",
        server.log()
    );
    release.join().unwrap();
}

#[test]
fn remembered_zones_follow_the_database_and_are_not_needed_to_start() {
    let place = Place::new("live");
    place.teach();
    let before = fs::read(&files(&place.state())[0]).unwrap();
    place.database.add(&zone("three.test", "192.0.2.13"));
    let server = place.start();
    wait_for(&server, "www.three.test.", (0, 13));
    let start = std::time::Instant::now();
    while fs::read(&files(&place.state())[0]).unwrap() == before {
        assert!(start.elapsed().as_secs() < 20, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(server);
    // A damaged file is reported and not used.
    let file = &files(&place.state())[0];
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
    place.hide();
    let server = place.start();
    assert_eq!(ask(&server, "www.one.test.").unwrap().0, SERVFAIL);
    assert!(server.wait_for_log("ignored: wrong checksum"));
    place.show();
    wait_for(&server, "www.three.test.", (0, 13));
}

#[test]
fn the_state_directory_of_the_service_is_used_and_one_that_cannot_be_written_is_reported() {
    let place = Place::new("live");
    let state = place.state();
    let server = place.setup().environment("STATE_DIRECTORY", &state).start();
    wait_for(&server, "www.one.test.", (0, 10));
    wait_for_file(&state);
    drop(server);
    fs::remove_dir_all(&state).unwrap();
    fs::write(&state, "no directory").unwrap();
    let server = place.start();
    wait_for(&server, "www.one.test.", (0, 10));
    assert!(server.wait_for_log("cannot write the zone list to"));
}
