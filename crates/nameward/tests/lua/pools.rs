//! Pools and maps in a whole server: checks from the start, failures, what an operator forces, clients, reloads.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::mmdb::geo_database;
use nameward_testkit::{Setup, TestServer};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, Stream};

use super::{ask, city, status_of};
use crate::operation::not_ready::counter;
use crate::operation::secure::{delv, done, write_anchor};

const APEX: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";

#[test]
fn pools_leave_out_members_that_fail_without_lua_records() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = format!(
        "[health]\ninterval = 1\n\
         [[pool]]\nname = \"web\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\nanswers = 0\ncheck = \"tcp\"\nport = {port}\n\
         [[pool]]\nname = \"far\"\nmembers = [\"192.0.2.9\"]\n\
         [[map]]\nname = \"geo\"\nentries = [{{ networks = [\"127.0.0.3\"], pools = [\"far\"] }}]\ndefault = [\"web\"]\n"
    );
    let zone = format!(
        "{APEX}www LUA A \"pool('web')\"\nwww LUA AAAA \"pool('web')\"\ngeo LUA A \"pool('geo')\"\nlost LUA A \"pool('nosuch')\"\n"
    );
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    let addresses = |name: &str, source: &str| {
        let (_, answers) = ask(server.address(), source, &[name, "A"]);
        let data = answers.iter().filter_map(|line| line.split(' ').nth(4));
        data.map(str::to_owned).collect::<Vec<_>>()
    };
    // Nothing was queried before: members are checked from the start.
    server.wait_until("the first checks", || {
        done(&server, &["health", "list"]).contains(&format!("down     127.0.0.2 port {port}"))
    });
    server.wait_until("the answer without it", || {
        addresses("www.up.test", "127.0.0.1") == ["127.0.0.1"]
    });
    assert_eq!(
        status_of(&server, "www.up.test", "AAAA"),
        ("NOERROR".to_owned(), 0)
    );
    assert_eq!(addresses("geo.up.test", "127.0.0.1"), ["127.0.0.1"]);
    assert_eq!(addresses("geo.up.test", "127.0.0.3"), ["192.0.2.9"]);
    assert_eq!(status_of(&server, "lost.up.test", "A").0, "SERVFAIL");
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("lost.up.test. A: no pool \"nosuch\"")
    });
    assert!(done(&server, &["status"]).contains("1 up, 1 down, 0 not checked yet, 0 forced"));
    done(&server, &["health", "force", "127.0.0.1", "down"]);
    done(&server, &["health", "force", "127.0.0.2", "up"]);
    assert_eq!(addresses("www.up.test", "127.0.0.1"), ["127.0.0.2"]);
    done(&server, &["health", "force", "127.0.0.1", "auto"]);
    done(&server, &["health", "force", "127.0.0.2", "auto"]);
    assert_eq!(addresses("www.up.test", "127.0.0.1"), ["127.0.0.1"]);
    let recovered = TcpListener::bind(("127.0.0.2", port)).unwrap();
    server.wait_until("the recovery", || {
        addresses("www.up.test", "127.0.0.1").len() == 2
    });
    drop(recovered);
}

#[test]
fn name_servers_are_checked_by_a_query() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut message) {
            message[2] |= 0x80;
            let _ = socket.send_to(&message[..length], peer);
        }
    });
    let config = format!(
        "[health]\ninterval = 1\n[[pool]]\nname = \"dns\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\nanswers = 0\n\
         check = \"dns\"\nport = {port}\nquery = \"example.org.\"\ntimeout_ms = 500\n"
    );
    let zone = format!("{APEX}ns1 LUA A \"pool('dns')\"\n");
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    server.wait_until("the answer without the other one", || {
        let (_, answers) = ask(server.address(), "127.0.0.1", &["ns1.up.test", "A"]);
        answers == ["ns1.up.test. 300 IN A 127.0.0.1"]
    });
}

/// Returns the addresses that a server answers with, sorted.
fn addresses_of(server: &TestServer, source: &str, question: &[&str]) -> Vec<String> {
    let (_, answers) = ask(server.address(), source, question);
    let is_address = |line: &&String| line.contains(" IN A ");
    let data = answers.iter().filter(is_address);
    data.filter_map(|line| line.split(' ').nth(4))
        .map(str::to_owned)
        .collect()
}

