//! Comparison with PowerDNS where answers depend on databases and resolvers: the same GeoIP databases, the same
//! resolver, the
//! same automatic hints of SVCB and HTTPS records.

use std::{fs, path::Path, process::Command};

use nameward_testkit::Setup;
use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions};

use super::{GEO_ZONE, ask, write_databases};
use crate::operation::secure::{delv, done, write_anchor};

/// Clients in two places of the databases, and in none.
const CLIENTS: [&str; 3] = ["127.0.0.1", "127.1.0.1", "127.2.0.1"];
const FAR: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww CNAME web\nweb A 192.0.2.55\n\
    web A 192.0.2.56\nmx MX 10 web\n";
const RESOLVING: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n\
    a LUA A \";local t={} for _,v in ipairs(resolve('www.far.test', pdns.A)) do table.insert(t, v:toString()) end return t\"\n\
    mx LUA TXT \";local r=resolve('mx.far.test', pdns.MX) return r[1]:toString()..'|'..r[1]:content()..'|'..#r\"\n\
    cname LUA TXT \";local r=resolve('www.far.test', pdns.CNAME) return r[1]:toString()..'|'..#r\"\n\
    rr LUA TXT \";local r=resolve('www.far.test', pdns.A) return r[1]:ttl()..' '..r[1]:qtype()..' '..r[1]:qclass()..' '..tostring(r[1]:auth())..' '..r[1]:domainId()\"\n\
    none LUA TXT \";return #resolve('nothere.far.test', pdns.A)\"\n\
    other LUA TXT \";return #resolve('www.other.test', pdns.A)\"\n";
const SERVICES: &str = "$TTL 300\n@ SOA ns.svc.test. host.svc.test. 1 3600 600 86400 60\n@ NS ns.svc.test.\nns A 127.0.0.1\n\
    web A 192.0.2.3\nweb A 192.0.2.2\nweb AAAA 2001:db8::2\ncn CNAME web.svc.test.\n\
    both HTTPS 1 web.svc.test. ipv4hint=auto ipv6hint=auto\nown HTTPS 1 . ipv4hint=auto alpn=h2\nown A 192.0.2.77\n\
    none HTTPS 1 nothere.svc.test. ipv4hint=auto port=8443\ncname HTTPS 1 cn.svc.test. ipv4hint=auto port=8443\n\
    alias HTTPS 0 both.svc.test.\nout HTTPS 1 web.far.test. ipv4hint=auto port=1\n\
    must HTTPS 1 web.svc.test. mandatory=ipv4hint ipv4hint=auto\nplain HTTPS 1 web.svc.test. ipv4hint=192.0.2.9\n\
    two SVCB 1 web.svc.test. ipv4hint=auto\ntwo SVCB 2 ns.svc.test. ipv4hint=auto ipv6hint=auto\n";

/// Starts PowerDNS with zone files and more settings.
fn powerdns(zones: &[(&str, &str)], settings: &str) -> Option<Peer> {
    let program = PeerKind::PowerDns.require()?;
    let names: Vec<&str> = zones.iter().map(|(name, _)| *name).collect();
    let peer = Peer::launch(&names, &PeerOptions::default(), |directory, address| {
        let mut conf = String::new();
        for (name, text) in zones {
            let path = directory.join(name);
            fs::write(&path, text)?;
            conf += &format!("zone \"{name}\" {{ type native; file {path:?}; }};\n");
        }
        fs::write(directory.join("named.conf"), conf)?;
        fs::write(directory.join("none.yaml"), "domains: []\n")?;
        let dir = directory.display();
        let main = format!(
            "bind-config={dir}/named.conf\nenable-lua-records=yes\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n"
        );
        let config = PeerConfig {
            main: &main,
            rest: &settings.replace("{DIR}", &dir.to_string()),
            ..PeerConfig::default()
        };
        PeerKind::PowerDns.prepare(&program, directory, address, &config)
    });
    Some(peer.expect("pdns_server starts"))
}

