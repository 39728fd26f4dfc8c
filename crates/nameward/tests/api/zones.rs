//! Zones over HTTP beyond PowerDNS: pages, conditions, dry runs, several zones at once, versions, problem details.

use super::client::{create_key, create_zones, set_address, start};
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_are_paged_searched_and_sorted_and_whole_without_parameters() {
    let (_server, client) = start("");
    create_zones(&client, &["a.test.", "b.test.", "c.test.", "d.example."]);
    let whole = client.send("GET", "/zones", None);
    assert_eq!(whole.header("x-total-count"), None);
    assert_eq!(names(&whole.json()).len(), 4);
    let page = client.send("GET", "/zones?limit=2", None);
    assert_eq!(page.header("x-total-count"), Some("4"));
    assert_eq!(names(&page.json()), ["a.test.", "b.test."]);
    for (query, expected) in [
        ("limit=2&after=b.test.", &["c.test.", "d.example."][..]),
        ("limit=1&offset=3", &["d.example."]),
        ("q=test&sort=-name", &["c.test.", "b.test.", "a.test."]),
        ("q=*.example.", &["d.example."]),
        ("q=nothing", &[]),
        ("offset=100", &[]),
    ] {
        let list = client.expect(200, "GET", &format!("/zones?{query}"), None);
        assert_eq!(names(&list), expected, "{query}");
    }
    for query in ["limit=x", "sort=color", "after=z.test.", "offset=-1"] {
        client.expect(422, "GET", &format!("/zones?{query}"), None);
    }
    let zone = client.send("GET", "/zones/a.test.?limit=1&sort=-type&q=a.test", None);
    assert_eq!(zone.header("x-total-count"), Some("3"), "{zone:?}");
    assert_eq!(zone.json()["rrsets"][0]["type"], "SOA");
}

