//! LUA records in a whole server: the answers of `pdns_server` to the same records, zones and settings that turn them on,
//! failing scripts, live zones, and answers that validate.

mod beside;
mod health;
mod names;
mod pools;

use std::{fs, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::mmdb::{GeoValue, geo_database};
use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions};
use nameward_testkit::{Setup, TestServer};

use crate::operation::secure::{delv, done, write_anchor};

/// Deterministic records, and the queries for them. Those that fail in PowerDNS fail here.
const ZONE: &str = include_str!("lua/example.org.zone");
const QUESTIONS: &str = include_str!("lua/questions");
const REVERSE4: &str = "$TTL 300\n@ SOA ns.example.org. host.example.org. 1 3600 600 86400 60\n@ NS ns.example.org.\n\
    *.0.0 LUA PTR \"createReverse('%1%.%2%.%3%.%4%.static.example.com')\"\n\
    *.1.0 LUA PTR \"createReverse('%5%.static.example.com')\"\n\
    *.2.0 LUA PTR \"createReverse('%6%.static.example.com', {['127.0.2.9']='special.example.com.'})\"\n";
const REVERSE6: &str = "$TTL 300\n@ SOA ns.example.org. host.example.org. 1 3600 600 86400 60\n@ NS ns.example.org.\n\
    *.a.0.0.0 LUA PTR \"createReverse6('%33%.static6.example.com', {['2001:a::9']='nine.example.com.'})\"\n\
    *.b.0.0.0 LUA PTR \"createReverse6('%34%.%35%.%41%.%1%.%32%.static6.example.com')\"\n";
const ZONES: [(&str, &str); 3] = [
    ("example.org", ZONE),
    ("127.in-addr.arpa", REVERSE4),
    ("1.0.0.2.ip6.arpa", REVERSE6),
];

