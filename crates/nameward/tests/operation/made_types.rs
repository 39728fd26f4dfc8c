//! Records that only the signer of a zone makes: no command brings them into a zone that is signed here, and those that a
//! file has are not served beside the ones that are made.

use std::{fs, path::Path};

use nameward_testkit::{Setup, TestServer};

use super::secure::{check_transfer, delv, dig, done, write_anchor};

const ZONE: &str = "$TTL 300\n@ SOA ns1 hostmaster 10 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.2\n";

fn start(home: &Path, text: &str) -> TestServer {
    let file = home.join("one.test.zone");
    fs::write(&file, text).unwrap();
    let state = home.join("state");
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[zone]]\nname = \"one.test\"\nfile = {file:?}\nallow_transfer = [\"127.0.0.1\"]\n"
    );
    Setup::new().without_web().config(&config).start()
}

const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Owner, type and data of records that a signer makes.
fn made_records() -> Vec<(&'static str, &'static str, String)> {
    let key = "257 3 13 mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==";
    vec![
        ("@", "NSEC3PARAM", "1 0 5 AB".into()),
        ("@", "CDS", format!("1 13 2 {DIGEST}")),
        ("@", "CDNSKEY", key.into()),
        ("@", "DNSKEY", key.into()),
        ("@", "ZONEMD", format!("10 1 1 {}", "0".repeat(96))),
        ("www", "NSEC", "one.test. A".into()),
        (
            "www",
            "RRSIG",
            "A 13 3 300 20300101000000 20200101000000 1 one.test. AAAA".into(),
        ),
    ]
}

#[test]
fn a_zone_signed_here_takes_no_record_that_signing_makes() {
    let home = tempfile::tempdir().unwrap();
    let server = start(home.path(), ZONE);
    done(&server, &["zone", "secure", "one.test"]);
    for (owner, rtype, data) in &made_records() {
        for verb in ["set", "add"] {
            let output = server.command(&["record", verb, "one.test", owner, rtype, "60", data]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "record {verb} {rtype}: taken");
            assert!(
                said.contains("made by the server that signs the zone"),
                "record {verb} {rtype}: {said}"
            );
        }
    }
    check_transfer(server.address(), "one.test", home.path());
    // RFC 9615: the keys of another zone, announced below a name server's name.
    let cds = format!("1 13 2 {DIGEST}");
    let signal = [
        "record",
        "set",
        "one.test",
        "_dsboot.child._signal.ns1",
        "CDS",
    ];
    done(&server, &[&signal[..], &["60", &cds]].concat());
    let anchor = home.path().join("anchor");
    write_anchor(&server, "one.test", &anchor);
    let question = ["_dsboot.child._signal.ns1.one.test", "CDS"];
    let said = delv(server.address(), ("one.test", &anchor), &question);
    assert!(said.contains("; fully validated"), "{said}");
}

#[test]
fn an_unsigned_zone_takes_keys_and_cds_but_neither_signatures_nor_denial() {
    let home = tempfile::tempdir().unwrap();
    let server = start(home.path(), ZONE);
    for (owner, rtype, data) in &made_records() {
        let output = server.command(&["record", "set", "one.test", owner, rtype, "60", data]);
        let is_refused = matches!(*rtype, "NSEC" | "RRSIG");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), !is_refused, "{rtype}: {said}");
    }
}

#[test]
fn what_a_file_brings_of_made_records_is_not_served_beside_them() {
    let home = tempfile::tempdir().unwrap();
    let text = format!("{ZONE}@ NSEC3PARAM 1 0 5 AB\n@ CDS 1 13 2 {DIGEST}\n");
    let server = start(home.path(), &text);
    let ask = |rtype: &str| dig(server.address(), &["one.test", rtype, "+short"]);
    assert!(ask("NSEC3PARAM").contains("1 0 5 AB"));
    done(&server, &["zone", "secure", "one.test"]);
    assert!(
        !ask("NSEC3PARAM").contains("1 0 5"),
        "{}",
        ask("NSEC3PARAM")
    );
    let cds = ask("CDS");
    assert!(cds.contains(" 13 2 ") && !cds.contains(DIGEST), "{cds}");
    check_transfer(server.address(), "one.test", home.path());
    done(
        &server,
        &["zone", "secure", "one.test", "--denial", "nsec3"],
    );
    let params = ask("NSEC3PARAM");
    assert!(
        params.contains("1 0 0 -") && !params.contains("1 0 5"),
        "{params}"
    );
    check_transfer(server.address(), "one.test", home.path());
    done(&server, &["zone", "unsecure", "one.test", "--force"]);
    assert!(ask("NSEC3PARAM").contains("1 0 5 AB"));
}
