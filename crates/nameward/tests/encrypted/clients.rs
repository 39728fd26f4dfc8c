//! Other servers and libraries as clients: Unbound forwards over TLS, and dnspython gets equal answers on every transport.

use super::{run_tool, setup};
use crate::databases::api_clients::clients;
use nameward_testkit::TestServer;
use std::path::Path;
use std::process::Command;

#[test]
fn five_hundred_random_questions_have_the_same_answers_on_every_transport() {
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

/// Unbound, which asks the server over TLS and verifies its certificate.
struct Unbound {
    child: std::process::Child,
    port: u16,
}

impl Unbound {
    fn start(server: &TestServer) -> Unbound {
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let config = format!(
            "server:
  username: \"\"
  chroot: \"\"
  directory: \"{dir}\"
  pidfile: \"\"
  use-syslog: no
  do-daemonize: no
  interface: 127.0.0.1@{port}
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
        let file = server.dir().join("unbound.conf");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("unbound")
            .arg("-c")
            .arg(&file)
            .spawn()
            .expect("unbound is installed");
        Unbound { child, port }
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn unbound_forwards_over_tls() {
    let server = setup("[server]\nlisten_tls = [\"127.0.0.1:0\"]\n").start();
    let unbound = Unbound::start(&server);
    let ask = |name: &str| {
        let command = format!(
            "dig +short +tries=1 +time=2 -p {} @127.0.0.1 {name}",
            unbound.port
        );
        run_tool(&server, &command).1
    };
    server.wait_until("unbound answers", || {
        ask("www.example.org A").contains("192.0.2.1")
    });
    assert!(ask("alias.example.org A").contains("192.0.2.1"));
    assert!(super::counted(&server, "tls-queries") >= 2);
}
