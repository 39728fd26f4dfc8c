//! Reloads under constant queries: none is lost, valid versions are served, broken ones are not.

use std::fs;

use nameward_testkit::{Setup, TestServer};

use super::ask::{ConstantClient, rcode, zone};

fn output_of(server: &TestServer, arguments: &[&str]) -> (bool, String) {
    let output = server.command(arguments);
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.success(), text)
}

#[test]
fn no_query_is_lost_while_zones_change() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let client = ConstantClient::start(server.address(), "www.one.example");
    client.wait_for(100);
    for round in 0..10 {
        let text = format!("{}round{round} A 192.0.2.3\n", zone("www"));
        server.write_zone("one.example", &text);
        let (good, said) = output_of(&server, &["reload"]);
        assert!(good, "{said}");
        assert_eq!(
            rcode(server.address(), &format!("round{round}.one.example")),
            0
        );
        client.wait_for(100);
    }
    client.stop().unwrap();
}

#[test]
fn sighup_reloads_without_losing_a_query() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let client = ConstantClient::start(server.address(), "www.one.example");
    for round in 1..=5 {
        server.write_zone(
            "one.example",
            &format!("{}r{round} A 192.0.2.3\n", zone("www")),
        );
        server.signal("HUP");
        let new = format!("r{round}.one.example");
        let mut tries = 0;
        while rcode(server.address(), &new) != 0 {
            tries += 1;
            assert!(
                tries < 10_000,
                "the new version does not come: {}",
                server.log()
            );
            client.wait_for(1);
        }
    }
    client.stop().unwrap();
    assert!(server.wait_for_log("received SIGHUP: reloading"));
}

#[test]
fn a_broken_new_version_is_reported_and_the_old_one_stays() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let client = ConstantClient::start(server.address(), "www.one.example");
    server.write_zone(
        "one.example",
        &zone("www").replace("www A 192.0.2.2", "www A nowhere"),
    );
    let (good, said) = output_of(&server, &["reload"]);
    assert!(!good, "{said}");
    assert!(said.contains("1 with errors"), "{said}");
    assert!(said.contains("one.example.zone:5:7: error: "), "{said}");
    client.wait_for(100);
    client.stop().unwrap();
    assert!(
        server.log().contains("one.example.zone:5:7: error: "),
        "{}",
        server.log()
    );
    assert!(
        server
            .log()
            .contains("the previous version is still being served"),
        "{}",
        server.log()
    );
}

#[test]
fn a_new_zone_is_added_and_a_removed_one_withdrawn() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let client = ConstantClient::start(server.address(), "www.one.example");
    assert_eq!(rcode(server.address(), "www.two.example"), 5);
    server.write_zone("two.example", &zone("www"));
    assert!(output_of(&server, &["reload"]).0);
    assert_eq!(rcode(server.address(), "www.two.example"), 0);
    server.remove_zone("two.example");
    let (good, said) = output_of(&server, &["reload"]);
    assert!(good && said.contains("1 removed"), "{said}");
    assert_eq!(rcode(server.address(), "www.two.example"), 5);
    client.stop().unwrap();
}

#[test]
fn a_changed_configuration_is_applied_where_possible() {
    let server = Setup::new().zone("one.example", &zone("www")).start();
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::create_dir(server.dir().join("more")).unwrap();
    fs::write(server.dir().join("more/two.example.zone"), zone("www")).unwrap();
    let new = format!("[server]\nworkers = 7\n{text}\n[[backend]]\ndirectory = \"more\"\n");
    fs::write(&path, new).unwrap();
    let (good, said) = output_of(&server, &["reload"]);
    assert!(good, "{said}");
    assert!(
        said.contains("server.workers changed: it takes effect after a restart"),
        "{said}"
    );
    assert_eq!(rcode(server.address(), "www.two.example"), 0);
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let server = Setup::new().zone("one.example", &zone("www")).start();
    let path = server.dir().join("nameward.toml");
    fs::write(&path, "[server]\nlisten = 5\n").unwrap();
    server.write_zone("two.example", &zone("www"));
    let (good, said) = output_of(&server, &["reload"]);
    assert!(!good);
    assert!(
        said.contains("nameward.toml:2:10: listen: expected a list of addresses"),
        "{said}"
    );
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    assert_eq!(rcode(server.address(), "www.two.example"), 5);
}

#[test]
fn reloads_at_the_same_time_all_get_their_reply() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let (good, said) = output_of(&server, &["reload"]);
                assert!(good, "{said}");
            });
        }
    });
}

#[test]
fn an_emptied_configuration_takes_no_zone_away() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    let client = ConstantClient::start(server.address(), "www.one.example");
    for emptied in ["", "# nothing but a comment\n", "[server]\nworkers = 1\n"] {
        fs::write(&path, emptied).unwrap();
        let (good, said) = output_of(&server, &["reload"]);
        assert!(!good, "{said}");
        let expected =
            "nameward.toml: no [[backend]], but the running configuration has one: not applied";
        assert!(said.contains(expected), "{said}");
        assert_eq!(rcode(server.address(), "www.one.example"), 0);
    }
    fs::write(&path, text).unwrap();
    let (good, said) = output_of(&server, &["reload"]);
    assert!(good && said.contains("0 removed"), "{said}");
    client.stop().unwrap();
}
