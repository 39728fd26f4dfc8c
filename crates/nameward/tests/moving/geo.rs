//! A move of geographic zones: the answers of each client stay the same.

use std::{fs, net::SocketAddr, process::Command};

use nameward_testkit::{Setup, TestServer, peers::PeerKind, server::binary};

use super::moved::{OldServer, assert_lines};
use crate::lua::{ask, write_databases};

const PDNS: &str = "launch=geoip\ngeoip-zones-file={DIR}/geoip.yaml\n\
    geoip-database-files=mmdb:{DIR}/city.mmdb mmdb:{DIR}/asn.mmdb\nsocket-dir={DIR}\nlocal-address={IP}\nlocal-port={PORT}\n\
    cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\ndaemon=no\nguardian=no\nlua-health-checks-interval=7\n\
    lua-records-exec-limit=5000\nlua-health-checks-expire-delay=60\n";
const ZONES: &str = include_str!("conf/geoip.yaml");
/// Clients in two places of the databases, and in none.
const CLIENTS: [&str; 3] = ["127.0.0.1", "127.1.0.1", "127.2.0.1"];

const KNOT: &str = "server:\n    rundir: \"{DIR}\"\n    listen: [ {IP}@{PORT} ]\n    udp-workers: 1\n    tcp-workers: 1\n\
    \x20   background-workers: 1\ndatabase:\n    storage: \"{DIR}/db\"\nmod-geoip:\n\
    \x20 - id: net\n    config-file: \"{DIR}/subnet.conf\"\n    ttl: 20\n    mode: subnet\n\
    \x20 - id: place\n    config-file: \"{DIR}/geodb.conf\"\n    ttl: 20\n    mode: geodb\n    geodb-file: \"{DIR}/city.mmdb\"\n\
    \x20   geodb-key: [ country/iso_code, city/names/en ]\n\
    \x20 - id: share\n    config-file: \"{DIR}/weighted.conf\"\n    ttl: 20\n    mode: weighted\n\
    zone:\n\
    \x20 - domain: net.test\n    storage: \"{DIR}\"\n    module: mod-geoip/net\n\
    \x20 - domain: place.test\n    storage: \"{DIR}\"\n    module: mod-geoip/place\n\
    \x20 - domain: share.test\n    storage: \"{DIR}\"\n    module: mod-geoip/share\n";
const SUBNETS: &str = "www.net.test:\n  - net: 127.0.0.0/8\n    A: [ 192.0.2.1, 192.0.2.2 ]\n    AAAA: 2001:db8::1\n\
    \x20 - net: 127.1.0.0/16\n    A: 192.0.2.3\n    TXT: \"narrow\\ one\"\nalias.net.test:\n  - net: 127.1.0.0/16\n\
    \x20   CNAME: other.net.test.\n";
const PLACES: &str = "www.place.test:\n  - geo: \"NL;Town\"\n    TXT: town\n  - geo: NL\n    TXT: country\n  - geo: \"NZ;*\"\n\
    \x20   TXT: far\nalias.place.test:\n  - geo: \"NL;Town\"\n    A: 192.0.2.8\n";
const SHARES: &str =
    "www.share.test:\n  - weight: 1\n    A: 192.0.2.1\n  - weight: 3\n    A: 192.0.2.2\n";
const OTHER: &str = "$TTL 20\n@ SOA ns host 1 3600 600 86400 20\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.100\nwww MX 10 ns\n\
    www TXT common\nalias A 192.0.2.101\nother A 192.0.2.102\n";

/// Imports, and starts our server on the result; returns the report, too.
fn moved(old: &OldServer, kind: &str, file: &str) -> (TestServer, String) {
    let setup = Setup::new().without_web();
    let out = setup.dir().to_path_buf();
    let output = old.import(kind, file, &["--out", out.to_str().unwrap()]);
    let report = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{report}");
    let toml = out.join("nameward.toml");
    let text = fs::read_to_string(&toml).unwrap();
    let checked = Command::new(binary())
        .args(["check", "--config"])
        .arg(&toml)
        .output();
    let checked = checked.unwrap();
    let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(
        checked.status.success() && said.contains("0 with errors"),
        "{said}\n{text}"
    );
    (setup.config(&text).start(), report)
}

