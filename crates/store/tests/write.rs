//! Changes through Nameward leave the database as the tools of PowerDNS would, whatever is changed in which order.

mod common;

use common::{block_on, name};
use nameward_store::sql::write::{NewZone, WriteError};
use nameward_store::sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::require;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// 29 February 2024.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_164_800)
}

fn rrset(owner: &str, rtype: &str, contents: &[&str]) -> RrsetData {
    let rtype = Type::from_text(rtype.as_bytes()).unwrap();
    let records = contents.iter().map(|text| {
        let mut rdata = Vec::new();
        let mut fields = Fields::new(text.as_bytes());
        parse_text(rtype, &mut fields, Name::ROOT, &mut rdata).unwrap();
        NewRecord {
            rdata,
            disabled: false,
        }
    });
    RrsetData {
        name: name(owner),
        rtype,
        ttl: 300,
        records: records.collect(),
    }
}

fn change(edits: Vec<Edit>) -> ZoneChange {
    ZoneChange {
        edits,
        origin: ChangeOrigin::Operator,
        now: now(),
        serial: SerialRule::default(),
    }
}

fn new_zone(apex: &str) -> NewZone {
    let soa = format!("ns1.{apex}. hostmaster.{apex}. 1 10800 3600 604800 3600");
    NewZone {
        name: name(apex),
        kind: nameward_zone::ZoneKind::Native,
        primaries: None,
        account: String::new(),
        key: None,
        rrsets: vec![
            rrset(apex, "SOA", &[&soa]),
            rrset(apex, "NS", &[&format!("ns1.{apex}.")]),
            rrset(&format!("ns1.{apex}"), "A", &["192.0.2.1"]),
        ],
        now: now(),
    }
}

struct Store {
    _directory: tempfile::TempDir,
    path: PathBuf,
    backend: SqlBackend,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let address = DatabaseAddress::Sqlite(path.clone());
        assert!(block_on(db::init(&address)).unwrap().is_empty());
        Store {
            _directory: directory,
            path,
            backend: SqlBackend::new(SqlOptions::for_tests(address)).unwrap(),
        }
    }

    fn create(&self, apex: &str) -> i64 {
        block_on(self.backend.create_zone(&new_zone(apex)))
            .unwrap()
            .zone
    }

    fn commit(&self, zone: i64, edits: Vec<Edit>) -> Result<u32, String> {
        let committed = block_on(self.backend.commit(zone, &change(edits)));
        committed
            .map(|committed| committed.serial.0)
            .map_err(|error| error.to_string())
    }

    fn dump(&self) -> Vec<String> {
        dump(&self.path)
    }
}

