//! Rules of encrypted listeners: clients behind HAProxy, and addresses that answer some clients only.

use super::{run_tool, setup};
use nameward_testkit::peers::free_address;
use nameward_testkit::{TestServer, wait_until};
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Haproxy {
    /// Forwards the connections of an address without decrypting them, after a header.
    fn start(server: &TestServer, from: SocketAddr, to: SocketAddr, word: &str) -> Self {
        let config = format!(
            "defaults\n    mode tcp\n    timeout connect 10s\n    timeout client 60s\n    timeout server 60s\n\
             listen dns\n    bind {from}\n    server one {to} {word}\n"
        );
        let file = server.dir().join(format!("haproxy-{}.cfg", from.port()));
        fs::write(&file, config).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(Stdio::null()).spawn();
        Haproxy(started.expect("haproxy is installed: run scripts/install-deps"))
    }
}

/// Queries as a client with its own address; returns the output of kdig.
fn kdig(server: &TestServer, (client, at): (&str, SocketAddr), transport: &str) -> String {
    let (ip, port) = (at.ip(), at.port());
    // kdig 3.2 crashes if it has to verify the certificate over QUIC.
    let verification = match transport {
        "+quic" => "",
        _ => "+tls-ca=authority.pem +tls-hostname=dns.example.org",
    };
    let command = format!(
        "kdig -b {client} @{ip} -p {port} {transport} {verification} +retry=0 +time=10 www.example.org A"
    );
    run_tool(server, &command).1
}

#[test]
fn clients_of_haproxy_in_front_of_tls_and_https_are_known_by_their_own_addresses() {
    let server = setup(
        "[server]\nlisten_tls = [\"127.0.0.1:0\"]\nlisten_https = [\"127.0.0.1:0\"]\nproxy_protocol_from = [\"127.0.0.1\"]\n\
         [[zone]]\nname = \"example.org\"\nallow_query = [\"127.0.0.2\"]\n",
    );
    let server = server.start();
    for (name, transport) in [("TLS", "+tls"), ("HTTPS", "+https")] {
        for word in ["send-proxy-v2", "send-proxy"] {
            let (proxy, at) = (free_address().unwrap(), server.encrypted(name));
            let _haproxy = Haproxy::start(&server, proxy, at, word);
            wait_until("the proxy forwards", || {
                kdig(&server, ("127.0.0.2", proxy), transport).contains("192.0.2.1")
            });
            let refused = kdig(&server, ("127.0.0.3", proxy), transport);
            assert!(refused.contains("status: REFUSED"), "{name}: {refused}");
        }
        // A client that is not a proxy sends no header, and a proxy must.
        let at = server.encrypted(name);
        let direct = kdig(&server, ("127.0.0.2", at), transport);
        assert!(direct.contains("192.0.2.1"), "{name}: {direct}");
        let without = kdig(&server, ("127.0.0.1", at), transport);
        assert!(!without.contains("status:"), "{name}: {without}");
    }
}

#[test]
fn an_encrypted_listener_answers_its_clients_only() {
    let list = |name: &str| {
        format!("{name} = [{{ address = \"127.0.0.1:0\", allow_query = [\"127.0.0.2\"] }}]\n")
    };
    let lists = ["listen_tls", "listen_https", "listen_quic"].map(list);
    let server = setup(&format!("[server]\n{}", lists.concat())).start();
    for (name, transport) in [("TLS", "+tls"), ("HTTPS", "+https"), ("QUIC", "+quic")] {
        let ask = |client| kdig(&server, (client, server.encrypted(name)), transport);
        let (allowed, other) = (ask("127.0.0.2"), ask("127.0.0.3"));
        assert!(allowed.contains("192.0.2.1"), "{name}: {allowed}");
        assert!(other.contains("status: REFUSED"), "{name}: {other}");
    }
}

#[test]
fn settings_that_an_encrypted_listener_cannot_have_are_refused() {
    for (list, setting) in [
        ("listen_tls", "transports = [\"tcp\"]"),
        ("listen_https", "transports = [\"udp\"]"),
        ("listen_quic", "proxy_protocol_from = [\"127.0.0.1\"]"),
    ] {
        let entry = format!("[server]\n{list} = [{{ address = \"127.0.0.1:0\", {setting} }}]\n");
        let failure = setup(&entry).try_start();
        let (key, _) = setting.split_once(' ').unwrap();
        let text = format!("{:?}", failure.err());
        assert!(text.contains(key), "{list}: {text}");
    }
}
