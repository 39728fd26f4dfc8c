//! A move from BIND: lists with names, keys, views, inherited statements, a secondary, zones that BIND signs.

use nameward_testkit::peers::{Peer, PeerKind};
use nameward_testkit::wire::{Client, Transport};

use super::moved::{
    OldServer, assert_lines, assert_report, compare, compare_transfers, dry_run, primary_of_copy,
    rcode, transfer, wait_for, with_zones, zone,
};

use super::signed::{compare_signed, wait_for_signatures};

const CONF: &str = include_str!("conf/named.conf");
const ZONES: &str = include_str!("conf/named.conf.local");

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    for zone in ["signed.example", "split.example"] {
        wait_for_signatures(old.address, zone);
    }
    let output = old.import("bind", "named.conf", &["--dry-run"]);
    assert_report("named.report", &old.report(&output, Some(primary.addr())));
    assert_eq!(output.status.code(), Some(0));
    let new = old.move_in("bind", "named.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    for zone in ["signed.example", "split.example"] {
        compare_signed(before, after, zone);
    }
    compare(
        before,
        after,
        &["one.example", "two.example", "copy.example"],
    );
    for server in [before, after] {
        assert_eq!(
            rcode(server, "127.0.0.2", "www.two.example", "A"),
            "REFUSED"
        );
        assert_eq!(
            rcode(server, "127.0.0.3", "www.two.example", "A"),
            "NOERROR"
        );
    }
    compare_transfers(before, after);
    for server in [before, after] {
        assert_eq!(transfer(server, "two.example", true), Vec::<String>::new());
    }
}

#[test]
fn a_catalog_that_bind_follows_is_followed() {
    let conf = |primaries: &str| {
        format!(
            "options {{ catalog-zones {{ zone \"catalog.example\" default-primaries {{ {primaries}; }}; }}; }};\n\
             zone \"catalog.example\" {{ type secondary; file \"c\"; primaries {{ 192.0.2.1; }}; }};\n"
        )
    };
    let report = dry_run("bind", &conf("192.0.2.1"));
    let zone = "name = \"catalog.example.\"\nkind = \"consumer\"\nprimaries = [{ address = \"192.0.2.1\" }]";
    assert_lines(
        &report,
        &[
            "converted: catalog-zones: catalog.example is a consumer zone",
            zone,
        ],
    );
    // Members would be transferred from the wrong server.
    let other = dry_run("bind", &conf("192.0.2.9"));
    assert_lines(
        &other,
        &["would leak or break: zone catalog.example omitted"],
    );
    assert!(!other.contains("[[zone]]"), "{other}");
}

#[test]
fn query_logging_and_request_ixfr_are_converted() {
    let report = dry_run(
        "bind",
        "options { directory \"/var/named\"; querylog yes; request-ixfr no; };\n\
         logging { channel q { file \"q.log\" versions 3; }; category queries { q; }; };\n\
         zone \"a.example\" { type secondary; file \"a\"; primaries { 192.0.2.1; }; };\n",
    );
    let lines = [
        "converted: querylog: enabled in [query_log]",
        "converted with changes: logging category queries: see [query_log]",
        "[query_log]\nenabled = true",
        "file = \"/var/named/q.log\"",
        "request_ixfr = false",
    ];
    assert_lines(&report, &lines);
}

#[test]
fn a_server_that_listens_with_tls_only_does_not_listen_in_the_clear() {
    let report = dry_run(
        "bind",
        "options { listen-on port 853 tls ephemeral { any; }; listen-on-v6 { none; }; };\n",
    );
    assert_lines(
        &report,
        &[
            "would leak or break: listen-on",
            "listen = [\"127.0.0.1:53\", \"[::1]:53\"]",
        ],
    );
}

