//! The commands that talk to a running server: which server they reach, what they print, how they end.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Output,
};

use nameward_testkit::TestServer;

use super::ask::{eventually, get, rcode, zone};

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn config_of(server: &TestServer) -> String {
    server.dir().join("nameward.toml").display().to_string()
}

#[test]
fn status_shows_served_zones_and_faults() {
    let bad = "@ SOA broken\n";
    let server = TestServer::start(
        "[server]\nnsid = \"ns7\"\nworkers = 1\n[web]\nready_faults = [\"zone_empty\"]\n",
        &[("one.example", &zone("www")), ("bad.example", bad)],
    );
    let output = server.command(&["status"]);
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    for line in [
        concat!("version        ", env!("CARGO_PKG_VERSION")).to_string(),
        "host           ns7".into(),
        format!("process        {}", server.pid()),
        format!("configuration  {}", config_of(&server)),
        format!("listening      {} (UDP and TCP)", server.address()),
        format!("status page    http://{}/", server.web()),
        "workers        1".into(),
        "zones          2 served, 1 without data, 1 with errors".into(),
        "transfers      0 in, 0 waiting; 0 out, 0 waiting".into(),
        "last reload    none since start".into(),
        "faults: 1".into(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("\nuptime "), "{text}");
    let json = stdout(&server.command(&["status", "--json"]));
    assert!(
        json.starts_with("{\"result\":\"status\",\"version\":"),
        "{json}"
    );
    assert!(json.contains("\"zones\":2,\"zones_not_ready\":1"), "{json}");
    assert_eq!(json.lines().count(), 1);
    // The same faults are on the page, and a probe sees that there are some.
    let fault = "Zone bad.example cannot be served: ";
    assert!(
        text.contains(fault) && text.contains("bad.example.zone:1:"),
        "{text}"
    );
    let page = get(server.web(), "/");
    assert!(
        page.contains(fault) && page.contains(" on ns7</title>"),
        "{page}"
    );
    let probe = get(server.web(), "/readyz");
    assert!(probe.starts_with("HTTP/1.0 503 "), "{probe}");
    assert!(
        probe.ends_with("\na zone has no data to serve\n"),
        "{probe}"
    );
    // A reload that fails is a fault until one succeeds.
    assert!(!server.command(&["reload"]).status.success());
    let text = stdout(&server.command(&["status"]));
    assert!(text.contains("Z failed: "), "{text}");
    assert!(
        text.contains("  reload_failed: The last reload failed: "),
        "{text}"
    );
    server.write_zone("bad.example", &zone("www"));
    assert!(server.command(&["reload"]).status.success());
    let text = stdout(&server.command(&["status"]));
    assert!(text.ends_with("\nfaults: none\n"), "{text}");
    // Reading the state for the command has updated it for the page.
    assert!(get(server.web(), "/readyz").ends_with("\nready\n"));
    assert!(
        get(server.web(), "/")
            .contains("<strong>All is well</strong> <span>2 zones served, 1 backend up")
    );
}

#[test]
fn one_zone_without_data_leaves_the_server_ready_and_a_share_counts_as_configured() {
    let zones = [
        ("one.example", &zone("www")[..]),
        ("bad.example", "@ SOA broken\n"),
    ];
    let server = TestServer::start("", &zones);
    assert!(get(server.web(), "/readyz").ends_with("\nready\n"));
    assert!(stdout(&server.command(&["status"])).contains("\n  zone_empty: "));
    let server = TestServer::start("[web]\nready_zones_percent = 51\n", &zones);
    let probe = get(server.web(), "/readyz");
    assert!(probe.starts_with("HTTP/1.0 503 "), "{probe}");
    assert!(
        probe.ends_with("\nfewer zones can be answered than web.ready_zones_percent requires\n"),
        "{probe}"
    );
    // Without any zone that can be answered the server is useless.
    let secondary = "[server]\nstate_directory = \"state\"\n[[zone]]\nname = \"sec.example\"\nkind = \"secondary\"\n\
                     primaries = [{ address = \"127.0.0.1:1\" }]\n";
    let server = TestServer::start(secondary, &[]);
    let probe = get(server.web(), "/readyz");
    assert!(probe.ends_with("\nno zone can be answered\n"), "{probe}");
}

#[test]
fn the_list_of_zones_is_searched_and_turned_by_pages() {
    let names: Vec<String> = (0..105).map(|n| format!("z{n:03}.example")).collect();
    let www = zone("www");
    let mut zones: Vec<(&str, &str)> = names.iter().map(|name| (&name[..], &www[..])).collect();
    zones.push(("bad.example", "@ SOA broken\n"));
    let server = TestServer::start("", &zones);
    let page = |query: &str| get(server.web(), &format!("/?zones={query}"));
    let rows = |page: &str| page.matches("<td class=\"name\">").count();
    let first = page("");
    assert!(
        first.starts_with("HTTP/1.0 200 ") && first.contains("<h2>106 zones</h2>"),
        "{first}"
    );
    assert_eq!(rows(&first), 100);
    assert!(
        first.contains("href=\"/?zone=z000.example.\">z000.example.</a>"),
        "{first}"
    );
    assert!(
        first.contains("<td class=\"zone-state down\">not ready</td>"),
        "{first}"
    );
    let row = "<td class=\"zone-state fine\">current</td><td class=\"serial\">1</td><td>no</td><td>file</td><td>1</td>";
    assert!(first.contains(row), "{first}");
    assert!(
        first.contains("Next page") && !first.contains("Previous page"),
        "{first}"
    );
    let second = page("&after=z098.example.");
    assert_eq!(rows(&second), 6, "{second}");
    assert!(
        second.contains("Previous page") && !second.contains("Next page"),
        "{second}"
    );
    assert_eq!(rows(&page("&before=z098.example.")), 99);
    let found = page("Z10");
    assert!(
        found.contains("<h2>5 of 106 zones</h2>") && rows(&found) == 5,
        "{found}"
    );
    let down = page("&state=down");
    assert!(
        down.contains("<h2>1 of 106 zones</h2>") && down.contains("bad.example."),
        "{down}"
    );
    let none = page("%3Cscript%3E");
    assert!(
        none.contains("No zone matches.") && !none.contains("<script>"),
        "{none}"
    );
}

#[test]
fn a_zone_has_a_page_with_its_state_and_recent_queries() {
    let server = TestServer::start(
        "[server]\nnsid = \"ns7\"\n",
        &[
            ("one.example", &zone("www")),
            ("two.example", &zone("www")),
            ("child.one.example", &zone("www")),
        ],
    );
    for name in [
        "www.one.example",
        "none.one.example",
        "www.two.example",
        "www.child.one.example",
    ] {
        rcode(server.address(), name);
    }
    // A worker counts a query after its answer was sent.
    let read = || get(server.web(), "/?zone=ONE.example");
    let has_all =
        |page: &String| page.contains("of 4 in the ring") && page.contains("of 1 in the ring");
    let page = eventually(read, has_all);
    assert!(page.starts_with("HTTP/1.0 200 "), "{page}");
    for wanted in [
        "<title>All is well – one.example. – Nameward ",
        "<th scope=\"row\">Serial</th><td class=\"entry\">1</td>",
        "<th scope=\"row\">Signed</th><td class=\"entry\">no</td>",
        "<th scope=\"row\">State</th><td class=\"entry zone-state fine\">current</td>",
        "<th scope=\"row\">Kind</th><td class=\"entry\">file</td>",
        "<th scope=\"row\">Backend</th><td class=\"entry\">1 (file, ",
        "<td class=\"entry\">www.one.example/A</td><td class=\"count\">1</td>",
        "This zone: 50.0% of 4 in the ring</td><td class=\"count\">2</td>",
        "This zone: 100.0% of 1 in the ring</td><td class=\"count\">1</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    // Neither another zone nor a child zone counts.
    assert!(
        !page.contains("two.example") && !page.contains("child.one"),
        "{page}"
    );
    for none in ["three.example", "a..b", "www.one.example", "<b>"] {
        let reply = get(server.web(), &format!("/?zone={none}"));
        assert!(reply.starts_with("HTTP/1.0 404 "), "{none}: {reply}");
        assert!(reply.contains("This server does not serve a zone "));
        assert!(!reply.contains("<b>"), "{reply}");
    }
    // A fragment of a name leads to the zones that contain it.
    let reply = get(server.web(), "/?zone=one");
    assert!(reply.starts_with("HTTP/1.0 404 "), "{reply}");
    assert!(
        reply.contains("href=\"/?zone=child.one.example.\""),
        "{reply}"
    );
}

#[test]
fn the_page_of_a_zone_shows_the_error_of_its_file() {
    let zones = [
        ("one.example", &zone("www")[..]),
        ("bad.example", "@ SOA broken\n"),
    ];
    let server = TestServer::start("", &zones);
    let page = get(server.web(), "/?zone=bad.example");
    for wanted in [
        "<td class=\"entry zone-state down\">not ready</td>",
        "<th scope=\"row\">Last error</th><td class=\"entry\">",
        "bad.example.zone:1:",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    // The faults are folded on all pages but the status page.
    assert!(
        page.contains("<details class=\"state bad\"><summary class=\"headline\"><strong>Fault: "),
        "{page}"
    );
    let status = get(server.web(), "/");
    assert!(status.contains("<section class=\"state bad\""), "{status}");
    assert!(
        status.contains("<code>nameward check</code> lists every error."),
        "{status}"
    );
}

#[test]
fn a_command_for_another_configuration_does_not_reach_this_server() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let other = server.dir().join("other.toml");
    fs::write(&other, "[server]\nlisten = [\"127.0.0.1:0\"]\n").unwrap();
    let other = other.to_str().unwrap();
    for command in ["stop", "reload", "status"] {
        let output = server.command(&[command, "--config", other]);
        assert_eq!(output.status.code(), Some(3), "{command}: {output:?}");
        let error = stderr(&output);
        assert!(
            error.contains("no server is running with ") && error.contains("other.toml"),
            "{error}"
        );
        assert!(error.contains(&config_of(&server)), "{error}");
    }
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    // It is reached with its own configuration, by any path of the file.
    let own = config_of(&server);
    let link = server.dir().join("link.toml");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    for path in [&own, link.to_str().unwrap()] {
        let output = server.command(&["status", "--config", path]);
        assert!(output.status.success(), "{output:?}");
    }
    let output = server.command(&["stop", "--config", &own]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn stop_returns_when_the_server_has_ended() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let output = server.command(&["stop"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), "stopped\n");
    let dir = server.dir().to_path_buf();
    assert!(!dir.join("control.sock").exists(), "it is gone already");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn each_kind_of_error_has_its_exit_code() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    for (arguments, code, kind) in [
        (&["zone", "show", "none.example"][..], 4, "not_found"),
        (&["stats", "no-such-counter"], 4, "not_found"),
        (
            &["zone", "create", "one.example", "--ns", "a.b"],
            5,
            "conflict",
        ),
        (&["zone", "show", "a..b.test"], 6, "invalid"),
        (&["cache", "flush", "a..b.test"], 6, "invalid"),
        (&["zone", "delete", "one.example"], 7, "refused"),
        (
            &[
                "zone",
                "create",
                "two.example",
                "--kind",
                "secondary",
                "--primary",
                "192.0.2.1",
            ],
            7,
            "refused",
        ),
        (&["status", "--control", "/nonexistent"], 3, "not_running"),
    ] {
        let output = server.command(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        assert_eq!(stdout(&output), "", "{arguments:?}");
        let with_json = [arguments, &["--json"]].concat();
        let output = server.command(&with_json);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        let error = stderr(&output);
        let start = format!("{{\"error\":{{\"kind\":\"{kind}\",\"message\":\"");
        assert!(error.starts_with(&start), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn every_command_that_prints_data_prints_json() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    for (arguments, expected) in [
        (&["reload"][..], "{\"result\":\"reloaded\",\"summary\":"),
        (
            &["stats", "udp-queries"],
            "{\"result\":\"counters\",\"counters\":[{\"name\":\"udp-queries\",\"value\":0}]}\n",
        ),
        (
            &["cache", "flush"],
            "{\"result\":\"flushed\",\"entries\":0}\n",
        ),
        (
            &["zone", "list"],
            "{\"name\":\"one.example.\",\"kind\":\"file\",\"backend\":1,\"serial\":1,\"state\":\"current\",\"signing\":\"no\"}\n",
        ),
        (
            &["version"],
            concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}\n"),
        ),
        (&["config"], "[{"),
        (&["check"], "{\"good\":1,\"refused\":0,\"warnings\":0}\n"),
    ] {
        let output = server.command(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = stdout(&output);
        assert!(text.starts_with(expected), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    for command in ["manual", "serve"] {
        let output = server.command(&[command, "--json"]);
        assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
    }
}

#[test]
fn silent_clients_do_not_prevent_a_stop() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let socket = server.dir().join("control.sock");
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let mut half = UnixStream::connect(&socket).unwrap();
    half.write_all(b"{\"request\":").unwrap();
    let output = server.command(&["stop"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.wait().code(), Some(0));
    let mut reply = String::new();
    let _ = half.read_to_string(&mut reply);
    assert_eq!(reply, "");
    drop(silent);
}
