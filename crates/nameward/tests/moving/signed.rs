//! Zones that the other server signs: after the move they have the same keys, validate, and their serials continue.

use std::{fs, net::SocketAddr, process::Command};

use nameward_testkit::wait_until;

use super::moved::{assert_lines, dry_run};

/// Runs dig and returns its lines.
fn dig(server: SocketAddr, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("dig")
        .args(["+tries=1", "+time=30"])
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(String::from).collect()
}

/// The serial of a zone, or 0.
pub fn serial(server: SocketAddr, zone: &str) -> u32 {
    let lines = dig(server, &["+short", zone, "SOA"]);
    let soa = lines.first().map(String::as_str).unwrap_or_default();
    let serial = soa.split_whitespace().nth(2).unwrap_or_default();
    serial.parse().unwrap_or(0)
}

/// The keys of a zone, in one order.
pub fn keys(server: SocketAddr, zone: &str) -> Vec<String> {
    let mut keys = dig(server, &["+short", "+tcp", zone, "DNSKEY"]);
    keys.sort();
    keys
}

/// Waits until a server answers a zone with signatures.
pub fn wait_for_signatures(server: SocketAddr, zone: &str) {
    wait_until(&format!("{zone} is signed"), || {
        let lines = dig(server, &["+short", "+dnssec", "+tcp", zone, "SOA"]);
        lines.len() == 2 && !keys(server, zone).is_empty()
    });
}

/// Compares a signed zone before and after a move, and validates it with the keys that it had before.
pub fn compare_signed(before: SocketAddr, after: SocketAddr, zone: &str) {
    wait_for_signatures(after, zone);
    let old = keys(before, zone);
    assert_eq!(old, keys(after, zone), "{zone}");
    let serials = [before, after].map(|server| serial(server, zone));
    assert!(serials[1] > serials[0], "{zone}: {serials:?}");
    let entry = old.iter().find(|key| key.starts_with("257 ")).unwrap();
    let fields: Vec<&str> = entry.split_whitespace().collect();
    let (numbers, public) = (fields[..3].join(" "), fields[3..].concat());
    let dir = tempfile::tempdir().unwrap();
    let anchor = dir.path().join("anchor");
    let text = format!("trust-anchors {{ \"{zone}.\" static-key {numbers} \"{public}\"; }};\n");
    fs::write(&anchor, text).unwrap();
    for name in [format!("www.{zone}"), format!("absent.{zone}")] {
        let output = Command::new("delv")
            .arg(format!("@{}", after.ip()))
            .args(["-p", &after.port().to_string(), "-a"])
            .arg(&anchor)
            .arg(format!("+root={zone}"))
            .args([&name, "A"])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("fully validated"), "{name}: {text}");
    }
}

#[test]
fn a_signed_zone_without_its_keys_is_not_imported() {
    let knot = dry_run(
        "knot",
        "zone:\n  - domain: signed.example\n    storage: {DIR}\n    dnssec-signing: on\n",
    );
    let left_out = "would leak or break: zone signed.example. omitted: ";
    assert_lines(
        &knot,
        &[left_out, "run `knotc zone-flush` and import again"],
    );
    let bind = dry_run(
        "bind",
        "options { directory \"{DIR}\"; };\nzone \"signed.example\" { type primary; file \"x\"; dnssec-policy default; \
         inline-signing yes; };\n",
    );
    assert_lines(&bind, &[left_out, "run `rndc sync` and import again"]);
    for report in [knot, bind] {
        assert!(!report.contains("[[zone]]"), "{report}");
    }
}
