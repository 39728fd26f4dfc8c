//! The log, the query log and dnstap of a whole server.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use nameward_testkit::{Setup, TestServer, require};

use super::ask::{eventually, rcode, zone};

const LONG: Duration = Duration::from_secs(60);

fn said(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_level_of_the_log_is_shown_and_changed_while_the_server_runs() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    assert_eq!(said(&server, &["log-level"]), "info\n");
    assert_eq!(said(&server, &["log-level", "error"]), "error\n");
    let before = server.log();
    assert!(before.contains("log level set to error via control socket"));
    said(&server, &["reload"]);
    assert_eq!(server.log(), before, "a reload is logged at level info");
    assert_eq!(said(&server, &["log-level", "debug"]), "debug\n");
    assert_eq!(said(&server, &["log-level"]), "debug\n");
    assert!(
        server.log().contains("log level is debug\n"),
        "{}",
        server.log()
    );
    assert_eq!(
        server.command(&["log-level", "loud"]).status.code(),
        Some(2)
    );
}

#[test]
fn lines_of_the_log_are_json_or_have_the_level_before_them() {
    let bad = "@ SOA broken\n";
    let zones = [("one.example", &*zone("www")), ("bad.example", bad)];
    let server = TestServer::start("[log]\nformat = \"json\"\n", &zones);
    let log = server.log();
    let lines = log.lines().map(|line| {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
        (line["level"].clone(), line["message"].clone())
    });
    let lines: Vec<_> = lines.collect();
    let expected = ("info".into(), "zone one.example: loaded serial 1".into());
    assert!(lines.contains(&expected), "{log}");
    assert!(lines.iter().any(|(level, _)| level == "error"), "{log}");
    let server = TestServer::start("[log]\nformat = \"journald\"\n", &zones);
    let log = server.log();
    assert!(
        log.contains("<6>zone one.example: loaded serial 1\n"),
        "{log}"
    );
    assert!(
        log.contains("<3>zone bad.example.: not loaded due to errors: "),
        "{log}"
    );
    assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
}

#[test]
fn answers_are_logged_as_requested() {
    let setup = Setup::new();
    let file = setup.dir().join("queries.log");
    let config = format!("[query_log]\nfile = \"{}\"\n", file.display());
    let server = setup
        .config(&config)
        .zone("one.example", &zone("www"))
        .zone("two.example", &zone("www"))
        .start();
    assert_eq!(rcode(server.address(), "www.two.example"), 0);
    let text = said(
        &server,
        &[
            "query-log",
            "on",
            "--zone",
            "ONE.example",
            "--client",
            "127.0.0.0/8",
        ],
    );
    for line in [
        "query log      on",
        "zones          ONE.example.",
        "clients        127.0.0.0/8",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(rcode(server.address(), "www.two.example"), 0);
    assert_eq!(rcode(server.address(), "none.one.example"), 3);
    let read = || fs::read_to_string(&file).unwrap_or_default();
    let expected = "query none.one.example. A from 127.0.0.1 port ";
    eventually(read, |text| text.contains(expected));
    assert!(read().contains(" over udp: NXDOMAIN, "), "{}", read());
    assert_eq!(read().lines().count(), 1, "{}", read());
    // A file that was renamed is created again.
    fs::rename(&file, server.dir().join("queries.old")).unwrap();
    let ask_and_read = || {
        assert_eq!(rcode(server.address_v6(), "www.one.example"), 0);
        assert_eq!(rcode(server.address(), "www.one.example"), 0);
        read()
    };
    let expected = "query www.one.example. A from 127.0.0.1 ";
    let text = eventually(ask_and_read, |text| text.contains(expected));
    assert!(text.contains(expected), "{text}");
    assert!(!read().contains("from ::1"), "{}", read());
    assert!(said(&server, &["query-log", "off"]).starts_with("query log      off\n"));
    assert_eq!(rcode(server.address(), "ns.one.example"), 0);
    let status = said(&server, &["query-log", "status", "--json"]);
    assert!(
        status.contains("\"is_on\":false") && status.contains("\"dropped\":0"),
        "{status}"
    );
    for wrong in [
        &["query-log", "on", "--client", "nobody"][..],
        &["query-log", "on", "--zone", "a..b.test"],
    ] {
        let output = server.command(wrong);
        assert!(!output.status.success(), "{output:?}");
    }
    assert!(!read().contains("ns.one.example"), "{}", read());
}

/// The reading end of Frame Streams: passes on each data frame, and whether the other end sent STOP.
fn collect(mut stream: UnixStream, frames: &mpsc::Sender<Vec<u8>>) -> bool {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let content = b"\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    loop {
        let Some(frame) = read_frame(&mut stream) else {
            return false;
        };
        if !frame.is_empty() {
            frames.send(frame).unwrap();
            continue;
        }
        let control = read_frame(&mut stream).unwrap();
        let reply = match control[3] {
            4 => [&[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 1][..], content].concat(),
            3 => [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5].to_vec(),
            _ => continue,
        };
        stream.write_all(&reply).unwrap();
        if control[3] == 3 {
            return true;
        }
    }
}

fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

/// Sends a query for `www.one.example` A over TCP, and reads the reply.
fn ask_over_tcp(server: &TestServer) {
    let query = b"\0\x21\x77\x77\0\0\0\x01\0\0\0\0\0\0\x03www\x03one\x07example\0\0\x01\0\x01";
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(query).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
}

#[test]
fn a_collector_of_dnstap_gets_requests_and_replies_that_other_tools_can_read() {
    let setup = Setup::new();
    let socket = setup.dir().join("tap.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (sender, frames) = mpsc::channel();
    let collector = thread::spawn(move || collect(listener.accept().unwrap().0, &sender));
    let config = format!(
        "[server]\nnsid = \"ns7\"\n[dnstap]\nsocket = \"{}\"\n",
        socket.display()
    );
    let server = setup
        .config(&config)
        .zone("one.example", &zone("www"))
        .start();
    // Messages before the collector's handshake are dropped.
    let ask_and_wait = || {
        assert_eq!(rcode(server.address(), "early.one.example"), 3);
        frames.recv_timeout(Duration::from_millis(100)).is_ok()
    };
    assert!(eventually(ask_and_wait, |has_come| *has_come));
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    ask_over_tcp(&server);
    let dnstap = || {
        let status = server.command(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["dnstap"].clone()
    };
    // A frame may arrive before the server has counted it.
    let is_counted = |dnstap: &serde_json::Value| dnstap["sent"].as_u64() > Some(0);
    assert!(is_counted(&eventually(dnstap, is_counted)));
    assert_eq!(dnstap()["is_connected"], true);
    assert_eq!(dnstap()["socket"], socket.display().to_string());
    let said = server.command(&["status"]).stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("dnstap         sending to "), "{said}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.fstrm");
    // The end of the server takes leave of the collector, which then has everything.
    assert!(server.stop().success());
    assert!(collector.join().unwrap(), "the server took leave");
    let content = b"\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    let mut stream = [&[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 2][..], content].concat();
    let mut number = 0;
    for frame in frames.iter() {
        stream.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        stream.extend_from_slice(&frame);
        number += 1;
    }
    stream.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3]);
    assert!(number >= 4, "{number} frames");
    fs::write(&file, stream).unwrap();
    let read = Command::new("dnstap-read").arg("-y").arg(&file).output();
    let Some(read) = require(read.ok(), "dnstap-read (bind9-utils)") else {
        return;
    };
    let text = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{read:?}");
    for wanted in [
        "type: AUTH_QUERY",
        "type: AUTH_RESPONSE",
        "identity: ns7",
        "socket_protocol: UDP",
        "socket_protocol: TCP",
        "www.one.example. IN A",
        "192.0.2.2",
        "status: NOERROR",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}
