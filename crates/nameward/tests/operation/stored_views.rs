//! Views and networks set by command, and versions of zones created by command, as in PowerDNS 5.

use std::{fs, path::Path};

use nameward_testkit::{Setup, TestServer};

use super::views::{OURS, Route, run};

const COMMON: &str =
    "$TTL 60\n@ SOA ns h 1 7200 3600 604800 60\n@ NS ns\nns A 192.0.2.1\nwhere TXT common\n";

fn start(state: &Path, zones: &Path) -> TestServer {
    let config = format!(
        "[server]\nstate_directory = \"{}\"\n[[backend]]\ntype = \"file\"\ndirectory = \"{}\"\n[[view]]\nname = \"fixed\"\n\
         networks = [\"127.0.0.9\"]\nzones = [{{ name = \"split.example\", variant = \"fixed\" }}]\n",
        state.display(),
        zones.display()
    );
    let address = format!("127.0.0.1:{OURS}");
    Setup::new().config(&config).listen(&[&address]).start()
}

fn version(client: &str) -> String {
    let answer = Route::of(client).dig(&["where.split.example", "TXT"]);
    let text = answer.split('"').nth(1);
    text.map_or_else(|| answer.trim().to_owned(), str::to_owned)
}

fn fails(server: &TestServer, arguments: &[&str], expected: &str) {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    assert!(text.contains(expected), "{arguments:?}: {text}");
}

/// Creates a version, and puts the clients of 127.0.0.2 and 127.0.0.3 into views.
fn set_views(server: &TestServer) {
    let create = ["zone", "create", "split.example..inside"];
    run(
        server,
        &[&create[..], &["--ns", "ns.split.example"]].concat(),
    );
    let set = ["record", "set", "split.example..inside", "where"];
    run(server, &[&set[..], &["TXT", "60", "inside"]].concat());
    assert_eq!(version("127.0.0.2"), "common");
    run(
        server,
        &["view", "add-zone", "office", "split.example..inside"],
    );
    assert_eq!(version("127.0.0.2"), "common");
    run(server, &["network", "set", "127.0.0.2/31", "office"]);
    assert_eq!(version("127.0.0.2"), "inside");
    assert_eq!(version("127.0.0.3"), "inside");
    assert_eq!(version("127.0.0.1"), "common");
    // A view may name a version that does not exist yet: its clients must not get the common one.
    run(server, &["view", "add-zone", "lab", "split.example..lab"]);
    run(server, &["network", "set", "127.0.0.3/32", "lab"]);
    assert_eq!(version("127.0.0.3"), "SERVFAIL");
    let networks = run(server, &["network", "list"]);
    for line in ["127.0.0.2/31", "127.0.0.3/32", "127.0.0.9/32"] {
        assert!(networks.contains(line), "{networks}");
    }
}

#[test]
fn versions_views_and_networks_are_set_by_command_at_once_and_outlive_a_kill() {
    let (state, zones) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(zones.path().join("split.example.zone"), COMMON).unwrap();
    let server = start(state.path(), zones.path());
    set_views(&server);
    assert!(zones.path().join("split.example..inside.zone").exists());
    run(&server, &["reload"]);
    assert_eq!(version("127.0.0.2"), "inside");
    server.signal("KILL");
    drop(server);
    let server = start(state.path(), zones.path());
    assert_eq!(version("127.0.0.2"), "inside");
    assert_eq!(version("127.0.0.3"), "SERVFAIL");
    run(
        &server,
        &["view", "remove-zone", "lab", "split.example..lab"],
    );
    assert_eq!(version("127.0.0.3"), "common");
    run(
        &server,
        &["view", "remove-zone", "office", "split.example..inside"],
    );
    assert_eq!(version("127.0.0.2"), "common");
    run(&server, &["zone", "delete", "split.example..inside"]);
    assert!(!run(&server, &["zone", "list"]).contains("..inside"));
    run(&server, &["zone", "undelete", "split.example..inside"]);
    assert!(run(&server, &["zone", "list"]).contains("..inside"));
    let log = run(&server, &["audit-log"]);
    assert!(
        log.contains("network_set") && log.contains("view_add_zone"),
        "{log}"
    );
    assert!(server.stop().success());
}

#[test]
fn configured_views_are_changed_in_the_configuration_and_pdnsutil_supports_views() {
    let (state, zones) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(zones.path().join("split.example.zone"), COMMON).unwrap();
    let server = start(state.path(), zones.path());
    set_views(&server);
    let inside = "split.example..inside";
    for (arguments, expected) in [
        (["network", "set", "127.0.0.9", "office"], "invalid network"),
        (
            ["network", "set", "127.0.0.9/32", "office"],
            "change it there",
        ),
        (["view", "add-zone", "fixed", inside], "change it there"),
        (
            ["view", "add-zone", "office", "split.example"],
            "common version",
        ),
        (["view", "add-zone", "Office", inside], "invalid view name"),
        (
            ["view", "remove-zone", "office", "other.example..inside"],
            "does not have",
        ),
        (["network", "set", "10.0.0.0/8", ""], "has no view"),
    ] {
        fails(&server, &arguments, expected);
    }
    let pdnsutil = |words: &[&str]| run(&server, &[&["pdnsutil"], words].concat());
    assert_eq!(
        pdnsutil(&["views", "list", "office"]),
        "split.example..inside\n"
    );
    assert_eq!(pdnsutil(&["views", "list-all"]), "fixed\nlab\noffice\n");
    pdnsutil(&["network", "set", "127.0.0.4/32", "office"]);
    assert!(pdnsutil(&["network", "list"]).contains("127.0.0.4/32\toffice\n"));
    assert_eq!(version("127.0.0.4"), "inside");
    pdnsutil(&["network", "set", "127.0.0.4/32"]);
    assert_eq!(version("127.0.0.4"), "common");
    pdnsutil(&["views", "del-zone", "lab", "split.example..lab"]);
    assert_eq!(version("127.0.0.3"), "common");
    assert!(server.stop().success());
}
