//! PowerDNS's own tools judge what was written, on every engine.

use super::*;

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

    /// Makes a zone in the database; returns it with a backend that reads and writes there.
    fn make_zone(&self) -> (SqlBackend, i64) {
        let address = DatabaseAddress::Sqlite(self.path.clone());
        let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
        let made = block_on(backend.create_zone(&new_zone("example.org"))).unwrap();
        (backend, made.zone)
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
        // One of more names than are examined.
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
    let (backend, zone) = pdns.make_zone();
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
fn check_zone_of_powerdns_accepts_every_type() {
    let Some(pdns) = Pdns::new() else {
        return;
    };
    let (backend, zone) = pdns.make_zone();
    let mut edits = Vec::new();
    let vectors = include_str!("../../../wire/tests/rdata_vectors.txt");
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
        "has automatic IPv",
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
