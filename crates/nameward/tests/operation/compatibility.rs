//! Configuration and state store of earlier versions: a newer server continues from them.

use std::{fs, path::Path, process::Command};

use nameward_base::time::now_seconds;
use nameward_testkit::{Setup, TestServer};
use rusqlite::Connection;

use super::ask::{answered_address, serial};

/// The secret of `transfer.` in the store.
const SECRET: &str = "XvAR655U8cxPyGcq1MN/n+mEeAoVaJJE/QGDp2no/p0=";
/// The start of the public key of signed.test in the store.
const PUBLIC_KEY: &str = "Y7tCwXtCgR/Ulg6YXDsJNsCH2QhOEhB1rDTdn4BjANimyIJViF2vB5+l";

fn dig(server: &TestServer, arguments: &[&str]) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1"])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a server's directory as version 0.1.0 left it, and its configuration.
fn setup_of_0_1_0() -> Setup {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility/0.1.0");
    let setup = Setup::new();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let store = Connection::open(state.join("state.db")).unwrap();
    store
        .execute_batch(&fs::read_to_string(old.join("state.sql")).unwrap())
        .unwrap();
    // As if that server had stopped just now: the secondary zone would have expired by its SOA.
    let now = now_seconds() as i64;
    let timers = "UPDATE timer SET refreshed = ?1, next_check = ?1 + 3600, expires = ?1 + 604800";
    store.execute(timers, [now]).unwrap();
    drop(store);
    for file in ["file.test", "signed.test"] {
        let from = old.join(format!("zones/{file}.zone"));
        fs::copy(from, setup.dir().join(format!("zones/{file}.zone"))).unwrap();
    }
    let config = fs::read_to_string(old.join("nameward.toml")).unwrap();
    setup.config(&config)
}

#[test]
fn a_server_continues_with_the_configuration_and_state_of_0_1_0() {
    let server = setup_of_0_1_0().start();
    let at = server.address();
    // Changes by update and by command, from the journal.
    assert_eq!(serial(at, "file.test"), 12);
    assert_eq!(answered_address(at, "new.file.test"), Some([192, 0, 2, 77]));
    let text = dig(&server, &["+short", "txt.file.test", "TXT"]);
    assert_eq!(text.trim(), "\"made by command\"");
    // The secondary zone, whose primary is down.
    assert_eq!(
        answered_address(at, "www.secondary.test"),
        Some([192, 0, 2, 10])
    );
    // The same key, and it signs.
    let keys = dig(&server, &["+short", "signed.test", "DNSKEY"]);
    assert!(keys.contains(PUBLIC_KEY), "{keys}");
    assert_eq!(keys.lines().count(), 1, "{keys}");
    let signed = dig(&server, &["+dnssec", "+short", "www.signed.test", "A"]);
    assert!(signed.contains("A 13 3 300"), "{signed}");
    // The TSIG key.
    let key = format!("hmac-sha256:transfer.:{SECRET}");
    let transfer = dig(&server, &["-y", &key, "file.test", "AXFR"]);
    assert!(transfer.contains("new.file.test."), "{transfer}");
    let log = server.log();
    assert!(!log.contains("ERROR"), "{log}");
}