/// Returns the response code and the sorted answers that `dig` prints.
pub fn ask(server: SocketAddr, source: &str, question: &[&str]) -> (String, Vec<String>) {
    let output = Command::new("dig")
        .args(["+noall", "+comments", "+answer", "+tries=3", "-b", source])
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(question)
        .output()
        .expect("dig is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split("status: ").nth(1).unwrap_or_default();
    let status = status.split(',').next().unwrap_or_default().to_owned();
    let answers = text
        .lines()
        .filter(|line| !line.starts_with(';') && !line.is_empty());
    let spaced = answers.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut answers: Vec<String> = spaced.collect();
    answers.sort();
    (status, answers)
}

/// Starts PowerDNS with LUA records turned on.
fn powerdns() -> Option<Peer> {
    let program = PeerKind::PowerDns.require()?;
    let names = ZONES.map(|(name, _)| name);
    let peer = Peer::launch(&names, &PeerOptions::default(), |directory, address| {
        let mut zones = String::new();
        for (name, text) in ZONES {
            let path = directory.join(name);
            fs::write(&path, text)?;
            zones += &format!("zone \"{name}\" {{ type native; file {path:?}; }};\n");
        }
        fs::write(directory.join("named.conf"), zones)?;
        let main = format!(
            "launch=bind\nbind-config={}/named.conf\nenable-lua-records=yes\ncache-ttl=0\nquery-cache-ttl=0\n\
             negquery-cache-ttl=0\n",
            directory.display()
        );
        let config = PeerConfig {
            main: &main,
            ..PeerConfig::default()
        };
        PeerKind::PowerDns.prepare(&program, directory, address, &config)
    });
    Some(peer.expect("pdns_server starts"))
}

fn server(config: &str) -> TestServer {
    let mut setup = Setup::new().config(config);
    for (name, text) in ZONES {
        setup = setup.zone(name, text);
    }
    setup.start()
}

#[test]
fn lua_records_answer_as_in_powerdns() {
    let Some(powerdns) = powerdns() else {
        return;
    };
    let nameward = server("[lua]\nrecords = true\n");
    let questions = QUESTIONS.lines().filter(|line| !line.is_empty());
    for question in questions {
        let words: Vec<&str> = question.split(' ').collect();
        let theirs = ask(powerdns.addr(), "127.0.0.1", &words);
        let ours = ask(nameward.address(), "127.0.0.1", &words);
        assert_eq!(ours, theirs, "{question}\n{}", nameward.log());
    }
    // The same client gets the same value from both.
    for client in 1..120 {
        let source = format!("127.0.{}.{client}", client * 7 % 200);
        for name in ["hash.example.org", "whash.example.org"] {
            let theirs = ask(powerdns.addr(), &source, &[name, "A"]);
            let ours = ask(nameward.address(), &source, &[name, "A"]);
            assert_eq!(ours, theirs, "{source} {name}");
        }
    }
}

fn status_of(server: &TestServer, name: &str, rtype: &str) -> (String, usize) {
    let (status, answers) = ask(server.address(), "127.0.0.1", &[name, rtype]);
    (status, answers.len())
}

#[test]
fn scripts_run_only_where_they_are_turned_on_and_are_never_shown() {
    let no_data = ("NOERROR".to_owned(), 0);
    let off = server("");
    assert_eq!(status_of(&off, "two.example.org", "A"), no_data);
    assert_eq!(
        status_of(&off, "mix.example.org", "A"),
        ("NOERROR".to_owned(), 1)
    );
    let on = server("[[zone]]\nname = \"example.org\"\nlua_records = true\n");
    assert_eq!(
        status_of(&on, "two.example.org", "A"),
        ("NOERROR".to_owned(), 2)
    );
    assert_eq!(status_of(&on, "5.0.0.127.in-addr.arpa", "PTR"), no_data);
    let without =
        server("[lua]\nrecords = true\n[[zone]]\nname = \"example.org\"\nlua_records = false\n");
    assert_eq!(status_of(&without, "two.example.org", "A"), no_data);
    assert_eq!(status_of(&without, "5.0.0.127.in-addr.arpa", "PTR").1, 1);
    for server in [&off, &on] {
        for name in ["two.example.org", "config.example.org", "cn.example.org"] {
            assert_eq!(status_of(server, name, "TYPE65402"), no_data, "{name}");
        }
    }
}

#[test]
fn a_failing_script_costs_its_own_name_and_is_a_fault_until_it_works() {
    let server = server("[lua]\nrecords = true\n");
    assert!(server.wait_for_log("nosuch, which does not exist here"));
    assert!(server.wait_for_log("the script cannot be compiled"));
    for name in ["err", "syn", "bad"] {
        let name = format!("{name}.example.org");
        assert_eq!(status_of(&server, &name, "A").0, "SERVFAIL", "{name}");
    }
    assert_eq!(status_of(&server, "endless.example.org", "A").0, "SERVFAIL");
    assert_eq!(status_of(&server, "huge.example.org", "TXT").0, "SERVFAIL");
    assert_eq!(status_of(&server, "two.example.org", "A").1, 2);
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("LUA records failed")
    });
    let status = done(&server, &["status"]);
    assert!(
        status.contains("endless.example.org. A: it exceeds instructions_max (1000)"),
        "{status}"
    );
    let stats = done(&server, &["stats"]);
    assert!(stats.contains("lua-failures"), "{stats}");
    let fixed =
        ["err", "syn", "bad", "endless"].map(|name| format!("{name} LUA A \"'192.0.2.1'\"\n"));
    let fixed = format!(
        "{}{}huge LUA TXT \"'x'\"\n",
        &ZONE[..ZONE.find("bad ").unwrap()],
        fixed.concat()
    );
    server.write_zone("example.org", &fixed.replace(" 1 3600", " 2 3600"));
    done(&server, &["reload"]);
    for (name, rtype) in [
        ("err", "A"),
        ("syn", "A"),
        ("bad", "A"),
        ("endless", "A"),
        ("huge", "TXT"),
    ] {
        assert_eq!(
            status_of(&server, &format!("{name}.example.org"), rtype).1,
            1,
            "{name}"
        );
    }
    server.wait_until("the end of the fault", || {
        !done(&server, &["status"]).contains("LUA record")
    });
}

