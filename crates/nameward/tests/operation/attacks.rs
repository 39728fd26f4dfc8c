//! Attacks that have hurt other servers, tried on a whole one; docs/known-attacks.md lists the classes.

use std::{
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    time::Duration,
};

use nameward_testkit::TestServer;

use super::ask::{rcode, zone};

/// Datagrams in flight: few enough for any socket buffer.
const WINDOW: usize = 64;

/// Sends every message and waits for an answer to each; the ids are set here.
fn all_are_answered(server: &TestServer, messages: impl Iterator<Item = Vec<u8>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut messages = messages.peekable();
    while messages.peek().is_some() {
        let window: Vec<Vec<u8>> = messages.by_ref().take(WINDOW).collect();
        for (id, message) in window.iter().enumerate() {
            let mut message = message.clone();
            message[..2].copy_from_slice(&(id as u16).to_be_bytes());
            socket.send(&message).unwrap();
        }
        let mut waiting: Vec<bool> = vec![true; window.len()];
        while let Some(lost) = waiting.iter().position(|waits| *waits) {
            let mut buffer = [0; 4096];
            let length = socket.recv(&mut buffer).unwrap_or_else(|error| {
                panic!("no answer to {:02x?}: {error}", window[lost]);
            });
            assert!(length >= 12 && buffer[2] & 0x80 != 0, "a response");
            waiting[usize::from(u16::from_be_bytes([buffer[0], buffer[1]]))] = false;
        }
    }
}

fn message(opcode: u8, rtype: u16, class: u16) -> Vec<u8> {
    let mut message = vec![0, 0, opcode << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(b"\x03www\x03one\x07example\x00");
    message.extend_from_slice(&rtype.to_be_bytes());
    message.extend_from_slice(&class.to_be_bytes());
    message
}

#[test]
fn every_type_class_and_opcode_is_answered() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    all_are_answered(&server, (0..=u16::MAX).map(|rtype| message(0, rtype, 1)));
    all_are_answered(&server, (0..=u16::MAX).map(|class| message(0, 1, class)));
    let odd = [
        0, 1, 2, 6, 41, 128, 249, 250, 251, 252, 253, 254, 255, 256, 65281, 65535,
    ];
    let classes = [0, 1, 2, 3, 4, 254, 255, 256, 65535];
    let combined = (0..16).flat_map(|opcode| {
        let types = odd.iter();
        types.flat_map(move |rtype| classes.map(|class| message(opcode, *rtype, class)))
    });
    all_are_answered(&server, combined);
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
}

#[test]
fn aliases_in_circles_and_endless_names_end() {
    let long = "x".repeat(60);
    let text = format!(
        "{}a CNAME b\nb CNAME a\nself CNAME self\n*.w CNAME x.w\nd DNAME d.d\ne DNAME f\nf DNAME e\n\
         g DNAME {long}.{long}.{long}\nt DNAME t2\nt2 DNAME u.t\n",
        zone("www")
    );
    let server = TestServer::start("", &[("one.example", &text)]);
    for name in [
        "a", "self", "y.w", "x.w", "x.d", "x.d.d", "x.e", "x.t", "x.t2",
    ] {
        rcode(server.address(), &format!("{name}.one.example"));
    }
    // RFC 6672 section 2.2: a name that becomes too long gives YXDOMAIN.
    let name = format!("{long}.g.one.example");
    assert_eq!(rcode(server.address(), &name), 6);
}

#[test]
fn nsec3_parameters_that_cost_too_much_are_refused() {
    let text = format!("{}@ NSEC3PARAM 1 0 65535 -\n", zone("www"));
    let server = TestServer::start("", &[("bad.example", &text), ("one.example", &zone("www"))]);
    assert_eq!(rcode(server.address(), "www.bad.example"), 2);
    assert!(
        server.log().contains("bad.example.zone:6:"),
        "{}",
        server.log()
    );
}

#[test]
fn nsec3_iterations_of_a_zone_file_are_warned_of() {
    let text = |iterations: u16| format!("{}@ NSEC3PARAM 1 0 {iterations} -\n", zone("www"));
    let files = [("costly.example", text(10)), ("good.example", text(0))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = TestServer::start("", &files);
    let warning = "costly.example. has 10 NSEC3 iterations; sign the zone with 0 (RFC 9276)";
    assert!(server.wait_for_log(warning), "{}", server.log());
    assert_eq!(rcode(server.address(), "www.costly.example"), 0);
    assert!(!server.log().contains("good.example. has"));
}

#[test]
fn a_name_with_ten_thousand_records_is_answered_within_a_datagram() {
    let mut text = zone("www");
    for n in 0..10_000 {
        text.push_str(&format!("many A 10.0.{}.{}\n", n / 256, n % 256));
    }
    for n in 0..100 {
        text.push_str(&format!("mx MX {n} many\n"));
    }
    let server = TestServer::start("", &[("one.example", &text)]);
    for _ in 0..100 {
        for name in ["many", "mx"] {
            let answer = super::ask::ask(server.address(), &format!("{name}.one.example"));
            assert!(answer.length <= 512, "{name}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every Rust source below a directory.
fn sources(directory: &Path, all: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_known_attacks_names_exists() {
    let mut all = String::new();
    sources(&root().join("crates"), &mut all);
    let page = fs::read_to_string(root().join("docs/known-attacks.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    for row in rows {
        let cells: Vec<_> = row.split(" | ").collect();
        let tests = cells.last().unwrap().trim_end_matches('|');
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        let absent = row.contains("not here yet");
        assert!(absent || !named.is_empty(), "no test: {row}");
        for test in named {
            let exists = match test.strip_prefix("tests/") {
                Some(_) => root().join(test).is_file(),
                None => all.contains(&format!("fn {test}(")),
            };
            assert!(exists, "{test} is named, but does not exist");
        }
    }
}

#[test]
fn control_characters_of_a_file_name_reach_neither_terminal_nor_log() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    server.write_zone("\u{1b}[31mred\nERROR forged line", "not a zone\n");
    let reloaded = server.command(&["reload"]);
    let config = server.dir().join("nameward.toml");
    let check = server.command(&["check", "--config", config.to_str().unwrap()]);
    let shown = [reloaded.stdout, reloaded.stderr, check.stdout, check.stderr].concat();
    let shown = String::from_utf8_lossy(&shown).into_owned() + &server.log();
    assert!(
        shown.contains(r"\027[31mred\010ERROR forged line"),
        "{shown}"
    );
    let is_bad = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(is_bad), "{shown:?}");
    assert!(
        !shown.lines().any(|line| line.starts_with("ERROR forged")),
        "{shown}"
    );
}
