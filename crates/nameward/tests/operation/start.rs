//! Starting: what is printed, what stops it, and what does not.

use std::{
    fs,
    io::{BufRead, Write},
    net::UdpSocket,
    os::unix::fs::OpenOptionsExt,
    process::Command,
};

use nameward_testkit::{Setup, TestServer};

use super::ask::{eventually, get, rcode, zone};

#[test]
fn the_built_in_example_answers_and_prints_its_address() {
    // Not through a configuration file, which would not be the example.
    let mut child = Command::new(nameward_testkit::server::binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"])
        .env("RUNTIME_DIRECTORY", "/nonexistent")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let said: Vec<String> = lines.by_ref().take(5).map(Result::unwrap).collect();
    let address = said[1].split(' ').nth(2).unwrap().parse().unwrap();
    let answered = rcode(address, "www.demo.example");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answered, 0);
    assert!(said[0].starts_with("Nameward "), "{said:?}");
    assert!(
        said[2].starts_with("web page at http://127.0.0.1:"),
        "{said:?}"
    );
    assert_eq!(said[3], "ready: 1 zone");
    assert!(said[4].starts_with("try: dig @127.0.0.1 -p "), "{said:?}");
    assert!(said[4].ends_with(" www.demo.example A"), "{said:?}");
}

#[test]
fn zones_of_a_directory_and_of_the_command_line_are_served() {
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), zone("www")).unwrap();
    let server = Setup::new()
        .zone("one.example", &zone("www"))
        .argument("--zone")
        .argument(format!("two.example={}", elsewhere.path().display()))
        .start();
    for address in [server.address(), server.address_v6()] {
        assert_eq!(rcode(address, "www.one.example"), 0);
        assert_eq!(rcode(address, "WWW.two.example"), 0);
        assert_eq!(rcode(address, "nope.two.example"), 3);
        assert_eq!(rcode(address, "three.example"), 5);
    }
}

#[test]
fn a_port_in_use_is_one_line_and_an_exit_code() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let Err(failure) = Setup::new().listen(&[&address]).try_start() else {
        panic!("it started on a port that is in use");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    let last = failure.stderr.lines().last().unwrap();
    let expected = format!("nameward: cannot listen on {address}/udp: address already in use");
    assert!(last.starts_with(&expected), "{last}");
}

#[test]
fn a_second_server_on_the_same_port_does_not_start() {
    let first = TestServer::start("", &[("one.example", &zone("www"))]);
    let address = first.address().to_string();
    assert!(Setup::new().listen(&[&address]).try_start().is_err());
    assert_eq!(rcode(first.address(), "www.one.example"), 0);
}

#[test]
fn a_web_port_in_use_is_one_line_and_an_exit_code() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup = Setup::new()
        .without_web()
        .argument("--web")
        .argument(&address);
    let Err(failure) = setup.try_start() else {
        panic!("it started on a port that is in use");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    let last = failure.stderr.lines().last().unwrap();
    assert!(
        last.contains(&format!("cannot listen on {address} for the web page")),
        "{last}"
    );
}

#[test]
fn a_zone_file_that_cannot_be_read_stops_the_start() {
    let setup = Setup::new()
        .argument("--zone")
        .argument("one.example=/nonexistent/zone");
    let Err(failure) = setup.try_start() else {
        panic!("it started without its zone");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    assert_eq!(
        failure.stderr,
        "nameward: cannot read /nonexistent/zone: No such file or directory\n"
    );
}

#[test]
fn a_server_that_can_serve_none_of_its_zones_does_not_start() {
    let broken = zone("www").replace("192.0.2.2", "here");
    let Err(failure) = Setup::new().zone("bad.example", &broken).try_start() else {
        panic!("it started without a zone");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    let last = failure.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("nameward: no zone can be served: "),
        "{last}"
    );
    assert!(last.contains("bad.example.zone:5:"), "{last}");
}

#[test]
fn one_broken_zone_does_not_prevent_the_start() {
    let broken = zone("www").replace("192.0.2.2", "here");
    let server = TestServer::start(
        "",
        &[("bad.example", &broken), ("good.example", &zone("www"))],
    );
    assert_eq!(rcode(server.address(), "www.good.example"), 0);
    assert_eq!(rcode(server.address(), "www.bad.example"), 2);
    assert!(
        server.log().contains("bad.example.zone:5:"),
        "{}",
        server.log()
    );
}

#[test]
fn settings_reach_the_answers() {
    let config = "[server]\nudp_payload_max = 1400\nworkers = 3\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    let count = || {
        let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let names =
            threads.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("udp-")).count()
    };
    // A thread has its name a moment after it was started.
    assert_eq!(eventually(count, |count| *count == 3), 3);
}

