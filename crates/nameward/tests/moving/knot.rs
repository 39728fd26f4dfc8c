//! A move from Knot: templates, lists of access, groups of remotes, a secondary, zones that Knot signs.

use std::fs;

use nameward_testkit::{
    peers::{Peer, PeerKind},
    wait_until,
};

use super::moved::{
    OldServer, assert_lines, assert_report, compare, compare_transfers, dry_run, primary_of_copy,
    transfer, wait_for, with_zones,
};
use super::signed::{compare_signed, serial, wait_for_signatures};

const CONF: &str = include_str!("conf/knot.conf");
const MORE: &str = include_str!("conf/knot-more.conf");

#[test]
fn tls_of_listeners_and_remotes_is_converted() {
    let pin = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let rest = format!(
        "remote:\n  - id: pinned\n    address: 192.0.2.1\n    tls: on\n    cert-key: {pin}\n  - id: any\n    address: 192.0.2.2@8853\n    \
         tls: on\nzone:\n  - domain: one.example\n    master: [pinned, any]\n"
    );
    let report = dry_run(
        "knot",
        &format!(
            "server:\n    listen: 192.0.2.9\n    listen-tls: 192.0.2.9\n    cert-file: /c.pem\n    key-file: /k.pem\n{rest}"
        ),
    );
    assert_lines(
        &report,
        &[
            "listen = [\"192.0.2.9:53\"]",
            "listen_tls = [\"192.0.2.9:853\"]",
            "certificate = \"/c.pem\"",
            &format!("{{ address = \"192.0.2.1:853\", tls = \"strict\", tls_pin = [\"{pin}\"] }}"),
            "{ address = \"192.0.2.2:8853\", tls = \"opportunistic\" }",
        ],
    );
    let without = dry_run("knot", "server:\n    listen-tls: 192.0.2.9\n");
    assert_lines(
        &without,
        &["would leak or break: listen-tls of server: omitted"],
    );
    assert!(!without.contains("192.0.2.9:"), "{without}");
    let quic = rest.replace("tls: on", "quic: on");
    let quic = dry_run(
        "knot",
        &format!(
            "server:\n    listen: 192.0.2.9\n    listen-quic: [192.0.2.9, \"2001:db8::9@8853\"]\n    cert-file: /c.pem\n    key-file: /k.pem\n{quic}"
        ),
    );
    assert_lines(
        &quic,
        &[
            "listen = [\"192.0.2.9:53\"]",
            "listen_quic = [\"192.0.2.9:853\", \"[2001:db8::9]:8853\"]",
            "certificate = \"/c.pem\"",
            &format!(
                "{{ address = \"192.0.2.1:853\", tls = \"strict\", quic = true, tls_pin = [\"{pin}\"] }}"
            ),
            "{ address = \"192.0.2.2:8853\", tls = \"opportunistic\", quic = true }",
        ],
    );
    let without = dry_run("knot", "server:\n    listen-quic: 192.0.2.9\n");
    assert_lines(
        &without,
        &["would leak or break: listen-quic of server: omitted"],
    );
    assert!(!without.contains("192.0.2.9:"), "{without}");
}

#[test]
fn interfaces_with_xdp_are_converted() {
    let report = dry_run(
        "knot",
        "server:\n    listen: 192.0.2.9\nxdp:\n    listen: [eth0, eth1@53]\n    route-check: on\n",
    );
    let interfaces = "interfaces = [\"eth0\", \"eth1\"]";
    assert_lines(&report, &["[xdp]", interfaces, "route_check = true"]);
    let address = dry_run("knot", "xdp:\n    listen: 192.0.2.9@53\n");
    assert_lines(&address, &["listen of xdp: addresses are not supported"]);
    let nsd = dry_run(
        "nsd",
        "server:\n    ip-address: 192.0.2.9\nxdp:\n    xdp-interface: eth0\n",
    );
    assert_lines(&nsd, &["[xdp]", "interfaces = [\"eth0\"]"]);
}

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    wait_for_signatures(old.address, "signed.example");
    // Knot writes the files after it has signed and generated the zones.
    for (file, text) in [
        ("signed.example", "RRSIG"),
        ("catalog.example", "signed.example."),
    ] {
        let path = old.directory.path().join(format!("zones/{file}.zone"));
        wait_until(&format!("{file} is in its file"), || {
            fs::read_to_string(&path).is_ok_and(|found| found.contains(text))
        });
    }
    let output = old.import("knot", "knot.conf", &["--dry-run"]);
    assert_report("knot.report", &old.report(&output, Some(primary.addr())));
    assert_eq!(output.status.code(), Some(0));
    let new = old.move_in("knot", "knot.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    compare(
        before,
        after,
        &["one.example", "two.example", "copy.example"],
    );
    compare_signed(before, after, "signed.example");
    // Consumers identify members by their labels. The serial is the time at which the catalog was generated.
    wait_until("the catalog is made", || {
        serial(after, "catalog.example") > 0
    });
    let [old_members, new_members] = [before, after].map(|server| {
        let records = transfer(server, "catalog.example", true);
        let records = records
            .into_iter()
            .filter(|record| !record.contains(" SOA "));
        records.collect::<Vec<_>>()
    });
    assert_eq!(old_members.len(), 5, "{old_members:?}");
    assert_eq!(old_members, new_members);
    assert!(serial(after, "catalog.example") >= serial(before, "catalog.example"));
    compare_transfers(before, after);
    for server in [before, after] {
        // From this address without a key, as the list has it.
        assert!(transfer(server, "two.example", false).len() > 10);
    }
}

