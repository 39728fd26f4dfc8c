//! Settings of zones through the API: stored or refused, never ignored, and all or nothing.

use super::api::{on_sqlite, patch, rrset};
use super::operation::{ask, zone};
use crate::api::client::{Client, settings};
use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

/// A server with a directory of zone files and a state store, and no database.
fn on_files() -> (TestServer, Client) {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let zones = setup.dir().join("zones");
    std::fs::create_dir_all(&zones).unwrap();
    let text = zone("file.test", "192.0.2.23").file_text();
    std::fs::write(zones.join("file.test.zone"), text).unwrap();
    let server = setup
        .config(&settings())
        .config(&format!("[server]\nstate_directory = {state:?}\n"))
        .config(&format!(
            "[[backend]]\ntype = \"file\"\ndirectory = {zones:?}\n"
        ))
        .start();
    let client = Client::new(server.api());
    (server, client)
}

fn shown(client: &Client, zone: &str) -> Value {
    client.expect(200, "GET", &format!("/zones/{zone}?rrsets=false"), None)
}

fn refused(client: &Client, method: &str, path: &str, body: &Value, field: &str) {
    let reply = client.send(method, path, Some(body));
    assert_eq!(reply.status, 422, "{method} {path} {body}: {reply:?}");
    let error = reply.json()["error"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(error.contains(field), "{body}: {error}");
}

#[test]
fn settings_of_a_zone_file_are_stored_or_refused_by_name() {
    let (server, client) = on_files();
    let at = "/zones/file.test.";
    let before = shown(&client, "file.test.");
    for (field, value) in [
        ("api_rectify", json!(true)),
        ("account", json!("me")),
        ("soa_edit_api", json!("OFF")),
        ("soa_edit", json!("INCEPTION-INCREMENT")),
        ("nsec3param", json!("1 0 0 -")),
        ("master_tsig_key_ids", json!(["none."])),
    ] {
        let body = json!({ field: value });
        let text = match field {
            "master_tsig_key_ids" => "A TSIG key with the name 'none' does not exist",
            field => field,
        };
        refused(&client, "PUT", at, &body, text);
    }
    assert_eq!(shown(&client, "file.test."), before);
    // Setting the current value is not a change.
    let body = json!({ "api_rectify": false, "account": "", "nsec3param": "", "soa_edit": "" });
    client.expect(204, "PUT", at, Some(&body));
    let body = json!({ "name": "k", "algorithm": "hmac-sha256", "key": KEY });
    client.expect(201, "POST", "/tsigkeys", Some(&body));
    refused(
        &client,
        "PUT",
        at,
        &json!({ "slave_tsig_key_ids": ["k."] }),
        "slave_tsig_key_ids",
    );
    let body = json!({ "soa_edit_api": "INCREASE", "master_tsig_key_ids": ["k."], "dnssec": true, "nsec3param": "1 0 0 -",
        "soa_edit": "INCEPTION-INCREMENT" });
    client.expect(204, "PUT", at, Some(&body));
    let kept = shown(&client, "file.test.");
    for field in [
        "soa_edit_api",
        "master_tsig_key_ids",
        "dnssec",
        "nsec3param",
        "soa_edit",
    ] {
        assert_eq!(kept[field], body[field], "{field}");
    }
    refused(
        &client,
        "PUT",
        at,
        &json!({ "nsec3param": "1 0 5 ab" }),
        "nsec3param",
    );
    client.expect(204, "PUT", at, Some(&json!({ "nsec3param": "" })));
    assert_eq!(shown(&client, "file.test.")["nsec3param"], "");
    client.expect(204, "PUT", at, Some(&json!({ "dnssec": false })));
    assert_eq!(shown(&client, "file.test.")["dnssec"], json!(false));
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
}

#[test]
fn a_secondary_of_the_state_store_has_the_key_of_its_primaries() {
    let (_server, client) = on_files();
    let body = json!({ "name": "k", "algorithm": "hmac-sha256", "key": KEY });
    client.expect(201, "POST", "/tsigkeys", Some(&body));
    let body = json!({ "name": "second.test.", "kind": "Slave", "masters": ["127.0.0.9"], "nameservers": [] });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/second.test.";
    client.expect(
        204,
        "PUT",
        at,
        Some(&json!({ "slave_tsig_key_ids": ["k."] })),
    );
    assert_eq!(
        shown(&client, "second.test.")["slave_tsig_key_ids"],
        json!(["k."])
    );
    client.expect(204, "PUT", at, Some(&json!({ "slave_tsig_key_ids": [] })));
    assert_eq!(
        shown(&client, "second.test.")["slave_tsig_key_ids"],
        json!([])
    );
}

#[test]
fn new_zone_files_store_or_refuse_their_settings() {
    let (_server, client) = on_files();
    let base = json!({ "name": "new.test.", "kind": "Native", "nameservers": ["ns1.new.test."] });
    for (field, value) in [
        ("account", json!("me")),
        ("api_rectify", json!(true)),
        ("catalog", json!("catalog.test.")),
        ("nsec3param", json!("1 0 0 -")),
    ] {
        let mut body = base.clone();
        body[field] = value;
        refused(&client, "POST", "/zones", &body, field);
        client.expect(404, "GET", "/zones/new.test.", None);
    }
    let body = json!({ "name": "catalog.test.", "kind": "Producer", "nameservers": [] });
    client.expect(201, "POST", "/zones", Some(&body));
    let mut body = base;
    body["catalog"] = json!("catalog.test.");
    body["soa_edit_api"] = json!("EPOCH");
    body["dnssec"] = json!(true);
    body["nsec3param"] = json!("1 0 0 -");
    client.expect(201, "POST", "/zones", Some(&body));
    let kept = shown(&client, "new.test.");
    for field in ["catalog", "soa_edit_api", "dnssec", "nsec3param"] {
        assert_eq!(kept[field], body[field], "{field}");
    }
}

#[test]
fn a_put_with_several_changes_is_one_transaction() {
    let (server, client, _database) = on_sqlite("live");
    let body =
        json!({ "name": "whole.test.", "kind": "Native", "nameservers": ["ns1.whole.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/whole.test.";
    let before = client.expect(200, "GET", at, None);
    let good = json!({ "kind": "Master", "account": "me", "soa_edit_api": "INCREASE", "dnssec": true, "nsec3param": "1 0 0 -",
        "rrsets": [{ "name": "whole.test.", "type": "NS", "ttl": 60, "records": [{ "content": "ns2.whole.test." }] },
            { "name": "www.whole.test.", "type": "A", "ttl": 60, "records": [{ "content": "192.0.2.7" }] }] });
    for (field, value) in [
        ("nsec3param", json!("1 0 5000 -")),
        ("masters", json!(["nope"])),
        ("catalog", json!("none.test.")),
        // Refused when the records are written, after the settings.
        (
            "rrsets",
            json!([{ "name": "www.whole.test.", "type": "CNAME", "ttl": 60, "records": [{ "content": "a.test." }] },
            { "name": "www.whole.test.", "type": "A", "ttl": 60, "records": [{ "content": "192.0.2.7" }] }]),
        ),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let reply = client.send("PUT", at, Some(&bad));
        assert_eq!(reply.status, 422, "{field}: {reply:?}");
        assert_eq!(client.expect(200, "GET", at, None), before, "{field}");
    }
    client.expect(204, "PUT", at, Some(&good));
    let after = client.expect(200, "GET", at, None);
    for field in ["kind", "account", "soa_edit_api", "dnssec", "nsec3param"] {
        assert_eq!(after[field], good[field], "{field}");
    }
    assert_eq!(ask(&server, "www.whole.test."), Some((0, 7)));
    assert!(rrset(&after, "whole.test.", "SOA").is_some());
    assert_eq!(
        rrset(&after, "whole.test.", "NS").unwrap()["records"][0]["content"],
        "ns2.whole.test."
    );
    assert_eq!(after["rrsets"].as_array().unwrap().len(), 3, "{after}");
    let body = json!({ "dnssec": false, "kind": "Native" });
    client.expect(204, "PUT", at, Some(&body));
    let after = shown(&client, "whole.test.");
    assert_eq!(
        (&after["dnssec"], &after["nsec3param"], &after["kind"]),
        (&json!(false), &json!(""), &json!("Native"))
    );
}

#[test]
fn a_put_with_several_changes_of_a_zone_file_applies_all_or_nothing() {
    let (server, client) = on_files();
    let at = "/zones/file.test.";
    let before = client.expect(200, "GET", at, None);
    let good = json!({ "kind": "Master", "soa_edit_api": "INCREASE", "dnssec": true,
        "rrsets": [{ "name": "file.test.", "type": "NS", "ttl": 60, "records": [{ "content": "ns1.file.test." }] },
            { "name": "www.file.test.", "type": "A", "ttl": 60, "records": [{ "content": "192.0.2.7" }] }] });
    for (field, value) in [
        ("account", json!("me")),
        (
            "rrsets",
            json!([{ "name": "www.file.test.", "type": "CNAME", "ttl": 60, "records": [{ "content": "a.test." }] },
            { "name": "www.file.test.", "type": "A", "ttl": 60, "records": [{ "content": "192.0.2.7" }] }]),
        ),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let reply = client.send("PUT", at, Some(&bad));
        assert_eq!(reply.status, 422, "{field}: {reply:?}");
        assert_eq!(client.expect(200, "GET", at, None), before, "{field}");
    }
    client.expect(204, "PUT", at, Some(&good));
    let after = client.expect(200, "GET", at, None);
    for field in ["kind", "soa_edit_api", "dnssec"] {
        assert_eq!(after[field], good[field], "{field}");
    }
    assert_eq!(ask(&server, "www.file.test."), Some((0, 7)));
}

#[test]
fn check_reports_the_errors_of_a_zone() {
    let (_server, client, _database) = on_sqlite("live");
    let body =
        json!({ "name": "checked.test.", "kind": "Native", "nameservers": ["ns1.checked.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let found = client.expect(200, "GET", "/zones/checked.test./check", None);
    assert_eq!(found["zone"], "checked.test.");
    // Its name server has no address.
    let said = format!("{}{}", found["errors"], found["warnings"]);
    assert!(said.contains("ns1.checked.test."), "{found}");
    let body = json!({ "rrsets": [{ "name": "ns1.checked.test.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{ "content": "192.0.2.53" }] }] });
    client.expect(204, "PATCH", "/zones/checked.test.", Some(&body));
    let found = client.expect(200, "GET", "/zones/checked.test./check", None);
    let nothing = json!({ "zone": "checked.test.", "errors": [], "warnings": [] });
    assert_eq!(found, nothing);
    client.expect(404, "GET", "/zones/none.test./check", None);
}

#[test]
fn records_are_refused_where_powerdns_refuses_them() {
    let (_server, client, _database) = on_sqlite("live");
    let body = json!({ "name": "apex.test.", "kind": "Native", "nameservers": ["ns1.apex.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let dnskey = "257 3 13 mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==";
    for (name, rtype, content, text) in [
        (
            "sub.apex.test.",
            "DNSKEY",
            dnskey,
            "is only allowed at apex",
        ),
        (
            "apex.test.",
            "DS",
            "1 13 2 000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "is not allowed at apex",
        ),
        (
            "a b.apex.test.",
            "A",
            "192.0.2.1",
            "contains unsupported characters",
        ),
        ("other.test.", "A", "192.0.2.1", "Name is out of zone"),
    ] {
        let rrset = json!({ "name": name, "type": rtype, "ttl": 60, "changetype": "REPLACE",
            "records": [{ "content": content }] });
        refused(
            &client,
            "PATCH",
            "/zones/apex.test.",
            &json!({ "rrsets": [rrset] }),
            text,
        );
    }
    let body = patch("REPLACE", "*.apex.test.", &["192.0.2.1"]);
    client.expect(204, "PATCH", "/zones/apex.test.", Some(&body));
}

#[test]
fn secrets_and_own_metadata_are_accepted_as_powerdns_accepts_them() {
    let (_server, client, database) = on_sqlite("live");
    // The last digit has bits that encode nothing.
    let body =
        json!({ "name": "bits", "algorithm": "hmac-sha256", "key": "AAAAAAAAAAAAAAAAAAAAAB==" });
    client.expect(201, "POST", "/tsigkeys", Some(&body));
    let body = json!({ "name": "own.test.", "kind": "Native", "nameservers": ["ns1.own.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/own.test./metadata";
    let body = json!({ "kind": "X-Mixed-Case", "metadata": ["one"] });
    assert_eq!(
        client.expect(201, "POST", at, Some(&body))["kind"],
        "X-Mixed-Case"
    );
    let kinds = client.expect(200, "GET", at, None);
    assert!(
        kinds
            .as_array()
            .unwrap()
            .iter()
            .any(|kind| kind["kind"] == "X-Mixed-Case"),
        "{kinds}"
    );
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    let sql = "SELECT count(*) FROM domainmetadata WHERE kind = 'X-Mixed-Case'";
    let count: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
    client.expect(200, "DELETE", &format!("{at}/X-Mixed-Case"), None);
}
