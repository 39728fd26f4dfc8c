//! The OpenAPI description, checked with a real validator.

use super::client::{create_key, start};
use std::process::Command;

#[test]
fn the_description_is_valid_openapi_3_1_and_names_the_served_paths() {
    let (server, client) = start("");
    let reply = client.send("GET", "/api/docs", None);
    assert_eq!(reply.status, 200);
    let document = reply.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(client.send("GET", "/api/docs.json", None).json(), document);
    let file = server.dir().join("openapi.json");
    std::fs::write(&file, &reply.body).unwrap();
    let script = "import json, sys\n\
                  from openapi_spec_validator import OpenAPIV31SpecValidator\n\
                  OpenAPIV31SpecValidator(json.load(open(sys.argv[1]))).validate()\n";
    let Some(clients) = crate::databases::api_clients::clients() else {
        return;
    };
    let output = Command::new(clients.join("python/bin/python3"))
        .args(["-c", script])
        .arg(&file)
        .output()
        .expect("the validator's python3 is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Every path with GET and without parameters is served.
    for (path, methods) in document["paths"].as_object().unwrap() {
        // A stream of events does not end; it has separate tests.
        let is_stream =
            methods["get"]["responses"]["200"]["content"]["text/event-stream"].is_object();
        if methods["get"].is_null() || path.contains('{') || is_stream {
            continue;
        }
        let status = client.send("GET", path, None).status;
        assert!(![404, 405].contains(&status), "{path}: {status}");
    }
    // The reply to a dry run has a body, unlike that of the change.
    let zone = &document["paths"]["/api/v1/servers/localhost/zones/{zone_id}"];
    for method in ["patch", "put"] {
        let responses = &zone[method]["responses"];
        assert!(responses["204"]["content"].is_null() && responses["200"]["content"].is_object());
    }
    // It reveals nothing about zones, so every key may read it.
    let (_, text) = create_key(&server, &["--zone", "a.test", "--read-only"]);
    assert_eq!(
        client.with_key(&text).send("GET", "/api/docs", None).status,
        200
    );
}
