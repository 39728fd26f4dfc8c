//! Versions of zones, views and networks over HTTP, as in PowerDNS 5.

use super::client::{Client, create_key, start};
use nameward_testkit::wire;
use serde_json::{Value, json};

/// The first octet of the address that a client gets, or the response code.
fn first_octet(server: &nameward_testkit::TestServer, client: &str) -> (u16, Option<u8>) {
    let client = wire::Client::new(client, server.address());
    let reply = client.ask(wire::Transport::Udp, "www.a.test", "A");
    let address = reply.answer.iter().find(|record| record.rtype == 1);
    (
        reply.rcode(),
        address.and_then(|record| record.data.first().copied()),
    )
}

fn zone(id: &str, address: &str) -> Value {
    json!({
        "name": id, "kind": "Native", "nameservers": ["ns1.a.test."],
        "rrsets": [{ "name": "www.a.test.", "type": "A", "ttl": 300, "records": [{ "content": address }] }],
    })
}

/// Requests that change nothing.
fn check_refusals(server: &nameward_testkit::TestServer, client: &Client) {
    let body = json!({ "view": "trusted" });
    client.expect(404, "GET", "/networks/127.0.0.2/30", None);
    client.expect(404, "GET", "/views/nobody", None);
    client.expect(422, "PUT", "/networks/nonsense/31", Some(&body));
    client.expect(422, "PUT", "/networks/127.0.0.2/31", Some(&json!({})));
    client.expect(422, "POST", "/views/trusted", Some(&json!({})));
    client.expect(
        422,
        "POST",
        "/views/Trusted",
        Some(&json!({ "name": "a.test..trusted" })),
    );
    client.expect(
        422,
        "POST",
        "/views/trusted",
        Some(&json!({ "name": "a.test." })),
    );
    client.expect(404, "DELETE", "/views/trusted/b.test..trusted", None);
    // A key for some zones cannot decide who gets which version.
    let (_, secret) = create_key(server, &["--zone", "a.test"]);
    let scoped = client.with_key(&secret);
    scoped.expect(403, "PUT", "/networks/127.0.0.1/32", Some(&body));
    scoped.expect(
        403,
        "POST",
        "/views/trusted",
        Some(&json!({ "name": "a.test..trusted" })),
    );
}

#[test]
fn versions_views_and_networks_follow_the_api_of_powerdns() {
    let (server, client) = start("");
    client.expect(201, "POST", "/zones", Some(&zone("a.test.", "192.0.2.1")));
    let made = client.expect(
        201,
        "POST",
        "/zones",
        Some(&zone("a.test..trusted", "10.0.0.1")),
    );
    assert_eq!(made["name"], "a.test..trusted");
    client.expect(
        409,
        "POST",
        "/zones",
        Some(&zone("a.test..trusted", "10.0.0.1")),
    );
    let read = client.expect(200, "GET", "/zones/a.test..trusted", None);
    assert_eq!(read["rrsets"].as_array().map(Vec::len), Some(3), "{read}");
    let exported = client.expect(200, "GET", "/zones/a.test..trusted/export", None);
    let text = exported["zone"].as_str().unwrap_or_default();
    assert!(
        text.contains("www.a.test.\t300\tIN\tA\t10.0.0.1\n"),
        "{exported}"
    );
    client.expect(
        422,
        "PUT",
        "/zones/a.test..trusted",
        Some(&json!({ "catalog": "cat.test." })),
    );
    let empty = client.expect(200, "GET", "/views", None);
    assert_eq!(empty, json!({ "views": [] }));
    let body = json!({ "name": "a.test..trusted" });
    client.expect(204, "POST", "/views/trusted", Some(&body));
    let body = json!({ "view": "trusted" });
    client.expect(204, "PUT", "/networks/127.0.0.2/31", Some(&body));
    client.expect(204, "PUT", "/networks/2001:db8::/32", Some(&body));
    assert_eq!(first_octet(&server, "127.0.0.2"), (0, Some(10)));
    assert_eq!(first_octet(&server, "127.0.0.1"), (0, Some(192)));
    let views = client.expect(200, "GET", "/views", None);
    assert_eq!(views, json!({ "views": ["trusted"] }));
    let view = client.expect(200, "GET", "/views/trusted", None);
    assert_eq!(view, json!({ "zones": ["a.test..trusted"] }));
    let networks = client.expect(200, "GET", "/networks", None);
    let expected = json!({ "networks": [
        { "network": "127.0.0.2/31", "view": "trusted" },
        { "network": "2001:db8::/32", "view": "trusted" },
    ]});
    assert_eq!(networks, expected);
    let one = client.expect(200, "GET", "/networks/127.0.0.2/31", None);
    assert_eq!(one["networks"][0]["view"], "trusted");
    check_refusals(&server, &client);
    client.expect(204, "DELETE", "/networks/2001:db8::/32", None);
    client.expect(
        204,
        "PUT",
        "/networks/127.0.0.2/31",
        Some(&json!({ "view": "" })),
    );
    assert_eq!(first_octet(&server, "127.0.0.2"), (0, Some(192)));
    client.expect(204, "DELETE", "/views/trusted/a.test..trusted", None);
    assert_eq!(
        client.expect(200, "GET", "/views", None),
        json!({ "views": [] })
    );
    client.expect(204, "DELETE", "/zones/a.test..trusted", None);
    client.expect(404, "GET", "/zones/a.test..trusted", None);
    assert!(server.stop().success());
}
