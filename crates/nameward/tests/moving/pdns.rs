//! A move from PowerDNS: a SQLite database with keys, TSIG and metadata, and zone files of the bind backend.

use std::{path::Path, process::Command};

use nameward_testkit::peers::PeerKind;

use super::moved::{OldServer, assert_report, compare, dry_run, rcode, transfer, zone};
use super::signed::serial;

const CONF: &str = include_str!("conf/pdns.conf");
const DATABASE: &str = include_str!("conf/pdns-database.conf");
const NAMED: &str = "zone \"file.example\" { type native; file \"{DIR}/zones/file.example\"; };\n";
const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some(old) = old_server() else {
        return;
    };
    let output = old.import("pdns", "pdns.conf", &["--dry-run"]);
    assert_report("pdns.report", &old.report(&output, None));
    // Keys of zones in files would be lost, and Lua is not run.
    assert_eq!(output.status.code(), Some(1));
    let new = old.move_in("pdns", "pdns.conf");
    let (before, after) = (old.address, new.address());
    compare(
        before,
        after,
        &["one.example", "two.example", "file.example"],
    );
    let signed = transfer(before, "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(after, "one.example", true), signed);
    for server in [before, after] {
        assert_eq!(
            rcode(server, "127.0.0.1", "www.elsewhere.example", "A"),
            "REFUSED"
        );
        assert_eq!(transfer(server, "one.example", false), Vec::<String>::new());
        // ALLOW-AXFR-FROM of the zone.
        assert!(transfer(server, "two.example", false).len() > 10);
    }
    // default-soa-edit-signed changes the served serial.
    let serials = [before, after].map(|server| serial(server, "signed.example"));
    assert_ne!(serials[0], 2_026_111_501);
    assert_eq!(serials[0], serials[1]);
}

#[test]
fn the_api_is_converted_with_its_key_and_access_list() {
    let report = dry_run(
        "pdns",
        "launch=gsqlite3\ngsqlite3-database=none.sqlite3\napi\napi-key=secret\nwebserver-allow-from=192.0.2.0/24\n",
    );
    for line in [
        "x.conf:3: converted: api: the API answers on the same port",
        "x.conf:4: converted: api-key",
        "x.conf:5: converted: webserver-allow-from",
        "[api]\n",
        "key = \"secret\"",
        "listen = \"127.0.0.1:8081\"",
        "allow_from = [\"192.0.2.0/24\"]",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    let off = dry_run(
        "pdns",
        "launch=gsqlite3\ngsqlite3-database=none.sqlite3\nwebserver=yes\napi-key=secret\n",
    );
    assert!(
        off.contains("x.conf:4: not needed: api-key: api is off"),
        "{off}"
    );
    assert!(!off.contains("[api]"), "{off}");
}

#[test]
fn a_switch_without_a_value_is_on() {
    let report = dry_run(
        "pdns",
        "launch=gsqlite3\ngsqlite3-database=none.sqlite3\ngsqlite3-dnssec\nslave\nmaster=\n",
    );
    for line in [
        "x.conf:3: not needed: gsqlite3-dnssec",
        "x.conf:4: converted: secondary: secondary zones are transferred from their primaries",
        "x.conf:5: converted: primary: primary zones notify their name servers",
        // The file is not created by reading it.
        "none.sqlite3: cannot be read (no such file)",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
}

#[test]
fn default_soa_edit_is_a_setting_for_signed_zones() {
    let conf = |lines| format!("launch=gsqlite3\ngsqlite3-database=none.sqlite3\n{lines}");
    let report = dry_run("pdns", &conf("default-soa-edit=inception-epoch\n"));
    for line in [
        "x.conf:3: converted with changes: default-soa-edit: soa_edit in [zone_defaults], for signed zones only",
        "soa_edit = \"INCEPTION-EPOCH\"",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    let unknown = dry_run("pdns", &conf("default-soa-edit-signed=SOMETIMES\n"));
    assert!(
        unknown
            .contains("would leak or break: default-soa-edit-signed: unknown value \"SOMETIMES\""),
        "{unknown}"
    );
}

/// Runs pdnsutil on the configuration of a directory.
fn pdnsutil(dir: &Path, arguments: &[&str]) {
    let output = Command::new("pdnsutil")
        .arg(format!("--config-dir={}", dir.display()))
        .args(arguments)
        .output()
        .expect("pdnsutil is installed with pdns_server");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
}

fn old_server() -> Option<OldServer> {
    PeerKind::PowerDns.require()?;
    let one = zone("one.example");
    let two = zone("two.example");
    let signed = zone("signed.example");
    let file = zone("file.example");
    let files = [
        ("pdns.conf", CONF),
        ("pdns.d/database.conf", DATABASE),
        ("named.conf", NAMED),
        ("zones/one.example", &one),
        ("zones/two.example", &two),
        ("zones/signed.example", &signed),
        ("zones/file.example", &file),
    ];
    OldServer::start(
        PeerKind::PowerDns,
        &files,
        &["one.example", "two.example", "file.example"],
        None,
        |dir| {
            fill(dir);
            vec![format!("--config-dir={}", dir.display())]
        },
    )
}

/// Makes the database with PowerDNS's own tool.
fn fill(dir: &Path) {
    let database = dir.join("pdns.sqlite3");
    if database.exists() {
        return;
    }
    let connection = rusqlite::Connection::open(&database).unwrap();
    let schema = std::fs::read_to_string(SCHEMA).expect("pdns-backend-sqlite3 is installed");
    connection.execute_batch(&schema).unwrap();
    drop(connection);
    for name in ["one.example", "two.example", "signed.example"] {
        let file = dir.join("zones").join(name);
        pdnsutil(dir, &["load-zone", name, file.to_str().unwrap()]);
    }
    pdnsutil(dir, &["secure-zone", "signed.example"]);
    // Contents that this server does not use.
    for (kind, content) in [
        ("LUA-AXFR-SCRIPT", "/etc/powerdns/axfr.lua"),
        ("GSS-ALLOW-AXFR-PRINCIPAL", "host@EXAMPLE"),
    ] {
        pdnsutil(dir, &["set-meta", "two.example", kind, content]);
    }
    // Without it PowerDNS does not know the empty non-terminals.
    pdnsutil(dir, &["rectify-all-zones"]);
    let secret = "bW92aW5nIGluIHdpdGggYSBrZXkhIQ==";
    pdnsutil(
        dir,
        &["import-tsig-key", "transfer.example", "hmac-sha256", secret],
    );
    pdnsutil(
        dir,
        &[
            "activate-tsig-key",
            "one.example",
            "transfer.example",
            "primary",
        ],
    );
    pdnsutil(
        dir,
        &["set-meta", "two.example", "ALLOW-AXFR-FROM", "127.0.0.0/8"],
    );
}