#[test]
fn clients_are_located_as_in_powerdns() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_databases(directory.path());
    let settings = format!(
        "launch=bind,geoip\ngeoip-zones-file={{DIR}}/none.yaml\ngeoip-database-files=mmdb:{} mmdb:{}\n",
        files[0].display(),
        files[1].display()
    );
    let zone = format!("{GEO_ZONE}*.where LUA TXT \"latlonMagic()\"\n");
    let Some(powerdns) = powerdns(&[("geo.test", &zone)], &settings) else {
        return;
    };
    let config = format!("[lua]\nrecords = true\n[geoip]\ndatabases = {files:?}\n");
    let server = Setup::new().config(&config).zone("geo.test", &zone).start();
    for client in CLIENTS {
        for (name, rtype) in [
            ("cc", "TXT"),
            ("co", "TXT"),
            ("re", "TXT"),
            ("is", "TXT"),
            ("as", "TXT"),
            ("x.where", "TXT"),
        ] {
            let question = [&*format!("{name}.geo.test"), rtype];
            let theirs = ask(powerdns.addr(), client, &question);
            let ours = ask(server.address(), client, &question);
            assert_eq!(ours, theirs, "{client} {name}\n{}", server.log());
        }
    }
    // PowerDNS 4.7 finds no coordinates in databases of this kind: it answers zeros, and chooses any address.
    let near = ask(powerdns.addr(), "127.0.0.1", &["at.geo.test", "TXT"]).1;
    assert_eq!(near, ["at.geo.test. 300 IN TXT \"0.000000 0.000000\""]);
}

#[test]
fn scripts_resolve_names_of_others_as_in_powerdns() {
    let Some(far) = powerdns(&[("far.test", FAR)], "launch=bind\n") else {
        return;
    };
    let settings = format!("launch=bind\nresolver={}\n", far.addr());
    let Some(powerdns) = powerdns(&[("near.test", RESOLVING)], &settings) else {
        return;
    };
    let config = format!(
        "[lua]\nrecords = true\n[recursor]\naddress = \"{}\"\n",
        far.addr()
    );
    let server = Setup::new()
        .config(&config)
        .zone("near.test", RESOLVING)
        .start();
    for _ in 0..2 {
        for (name, rtype) in [
            ("a", "A"),
            ("mx", "TXT"),
            ("cname", "TXT"),
            ("rr", "TXT"),
            ("none", "TXT"),
            ("other", "TXT"),
        ] {
            let question = [&*format!("{name}.near.test"), rtype];
            let theirs = ask(powerdns.addr(), "127.0.0.1", &question);
            let ours = ask(server.address(), "127.0.0.1", &question);
            assert_eq!(ours, theirs, "{name}\n{}", server.log());
        }
    }
    // Names of our own zones are found here; without a resolver, others are an error with that reason.
    let own = RESOLVING.replace("far.test", "own.test");
    let alone = Setup::new()
        .config("[lua]\nrecords = true\n")
        .zone(
            "near.test",
            &format!("{own}far LUA TXT \";return #resolve('x.far.test', pdns.A)\"\n"),
        )
        .zone("own.test", FAR)
        .start();
    let (_, answers) = ask(alone.address(), "127.0.0.1", &["a.near.test", "A"]);
    assert_eq!(answers.len(), 2, "{answers:?}\n{}", alone.log());
    assert_eq!(
        ask(alone.address(), "127.0.0.1", &["far.near.test", "TXT"]).0,
        "SERVFAIL"
    );
    assert!(alone.wait_for_log("set recursor.address"));
}

const QUESTIONS: [(&str, &str); 10] = [
    ("both", "HTTPS"),
    ("own", "HTTPS"),
    ("none", "HTTPS"),
    ("cname", "HTTPS"),
    ("alias", "HTTPS"),
    ("out", "HTTPS"),
    ("must", "HTTPS"),
    ("plain", "HTTPS"),
    ("two", "SVCB"),
    ("web", "HTTPS"),
];

/// Returns the lines of a transfer with SVCB or HTTPS records.
fn transferred(server: std::net::SocketAddr) -> Vec<String> {
    let (_, lines) = ask(server, "127.0.0.1", &["svc.test", "AXFR", "+noedns"]);
    let services = lines
        .into_iter()
        .filter(|line| line.contains("hint") || line.contains(" HTTPS "));
    services.collect()
}