#[test]
fn a_zone_changed_in_the_meantime_is_not_overwritten() {
    let (_server, client) = start("");
    create_zones(&client, &["a.test."]);
    let at = "/zones/a.test.";
    let read = client.send("GET", at, None);
    let tag = read.header("etag").unwrap().to_owned();
    let same = client
        .with_header("If-None-Match", &tag)
        .send("GET", at, None);
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    assert_eq!(same.header("etag"), Some(tag.as_str()));
    let editor = client.with_header("If-Match", &tag);
    let change = set_address("www.a.test.", "192.0.2.2");
    editor.expect(204, "PATCH", at, Some(&change));
    // The second editor has read the old version.
    let change = set_address("www.a.test.", "192.0.2.3");
    let refused = editor.send("PATCH", at, Some(&change));
    assert_eq!(refused.status, 412, "{refused:?}");
    editor.expect(412, "DELETE", at, None);
    editor.expect(412, "PUT", at, Some(&json!({ "account": "you" })));
    let new = client
        .with_header("If-None-Match", &tag)
        .send("GET", at, None);
    assert_eq!(new.status, 200);
    assert_ne!(new.header("etag"), Some(tag.as_str()));
    // Zones that keep their serial still have a new tag.
    let off = json!({ "soa_edit_api": "" });
    client.expect(204, "PUT", at, Some(&off));
    let before = client.send("GET", at, None);
    client.expect(204, "PATCH", at, Some(&change));
    let after = client.send("GET", at, None);
    assert_eq!(before.json()["serial"], after.json()["serial"]);
    assert_ne!(before.header("etag"), after.header("etag"));
    let any = client.with_header("If-Match", "*");
    any.expect(204, "DELETE", at, None);
    any.expect(404, "DELETE", at, None);
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let (server, client) = start("");
    create_zones(&client, &["a.test."]);
    let at = "/zones/a.test.";
    let before = client.expect(200, "GET", at, None);
    let change = set_address("www.a.test.", "192.0.2.2");
    let shown = client.expect(200, "PATCH", &format!("{at}?check=true"), Some(&change));
    assert_eq!(
        (&shown["changed"], &shown["check"], &shown["name"]),
        (&json!(true), &json!(true), &json!("a.test."))
    );
    assert!(
        shown["serial"].as_u64() > before["serial"].as_u64(),
        "{shown}"
    );
    let data = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        let list = list.filter(|record| record["type"] == "A");
        list.map(|record| record["content"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(data(&shown["removed"]), ["192.0.2.1"]);
    assert_eq!(data(&shown["added"]), ["192.0.2.2"]);
    assert_eq!(client.expect(200, "GET", at, None), before);
    let bad = json!({ "rrsets": [{ "name": "www.a.test.", "type": "CNAME", "ttl": 60, "changetype": "REPLACE",
        "records": [{ "content": "a.test." }] }] });
    let checked = client.send("PATCH", &format!("{at}?check=true"), Some(&bad));
    let made = client.send("PATCH", at, Some(&bad));
    assert_eq!((checked.status, checked.body), (made.status, made.body));
    let rrsets = before["rrsets"].as_array().unwrap().iter();
    let rrsets: Vec<&Value> = rrsets.filter(|rrset| rrset["type"] != "SOA").collect();
    let put = json!({ "rrsets": rrsets });
    let same = client.expect(200, "PUT", &format!("{at}?check=true"), Some(&put));
    assert_eq!(same["changed"], json!(false), "{same}");
    client.expect(
        422,
        "PUT",
        &format!("{at}?check=true"),
        Some(&json!({ "account": "x" })),
    );
    // A request without support for dry runs changes nothing.
    let new = json!({ "name": "new.test.", "kind": "Native" });
    client.expect(422, "POST", "/zones?check=true", Some(&new));
    client.expect(422, "DELETE", &format!("{at}?check=true"), None);
    client.expect(422, "PUT", &format!("{at}/rectify?check=true"), None);
    client.expect(404, "GET", "/zones/new.test.", None);
    assert_eq!(client.expect(200, "GET", at, None), before);
    // A dry run is not a change, so a read-only key permits it.
    let (_, text) = create_key(&server, &["--read-only"]);
    let reader = client.with_key(&text);
    reader.expect(200, "PATCH", &format!("{at}?check=true"), Some(&change));
    reader.expect(403, "PATCH", at, Some(&change));
}

#[test]
fn several_zones_are_changed_in_one_request_and_an_error_changes_none() {
    let (server, client) = start("");
    create_zones(&client, &["a.test.", "b.test."]);
    let with = |first: &str, second: &str| {
        let zone = |name: &str, address: &str| {
            let mut zone = set_address(&format!("www.{name}"), address);
            zone["name"] = json!(name);
            zone
        };
        json!({ "zones": [zone("a.test.", first), zone("b.test.", second)] })
    };
    let before = client.expect(200, "GET", "/zones/a.test.", None);
    let bad = json!({ "zones": [with("192.0.2.2", "")["zones"][0], { "name": "missing.test.", "rrsets": [] }] });
    client.expect(404, "PATCH", "/zones", Some(&bad));
    client.expect(422, "PATCH", "/zones", Some(&with("192.0.2.2", "bogus")));
    assert_eq!(client.expect(200, "GET", "/zones/a.test.", None), before);
    let body = with("192.0.2.2", "192.0.2.3");
    let shown = client.expect(200, "PATCH", "/zones?check=true", Some(&body));
    assert_eq!(names(&shown["zones"]), ["a.test.", "b.test."]);
    assert_eq!(client.expect(200, "GET", "/zones/a.test.", None), before);
    client.expect(200, "PATCH", "/zones", Some(&body));
    for (zone, address) in [("a.test.", "192.0.2.2"), ("b.test.", "192.0.2.3")] {
        let path = format!("/zones/{zone}?rrset_name=www.{zone}");
        let shown = client.expect(200, "GET", &path, None);
        assert_eq!(shown["rrsets"][0]["records"][0]["content"], address);
    }
    // Each zone has its entry in the audit log, and a key needs them all.
    let log = client.expect(200, "GET", "/audit?limit=2", None);
    assert_eq!(log[0]["operation"], "rrsets_batch");
    assert!(
        log[0]["zone"] != log[1]["zone"] && log[0]["serial"].is_u64(),
        "{log}"
    );
    let (_, text) = create_key(&server, &["--zone", "a.test"]);
    client
        .with_key(&text)
        .expect(404, "PATCH", "/zones", Some(&body));
}

#[test]
fn versions_are_listed_compared_and_restored() {
    let (_server, client) = start("");
    create_zones(&client, &["a.test."]);
    let at = "/zones/a.test.";
    let serial = |client: &super::client::Client| {
        client.expect(200, "GET", at, None)["serial"]
            .as_u64()
            .unwrap()
    };
    let first = serial(&client);
    for last in 2..=3 {
        let change = set_address("www.a.test.", &format!("192.0.2.{last}"));
        client.expect(204, "PATCH", at, Some(&change));
    }
    let newest = serial(&client);
    let history = client.expect(200, "GET", &format!("{at}/history"), None);
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["serial"], &last["who"], &last["origin"]),
        (&json!(newest), &json!("api 127.0.0.1"), &json!("change"))
    );
    let difference = client.expect(200, "GET", &format!("{at}/difference?from={first}"), None);
    assert_eq!(difference["to"], json!(newest));
    assert!(
        difference["added"].to_string().contains("192.0.2.3"),
        "{difference}"
    );
    assert!(
        !difference.to_string().contains("192.0.2.2"),
        "{difference}"
    );
    client.expect(422, "GET", &format!("{at}/difference"), None);
    client.expect(404, "GET", &format!("{at}/difference?from=1"), None);
    let back = format!("{at}/rollback?serial={first}");
    let shown = client.expect(200, "PUT", &format!("{back}&check=true"), None);
    assert_eq!(shown["changed"], json!(true));
    assert_eq!(serial(&client), newest);
    client.expect(200, "PUT", &back, None);
    assert!(serial(&client) > newest);
    let zone = client.expect(200, "GET", &format!("{at}?rrset_name=www.a.test."), None);
    assert_eq!(zone["rrsets"][0]["records"][0]["content"], "192.0.2.1");
    let again = client.expect(200, "PUT", &back, None);
    assert_eq!(again["changed"], json!(false), "{again}");
}

#[test]
fn errors_are_problem_details_for_clients_that_accept_them() {
    let (_server, client) = start("");
    let client = client.with_header("Accept", "application/problem+json, application/json");
    for (method, path, status, title) in [
        ("GET", "/zones/missing.test.", 404, "Not Found"),
        ("GET", "/zones?limit=x", 422, "Unprocessable Content"),
        ("POST", "/zones", 400, "Bad Request"),
        ("DELETE", "/zones", 405, "Method Not Allowed"),
    ] {
        let reply = client.send(method, path, None);
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json")
        );
        let problem = reply.json();
        assert_eq!(
            (
                reply.status,
                &problem["status"],
                &problem["title"],
                &problem["type"]
            ),
            (status, &json!(status), &json!(title), &json!("about:blank"))
        );
    }
    let reply = client.with_key("wrong").send("GET", "/zones", None);
    assert_eq!(
        (reply.status, &reply.json()["title"]),
        (401, &json!("Unauthorized"))
    );
    let reply = client.send("GET", "/zones", None);
    assert_eq!(reply.header("content-type"), Some("application/json"));
}
