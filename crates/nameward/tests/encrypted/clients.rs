//! Other servers and libraries as clients: Unbound forwards over TLS, dnsdist over TLS and HTTPS, and dnspython gets equal
//! answers on every transport. BIND 9.18 cannot forward over TLS (`tls` in `forwarders` came with 9.20).

use super::{counted, run_tool, setup};
use crate::databases::api_clients::clients;
use nameward_testkit::TestServer;
use nameward_testkit::peers::free_address;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn five_hundred_random_queries_have_the_same_answers_on_every_transport() {
    let Some(clients) = clients() else {
        return;
    };
    let server =
        setup("[server]\nlisten_tls = [\"127.0.0.1:0\"]\nlisten_https = [\"127.0.0.1:0\"]\nlisten_quic = [\"127.0.0.1:0\"]\n")
            .start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/transports.py");
    let output = Command::new(clients.join("python/bin/python3"))
        .arg(script)
        .arg(server.dir().join("authority.pem"))
        .arg(format!("udp={}", server.address()))
        .arg(format!("tcp={}", server.address()))
        .arg(format!("tls={}", server.encrypted("TLS")))
        .arg(format!("https={}", server.encrypted("HTTPS")))
        .arg(format!("quic={}", server.encrypted("QUIC")))
        .output()
        .expect("Python can be run");
    assert!(output.status.success(), "{output:?}");
    let status = String::from_utf8(server.command(&["status"]).stdout).unwrap();
    for transport in ["TLS", "HTTPS", "QUIC"] {
        let line = format!("{} ({transport})", server.encrypted(transport));
        assert!(status.contains(&line), "{line}: {status}");
    }
}

/// A resolver or proxy in front of the server, which ends with the test.
struct Frontend {
    child: Child,
    address: SocketAddr,
}

impl Frontend {
    /// Starts a program with a configuration file; `%` in it is replaced by the port of the program.
    fn start(server: &TestServer, program: &[&str], config: &str) -> Frontend {
        let address = free_address().unwrap();
        let file = server.dir().join(format!("{}.conf", program[0]));
        let config = config.replace('%', &address.port().to_string());
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(&file).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{program:?} cannot be run ({error}): run scripts/install-deps")
        });
        Frontend { child, address }
    }

    /// Asks it with dig; returns the data of the answer.
    fn ask(&self, server: &TestServer, question: &str) -> String {
        let port = self.address.port();
        let command = format!("dig +short +tries=1 +time=2 -p {port} @127.0.0.1 {question}");
        run_tool(server, &command).1
    }

    /// Waits until it returns the server's answers, for queries that it has not sent before.
    fn forwards(&self, server: &TestServer) {
        server.wait_until("the first answer", || {
            self.ask(server, "www.example.org A").contains("192.0.2.1")
        });
        for (question, expected) in [
            ("alias.example.org A", "192.0.2.1"),
            ("www.example.org AAAA", "2001:db8::1"),
            ("+tcp mail.example.org MX", "10 www.example.org."),
            ("a.wild.example.org TXT", "any"),
        ] {
            server.wait_until(question, || self.ask(server, question).contains(expected));
        }
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn unbound_forwards_over_tls() {
    let server = setup("[server]\nlisten_tls = [\"127.0.0.1:0\"]\n").start();
    let config = format!(
        "server:
  username: \"\"
  chroot: \"\"
  directory: \"{dir}\"
  pidfile: \"\"
  use-syslog: no
  do-daemonize: no
  interface: 127.0.0.1@%
  do-not-query-localhost: no
  tls-cert-bundle: \"{dir}/authority.pem\"
  module-config: \"iterator\"
  local-zone: \"example.org.\" transparent
forward-zone:
  name: \"example.org\"
  forward-tls-upstream: yes
  forward-addr: 127.0.0.1@{tls}#dns.example.org
remote-control:
  control-enable: no
",
        dir = server.dir().display(),
        tls = server.encrypted("TLS").port(),
    );
    Frontend::start(&server, &["unbound", "-c"], &config).forwards(&server);
    assert!(counted(&server, "tls-queries") >= 5);
    assert_eq!(counted(&server, "udp-queries"), 0);
}

#[test]
fn dnsdist_forwards_over_tls_and_https() {
    let listen = "listen_tls = [\"127.0.0.1:0\"]\nlisten_https = [\"127.0.0.1:0\"]\n";
    let server = setup(&format!("[server]\n{listen}")).start();
    let authority = server.dir().join("authority.pem");
    for (transport, path, queries) in [
        ("TLS", "", "tls-queries"),
        ("HTTPS", ", dohPath='/dns-query'", "https-queries"),
    ] {
        // Of dnsdist's TLS libraries, Debian builds it with OpenSSL.
        let config = format!(
            "setLocal('127.0.0.1:%')\nsetACL({{'127.0.0.0/8'}})\nnewServer({{address='{}', tls='openssl', \
             subjectName='dns.example.org', caStore='{}', validateCertificates=true, \
             checkName='www.example.org.'{path}}})\n",
            server.encrypted(transport),
            authority.display(),
        );
        let program = ["dnsdist", "--supervised", "--disable-syslog", "-C"];
        Frontend::start(&server, &program, &config).forwards(&server);
        assert!(counted(&server, queries) >= 5, "{transport}");
    }
    assert_eq!(counted(&server, "tcp-queries"), 0);
}

#[test]
fn kdig_is_answered_over_quic_and_its_padding_is_returned() {
    let server = setup("[server]\nlisten_quic = [\"127.0.0.1:0\"]\n").start();
    let port = server.encrypted("QUIC").port();
    // kdig 3.2 crashes if it has to verify the certificate over QUIC (+tls-ca); aioquic verifies it in other tests.
    let command = format!("kdig @127.0.0.1 -p {port} +quic +retry=0 www.example.org A");
    let (is_ok, text) = run_tool(&server, &command);
    assert!(is_ok && text.contains("192.0.2.1"), "{text}");
    assert!(text.contains("QUIC session (QUICv1)-(TLS1.3)"), "{text}");
    assert!(text.contains("Received 468 B"), "{text}");
    assert_eq!(counted(&server, "quic-queries"), 1);
}
