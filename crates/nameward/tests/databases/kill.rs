//! kill -9 of a running server while zones in memory of every kind change: file, SQLite, PostgreSQL and MariaDB.
//!
//! After each kill the journal is complete, is not ahead of the zone's storage and ends with the records that the
//! storage has at that serial; the next server answers with the serial and the records of the storage. The suite
//! kills a few times; `scripts/kill-tests` does it longer (`KILLS=200 scripts/kill-tests`).

use super::operation::{wait_for, zone};
use super::probing_client::ProbingClient;
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_state::{JournalBounds, StateStore};
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::wire::{Exchange, Transport};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::{NameBuf, Type};
use nameward_zone::Serial;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const BOUNDS: JournalBounds = JournalBounds {
    octets: 64 << 20,
    entries: 10_000,
};
const TIMEOUT: Duration = Duration::from_secs(60);

/// The storage of a zone.
enum Home {
    File(PathBuf),
    Sqlite(Sqlite),
    Server(DatabaseKind, Database),
}

/// A zone that changes, and the number of its changes.
struct Changing {
    zone: &'static str,
    home: Home,
    changes: AtomicU32,
}

fn file_text(serial: u32, octet: u8) -> String {
    let text = zone("file.test", &format!("192.0.2.{octet}")).file_text();
    text.replace("host 1 7200", &format!("host {serial} 7200"))
}

impl Changing {
    fn new(zone: &'static str, home: Home) -> Self {
        Changing {
            zone,
            home,
            changes: AtomicU32::new(0),
        }
    }

    fn name(&self) -> NameBuf {
        format!("{}.", self.zone).parse().unwrap()
    }

    fn www(&self) -> String {
        format!("www.{}.", self.zone)
    }

    /// Makes one change through the server, or in the file; false if the server has exited.
    fn change(&self, server: &TestServer) -> bool {
        let number = self.changes.fetch_add(1, Ordering::Relaxed) + 2;
        let octet = (number % 250) as u8;
        if let Home::File(path) = &self.home {
            let new = path.with_extension("new");
            std::fs::write(&new, file_text(number, octet)).unwrap();
            std::fs::rename(&new, path).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            return true;
        }
        let address = format!("192.0.2.{octet}");
        let arguments = ["record", "set", self.zone, "www", "A", "60", &address];
        server.command(&arguments).status.success()
    }

    /// The serial and the address in the storage.
    fn at_home(&self) -> (Serial, u8) {
        let select = |rtype: &str| {
            format!(
                "SELECT content FROM records WHERE type = '{rtype}' AND name IN ('{0}', 'www.{0}')",
                self.zone
            )
        };
        let (soa, address) = match &self.home {
            Home::File(path) => {
                let text = std::fs::read_to_string(path).unwrap();
                let lines = |word: &str| {
                    text.lines()
                        .rfind(|line| line.contains(word))
                        .unwrap()
                        .to_string()
                };
                (lines(" SOA "), lines(" A "))
            }
            Home::Sqlite(database) => {
                let read = |rtype| {
                    let connection = rusqlite::Connection::open(&database.path).unwrap();
                    connection.busy_timeout(TIMEOUT).unwrap();
                    let row = connection.query_row(&select(rtype), [], |row| row.get(0));
                    row.unwrap()
                };
                (read("SOA"), read("A"))
            }
            Home::Server(_, database) => {
                let read = |rtype| {
                    let printed = database.run(&select(rtype)).unwrap();
                    let line = printed
                        .lines()
                        .rfind(|line| line.contains('.'))
                        .map(str::to_string);
                    line.unwrap_or_else(|| panic!("{printed}"))
                };
                (read("SOA"), read("A"))
            }
        };
        let words: Vec<&str> = soa.split_whitespace().collect();
        let serial = words[words.len() - 5].parse().unwrap();
        let octet = address.trim().rsplit('.').next().unwrap().parse().unwrap();
        (Serial(serial), octet)
    }

    /// Compares the state store with the zone's storage; returns how many changes were journalled since `from`.
    fn check_journal(&self, store: &StateStore, from: Serial) -> usize {
        let (serial, octet) = self.at_home();
        let kept = store.zones().unwrap();
        let Some(kept) = kept.into_iter().find(|kept| kept.name == self.name()) else {
            return 0;
        };
        let zone = self.zone;
        assert!(
            !kept.serial.is_after(serial),
            "{zone}: journal at {}, home at {serial}",
            kept.serial
        );
        // A journal that was restarted does not go back that far.
        let Some(entries) = store.journal_from(&self.name(), from).unwrap() else {
            return 0;
        };
        if let Some(last) = entries.last() {
            assert_eq!(last.to, kept.serial, "{zone}");
            let addresses = last.difference.added.iter();
            let mut addresses = addresses.filter(|record| record.rtype == Type::A);
            if kept.serial == serial
                && let Some(address) = addresses.next()
            {
                assert_eq!(address.rdata, [192, 0, 2, octet], "{zone} {serial}");
            }
        }
        entries.len()
    }
}