/// All rows of `records` but their ids.
fn dump(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT name, type, content, ttl, prio, disabled, ordername, auth FROM records \
               ORDER BY name, type, content";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let cells: Vec<String> = (0..8)
            .map(|i| match row.get::<_, rusqlite::types::Value>(i).unwrap() {
                rusqlite::types::Value::Null => "-".into(),
                rusqlite::types::Value::Integer(n) => n.to_string(),
                rusqlite::types::Value::Text(text) => format!("'{text}'"),
                other => format!("{other:?}"),
            })
            .collect();
        Ok(cells.join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_change_is_stored_as_powerdns_stores_it() {
    let store = Store::new();
    let zone = store.create("example.org");
    let edits = vec![
        Edit::Replace(rrset("MAIL.Example.org", "A", &["192.0.2.2", "192.0.2.3"])),
        Edit::Replace(rrset("example.org", "MX", &["10 Mail.Example.Org."])),
        Edit::Replace(rrset(
            "_sip._tcp.example.org",
            "SRV",
            &["1 2 5060 mail.example.org."],
        )),
        Edit::Replace(rrset("hip.example.org", "TYPE65280", &[r"\# 2 abcd"])),
    ];
    assert_eq!(store.commit(zone, edits), Ok(2));
    assert_eq!(
        store.dump(),
        [
            "'_sip._tcp.example.org' 'SRV' '2 5060 mail.example.org' 300 1 0 - 1",
            "'_tcp.example.org' - - - - 0 - 1",
            "'example.org' 'MX' 'Mail.Example.Org' 300 10 0 - 1",
            "'example.org' 'NS' 'ns1.example.org' 300 0 0 - 1",
            "'example.org' 'SOA' 'ns1.example.org hostmaster.example.org 2 10800 3600 604800 3600' 300 0 0 - 1",
            "'hip.example.org' 'TYPE65280' '\\# 2 abcd' 300 0 0 - 1",
            "'mail.example.org' 'A' '192.0.2.2' 300 0 0 - 1",
            "'mail.example.org' 'A' '192.0.2.3' 300 0 0 - 1",
            "'ns1.example.org' 'A' '192.0.2.1' 300 0 0 - 1",
        ]
    );
    // The same once more changes nothing, not even the serial.
    let again = vec![Edit::Replace(rrset(
        "mail.example.org",
        "A",
        &["192.0.2.3", "192.0.2.2"],
    ))];
    assert_eq!(store.commit(zone, again), Ok(2));
    let deleted = vec![
        Edit::DeleteName {
            name: name("_sip._tcp.example.org"),
        },
        Edit::DeleteRecords {
            name: name("mail.example.org"),
            rtype: Type::A,
            rdata: vec![vec![192, 0, 2, 3]],
        },
    ];
    assert_eq!(store.commit(zone, deleted), Ok(3));
    let rows = store.dump();
    assert!(
        !rows
            .iter()
            .any(|row| row.contains("_tcp") || row.contains("192.0.2.3")),
        "{rows:?}"
    );
    block_on(store.backend.delete_zone(zone, None)).unwrap();
    assert_eq!(store.dump(), Vec::<String>::new());
    let error = block_on(store.backend.commit(zone, &change(Vec::new()))).unwrap_err();
    assert!(matches!(error, WriteError::NoSuchZone), "{error}");
}

#[test]
fn what_would_break_the_zone_is_refused_and_nothing_is_written() {
    let store = Store::new();
    let zone = store.create("example.org");
    let good = vec![
        Edit::Replace(rrset("www.example.org", "A", &["192.0.2.2"])),
        Edit::Replace(rrset("alias.example.org", "CNAME", &["www.example.org."])),
        Edit::Replace(rrset("d.example.org", "DNAME", &["example.net."])),
    ];
    assert_eq!(store.commit(zone, good), Ok(2));
    let before = store.dump();
    let long = "x".repeat(255);
    let long: Vec<String> = (0..300).map(|i| format!("\"{i}{}\"", &long[4..])).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    for (edit, reason) in [
        (
            Edit::Replace(rrset("www.example.net", "A", &["192.0.2.1"])),
            "outside the zone",
        ),
        (
            Edit::Add(rrset("alias.example.org", "A", &["192.0.2.1"])),
            "a CNAME stands alone",
        ),
        (
            Edit::Add(rrset("www.example.org", "CNAME", &["a."])),
            "a CNAME stands alone",
        ),
        (
            Edit::Add(rrset("alias.example.org", "CNAME", &["b."])),
            "expected one CNAME",
        ),
        (
            Edit::Replace(rrset("x.d.example.org", "A", &["192.0.2.1"])),
            "has a DNAME",
        ),
        (
            Edit::Replace(rrset("example.org", "DNAME", &["example.net."])),
            "would hide them",
        ),
        (
            Edit::DeleteRrset {
                name: name("example.org"),
                rtype: Type::SOA,
            },
            "one SOA",
        ),
        (
            Edit::Add(rrset(
                "example.org",
                "SOA",
                &["ns1.example.org. h. 9 1 1 1 1"],
            )),
            "one SOA",
        ),
        (
            Edit::Replace(rrset("www.example.org", "SOA", &["a. b. 1 1 1 1 1"])),
            "expected the SOA",
        ),
        (
            Edit::Replace(rrset("www.example.org", "NSEC", &["a.example.org. A"])),
            "made by the server",
        ),
        (
            Edit::Replace(rrset("www.example.org", "TXT", &long)),
            "no answer can hold",
        ),
        (
            Edit::Replace(RrsetData {
                ttl: u32::MAX,
                ..rrset("www.example.org", "A", &["192.0.2.1"])
            }),
            "TTL",
        ),
        (
            Edit::Replace(RrsetData {
                records: vec![NewRecord {
                    rdata: vec![1, 2, 3],
                    disabled: false,
                }],
                ..rrset("www.example.org", "A", &[])
            }),
            "not valid",
        ),
    ] {
        // A good step before it goes with it.
        let edits = vec![
            Edit::Replace(rrset("new.example.org", "A", &["192.0.2.9"])),
            edit,
        ];
        let error = store.commit(zone, edits).unwrap_err();
        assert!(error.contains(reason), "{reason}: {error}");
        assert_eq!(store.dump(), before, "{reason}");
    }
    let error = block_on(store.backend.create_zone(&new_zone("example.org"))).unwrap_err();
    assert!(matches!(error, WriteError::Exists(_)), "{error}");
}

#[test]
fn disabled_rows_comments_and_metadata_keep_their_meaning() {
    let store = Store::new();
    let zone = store.create("example.org");
    let connection = rusqlite::Connection::open(&store.path).unwrap();
    let run = |sql: &str| connection.execute_batch(sql).unwrap();
    run(&format!(
        "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled, auth)
           VALUES ({zone}, 'off.example.org', 'A', '192.0.2.66', 60, 0, 1, 1),
                  ({zone}, 'bad.example.org', 'A', 'nonsense', 60, 0, 0, 1);
         INSERT INTO comments (domain_id, name, type, modified_at, comment)
           VALUES ({zone}, 'off.example.org', 'A', 1, 'one'), ({zone}, 'example.org', 'NS', 1, 'two')"
    ));
    let comments = || -> i64 {
        let sql = "SELECT count(*) FROM comments";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // A disabled row is nothing to a CNAME, and rows that cannot be read stay as they are.
    let cname = Edit::Add(rrset("off.example.org", "CNAME", &["www.example.org."]));
    assert_eq!(store.commit(zone, vec![cname]), Ok(2));
    let beside = Edit::Add(rrset("bad.example.org", "TXT", &["\"x\""]));
    assert_eq!(store.commit(zone, vec![beside]), Ok(3));
    assert!(store.dump().iter().any(|row| row.contains("'nonsense'")));
    // Replacing takes the disabled ones too, and the comments go with the last record.
    let gone = Edit::Replace(rrset("off.example.org", "A", &[]));
    assert_eq!(comments(), 2);
    assert_eq!(store.commit(zone, vec![gone]), Ok(4));
    assert_eq!(comments(), 1);
    assert!(!store.dump().iter().any(|row| row.contains("192.0.2.66")));
    let mut disabled = rrset("later.example.org", "A", &["192.0.2.5"]);
    disabled.records[0].disabled = true;
    assert_eq!(store.commit(zone, vec![Edit::Replace(disabled)]), Ok(5));
    assert!(
        store
            .dump()
            .contains(&"'later.example.org' 'A' '192.0.2.5' 300 0 1 - 1".to_owned())
    );
    let enabled = Edit::Add(rrset("later.example.org", "A", &["192.0.2.5"]));
    assert_eq!(store.commit(zone, vec![enabled]), Ok(6));
    assert!(
        store
            .dump()
            .contains(&"'later.example.org' 'A' '192.0.2.5' 300 0 0 - 1".to_owned())
    );
    // A serial that is set is taken as it is.
    let soa = rrset(
        "example.org",
        "SOA",
        &["ns1.example.org. h.example.org. 2024010100 1 1 1 1"],
    );
    assert_eq!(
        store.commit(zone, vec![Edit::Replace(soa)]),
        Ok(2_024_010_100)
    );
    let next = Edit::Add(rrset("next.example.org", "A", &["192.0.2.6"]));
    assert_eq!(store.commit(zone, vec![next.clone()]), Ok(2_024_022_901));
    run(&format!(
        "INSERT INTO domainmetadata (domain_id, kind, content) VALUES ({zone}, 'PRESIGNED', '1')"
    ));
    let error = store.commit(zone, vec![next]).unwrap_err();
    assert!(error.contains("PRESIGNED"), "{error}");
    run(&format!(
        "UPDATE domains SET type = 'SLAVE' WHERE id = {zone}"
    ));
    let error = store.commit(zone, Vec::new()).unwrap_err();
    assert!(error.contains("at its primary"), "{error}");
}

#[test]
fn a_file_that_was_replaced_is_the_one_that_is_written() {
    let (old, new) = (Store::new(), Store::new());
    let zone = old.create("example.org");
    assert_eq!(new.create("example.org"), zone);
    let edit = |address: &str| Edit::Replace(rrset("www.example.org", "A", &[address]));
    assert_eq!(old.commit(zone, vec![edit("192.0.2.1")]), Ok(2));
    // Not even the log of the file is left, as if it had been closed in order.
    let wal = new.path.with_extension("db-wal");
    drop(
        rusqlite::Connection::open(&new.path)
            .unwrap()
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
    );
    let copy = new.path.with_extension("copy");
    std::fs::copy(&new.path, &copy).unwrap();
    assert!(std::fs::metadata(wal).map_or(0, |file| file.len()) == 0);
    for end in ["db-wal", "db-shm"] {
        let _ = std::fs::remove_file(old.path.with_extension(end));
    }
    std::fs::rename(&copy, &old.path).unwrap();
    assert_eq!(old.commit(zone, vec![edit("192.0.2.2")]), Ok(2));
    assert!(old.dump().iter().any(|row| row.contains("192.0.2.2")));
}

#[test]
fn parallel_changes_wait_for_each_other() {
    let store = Store::new();
    let zone = store.create("example.org");
    let threads: Vec<_> = (0..8)
        .map(|i| {
            // Half of them as another server would come.
            let address = store.backend.options().address.clone();
            let backend = match i % 2 {
                0 => store.backend.clone(),
                _ => SqlBackend::new(SqlOptions::for_tests(address)).unwrap(),
            };
            std::thread::spawn(move || {
                for j in 0..5 {
                    let owner = format!("h{i}-{j}.example.org");
                    let edit = Edit::Add(rrset(&owner, "A", &["192.0.2.7"]));
                    block_on(backend.commit(zone, &change(vec![edit]))).unwrap();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let rows = store.dump();
    assert_eq!(
        rows.iter().filter(|row| row.contains("192.0.2.7")).count(),
        40
    );
    assert!(
        rows.iter()
            .any(|row| row.contains("hostmaster.example.org 41 ")),
        "{rows:?}"
    );
}

/// A database of PowerDNS and its tool.
struct Pdns {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Pdns {
    fn new() -> Option<Self> {
        let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
        let schema = require(std::fs::read_to_string(schema).ok(), schema)?;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pdns.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL")
            .unwrap();
        connection.execute_batch(&schema).unwrap();
        let config = format!(
            "launch=gsqlite3\ngsqlite3-dnssec\ngsqlite3-database={}\ngsqlite3-pragma-synchronous=0\n",
            path.display()
        );
        std::fs::write(directory.path().join("pdns.conf"), config).unwrap();
        Some(Pdns { directory, path })
    }

    fn tool(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("pdnsutil")
            .arg(format!("--config-dir={}", self.directory.path().display()))
            .args(arguments)
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        // A check that found something fails.
        let is_fine = output.status.success() || arguments[0] == "check-zone";
        assert!(is_fine, "{arguments:?}: {text}");
        Some(text)
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const DS: &str = "12345 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A random step over a small world of names, so that delegations, glue and empty non-terminals come and go.
fn random_edit(random: &mut Random) -> Edit {
    let labels = ["a", "b", "c", "*", r"d\.ot"];
    let mut owner = String::new();
    if random.below(4) == 0 {
        // One of a crowd that is larger than what is looked at.
        owner = format!(
            "n{}.{}.",
            random.below(CROWD),
            random.pick(&["crowd", "cuts"])
        );
    } else {
        for _ in 0..=random.below(3) {
            owner = format!("{}.{owner}", random.pick(&labels));
        }
    }
    let owner = format!("{owner}example.org");
    let (rtype, content) = [
        ("A", "192.0.2.1"),
        ("AAAA", "2001:db8::1"),
        ("TXT", "\"text\""),
        ("NS", "ns1.example.org."),
        ("NS", "ns.a.example.org."),
        ("DS", DS),
    ][random.below(6)];
    match random.below(8) {
        0..=3 => Edit::Replace(rrset(&owner, rtype, &[content])),
        4 => Edit::Add(rrset(&owner, rtype, &[content])),
        5 => Edit::DeleteRrset {
            name: name(&owner),
            rtype: Type::from_text(rtype.as_bytes()).unwrap(),
        },
        _ => Edit::DeleteName { name: name(&owner) },
    }
}

/// Names below one empty non-terminal.
const CROWD: usize = 260;

/// Many names with data below one name without, and many delegations below another.
fn crowd() -> Vec<Edit> {
    let names = (0..CROWD).flat_map(|i| {
        [
            rrset(&format!("n{i}.crowd.example.org"), "A", &["192.0.2.1"]),
            rrset(
                &format!("n{i}.cuts.example.org"),
                "NS",
                &["ns1.example.org."],
            ),
        ]
    });
    names.map(Edit::Replace).collect()
}

/// Returns the rows that `rectify-zone` would change, by its own tool.
fn check_sequence(pdns: &Pdns, zone: i64, seed: u64, rounds: usize) {
    let address = DatabaseAddress::Sqlite(pdns.path.clone());
    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    let mut random = Random(seed);
    for round in 0..rounds {
        let most = if random.below(4) == 0 { 60 } else { 4 };
        let edits: Vec<Edit> = (0..=random.below(most))
            .map(|_| random_edit(&mut random))
            .collect();
        let said = format!("seed {seed}, round {round}: {edits:?}");
        block_on(backend.commit(zone, &change(edits))).unwrap_or_else(|e| panic!("{e}: {said}"));
        let ours = dump(&pdns.path);
        pdns.tool(&["rectify-zone", "example.org"]).unwrap();
        let theirs = dump(&pdns.path);
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|row| !b.contains(row)).cloned().collect()
        };
        assert!(
            ours == theirs,
            "{said}\nours {:#?}\ntheirs {:#?}",
            only(&ours, &theirs),
            only(&theirs, &ours)
        );
    }
}

#[test]
fn rectify_zone_of_powerdns_finds_nothing_to_do() {
    let Some(pdns) = Pdns::new() else {
        return;
    };
    let address = DatabaseAddress::Sqlite(pdns.path.clone());
    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    let zone = block_on(backend.create_zone(&new_zone("example.org")))
        .unwrap()
        .zone;
    block_on(backend.commit(zone, &change(crowd()))).unwrap();
    let modes: [&[&[&str]]; 6] = [
        &[],
        &[&["secure-zone", "example.org"]],
        &[&["set-nsec3", "example.org", "1 0 1 ab"]],
        &[&["set-nsec3", "example.org", "1 1 0 -"]],
        &[&["set-nsec3", "example.org", "1 1 0 -", "narrow"]],
        &[&["set-nsec3", "example.org", "1 0 0 -", "narrow"]],
    ];
    for (i, commands) in modes.iter().enumerate() {
        for arguments in *commands {
            if require(pdns.tool(arguments), "pdnsutil").is_none() {
                return;
            }
        }
        if !commands.is_empty() {
            pdns.tool(&["rectify-zone", "example.org"]);
        }
        check_sequence(&pdns, zone, seed() + i as u64, rounds());
    }
}

#[test]
fn check_zone_of_powerdns_is_content_with_every_type() {
    let Some(pdns) = Pdns::new() else {
        return;
    };
    let address = DatabaseAddress::Sqlite(pdns.path.clone());
    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    let zone = block_on(backend.create_zone(&new_zone("example.org")))
        .unwrap()
        .zone;
    let mut edits = Vec::new();
    let vectors = include_str!("../../wire/tests/rdata_vectors.txt");
    for (i, line) in vectors.lines().enumerate() {
        let mut parts = line.split('|').map(str::trim);
        let (Some(rtype), Some(text), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let not_ours = ["SOA", "NS", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNAME"];
        if line.starts_with(['#', '!', '~']) || not_ours.contains(&rtype) {
            continue;
        }
        edits.push(Edit::Replace(rrset(
            &format!("t{i}.example.org"),
            rtype,
            &[text],
        )));
    }
    assert!(edits.len() > 100);
    block_on(backend.commit(zone, &change(edits))).unwrap();
    let Some(said) = pdns.tool(&["check-zone", "example.org"]) else {
        return;
    };
    // What it does not like about the records themselves, or cannot read in any form.
    let known = [
        "DNSKEY",
        "DS record without",
        "No record for 'org'",
        "IPSECKEY 10 0",
        "KEY 49152",
        "HTTPS 0 svc",
        "'no-default-alpn' parameter without 'alpn'",
        "'::ffff:192.0.2.1'",
        r"'\# 0'",
        "LOC '0 0 0.000 N",
        "LOC '90 0 0.000 N",
        "Error was:",
    ];
    let new = said.lines().filter(|line| line.starts_with('['));
    let new: Vec<&str> = new
        .filter(|line| !known.iter().any(|k| line.contains(k)))
        .collect();
    assert!(new.is_empty(), "{new:#?}");
}

/// A database with the schema of PowerDNS and the configuration for its tool.
fn on_server(kind: DatabaseKind) -> Option<(Database, Pdns)> {
    let (module, schema) = match kind {
        DatabaseKind::Postgres => (
            "gpgsql",
            "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql",
        ),
        DatabaseKind::Mariadb => (
            "gmysql",
            "/usr/share/pdns-backend-mysql/schema/schema.mysql.sql",
        ),
    };
    let schema = require(std::fs::read_to_string(schema).ok(), schema)?;
    let database = Database::start(kind)?.unwrap();
    database.run(&schema).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let address = database.address();
    let user = match kind {
        DatabaseKind::Postgres => "postgres",
        DatabaseKind::Mariadb => "root",
    };
    let config = format!(
        "launch={module}\n{module}-dnssec\n{module}-host={}\n{module}-port={}\n\
         {module}-user={user}\n{module}-dbname=pdns\n",
        address.ip(),
        address.port()
    );
    std::fs::write(directory.path().join("pdns.conf"), config).unwrap();
    let path = directory.path().join("none");
    Some((database, Pdns { directory, path }))
}

/// PowerDNS finds nothing to do, changes of several servers wait for each other, and a database that was started
/// again is written to as if nothing had been.
fn check_server(kind: DatabaseKind) {
    let Some((mut database, pdns)) = on_server(kind) else {
        return;
    };
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    let open = || SqlBackend::new(SqlOptions::for_tests(address.clone())).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let backend = open();
    let made = runtime.block_on(backend.create_zone(&new_zone("example.org")));
    let zone = made.unwrap().zone;
    let rows = |database: &Database| {
        let sql = "SELECT name, type, content, ttl, prio, ordername, auth FROM records \
                   ORDER BY name, type, content";
        database.run(sql).unwrap()
    };
    let modes: [&[&str]; 3] = [
        &["rectify-zone", "example.org"],
        &["secure-zone", "example.org"],
        &["set-nsec3", "example.org", "1 1 1 ab"],
    ];
    for (i, arguments) in modes.iter().enumerate() {
        if require(pdns.tool(arguments), "pdnsutil").is_none() {
            return;
        }
        pdns.tool(&["rectify-zone", "example.org"]);
        let mut random = Random(0xabcd_ef01 + i as u64);
        for round in 0..8 {
            let edits = (0..=random.below(6))
                .map(|_| random_edit(&mut random))
                .collect();
            let changed = runtime.block_on(backend.commit(zone, &change(edits)));
            changed.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            let ours = rows(&database);
            pdns.tool(&["rectify-zone", "example.org"]).unwrap();
            assert_eq!(ours, rows(&database), "{kind:?}, round {round}");
        }
    }
    let serial = runtime
        .block_on(backend.commit(zone, &change(Vec::new())))
        .unwrap()
        .serial;
    let tasks: Vec<_> = (0..6)
        .map(|i| {
            // Half of them as other servers would come.
            let backend = if i % 2 == 0 { backend.clone() } else { open() };
            runtime.spawn(async move {
                for j in 0..5 {
                    let owner = format!("h{i}-{j}.example.org");
                    let edit = Edit::Add(rrset(&owner, "A", &["192.0.2.7"]));
                    backend.commit(zone, &change(vec![edit])).await.unwrap();
                }
            })
        })
        .collect();
    tasks
        .into_iter()
        .for_each(|task| runtime.block_on(task).unwrap());
    let sql = "SELECT count(*) FROM records WHERE content = '192.0.2.7'";
    assert_eq!(database.run(sql).unwrap().trim(), "30");
    database.restart().unwrap();
    let edit = Edit::DeleteName {
        name: name("h0-0.example.org"),
    };
    let committed = runtime
        .block_on(backend.commit(zone, &change(vec![edit])))
        .unwrap();
    assert_eq!(committed.serial, serial.plus(31));
    database.kill();
    let edit = Edit::DeleteName {
        name: name("h0-1.example.org"),
    };
    let error = runtime
        .block_on(backend.commit(zone, &change(vec![edit])))
        .unwrap_err();
    assert!(matches!(error, WriteError::Sql(_)), "{error}");
}

#[test]
fn postgres_is_written_as_powerdns_would() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn mariadb_is_written_as_powerdns_would() {
    check_server(DatabaseKind::Mariadb);
}

fn seed() -> u64 {
    let seed = std::env::var("WRITE_SEED").ok();
    seed.and_then(|text| text.parse().ok())
        .unwrap_or(0x1234_5678)
}

/// More by hand: `WRITE_ROUNDS=500 WRITE_SEED=7`.
fn rounds() -> usize {
    let rounds = std::env::var("WRITE_ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(8)
}
