//! The queue of zones that wait for a transfer, as the page counts it.

use std::net::TcpListener;

use nameward_testkit::{Setup, TestServer};

use super::primary::{Primary, Version};
use super::serial;

/// `xfr-queue`, as `nameward stats` prints it.
fn queue(server: &TestServer) -> u64 {
    let output = server.command(&["stats", "xfr-queue"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect::<Vec<u64>>();
    *numbers.first().unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn zones_are_in_the_queue_while_their_primary_is_waited_for() {
    // Take connections and say nothing; one for each zone, since a primary that does not answer is left alone for a while.
    let silent = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let primary = Primary::start(Version {
        serial: 1,
        times: [3600, 3600, 86_400, 60],
    });
    let setup = Setup::new().without_web();
    let zone = |name: &str, address| {
        format!(
            "[[zone]]\nname = \"{name}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{address}\" }}]\n"
        )
    };
    let waiting = ["one.test", "two.test", "three.test"];
    let silent = silent.iter().map(|listener| listener.local_addr().unwrap());
    let zones: String = waiting
        .iter()
        .zip(silent)
        .map(|(name, address)| zone(name, address))
        .collect();
    let answered = zone("example", primary.address);
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = \"state\"\n{zones}{answered}"
        ))
        .start();
    server.wait_until("the answered zone", || {
        serial(server.address(), "example") == Some(1)
    });
    server.wait_until("three zones in the queue", || {
        for name in waiting {
            server.command(&["zone", "retrieve", name]);
        }
        queue(&server) == 3
    });
    drop(server);
    // Without them nothing waits.
    let setup = Setup::new().without_web();
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = \"state\"\n{answered}"
        ))
        .start();
    server.wait_until("an empty queue", || {
        serial(server.address(), "example") == Some(1) && queue(&server) == 0
    });
}