#[test]
fn a_catalog_without_its_file_is_left_out_and_its_members_stay() {
    let report = dry_run(
        "knot",
        "zone:\n  - domain: one.example\n    storage: {DIR}\n    catalog-role: member\n    catalog-zone: cat.example\n  \
         - domain: cat.example\n    storage: {DIR}\n    catalog-role: generate\n",
    );
    assert_lines(
        &report,
        &[
            "would leak or break: catalog cat.example. omitted",
            "name = \"one.example.\"",
        ],
    );
    assert!(
        !report.contains("kind = \"producer\"") && !report.contains("\ncatalog ="),
        "{report}"
    );
}

#[test]
fn digests_dnstap_and_a_hidden_version_are_converted() {
    let report = dry_run(
        "knot",
        "server:\n    version: \"\"\nmod-dnstap:\n  - id: default\n    sink: unix:/run/tap.sock\n    log-responses: off\n\
         template:\n  - id: default\n    global-module: mod-dnstap/default\n\
         zone:\n  - domain: a.example\n    zonemd-generate: zonemd-sha384\n  - domain: b.example\n    zonemd-verify: on\n",
    );
    let lines = [
        "version = \"\"",
        "socket = \"/run/tap.sock\"",
        "responses = false",
        "zonemd = \"generate\"",
        "zonemd = \"require\"",
        // Without listen, Knot answers no client.
        "listen = [\"127.0.0.1:53\", \"[::1]:53\"]",
    ];
    assert_lines(&report, &lines);
    assert!(!report.contains(": not supported"), "{report}");
}

fn old_server() -> Option<(OldServer, Peer)> {
    let primary = primary_of_copy(PeerKind::Nsd)?;
    let zones = ["one.example", "two.example", "signed.example"];
    let files = with_zones(
        // Knot does not create the directory of its databases.
        &[
            ("knot.conf", CONF),
            ("more/zones.conf", MORE),
            ("db/README", "keys\n"),
        ],
        &zones,
        ".zone",
    );
    let old = OldServer::start(
        PeerKind::Knot,
        &files,
        &["one.example", "two.example", "copy.example"],
        Some(primary.addr()),
        |dir| vec!["-c".into(), dir.join("knot.conf").display().to_string()],
    )?;
    Some((old, primary))
}

#[test]
fn proxies_are_converted_and_must_send_headers() {
    let report = dry_run(
        "knot",
        "server:\n    proxy-allowlist: [192.0.2.1, 198.51.100.8-198.51.100.11]\n",
    );
    assert_lines(
        &report,
        &[
            "converted with changes: proxy-allowlist of server: proxy_protocol_from in [server]",
            "proxy_protocol_from = [\"192.0.2.1\", \"198.51.100.8/30\"]",
        ],
    );
    let report = dry_run(
        "pdns",
        "launch=\nproxy-protocol-from=192.0.2.0/24, 2001:db8::1\n",
    );
    assert_lines(
        &report,
        &[
            "converted: proxy-protocol-from: proxy_protocol_from in [server]",
            "proxy_protocol_from = [\"192.0.2.0/24\", \"2001:db8::1\"]",
        ],
    );
}
