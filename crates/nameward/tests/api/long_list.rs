//! The list of all zones, rendered while its client reads: complete, valid, and with little memory, whatever changes
//! in the meantime.

use super::client::{Client, KEY, SERVER, settings};
use super::hostile::memory;
use crate::databases::rows::Sqlite;
use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Zones, and clients that read all of them at the same time: replies of 60 MiB.
const ZONES: usize = 20_000;
const READERS: usize = 10;
/// Memory that a server may need for them, in KiB: mostly memory that it had already freed. Replies rendered at once
/// take several times as much.
const MEMORY_MAX: u64 = 36 << 10;

fn start() -> (TestServer, Client) {
    let setup = Setup::new().without_web().config(&settings());
    let database = Sqlite::new(setup.dir());
    database.run(&format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ZONES}) \
         INSERT INTO domains (id, name, type) SELECT i, printf('zone-%05d.a-long-name-of-a-provider.test', i), 'NATIVE' FROM n; \
         INSERT INTO records (domain_id, name, type, content, ttl, auth) \
         SELECT id, name, 'SOA', 'ns1.test. h.test. 1 2 3 4 5', 60, 1 FROM domains"
    ));
    let server = setup.config(&database.backend("live")).start();
    let client = Client::new(server.api());
    (server, client)
}

fn zone(number: usize) -> String {
    format!("zone-{number:05}.a-long-name-of-a-provider.test.")
}

/// Requests the list and reads its start. Without chunks, as in HTTP/1.0: the body ends with the connection.
fn begin(client: &Client) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(client.at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let head = format!("GET {SERVER}/zones HTTP/1.0\r\nX-API-Key: {KEY}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut start = vec![0; 1000];
    stream.read_exact(&mut start).unwrap();
    (stream, start)
}

/// Reads the rest of a list.
fn end((mut stream, mut text): (TcpStream, Vec<u8>)) -> Vec<Value> {
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{head}");
    serde_json::from_str(body).unwrap()
}

/// Reads the rest of several lists at the same time, so that no client is disconnected for not reading.
fn end_all(readers: Vec<(TcpStream, Vec<u8>)>) -> Vec<Vec<Value>> {
    let readers = readers.into_iter();
    let reading = readers.map(|reader| std::thread::spawn(move || end(reader)));
    let reading: Vec<_> = reading.collect();
    let lists = reading.into_iter();
    lists.map(|list| list.join().unwrap()).collect()
}

#[test]
fn a_list_rendered_while_it_is_read_is_complete_and_uses_little_memory() {
    let (server, client) = start();
    let begin_all = || (0..READERS).map(|_| begin(&client)).collect::<Vec<_>>();
    // Once, so that permanent threads and database connections already exist.
    for list in end_all(begin_all()) {
        assert_eq!(list.len(), ZONES);
    }
    let (_, before) = memory(&server);
    let mut readers = begin_all();
    // Changes before, at and after the position that the lists have reached.
    for number in [1, 2, ZONES / 2, ZONES - 1, ZONES] {
        client.expect(204, "DELETE", &format!("/zones/{}", zone(number)), None);
    }
    for name in ["a-first.test.", "zone-10000.b.test.", "zz-last.test."] {
        let body = json!({ "name": name, "kind": "Native", "nameservers": ["ns1.test."] });
        client.expect(201, "POST", "/zones", Some(&body));
    }
    for (stream, text) in &mut readers {
        // Slowly: one chunk now and then.
        for _ in 0..20 {
            let mut part = vec![0; 10_000];
            stream.read_exact(&mut part).unwrap();
            text.extend(part);
        }
    }
    let (_, after) = memory(&server);
    assert!(after - before < MEMORY_MAX, "{before} to {after} KiB");
    for zones in end_all(readers) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for zone in &zones {
            *counts.entry(zone["name"].as_str().unwrap()).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 1));
        // Zones that existed all the time are in each list.
        let lasting = (3..ZONES - 1).filter(|number| *number != ZONES / 2);
        for number in lasting {
            assert!(counts.contains_key(zone(number).as_str()), "{number}");
        }
    }
}
