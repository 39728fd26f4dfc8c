//! A database created and filled by the tools of PowerDNS: `pdns_server` and Nameward give the same answers from it.

use super::operation::wait_for_code;
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::differential::answers::{Answer, Server};
use nameward_testkit::differential::queries::TestQuery;
use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions};
use nameward_testkit::wire::{Name, Question, QuestionEdns, type_from_text, type_text};
use nameward_testkit::{Setup, TestServer, require};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const ZONE: &str = r#"$TTL 3600
@ IN SOA ns1 hostmaster 2024010101 10800 3600 604800 1800
@ IN NS ns1
@ IN NS ns2.elsewhere.example.
@ IN MX 10 mail
@ IN MX 20 mail.elsewhere.example.
@ IN TXT "v=spf1 mx -all"
@ IN CAA 0 issue "ca.elsewhere.example"
ns1 IN A 192.0.2.1
ns1 IN AAAA 2001:db8::1
mail 300 IN A 192.0.2.2
www IN CNAME mail
out IN CNAME www.elsewhere.example.
deep.below.an.empty.name IN A 192.0.2.3
*.wild IN TXT "semi;colon" "quo\"te"
*.wild IN MX 5 mail
sub IN NS ns.sub
sub IN NS ns1
ns.sub IN A 192.0.2.4
signedsub IN NS ns.elsewhere.example.
signedsub IN DS 12345 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
_sip._tcp IN SRV 1 2 5060 mail
svc IN HTTPS 1 . alpn=h2 ipv4hint=192.0.2.9
old IN DNAME new
host.new IN A 192.0.2.5
naptr IN NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@elsewhere.example!" .
dotted\.label IN A 192.0.2.6
off IN A 192.0.2.66
half IN A 192.0.2.67
half IN A 192.0.2.68
"#;

/// Each zone, and the commands that are run after it was loaded.
const ZONES: &[(&str, &[&[&str]])] = &[
    ("native.test", &[&["set-kind", "native"]]),
    ("primary.test", &[&["set-kind", "primary"]]),
    ("secondary.test", &[&["set-kind", "secondary"]]),
    ("producer.test", &[&["set-kind", "producer"]]),
    ("consumer.test", &[&["set-kind", "consumer"]]),
    ("nsec.test", &[&["secure-zone"]]),
    ("nsec3.test", &[&["secure-zone"], &["set-nsec3"]]),
];

pub(crate) const PREFIXES: &[&str] = &[
    "",
    "ns1.",
    "mail.",
    "www.",
    "out.",
    "deep.below.an.empty.name.",
    "below.an.empty.name.",
    "an.empty.name.",
    "name.",
    "x.name.",
    "wild.",
    "*.wild.",
    "x.wild.",
    "y.x.wild.",
    "sub.",
    "ns.sub.",
    "x.sub.",
    "signedsub.",
    "x.signedsub.",
    "_sip._tcp.",
    "_tcp.",
    "svc.",
    "old.",
    "host.old.",
    "other.old.",
    "new.",
    "host.new.",
    "naptr.",
    r"dotted\.label.",
    "off.",
    "half.",
    "noprio.",
    "nothing.",
];

const TYPES: &[&str] = &[
    "A", "NS", "CNAME", "SOA", "MX", "TXT", "AAAA", "SRV", "NAPTR", "DNAME", "DS", "HTTPS", "CAA",
];

/// The kind of database.
pub(crate) enum Store {
    Sqlite(PathBuf),
    Server(DatabaseKind, Database),
}

impl Store {
    /// Creates an empty database with the schema of PowerDNS; `None` if something is not installed and that is
    /// allowed.
    pub(crate) fn new(kind: Option<DatabaseKind>, directory: &Path) -> Option<Self> {
        let (package, file) = match kind {
            None => ("sqlite3", "schema.sqlite3.sql"),
            Some(DatabaseKind::Postgres) => ("pgsql", "schema.pgsql.sql"),
            Some(DatabaseKind::Mariadb) => ("mysql", "schema.mysql.sql"),
        };
        let path = format!("/usr/share/pdns-backend-{package}/schema/{file}");
        let schema = require(std::fs::read_to_string(&path).ok(), &path)?;
        let store = match kind {
            None => Store::Sqlite(directory.join("pdns.db")),
            Some(kind) => Store::Server(kind, Database::start(kind)?.unwrap()),
        };
        store.run(&schema);
        Some(store)
    }

    pub(crate) fn run(&self, sql: &str) {
        match self {
            Store::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection
                    .busy_timeout(std::time::Duration::from_secs(30))
                    .unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Store::Server(_, database) => drop(database.run(sql).unwrap()),
        }
    }

