//! Malformed and hostile updates, one table for zone files and for each database: the same response codes, nothing
//! changed, and a server that continues.

#[expect(dead_code, reason = "the table is used as a whole where it stands")]
#[path = "../../../peers/tests/update/cases.rs"]
mod cases;
#[expect(dead_code, reason = "the table is used as a whole where it stands")]
#[path = "../../../peers/tests/update/text.rs"]
mod text;

use std::net::UdpSocket;
use std::time::Duration;

use nameward_testkit::conformance::ZoneText;
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use nameward_wire::{NameBuf, Rcode};

use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use super::update::nsupdate_at;

const ALLOWED: &str = "[[zone]]\nname = \"one.test\"\nallow_update = [\"127.0.0.1\"]\n";
/// Timeout for a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

fn apex() -> NameBuf {
    "one.test.".parse().unwrap()
}

/// The zone of the table, with TTLs.
fn zone() -> ZoneText {
    let with_ttl = |line: &str| match line.split_once(' ') {
        Some((owner, rest)) => format!("{owner} 300 {rest}\n"),
        None => String::new(),
    };
    ZoneText {
        name: "one.test".into(),
        text: cases::ZONE.lines().map(with_ttl).collect(),
    }
}

/// Invalid messages, with descriptions and response codes.
fn messages() -> Vec<(String, Vec<u8>, Rcode)> {
    let apex = apex();
    let is_wrong = |code: Rcode| matches!(code, Rcode::FormErr | Rcode::NotZone);
    let wrong = cases::CASES.iter().filter(|case| is_wrong(case.2));
    let mut all: Vec<_> = wrong
        .map(|case| (case.0.to_owned(), text::message(case.1, &apex), case.2))
        .collect();
    let good = text::message("prereq yxdomain www\nadd new 60 A 192.0.2.99", &apex);
    let mut push = |sentence: &str, message: Vec<u8>, code| {
        all.push((sentence.to_owned(), message, code));
    };
    for length in 12..good.len() {
        let sentence = format!("a message that ends after {length} octets");
        push(&sentence, good[..length].to_vec(), Rcode::FormErr);
    }
    push(
        "a message with more behind it",
        [&good[..], b"x"].concat(),
        Rcode::FormErr,
    );
    for (place, what) in [
        (4, "zones"),
        (6, "prerequisites"),
        (8, "steps"),
        (10, "others"),
    ] {
        let mut many = good.clone();
        many[place..place + 2].fill(0xff);
        push(&format!("65,535 {what}"), many, Rcode::FormErr);
    }
    let mut none = good.clone();
    none[5] = 0;
    push("no zone", none, Rcode::FormErr);
    // The owner of the first prerequisite follows the zone section.
    let owner = 12 + apex.as_name().as_wire().len() + 4;
    for (target, sentence) in [
        (owner, "an owner that leads to itself"),
        (owner + 40, "an owner that leads forward"),
        (0, "an owner that leads into the header"),
    ] {
        let mut looped = good.clone();
        looped[owner..owner + 2].copy_from_slice(&(0xc000 | target as u16).to_be_bytes());
        push(sentence, looped, Rcode::FormErr);
    }
    let mut label = good.clone();
    label[owner] = 0x41;
    push("a label of a type that is none", label, Rcode::FormErr);
    let long = [&[63][..], &[b'a'; 63]].concat().repeat(5);
    let mut name = good[..owner].to_vec();
    name.extend(long);
    name.extend(&good[owner..]);
    push("a name of more than 255 octets", name, Rcode::FormErr);
    let mut data = good.clone();
    let at = data.len() - 6;
    data[at..at + 2].fill(0xff);
    push("data of 65,535 octets", data, Rcode::FormErr);
    let of_zone = |kind, class| text::whole(&apex, (kind, class), &[], &[]);
    push(
        "a zone section that is no SOA",
        of_zone(1, 1),
        Rcode::FormErr,
    );
    push("a zone of another class", of_zone(6, 3), Rcode::NotAuth);
    let other: NameBuf = "other.test.".parse().unwrap();
    let message = text::message("add new 60 A 192.0.2.99", &other);
    push("a zone that is not served", message, Rcode::NotAuth);
    let below: NameBuf = "www.one.test.".parse().unwrap();
    let message = text::message("add new 60 A 192.0.2.99", &below);
    push("a zone that is a name of another", message, Rcode::NotAuth);
    all
}

/// The response code for a message, and the length of the reply.
fn send(server: &TestServer, message: &[u8], id: u16) -> (u8, usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.connect(server.address()).unwrap();
    let mut message = message.to_vec();
    message[..2].copy_from_slice(&id.to_be_bytes());
    socket.send(&message).unwrap();
    let mut reply = [0; 4096];
    let length = socket.recv(&mut reply).unwrap();
    assert_eq!(reply[..2], message[..2]);
    assert_eq!(reply[2] & 0xf8, 0xa8, "a reply to an UPDATE");
    (reply[3] & 15, length)
}

fn check(server: &TestServer) {
    for (number, (sentence, message, code)) in messages().iter().enumerate() {
        let (found, length) = send(server, message, number as u16);
        assert_eq!(found, *code as u8, "{sentence}: {}", server.log());
        assert!(
            length <= message.len() + 64,
            "{sentence}: a reply of {length} octets"
        );
    }
    // Nothing has changed: the first valid update is the first one in the log.
    let good = "zone one.test.\nprereq nxdomain new.one.test.\nprereq yxrrset www.one.test. A 192.0.2.10\n\
                prereq yxrrset www.one.test. A 192.0.2.11\nprereq yxrrset www.one.test. TXT \"web\"\n\
                prereq yxrrset one.test. SOA ns1.one.test. host.one.test. 10 3600 600 86400 300\n\
                update add new.one.test. 60 A 192.0.2.77";
    let sent = nsupdate_at(server.address(), &["-t", "60"], good);
    assert_eq!(sent, (true, String::new()), "{}", server.log());
}

fn start(backend: &str) -> TestServer {
    let setup = Setup::new().without_web();
    setup.config(&format!("{ALLOWED}{backend}")).start()
}

#[test]
fn hostile_updates_change_nothing_in_zone_files() {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let config = format!("[server]\nstate_directory = {state:?}\n{ALLOWED}");
    let server = setup.config(&config).zone("one.test", &zone().file_text());
    check(&server.start());
}

#[test]
fn hostile_updates_change_nothing_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    database.add(&zone());
    let path = database.path.display();
    check(&start(&format!(
        "[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n"
    )));
}

fn check_server(kind: DatabaseKind) {
    if let Some(database) = started(kind) {
        run(&database, kind, &fill(&[zone()]));
        check(&start(&backend(kind, &database.url(), "live")));
    }
}

#[test]
fn hostile_updates_change_nothing_in_postgresql() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn hostile_updates_change_nothing_in_mariadb() {
    check_server(DatabaseKind::Mariadb);
}
