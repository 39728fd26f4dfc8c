//! The message sequences of external-dns and cert-manager: both list or look up first, then update with the same key.

use std::process::Command;

use nameward_testkit::TestServer;

use super::ask::{answered_address, rcode};
use super::update::{nsupdate, run, setup};

const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";
const ALLOWED: &str =
    "allow_update = [\"key:ddns.example.\"]\nallow_transfer = [\"key:ddns.example.\"]";

/// The answer of `dig`, a line a record, with single spaces.
fn dig(server: &TestServer, words: &str) -> Vec<String> {
    let (ip, port) = (server.address().ip(), server.address().port());
    let all = format!("{words} @{ip} -p {port} +noall +comments +answer +time=30 +tries=1");
    let output = Command::new("dig").args(all.split(' ')).output();
    let output = output.expect("dig is installed: run scripts/install-deps");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Shown if the test fails: an empty answer has several causes.
    println!("{words}: {text}");
    let plain = text
        .lines()
        .filter(|line| !line.starts_with(';') && !line.is_empty());
    plain
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn external_dns_lists_the_zone_by_axfr_and_updates_it_with_the_same_key() {
    let server = setup(ALLOWED).start();
    let at = server.address();
    let signed = format!("dyn.example AXFR -y hmac-sha256:ddns.example.:{SECRET}");
    let before = dig(&server, &signed);
    assert_eq!(before.len(), 6, "{before:?}");
    assert_eq!(dig(&server, "dyn.example AXFR"), [""; 0], "not signed");
    // One message for a name and its ownership record, over UDP and over TCP.
    let key = format!("hmac-sha256:ddns.example.:{SECRET}");
    for (number, transport) in [&["-t", "30"][..], &["-v", "-t", "30"]].iter().enumerate() {
        let arguments = [transport, &["-y", key.as_str()][..]].concat();
        let host = format!("app{number}.dyn.example.");
        let lines = format!(
            "update add {host} 300 A 192.0.2.50\n\
             update add a-{host} 300 TXT \"heritage=external-dns,external-dns/owner=me\""
        );
        assert_eq!(
            run("nsupdate", &arguments, at, &lines),
            (true, String::new())
        );
        // A changed target: the old records are removed and the new ones added in one message.
        let lines =
            format!("update delete {host} A 192.0.2.50\nupdate add {host} 300 A 192.0.2.51");
        assert_eq!(
            run("nsupdate", &arguments, at, &lines),
            (true, String::new())
        );
        let after = dig(&server, &signed);
        assert!(
            after.contains(&format!("{host} 300 IN A 192.0.2.51")),
            "{after:?}"
        );
        assert!(
            !after.contains(&format!("{host} 300 IN A 192.0.2.50")),
            "{after:?}"
        );
        let owner = format!("a-{host} 300 IN TXT \"heritage=external-dns,external-dns/owner=me\"");
        assert!(after.contains(&owner), "{after:?}");
        let lines = format!("update delete {host} A 192.0.2.51\nupdate delete a-{host} TXT");
        assert_eq!(
            run("nsupdate", &arguments, at, &lines),
            (true, String::new())
        );
    }
    let after = dig(&server, &signed);
    assert_eq!(after.len(), before.len(), "{after:?}");
}

#[test]
fn cert_manager_finds_the_zone_adds_a_challenge_and_removes_it() {
    let server = setup(
        "update_policy = [{ key = \"ddns.example.\", name = \"_acme-challenge.www.dyn.example\", types = [\"TXT\"] }]",
    )
    .start();
    let challenge = "_acme-challenge.www.dyn.example";
    // It queries the SOA at each ancestor until one is found.
    assert_eq!(dig(&server, &format!("{challenge} SOA")), [""; 0]);
    assert_eq!(dig(&server, "www.dyn.example SOA"), [""; 0]);
    assert_eq!(dig(&server, "dyn.example SOA").len(), 1);
    for value in ["first", "second"] {
        let lines =
            format!("update delete {challenge}. TXT\nupdate add {challenge}. 60 TXT {value}");
        assert_eq!(nsupdate(&server, &lines), (true, String::new()));
        let found = dig(&server, &format!("{challenge} TXT"));
        assert_eq!(found, [format!("{challenge}. 60 IN TXT \"{value}\"")]);
    }
    let lines = format!("update delete {challenge}. TXT \"second\"");
    assert_eq!(nsupdate(&server, &lines), (true, String::new()));
    assert_eq!(rcode(server.address(), challenge), 3);
    // The key is only valid for the challenge.
    let lines = "update add www.dyn.example. 60 A 192.0.2.66";
    assert!(nsupdate(&server, lines).1.contains("REFUSED"));
    let answer = answered_address(server.address(), "www.dyn.example");
    assert_ne!(answer, Some([192, 0, 2, 66]));
}