/// Starts a server with a SQLite database that has the zone, and LUA records turned on by metadata.
fn with_database(directory: &Path) -> TestServer {
    let database = directory.join("zones.db");
    let setup = Setup::new();
    let path = database.display();
    let config = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n");
    let run = |arguments: &[&str]| {
        let output = Command::new(nameward_testkit::server::binary())
            .args(arguments)
            .output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    run(&["db", "init", &format!("sqlite:{path}")]);
    setup.config(&config).start()
}

#[test]
fn live_zones_run_scripts_include_others_and_read_records() {
    let directory = tempfile::tempdir().unwrap();
    let server = with_database(directory.path());
    let zone = directory.path().join("example.org.zone");
    fs::write(&zone, ZONE).unwrap();
    done(
        &server,
        &["zone", "import", "example.org", zone.to_str().unwrap()],
    );
    assert_eq!(status_of(&server, "two.example.org", "A").1, 0);
    done(
        &server,
        &["metadata", "set", "example.org", "ENABLE-LUA-RECORDS", "1"],
    );
    server.wait_until("scripts", || {
        status_of(&server, "two.example.org", "A").1 == 2
    });
    let asked = |name: &str, rtype: &str| ask(server.address(), "127.0.0.1", &[name, rtype]).1;
    for _ in 0..2 {
        assert_eq!(
            asked("inc.example.org", "A"),
            ["inc.example.org. 300 IN A 192.0.2.1"]
        );
        assert_eq!(
            asked("look.example.org", "A"),
            ["look.example.org. 300 IN A 127.0.0.1"]
        );
        assert_eq!(asked("nestedcn.example.org", "A").len(), 4);
        assert_eq!(
            asked("192.0.2.5.static.example.org", "A"),
            ["192.0.2.5.static.example.org. 300 IN A 192.0.2.5"]
        );
    }
}

#[test]
fn computed_answers_validate_with_every_denial_method() {
    let directory = tempfile::tempdir().unwrap();
    for way in ["nsec", "nsec3", "compact"] {
        let state = directory.path().join(way);
        fs::create_dir(&state).unwrap();
        let config = format!("[server]\nstate_directory = {state:?}\n[lua]\nrecords = true\n");
        let server = server(&config);
        done(&server, &["zone", "secure", "example.org", "--denial", way]);
        let anchor = state.join("anchor");
        write_anchor(&server, "example.org", &anchor);
        let questions = [
            ("two.example.org", "A"),
            ("rand.example.org", "A"),
            ("rand.example.org", "AAAA"),
            ("cn.example.org", "A"),
            ("cn.example.org", "AAAA"),
            ("192.0.2.5.static.example.org", "A"),
            ("192.0.2.5.static.example.org", "TXT"),
            ("two.example.org", "TYPE65402"),
            ("empty.example.org", "A"),
            ("mx.example.org", "MX"),
        ];
        for _ in 0..3 {
            for (name, rtype) in questions {
                let said = delv(server.address(), ("example.org", &anchor), &[name, rtype]);
                assert!(
                    said.contains("fully validated"),
                    "{way} {name} {rtype}: {said}\n{}",
                    server.log()
                );
            }
        }
        // A resolver may answer from a proof: it must not deny what scripts compute (RFC 8198).
        let denied = ask(
            server.address(),
            "127.0.0.1",
            &["two.example.org", "NSEC", "+dnssec"],
        )
        .1;
        assert!(
            way != "nsec"
                || denied
                    .iter()
                    .any(|line| line.contains("NSEC") && line.contains(" A ")),
            "{denied:?}"
        );
    }
}

/// The data of a city database for one network.
fn city(
    continent: &str,
    country: &str,
    region: &str,
    (latitude, longitude): (f64, f64),
) -> GeoValue {
    let map = GeoValue::Map;
    map(vec![
        (
            "city",
            map(vec![("names", map(vec![("en", "Town".into())]))]),
        ),
        ("continent", map(vec![("code", continent.into())])),
        ("country", map(vec![("iso_code", country.into())])),
        (
            "location",
            map(vec![
                ("latitude", GeoValue::Double(latitude)),
                ("longitude", GeoValue::Double(longitude)),
            ]),
        ),
        (
            "subdivisions",
            GeoValue::List(vec![map(vec![("iso_code", region.into())])]),
        ),
    ])
}

const GEO_ZONE: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n\
    cc LUA TXT \"countryCode()\"\nco LUA TXT \"continentCode()\"\nre LUA TXT \"regionCode()\"\n\
    is LUA TXT \"tostring(country('NL'))..tostring(country({'DE','nl'}))..tostring(continent('EU'))..tostring(region('NH'))\"\n\
    as LUA TXT \"tostring(asnum(64500))..tostring(asnum({64501,64502}))\"\n\
    at LUA TXT \"latlon()\"\nloc LUA LOC \"latlonloc()\"\n\
    near LUA A \"pickclosest({'192.0.2.1', '198.51.100.1', '203.0.113.1'})\"\n\
    *.magic LUA A \"closestMagic()\"\n\
    of LUA TXT \"geoiplookup('198.51.100.7', GeoIPQueryAttribute.City)\"\n";

pub fn write_databases(directory: &Path) -> [std::path::PathBuf; 2] {
    let files = ["city.mmdb", "asn.mmdb"].map(|name| directory.join(name));
    let cities = [
        ("127.0.0.0/16", city("EU", "NL", "NH", (52.37, 4.89))),
        ("127.1.0.0/16", city("OC", "NZ", "AUK", (-36.85, 174.76))),
        ("192.0.2.0/24", city("EU", "DE", "BE", (52.52, 13.40))),
        ("198.51.100.0/24", city("OC", "AU", "NSW", (-33.87, 151.21))),
        ("203.0.113.0/24", city("NA", "US", "CA", (37.77, -122.42))),
    ];
    let system =
        |number| GeoValue::Map(vec![("autonomous_system_number", GeoValue::Number(number))]);
    let systems = [
        ("127.0.0.0/16", system(64_500)),
        ("127.1.0.0/16", system(64_502)),
    ];
    fs::write(&files[0], geo_database("GeoIP2-City", &cities)).unwrap();
    fs::write(&files[1], geo_database("GeoLite2-ASN", &systems)).unwrap();
    files
}

#[test]
fn scripts_know_where_clients_are() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_databases(directory.path());
    let config = format!("[lua]\nrecords = true\n[geoip]\ndatabases = {files:?}\n");
    let server = Setup::new()
        .config(&config)
        .zone("geo.test", GEO_ZONE)
        .start();
    let asked = |source: &str, name: &str, rtype: &str| {
        let name = format!("{name}.geo.test");
        let (_, answers) = ask(server.address(), source, &[&name, rtype]);
        let answer = answers.first().cloned().unwrap_or_default();
        answer.splitn(5, ' ').nth(4).unwrap_or_default().to_owned()
    };
    let expected = [
        ("127.0.0.1", "cc", "TXT", "\"nl\""),
        ("127.1.0.1", "cc", "TXT", "\"nz\""),
        ("127.2.0.1", "cc", "TXT", "\"--\""),
        ("127.0.0.1", "co", "TXT", "\"eu\""),
        ("127.0.0.1", "re", "TXT", "\"nh\""),
        ("127.0.0.1", "is", "TXT", "\"truetruetruetrue\""),
        ("127.1.0.1", "is", "TXT", "\"falsefalsefalsefalse\""),
        ("127.0.0.1", "as", "TXT", "\"truefalse\""),
        ("127.1.0.1", "as", "TXT", "\"falsetrue\""),
        ("127.0.0.1", "at", "TXT", "\"52.370000 4.890000\""),
        (
            "127.0.0.1",
            "loc",
            "LOC",
            "52 22 12.000 N 4 53 24.000 E 0.00m 1m 10000m 10m",
        ),
        ("127.0.0.1", "near", "A", "192.0.2.1"),
        ("127.1.0.1", "near", "A", "198.51.100.1"),
        (
            "127.1.0.1",
            "203-0-113-9.198-51-100-9.magic",
            "A",
            "198.51.100.9",
        ),
        ("127.0.0.1", "of", "TXT", "\"town\""),
    ];
    for (source, name, rtype, answer) in expected {
        assert_eq!(
            asked(source, name, rtype),
            answer,
            "{source} {name}\n{}",
            server.log()
        );
    }
    // A damaged file is a fault, and its contents stay in use; an intact one ends it.
    fs::write(&files[0], b"not a database").unwrap();
    done(&server, &["reload"]);
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("city.mmdb cannot be used")
    });
    assert_eq!(asked("127.0.0.1", "cc", "TXT"), "\"nl\"");
    let moved = [("127.0.0.0/16", city("NA", "US", "CA", (37.77, -122.42)))];
    fs::write(&files[0], geo_database("GeoIP2-City", &moved)).unwrap();
    done(&server, &["reload"]);
    assert_eq!(asked("127.0.0.1", "cc", "TXT"), "\"us\"");
    server.wait_until("the end of the fault", || {
        !done(&server, &["status"]).contains("city.mmdb")
    });
}
