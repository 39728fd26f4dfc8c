//! The control socket against good clients, bad clients and whatever else stands in its place.

use std::os::unix::fs::symlink;

use super::*;

struct Echo;

impl Commands for Echo {
    fn run(&self, request: &str) -> Result<String, String> {
        match request {
            "fail" => Err("it failed".into()),
            "panic" => panic!("asked to"),
            other => Ok(format!("heard {other}\n")),
        }
    }
}

/// Runs `client` against a serving socket and then stops it.
fn with_server(client: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let socket = ControlSocket::bind(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (stop, shutdown) = watch::channel(false);
    let serving = runtime.spawn(socket.serve(Arc::new(Echo), shutdown));
    client(&path);
    stop.send(true).unwrap();
    runtime.block_on(serving).unwrap().unwrap();
    assert!(!path.exists(), "the socket's file goes with it");
}

#[test]
fn a_request_is_answered() {
    with_server(|path| assert_eq!(ask(path, "hello").unwrap(), "heard hello\n"));
}

#[test]
fn a_failure_is_an_error_for_the_client() {
    with_server(|path| {
        assert_eq!(ask(path, "fail").unwrap_err().to_string(), "it failed");
        assert!(ask(path, "panic").is_err());
        assert!(ask(path, "still there?").is_ok());
    });
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    with_server(|path| {
        let long = "x".repeat(REQUEST_MAX as usize);
        assert!(ask(path, &long).is_err());
        assert!(ask(path, "short").is_ok());
    });
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    with_server(|path| {
        let mut stream = BlockingStream::connect(path).unwrap();
        stream.write_all(b"\xff\xfe\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "error\nthe request is not text\n");
    });
}

#[test]
fn silent_connections_do_not_shut_others_out() {
    with_server(|path| {
        let silent: Vec<_> = (0..CONNECTIONS_MAX - 1)
            .map(|_| BlockingStream::connect(path).unwrap())
            .collect();
        assert!(ask(path, "hello").is_ok());
        drop(silent);
    });
}

#[test]
fn only_the_owner_may_open_the_socket() {
    with_server(|path| {
        let mode = fs::symlink_metadata(path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}

#[test]
fn a_socket_somebody_answers_is_not_taken_over() {
    with_server(|path| {
        let error = ControlSocket::bind(path).unwrap_err();
        assert!(matches!(error, SocketError::Taken(_)), "{error}");
        assert!(ask(path, "hello").is_ok());
    });
}

#[test]
fn a_socket_nobody_answers_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    ControlSocket::bind(&path).unwrap();
}

#[test]
fn a_file_or_link_in_its_place_is_left_alone() {
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
fn without_a_server_the_client_says_so() {
    let error = ask(Path::new("/nonexistent/control.sock"), "hello").unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("no server answers at the control socket"),
        "{text}"
    );
}
