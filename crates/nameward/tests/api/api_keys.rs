//! API keys: what each permits over HTTP, and how commands manage them.

use super::client::{create_key, create_zones, run, set_address, start};
use serde_json::json;

#[test]
fn a_key_limited_to_zones_changes_these_and_sees_no_others() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test.", "sub.a.test.", "b.test."]);
    let (id, text) = create_key(&server, &["--zone", "A.test", "--description", "panel"]);
    let client = admin.with_key(&text);
    let zones = client.expect(200, "GET", "/zones", None);
    let mut names: Vec<&str> = zones
        .as_array()
        .unwrap()
        .iter()
        .map(|zone| zone["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["a.test.", "sub.a.test."]);
    let change = set_address("www.a.test.", "192.0.2.7");
    client.expect(204, "PATCH", "/zones/a.test.", Some(&change));
    // A zone outside looks like one that does not exist.
    let change = set_address("www.b.test.", "192.0.2.7");
    for (method, body) in [("GET", None), ("PATCH", Some(&change)), ("DELETE", None)] {
        let outside = client.send(method, "/zones/b.test.", body);
        let missing = client.send(method, "/zones/missing.test.", body);
        assert_eq!(
            (outside.status, &outside.body),
            (404, &missing.body),
            "{method}"
        );
    }
    for path in ["export", "metadata", "cryptokeys"] {
        client.expect(404, "GET", &format!("/zones/b.test./{path}"), None);
    }
    client.expect(404, "PUT", "/zones/b.test./notify", None);
    assert_eq!(
        client.expect(200, "GET", "/zones?zone=b.test.", None),
        json!([])
    );
    let found = client.expect(200, "GET", "/search-data?q=www*&max=1", None);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    let found = client.expect(200, "GET", "/search-data?q=www*", None);
    assert!(
        !found.to_string().contains("b.test") && found.to_string().contains("sub.a.test"),
        "{found}"
    );
    for path in [
        "/config",
        "/config/version-string",
        "/statistics",
        "/tsigkeys",
        "/autoprimaries",
    ] {
        client.expect(403, "GET", path, None);
    }
    client.expect(403, "PUT", "/cache/flush?domain=b.test.", None);
    let new =
        |name: &str| json!({ "name": name, "kind": "Native", "nameservers": ["ns1.a.test."] });
    client.expect(403, "POST", "/zones", Some(&new("c.test.")));
    client.expect(201, "POST", "/zones", Some(&new("c.a.test.")));
    admin.expect(200, "GET", "/zones/b.test.", None);
    // Its changes are recorded with its name.
    let (_, history) = run(&server, &["zone", "history", "a.test"]);
    assert!(
        history.contains(&format!("api 127.0.0.1 key {id}")),
        "{history}"
    );
    let (code, _) = run(&server, &["api-key", "delete", &id]);
    assert_eq!(code, Some(0));
    client.expect(401, "GET", "/zones", None);
}

#[test]
fn a_read_only_key_changes_nothing_and_sees_no_private_keys() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test."]);
    let body = json!({ "keytype": "csk", "active": true });
    let made = admin.expect(201, "POST", "/zones/a.test./cryptokeys", Some(&body));
    let at = format!("/zones/a.test./cryptokeys/{}", made["id"]);
    let (_, text) = create_key(&server, &["--read-only"]);
    let reader = admin.with_key(&text);
    for path in [
        "/zones",
        "/zones/a.test.",
        "/config",
        "/statistics",
        "/tsigkeys",
    ] {
        reader.expect(200, "GET", path, None);
    }
    let shown = reader.expect(200, "GET", &at, None);
    assert!(
        shown["dnskey"].is_string() && shown["privatekey"].is_null(),
        "{shown}"
    );
    assert!(admin.expect(200, "GET", &at, None)["privatekey"].is_string());
    let change = set_address("www.a.test.", "192.0.2.7");
    let reply = reader.send("PATCH", "/zones/a.test.", Some(&change));
    assert_eq!(
        (reply.status, reply.json()),
        (403, json!({ "error": "this API key is read-only" }))
    );
    let text = reader.with_header("Accept", "text/plain");
    let refused = text.send("PATCH", "/zones/a.test.", Some(&change));
    assert_eq!(refused.header("content-type"), Some("application/json"));
    for (method, path) in [
        ("DELETE", "/zones/a.test."),
        ("PUT", "/zones/a.test./notify"),
        ("PUT", "/cache/flush?domain=a.test."),
        ("DELETE", at.as_str()),
    ] {
        reader.expect(403, method, path, None);
    }
}

#[test]
fn keys_are_listed_without_secrets_and_expire() {
    let (server, admin) = start("");
    let (id, text) = create_key(
        &server,
        &[
            "--zone",
            "a.test",
            "--zone",
            "b.test",
            "--expires",
            "2100-01-01",
            "--description",
            "two zones",
        ],
    );
    let (soon, short) = create_key(&server, &["--read-only", "--expires", "2s"]);
    let (code, listed) = run(&server, &["api-key", "list", "--json"]);
    assert_eq!(code, Some(0), "{listed}");
    let secret = text.rsplit_once('_').unwrap().1;
    assert!(!listed.contains(secret), "{listed}");
    let first = listed.lines().find(|line| line.contains(&id)).unwrap();
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(
        (
            &first["zones"],
            &first["read_only"],
            &first["expires"],
            &first["description"]
        ),
        (
            &json!(["a.test.", "b.test."]),
            &json!(false),
            &json!(4_102_444_800_u64),
            &json!("two zones")
        )
    );
    server.wait_until("the short key has expired", || {
        admin.with_key(&short).send("GET", "/zones", None).status == 401
    });
    assert!(listed.contains(&soon));
    let (code, error) = run(&server, &["api-key", "delete", "nosuch"]);
    assert_eq!(code, Some(4), "{error}");
    let (code, error) = run(&server, &["api-key", "create", "--expires", "1999-01-01"]);
    assert_eq!(code, Some(6), "{error}");
    // The whole key names itself, too.
    let (code, gone) = run(&server, &["api-key", "delete", &short]);
    assert_eq!((code, gone), (Some(0), format!("deleted API key {soon}\n")));
    admin.with_key(&text).expect(200, "GET", "/zones", None);
    for wrong in [
        "nw_",
        &format!("nw_{id}_"),
        &text.to_uppercase(),
        &format!("{text}x"),
    ] {
        admin.with_key(wrong).expect(401, "GET", "/zones", None);
    }
}
