//! A small HTTP client for the API: one request a connection, JSON in and out.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const KEY: &str = "test-key";
/// The path of the server.
pub const SERVER: &str = "/api/v1/servers/localhost";
const PATIENCE: Duration = Duration::from_secs(60);

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
}

/// A client of one server.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub at: SocketAddr,
    pub key: &'static str,
}

impl Client {
    pub fn new(at: SocketAddr) -> Self {
        Client { at, key: KEY }
    }

    /// Sends a request; the path starts below the server.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let text = body.map(Value::to_string).unwrap_or_default();
        self.send_text(method, &format!("{SERVER}{path}"), &text)
    }

    /// Sends a request with any body.
    pub fn send_text(&self, method: &str, target: &str, body: &str) -> Reply {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\nAccept: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.key,
            body.len()
        );
        let reply = exchange(self.at, &[head.as_bytes(), body.as_bytes()].concat());
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
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may refuse before it has read all.
    let _ = stream.write_all(octets);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let text = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