#[test]
fn answers_of_signed_pools_are_signed_before_they_are_queried() {
    let state = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nstate_directory = {:?}\n\
         [[pool]]\nname = \"web\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\nanswers = 0\ncheck = \"tcp\"\nport = 9\n\
         [[pool]]\nname = \"one\"\nmembers = [\"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\"]\n",
        state.path()
    );
    let zone = format!(
        "{APEX}www LUA A \"pool('web')\"\none LUA A \"pool('one')\"\n*.any LUA A \"pool('one')\"\n"
    );
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    done(&server, &["health", "force", "127.0.0.1", "up"]);
    done(&server, &["health", "force", "127.0.0.2", "up"]);
    done(&server, &["zone", "secure", "up.test"]);
    // Both members, each of them alone; three at each of the other names.
    server.wait_until("the signatures", || {
        counter(&server, "signatures") >= 3 + 3 + 3
    });
    let before = counter(&server, "signatures");
    let signed = |name: &str| {
        let (_, answers) = ask(
            server.address(),
            "127.0.0.1",
            &[name, "A", "+dnssec", "+tcp"],
        );
        assert!(
            answers.iter().any(|line| line.contains(" RRSIG A ")),
            "{answers:?}"
        );
        answers.len()
    };
    for _ in 0..20 {
        assert_eq!(signed("one.up.test"), 2);
    }
    assert_eq!(signed("www.up.test"), 3);
    done(&server, &["health", "force", "127.0.0.1", "down"]);
    assert_eq!(signed("www.up.test"), 2);
    done(&server, &["health", "force", "127.0.0.1", "up"]);
    done(&server, &["health", "force", "127.0.0.2", "down"]);
    assert_eq!(signed("www.up.test"), 2);
    assert_eq!(counter(&server, "signatures"), before, "{}", server.log());
    let anchor = state.path().join("anchor");
    write_anchor(&server, "up.test", &anchor);
    for name in ["www.up.test", "one.up.test", "some.any.up.test"] {
        for _ in 0..3 {
            let said = delv(server.address(), ("up.test", &anchor), &[name, "A"]);
            assert!(said.contains("fully validated"), "{name}: {said}");
        }
    }
}

#[test]
fn targets_of_two_thousand_records_are_checked_before_they_are_queried() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let record = |number: usize| {
        let address = format!("127.1.{}.{}", number / 200, 1 + number % 200);
        format!("n{number} LUA A \"ifportup({port}, {{'{address}'}})\"\n")
    };
    let zone = (0..2000)
        .map(record)
        .fold(APEX.to_owned(), |all, one| all + &one);
    let config = "[lua]\nrecords = true\n[health]\ninterval = 60\n";
    let server = Setup::new().config(config).zone("up.test", &zone).start();
    server.wait_until("the checks", || {
        let list = done(&server, &["health", "list"]);
        let is_checked = |line: &&str| line.starts_with("up ") || line.starts_with("down ");
        list.lines().filter(is_checked).count() == 2000
    });
    // This also applies to a record that is added later.
    let late = "late LUA A \"ifportup(9, {'127.2.0.1'})\"\n";
    server.write_zone("up.test", &(zone.replace(" 1 3600", " 2 3600") + late));
    done(&server, &["reload"]);
    server.wait_until("the check of a new record", || {
        done(&server, &["health", "list"]).contains("down     127.2.0.1 port 9")
    });
}

#[test]
fn maps_choose_by_country_continent_and_distance() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("city.mmdb");
    let networks = [
        ("192.0.2.0/25", city("EU", "NL", "NH", (52.4, 4.9))),
        ("198.51.100.0/24", city("EU", "DE", "BE", (52.5, 13.4))),
        ("203.0.113.0/24", city("OC", "AU", "NSW", (-33.9, 151.2))),
    ];
    std::fs::write(&database, geo_database("GeoLite2-City", &networks)).unwrap();
    let pool = |name: &str, last: u8| {
        format!("[[pool]]\nname = \"{name}\"\nmembers = [\"192.0.2.{last}\"]\n")
    };
    let config = format!(
        "[geoip]\ndatabases = [{database:?}]\n[client_subnet]\nallow_from = [\"127.0.0.1\"]\n{}{}{}{}{}\
         [[map]]\nname = \"geo\"\nentries = [\n\
         {{ networks = [\"192.0.2.64/26\"], pools = [\"net\"] }},\n\
         {{ countries = [\"nl\"], pools = [\"nl\"] }},\n\
         {{ continents = [\"EU\"], pools = [\"eu\"] }},\n\
         {{ latitude = -37.8, longitude = 145.0, pools = [\"south\"] }},\n\
         {{ latitude = 40.7, longitude = -74.0, pools = [\"eu\"] }}]\ndefault = [\"all\"]\n",
        pool("net", 1),
        pool("nl", 2),
        pool("eu", 3),
        pool("south", 4),
        pool("all", 5)
    );
    let zone = format!("{APEX}geo LUA A \"pool('geo')\"\n");
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    for (subnet, expected) in [
        ("192.0.2.65/32", "192.0.2.1"),
        ("192.0.2.1/32", "192.0.2.2"),
        ("198.51.100.0/24", "192.0.2.3"),
        ("203.0.113.7/32", "192.0.2.4"),
        ("10.0.0.0/8", "192.0.2.5"),
        ("0.0.0.0/0", "192.0.2.5"),
    ] {
        let subnet = format!("+subnet={subnet}");
        let found = addresses_of(&server, "127.0.0.1", &["geo.up.test", "A", &subnet]);
        assert_eq!(found, [expected], "{subnet}");
    }
}

