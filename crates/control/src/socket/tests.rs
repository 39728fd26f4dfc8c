//! The control socket with well-behaved and hostile clients, and with other files at its path.

use nameward_base::sync::{Condvar, Mutex};
use std::{
    io::{Read, Write},
    os::unix::fs::symlink,
    sync::{Arc, Barrier},
    thread,
};

use tokio::sync::watch;

use super::serve::{CONNECTIONS_MAX, RUNNING_MAX, WAITING_MAX};
use super::*;
use crate::operations::{
    ControlRequest, ErrorKind, ItemSink, ListedItem, ListedKind, ListedZone, OperationError,
    OperationRequest, OperationResult,
};

/// Behaves as the name of the zone says: `wait` waits until it is released.
#[derive(Default)]
struct ScriptedCommands {
    waiting: Mutex<usize>,
    has_changed: Condvar,
}

const RELEASED: usize = usize::MAX;

impl ScriptedCommands {
    fn wait(&self) {
        let mut waiting = self.waiting.lock();
        if *waiting != RELEASED {
            *waiting += 1;
        }
        self.has_changed.notify_all();
        while *waiting != RELEASED {
            waiting = self.has_changed.wait(waiting);
        }
    }

    /// Returns when this many commands run.
    fn await_running(&self, number: usize) {
        let mut waiting = self.waiting.lock();
        while *waiting < number {
            waiting = self.has_changed.wait(waiting);
        }
    }

    fn release(&self) {
        *self.waiting.lock() = RELEASED;
        self.has_changed.notify_all();
    }
}

fn listed(number: u32) -> ListedItem {
    ListedItem::Zone(ListedZone {
        name: "x".repeat(100),
        kind: ListedKind::File,
        backend: number,
        serial: None,
        state: "current".into(),
        signing: "no".into(),
    })
}

impl Commands for ScriptedCommands {
    fn run(
        &self,
        request: &ControlRequest,
        _: ControlPeer,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        let done = |zone: &str| OperationResult::NoChange { zone: zone.into() };
        match &request.request {
            OperationRequest::ZoneShow { zone } => match zone.as_str() {
                "fail" => Err(OperationError::conflict("it failed")),
                "panic" => panic!("asked to"),
                "wait" => {
                    self.wait();
                    Ok(done("waited"))
                }
                zone => Ok(done(zone)),
            },
            OperationRequest::RecordList { zone, .. } => {
                let number = zone.parse().unwrap();
                for i in 0..number {
                    if !items(listed(i)) {
                        panic!("the client is there");
                    }
                }
                match number {
                    7 => Err(OperationError::backend("broken in the midst")),
                    _ => Ok(OperationResult::Listed {
                        items: number.into(),
                    }),
                }
            }
            OperationRequest::Reload { .. } | OperationRequest::Status => Ok(done("urgent")),
            OperationRequest::Stop => Ok(done("stop")),
            _ => Err(OperationError::refused("not here")),
        }
    }
}

/// Runs `client` against a serving socket and then stops the server.
fn with_server(client: impl FnOnce(&Path, &Arc<ScriptedCommands>)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let socket = ControlSocket::bind(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (stop, shutdown) = watch::channel(false);
    let commands = Arc::new(ScriptedCommands::default());
    let serving = runtime.spawn(socket.serve(commands.clone(), shutdown));
    client(&path, &commands);
    stop.send(true).unwrap();
    runtime.block_on(serving).unwrap().unwrap();
    assert!(!path.exists(), "the socket's file goes with it");
}

fn of(request: OperationRequest) -> ControlRequest {
    ControlRequest {
        message: None,
        config: None,
        request,
    }
}

fn show(path: &Path, zone: &str) -> Result<OperationResult, ControlError> {
    let request = of(OperationRequest::ZoneShow { zone: zone.into() });
    send_request(path, &request, &mut |_| {})
}

fn list(path: &Path, number: usize) -> (Vec<ListedItem>, Result<OperationResult, ControlError>) {
    let request = of(OperationRequest::RecordList {
        zone: number.to_string(),
        name: None,
        rtype: None,
    });
    let mut items = Vec::new();
    let result = send_request(path, &request, &mut |item| items.push(item));
    (items, result)
}

/// Sends octets and returns the reply.
fn send(path: &Path, octets: &[u8]) -> String {
    let mut stream = BlockingStream::connect(path).unwrap();
    stream.write_all(octets).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn a_request_is_answered_with_one_line() {
    with_server(|path, _| {
        let expected = OperationResult::NoChange {
            zone: "hello".into(),
        };
        assert_eq!(show(path, "hello").unwrap(), expected);
        let request = br#"{"request":{"operation":"zone_show","zone":"hello"}}"#;
        assert_eq!(
            send(path, &[&request[..], b"\n"].concat()),
            "{\"done\":{\"result\":\"no_change\",\"zone\":\"hello\"}}\n"
        );
    });
}

#[test]
fn a_failure_is_an_error_for_the_client() {
    with_server(|path, _| {
        let error = show(path, "fail").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.to_string(), "it failed");
        assert_eq!(show(path, "panic").unwrap_err().kind(), ErrorKind::Internal);
        assert!(show(path, "still there?").is_ok());
    });
}

#[test]
fn a_long_listing_is_complete_or_fails() {
    with_server(|path, _| {
        // More than any buffer on the path, and more than the former limit of 16 MiB.
        let number = 150_000;
        let (items, result) = list(path, number);
        assert_eq!(items.len(), number);
        assert_eq!(items.last(), Some(&listed(number as u32 - 1)));
        assert_eq!(
            result.unwrap(),
            OperationResult::Listed {
                items: number as u64
            }
        );
        let (items, result) = list(path, 7);
        assert_eq!(items.len(), 7);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Backend);
    });
}

