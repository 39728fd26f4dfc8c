//! Conditional changes: of many writers that have read the same version, one changes the zone.

use super::client::{Client, KEY, create_zones, set_address, start};
use nameward_testkit::Setup;
use serde_json::{Value, json};
use std::thread;

const WRITERS: usize = 32;

/// Sends a request from many clients at the same time, each with the current tag of the zone; returns their statuses.
fn race(
    client: &Client,
    zone: &str,
    (method, path): (&str, &str),
    body: impl Fn(usize) -> Option<Value> + Sync,
) -> Vec<u16> {
    let read = client.send("GET", &format!("/zones/{zone}"), None);
    let tag = read.header("ETag").expect("a tag").to_owned();
    let conditional = client.with_header("If-Match", &tag);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (conditional, body) = (&conditional, &body);
                scope.spawn(move || {
                    let body = body(number);
                    conditional.send(method, path, body.as_ref()).status
                })
            })
            .collect();
        let statuses = writers.into_iter().map(|writer| writer.join().unwrap());
        let mut statuses: Vec<u16> = statuses.collect();
        statuses.sort_unstable();
        statuses
    })
}

/// One has succeeded; the others were refused because the zone has changed.
fn assert_one_winner(statuses: &[u16], what: &str) {
    let mut expected = vec![412; WRITERS];
    expected[0] = 204;
    assert_eq!(statuses, expected, "{what}");
}

fn check_races(client: &Client, zone: &str) {
    let path = format!("/zones/{zone}");
    let www = format!("www.{zone}");
    let address = |number: usize| format!("198.51.100.{number}");
    let patched = race(client, zone, ("PATCH", &path), |number| {
        Some(set_address(&www, &address(number)))
    });
    assert_one_winner(&patched, "PATCH");
    let replaced = race(client, zone, ("PUT", &path), |number| {
        let rrset = |name: &str, rtype: &str, content: String| json!({ "name": name, "type": rtype, "ttl": 60, "records": [{ "content": content }] });
        let ns = format!("ns1.{zone}");
        Some(json!({ "rrsets": [rrset(zone, "NS", ns), rrset(&www, "A", address(number + 100))] }))
    });
    assert_one_winner(&replaced, "PUT of RRsets");
    let deleted = race(client, zone, ("DELETE", &path), |_| None);
    let winners = deleted.iter().filter(|status| **status == 204).count();
    assert_eq!(winners, 1, "DELETE: {deleted:?}");
    let rest = deleted
        .iter()
        .all(|status| matches!(status, 204 | 404 | 412));
    assert!(rest, "DELETE: {deleted:?}");
}

#[test]
fn one_of_32_conditional_writers_of_a_database_zone_wins() {
    let (_server, client) = start("");
    create_zones(&client, &["a.test."]);
    // The account is not part of the contents, and changing it keeps the serial.
    let named = race(&client, "a.test.", ("PUT", "/zones/a.test."), |number| {
        Some(json!({ "account": format!("account {number}") }))
    });
    assert_one_winner(&named, "PUT of settings");
    check_races(&client, "a.test.");
    // Changes of this zone leave its serial, too.
    create_zones(&client, &["b.test."]);
    client.expect(
        204,
        "PUT",
        "/zones/b.test.",
        Some(&json!({ "soa_edit_api": "OFF" })),
    );
    check_races(&client, "b.test.");
}

#[test]
fn one_of_32_conditional_writers_of_a_zone_file_wins() {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let zone = "@ 60 SOA ns1 admin 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.1\n";
    let server = setup
        .zone("a.test", zone)
        .config(&format!(
            "[server]\nstate_directory = \"{}\"\n",
            state.display()
        ))
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n"
        ))
        .start();
    let client = Client {
        at: server.api(),
        key: KEY.into(),
        headers: Vec::new(),
    };
    check_races(&client, "a.test.");
}
