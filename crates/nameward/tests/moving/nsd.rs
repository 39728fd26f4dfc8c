//! A move from NSD: patterns, keys, blocked networks, a secondary, a list of added zones.

use nameward_testkit::peers::{Peer, PeerKind};

use super::moved::{
    OldServer, assert_lines, assert_report, compare, compare_transfers, dry_run, primary_of_copy,
    rcode, transfer, wait_for, with_zones,
};

const CONF: &str = include_str!("conf/nsd.conf");
const MORE: &str = include_str!("conf/nsd-more.conf");

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    let output = old.import("nsd", "nsd.conf", &["--dry-run"]);
    assert_report("nsd.report", &old.report(&output, Some(primary.addr())));
    // A zone with a key for queries is not converted.
    assert_eq!(output.status.code(), Some(1));
    let new = old.move_in("nsd", "nsd.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    compare(
        before,
        after,
        &[
            "one.example",
            "two.example",
            "three.example",
            "copy.example",
            "added.example",
        ],
    );
    for server in [before, after] {
        assert_eq!(
            rcode(server, "127.0.0.2", "www.two.example", "A"),
            "REFUSED"
        );
        assert_eq!(
            rcode(server, "127.0.0.1", "www.elsewhere.example", "A"),
            "REFUSED"
        );
    }
    compare_transfers(before, after);
    for server in [before, after] {
        assert_eq!(transfer(server, "two.example", true), Vec::<String>::new());
    }
}

#[test]
fn a_port_for_tls_does_not_become_a_plain_listener() {
    let conf = |more: &str| {
        format!(
            "server:\n  tls-service-key: k\n  tls-service-pem: p\n  ip-address: 192.0.2.1@853\n{more}"
        )
    };
    let report = dry_run("nsd", &conf("  ip-address: 192.0.2.1\n"));
    assert_lines(
        &report,
        &[
            "listen_tls = [\"192.0.2.1:853\"]",
            "listen = [\"192.0.2.1:53\"]",
            "certificate = \"p\"",
            "key = \"k\"",
        ],
    );
    let only = dry_run("nsd", &conf(""));
    assert_lines(
        &only,
        &[
            "listen = [\"127.0.0.1:53\", \"[::1]:53\"]",
            "listen_tls = [\"192.0.2.1:853\"]",
        ],
    );
    let without = dry_run(
        "nsd",
        "server:\n  tls-port: 8853\n  ip-address: 192.0.2.1\n  ip-address: 192.0.2.1@8853\n",
    );
    assert_lines(
        &without,
        &[
            "would leak or break: ip-address: port 8853 is for TLS",
            "listen = [\"192.0.2.1:53\"]",
        ],
    );
    let other = dry_run(
        "nsd",
        "server:\n  tls-port: 8853\n  ip-address: 192.0.2.1@8853\n  ip-address: 192.0.2.1@853\n",
    );
    assert_lines(&other, &["listen = [\"192.0.2.1:853\"]"]);
}

#[test]
fn a_port_for_proxies_does_not_become_a_plain_listener() {
    let report = dry_run(
        "nsd",
        "server:\n  ip-address: 192.0.2.1\n  ip-address: 192.0.2.1@5353\n  proxy-protocol-port: 5353\n",
    );
    assert_lines(
        &report,
        &[
            "listen = [\"192.0.2.1:53\", { address = \"192.0.2.1:5353\", proxy_protocol_from = [\"0.0.0.0/0\", \"::/0\"] }]",
            "converted with changes: proxy-protocol-port: proxy_protocol_from",
        ],
    );
}

