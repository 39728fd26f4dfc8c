//! API keys in a database: valid on all its servers that share their keys, and on no others.

use super::servers::{backend, started};
use crate::api::client::{Client, KEY};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};

fn start(kind: DatabaseKind, url: &str, is_shared: bool) -> (TestServer, Client) {
    let config = format!(
        "[server]\nstate_directory = \"state\"\n[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\nkeys_in_database = {is_shared}\n{}",
        backend(kind, url, "live")
    );
    let server = Setup::new().without_web().config(&config).start();
    let client = Client::new(server.api());
    server.wait_until("the database is read", || {
        client.send("GET", "/zones", None).status == 200
    });
    (server, client)
}

/// Runs a command; returns what it prints.
fn command(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Creates a key; returns its text and its ID.
fn create(server: &TestServer, arguments: &[&str]) -> (&'static str, String) {
    let printed = command(server, &[&["api-key", "create"], arguments].concat());
    let text = printed
        .split_whitespace()
        .find(|word| word.starts_with("nw_"));
    let text = text.unwrap_or_else(|| panic!("{printed}")).to_owned();
    let id = text.split('_').nth(1).unwrap_or_default().to_owned();
    (text.leak(), id)
}

fn status(client: &Client, key: &'static str, path: &str) -> u16 {
    client.with_key(key).send("GET", path, None).status
}

#[test]
fn a_key_in_a_database_is_valid_on_all_servers_that_share_their_keys() {
    for kind in [DatabaseKind::Postgres, DatabaseKind::Mariadb] {
        let Some(database) = started(kind) else {
            return;
        };
        let url = database.url();
        let (one, one_api) = start(kind, &url, true);
        let (other, other_api) = start(kind, &url, true);
        let (alone, alone_api) = start(kind, &url, false);
        // Permissions that are stored in several rows.
        let zones: Vec<String> = (0..40)
            .map(|i| format!("--zone=customer-{i}.example"))
            .collect();
        let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
        let (wide, wide_id) = create(&one, &["--read-only", "--description", "monitoring"]);
        let (narrow, narrow_id) = create(&one, &zones);
        assert_eq!(status(&one_api, wide, "/zones"), 200);
        // Not by requests: too many with a wrong key are refused for a while.
        other.wait_until("the keys arrive", || {
            let listed = command(&other, &["api-key", "list"]);
            listed.contains(&wide_id) && listed.contains(&narrow_id)
        });
        assert_eq!(status(&other_api, wide, "/zones"), 200);
        assert_eq!(status(&other_api, narrow, "/zones"), 200);
        assert_eq!(
            status(&other_api, narrow, "/config"),
            403,
            "{kind:?}: its zones only"
        );
        let listed = command(&other, &["api-key", "list"]);
        for id in [&wide_id, &narrow_id] {
            let line = listed.lines().find(|line| line.starts_with(id.as_str()));
            assert!(
                line.is_some_and(|line| line.contains("backend 1")),
                "{listed}"
            );
        }
        // They are not TSIG keys.
        let keys = command(&one, &["tsig", "list"]);
        assert!(!keys.contains("nameward"), "{keys}");
        // Without the setting a server neither accepts them nor stores its own there.
        assert_eq!(status(&alone_api, wide, "/zones"), 401);
        let (own, _) = create(&alone, &[]);
        assert_eq!(status(&alone_api, own, "/zones"), 200);
        assert_eq!(status(&one_api, own, "/zones"), 401);
        for id in [&wide_id, &narrow_id] {
            command(&other, &["api-key", "delete", id]);
        }
        assert_eq!(status(&other_api, wide, "/zones"), 401);
        one.wait_until("the keys are gone", || {
            let listed = command(&one, &["api-key", "list"]);
            !listed.contains(&wide_id) && !listed.contains(&narrow_id)
        });
        assert_eq!(status(&one_api, wide, "/zones"), 401);
        let rows = database.run("SELECT name FROM tsigkeys").unwrap();
        assert_eq!(rows, "", "{kind:?}");
    }
}