#[test]
fn a_reply_without_its_last_line_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let cutting = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let line = r#"{"item":{"zone":{"name":"a.","kind":"file","backend":1}}}"#;
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream
            .write_all(format!("{line}\n{line}").as_bytes())
            .unwrap();
    });
    let (items, result) = list(&path, 2);
    assert_eq!(items.len(), 1);
    assert!(matches!(result, Err(ControlError::Cut)), "{result:?}");
    cutting.join().unwrap();
}

#[test]
fn waiting_commands_do_not_block_status_stop_and_reload() {
    with_server(|path, commands| {
        let full = RUNNING_MAX + WAITING_MAX;
        let started = Arc::new(Barrier::new(full + 1));
        let waiting: Vec<_> = (0..full)
            .map(|_| {
                let (path, started) = (path.to_path_buf(), Arc::clone(&started));
                thread::spawn(move || {
                    started.wait();
                    show(&path, "wait")
                })
            })
            .collect();
        started.wait();
        commands.await_running(RUNNING_MAX);
        for _ in 0..3 {
            for request in [
                OperationRequest::Status,
                OperationRequest::Reload {
                    withdraw_missing: false,
                },
                OperationRequest::Stop,
            ] {
                assert!(send_request(path, &of(request), &mut |_| {}).is_ok());
            }
        }
        // The waiting commands have older connections than this one, but may not have been read yet.
        let error = loop {
            let mut one = BlockingStream::connect(path).unwrap();
            one.set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            one.write_all(b"{\"request\":{\"operation\":\"zone_list\"}}\n")
                .unwrap();
            let mut reply = String::new();
            let _ = one.read_to_string(&mut reply);
            if !reply.is_empty() {
                break reply;
            }
        };
        assert!(error.contains("\"refused\""), "{error}");
        commands.release();
        let done = waiting.into_iter().map(|one| one.join().unwrap());
        let results: Vec<_> = done.collect();
        let is_served = |result: &&Result<OperationResult, ControlError>| result.is_ok();
        assert!(results.iter().filter(is_served).count() >= RUNNING_MAX);
        assert!(show(path, "hello").is_ok());
    });
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    with_server(|path, _| {
        let long = "x".repeat(REQUEST_MAX as usize);
        let error = show(path, &long).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::Invalid | ErrorKind::Internal
        ));
        assert!(show(path, "short").is_ok());
    });
}

#[test]
fn malformed_requests_are_refused() {
    with_server(|path, _| {
        let deep = "[".repeat(100_000);
        for wrong in [
            &b"\xff\xfe\n"[..],
            b"zone list\n",
            b"{}\n",
            b"{\"request\":{\"operation\":\"none\"}}\n",
            deep.as_bytes(),
        ] {
            let reply = send(path, &[wrong, b"\n"].concat());
            assert!(
                reply.starts_with("{\"failed\":{\"kind\":\"invalid\""),
                "{reply}"
            );
        }
    });
}

#[test]
fn idle_connections_do_not_block_others() {
    with_server(|path, _| {
        let pending: Vec<_> = (0..CONNECTIONS_MAX - 1)
            .map(|_| BlockingStream::connect(path).unwrap())
            .collect();
        assert!(show(path, "hello").is_ok());
        drop(pending);
    });
}

#[test]
fn idle_clients_are_closed_for_commands() {
    const ROUNDS: usize = 6;
    with_server(|path, _| {
        let started = std::time::Instant::now();
        let pending: Vec<_> = (0..ROUNDS * CONNECTIONS_MAX)
            .map(|_| BlockingStream::connect(path).unwrap())
            .collect();
        assert!(show(path, "hello").is_ok());
        // If each client were waited for until its timeout, the command would wait for all rounds.
        let rounds = started.elapsed().as_secs_f64() / CLIENT_TIMEOUT.as_secs_f64();
        assert!(rounds < (ROUNDS - 1) as f64, "{rounds} rounds");
        drop(pending);
    });
}

#[test]
fn only_the_owner_can_open_the_socket() {
    with_server(|path, _| {
        let mode = fs::symlink_metadata(path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}

#[test]
fn a_socket_that_is_answered_is_not_taken_over() {
    with_server(|path, _| {
        let error = ControlSocket::bind(path).unwrap_err();
        assert!(matches!(error, SocketError::Taken(_)), "{error}");
        assert!(show(path, "hello").is_ok());
    });
}

#[test]
fn a_socket_without_a_server_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    ControlSocket::bind(&path).unwrap();
}

#[test]
fn a_file_or_link_at_the_path_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = dir.path().join("control.sock");
    symlink(&victim, &link).unwrap();
    for path in [&victim, &link] {
        let error = ControlSocket::bind(path).unwrap_err();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_directory_others_may_write_to_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let private = dir.path().join("private");
    make_private_directory(&private).unwrap();
    make_private_directory(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(make_private_directory(&private).is_err());
    let link = dir.path().join("link");
    symlink(dir.path(), &link).unwrap();
    assert!(make_private_directory(&link).is_err());
}

#[test]
fn without_a_server_the_client_reports_it() {
    let error = show(Path::new("/nonexistent/control.sock"), "hello").unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot connect to the control socket"),
        "{text}"
    );
}