#[test]
fn tls_of_listeners_and_primaries_is_converted() {
    let conf = |tls: &str| {
        format!(
            "options {{ directory \"/d\"; listen-on {{ 192.0.2.9; }}; listen-on port 8853 tls local {{ 192.0.2.9; }}; \
             listen-on tls local {{ 192.0.2.8; }}; listen-on-v6 {{ none; }}; }};\n{tls}\
             zone \"one.example\" {{ type secondary; primaries {{ 192.0.2.1 tls remote; 192.0.2.2 port 99 tls ephemeral; 192.0.2.3; }}; \
             also-notify {{ 192.0.2.4 tls remote; }}; }};\n"
        )
    };
    let local = "tls local { cert-file \"c.pem\"; key-file \"/k.pem\"; };\n";
    let remote = "tls remote { ca-file \"ca.pem\"; remote-hostname \"ns1.example\"; };\n";
    let report = dry_run("bind", &conf(&format!("{local}{remote}")));
    let strict = "tls = \"strict\", tls_name = \"ns1.example\", tls_ca = \"/d/ca.pem\" }";
    assert_lines(
        &report,
        &[
            "listen = [\"192.0.2.9:53\"]",
            "listen_tls = [\"192.0.2.9:8853\", \"192.0.2.8:853\"]",
            "certificate = [\"/d/c.pem\"]",
            "key = [\"/k.pem\"]",
            &format!("{{ address = \"192.0.2.1:853\", {strict}"),
            "{ address = \"192.0.2.2:99\", tls = \"opportunistic\" }",
            "{ address = \"192.0.2.3\" }",
            &format!("also_notify = [{{ address = \"192.0.2.4:853\", {strict}"),
        ],
    );
    // Without the statements nothing becomes plain text.
    let unknown = dry_run("bind", &conf(""));
    assert_lines(
        &unknown,
        &[
            "listen = [\"192.0.2.9:53\"]",
            "192.0.2.1:853 omitted: no tls statement \"remote\"",
        ],
    );
    assert!(
        !unknown.contains("listen_tls = ") && !unknown.contains("192.0.2.4\""),
        "{unknown}"
    );
}

#[test]
fn https_listeners_are_converted_with_their_path_and_never_in_plain_text() {
    let conf = |listen: &str, http: &str| {
        format!(
            "options {{ listen-on {{ 192.0.2.9; }}; {listen} listen-on-v6 {{ none; }}; }};\n\
             tls local {{ cert-file \"/c.pem\"; key-file \"/k.pem\"; protocols {{ TLSv1.2; TLSv1.3; }}; }};\n{http}"
        )
    };
    let paths = |paths: &str| format!("http web {{ endpoints {{ {paths} }}; }};\n");
    let listen = "listen-on port 8443 tls local http web { 192.0.2.9; }; listen-on tls local http web { 192.0.2.8; };";
    let report = dry_run("bind", &conf(listen, &paths("\"/dns\";")));
    assert_lines(
        &report,
        &[
            "listen = [\"192.0.2.9:53\"]",
            "listen_https = [\"192.0.2.9:8443\", \"192.0.2.8:443\"]",
            "path = \"/dns\"",
            "certificate = [\"/c.pem\"]",
            "minimum_version = \"1.2\"",
        ],
    );
    assert!(!report.contains("would leak or break: "), "{report}");
    let report = dry_run(
        "bind",
        &conf("listen-on tls local http default { 192.0.2.8; };", ""),
    );
    assert_lines(&report, &["listen_https = [\"192.0.2.8:443\"]"]);
    assert!(!report.contains("path = "), "{report}");
    let two = dry_run("bind", &conf(listen, &paths("\"/dns\"; \"/other\";")));
    assert_lines(
        &two,
        &[
            "would leak or break: listen-on: of the endpoints of http \"web\" only \"/dns\" is served",
            "path = \"/dns\"",
        ],
    );
    // Without TLS, or without the statement, the listener is omitted.
    for (listen, http, reason) in [
        (
            "listen-on port 80 tls none http web { 192.0.2.8; };",
            paths("\"/dns\";"),
            "DNS over HTTP without TLS is not supported: omitted",
        ),
        (
            "listen-on tls local http web { 192.0.2.8; };",
            String::new(),
            "no http statement \"web\": omitted",
        ),
        (
            "listen-on tls ephemeral http web { 192.0.2.8; };",
            paths("\"/dns\";"),
            "tls \"ephemeral\" has no certificate file: omitted",
        ),
    ] {
        let report = dry_run("bind", &conf(listen, &http));
        assert_lines(&report, &["listen = [\"192.0.2.9:53\"]", reason]);
        assert!(!report.contains("192.0.2.8:"), "{report}");
    }
}

