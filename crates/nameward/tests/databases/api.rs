//! The HTTP API on every store: zones, RRsets, metadata, keys, and what DNS answers after each change.

use super::operation::{ask, zone};
use super::rows::Sqlite;
use super::writes::{backend, started};
use crate::api::client::{Client, settings};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};

const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;

pub fn on_sqlite(mode: &str) -> (TestServer, Client, Sqlite) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&settings())
        .config(&database.backend(mode))
        .start();
    let client = Client::new(server.api());
    (server, client, database)
}

/// A body with one change of an RRset.
pub fn patch(change: &str, name: &str, records: &[&str]) -> Value {
    let records: Vec<Value> = records
        .iter()
        .map(|content| json!({ "content": content, "disabled": false }))
        .collect();
    json!({ "rrsets": [{ "name": name, "type": "A", "ttl": 60, "changetype": change, "records": records }] })
}

pub fn rrset<'v>(zone: &'v Value, name: &str, rtype: &str) -> Option<&'v Value> {
    let mut rrsets = zone["rrsets"].as_array().unwrap().iter();
    rrsets.find(|rrset| rrset["name"] == name && rrset["type"] == rtype)
}

/// Creates, changes and deletes a zone; each change is visible in the next answer.
fn check_life(server: &TestServer, client: &Client) {
    assert_eq!(ask(server, "www.life.test."), Some((REFUSED, 1)));
    let body = json!({
        "name": "life.test.", "kind": "Native", "nameservers": ["ns1.life.test."], "account": "me",
        "rrsets": [{ "name": "www.life.test.", "type": "A", "ttl": 300,
            "records": [{ "content": "192.0.2.1" }, { "content": "192.0.2.9", "disabled": true }],
            "comments": [{ "content": "first", "account": "me", "modified_at": 5 }] }],
    });
    let made = client.expect(201, "POST", "/zones", Some(&body));
    assert_eq!(
        (&made["kind"], &made["account"], &made["soa_edit_api"]),
        (&json!("Native"), &json!("me"), &json!("DEFAULT"))
    );
    assert_eq!(ask(server, "www.life.test."), Some((0, 1)));
    client.expect(409, "POST", "/zones", Some(&body));
    let at = "/zones/life.test.";
    let zone = client.expect(200, "GET", at, None);
    assert_eq!(
        rrset(&zone, "www.life.test.", "A").unwrap(),
        &json!({
            "comments": [{ "account": "me", "content": "first", "modified_at": 5 }],
            "name": "www.life.test.",
            "records": [{ "content": "192.0.2.1", "disabled": false }, { "content": "192.0.2.9", "disabled": true }],
            "ttl": 300, "type": "A",
        })
    );
    let serial = zone["serial"].as_u64().unwrap();
    for last in 2..=6_u8 {
        let content = format!("192.0.2.{last}");
        let body = patch("REPLACE", "www.life.test.", &[&content]);
        client.expect(204, "PATCH", at, Some(&body));
        assert_eq!(ask(server, "www.life.test."), Some((0, last)));
    }
    let body = patch("EXTEND", "two.life.test.", &["192.0.2.1"]);
    client.expect(204, "PATCH", at, Some(&body));
    let body = patch("EXTEND", "two.life.test.", &["192.0.2.2"]);
    client.expect(204, "PATCH", at, Some(&body));
    let body = patch("PRUNE", "two.life.test.", &["192.0.2.1"]);
    client.expect(204, "PATCH", at, Some(&body));
    assert_eq!(ask(server, "two.life.test."), Some((0, 2)));
    let zone = client.expect(200, "GET", "/zones/life.test", None);
    assert_eq!(zone["serial"].as_u64(), Some(serial + 8));
    assert!(
        rrset(&zone, "www.life.test.", "A").unwrap()["comments"][0]["content"] == "first",
        "records alone leave the comments: {zone}"
    );
    let body = json!({ "rrsets": [{ "name": "www.life.test.", "type": "A", "changetype": "DELETE", "records": null }] });
    client.expect(204, "PATCH", at, Some(&body));
    assert_eq!(ask(server, "www.life.test.").map(|it| it.0), Some(NXDOMAIN));
    let found = client.expect(200, "GET", "/search-data?q=two*&object_type=record", None);
    assert_eq!(found[0]["content"], "192.0.2.2");
    let text = client.expect(200, "GET", "/zones/life.test./export", None);
    let text = text["zone"].as_str().unwrap();
    assert!(
        text.contains("two.life.test.\t60\tIN\tA\t192.0.2.2\n"),
        "{text}"
    );
    check_settings(client, at);
    client.expect(204, "DELETE", at, None);
    assert_eq!(ask(server, "two.life.test.").map(|it| it.0), Some(REFUSED));
    client.expect(404, "GET", at, None);
}

