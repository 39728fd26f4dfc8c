//! Text records through the API are returned as they were sent, so that a comparing client finds no difference.

use super::api::{on_sqlite, rrset};
use super::writes::{backend, started};
use crate::api::client::{Client, settings};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;
use serde_json::{Value, json};

fn check(client: &Client) {
    let body =
        json!({ "name": "texts.test.", "kind": "Native", "nameservers": ["ns1.texts.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/texts.test.";
    let long = format!("\"{}\"", "x".repeat(300));
    let split = format!("\"{}\" \"{}\"", "y".repeat(255), "y".repeat(45));
    let contents = [
        long.as_str(),
        split.as_str(),
        "\"Gr\u{fc}\u{df}e\"",
        "\"a\\;b;c\"",
        "\"back\\\\slash \\\"quoted\\\"\"",
        "\"one\" \"two\"",
    ];
    for (number, content) in contents.iter().enumerate() {
        let name = format!("t{number}.texts.test.");
        let change = json!({ "rrsets": [{ "name": name, "type": "TXT", "ttl": 60, "changetype": "REPLACE",
            "records": [{ "content": content, "disabled": false }] }] });
        client.expect(204, "PATCH", at, Some(&change));
        let before = client.expect(200, "GET", at, None);
        assert_eq!(
            rrset(&before, &name, "TXT").unwrap()["records"][0]["content"],
            **content
        );
        client.expect(204, "PATCH", at, Some(&change));
        let after = client.expect(200, "GET", at, None);
        assert_eq!(after, before, "the same content is no change: {content}");
    }
    // Everything is sent back again, as by a client that restores a zone.
    let zone = client.expect(200, "GET", at, None);
    let rrsets: Vec<Value> = zone["rrsets"].as_array().unwrap().clone();
    client.expect(204, "PUT", at, Some(&json!({ "rrsets": rrsets })));
    assert_eq!(client.expect(200, "GET", at, None), zone);
    let found = client.expect(200, "GET", "/search-data?q=t0*&object_type=record", None);
    assert_eq!(found[0]["content"], long);
}

#[test]
fn text_is_returned_as_it_was_sent_on_sqlite() {
    let (_server, client, _database) = on_sqlite("live");
    check(&client);
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
    check(&Client::new(server.api()));
}

#[test]
fn text_is_returned_as_it_was_sent_on_postgresql() {
    check_on(DatabaseKind::Postgres);
}

#[test]
fn text_is_returned_as_it_was_sent_on_mariadb() {
    check_on(DatabaseKind::Mariadb);
}