fn old_server() -> Option<(OldServer, Peer)> {
    let primary = primary_of_copy(PeerKind::Nsd)?;
    let zones = [
        "one.example",
        "two.example",
        "signed.example",
        "split.example",
    ];
    let files = with_zones(
        &[("named.conf", CONF), ("named.conf.local", ZONES)],
        &zones,
        "",
    );
    let old = OldServer::start(
        PeerKind::Bind,
        &files,
        &["one.example", "two.example", "copy.example"],
        Some(primary.addr()),
        |dir| {
            let conf = dir.join("named.conf").display().to_string();
            let log = dir.join("log").display().to_string();
            ["-f", "-4", "-n", "1", "-L", &log, "-c", &conf]
                .map(String::from)
                .into()
        },
    )?;
    Some((old, primary))
}

/// Two views of one zone and one that refers to the other, in an order that matters.
const VIEWS: &str = "options { directory \"{DIR}\"; managed-keys-directory \"{DIR}\"; listen-on port {PORT} { 127.0.0.1; 127.0.0.9; };
    listen-on-v6 { none; }; pid-file none; session-keyfile none; recursion no; notify no; empty-zones-enable no;
    dnssec-validation no; };
controls { };
key \"transfer.example\" { algorithm hmac-sha256; secret \"bW92aW5nIGluIHdpdGggYSBrZXkhIQ==\"; };
acl inside { !127.0.0.4; 127.0.0.0/29; };
view \"Keyed\" { match-clients { key transfer.example; };
    zone one.example { type primary; file \"zones/keyed\"; allow-transfer { key transfer.example; }; }; };
view listener { match-destinations { 127.0.0.9; }; match-clients { inside; };
    zone one.example { type primary; file \"zones/listener\"; }; };
view inside { match-clients { inside; };
    zone one.example { type primary; file \"zones/inside\"; };
    zone two.example { type primary; file \"zones/two.example\"; }; };
view outside { match-clients { 127.0.0.3; 127.0.0.4; };
    zone one.example { type primary; file \"zones/outside\"; };
    zone two.example { in-view inside; }; };
";

#[test]
fn all_views_are_converted_in_the_order_of_bind() {
    let mut files = with_zones(&[("named.conf", VIEWS)], &["two.example"], "");
    for view in ["keyed", "listener", "inside", "outside"] {
        let text = zone("one.example") + &format!("where TXT {view}\n");
        files.push((format!("zones/{view}"), text));
    }
    let old = OldServer::start(PeerKind::Bind, &files, &["one.example"], None, |dir| {
        let conf = dir.join("named.conf").display().to_string();
        let log = dir.join("log").display().to_string();
        ["-f", "-4", "-n", "1", "-L", &log, "-c", &conf]
            .map(String::from)
            .into()
    });
    let Some(old) = old else { return };
    let output = old.import("bind", "named.conf", &["--dry-run"]);
    let report = old.report(&output, None);
    assert_lines(
        &report,
        &[
            "converted with changes: view \"Keyed\": named \"keyed\"",
            "converted: view \"inside\"",
            "[[view]]  # DIR/named.conf:9\nname = \"listener\"",
            "listen = [\"127.0.0.9:0\"]\nzones = [{ name = \"one.example.\" }]",
            "zones = [{ name = \"one.example.\" }, { name = \"two.example.\", variant = \"inside\" }]",
        ],
    );
    let new = old.move_in("bind", "named.conf");
    for client in ["127.0.0.1", "127.0.0.3", "127.0.0.4", "127.0.0.20"] {
        for (name, rtype) in [("where.one.example", "TXT"), ("www.two.example", "A")] {
            let [before, after] = [old.address, new.address()].map(|server| {
                let reply = Client::new(client, server).ask(Transport::Udp, name, rtype);
                let mut data: Vec<_> = reply
                    .answer
                    .iter()
                    .map(|record| record.data.clone())
                    .collect();
                data.sort_unstable();
                (reply.rcode(), data)
            });
            assert_eq!(before, after, "{client} {name}");
        }
    }
    assert_eq!(
        transfer(old.address, "one.example", true),
        transfer(new.address(), "one.example", true)
    );
}
