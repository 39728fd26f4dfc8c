//! New processes that fail at every step: the running server continues, and loses nothing.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Stdio},
};

use nameward_control::operations::{ControlRequest, OperationRequest};
use nameward_testkit::{Setup, TestServer, server::binary};
use rusqlite::Connection;

use super::super::ask::{rcode, zone};
use super::super::secure::done;
use super::{change, setup, upgrade};

/// A server with a zone that can be changed.
fn changeable() -> Setup {
    setup("")
        .zone("one.example", &zone("www"))
        .zone("dyn.example", super::super::update::ZONE)
        .config("[zone_defaults]\nallow_update = [\"127.0.0.1\"]\n")
}

/// Returns the exit code and the messages of a command.
fn run(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn a_new_process_that_cannot_start_reports_it_and_the_old_one_keeps_serving() {
    let server = changeable().start();
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n[web]\nlisten = 5\n")).unwrap();
    let (code, error) = run(&server, &["upgrade"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("the running server continues: "), "{error}");
    assert!(error.contains("nameward.toml:"), "{error}");
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    // A port that another program has.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = taken.local_addr().unwrap();
    let more = text.replace(
        "listen_tls = [\"127.0.0.1:0\"]",
        &format!("listen_tls = [\"{other}\"]"),
    );
    fs::write(&path, more).unwrap();
    let (code, error) = run(&server, &["upgrade"]);
    assert_eq!(code, Some(1), "{error}");
    let wanted = format!("cannot listen on {other}/tls: address already in use");
    assert!(error.contains(&wanted), "{error}");
    // Its state store accepts changes, and it can still be replaced.
    assert_eq!(change(server.address(), 1), Some(0));
    fs::write(&path, text).unwrap();
    let _successor = upgrade(&server);
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    assert_eq!(rcode(server.address(), "n1.dyn.example"), 0);
}

/// Begins to take over, as a new process does, up to the moment when the state store is free.
fn take_store(server: &TestServer) -> UnixStream {
    let stream = UnixStream::connect(server.dir().join("control.sock")).unwrap();
    let request = ControlRequest {
        config: None,
        message: None,
        request: OperationRequest::TakeOver,
    };
    writeln!(&stream, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    let mut lines = BufReader::new(&stream).lines();
    let offer = lines.next().unwrap().unwrap();
    assert!(offer.contains("\"descriptors\""), "{offer}");
    writeln!(&stream, "load").unwrap();
    let paused = lines.next().unwrap().unwrap();
    assert!(paused.ends_with("paused"), "{paused}");
    stream
}

#[test]
fn a_new_process_that_ends_while_loading_returns_the_state_store() {
    let server = changeable().start();
    assert_eq!(change(server.address(), 1), Some(0));
    for number in 2..4 {
        let stream = take_store(&server);
        // Queries are answered from memory, and only one process takes over.
        assert_eq!(rcode(server.address(), "n1.dyn.example"), 0);
        let (code, error) = run(&server, &["upgrade"]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("an upgrade is already running"), "{error}");
        drop(stream);
        assert_eq!(change(server.address(), number), Some(0));
    }
    assert!(
        server.wait_for_log("the new process has failed"),
        "{}",
        server.log()
    );
    let status = done(&server, &["status"]);
    assert!(status.contains("faults: none"), "{status}");
    let _successor = upgrade(&server);
    for number in 1..4 {
        assert_eq!(
            rcode(server.address(), &format!("n{number}.dyn.example")),
            0
        );
    }
}

#[test]
fn a_state_store_that_a_failed_process_has_changed_is_not_written_to() {
    let server = changeable().start();
    assert_eq!(change(server.address(), 1), Some(0));
    let stream = take_store(&server);
    let store = Connection::open(server.dir().join("state/state.db")).unwrap();
    let sql = "INSERT INTO item (kind, name, value) VALUES ('test', x'00', x'00')";
    store.execute(sql, []).unwrap();
    drop(store);
    drop(stream);
    server.wait_until("the change is noticed", || {
        done(&server, &["status"]).contains("was changed by a new server that has failed since")
    });
    assert_eq!(change(server.address(), 2), Some(2), "SERVFAIL");
    assert_eq!(rcode(server.address(), "n1.dyn.example"), 0);
}

/// Returns the process that a command has started.
fn child_of(process: u32) -> Option<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(path).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_new_process_that_is_killed_while_it_loads_is_reported() {
    let server = changeable().start();
    assert_eq!(change(server.address(), 1), Some(0));
    // A database that accepts connections and never sends anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    let database = silent.local_addr().unwrap();
    let backend =
        format!("\n[[backend]]\ntype = \"postgres\"\nurl = \"postgresql://u:p@{database}/d\"\n");
    fs::write(&path, text + &backend).unwrap();
    let mut command = Command::new(binary())
        .arg("upgrade")
        .env("RUNTIME_DIRECTORY", server.dir())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_until("the new process is loading", || {
        assert!(command.try_wait().unwrap().is_none(), "it has ended");
        lock_holder(server.dir()).is_some_and(|holder| Some(holder) == child_of(command.id()))
    });
    let killed = child_of(command.id()).unwrap();
    let status = Command::new("kill")
        .args(["-9", &killed.to_string()])
        .status();
    assert!(status.unwrap().success());
    let output = command.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the running server continues"), "{error}");
    server.wait_until("changes are accepted", || {
        change(server.address(), 2) == Some(0)
    });
    assert_eq!(rcode(server.address(), "n1.dyn.example"), 0);
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
}

/// Returns the process that has locked the state store.
fn lock_holder(directory: &Path) -> Option<u32> {
    let text = fs::read_to_string(directory.join("state/state.lock")).ok()?;
    text.trim().strip_prefix("server ")?.parse().ok()
}
