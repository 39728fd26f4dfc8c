//! A server with an API, and a client that sends any key and any header.

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
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Sends a request; the path starts below the server.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let body = body.map(Value::to_string).unwrap_or_default();
        let target = if path.starts_with("/api") {
            path.to_owned()
        } else {
            format!("{SERVER}{path}")
        };
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
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let text = String::from_utf8(reply).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole reply");
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Sends a request that must have this status.
    pub fn expect(&self, status: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        let reply = self.send(method, path, body);
        assert_eq!(reply.status, status, "{method} {path} {body:?}: {reply:?}");
        reply.json()
    }
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
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n{config}"
        ))
        .config(&database.backend("resident"))
        .start();
    let client = Client {
        at: server.api(),
        key: KEY.into(),
        headers: Vec::new(),
    };
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
