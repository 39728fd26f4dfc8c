//! Server-sent events of changes: zone files, databases and DNS UPDATE; filters, resumption and limits.

use super::client::{Client, KEY, SERVER, create_key, create_zones, run, set_address, start};
use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An event.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: String,
    name: String,
    data: Value,
}

impl Event {
    fn summary(&self) -> (&str, &str) {
        let text = |name: &str| self.data[name].as_str().unwrap_or_default();
        (text("kind"), text("zone"))
    }
}

/// An open stream.
struct Events {
    reader: BufReader<TcpStream>,
    status: u16,
    id: String,
}

impl Events {
    fn open(client: &Client, query: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(client.at).unwrap();
        let time_limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(time_limit).unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!(
            "GET {SERVER}/events{query} HTTP/1.1\r\nHost: x\r\nX-API-Key: {}\r\n{}\r\n",
            client.key,
            last.unwrap_or_default()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = Events {
            reader: BufReader::new(stream),
            status: 0,
            id: String::new(),
        };
        let first = events.line().expect("a status line");
        events.status = first.split(' ').nth(1).unwrap().parse().unwrap();
        while events.line().is_some_and(|line| !line.is_empty()) {}
        if events.status == 200 {
            // The stream starts with its position, so later changes are in it.
            while events.id.is_empty() {
                events.field();
            }
        }
        events
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.reader.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads a line of the stream; lines with the sizes of chunks are left out.
    fn field(&mut self) -> Option<(String, String)> {
        loop {
            let line = self.line()?;
            if let Some((name, value)) = line.split_once(':') {
                let (name, value) = (name.to_owned(), value.trim().to_owned());
                if name == "id" {
                    self.id.clone_from(&value);
                }
                return Some((name, value));
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<Event> {
        let mut kind = String::new();
        loop {
            match self.field()? {
                (name, value) if name == "event" => kind = value,
                (name, value) if name == "data" => {
                    return Some(Event {
                        id: self.id.clone(),
                        name: kind,
                        data: serde_json::from_str(&value).unwrap(),
                    });
                }
                _ => {}
            }
        }
    }

    fn expect(&mut self, kind: &str, zone: &str) -> Event {
        let event = self.next().expect("an event");
        assert_eq!(event.summary(), (kind, zone), "{event:?}");
        event
    }
}

#[test]
fn created_changed_and_deleted_zones_are_events_with_serial_and_author() {
    let (server, client) = start("");
    let mut events = Events::open(&client, "", None);
    create_zones(&client, &["a.test."]);
    events.expect("created", "a.test.");
    let change = set_address("www.a.test.", "192.0.2.7");
    client.expect(204, "PATCH", "/zones/a.test.", Some(&change));
    let changed = events.expect("changed", "a.test.");
    let zone = client.expect(200, "GET", "/zones/a.test.", None);
    assert_eq!(changed.name, "zone");
    assert_eq!(changed.data["serial"], zone["serial"]);
    assert_eq!(changed.data["who"], json!("api 127.0.0.1"));
    assert_eq!(changed.data["origin"], json!("change"));
    let set = [
        "record",
        "set",
        "a.test",
        "x",
        "A",
        "60",
        "192.0.2.9",
        "--message",
        "why",
    ];
    let (code, output) = run(&server, &set);
    assert_eq!(code, Some(0), "{output}");
    let changed = events.expect("changed", "a.test.");
    assert_eq!(changed.data["message"], json!("why"));
    client.expect(204, "DELETE", "/zones/a.test.", None);
    let deleted = events.expect("deleted", "a.test.");
    assert_eq!(deleted.data["serial"], Value::Null);
}

#[test]
fn changed_settings_and_keys_are_events_without_secrets() {
    let (server, client) = start("");
    create_zones(&client, &["a.test.", "b.test."]);
    let (_, limited) = create_key(&server, &["--zone", "a.test"]);
    let limited = client.with_key(&limited);
    let mut streams = [&client, &limited].map(|client| Events::open(client, "", None));
    let metadata = json!({ "kind": "ALSO-NOTIFY", "metadata": ["192.0.2.9:53"] });
    client.expect(201, "POST", "/zones/a.test./metadata", Some(&metadata));
    let key = json!({ "keytype": "csk", "active": true });
    let key = client.expect(201, "POST", "/zones/b.test./cryptokeys", Some(&key));
    let tsig = json!({ "name": "transfer", "algorithm": "hmac-sha256" });
    let tsig = client.expect(201, "POST", "/tsigkeys", Some(&tsig));
    let end = json!({ "account": "sales" });
    client.expect(204, "PUT", "/zones/a.test.", Some(&end));
    let secrets = [&key["privatekey"], &tsig["key"]].map(|secret| secret.as_str().unwrap_or("-"));
    let seen = streams.each_mut().map(|events| {
        let mut seen = Vec::new();
        while seen.last() != Some(&("settings".into(), "zone_set".into(), json!("a.test."))) {
            let event = events.next().expect("an event");
            let text = event.data.to_string();
            assert!(
                secrets.iter().all(|secret| !text.contains(secret)),
                "{text}"
            );
            if event.name != "zone" {
                let operation = event.data["operation"].as_str().unwrap().to_owned();
                seen.push((event.name, operation, event.data["zone"].clone()));
            }
        }
        seen
    });
    let event =
        |name: &str, operation: &str, zone: Value| (name.to_owned(), operation.into(), zone);
    let of_zone = event("settings", "metadata_change", json!("a.test."));
    let last = event("settings", "zone_set", json!("a.test."));
    let all = [
        of_zone.clone(),
        event("keys", "key_add", json!("b.test.")),
        event("keys", "tsig_generate", Value::Null),
        last.clone(),
    ];
    assert_eq!(seen, [all.to_vec(), vec![of_zone, last]]);
}

const ZONE: &str = "@ 60 SOA ns1 admin 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.1\n";

/// A server with a zone file that accepts updates.
fn start_with_file() -> (TestServer, Client) {
    let server = crate::operation::update::setup("allow_update = [\"key:ddns.example.\"]")
        .watched()
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n"
        ))
        .start();
    let client = Client {
        at: server.api(),
        key: KEY.into(),
        headers: Vec::new(),
    };
    (server, client)
}

#[test]
fn zone_files_and_updates_are_events() {
    let (server, client) = start_with_file();
    let mut events = Events::open(&client, "", None);
    let lines = "update add u.dyn.example 60 A 192.0.2.3";
    let (is_done, output) = crate::operation::update::nsupdate(&server, lines);
    assert!(is_done, "{output}");
    let updated = events.expect("changed", "dyn.example.");
    let who = updated.data["who"].as_str().unwrap();
    assert!(who.starts_with("update 127.0.0.1"), "{who}");
    server.write_zone("b.test", ZONE);
    events.expect("created", "b.test.");
    let loaded = events.expect("changed", "b.test.");
    assert_eq!(loaded.data["serial"], json!(1));
    server.write_zone("b.test", &ZONE.replace("admin 1", "admin 2"));
    let edited = events.expect("changed", "b.test.");
    assert_eq!(edited.data["serial"], json!(2));
    assert_eq!(edited.data["origin"], json!("storage"));
}

#[test]
fn a_live_database_zone_has_one_event_for_each_change() {
    let setup = Setup::new().without_web();
    let database = crate::databases::rows::Sqlite::new(setup.dir());
    let server = setup
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n"
        ))
        .config(&database.backend("live"))
        .start();
    let client = Client {
        at: server.api(),
        key: KEY.into(),
        headers: Vec::new(),
    };
    create_zones(&client, &["a.test.", "b.test."]);
    let mut events = Events::open(&client, "?zone=a.test.", None);
    for number in 1..4 {
        let change = set_address("www.a.test.", &format!("192.0.2.{number}"));
        client.expect(204, "PATCH", "/zones/a.test.", Some(&change));
    }
    client.expect(204, "DELETE", "/zones/a.test.", None);
    let mut changes = Vec::new();
    loop {
        let event = events.next().unwrap();
        match event.summary().0 {
            "changed" => changes.push(event),
            _ => break,
        }
    }
    // The notice of the creation may arrive when the zone is known already; those of the changes are not reported again.
    let all = changes.len();
    changes.retain(|event| event.data["origin"] != json!("storage"));
    assert!(all - changes.len() <= 1, "{changes:?}");
    let serials: Vec<_> = changes
        .iter()
        .map(|event| event.data["serial"].as_u64())
        .collect();
    assert_eq!(serials.len(), 3, "{changes:?}");
    assert!(serials.is_sorted_by(|one, next| one < next), "{changes:?}");
    let by_client = |event: &Event| event.data["who"] == json!("api 127.0.0.1");
    assert!(changes.iter().all(by_client), "{changes:?}");
}

#[test]
fn filters_and_permissions_limit_the_events_of_a_client() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test.", "b.test.", "c.test."]);
    let (id, text) = create_key(&server, &["--zone", "b.test", "--read-only"]);
    let limited = admin.with_key(&text);
    let mut filtered = Events::open(&admin, "?zone=A.test.", None);
    let mut scoped = Events::open(&limited, "", None);
    for zone in ["c.test.", "b.test.", "a.test."] {
        let change = set_address(&format!("www.{zone}"), "192.0.2.8");
        admin.expect(204, "PATCH", &format!("/zones/{zone}"), Some(&change));
    }
    filtered.expect("changed", "a.test.");
    scoped.expect("changed", "b.test.");
    assert_eq!(Events::open(&limited, "?zone=a.test.", None).status, 404);
    assert_eq!(Events::open(&admin, "?zone=a", None).status, 422);
    assert_eq!(Events::open(&admin.with_key("x"), "", None).status, 401);
    // The stream of a deleted key ends.
    let (code, output) = run(&server, &["api-key", "delete", &id]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(scoped.next(), None);
}

#[test]
fn a_client_resumes_after_its_last_event_and_learns_of_events_that_are_not_known() {
    let (_server, client) = start("");
    create_zones(&client, &["a.test."]);
    let mut events = Events::open(&client, "", None);
    let start = events.id.clone();
    for number in 1..4 {
        let change = set_address("www.a.test.", &format!("192.0.2.{number}"));
        client.expect(204, "PATCH", "/zones/a.test.", Some(&change));
    }
    let all: Vec<Event> = (0..3).map(|_| events.next().unwrap()).collect();
    drop(events);
    let mut again = Events::open(&client, "", Some(&start));
    let repeated: Vec<Event> = (0..3).map(|_| again.next().unwrap()).collect();
    assert_eq!(repeated, all);
    let mut rest = Events::open(&client, "", Some(&all[1].id));
    assert_eq!(rest.next().as_ref(), Some(&all[2]));
    // IDs of another run of the server, of the future, and invalid ones.
    let (epoch, _) = start.split_once('-').unwrap();
    for id in ["1-1", &format!("{epoch}-999999"), "hello", "-", "ff-"] {
        let mut stream = TcpStream::connect(client.at).unwrap();
        let head = format!(
            "GET {SERVER}/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nLast-Event-ID: {id}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        let mut octet = [0];
        while !text.ends_with("}\n") {
            stream.read_exact(&mut octet).unwrap();
            text.push(char::from(octet[0]));
        }
        assert!(
            text.contains("event: gap\ndata: {\"reason\""),
            "{id}: {text}"
        );
    }
}

#[test]
fn streams_are_limited_per_client_and_released() {
    let (server, client) = start("");
    let mut open: Vec<Events> = (0..8).map(|_| Events::open(&client, "", None)).collect();
    assert!(open.iter().all(|events| events.status == 200));
    assert_eq!(Events::open(&client, "", None).status, 429);
    // Other requests are not affected.
    client.expect(200, "GET", "/zones", None);
    open.pop();
    server.wait_until("a stream is free again", || {
        Events::open(&client, "", None).status == 200
    });
}