/// Metadata, attributes and keys of the zone.
fn check_settings(client: &Client, at: &str) {
    let metadata = format!("{at}/metadata");
    let body = json!({ "kind": "ALLOW-AXFR-FROM", "metadata": ["192.0.2.0/24"] });
    client.expect(201, "POST", &metadata, Some(&body));
    let kind = format!("{metadata}/ALLOW-AXFR-FROM");
    let body = json!({ "metadata": ["AUTO-NS"] });
    let set = client.expect(200, "PUT", &kind, Some(&body));
    assert_eq!(set["metadata"], json!(["AUTO-NS"]));
    client.expect(200, "DELETE", &kind, None);
    let body = json!({ "kind": "Primary", "account": "you", "soa_edit_api": "INCREASE" });
    client.expect(204, "PUT", at, Some(&body));
    let zone = client.expect(200, "GET", &format!("{at}?rrsets=false"), None);
    assert_eq!(
        (&zone["kind"], &zone["account"], &zone["soa_edit_api"]),
        (&json!("Master"), &json!("you"), &json!("INCREASE"))
    );
    let keys = format!("{at}/cryptokeys");
    assert_eq!(client.expect(200, "GET", &keys, None), json!([]));
    let body = json!({ "keytype": "csk", "active": true });
    let key = client.expect(201, "POST", &keys, Some(&body));
    assert_eq!(
        (&key["algorithm"], &key["active"], &key["keytype"]),
        (&json!("ECDSAP256SHA256"), &json!(true), &json!("csk"))
    );
    let zone = client.expect(200, "GET", &format!("{at}?rrsets=false"), None);
    assert_eq!(zone["dnssec"], json!(true));
    client.expect(204, "PUT", at, Some(&json!({ "nsec3param": "1 0 0 -" })));
    client.expect(204, "DELETE", &format!("{keys}/{}", key["id"]), None);
    let zone = client.expect(200, "GET", &format!("{at}?rrsets=false"), None);
    assert_eq!(zone["dnssec"], json!(false));
    client.expect(200, "PUT", &format!("{at}/notify"), None);
    client.expect(200, "PUT", &format!("{at}/rectify"), None);
}

#[test]
fn the_api_creates_changes_and_deletes_a_zone_on_sqlite() {
    for mode in ["live", "resident"] {
        let (server, client, _database) = on_sqlite(mode);
        check_life(&server, &client);
    }
}

fn check_on(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let server = Setup::new()
        .without_web()
        .config(&settings())
        .config(&backend(kind, &database, "live"))
        .start();
    check_life(&server, &Client::new(server.api()));
}

#[test]
fn the_api_creates_changes_and_deletes_a_zone_on_postgresql() {
    check_on(DatabaseKind::Postgres);
}

#[test]
fn the_api_creates_changes_and_deletes_a_zone_on_mariadb() {
    check_on(DatabaseKind::Mariadb);
}

