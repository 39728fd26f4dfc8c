//! The audit log: author, change, client address and outcome.

use super::client::{create_key, create_zones, run, set_address, start};
use serde_json::{Value, json};

fn entries(log: &Value) -> Vec<(&str, &str, Option<&str>)> {
    let list = log.as_array().unwrap().iter();
    list.map(|entry| {
        let text = |name: &str| entry[name].as_str();
        (
            text("operation").unwrap(),
            text("outcome").unwrap(),
            text("zone"),
        )
    })
    .collect()
}

#[test]
fn changes_by_api_and_command_are_recorded_with_author_and_outcome() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test.", "b.test."]);
    let (id, text) = create_key(&server, &["--zone", "a.test"]);
    let client = admin.with_key(&text);
    let change = set_address("www.a.test.", "192.0.2.7");
    client.expect(204, "PATCH", "/zones/a.test.", Some(&change));
    client.expect(404, "DELETE", "/zones/b.test.", None);
    let new = json!({ "name": "c.test.", "kind": "Native", "nameservers": ["ns1.a.test."] });
    client.expect(403, "POST", "/zones", Some(&new));
    let set = [
        "record",
        "set",
        "b.test",
        "x",
        "A",
        "60",
        "192.0.2.9",
        "--message",
        "a ticket",
    ];
    let (code, output) = run(&server, &set);
    assert_eq!(code, Some(0), "{output}");
    // Reading is not recorded.
    admin.expect(200, "GET", "/zones/a.test.", None);
    let log = admin.expect(200, "GET", "/audit", None);
    assert_eq!(
        entries(&log),
        [
            ("record_set", "done", Some("b.test.")),
            ("zone_provision", "failed", Some("c.test.")),
            ("rrsets_change", "done", Some("a.test.")),
            ("api_key_create", "done", None),
            ("zone_provision", "done", Some("b.test.")),
            ("zone_provision", "done", Some("a.test.")),
        ],
        "{log}"
    );
    assert_eq!(
        (&log[0]["address"], &log[0]["key"], &log[0]["message"]),
        (&Value::Null, &Value::Null, &json!("a ticket"))
    );
    assert!(log[0]["who"].as_str().unwrap().starts_with("user "));
    let patch = &log[2];
    assert_eq!(
        (&patch["address"], &patch["key"], &patch["detail"]),
        (
            &json!("127.0.0.1"),
            &json!(id),
            &json!("replace www.a.test. A 192.0.2.7")
        )
    );
    let zone = admin.expect(200, "GET", "/zones/a.test.", None);
    assert_eq!(patch["serial"], zone["serial"]);
    assert!(patch["time"].as_str().unwrap().ends_with('Z'));
    assert!(!log.to_string().contains(text.rsplit_once('_').unwrap().1));
    // Filters and pages.
    let by_zone = admin.expect(200, "GET", "/audit?zone=b.test.", None);
    assert_eq!(by_zone.as_array().unwrap().len(), 2, "{by_zone}");
    let by_key = admin.expect(200, "GET", &format!("/audit?key={id}"), None);
    assert_eq!(by_key.as_array().unwrap().len(), 2, "{by_key}");
    let page = admin.expect(200, "GET", "/audit?limit=2", None);
    let last = &page[1]["number"];
    let next = admin.expect(200, "GET", &format!("/audit?limit=2&before={last}"), None);
    assert_eq!(next[0], log[2]);
    let late = admin.expect(200, "GET", "/audit?since=2100-01-01", None);
    assert_eq!(late, json!([]));
    admin.expect(422, "GET", "/audit?since=yesterday", None);
    // A key that is limited to zones sees only their entries.
    let own = client.expect(200, "GET", "/audit?limit=2", None);
    let zones: Vec<_> = entries(&own).into_iter().map(|entry| entry.2).collect();
    assert_eq!(zones, [Some("a.test."), Some("a.test.")], "{own}");
    client.expect(404, "GET", "/audit?zone=b.test.", None);
    let (code, listed) = run(&server, &["audit-log", "--zone", "a.test", "--json"]);
    assert_eq!((code, listed.lines().count()), (Some(0), 2), "{listed}");
}

#[test]
fn a_batch_has_an_entry_for_each_of_its_zones() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test.", "b.test."]);
    let file = server.dir().join("batch");
    let batch = "zone a.test\n+x 60 A 192.0.2.1\nzone b.test\n-www A 192.0.2.1\n";
    std::fs::write(&file, batch).unwrap();
    let (code, output) = run(&server, &["apply", file.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{output}");
    let log = admin.expect(200, "GET", "/audit?limit=2", None);
    let mut details: Vec<_> = log.as_array().unwrap().iter().collect();
    details.sort_by_key(|entry| entry["zone"].as_str().unwrap());
    assert_eq!(
        (&details[0]["detail"], &details[1]["detail"]),
        (
            &json!("add x.a.test. A 192.0.2.1"),
            &json!("delete www.b.test. A 192.0.2.1")
        )
    );
    assert!(
        details.iter().all(|entry| entry["serial"].is_u64()),
        "{log}"
    );
    // A dry run changes nothing and is not recorded.
    let (code, _) = run(&server, &["apply", "--dry-run", file.to_str().unwrap()]);
    assert_ne!(code, None);
    let after = admin.expect(200, "GET", "/audit?limit=2", None);
    assert_eq!(after, log);
}
