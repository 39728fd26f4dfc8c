//! A digest (ZONEMD) in a live zone with another serial: it is in no answer and no transfer, and is logged once.

use std::process::Command;

use nameward_testkit::{Setup, TestServer};

use super::operation::{wait_for, zone};
use super::rows::Sqlite;

fn dig(server: &TestServer, rtype: &str) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", "+noall", "+answer"])
        .args(["one.test", rtype])
        .output()
        .unwrap_or_else(|error| panic!("dig: {error}: run scripts/install-deps"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_digest_of_another_serial_in_a_live_zone_is_left_out_of_answers_and_transfers() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let digest = format!("7 1 1 {}", "0".repeat(96));
    database.run(&format!(
        "INSERT INTO records (domain_id, name, type, content, ttl) \
         SELECT id, 'one.test', 'ZONEMD', '{digest}', 60 FROM domains"
    ));
    let config = format!(
        "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n{}",
        database.backend("live")
    );
    let server = setup.config(&config).start();
    wait_for(&server, "www.one.test.", (0, 10));
    let transferred = dig(&server, "AXFR");
    assert!(
        transferred.contains("www.one.test.") && !transferred.contains("ZONEMD"),
        "{transferred}"
    );
    for _ in 0..2 {
        assert_eq!(dig(&server, "ZONEMD"), "");
    }
    let warning = "zone one.test.: the ZONEMD record is of another serial than 1";
    assert_eq!(server.log().matches(warning).count(), 1, "{}", server.log());
    // With the serial of the digest it is served.
    database.run(
        "UPDATE records SET content = 'ns1.one.test. host.one.test. 7 7200 3600 1209600 300' WHERE type = 'SOA'",
    );
    server.wait_until("the digest", || dig(&server, "ZONEMD").contains("ZONEMD"));
    let transferred = dig(&server, "AXFR");
    assert!(transferred.contains("ZONEMD"), "{transferred}");
}
