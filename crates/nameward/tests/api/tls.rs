//! TLS of the API: real clients, renewal of the certificate while connections are open, and faults.

use super::client::{KEY, SERVER, run};
use nameward_testkit::{Setup, TestServer};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes an authority and a certificate for 127.0.0.1 and dns.example.org that is valid for this many days.
pub fn make_certificate(directory: &Path, days: u32) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        let command = command.current_dir(directory).args(arguments.split(' '));
        let output = command.output().expect("openssl is installed");
        assert!(output.status.success(), "openssl {arguments}: {output:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !directory.join("authority.pem").exists() {
        openssl(&format!(
            "req -x509 {key} -keyout authority.key -out authority.pem -subj /CN=authority -days 400"
        ));
    }
    openssl(&format!(
        "req {key} -keyout new.key -out server.csr -subj /CN=127.0.0.1"
    ));
    std::fs::write(
        directory.join("names"),
        "subjectAltName=IP:127.0.0.1,DNS:dns.example.org\n",
    )
    .unwrap();
    openssl(&format!(
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile names -out new.pem -days {days}"
    ));
    for name in ["key", "pem"] {
        let from = directory.join(format!("new.{name}"));
        std::fs::rename(from, directory.join(format!("server.{name}"))).unwrap();
    }
}

/// The settings of an API with the certificate.
pub fn settings() -> String {
    format!(
        "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n"
    )
}

fn start_with_tls(days: u32) -> TestServer {
    let setup = Setup::new().without_web();
    make_certificate(setup.dir(), days);
    setup.config(&settings()).start()
}

/// Runs curl with the authority of the test; returns its exit code and output.
fn curl(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("https://{}{SERVER}", server.api());
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--cacert"])
        .arg(server.dir().join("authority.pem"))
        .args(["-H", &format!("X-API-Key: {KEY}")])
        .args(arguments)
        .arg(url)
        .output()
        .expect("curl is installed");
    let text =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

/// The serial number of the certificate that new connections get.
fn served_certificate(server: &TestServer) -> String {
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "openssl s_client -connect {} -alpn h2,http/1.1 </dev/null 2>/dev/null | openssl x509 -noout -serial",
            server.api()
        ))
        .output()
        .expect("openssl is installed");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_speaks_http_1_and_2_over_tls_and_plain_http_is_not_answered() {
    let server = start_with_tls(300);
    for (version, expected) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let (code, output) = curl(&server, &[version, "-w", "\n%{http_version} %{http_code}"]);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.ends_with(&format!("\n{expected} 200")), "{output}");
        assert!(
            output.contains("\"daemon_type\": \"authoritative\""),
            "{output}"
        );
    }
    // The client rejects an unknown authority, so a certificate is really verified.
    let (code, _) = curl(&server, &["--cacert", "/dev/null"]);
    assert_ne!(code, Some(0));
    let mut plain = std::net::TcpStream::connect(server.api()).unwrap();
    let head = format!("GET {SERVER} HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\n\r\n");
    plain.write_all(head.as_bytes()).unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply);
    assert!(
        !String::from_utf8_lossy(&reply).contains("HTTP/"),
        "{reply:?}"
    );
}

#[test]
fn one_http_2_connection_carries_several_requests() {
    let server = start_with_tls(300);
    // Over TLS: curl 7.88 fails with error 16 when it reuses a connection with --http2-prior-knowledge, at any server.
    let other = |path: &str| format!("https://{}{SERVER}{path}", server.api());
    let (zones, config) = (other("/zones"), other("/config"));
    let format = "\n%{http_code} %{http_version} %{num_connects}\n";
    let (code, output) = curl(&server, &["--http2", "-w", format, &zones, &config]);
    assert_eq!(code, Some(0), "{output}");
    let lines: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("200 "))
        .collect();
    assert_eq!(lines, ["200 2 1", "200 2 0", "200 2 0"], "{output}");
}

