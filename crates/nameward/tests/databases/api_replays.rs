//! Requests as sent by clients written in Go, PHP and shell, in their order and with their quirks: lego,
//! external-dns, the cert-manager webhook, the Terraform provider, acme.sh, PowerDNS-Admin. Each scenario restores
//! the initial state.

use super::rows::Sqlite;
use super::writes::{backend, started};
use crate::api::client::{Client, KEY, exchange, settings};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;
use serde_json::{Value, json};

fn contents(zone: &Value, name: &str, rtype: &str) -> Vec<String> {
    let rrsets = zone["rrsets"].as_array().unwrap().iter();
    let found = { rrsets }.find(|rrset| rrset["name"] == name && rrset["type"] == rtype);
    let records = found.and_then(|rrset| rrset["records"].as_array().cloned());
    let records = records.unwrap_or_default();
    let mut contents: Vec<String> = records
        .iter()
        .map(|record| record["content"].as_str().unwrap().to_owned())
        .collect();
    contents.sort();
    contents
}

/// lego: the versions of the API, the zone, a PATCH with unused fields, a NOTIFY; then the challenge is deleted.
fn lego(client: &Client) {
    let versions = client.send_text("GET", "/api", "").json();
    assert_eq!(versions[0]["url"], "/api/v1", "{versions}");
    assert_eq!(versions[0]["version"], 1);
    let at = "/zones/replay.org.";
    let zone = client.expect(200, "GET", at, None);
    assert_eq!(
        (&zone["id"], &zone["kind"]),
        (&json!("replay.org."), &json!("Master"))
    );
    let name = "_acme-challenge.replay.org.";
    let record = json!({ "content": "\"token-1\"", "disabled": false, "name": name, "type": "TXT", "ttl": 120 });
    let body = json!({ "rrsets": [{ "name": name, "changetype": "REPLACE", "type": "TXT", "kind": "Master", "ttl": 120,
        "records": [record] }] });
    client.expect(204, "PATCH", at, Some(&body));
    client.expect(200, "PUT", &format!("{at}/notify"), None);
    assert_eq!(
        contents(&client.expect(200, "GET", at, None), name, "TXT"),
        ["\"token-1\""]
    );
    let body = json!({ "rrsets": [{ "name": name, "changetype": "DELETE", "type": "TXT", "kind": "Master" }] });
    client.expect(204, "PATCH", at, Some(&body));
}

/// acme.sh dns_pdns: it greps in the JSON text. Existing challenges must be found by `"name":"FQDN[^]]*}`.
fn acme_sh(client: &Client) {
    let list = client.send("GET", "/zones", None).body;
    assert!(
        list.replace(' ', "").contains("\"name\":\"replay.org.\""),
        "{list}"
    );
    let (at, name) = ("/zones/replay.org.", "_acme-challenge.replay.org.");
    let set = |contents: &[&str]| {
        let records: Vec<Value> = contents
            .iter()
            .map(|text| json!({ "name": name, "type": "TXT", "content": text, "disabled": false, "ttl": 60 }))
            .collect();
        let body = json!({ "rrsets": [{ "changetype": "REPLACE", "name": name, "type": "TXT", "ttl": 60, "records": records }] });
        client.expect(204, "PATCH", at, Some(&body));
    };
    set(&["\"one\""]);
    let text = client.send("GET", at, None).body.replace(' ', "");
    let start = text
        .find(&format!("\"name\":\"{name}"))
        .expect("the challenge is there");
    let found = text[start..].split(']').next().unwrap();
    assert!(found.contains("\"content\":\"\\\"one\\\"\""), "{found}");
    set(&["\"one\"", "\"two\""]);
    client.expect(200, "PUT", &format!("{at}/notify"), None);
    assert_eq!(
        contents(&client.expect(200, "GET", at, None), name, "TXT").len(),
        2
    );
    let body = json!({ "rrsets": [{ "changetype": "DELETE", "name": name, "type": "TXT" }] });
    client.expect(204, "PATCH", at, Some(&body));
}

