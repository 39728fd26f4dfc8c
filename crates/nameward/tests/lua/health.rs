//! Health checks of LUA records: targets that fail and recover, URLs, what an operator forces, and many targets.

use std::io::{Read, Write};
use std::net::TcpListener;

use nameward_testkit::{Setup, TestServer};

use super::{ask, status_of};
use crate::operation::secure::done;

/// Answers HTTP requests on an address with one response, until the test ends.
fn web_server(address: &str, response: &'static str) -> (TcpListener, u16) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepting = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = accepting.accept() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    (listener, port)
}

const CHECKED: &str = "[lua]\nrecords = true\n[health]\ninterval = 1\n";
const APEX: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";

/// Returns the addresses in an answer.
fn addresses(server: &TestServer, name: &str) -> Vec<String> {
    let (_, answers) = ask(server.address(), "127.0.0.1", &[name, "A"]);
    let data = answers.iter().filter_map(|line| line.split(' ').nth(4));
    data.map(str::to_owned).collect()
}

#[test]
fn targets_that_fail_leave_the_answers_and_return_when_they_recover() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zone = format!(
        "{APEX}www LUA A \"ifportup({port}, {{'127.0.0.1', '127.0.0.2'}}, {{selector='all', backupSelector='all'}})\"\n\
         slow LUA A \"ifportup({port}, {{'127.0.0.2'}}, {{failOnIncompleteCheck='true'}})\"\n\
         wrong LUA A \"ifportup({port}, {{'127.0.0.2'}}, {{selektor='all'}})\"\n"
    );
    let server = Setup::new().config(CHECKED).zone("up.test", &zone).start();
    let (both, first) = (["127.0.0.1", "127.0.0.2"], ["127.0.0.1"]);
    // Nothing is known yet, so the backup decides.
    assert_eq!(addresses(&server, "www.up.test"), both);
    server.wait_until("the first checks", || {
        addresses(&server, "www.up.test") == first
    });
    assert_eq!(status_of(&server, "wrong.up.test", "A").0, "SERVFAIL");
    let list = done(&server, &["health", "list"]);
    assert!(
        list.contains(&format!("up       127.0.0.1 port {port}")),
        "{list}"
    );
    assert!(
        list.contains(&format!(
            "down     127.0.0.2 port {port} (Connection refused"
        )),
        "{list}"
    );
    server.wait_until("the fault", || done(&server, &["status"]).contains("1 of "));
    // An operator takes the last one out of service: all are down, and the backup decides.
    done(&server, &["health", "force", "127.0.0.1", "down"]);
    assert_eq!(addresses(&server, "www.up.test"), both);
    done(&server, &["health", "force", "127.0.0.1", "auto"]);
    assert_eq!(addresses(&server, "www.up.test"), first);
    assert!(
        !server
            .command(&["health", "force", "192.0.2.1", "up"])
            .status
            .success()
    );
    // The second one recovers.
    let second = TcpListener::bind(("127.0.0.2", port)).unwrap();
    server.wait_until("the recovery", || addresses(&server, "www.up.test") == both);
    assert_eq!(addresses(&server, "slow.up.test"), ["127.0.0.2"]);
    drop((listener, second));
    server.wait_until("the failure of both", || {
        done(&server, &["health", "list"]).matches("down ").count() == 2
    });
    assert_eq!(addresses(&server, "www.up.test"), both);
}

#[test]
fn urls_are_checked_by_status_text_and_weight() {
    let (_first, port) = web_server(
        "127.0.0.1:0",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n",
    );
    let second = format!("127.0.0.2:{port}");
    let (_second, _) = web_server(
        &second,
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n1\n",
    );
    let url = format!("http://www.up.test:{port}/health");
    let list = "{'127.0.0.1', '127.0.0.2'}";
    let all = "selector='all', backupSelector='all'";
    let zone = format!(
        "{APEX}ok LUA A \"ifurlup('{url}', {list}, {{{all}}})\"\n\
         lost LUA A \"ifurlup('{url}', {list}, {{{all}, httpcode='404'}})\"\n\
         text LUA A \"ifurlup('{url}', {list}, {{{all}, stringmatch='9'}})\"\n\
         groups LUA A \"ifurlup('{url}', {{{{'127.0.0.2'}}, {{'127.0.0.1'}}}}, {{{all}}})\"\n\
         self LUA A \"pickselfweighted('{url}', {list}, {{backupSelector='all'}})\"\n\
         ext LUA A \"ifurlextup({{{{['192.0.2.1']='http://127.0.0.1:{port}/', ['192.0.2.2']='http://127.0.0.2:{port}/'}}}}, {{{all}}})\"\n"
    );
    let server = Setup::new().config(CHECKED).zone("up.test", &zone).start();
    for (name, expected) in [
        ("ok", vec!["127.0.0.1"]),
        ("lost", vec!["127.0.0.2"]),
        ("groups", vec!["127.0.0.1"]),
        ("self", vec!["127.0.0.1"]),
        ("ext", vec!["192.0.2.1"]),
    ] {
        let name = format!("{name}.up.test");
        server.wait_until(&name, || addresses(&server, &name) == expected);
    }
    addresses(&server, "text.up.test");
    server.wait_until("a text that is not there", || {
        done(&server, &["health", "list"]).contains("does not contain \"9\"")
    });
    assert_eq!(
        addresses(&server, "text.up.test"),
        ["127.0.0.1", "127.0.0.2"]
    );
}

#[test]
fn thousands_of_records_are_checked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || while listener.accept().is_ok() {});
    let mut zone = APEX.to_owned();
    for number in 0..2_000 {
        let (high, low) = (number / 250, number % 250 + 1);
        zone += &format!(
            "n{number} LUA A \"ifportup({port}, {{'127.9.{high}.{low}', '127.0.0.1'}})\"\n"
        );
    }
    let config = "[lua]\nrecords = true\n[health]\ninterval = 60\n";
    let server = Setup::new().config(config).zone("many.test", &zone).start();
    let client = nameward_testkit::wire::Client::new("127.0.0.1", server.address());
    for number in 0..2_000 {
        client.ask(
            nameward_testkit::wire::Transport::Udp,
            &format!("n{number}.many.test"),
            "A",
        );
    }
    server.wait_until("all checks", || {
        let list = done(&server, &["health", "list"]);
        list.lines().count() == 2_001 && !list.contains("unknown")
    });
    for number in (0..2_000).step_by(97) {
        assert_eq!(
            addresses(&server, &format!("n{number}.many.test")),
            ["127.0.0.1"]
        );
    }
}