#[test]
fn client_certificates_of_secondaries_are_converted() {
    let auth = "tls-auth:\n  name: auth\n  auth-domain-name: ns2.example\n";
    let zone = "zone:\n  name: one.example\n  zonefile: one.zone\n  provide-xfr: 192.0.2.2 NOKEY auth\n  provide-xfr: 192.0.2.3 NOKEY\n";
    let server = "server:\n  tls-service-key: k\n  tls-service-pem: p\n  tls-auth-port: 8853\n  ip-address: 192.0.2.1@8853\n";
    let report = dry_run(
        "nsd",
        &format!("{server}  tls-cert-bundle: ca.pem\n{auth}{zone}"),
    );
    assert_lines(
        &report,
        &[
            "listen_tls = [\"192.0.2.1:8853\"]",
            "client_ca = \"ca.pem\"",
            "allow_transfer = [\"192.0.2.2 tls-name:ns2.example\", \"192.0.2.3\"]",
            "tls-auth-port: part of listen_tls in [server]; clients without a certificate may connect, too",
        ],
    );
    // Without authorities no client is known by name.
    for conf in [
        format!("{server}{auth}{zone}"),
        format!("{server}  tls-cert-bundle: ca.pem\n{zone}"),
    ] {
        let report = dry_run("nsd", &conf);
        assert_lines(&report, &["zone one.example. omitted: provide-xfr"]);
        assert!(!report.contains("allow_transfer"), "{report}");
    }
}

#[test]
fn tls_of_primaries_is_kept() {
    let zone = "zone:\n  name: one.example\n  request-xfr: AXFR 192.0.2.1@8853 NOKEY auth\n  request-xfr: 192.0.2.2 NOKEY auth\n";
    let auth = "tls-auth:\n  name: auth\n  auth-domain-name: ns1.example\n  client-cert: c.pem\n  client-key: c.key\n";
    let report = dry_run(
        "nsd",
        &format!("server:\n  tls-cert-bundle: ca.pem\n{auth}{zone}"),
    );
    let tls = "tls = \"strict\", tls_name = \"ns1.example\", tls_ca = \"ca.pem\", tls_certificate = \"c.pem\", tls_key = \"c.key\", tls_alpn = \"optional\" }";
    assert_lines(
        &report,
        &[
            &format!("{{ address = \"192.0.2.1:8853\", {tls}"),
            &format!("{{ address = \"192.0.2.2:853\", {tls}"),
        ],
    );
    // Without its settings the zone must not be transferred in plain text.
    let unknown = dry_run("nsd", zone);
    assert_lines(
        &unknown,
        &["zone one.example. omitted: request-xfr: no tls-auth \"auth\""],
    );
}

#[test]
fn patterns_that_multiply_end_with_an_error() {
    let mut conf = String::new();
    for level in 0..15 {
        let include = format!("  include-pattern: p{}\n", level + 1).repeat(20);
        conf.push_str(&format!("pattern:\n  name: p{level}\n{include}"));
    }
    conf.push_str("pattern:\n  name: p15\n  zonefile: x\n");
    for zone in 0..10 {
        conf.push_str(&format!(
            "zone:\n  name: z{zone}.example\n  include-pattern: p0\n"
        ));
    }
    let report = dry_run("nsd", &conf);
    assert_lines(
        &report,
        &["zone z0.example.: too many attributes from patterns"],
    );
}

fn old_server() -> Option<(OldServer, Peer)> {
    let primary = primary_of_copy(PeerKind::Knot)?;
    let zones = [
        "one.example",
        "two.example",
        "three.example",
        "added.example",
        "secret.example",
    ];
    let files = with_zones(
        &[
            ("nsd.conf", CONF),
            ("nsd.conf.d/more.conf", MORE),
            (
                "zone.list",
                "# NSD zone list\n# name pattern\nadd added.example plain\n",
            ),
        ],
        &zones,
        ".zone",
    );
    let old = OldServer::start(
        PeerKind::Nsd,
        &files,
        &["one.example", "copy.example", "added.example"],
        Some(primary.addr()),
        |dir| {
            vec![
                "-d".into(),
                "-c".into(),
                dir.join("nsd.conf").display().to_string(),
            ]
        },
    )?;
    Some((old, primary))
}