/// Queries both servers for each client; where several answers are possible, each must give one of them.
fn compare(old: SocketAddr, new: &TestServer, questions: &[(&str, &str)]) {
    for client in CLIENTS {
        for (name, rtype) in questions {
            let question = [*name, *rtype];
            let theirs = ask(old, client, &question);
            let ours = ask(new.address(), client, &question);
            assert_eq!(ours, theirs, "{client} {question:?}\n{}", new.log());
        }
    }
}

#[test]
fn zones_of_the_geoip_backend_answer_as_before() {
    let files = [("pdns.conf", PDNS), ("geoip.yaml", ZONES)];
    let old = OldServer::start(PeerKind::PowerDns, &files, &["geo.test"], None, |dir| {
        write_databases(dir);
        vec![format!("--config-dir={}", dir.display())]
    });
    let Some(old) = old else {
        return;
    };
    let (new, report) = moved(&old, "pdns", "pdns.conf");
    assert_lines(
        &report,
        &[
            "converted: geoip-database-files: databases in [geoip]",
            "converted: geoip-zones-file: its domains are converted to zone files with LUA records",
            "geoip.yaml:2: converted: zone geo.test.: native",
            "converted: lua-health-checks-interval: interval in [health]",
            "converted with changes: lua-records-exec-limit: instructions_max in [lua]",
            "converted with changes: lua-health-checks-expire-delay: a target is checked until",
        ],
    );
    // Beside a service PowerDNS loses the NS and MX records of the apex for clients without a name of their own.
    let mut questions = vec![("geo.test", "SOA"), ("geo.test", "A")];
    for name in [
        "svc",
        "one",
        "net",
        "map",
        "ip",
        "nl.eu.svc",
        "eu.svc",
        "nothere.svc",
    ] {
        let name: &str = format!("{name}.geo.test").leak();
        for rtype in ["AAAA", "TXT", "MX", "CNAME"] {
            questions.push((name, rtype));
        }
    }
    for name in ["one", "map", "ip", "nl.eu.svc", "eu.svc", "nothere.svc"] {
        questions.push((format!("{name}.geo.test").leak(), "A"));
    }
    questions.extend([
        ("all.geo.test", "TXT"),
        ("time.geo.test", "TXT"),
        ("quoted.geo.test", "TXT"),
    ]);
    compare(old.address, &new, &questions);
    // The service of the client's own network.
    let inside = ("127.0.0.1", ["net.geo.test", "A"]);
    let theirs = ask(old.address, inside.0, &inside.1);
    assert_eq!(ask(new.address(), inside.0, &inside.1), theirs);
    // One of two addresses by weight.
    for name in ["svc.geo.test", "net.geo.test"] {
        let mut seen = Vec::new();
        for _ in 0..60 {
            let (_, answers) = ask(new.address(), "127.1.0.1", &[name, "A"]);
            assert_eq!(answers.len(), 1);
            seen.extend(answers);
        }
        seen.sort();
        seen.dedup();
        let all = ["192.0.2.3", "192.0.2.4"].map(|address| format!("{name}. 30 IN A {address}"));
        assert_eq!(seen, all);
    }
}