#[test]
fn counters_can_be_read_over_the_control_socket() {
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    rcode(server.address(), "www.one.example");
    let read = || {
        let output = server.command(&["stats", "udp4-queries", "zone-cache-*"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = eventually(read, |text| text.contains("udp4-queries 1\n"));
    assert!(text.contains("udp4-queries 1\n"), "{text}");
    assert!(text.contains("zone-cache-size 1\n"), "{text}");
    let output = server.command(&["stats", "no-such-counter"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn the_process_id_file_is_written_and_removed() {
    let server = Setup::new()
        .config("[server]\npid_file = \"nameward.pid\"\n")
        .start();
    let path = server.dir().join("nameward.pid");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("{}\n", server.pid()));
    server.command(&["stop"]);
    let gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !path.exists()
    });
    assert!(gone, "the file goes with the server");
}

#[test]
fn the_status_page_shows_queries_and_log_lines_of_this_server() {
    let server = TestServer::start(
        "[rings]\nnxdomain-queries = 7\n",
        &[("one.example", &zone("www"))],
    );
    rcode(server.address(), "nOpe.one.example");
    let page = eventually(
        || get(server.web(), "/"),
        |page| page.contains("nOpe.one.example/A"),
    );
    assert!(page.starts_with("HTTP/1.0 200 "), "{page}");
    assert!(page.contains("nOpe.one.example/A"), "{page}");
    assert!(page.contains("1 zone loaded, 0 unchanged"), "{page}");
    assert!(get(server.web(), "/readyz").ends_with("ready\n"));
    let output = server.command(&["stats", "ring-nxdomain-queries-*"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "ring-nxdomain-queries-capacity 7\nring-nxdomain-queries-size 1\n"
    );
}

#[test]
fn the_web_password_and_access_list_are_configured() {
    let config = "[web]\npassword = \"secret\"\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    assert!(get(server.web(), "/").starts_with("HTTP/1.0 401 "));
    let config = "[web]\nallow_from = [\"192.0.2.0/24\"]\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    let mut stream = std::net::TcpStream::connect(server.web()).unwrap();
    let mut reply = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut reply);
    assert!(reply.is_empty(), "others are closed without an answer");
}

#[test]
fn a_password_hash_that_cannot_be_used_stops_the_start() {
    let setup = Setup::new().config("[web]\npassword = \"$scrypt$nonsense\"\n");
    let Err(failure) = setup.try_start() else {
        panic!("it started with a password nobody can give");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    assert!(
        failure
            .stderr
            .contains("web.password: invalid password hash"),
        "{}",
        failure.stderr
    );
}

#[test]
fn the_service_manager_is_notified_of_start_reload_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .unwrap();
    let server = Setup::new()
        .zone("one.example", &zone("www"))
        .environment("NOTIFY_SOCKET", &path)
        .start();
    let next_message = || {
        let mut buffer = [0; 1024];
        let length = manager
            .recv(&mut buffer)
            .expect("a message for the service manager");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(next_message(), "READY=1\n");
    assert!(server.command(&["reload"]).status.success());
    let reloading = next_message();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(next_message(), "READY=1\n");
    assert_eq!(server.stop().code(), Some(0));
    assert_eq!(next_message(), "STOPPING=1\n");
}

#[test]
fn sighup_before_the_server_listens_is_a_reload_and_not_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (config, zones) = (dir.path().join("nameward.toml"), dir.path().join("zones"));
    fs::create_dir(&zones).unwrap();
    fs::write(zones.join("one.example.zone"), zone("www")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&config)
            .status()
            .unwrap()
            .success()
    );
    let mut child = Command::new(nameward_testkit::server::binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .env("RUNTIME_DIRECTORY", dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let text = "[[backend]]\ndirectory = \"zones\"\nwatch = false\n";
    // Opening waits until the server opens it too; it can do nothing before it has read this.
    let mut writer = fs::File::options().write(true).open(&config).unwrap();
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-HUP", &pid])
            .status()
            .unwrap()
            .success()
    );
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line == "ready: 1 zone");
    // The reload reads the configuration once more.
    let mut open = fs::File::options();
    open.write(true).custom_flags(libc::O_NONBLOCK);
    let again = eventually(|| open.open(&config), |opened| !ready || opened.is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready, "it ended");
    assert!(again.is_ok(), "there was no reload: {again:?}");
}
