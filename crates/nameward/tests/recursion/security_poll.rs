//! The security status: each answer that a poll can get, on the page, in the ring and in the log.

use std::time::Duration;

use nameward_testkit::wire::{Client, Transport};
use nameward_testkit::{Setup, TestServer};

use super::scripted::{Replies, ScriptedResolver, reply, text};
use crate::status::page::Page;

const NAME: &str = concat!(
    "auth-",
    env!("CARGO_PKG_VERSION"),
    ".security-status.polls.test."
);

fn start(resolver: &ScriptedResolver) -> TestServer {
    let config = format!(
        "[recursor]\naddress = \"{}\"\ntimeout_ms = 5000\n[security_poll]\nsuffix = \"polls.test\"\ninterval = 1\n",
        resolver.address
    );
    Setup::new().config(&config).start()
}

/// The page once the status is as wanted.
fn page_with(server: &TestServer, status: u64) -> Page {
    for _ in 0..1200 {
        let page = Page::read(server.web(), "/");
        if page.value("security-status") == status {
            return page;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("security-status never was {status}:\n{}", server.log());
}

fn failure(rcode: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "Failed to retrieve security status update for '{version}' on '{NAME}': RCODE was {rcode}"
    )
}

/// Waits until a failure is in the log and in the ring of the page.
fn assert_failure_is_logged(server: &TestServer, rcode: &str) {
    let message = failure(rcode);
    assert!(server.wait_for_log(&message), "{}", server.log());
    let page = Page::read(server.web(), "/?ring=logmessages&format=text");
    assert!(page.html().contains(&message), "{}", page.html());
}

#[test]
fn every_status_is_shown_and_a_failure_keeps_only_a_bad_one() {
    let resolver = ScriptedResolver::start(|query, _| vec![text(query, "1 no known problems")]);
    let server = start(&resolver);
    let page = page_with(&server, 1);
    assert!(!page.html().contains("class=\"security\""));
    resolver.change(|query, _| vec![reply(query, 5, &[])]);
    page_with(&server, 0);
    assert_failure_is_logged(&server, "Refused");

    resolver.change(|query, _| vec![text(query, "2 upgrade to 0.1.1")]);
    let page = page_with(&server, 2);
    assert!(
        page.html()
            .contains("an upgrade of this server is recommended")
    );
    assert!(server.wait_for_log("upgrade recommended: upgrade to 0.1.1"));
    resolver.change(|query, _| vec![reply(query, 3, &[])]);
    assert_failure_is_logged(&server, "Non-Existent domain");
    assert_eq!(Page::read(server.web(), "/").value("security-status"), 2);

    resolver.change(|query, _| vec![text(query, "3 upgrade now")]);
    let page = page_with(&server, 3);
    assert!(
        page.html()
            .contains("an upgrade of this server is mandatory")
    );
    assert!(server.wait_for_log("upgrade mandatory: upgrade now"));
    resolver.change(|query, _| vec![reply(query, 2, &[])]);
    assert_failure_is_logged(&server, "Server Failure");
    assert_eq!(Page::read(server.web(), "/").value("security-status"), 3);

    resolver.change(|query, _| vec![text(query, "0 nothing is known")]);
    page_with(&server, 0);
    resolver.change(|query, _| vec![text(query, "4 more than there is")]);
    assert_failure_is_logged(&server, "No Error, but there is no status in the answer");
}

#[test]
fn silence_is_logged_as_a_timeout_while_the_server_answers() {
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    let config = format!(
        "[recursor]\naddress = \"{}\"\ntimeout_ms = 6000\n[security_poll]\nsuffix = \"polls.test.\"\n",
        resolver.address
    );
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let server = Setup::new().zone("example", zone).config(&config).start();
    let client = Client::new("127.0.0.1", server.address());
    assert_eq!(
        client.ask(Transport::Udp, "ns.example", "A").answer.len(),
        1
    );
    assert!(
        !server.log().contains("Failed to retrieve"),
        "nothing waits for the poll"
    );
    assert_failure_is_logged(&server, "Timeout");
    assert_eq!(Page::read(server.web(), "/").value("security-status"), 0);
    assert!(resolver.questions() >= 1);
}

#[test]
fn nothing_is_queried_without_a_suffix() {
    let resolver = ScriptedResolver::start(|query, _| vec![text(query, "1 ok")]);
    let config = format!("[recursor]\naddress = \"{}\"\n", resolver.address);
    let server = Setup::new().config(&config).start();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(resolver.questions(), 0);
    assert_eq!(Page::read(server.web(), "/").value("security-status"), 0);
}
