//! Serialisation failures (40001), as databases report them whose transactions are always serialisable: CockroachDB and YugabyteDB.

use super::{change, new_zone, rrset};
use crate::common::block_on;
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_zone::change::Edit;

/// Makes the first statements that change records fail, or the commits of their transactions. A sequence counts them: it
/// is not rolled back.
fn refuse(database: &Database, when: &str, times: u32) {
    let sql = format!(
        "DROP TRIGGER IF EXISTS refused ON records; DROP SEQUENCE IF EXISTS attempts; CREATE SEQUENCE attempts;
         CREATE OR REPLACE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
           IF nextval('attempts') <= {times} THEN
             RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'; END IF;
           RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON records DEFERRABLE INITIALLY {when}
           FOR EACH ROW EXECUTE FUNCTION refuse();"
    );
    database.run(&sql).unwrap();
}

#[test]
fn changes_that_postgres_could_not_serialise_are_retried() {
    let Some(database) = Database::start(DatabaseKind::Postgres) else {
        return;
    };
    let database = database.unwrap();
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    block_on(async {
        let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
        let zone = backend.create_zone(&new_zone("one.test")).await.unwrap();
        let mut serial = zone.serial;
        for (number, when) in ["IMMEDIATE", "DEFERRED"].into_iter().enumerate() {
            refuse(&database, when, 3);
            let owner = format!("n{number}.one.test");
            let edit = Edit::Replace(rrset(&owner, "A", &["192.0.2.7"]));
            let committed = backend.commit(zone.zone, &change(vec![edit])).await;
            let committed = committed.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(committed.serial.is_after(serial), "{when}");
            serial = committed.serial;
            let rows = format!("SELECT count(*) FROM records WHERE name = '{owner}'");
            assert_eq!(database.run(&rows).unwrap().trim(), "1", "{when}");
        }
        // It is given up in time, and says why.
        refuse(&database, "DEFERRED", 1_000_000);
        let edit = Edit::Replace(rrset("never.one.test", "A", &["192.0.2.7"]));
        let refused = backend.commit(zone.zone, &change(vec![edit])).await;
        let refused = refused.map(|committed| committed.serial).unwrap_err();
        assert!(
            refused.to_string().contains("restart transaction"),
            "{refused}"
        );
    });
}