/// external-dns: targets with TXT registry records in one PATCH; an update, then deletions with `records` that are null.
fn external_dns(client: &Client) {
    let at = "/zones/replay.org.";
    let registry = "\"heritage=external-dns,external-dns/owner=default\"";
    let rrset = |name: &str, rtype: &str, content: &str, change: &str| {
        json!({ "name": name, "type": rtype, "ttl": 300, "changetype": change, "comments": null,
            "records": [{ "content": content, "disabled": false, "set-ptr": false }] })
    };
    let body = json!({ "rrsets": [rrset("app.replay.org.", "A", "192.0.2.1", "REPLACE"),
        rrset("a-app.replay.org.", "TXT", registry, "REPLACE")] });
    client.expect(204, "PATCH", at, Some(&body));
    let body = json!({ "rrsets": [rrset("app.replay.org.", "A", "192.0.2.2", "REPLACE")] });
    client.expect(204, "PATCH", at, Some(&body));
    let zone = client.expect(200, "GET", at, None);
    assert_eq!(contents(&zone, "app.replay.org.", "A"), ["192.0.2.2"]);
    assert_eq!(contents(&zone, "a-app.replay.org.", "TXT"), [registry]);
    let gone = |name: &str, rtype: &str| json!({ "name": name, "type": rtype, "changetype": "DELETE", "records": null });
    let body =
        json!({ "rrsets": [gone("app.replay.org.", "A"), gone("a-app.replay.org.", "TXT")] });
    client.expect(204, "PATCH", at, Some(&body));
}

/// The cert-manager webhook: REPLACE with an empty list cleans up.
fn cert_manager(client: &Client) {
    let (at, name) = ("/zones/replay.org.", "_acme-challenge.www.replay.org.");
    let body = |records: Value| json!({ "rrsets": [{ "name": name, "type": "TXT", "ttl": 120, "changetype": "REPLACE", "records": records }] });
    client.expect(
        204,
        "PATCH",
        at,
        Some(&body(json!([{ "content": "\"abc\"", "disabled": false }]))),
    );
    client.expect(204, "PATCH", at, Some(&body(json!([]))));
    assert!(contents(&client.expect(200, "GET", at, None), name, "TXT").is_empty());
}