#[test]
fn automatic_hints_are_filled_in_as_in_powerdns_wherever_the_zone_is() {
    let settings = "launch=bind\nsvc-autohints=yes\n";
    let Some(powerdns) = powerdns(&[("svc.test", SERVICES)], settings) else {
        return;
    };
    let transfers = "[zone_defaults]\nallow_transfer = [\"any\"]\n";
    let file = Setup::new()
        .config(transfers)
        .zone("svc.test", SERVICES)
        .start();
    let directory = tempfile::tempdir().unwrap();
    let zone = directory.path().join("svc.zone");
    fs::write(&zone, SERVICES).unwrap();
    let imported = |server: &nameward_testkit::TestServer| {
        done(
            server,
            &["zone", "import", "svc.test", zone.to_str().unwrap()],
        );
    };
    let database = |mode: &str| {
        let path = directory.path().join(mode);
        let url = format!("sqlite:{}", path.display());
        let made = Command::new(nameward_testkit::server::binary())
            .args(["db", "init", &url])
            .status();
        assert!(made.unwrap().success());
        let backend =
            format!("[[backend]]\ntype = \"sqlite\"\npath = {path:?}\nmode = \"{mode}\"\n");
        let server = Setup::new()
            .config(&format!("{backend}{transfers}"))
            .start();
        imported(&server);
        server
    };
    let servers = [file, database("live"), database("resident")];
    for (server, what) in servers.iter().zip(["file", "live", "resident"]) {
        for (name, rtype) in QUESTIONS {
            let question = [&*format!("{name}.svc.test"), rtype];
            let theirs = ask(powerdns.addr(), "127.0.0.1", &question);
            let ours = ask(server.address(), "127.0.0.1", &question);
            assert_eq!(ours, theirs, "{what} {name}\n{}", server.log());
        }
        // Other servers get the hints, not the keyword.
        let services = transferred(server.address());
        assert_eq!(services.len(), 10, "{what} {services:?}");
        let filled = "two.svc.test. 300 IN SVCB 2 ns.svc.test. ipv4hint=127.0.0.1";
        assert!(
            services.iter().any(|line| line == filled),
            "{what} {services:?}"
        );
        assert!(
            !services.iter().any(|line| line.contains("auto")),
            "{what} {services:?}"
        );
        let shown = done(server, &["record", "list", "svc.test"]);
        assert!(shown.contains("ipv4hint=auto"), "{what} {shown}");
    }
}

#[test]
fn automatic_hints_follow_the_addresses_and_are_signed() {
    let directory = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nstate_directory = {:?}\n[[zone]]\nname = \"svc.test\"\nallow_transfer = [\"any\"]\n",
        directory.path()
    );
    let zone = format!(
        "{SERVICES}lost HTTPS 1 nothere.svc.test. mandatory=ipv4hint ipv4hint=auto port=1\n*.w A 192.0.2.44\n*.w HTTPS 1 . ipv4hint=auto\n"
    );
    let server = Setup::new().config(&config).zone("svc.test", &zone).start();
    let asked = |name: &str| ask(server.address(), "127.0.0.1", &[name, "HTTPS"]).1;
    assert_eq!(
        asked("lost.svc.test"),
        ["lost.svc.test. 300 IN HTTPS 1 nothere.svc.test. port=1"]
    );
    assert_eq!(
        asked("x.w.svc.test"),
        ["x.w.svc.test. 300 IN HTTPS 1 . ipv4hint=192.0.2.44"]
    );
    done(
        &server,
        &["record", "set", "svc.test", "web", "A", "300", "192.0.2.8"],
    );
    let changed =
        ["must.svc.test. 300 IN HTTPS 1 web.svc.test. mandatory=ipv4hint ipv4hint=192.0.2.8"];
    server.wait_until("the hint follows", || asked("must.svc.test") == changed);
    // The serial of the client is known, but the journal has no hints: it gets the whole zone.
    let (_, lines) = ask(
        server.address(),
        "127.0.0.1",
        &["svc.test", "IXFR=1", "+tcp"],
    );
    assert!(lines.iter().any(|line| *line == changed[0]), "{lines:?}");
    assert!(lines.len() > 20, "{lines:?}");
    done(&server, &["zone", "secure", "svc.test"]);
    let anchor = directory.path().join("anchor");
    write_anchor(&server, "svc.test", &anchor);
    check_signed(&server, &anchor);
    let services = transferred(server.address());
    assert!(
        !services.iter().any(|line| line.contains("auto")),
        "{services:?}"
    );
}

fn check_signed(server: &nameward_testkit::TestServer, anchor: &Path) {
    for name in ["both", "own", "none", "must", "plain", "x.w"] {
        let question = [&*format!("{name}.svc.test"), "HTTPS"];
        let said = delv(server.address(), ("svc.test", anchor), &question);
        assert!(
            said.contains("fully validated"),
            "{name}: {said}\n{}",
            server.log()
        );
    }
}
