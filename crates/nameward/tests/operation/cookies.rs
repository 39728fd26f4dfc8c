//! DNS cookies with real clients and servers: dig, BIND and Knot with the same secret.

use std::{fs, process::Command};

use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions};
use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer};

use super::ask::zone;

const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const OTHER: &str = "445536bcd2513298075a5d379663c962";
const BADCOOKIE: u16 = 23;

fn server(config: &str) -> TestServer {
    let setup = Setup::new().config(config);
    setup.zone("example.org", &zone("www")).start()
}

fn dig(server: &TestServer, arguments: &[&str]) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args([
            "@127.0.0.1",
            "-p",
            &port,
            "+tries=1",
            "www.example.org",
            "A",
        ])
        .args(arguments)
        .output()
        .expect("dig runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a query with a COOKIE option.
fn query(cookie: &[u8]) -> Vec<u8> {
    let mut packet = question(7, "www.example.org", "A");
    packet.truncate(12 + 17 + 4);
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4 + cookie.len() as u8]);
    packet.extend_from_slice(&[0, 10, 0, cookie.len() as u8]);
    packet.extend_from_slice(cookie);
    packet
}

/// Queries with a cookie; returns the response code and the cookie of the reply.
fn exchange(address: std::net::SocketAddr, cookie: &[u8]) -> (u16, Vec<u8>) {
    let client = Client::new("127.0.0.1", address);
    let reply = client.exchange(Transport::Udp, &query(cookie)).unwrap();
    let reply = reply.expect("a reply");
    let cookie = reply.opt.as_ref().and_then(|opt| opt.option(10));
    (reply.rcode(), cookie.unwrap_or_default().to_vec())
}

#[test]
fn dig_gets_a_valid_cookie_and_retries_when_one_is_required() {
    let plain = server("");
    let printed = dig(&plain, &[]);
    assert!(printed.contains("(good)"), "{printed}");
    let required = server("[cookies]\nrequire = true\n");
    let printed = dig(&required, &["+badcookie"]);
    assert!(
        printed.contains("status: NOERROR") && printed.contains("192.0.2.2"),
        "{printed}"
    );
    assert!(printed.contains("BADCOOKIE, retrying"), "{printed}");
    // Without a cookie it is sent to TCP.
    let printed = dig(&required, &["+nocookie"]);
    assert!(
        printed.contains("retrying in TCP mode") && printed.contains("192.0.2.2"),
        "{printed}"
    );
    let off = server("[cookies]\nenabled = false\n");
    assert!(!dig(&off, &[]).contains("(good)"));
}

#[test]
fn a_reload_rolls_the_secret_and_old_cookies_stay_valid() {
    let config = |secrets: &str| format!("[cookies]\nrequire = true\nsecrets = [{secrets}]\n");
    let server = server(&config(&format!("\"{SECRET}\"")));
    let (_, old) = exchange(server.address(), b"01234567");
    let file = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&file).unwrap();
    let roll = |secrets: &str| {
        let new = text.replace(
            &format!("secrets = [\"{SECRET}\"]"),
            &format!("secrets = [{secrets}]"),
        );
        fs::write(&file, new).unwrap();
        let output = server.command(&["reload"]);
        assert!(output.status.success(), "{output:?}");
    };
    roll(&format!("\"{OTHER}\", \"{SECRET}\""));
    let (rcode, new) = exchange(server.address(), &old);
    assert_eq!(rcode, 0);
    assert_ne!(new, old, "a cookie of the new secret");
    roll(&format!("\"{OTHER}\""));
    assert_eq!(exchange(server.address(), &old).0, BADCOOKIE);
    assert_eq!(exchange(server.address(), &new).0, 0);
}

#[test]
fn an_invalid_secret_is_an_error_that_does_not_show_it() {
    let setup = Setup::new().config("[cookies]\nsecrets = [\"5ecre7\"]\n");
    let failure = setup.zone("example.org", &zone("www")).try_start();
    let text = format!("{:?}", failure.err());
    assert!(text.contains("32 hexadecimal digits"), "{text}");
    assert!(!text.contains("5ecre7"), "{text}");
}

/// Starts another name server that requires cookies generated with the secret.
fn start_peer(kind: PeerKind) -> Option<Peer> {
    let program = kind.require()?;
    let peer = Peer::launch(
        &["example.org"],
        &PeerOptions::default(),
        |directory, address| {
            fs::write(directory.join("example.org.zone"), zone("www"))?;
            let (main, rest) = match kind {
                PeerKind::Bind => (
                    format!(
                        "recursion no; dnssec-validation no; notify no;\n\
                         answer-cookie yes; cookie-algorithm siphash24; cookie-secret \"{SECRET}\"; \
                         require-server-cookie yes;\n"
                    ),
                    "zone \"example.org\" { type primary; file \"example.org.zone\"; };\n".into(),
                ),
                _ => (
                    String::new(),
                    format!(
                        "mod-cookies:\n  - id: shared\n    secret: 0x{SECRET}\n    badcookie-slip: 1\n\
                         template:\n  - id: default\n    global-module: mod-cookies/shared\n\
                         zone:\n  - domain: example.org\n    file: \"{}/example.org.zone\"\n",
                        directory.display()
                    ),
                ),
            };
            let config = PeerConfig {
                main: &main,
                rest: &rest,
                ..PeerConfig::default()
            };
            kind.prepare(&program, directory, address, &config)
        },
    );
    Some(peer.expect("the peer starts"))
}

fn share_cookies_with(kind: PeerKind) {
    let Some(peer) = start_peer(kind) else {
        return;
    };
    let server = server(&format!(
        "[cookies]\nrequire = true\nsecrets = [\"{SECRET}\"]\n"
    ));
    for (maker, other) in [
        (peer.addr(), server.address()),
        (server.address(), peer.addr()),
    ] {
        let (rcode, cookie) = exchange(maker, b"01234567");
        assert_eq!((rcode, cookie.len()), (BADCOOKIE, 24));
        assert_eq!(exchange(maker, &cookie).0, 0);
        assert_eq!(exchange(other, &cookie).0, 0, "{kind:?}");
        let mut wrong = cookie.clone();
        wrong[23] ^= 1;
        assert_eq!(exchange(other, &wrong).0, BADCOOKIE);
    }
}

#[test]
fn bind_with_the_same_secret_accepts_our_cookies_and_we_accept_its() {
    share_cookies_with(PeerKind::Bind);
}

#[test]
fn knot_with_the_same_secret_accepts_our_cookies_and_we_accept_its() {
    share_cookies_with(PeerKind::Knot);
}