    /// Returns the rows of a statement, a line each.
    pub(crate) fn lines(&self, sql: &str) -> String {
        match self {
            Store::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                let mut statement = connection.prepare(sql).unwrap();
                let columns = statement.column_count();
                let mut rows = statement.query([]).unwrap();
                let mut text = String::new();
                while let Some(row) = rows.next().unwrap() {
                    let cell = |at| match row.get_ref(at).unwrap() {
                        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                        other => other.as_str().unwrap_or_default().to_owned(),
                    };
                    let cells: Vec<String> = (0..columns).map(cell).collect();
                    text.push_str(&format!("{}\n", cells.join("|")));
                }
                text
            }
            Store::Server(_, database) => database.run(sql).unwrap(),
        }
    }

    /// The settings of PowerDNS.
    pub(crate) fn powerdns(&self) -> String {
        match self {
            Store::Sqlite(path) => {
                format!(
                    "launch=gsqlite3\ngsqlite3-dnssec=yes\ngsqlite3-database={}\n",
                    path.display()
                )
            }
            Store::Server(kind, database) => {
                let (name, user) = match kind {
                    DatabaseKind::Postgres => ("gpgsql", "postgres"),
                    DatabaseKind::Mariadb => ("gmysql", "root"),
                };
                let (host, port) = (database.address().ip(), database.address().port());
                format!(
                    "launch={name}\n{name}-host={host}\n{name}-port={port}\n{name}-dbname=pdns\n{name}-user={user}\n\
                     {name}-password=\n{name}-dnssec=yes\n"
                )
            }
        }
    }

    /// The settings of a backend, without its mode.
    pub(crate) fn backend(&self) -> String {
        match self {
            Store::Sqlite(path) => format!("type = \"sqlite\"\npath = \"{}\"\n", path.display()),
            Store::Server(kind, database) => {
                let name = match kind {
                    DatabaseKind::Postgres => "postgres",
                    DatabaseKind::Mariadb => "mysql",
                };
                format!("type = \"{name}\"\nurl = \"{}\"\n", database.url())
            }
        }
    }

    pub(crate) fn nameward(&self, mode: &str) -> TestServer {
        let backend = self.backend();
        Setup::new()
            .without_web()
            .config(&format!("[[backend]]\n{backend}mode = \"{mode}\"\n"))
            .start()
    }
}

/// Runs a command of PowerDNS that must succeed, with the configuration in a directory.
pub fn run_pdnsutil(directory: &Path, arguments: &[&str]) {
    let output = Command::new("pdnsutil")
        .arg(format!("--config-dir={}", directory.display()))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Fills the database with the tools of PowerDNS.
fn fill(store: &Store, directory: &Path) {
    std::fs::write(directory.join("pdns.conf"), store.powerdns()).unwrap();
    let run = |arguments: &[&str]| run_pdnsutil(directory, arguments);
    for (name, steps) in ZONES {
        let file = directory.join(name);
        std::fs::write(&file, format!("$ORIGIN {name}.\n{ZONE}")).unwrap();
        run(&["load-zone", name, file.to_str().unwrap()]);
        for step in *steps {
            run(&[&[step[0], name], &step[1..]].concat());
        }
        let id = format!("(SELECT id FROM domains WHERE name = '{name}')");
        let disabled = match store {
            Store::Server(DatabaseKind::Postgres, _) => "true",
            _ => "1",
        };
        store.run(&format!(
            "UPDATE records SET disabled = {disabled} WHERE name = 'off.{name}' OR content = '192.0.2.67' AND name = 'half.{name}';
             INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES ({id}, 'noprio.{name}', 'MX', 'mail.{name}', 60, NULL);
             INSERT INTO comments (domain_id, name, type, modified_at, account, comment)
               VALUES ({id}, 'www.{name}', 'CNAME', 1700000000, '', 'a comment')"
        ));
        // PowerDNS finds empty non-terminals only after this.
        run(&["rectify-zone", name]);
    }
    run(&["create-zone", "fresh.test", "ns1.fresh.test"]);
    run(&[
        "create-secondary-zone",
        "never-transferred.test",
        "192.0.2.53",
    ]);
}

pub(crate) fn powerdns(store: &Store, zones: &[&str]) -> Option<Peer> {
    powerdns_with(store, zones, "")
}

/// Starts PowerDNS with more settings.
pub(crate) fn powerdns_with(store: &Store, zones: &[&str], more: &str) -> Option<Peer> {
    let program = PeerKind::PowerDns.require()?;
    let peer = Peer::launch(zones, &PeerOptions::default(), |directory, address| {
        let config = PeerConfig {
            logs_events: false,
            main: &store.powerdns(),
            rest: &format!("dname-processing=yes\n{more}"),
            ..PeerConfig::default()
        };
        PeerKind::PowerDns.prepare(&program, directory, address, &config)
    });
    Some(peer.unwrap_or_else(|error| panic!("{error}")))
}

fn queries() -> Vec<TestQuery> {
    let mut names: Vec<String> = Vec::new();
    for (zone, _) in ZONES {
        names.extend(PREFIXES.iter().map(|prefix| format!("{prefix}{zone}.")));
    }
    names.extend(
        [
            "fresh.test.",
            "www.fresh.test.",
            "never-transferred.test.",
            "www.never-transferred.test.",
        ]
        .map(String::from),
    );
    names.push("www.not-here.test.".into());
    let types = TYPES.iter().map(|text| type_from_text(text).unwrap());
    let types: Vec<u16> = types.collect();
    let ask = |name: &String, rtype: u16| TestQuery {
        question: Question {
            name: Name::parse(name).unwrap(),
            rtype,
            class: 1,
        },
        edns: QuestionEdns::Plain,
        zone: None,
    };
    names
        .iter()
        .flat_map(|name| types.iter().map(move |rtype| ask(name, *rtype)))
        .collect()
}

/// A permitted difference between answers: its name, and whether it explains a case.
type Class = (&'static str, fn(&Case<'_>) -> bool);