#[test]
fn members_are_checked_by_http_requests() {
    let answer = Arc::new(Mutex::new(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready".to_owned(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(String::new()));
    let (answers, seen) = (Arc::clone(&answer), Arc::clone(&requests));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut octets = [0; 1024];
            let length = stream.read(&mut octets).unwrap_or(0);
            *seen.lock().unwrap() = String::from_utf8_lossy(&octets[..length]).into_owned();
            let text = answers.lock().unwrap().clone();
            let _ = stream.write_all(text.as_bytes());
        }
    });
    let config = format!(
        "[health]\ninterval = 1\n[[pool]]\nname = \"web\"\nmembers = [\"127.0.0.1\", {{ address = \"192.0.2.1\", order = 1, check_address = \"127.0.0.1\" }}]\n\
         all_down = \"empty\"\ncheck = \"http\"\nport = {port}\nhost = \"www.example.org\"\npath = \"/health\"\ncontains = \"ready\"\n"
    );
    let zone = format!("{APEX}www LUA A \"pool('web')\"\n");
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    let answered = || addresses_of(&server, "127.0.0.1", &["www.up.test", "A"]);
    let listed = |text: &str| done(&server, &["health", "list"]).contains(text);
    server.wait_until("the first checks", || listed("up  "));
    assert_eq!(answered(), ["127.0.0.1"]);
    let request = requests.lock().unwrap().clone();
    assert!(request.starts_with("GET /health HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains(&format!("Host: www.example.org:{port}\r\n")),
        "{request}"
    );
    *answer.lock().unwrap() = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbusy".to_owned();
    server.wait_until("the failure", || {
        listed("the response does not contain \"ready\"")
    });
    server.wait_until("the empty answer", || answered().is_empty());
    *answer.lock().unwrap() = "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nready".to_owned();
    server.wait_until("the other failure", || listed("HTTP status 503, not 200"));
    *answer.lock().unwrap() = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready".to_owned();
    server.wait_until("the recovery", || answered() == ["127.0.0.1"]);
}