#[test]
fn names_of_the_geoip_module_answer_as_before() {
    let zone = |name: &str| format!("$ORIGIN {name}.\n{OTHER}");
    let files = [
        ("knot.conf", KNOT.to_owned()),
        ("subnet.conf", SUBNETS.to_owned()),
        ("geodb.conf", PLACES.to_owned()),
        ("weighted.conf", SHARES.to_owned()),
        ("db/README", String::new()),
        ("net.test.zone", zone("net.test")),
        ("place.test.zone", zone("place.test")),
        ("share.test.zone", zone("share.test")),
    ];
    let zones = ["net.test", "place.test", "share.test"];
    let old = OldServer::start(PeerKind::Knot, &files, &zones, None, |dir| {
        write_databases(dir);
        vec!["-c".into(), dir.join("knot.conf").display().to_string()]
    });
    let Some(old) = old else {
        return;
    };
    let (new, report) = moved(&old, "knot", "knot.conf");
    assert_lines(
        &report,
        &[
            "converted: mod-geoip net: LUA records in the zones that use it",
            "converted: geodb-file of mod-geoip: databases in [geoip]",
        ],
    );
    let mut questions = Vec::new();
    for name in [
        "www.net.test",
        "alias.net.test",
        "www.place.test",
        "alias.place.test",
        "ns.net.test",
        "net.test",
    ] {
        for rtype in ["A", "AAAA", "TXT", "MX", "CNAME", "SOA"] {
            questions.push((name, rtype));
        }
    }
    compare(old.address, &new, &questions);
    let mut seen = Vec::new();
    for _ in 0..60 {
        seen.extend(ask(new.address(), "127.0.0.1", &["www.share.test", "A"]).1);
    }
    seen.sort();
    assert_eq!(seen.len(), 60);
    seen.dedup();
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn unsupported_settings_of_a_geographic_zone_are_reported_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(
        path("zones.yaml"),
        "domains:\n- domain: a.test\n  records:\n    a.test:\n      - soa: ns.a.test host.a.test 1 2 3 4 5\n\
         \x20     - a: not an address\n    b.test:\n      - a: 192.0.2.1\n  services:\n    s.a.test: '%mp.a.test'\n\
         - domain: c.test\n  records:\n    c.test:\n      - ns: ns.c.test\nzones_dir: /etc/zones\n",
    )
    .unwrap();
    fs::write(
        path("pdns.conf"),
        format!(
            "launch=geoip\ngeoip-zones-file={}\ngeoip-database-files=old.dat\ngeoip-dnssec-keydir=/etc/keys\n",
            path("zones.yaml")
        ),
    )
    .unwrap();
    let import = |kind: &str, file: &str| {
        let run = Command::new(binary())
            .args(["import", kind, "--dry-run"])
            .arg(path(file))
            .output();
        let output = run.unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert_lines(
        &import("pdns", "pdns.conf"),
        &[
            "break: a.test: invalid A record data \"not an address\"",
            "zones.yaml:8: not supported: b.test: outside domain a.test.",
            "break: %mp in domain a.test.: there is no mapping",
            "zones.yaml:11: not supported, would leak or break: zone c.test. omitted: it has no SOA record",
            "zones.yaml:15: not supported, would leak or break: zones_dir: unsupported key",
            "pdns.conf:3: not supported, would leak or break: geoip-database-files: old.dat",
            "pdns.conf:4: not supported, would leak or break: geoip-dnssec-keydir",
        ],
    );
    fs::write(path("zones.yaml"), "domains:\n  - domain: [a\n").unwrap();
    assert_lines(
        &import("pdns", "pdns.conf"),
        &["zones.yaml:2: error: while parsing a flow sequence, expected ',' or ']'"],
    );
    fs::write(path("geo"), PLACES).unwrap();
    fs::write(
        path("place.test.zone"),
        format!("$ORIGIN place.test.\n{OTHER}"),
    )
    .unwrap();
    let dir = dir.path().display();
    fs::write(
        path("knot.conf"),
        format!(
            "mod-geoip:\n  - id: x\n    config-file: {dir}/geo\n    mode: geodb\n    geodb-key: (id)country/geoname_id\n\
             zone:\n  - domain: place.test\n    storage: {dir}\n    module: mod-geoip/x\n"
        ),
    )
    .unwrap();
    assert_lines(
        &import("knot", "knot.conf"),
        &[
            "knot.conf:9: not supported, would leak or break: zone place.test. omitted: unsupported geodb-key (id)country/geoname_id",
        ],
    );
}
