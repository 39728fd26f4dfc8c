//! The client of all API tests: one request per connection, with any key, header and body; and a server for it.

use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::time::Duration;

/// The key of the configuration.
pub const KEY: &str = "test-key";
/// The path of the server.
pub const SERVER: &str = "/api/v1/servers/localhost";
const TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of an API on a free port.
pub fn settings() -> String {
    format!("[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n")
}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// The body as JSON; null if there is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A client with a key.
#[derive(Debug, Clone)]
pub struct Client {
    pub at: SocketAddr,
    pub key: String,
    pub headers: Vec<(String, String)>,
}

impl Client {
    pub fn new(at: SocketAddr) -> Self {
        Client {
            at,
            key: KEY.into(),
            headers: Vec::new(),
        }
    }

    /// Uses another key.
    pub fn with_key(&self, key: &str) -> Self {
        Client {
            key: key.into(),
            ..self.clone()
        }
    }

    /// Adds a header to each request.
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.into(), value.into()));
        client
    }

    /// Sends a request; the path starts below the server, or at `/api`.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(Value::to_string).unwrap_or_default();
        if path.starts_with("/api") {
            self.send_text(method, path, &body)
        } else {
            self.send_text(method, &format!("{SERVER}{path}"), &body)
        }
    }

    /// Sends a request with any target and any body.
    pub fn send_text(&self, method: &str, target: &str, body: &str) -> Reply {
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\n",
            self.key
        );
        let has_accept = self.headers.iter().any(|(name, _)| name == "Accept");
        if !has_accept {
            head.push_str("Accept: application/json\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        ));
        let reply = exchange(self.at, (head + body).as_bytes());
        reply.unwrap_or_else(|| panic!("no reply to {method} {target}"))
    }

    /// Sends a request that must have this status.
    pub fn expect(&self, status: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        let reply = self.send(method, path, body);
        assert_eq!(reply.status, status, "{method} {path} {body:?}: {reply:?}");
        reply.json()
    }
}

/// Sends octets and reads the reply until the connection ends; `None` if it ends without one.
pub fn exchange(at: SocketAddr, octets: &[u8]) -> Option<Reply> {
    let text = exchange_text(at, octets);
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Reply {
        status: head.split(' ').nth(1)?.parse().ok()?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Sends octets and reads everything that is sent back.
pub fn exchange_text(at: SocketAddr, octets: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(octets);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

/// Starts a server with zone files, a state store, a SQLite database and these further settings.
pub fn start(config: &str) -> (TestServer, Client) {
    let setup = Setup::new().without_web();
    let database = crate::databases::rows::Sqlite::new(setup.dir());
    let state = setup.dir().join("state");
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = \"{}\"\n",
            state.display()
        ))
        .config(&(settings() + config))
        .config(&database.backend("resident"))
        .start();
    let client = Client::new(server.api());
    (server, client)
}

/// Creates zones with an address at `www`.
pub fn create_zones(client: &Client, names: &[&str]) {
    for name in names {
        let body = json!({
            "name": name, "kind": "Native", "nameservers": [format!("ns1.{name}")],
            "rrsets": [{ "name": format!("www.{name}"), "type": "A", "ttl": 300, "records": [{ "content": "192.0.2.1" }] }],
        });
        client.expect(201, "POST", "/zones", Some(&body));
    }
}

/// A PATCH that replaces the addresses at a name.
pub fn set_address(name: &str, address: &str) -> Value {
    json!({ "rrsets": [{ "name": name, "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{ "content": address, "disabled": false }] }] })
}

/// Runs a command against the server and returns its code and its output.
pub fn run(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = server.command(arguments);
    let mut text = String::from_utf8(stdout).unwrap();
    text.push_str(&String::from_utf8(stderr).unwrap());
    (status.code(), text)
}

/// Creates an API key by command and returns its ID and its text.
pub fn create_key(server: &TestServer, arguments: &[&str]) -> (String, String) {
    let (code, text) = run(server, &[&["api-key", "create"], arguments].concat());
    assert_eq!(code, Some(0), "{text}");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}in {text}")).to_owned()
    };
    (field("id "), field("key "))
}
