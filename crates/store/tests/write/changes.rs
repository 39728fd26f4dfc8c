//! Changes of a SQLite database: stored, refused, one after another.

use super::*;

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