#[test]
fn zones_of_files_are_shown_and_changed_through_the_api() {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let server = setup
        .config(&settings())
        .config(&format!("[server]\nstate_directory = {state:?}\n"))
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    let client = Client::new(server.api());
    let listed = client.expect(200, "GET", "/zones", None);
    assert_eq!(listed[0]["name"], "file.test.");
    let body = patch("REPLACE", "www.file.test.", &["192.0.2.24"]);
    client.expect(204, "PATCH", "/zones/file.test.", Some(&body));
    assert_eq!(ask(&server, "www.file.test."), Some((0, 24)));
    let zone = client.expect(200, "GET", "/zones/file.test.", None);
    assert_eq!(zone["serial"], json!(2));
    let body = json!({ "rrsets": [{ "name": "www.file.test.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{ "content": "192.0.2.25", "disabled": true }] }] });
    let refused = client.expect(422, "PATCH", "/zones/file.test.", Some(&body));
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("only databases store disabled records"),
        "{refused}"
    );
    assert_eq!(ask(&server, "www.file.test."), Some((0, 24)));
}

#[test]
fn parallel_patches_all_succeed() {
    let (server, client, _database) = on_sqlite("live");
    let body = json!({ "name": "many.test.", "kind": "Native", "nameservers": ["ns1.many.test."] });
    let before = client.expect(201, "POST", "/zones", Some(&body))["serial"].as_u64();
    let client = &client;
    std::thread::scope(|scope| {
        for number in 1..=64_u8 {
            scope.spawn(move || {
                let (name, content) =
                    (format!("h{number}.many.test."), format!("192.0.2.{number}"));
                let body = patch("REPLACE", &name, &[&content]);
                client.expect(204, "PATCH", "/zones/many.test.", Some(&body));
            });
        }
    });
    let zone = client.expect(200, "GET", "/zones/many.test.", None);
    assert_eq!(zone["serial"].as_u64(), before.map(|serial| serial + 64));
    for number in 1..=64_u8 {
        let name = format!("h{number}.many.test.");
        assert_eq!(ask(&server, &name), Some((0, number)));
    }
}

#[test]
fn a_zone_without_soa_edit_api_keeps_its_serial() {
    let (server, client, database) = on_sqlite("live");
    database.add(&zone("kept.test", "192.0.2.1"));
    super::operation::wait_for(&server, "www.kept.test.", (0, 1));
    let body = patch("REPLACE", "www.kept.test.", &["192.0.2.2"]);
    client.expect(204, "PATCH", "/zones/kept.test.", Some(&body));
    assert_eq!(ask(&server, "www.kept.test."), Some((0, 2)));
    let kept = client.expect(200, "GET", "/zones/kept.test.?rrsets=false", None);
    assert_eq!(kept["serial"], json!(1));
    let body = json!({ "soa_edit_api": "INCREASE" });
    client.expect(204, "PUT", "/zones/kept.test.", Some(&body));
    let body = patch("REPLACE", "www.kept.test.", &["192.0.2.3"]);
    client.expect(204, "PATCH", "/zones/kept.test.", Some(&body));
    let raised = client.expect(200, "GET", "/zones/kept.test.?rrsets=false", None);
    assert_eq!(raised["serial"], json!(2));
}

#[test]
fn malformed_requests_name_the_field_and_change_nothing() {
    let (_server, client, _database) = on_sqlite("live");
    let body =
        json!({ "name": "strict.test.", "kind": "Native", "nameservers": ["ns1.strict.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/strict.test.";
    let before = client.expect(200, "GET", at, None);
    let good = json!({ "name": "www.strict.test.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{ "content": "192.0.2.1", "disabled": false }] });
    for (field, value, named) in [
        ("ttl", json!(-1), "ttl"),
        ("ttl", json!(4_294_967_296_u64), "ttl"),
        ("ttl", json!(1.5), "ttl"),
        ("ttl", json!([]), "ttl"),
        ("type", json!("BOGUS"), "BOGUS"),
        ("type", json!("ANY"), "ANY"),
        ("name", json!("www.strict.test"), "www.strict.test"),
        ("name", json!("www.other.test."), "out of zone"),
        ("name", json!(5), "name"),
        ("changetype", json!("NONSENSE"), "Changetype"),
        ("records", json!("x"), "records"),
        ("records", json!([{ "content": 5 }]), "content"),
        ("records", json!([{ "content": "1.2.3" }]), "1.2.3"),
        (
            "records",
            json!([{ "content": "192.0.2.1", "disabled": "no" }]),
            "disabled",
        ),
        (
            "records",
            json!([{ "content": "192.0.2.1" }, { "content": "192.0.2.1" }]),
            "Duplicate",
        ),
        ("comments", json!([{ "account": "me" }]), "content"),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        // All or nothing: the first RRset is valid.
        let mut first = good.clone();
        first["name"] = json!("first.strict.test.");
        let reply = client.send("PATCH", at, Some(&json!({ "rrsets": [first, bad] })));
        assert_eq!(reply.status, 422, "{field}: {reply:?}");
        let error = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(named), "{field}: {error}");
    }
    for (field, value) in [
        ("kind", json!("bogus")),
        ("soa_edit_api", json!("bogus")),
        ("masters", json!(["nope"])),
        ("nsec3param", json!("1 0 5000 ab")),
        ("account", json!(5)),
    ] {
        client.expect(422, "PUT", at, Some(&json!({ field: value })));
    }
    let path = "/api/v1/servers/localhost/zones/strict.test.";
    assert_eq!(client.send_text("PATCH", path, "{").status, 400);
    assert_eq!(client.send_text("PATCH", path, "{}").status, 422);
    assert_eq!(client.send("POST", at, None).status, 405);
    assert_eq!(client.send("GET", "/nonsense", None).status, 404);
    assert_eq!(client.expect(200, "GET", at, None), before);
}

#[test]
fn the_page_and_the_api_share_a_port() {
    let address = nameward_testkit::peers::free_address().unwrap();
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&format!(
            "[web]\nlisten = \"{address}\"\n[api]\nlisten = \"{address}\"\nkey = \"{}\"\n",
            crate::api::client::KEY
        ))
        .config(&database.backend("live"))
        .start();
    let client = Client::new(server.api());
    assert_eq!(client.expect(200, "GET", "", None)["id"], "localhost");
    let page = client.send_text("GET", "/", "");
    assert!(page.head.starts_with("HTTP/1.0 200"), "{}", page.head);
    assert!(page.body.contains("<html"), "{}", page.body);
    client.expect(200, "GET", "/statistics?statistic=uptime", None);
}
