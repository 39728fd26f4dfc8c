//! Access control for queries: lists per zone and for all zones, on every backend and transport, from caches, across
//! reloads.

use std::{fs, path::Path, process::Command};

use nameward_testkit::{
    Setup, TestServer,
    certificates::{Authority, Validity},
    peers::free_address,
    wire::{Client, Message, Transport, question},
};

use super::ask::{eventually, zone};

const BOTH: [Transport; 2] = [Transport::Udp, Transport::Tcp];
const REFUSED: u16 = 5;
/// RFC 8914 section 4.19.
const PROHIBITED: u16 = 18;

fn extended_error(message: &Message) -> Option<u16> {
    let option = message.opt.as_ref()?.option(15)?;
    option.first_chunk().map(|code| u16::from_be_bytes(*code))
}

/// The response codes over UDP and TCP, which have to be the same.
fn rcode(server: &TestServer, source: &str, name: &str) -> u16 {
    let address = if source.contains(':') {
        server.address_v6()
    } else {
        server.address()
    };
    let client = Client::new(source, address);
    let [udp, tcp] = BOTH.map(|transport| {
        let message = client.ask(transport, name, "A");
        if message.rcode() == REFUSED {
            assert_eq!(extended_error(&message), Some(PROHIBITED), "{message:?}");
            assert!(message.answer.is_empty() && message.authority.is_empty());
        }
        message.rcode()
    });
    assert_eq!(udp, tcp, "{name} from {source}");
    udp
}

