//! The same zone through every engine, live and resident; change notices; databases that go away.

use crate::common::{Row, SqliteFixture, answer, block_on, name, resident, row, until_noticed};
use nameward_sql::db::ForeignKind;
use nameward_sql::{Change, DatabaseAddress, LiveZone, SqlBackend, SqlError, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{Zone, ZoneBuilder};
use std::time::{Duration, Instant};

const ZONE: &str = r#"
$TTL 300
@ SOA ns1 host 1 2 3 4 5
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
mail AAAA 2001:db8::2
www CNAME mail
a.b.c A 192.0.2.3
*.wild TXT "any \"quoted\" ; text" "two"
sub NS ns.sub
sub NS ns.elsewhere.test.
ns.sub A 192.0.2.4
old DNAME new
x.new A 192.0.2.5
_sip._tcp SRV 1 2 3 mail
svc HTTPS 1 . alpn=h2
svc A 192.0.2.6
w\.x A 192.0.2.7
\(sp\032ace A 192.0.2.8
loop1 CNAME loop2
loop2 CNAME loop1
long TXT "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
"#;

fn rows() -> Vec<Row> {
    let e = "example.org";
    let mut rows = vec![
        row(e, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
        row(e, "NS", "ns1.example.org"),
        row(e, "mx", "mail.example.org"),
        row("ns1.example.org", "A", "192.0.2.1"),
        row("mail.example.org", "A", "192.0.2.2"),
        row("mail.example.org", "AAAA", "2001:db8::2"),
        row("www.example.org", "CNAME", "mail.example.org"),
        row("a.b.c.example.org", "A", "192.0.2.3"),
        row(
            "*.wild.example.org",
            "TXT",
            r#""any \"quoted\" ; text" "two""#,
        ),
        row("sub.example.org", "NS", "ns.sub.example.org"),
        row("sub.example.org", "NS", "ns.elsewhere.test"),
        row("ns.sub.example.org", "A", "192.0.2.4"),
        row("old.example.org", "DNAME", "new.example.org"),
        row("x.new.example.org", "A", "192.0.2.5"),
        Row {
            prio: Some(1),
            ..row("_sip._tcp.example.org", "SRV", "2 3 mail.example.org")
        },
        row("svc.example.org", "HTTPS", "1 . alpn=h2"),
        row("svc.example.org", "A", "192.0.2.6"),
        row(r"w\.x.example.org", "A", "192.0.2.7"),
        row(r"(sp\032ace.example.org", "A", "192.0.2.8"),
        row("loop1.example.org", "CNAME", "loop2.example.org"),
        row("loop2.example.org", "CNAME", "loop1.example.org"),
        row(
            "long.example.org",
            "TXT",
            &format!("\"{}\"", "0123456789".repeat(28)),
        ),
    ];
    rows.push(Row {
        rtype: None,
        ..row("b.c.example.org", "", "")
    });
    rows.push(Row {
        disabled: true,
        ..row("off.example.org", "A", "192.0.2.99")
    });
    rows
}

fn from_file() -> Zone {
    let apex = name("example.org");
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", ZONE.as_bytes(), &Options::new(apex), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.expect("a zone")
}

fn questions() -> Vec<NameBuf> {
    let mut list = vec!["example.org".to_string()];
    for row in rows() {
        let mut at = row.name.as_str();
        while at != "example.org" {
            list.extend([at.to_string(), format!("zz.{at}"), format!("a.b.zz.{at}")]);
            // The escaped dot is no end of a label.
            let from = if at.starts_with(r"w\.x") { 4 } else { 0 };
            at = at[from..].split_once('.').expect("a parent").1;
        }
    }
    list.push("nothing.example.org".to_string());
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// Every answer of a backend, live and resident, is that of the zone file.
async fn check_contract(backend: &SqlBackend, what: &str) {
    let live = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let file = from_file();
    let mut several = [(live, ZoneBuilder::new(live.apex.as_name()))];
    let loaded = backend.load_zones(&mut several).await;
    let loaded = loaded.unwrap_or_else(|error| panic!("{what}: many zones at once: {error}"));
    let whole = resident(backend, &live).await;
    let (records, [(_, builder)]) = (loaded[0].records, several);
    let (several, _) = builder.finish();
    assert_eq!(several.unwrap().name_count(), whole.name_count(), "{what}");
    assert!(records as usize > whole.name_count() / 2, "{what}");
    assert_eq!(whole.name_count(), file.name_count(), "{what}");
    for qname in questions() {
        let part = backend
            .lookup(&live, qname.as_name())
            .await
            .unwrap_or_else(|error| panic!("{what}: {qname}: {error}"));
        for qtype in [1, 2, 5, 6, 15, 16, 28, 33, 39, 43, 65, 255].map(Type) {
            let expected = answer(&file, &qname, qtype);
            assert_eq!(
                answer(&whole, &qname, qtype),
                expected,
                "{what}, resident: {qname} {qtype}"
            );
            let live = answer(&part.zone, &qname, qtype);
            assert_eq!(live, expected, "{what}, live: {qname} {qtype}");
        }
    }
    let zones = backend.zones().await.unwrap();
    assert_eq!(zones.len(), 1);
    assert_eq!(zones.rows().next().unwrap().name, name("example.org"));
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn fill(database: &Database, is_mysql: bool) {
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    // Twice, as an operator would.
    assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    let mut sql = String::new();
    if is_mysql {
        sql.push_str("SET sql_mode = 'NO_BACKSLASH_ESCAPES';\n");
    }
    sql.push_str("INSERT INTO domains (id, name, type) VALUES (1, 'example.org', 'NATIVE');\n");
    for row in rows() {
        let number = |n: Option<i64>| n.map_or("NULL".to_string(), |n| n.to_string());
        sql.push_str(&format!(
            "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled) \
             VALUES (1, {}, {}, {}, {}, {}, {});\n",
            quoted(&row.name),
            row.rtype.map_or("NULL".into(), quoted),
            quoted(&row.content),
            number(row.ttl),
            number(row.prio),
            row.disabled
        ));
    }
    database.run(&sql).unwrap();
    let report = block_on(db::check(&address)).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn backend(url: &str) -> SqlBackend {
    let mut options = SqlOptions::for_tests(DatabaseAddress::parse(url).unwrap());
    options.timeout = Duration::from_secs(5);
    SqlBackend::new(options).unwrap()
}

#[test]
fn sqlite_keeps_the_contract() {
    let fixture = SqliteFixture::new("example.org", &rows());
    block_on(check_contract(&fixture.backend(), "sqlite"));
}

/// Everything that needs a running database, in one test each: starting one takes seconds.
fn check_database(kind: DatabaseKind) {
    let Some(database) = Database::start(kind) else {
        return;
    };
    let mut database = database.unwrap();
    fill(&database, kind == DatabaseKind::Mariadb);
    block_on(check_contract(&backend(&database.url()), "over TCP"));
    block_on(check_contract(
        &backend(&database.socket_url()),
        "over a socket",
    ));
    block_on(check_changes(&database));
    block_on(check_terms(&database));
    block_on(check_failures(&mut database));
    check_bad_schema(&database);
    block_on(check_cancelled(&database, kind));
}

/// A statement without a waiting query is cancelled in the database, too: it would take ten minutes.
async fn check_cancelled(database: &Database, kind: DatabaseKind) {
    let mut options = SqlOptions::for_tests(DatabaseAddress::parse(&database.url()).unwrap());
    options.timeout = Duration::from_millis(500);
    let backend = SqlBackend::new(options).unwrap();
    let live = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let www = name("www.example.org");
    let lookup = async || backend.lookup(&live, www.as_name()).await.map(|_| ());
    settle(&lookup).await;
    let (sleep, active) = match kind {
        DatabaseKind::Postgres => (
            "pg_sleep(600)",
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'nameward' AND state = 'active' AND query LIKE '%records%'",
        ),
        DatabaseKind::Mariadb => (
            "SLEEP(600)",
            "SELECT count(*) FROM information_schema.processlist \
             WHERE id <> connection_id() AND info LIKE '%records%'",
        ),
    };
    let slow = format!(
        "ALTER TABLE records RENAME TO stored; \
         CREATE VIEW records AS SELECT stored.* FROM (SELECT {sleep} AS slept) AS slow CROSS JOIN stored"
    );
    database.run(&slow).unwrap();
    let ended = lookup().await;
    assert!(matches!(ended, Err(SqlError::Timeout(_))), "{ended:?}");
    let start = Instant::now();
    loop {
        let text = database.run(active).unwrap();
        let mut words = text.split_whitespace();
        if words.any(|word| word == "0") {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{kind:?}: {text}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn check_changes(database: &Database) {
    let backend = backend(&database.url());
    let mut changes = backend.watch().0;
    let run = |sql: &str| drop(database.run(sql).unwrap());
    until_noticed(&mut changes, Change::Zone(1, None), || {
        run("UPDATE records SET ttl = ttl + 1 WHERE name = 'svc.example.org' AND type = 'A'");
    })
    .await;
    until_noticed(&mut changes, Change::Zone(9, None), || {
        run("DELETE FROM domains WHERE id = 9");
        run("INSERT INTO domains (id, name, type) VALUES (9, 'new.test', 'NATIVE')");
    })
    .await;
    assert_eq!(
        backend.zone(9).await.unwrap().unwrap().name,
        name("new.test")
    );
    database.run("DELETE FROM domains WHERE id = 9").unwrap();
    assert!(backend.zone(9).await.unwrap().is_none());
}

async fn check_failures(database: &mut Database) {
    let mut options = SqlOptions::for_tests(DatabaseAddress::parse(&database.url()).unwrap());
    options.timeout = Duration::from_millis(500);
    let backend = SqlBackend::new(options).unwrap();
    let live = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let www = name("www.example.org");
    let lookup = async || backend.lookup(&live, www.as_name()).await.map(|_| ());
    // The first connection may take longer than the time given to a look-up.
    settle(&lookup).await;
    database.pause();
    let paused = lookup().await;
    database.resume();
    assert!(matches!(paused, Err(SqlError::Timeout(_))), "{paused:?}");
    assert!(!backend.health().is_up);
    settle(&lookup).await;
    assert!(backend.health().is_up);
    database.kill();
    let mut last = Ok(());
    for _ in 0..20 {
        last = lookup().await;
        if matches!(last, Err(SqlError::Unavailable(_))) {
            break;
        }
    }
    assert!(matches!(last, Err(SqlError::Unavailable(_))), "{last:?}");
    assert!(!backend.health().is_up);
    database.restart().unwrap();
    settle(&lookup).await;
    assert!(backend.health().is_up);
}

/// Asks until an answer comes: back-off and a busy machine may take a while.
async fn settle(lookup: &impl AsyncFn() -> Result<(), SqlError>) {
    let mut last = Ok(());
    for _ in 0..300 {
        last = lookup().await;
        if last.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the database is not used again: {last:?}");
}

/// Metadata about transfers, keys of TSIG and autoprimaries are read as PowerDNS writes them.
async fn check_terms(database: &Database) {
    database
        .run(
            "INSERT INTO domains (id, name, type) VALUES (60, 'terms.test', 'MASTER'); \
             INSERT INTO domainmetadata (domain_id, kind, content) VALUES \
             (60, 'ALLOW-AXFR-FROM', '192.0.2.1'), (60, 'ALLOW-AXFR-FROM', 'AUTO-NS'), \
             (60, 'SOA-EDIT', 'EPOCH'), (60, 'TSIG-ALLOW-AXFR', 'k'); \
             INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('k', 'hmac-sha256', 'c2VjcmV0'); \
             INSERT INTO supermasters (ip, nameserver, account) VALUES ('192.0.2.54', 'ns.test', 'x')",
        )
        .unwrap();
    let backend = backend(&database.url());
    let all = backend.setting_items(None).await.unwrap();
    let one = backend.setting_items(Some(60)).await.unwrap();
    assert_eq!((all.len(), one.len()), (1, 1));
    for items in [all, one] {
        let mut items: Vec<_> = items[&60]
            .iter()
            .map(|item| (item.kind, &*item.content))
            .collect();
        items.sort_unstable();
        let expected = [
            ("ALLOW-AXFR-FROM", "192.0.2.1"),
            ("ALLOW-AXFR-FROM", "AUTO-NS"),
            ("TSIG-ALLOW-AXFR", "k"),
        ];
        assert_eq!(items, expected);
    }
    let keys = backend.tsig_keys().await.unwrap();
    let shown = format!("{keys:?}");
    assert_eq!(shown, "[StoredTsigKey(k. hmac-sha256)]");
    let autoprimaries = backend.autoprimaries().await.unwrap();
    assert_eq!(autoprimaries[0].address.to_string(), "192.0.2.54:53");
    assert_eq!(autoprimaries[0].name_server, name("ns.test"));
    database
        .run("ALTER TABLE tsigkeys RENAME TO other")
        .unwrap();
    assert!(matches!(
        backend.tsig_keys().await,
        Err(SqlError::Refused(_))
    ));
    let back = "ALTER TABLE other RENAME TO tsigkeys; DELETE FROM tsigkeys; DELETE FROM supermasters; \
                DELETE FROM domainmetadata WHERE domain_id = 60; DELETE FROM domains WHERE id = 60";
    database.run(back).unwrap();
}

fn check_bad_schema(database: &Database) {
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    database
        .run("INSERT INTO records (id, domain_id, name, type, content) VALUES (777, 1, 'bad.example.org', 'A', 'nonsense')")
        .unwrap();
    database
        .run(
            "INSERT INTO domains (id, name, type) VALUES (50, 'slave.test', 'SLAVE'); \
             INSERT INTO records (id, domain_id, name, type, content) VALUES \
             (778, 50, 'slave.test', 'SOA', 'a.test b.test 1 2 3 4 5'), (779, 50, 'slave.test', 'NS', 'a.test'), \
             (780, 1, 'both.example.org', 'A', '192.0.2.1'), (781, 1, 'both.example.org', 'CNAME', 'a.test'), \
             (782, 1, 'lua.example.org', 'LUA', 'A \"x\"'); \
             INSERT INTO domainmetadata (domain_id, kind, content) VALUES (50, 'PRESIGNED', '1'), \
             (50, 'LUA-AXFR-SCRIPT', '/x.lua'), (50, 'GSS-ALLOW-AXFR-PRINCIPAL', 'a@X'), \
             (50, 'GSS-ALLOW-AXFR-PRINCIPAL', 'b@X'); \
             INSERT INTO supermasters (ip, nameserver, account) VALUES ('192.0.2.53', 'a.test', 'x')",
        )
        .unwrap();
    let report = block_on(db::check(&address)).unwrap();
    let kinds: Vec<_> = report.foreign.iter().map(|content| content.kind).collect();
    use ForeignKind::{Gss, Lua, LuaTransfer, Presigned};
    assert_eq!(kinds, [Lua, Presigned, LuaTransfer, Gss]);
    for content in &report.foreign[1..] {
        assert_eq!(
            (content.count, &content.names[..]),
            (1, &["slave.test".to_string()][..])
        );
    }
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.error.table, row.error.id))
        .collect();
    assert_eq!(rows.len(), 2, "{:?}", report.rows);
    assert!(rows.contains(&("records", 777)), "{rows:?}");
    assert!(matches!(rows[1], ("records", 780 | 781)), "{rows:?}");
    database
        .run("DROP TABLE tsigkeys; ALTER TABLE domains DROP COLUMN last_check")
        .unwrap();
    let report = block_on(db::check(&address)).unwrap();
    assert_eq!(
        report.schema,
        [
            "column last_check of table domains is missing",
            "table tsigkeys is missing"
        ]
    );
    let zones = block_on(backend(&database.url()).zones());
    assert!(matches!(zones, Err(SqlError::Refused(_))), "{zones:?}");
}

#[test]
fn postgresql_keeps_the_contract_notices_changes_and_comes_back() {
    check_database(DatabaseKind::Postgres);
}

#[test]
fn mariadb_keeps_the_contract_notices_changes_and_comes_back() {
    check_database(DatabaseKind::Mariadb);
}

/// A server reports the path of its socket. Behind a tunnel that path may belong to another server of this machine.
#[test]
fn a_mysql_address_with_a_host_is_never_left_for_the_socket_that_the_server_names() {
    let kind = DatabaseKind::Mariadb;
    let (Some(named), Some(other)) = (Database::start(kind), Database::start(kind)) else {
        return;
    };
    let (named, other) = (named.unwrap(), other.unwrap());
    for database in [&named, &other] {
        let address = DatabaseAddress::parse(&database.socket_url()).unwrap();
        assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    }
    let (socket, aside) = (
        named.directory().join("socket"),
        named.directory().join("aside"),
    );
    std::fs::rename(&socket, &aside).unwrap();
    std::os::unix::fs::symlink(other.directory().join("socket"), &socket).unwrap();
    let backend = backend(&named.url());
    let zone = nameward_sql::write::NewZone {
        attributes: Vec::new(),
        name: name("example.org"),
        kind: nameward_zone::ZoneKind::Native,
        primaries: None,
        account: String::new(),
        key: None,
        rrsets: Vec::new(),
        now: std::time::SystemTime::UNIX_EPOCH,
    };
    block_on(backend.create_zone(&zone)).unwrap();
    std::fs::rename(&aside, &socket).unwrap();
    let count = "SELECT COUNT(*) FROM domains";
    assert_eq!(named.run(count).unwrap(), "1\n");
    assert_eq!(other.run(count).unwrap(), "0\n");
}