/// Terraform: a zone with all fields at their empty values, content compared letter by letter, a second plan without difference.
fn terraform(client: &Client) {
    assert_eq!(
        client.send_text("GET", "/api/v1/servers", "").json()[0]["id"],
        "localhost"
    );
    let body = json!({ "id": "", "name": "terra.test.", "url": "", "kind": "Native", "dnsssec": false, "serial": 0, "masters": null,
        "nameservers": ["ns1.terra.test.", "ns2.terra.test."], "soa_edit_api": "DEFAULT", "account": "" });
    client.expect(201, "POST", "/zones", Some(&body));
    let at = "/zones/terra.test.";
    let long = format!("\"{}\"", "v".repeat(400));
    let wanted = [
        ("text", "TXT", long.as_str()),
        ("utf", "TXT", "\"\u{e4}\u{20ac}\""),
        ("www", "A", "192.0.2.1"),
        ("mail", "MX", "10 Mail.Terra.test."),
        ("svc", "HTTPS", "1 . alpn=h2,h3"),
    ];
    for (name, rtype, content) in wanted {
        let name = format!("{name}.terra.test.");
        let body = json!({ "rrsets": [{ "name": name, "type": rtype, "changetype": "REPLACE", "ttl": 300,
            "records": [{ "name": name, "type": rtype, "content": content, "ttl": 300, "disabled": false, "set-ptr": false }] }] });
        client.expect(204, "PATCH", at, Some(&body));
        let read = client.expect(200, "GET", at, None);
        assert_eq!(contents(&read, &name, rtype), [content]);
    }
    client.expect(204, "PUT", at, Some(&json!({ "name": "terra.test.", "kind": "Master", "account": "", "soa_edit_api": "DEFAULT" })));
    let head = format!(
        "DELETE /api/v1/servers/localhost{at} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(exchange(client.at, head.as_bytes()).unwrap().status, 204);
    client.expect(404, "GET", at, None);
}

/// PowerDNS-Admin: zones with null fields, DNSSEC on and off, whole RRsets compared, statistics and configuration.
fn powerdns_admin(client: &Client) {
    let body = json!({ "name": "admin.test.", "kind": "NATIVE", "masters": [], "nameservers": ["ns1.admin.test."],
        "soa_edit_api": "DEFAULT", "account": null });
    client.expect(201, "POST", "/zones", Some(&body));
    client.expect(409, "POST", "/zones", Some(&body));
    let at = "/zones/admin.test.";
    let rrset = json!({ "comments": [{ "account": "", "content": "a note", "modified_at": 5 }], "name": "www.admin.test.",
        "records": [{ "content": "192.0.2.1", "disabled": false }, { "content": "192.0.2.2", "disabled": true }], "ttl": 60, "type": "A" });
    let mut change = rrset.clone();
    change["changetype"] = json!("REPLACE");
    client.expect(204, "PATCH", at, Some(&json!({ "rrsets": [change] })));
    let zone = client.expect(200, "GET", at, None);
    let rrsets = zone["rrsets"].as_array().unwrap();
    assert!(rrsets.contains(&rrset), "no other fields: {zone}");
    for field in [
        "account",
        "kind",
        "serial",
        "notified_serial",
        "last_check",
        "masters",
        "dnssec",
        "catalog",
    ] {
        assert!(!zone[field].is_null(), "{field}");
    }
    let keys = format!("{at}/cryptokeys");
    client.expect(
        201,
        "POST",
        &keys,
        Some(&json!({ "keytype": "ksk", "active": true })),
    );
    let key = client.expect(200, "GET", &keys, None)[0]["id"].clone();
    client.expect(204, "DELETE", &format!("{keys}/{key}"), None);
    client.expect(
        204,
        "PUT",
        at,
        Some(&json!({ "kind": "Slave", "masters": ["192.0.2.53"], "account": "dept" })),
    );
    client.expect(200, "PUT", &format!("{at}/axfr-retrieve"), None);
    client.expect(
        204,
        "PUT",
        at,
        Some(&json!({ "kind": "Native", "masters": [], "account": "" })),
    );
    client.expect(200, "GET", "/statistics", None);
    client.expect(200, "GET", "/config", None);
    client.expect(
        200,
        "GET",
        "/search-data?q=*www*&max=10&object_type=all",
        None,
    );
    client.expect(204, "DELETE", at, None);
}

fn check(client: &Client) {
    let body =
        json!({ "name": "replay.org.", "kind": "Master", "nameservers": ["ns1.replay.org."] });
    client.expect(201, "POST", "/zones", Some(&body));
    let sorted = |zone: &Value| {
        let mut rrsets = zone["rrsets"].as_array().unwrap().clone();
        rrsets.retain(|rrset| rrset["type"] != "SOA");
        rrsets
    };
    let before = sorted(&client.expect(200, "GET", "/zones/replay.org.", None));
    for scenario in [
        lego,
        acme_sh,
        external_dns,
        cert_manager,
        terraform,
        powerdns_admin,
    ] {
        scenario(client);
        let after = sorted(&client.expect(200, "GET", "/zones/replay.org.", None));
        assert_eq!(after, before);
    }
}

#[test]
fn requests_of_known_clients_work_on_sqlite() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&settings())
        .config(&database.backend("live"))
        .start();
    check(&Client::new(server.api()));
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
fn requests_of_known_clients_work_on_postgresql() {
    check_on(DatabaseKind::Postgres);
}

#[test]
fn requests_of_known_clients_work_on_mariadb() {
    check_on(DatabaseKind::Mariadb);
}