fn reload(server: &TestServer) {
    let output = server.command(&["reload"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

pub fn metric(server: &TestServer, name: &str) -> u64 {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.web()).unwrap();
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", server.web());
    stream.write_all(request.as_bytes()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {page}"))
        .parse()
        .unwrap()
}

const LISTS: &str = r#"
[[zone]]
name = "Internal.example"
allow_query = ["127.0.0.2", "::1"]
"#;

#[test]
fn a_list_can_demand_an_encrypted_connection() {
    let setup = Setup::new();
    let authority = Authority::new(setup.dir(), "authority").unwrap();
    let issued = authority
        .issue("server", &["127.0.0.1"], Validity::Current)
        .unwrap();
    let tls = free_address().unwrap();
    let server = setup
        .zone("open.example", &zone("www"))
        .zone("closed.example", &zone("www"))
        .config(&format!(
            "[server]\nlisten_tls = [\"{tls}\"]\n[tls]\ncertificate = {:?}\nkey = {:?}\n[[zone]]\nname = \"closed.example\"\n\
             allow_query = [\"tls\"]\n",
            issued.certificate, issued.key
        ))
        .start();
    assert_eq!(rcode(&server, "127.0.0.1", "closed.example"), REFUSED);
    assert_eq!(rcode(&server, "127.0.0.1", "open.example"), 0);
    for name in ["open.example", "closed.example"] {
        let output = Command::new("kdig")
            .args([
                "@127.0.0.1",
                "-p",
                &tls.port().to_string(),
                "+tls",
                name,
                "A",
            ])
            .output()
            .expect("kdig is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("status: NOERROR"), "{name}: {text}");
    }
}

#[test]
fn a_zone_in_memory_answers_its_clients_and_refuses_others() {
    let setup = Setup::new().config(LISTS);
    let setup = setup.zone("internal.example", &zone("www"));
    let server = setup.zone("public.example", &zone("www")).start();
    for (source, expected) in [("127.0.0.1", REFUSED), ("127.0.0.2", 0), ("::1", 0)] {
        assert_eq!(
            rcode(&server, source, "www.internal.example"),
            expected,
            "{source}"
        );
        assert_eq!(rcode(&server, source, "www.public.example"), 0, "{source}");
    }
    // Non-existent names are as secret as existing ones.
    assert_eq!(
        rcode(&server, "127.0.0.1", "nothing.internal.example"),
        REFUSED
    );
    let refused = 4;
    let denied = eventually(
        || metric(&server, "nameward_query_denied_total"),
        |denied| *denied >= refused,
    );
    assert_eq!(denied, refused);
    // The zone is ours, so these are not queries for other zones.
    assert_eq!(metric(&server, "pdns_auth_unauth_packets"), 0);
    assert_eq!(
        metric(&server, "nameward_answers_total{rcode=\"REFUSED\"}"),
        refused
    );
}

#[test]
fn requests_outside_all_zones_are_answered_equally_for_all_clients() {
    let server = TestServer::start(
        "[zone_defaults]\nallow_query = []\n",
        &[("internal.example", &zone("www"))],
    );
    let client = Client::new("127.0.0.1", server.address());
    // NOTIFY reveals nothing: this zone has no primary, so NOTAUTH tells no more than REFUSED.
    let mut notify = question(7, "internal.example", "SOA");
    notify[2] |= 4 << 3;
    let reply = client.exchange(Transport::Udp, &notify).unwrap().unwrap();
    assert_eq!(reply.rcode(), 9);
    assert_eq!(rcode(&server, "127.0.0.1", "www.internal.example"), REFUSED);
}

#[test]
fn a_cname_into_a_zone_that_denies_the_client_is_not_followed() {
    let alias = format!("{}into CNAME www.internal.example.\n", zone("www"));
    let setup = Setup::new().config(LISTS).zone("public.example", &alias);
    let server = setup.zone("internal.example", &zone("www")).start();
    for (source, records) in [("127.0.0.1", 1), ("127.0.0.2", 2)] {
        for transport in BOTH {
            let client = Client::new(source, server.address());
            let reply = client.ask(transport, "into.public.example", "A");
            assert_eq!(
                (reply.rcode(), reply.answer.len()),
                (0, records),
                "{reply:?}"
            );
        }
    }
}

#[test]
fn the_parent_is_queried_for_ds_according_to_its_list() {
    let lists = "[[zone]]\nname = \"a.example\"\nallow_query = []\n";
    let setup = Setup::new()
        .config(lists)
        .zone("example", &format!("{}a NS ns\n", zone("www")));
    let server = setup.zone("a.example", &zone("www")).start();
    let client = Client::new("127.0.0.1", server.address());
    assert_eq!(client.ask(Transport::Udp, "a.example", "DS").rcode(), 0);
    assert_eq!(
        client.ask(Transport::Udp, "a.example", "NS").rcode(),
        REFUSED
    );
}

#[test]
fn a_reload_applies_new_lists_and_keeps_those_of_removed_zones() {
    let setup = Setup::new().config(LISTS);
    let server = setup.zone("internal.example", &zone("www")).start();
    let name = "www.internal.example";
    let config = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&config).unwrap();
    let with = |list: &str| {
        fs::write(&config, text.replace(r#"["127.0.0.2", "::1"]"#, list)).unwrap();
        reload(&server);
    };
    assert_eq!(rcode(&server, "127.0.0.1", name), REFUSED);
    with(r#"["!127.0.0.2", "127.0.0.0/8"]"#);
    assert_eq!(rcode(&server, "127.0.0.1", name), 0);
    assert_eq!(rcode(&server, "127.0.0.2", name), REFUSED);
    // The zone file is broken at the same time: the old version stays, under the new list.
    server.write_zone("internal.example", "broken");
    fs::write(&config, text.replace(r#"["127.0.0.2", "::1"]"#, "[]")).unwrap();
    assert!(!server.command(&["reload"]).status.success());
    assert_eq!(rcode(&server, "127.0.0.1", name), REFUSED);
    server.write_zone("internal.example", &zone("www"));
    fs::write(&config, text.replace(LISTS.trim(), "")).unwrap();
    reload(&server);
    assert_eq!(rcode(&server, "127.0.0.1", name), 0);
}

#[test]
fn the_default_is_for_zones_without_a_list_of_their_own() {
    let lists = "[zone_defaults]\nallow_query = [\"127.0.0.2\"]\n\
                 [[zone]]\nname = \"public.example\"\nallow_query = [\"any\"]\n";
    let setup = Setup::new().config(lists);
    let setup = setup.zone("internal.example", &zone("www"));
    let server = setup.zone("public.example", &zone("www")).start();
    for (source, expected) in [("127.0.0.1", REFUSED), ("127.0.0.2", 0)] {
        assert_eq!(rcode(&server, source, "www.internal.example"), expected);
        assert_eq!(rcode(&server, source, "www.public.example"), 0);
    }
}

#[test]
fn clients_in_the_blackhole_get_nothing() {
    let config = "[server]\nblackhole = [\"127.0.0.2\"]\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    let dropped = Client::new("127.0.0.2", server.address());
    let message = question(9, "www.one.example", "A");
    let socket = dropped.send(&message).unwrap();
    let answer = dropped.exchange(Transport::Tcp, &message).unwrap();
    assert!(answer.is_none(), "{answer:?}");
    // Packets that are not queries are dropped, too.
    dropped.send(b"nonsense").unwrap();
    let drops = eventually(
        || metric(&server, "nameward_blackhole_drops_total"),
        |drops| *drops >= 3,
    );
    assert_eq!(drops, 3);
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 512]).is_err());
    assert_eq!(rcode(&server, "127.0.0.1", "www.one.example"), 0);
    assert_eq!(metric(&server, "pdns_auth_udp_queries"), 1);
}

fn database(directory: &Path) {
    let path = directory.join("zones.db");
    let init = std::process::Command::new(nameward_testkit::server::binary())
        .args(["db", "init"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(init.status.success(), "{init:?}");
    let rows = "INSERT INTO domains (id, name, type) VALUES (1, 'internal.example', 'NATIVE');
        INSERT INTO records (domain_id, name, type, content, ttl, auth) VALUES
        (1, 'internal.example', 'SOA', 'ns.internal.example h.internal.example 1 2 3 4 5', 60, 1),
        (1, 'internal.example', 'NS', 'ns.internal.example', 60, 1),
        (1, 'ns.internal.example', 'A', '192.0.2.1', 60, 1),
        (1, 'www.internal.example', 'A', '192.0.2.2', 60, 1);";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(rows)
        .unwrap();
}

#[test]
fn a_zone_of_a_database_has_its_list_and_its_cached_answers_too() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().config(&format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"zones.db\"\nmode = \"{mode}\"\n{LISTS}"
        ));
        database(setup.dir());
        let server = setup.start();
        let name = "www.internal.example";
        eventually(|| rcode(&server, "127.0.0.2", name), |rcode| *rcode == 0);
        // Repeated, so that the last answers of a live zone are from the packet cache.
        for _ in 0..4 {
            assert_eq!(rcode(&server, "127.0.0.2", name), 0, "{mode}");
            assert_eq!(rcode(&server, "127.0.0.1", name), REFUSED, "{mode}");
        }
        if mode == "live" {
            let hits = eventually(
                || metric(&server, "pdns_auth_packetcache_hit"),
                |hits| *hits >= 2,
            );
            assert!(hits >= 2, "{hits}");
        }
    }
}
