//! Tests of opening a state store: one server at a time, schema versions, files that are not a
//! store.

use super::*;

#[test]
fn a_second_server_is_kept_out() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let second = StateStore::open(directory.path(), BOUNDS).err().unwrap();
    assert!(matches!(second, StateError::InUse(..)), "{second}");
    drop(store);
    open(&directory);
}

#[test]
fn a_missing_directory_is_created_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("state");
    drop(StateStore::open(&directory, BOUNDS).unwrap());
    let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let far = parent.path().join("nowhere/state");
    let error = StateStore::open(&far, BOUNDS).err().unwrap();
    assert!(matches!(error, StateError::Missing(_)), "{error}");
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let directory = TempDir::new().unwrap();
    drop(open(&directory));
    let file = directory.path().join(FILE);
    Connection::open(&file)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let before = std::fs::read(&file).unwrap();
    let error = StateStore::open(directory.path(), BOUNDS).err().unwrap();
    assert!(
        matches!(error, StateError::Newer { found: 99, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("version 99"));
    assert!(StateStore::check(directory.path()).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn an_older_store_is_migrated_in_whole_steps() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store
        .write(vec![append("example.", ZoneStorage::Database, 1, 2)])
        .unwrap();
    drop(store);
    let mut connection = open_to_write(&directory.path().join(FILE)).unwrap();
    let known = schema::MIGRATIONS.len() as i64;
    let steps = |next| [schema::MIGRATIONS, &[next]].concat();
    let bad = schema::migrate(
        &mut connection,
        &steps("CREATE TABLE more (a); SELECT nonsense FROM nowhere"),
    );
    assert!(bad.is_err());
    assert_eq!(schema::version(&connection).unwrap(), known);
    schema::migrate(&mut connection, &steps("CREATE TABLE more (a)")).unwrap();
    assert_eq!(schema::version(&connection).unwrap(), known + 1);
    let kept: i64 = connection
        .query_row("SELECT count(*) FROM journal, more", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 0);
    let kept: i64 = connection
        .query_row("SELECT count(*) FROM journal", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1);
}

#[test]
fn files_that_are_not_stores_are_distinguished() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join(FILE);
    std::fs::write(
        &file,
        b"this is no database, whatever its name says, and it is long enough to show it",
    )
    .unwrap();
    let error = StateStore::open(directory.path(), BOUNDS).err().unwrap();
    assert!(matches!(error, StateError::Corrupt { .. }), "{error}");
    std::fs::remove_file(&file).unwrap();
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE other (a)")
        .unwrap();
    let error = StateStore::open(directory.path(), BOUNDS).err().unwrap();
    assert!(error.to_string().contains("another program"), "{error}");
    let missing = StateStore::check(&directory.path().join("none"))
        .err()
        .unwrap();
    assert!(matches!(missing, StateError::Missing(_)), "{missing}");
}

#[test]
fn a_store_of_each_older_version_keeps_its_journal() {
    for old in 1..schema::MIGRATIONS.len() {
        let directory = TempDir::new().unwrap();
        let mut connection = open_to_write(&directory.path().join(FILE)).unwrap();
        schema::migrate(&mut connection, &schema::MIGRATIONS[..old]).unwrap();
        let change = append("example.", ZoneStorage::Database, 1, 2);
        let StateChange::Append { difference, .. } = &change else {
            unreachable!("append makes one");
        };
        let (removed, added) = (difference.removed.as_bytes(), difference.added.as_bytes());
        let octets = (removed.len() + added.len()) as i64;
        let sql = "INSERT INTO zone (id, name, home, serial, last, base, entries, octets) \
                   VALUES (1, ?1, 0, 2, 1, 1, 1, ?2)";
        let stored = super::super::journal_rows::stored_name(&name("example."));
        connection
            .execute(sql, rusqlite::params![stored, octets])
            .unwrap();
        let sql = "INSERT INTO journal (zone, number, from_serial, to_serial, origin, time, removed, added) \
                   VALUES (1, 1, 1, 2, 1, 9, ?1, ?2)";
        connection
            .execute(sql, rusqlite::params![removed, added])
            .unwrap();
        drop(connection);
        let store = open(&directory);
        let journal = store.journal(&name("example.")).unwrap();
        assert_eq!(journal.len(), 1, "version {old}");
        assert_eq!(
            (journal[0].origin, journal[0].time),
            (JournalOrigin::Change, 9)
        );
        store
            .write(vec![append("example.", ZoneStorage::Database, 2, 3)])
            .unwrap();
        drop(store);
        let report = StateStore::check(directory.path()).unwrap();
        assert_eq!(
            (report.entries, report.faults),
            (2, Vec::new()),
            "version {old}"
        );
    }
}