/// Answers HTTPS requests on an address with a certificate, until the test ends.
fn https_server(address: (&str, u16), files: &IssuedCertificate) -> u16 {
    let chain = CertificateDer::pem_file_iter(&files.certificate).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = Stream::new(&mut connection, &mut stream);
            // A client that refuses the certificate ends it here.
            if stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {
                let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready";
                let _ = stream.write_all(text.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    port
}

#[test]
fn members_are_checked_by_https_with_certificates_that_must_be_valid() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority").unwrap();
    let other = Authority::new(directory.path(), "other").unwrap();
    let good = authority.issue("good", &["www.example.org"], Validity::Current);
    let port = https_server(("127.0.0.2", 0), &good.unwrap());
    let wrong = authority.issue("wrong", &["example.org"], Validity::Current);
    https_server(("127.0.0.3", port), &wrong.unwrap());
    let expired = authority.issue("expired", &["www.example.org"], Validity::Expired);
    https_server(("127.0.0.4", port), &expired.unwrap());
    let unknown = other.issue("unknown", &["www.example.org"], Validity::Current);
    https_server(("127.0.0.5", port), &unknown.unwrap());
    let config = format!(
        "[health]\ninterval = 1\ntls_ca = {:?}\n[[pool]]\nname = \"web\"\nanswers = 0\n\
         members = [\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.4\", \"127.0.0.5\"]\n\
         check = \"https\"\nport = {port}\nhost = \"www.example.org\"\ncontains = \"ready\"\ntimeout_ms = 10000\n",
        authority.path()
    );
    let zone = format!("{APEX}www LUA A \"pool('web')\"\n");
    let setup = Setup::new().config(&config);
    let server = setup.zone("up.test", &zone).start();
    let answered = || addresses_of(&server, "127.0.0.1", &["www.up.test", "A"]);
    server.wait_until("the first checks", || answered() == ["127.0.0.2"]);
    let list = done(&server, &["health", "list"]);
    for (member, state, reason) in [
        ("127.0.0.2", "up", ""),
        ("127.0.0.3", "down", "certificate not valid for name"),
        ("127.0.0.4", "down", "certificate expired"),
        ("127.0.0.5", "down", "UnknownIssuer"),
    ] {
        let mut lines = list.lines().filter(|line| line.contains(member));
        let line = lines.next().unwrap();
        assert!(line.starts_with(state) && line.contains(reason), "{list}");
    }
    // A reload takes over another authority.
    let path = server.dir().join("nameward.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (from, to) = (authority.path().display(), other.path().display());
    std::fs::write(&path, text.replace(&from.to_string(), &to.to_string())).unwrap();
    done(&server, &["reload"]);
    server.wait_until("the other authority", || answered() == ["127.0.0.5"]);
}

#[test]
fn members_fail_and_recover_while_clients_query() {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = format!(
        "[health]\ninterval = 1\n[[pool]]\nname = \"web\"\nanswers = 0\ncheck = \"tcp\"\nport = {port}\n\
         members = [{{ address = \"127.0.0.2\" }}, {{ address = \"127.0.0.3\" }}]\n"
    );
    let zone = format!("{APEX}www LUA A \"pool('web')\"\n");
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    let is_over = AtomicBool::new(false);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x02up\x04test\0\0\x01\0\x01";
            let mut reply = [0; 512];
            let mut counts = [0u64; 3];
            while !is_over.load(Ordering::Relaxed) {
                socket.send(query).unwrap();
                let length = socket.recv(&mut reply).unwrap();
                // NOERROR with one or two addresses, never without.
                assert_eq!(reply[3] & 15, 0);
                assert!(length > 40);
                counts[usize::from(reply[7])] += 1;
            }
            counts
        });
        let answered = || addresses_of(&server, "127.0.0.1", &["www.up.test", "A"]);
        for _ in 0..2 {
            server.wait_until("one member", || answered() == ["127.0.0.2"]);
            let other = TcpListener::bind(("127.0.0.3", port)).unwrap();
            server.wait_until("both members", || answered().len() == 2);
            drop(other);
        }
        is_over.store(true, Ordering::Relaxed);
        let counts = asking.join().unwrap();
        assert_eq!(counts[0], 0, "{counts:?}");
        assert!(counts[1] > 0 && counts[2] > 0, "{counts:?}");
    });
}

#[test]
fn records_with_unknown_pools_are_reported_by_check_load_and_change() {
    let setup = Setup::new();
    let state = setup.dir().join("state");
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[[pool]]\nname = \"web\"\nmembers = [\"192.0.2.1\"]\n\
         [[map]]\nname = \"geo\"\nentries = []\ndefault = [\"web\"]\n"
    );
    let zone = format!(
        "{APEX}www LUA A \"pool('web')\"\ngeo LUA A \"pool('geo')\"\nlost LUA A \"pool('nosuch')\"\n"
    );
    let server = setup.config(&config).zone("up.test", &zone).start();
    let expected = "up.test.zone:7: warning: lost.up.test. LUA: unknown pool \"nosuch\"";
    let path = server.dir().join("nameward.toml");
    let told = |arguments: &[&str]| {
        let output = server.command(arguments);
        assert!(output.status.success(), "{output:?}");
        let (out, err) = (&output.stdout, &output.stderr);
        [out, err]
            .map(|text| String::from_utf8_lossy(text))
            .concat()
    };
    let check = || told(&["check", "--config", path.to_str().unwrap()]);
    let found = check();
    assert!(found.contains(expected), "{found}");
    assert_eq!(found.matches("unknown pool").count(), 1, "{found}");
    assert!(server.wait_for_log("lost.up.test. LUA: unknown pool \"nosuch\""));
    assert_eq!(server.log().matches("unknown pool").count(), 1);

    // A change is checked against the pools of the running server, also after a reload.
    let add = |name: &str, pool: &str| {
        let data = format!("A \"pool('{pool}')\"");
        told(&["record", "add", "up.test", name, "LUA", "60", &data])
    };
    assert!(add("a", "nosuch").contains("a.up.test. LUA: unknown pool \"nosuch\""));
    assert!(!add("b", "geo").contains("unknown pool"));
    let text = std::fs::read_to_string(&path).unwrap();
    let added = "\n[[pool]]\nname = \"nosuch\"\nmembers = [\"192.0.2.2\"]\n";
    std::fs::write(&path, text + added).unwrap();
    done(&server, &["reload"]);
    assert!(!add("c", "nosuch").contains("unknown pool"));
    assert!(!check().contains("unknown pool"));
    assert_eq!(
        status_of(&server, "lost.up.test", "A"),
        ("NOERROR".to_owned(), 1)
    );
}
