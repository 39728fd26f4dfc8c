//! The end: by signal, by command, idle, busy, and while clients hold connections.

use std::net::TcpStream;

use nameward_testkit::TestServer;

use super::ask::{rcode, zone};

#[test]
fn sigterm_and_sigint_end_with_exit_code_0() {
    for signal in ["TERM", "INT"] {
        let server = TestServer::start("", &[("one.example", &zone("www"))]);
        assert_eq!(rcode(server.address(), "www.one.example"), 0);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn the_stop_command_ends_with_exit_code_0() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let output = server.command(&["stop"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn open_connections_do_not_prevent_shutdown() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    let idle: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    drop(idle);
}

#[test]
fn the_port_is_free_again_at_once() {
    let first = TestServer::start("", &[("one.example", &zone("www"))]);
    let address = first.address();
    assert_eq!(first.stop().code(), Some(0));
    let second = nameward_testkit::Setup::new()
        .zone("one.example", &zone("www"))
        .listen(&[&address.to_string()])
        .start();
    assert_eq!(rcode(second.address(), "www.one.example"), 0);
}