/// The serial that a server answers with.
fn served_serial(server: &TestServer, zone: &NameBuf) -> Serial {
    let mut packet = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    packet.extend_from_slice(zone.as_name().as_wire());
    packet.extend_from_slice(&[0, 6, 0, 1]);
    let client = ProbingClient {
        address: server.address(),
        late: TIMEOUT,
    };
    let reply = client.exchange(Transport::Udp, &packet).unwrap().unwrap();
    // One SOA record and nothing after it.
    assert_eq!(reply[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
    let at = reply.len() - 20;
    Serial(u32::from_be_bytes(reply[at..at + 4].try_into().unwrap()))
}

/// Everything that survives the servers.
struct Fleet {
    directory: TempDir,
    zones: Vec<Changing>,
}

impl Fleet {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zones").join("file.test.zone");
        for folder in ["zones", "state"] {
            std::fs::create_dir(directory.path().join(folder)).unwrap();
        }
        std::fs::write(&path, file_text(1, 10)).unwrap();
        // Without an additional host: one address in each zone.
        let plain = |name: &str| ZoneText {
            name: name.into(),
            text: zone(name, "192.0.2.10")
                .text
                .replace("ns1 3600 A 192.0.2.1\n", "")
                .replace("NS ns1", "NS ns1.example."),
        };
        let sqlite = Sqlite::new(directory.path());
        sqlite.add(&plain("sqlite.test"));
        let mut zones = vec![
            Changing::new("file.test", Home::File(path)),
            Changing::new("sqlite.test", Home::Sqlite(sqlite)),
        ];
        for (kind, name) in [
            (DatabaseKind::Postgres, "postgres.test"),
            (DatabaseKind::Mariadb, "mariadb.test"),
        ] {
            let database = started(kind)?;
            run(&database, kind, &fill(&[plain(name)]));
            zones.push(Changing::new(name, Home::Server(kind, database)));
        }
        Some(Fleet { directory, zones })
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn start(&self) -> TestServer {
        let mut config = format!(
            "[server]\nstate_directory = \"{}\"\n",
            self.state().display()
        );
        for changing in &self.zones {
            config += &match &changing.home {
                Home::File(path) => format!(
                    "[[backend]]\ntype = \"file\"\ndirectory = \"{}\"\n",
                    path.parent().unwrap().display()
                ),
                Home::Sqlite(database) => format!(
                    "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"resident\"\n",
                    database.path.display()
                ),
                Home::Server(kind, database) => backend(*kind, &database.url(), "resident"),
            };
        }
        Setup::new().without_web().config(&config).start()
    }

    /// Lets a server change all zones until it is killed; returns how many changes were journalled.
    fn round(&self, time_limit: Duration) -> usize {
        let server = self.start();
        let mut from = Vec::new();
        for changing in &self.zones {
            let (serial, octet) = changing.at_home();
            wait_for(&server, &changing.www(), (0, octet));
            assert_eq!(
                served_serial(&server, &changing.name()),
                serial,
                "{}",
                changing.zone
            );
            from.push(serial);
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for changing in &self.zones {
                let (is_over, server) = (&is_over, &server);
                scope.spawn(
                    move || {
                        while !is_over.load(Ordering::Relaxed) && changing.change(server) {}
                    },
                );
            }
            std::thread::sleep(time_limit);
            server.signal("KILL");
            is_over.store(true, Ordering::Relaxed);
        });
        server.wait();
        let report = StateStore::check(&self.state()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
        let store = StateStore::open(&self.state(), BOUNDS).unwrap();
        let checked = self.zones.iter().zip(from);
        checked
            .map(|(changing, from)| changing.check_journal(&store, from))
            .sum()
    }
}

#[test]
fn zones_of_every_kind_and_their_journals_agree_after_kill_9() {
    let number = |name: &str, usual: u64| {
        let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
        value.unwrap_or(usual)
    };
    let kills = number("KILLS", 2);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut random = number("SEED", since.as_nanos() as u64) | 1;
    eprintln!("SEED={random}");
    let Some(fleet) = Fleet::new() else {
        return;
    };
    let mut journalled = 0;
    for _ in 0..kills {
        // Xorshift, Marsaglia.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        journalled += fleet.round(Duration::from_millis(300 + random % 1500));
    }
    let changes = fleet
        .zones
        .iter()
        .map(|zone| (zone.zone, zone.changes.load(Ordering::Relaxed)));
    let changes: Vec<_> = changes.collect();
    eprintln!("{kills} kills, changes {changes:?}, {journalled} journalled");
    assert!(journalled > 0);
}