#[test]
fn a_browser_logs_in_to_the_administration_over_tls_with_a_secure_cookie() {
    let setup = Setup::new().without_web();
    make_certificate(setup.dir(), 300);
    let with_admin = settings().replace("[tls]", "admin = true\n[tls]");
    let server = setup.config(&with_admin).start();
    let (origin, jar) = (
        format!("https://{}", server.api()),
        server.dir().join("cookies"),
    );
    let visit = |arguments: &[&str], path: &str| {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "30",
                "--include",
                "--cacert",
            ])
            .arg(server.dir().join("authority.pem"))
            .arg("--cookie")
            .arg(&jar)
            .arg("--cookie-jar")
            .arg(&jar)
            .args(arguments)
            .arg(format!("{origin}{path}"))
            .output()
            .expect("curl is installed");
        String::from_utf8_lossy(&output.stdout).to_ascii_lowercase()
    };
    let refused = visit(
        &["--data", "key=wrong", "-H", &format!("Origin: {origin}")],
        "/admin/login",
    );
    assert!(
        refused.contains(" 401") && !refused.contains("set-cookie"),
        "{refused}"
    );
    let form = format!("key={KEY}");
    let login = visit(
        &["--data", &form, "-H", &format!("Origin: {origin}")],
        "/admin/login",
    );
    assert!(login.contains(" 303"), "{login}");
    let cookie = login
        .lines()
        .find(|line| line.starts_with("set-cookie:"))
        .unwrap();
    for word in ["secure", "httponly", "samesite=strict"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let zones = visit(&[], "/admin/zones");
    assert!(
        zones.contains(" 200") && zones.contains("<h1>zones</h1>"),
        "{zones}"
    );
}

#[test]
fn a_renewed_certificate_is_served_open_connections_continue_and_invalid_files_are_a_fault() {
    let server = start_with_tls(300);
    let first = served_certificate(&server);
    assert!(first.starts_with("serial="), "{first}");
    // A connection that stays open while the certificate is replaced.
    let mut open = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &server.api().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let mut input = open.stdin.take().unwrap();
    let mut output = BufReader::new(open.stdout.take().unwrap());
    let mut ask = |last: bool| {
        let end = if last { "Connection: close\r\n" } else { "" };
        let head = format!("GET {SERVER} HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\n{end}\r\n");
        input.write_all(head.as_bytes()).unwrap();
        input.flush().unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let status = line.clone();
        let mut length = 0;
        loop {
            line.clear();
            output.read_line(&mut line).unwrap();
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        output.read_exact(&mut body).unwrap();
        status
    };
    assert!(ask(false).starts_with("HTTP/1.1 200"));
    make_certificate(server.dir(), 300);
    server.wait_until("the renewed certificate is served", || {
        let now = served_certificate(&server);
        now.starts_with("serial=") && now != first
    });
    assert!(ask(true).starts_with("HTTP/1.1 200"));
    drop(input);
    let _ = open.wait();
    let renewed = served_certificate(&server);
    std::fs::write(server.dir().join("server.pem"), "not a certificate\n").unwrap();
    server.wait_until("the bad file is a fault", || {
        run(&server, &["status"])
            .1
            .contains("tls_certificate: The new TLS certificate cannot be used")
    });
    assert_eq!(served_certificate(&server), renewed);
    make_certificate(server.dir(), 300);
    server.wait_until("the fault has ended", || {
        !run(&server, &["status"]).1.contains("tls_certificate")
    });
    let (code, _) = curl(&server, &[]);
    assert_eq!(code, Some(0));
}

#[test]
fn a_certificate_is_a_fault_from_two_weeks_before_it_expires() {
    let server = start_with_tls(13);
    let (_, status) = run(&server, &["status"]);
    assert!(
        status.contains("tls_certificate: TLS certificate") && status.contains("expires on"),
        "{status}"
    );
    make_certificate(server.dir(), 15);
    server.wait_until("the renewal ends the fault", || {
        !run(&server, &["status"]).1.contains("tls_certificate")
    });
}

#[test]
fn a_certificate_that_cannot_be_used_at_the_start_is_refused_with_its_file() {
    let setup = Setup::new().without_web();
    make_certificate(setup.dir(), 300);
    std::fs::write(setup.dir().join("other.key"), "nothing\n").unwrap();
    let failure = setup
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n[tls]\ncertificate = \"server.pem\"\nkey = \"other.key\"\n"
        ))
        .try_start()
        .err()
        .expect("the server does not start");
    assert!(
        failure.stderr.contains("TLS certificate: ") && failure.stderr.contains("other.key"),
        "{failure}"
    );
}