/// Each has its reason, and must occur.
const REVIEWED: &[Class] = &[
    // RFC 6672 section 3.2: the CNAME synthesized from a DNAME answers a query for CNAME; PowerDNS adds a SOA as if
    // it did not.
    ("soa-beside-made-cname", |case| {
        case.rtype == "CNAME"
            && case.name.starts_with("host.old.")
            && case.ours.answer == case.theirs.answer
    }),
    // PowerDNS fails a name with an MX whose `prio` is NULL; here NULL is 0.
    ("no-priority", |case| {
        case.name.starts_with("noprio.")
            && case.ours.rcode == NOERROR
            && case.theirs.rcode == SERVFAIL
    }),
    // A zone without SOA is ours but cannot be answered; PowerDNS denies having it.
    ("no-soa", |case| {
        case.name.ends_with("never-transferred.test.")
            && case.ours.rcode == SERVFAIL
            && case.theirs.rcode == REFUSED
    }),
    // RFC 4035 section 3.1.4: DS is sent with a referral if the query has DO. PowerDNS always adds it in a signed
    // zone.
    ("ds-without-do", |case| {
        let more = case.theirs.authority.difference(&case.ours.authority);
        let is_ds = |record: &String| record.split(' ').nth(2) == Some("ds");
        case.name.contains("signedsub.nsec") && more.into_iter().all(is_ds)
    }),
];

struct Case<'a> {
    name: String,
    rtype: String,
    ours: &'a Answer,
    theirs: &'a Answer,
}

const NOERROR: u16 = 0;
const SERVFAIL: u16 = 2;
const REFUSED: u16 = 5;

fn check(kind: Option<DatabaseKind>) {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::new(kind, directory.path()) else {
        return;
    };
    fill(&store, directory.path());
    let zones: Vec<&str> = ZONES.iter().map(|(name, _)| *name).collect();
    let Some(peer) = powerdns(&store, &zones) else {
        return;
    };
    let mut apexes = zones.clone();
    apexes.push("fresh.test");
    let mut theirs = Server::connect("pdns", peer.addr(), &apexes).unwrap();
    let (mut differences, mut met) = (Vec::new(), BTreeSet::new());
    for mode in ["live", "resident"] {
        let server = store.nameward(mode);
        wait_for_code(&server, "www.nsec3.test.", 0);
        let mut ours = Server::connect("ours", server.address(), &apexes).unwrap();
        for ask in queries() {
            let (own, other) = (ours.ask(&ask).unwrap(), theirs.ask(&ask).unwrap());
            if own.same(&other) && own.additional == other.additional {
                continue;
            }
            let case = Case {
                name: ask.question.name.to_string(),
                rtype: type_text(ask.question.rtype),
                ours: &own,
                theirs: &other,
            };
            if let Some((class, _)) = REVIEWED.iter().find(|(_, explains)| explains(&case)) {
                met.insert(*class);
            } else {
                differences.push(format!("{mode}: {ask}\n  ours: {own}\n  theirs: {other}"));
            }
        }
    }
    let count = differences.len();
    assert!(
        differences.is_empty(),
        "{count} differences\n{}",
        differences.join("\n")
    );
    assert_eq!(met.len(), REVIEWED.len(), "reviewed, but not met: {met:?}");
}

#[test]
fn zones_of_pdnsutil_in_sqlite_are_answered_as_by_pdns_server() {
    check(None);
}

#[test]
fn zones_of_pdnsutil_in_postgres_are_answered_as_by_pdns_server() {
    check(Some(DatabaseKind::Postgres));
}

#[test]
fn zones_of_pdnsutil_in_mariadb_are_answered_as_by_pdns_server() {
    check(Some(DatabaseKind::Mariadb));
}
