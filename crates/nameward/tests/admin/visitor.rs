//! A minimal browser: it stores the session cookie, finds the token of a page and sends forms.

use crate::databases::rows::Sqlite;
use nameward_testkit::{Setup, TestServer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const KEY: &str = "test-key";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A zone file with a name server inside the zone.
pub const ZONE: &str = "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n";

/// A reply.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let found = lines.find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        found.unwrap_or_default()
    }

    /// The value of a hidden field.
    pub fn hidden(&self, name: &str) -> String {
        let start = format!("<input type=\"hidden\" name=\"{name}\" value=\"");
        let at = self.body.find(&start);
        let at = at.unwrap_or_else(|| panic!("no field {name} in {}", self.body));
        let rest = &self.body[at + start.len()..];
        rest[..rest.find('"').unwrap()].to_owned()
    }
}

/// A client that may have a session.
#[derive(Debug, Clone)]
pub struct Visitor {
    pub at: SocketAddr,
    pub cookie: Option<String>,
    /// Further header lines.
    pub headers: String,
}

impl Visitor {
    pub fn new(at: SocketAddr) -> Self {
        Visitor {
            at,
            cookie: None,
            headers: String::new(),
        }
    }

    /// A visitor who has logged in.
    pub fn logged_in(at: SocketAddr) -> Self {
        let mut visitor = Visitor::new(at);
        visitor.log_in(KEY);
        visitor
    }

    /// Logs in with a valid key.
    pub fn log_in(&mut self, key: &str) {
        let reply = self.post_plain("/admin/login", &[("key", key)]);
        assert_eq!(reply.status, 303, "{reply:?}");
        let cookie = reply.header("set-cookie");
        self.cookie = cookie.split(';').next().map(str::to_owned);
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "")
    }

    /// Gets a page that must exist.
    pub fn page(&self, path: &str) -> String {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body
    }

    /// Sends a form without a token.
    pub fn post_plain(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let pairs = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", escaped(value)));
        self.send("POST", path, &pairs.collect::<Vec<_>>().join("&"))
    }

    /// Sends a form with the token of the session.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let token = self.get("/admin/zones").hidden("token");
        self.post_plain(path, &[&[("token", token.as_str())], fields].concat())
    }

    /// Commits a previewed change, with the fields that produced the preview.
    pub fn commit(&self, path: &str, preview: &Reply, fields: &[(&str, &str)]) -> Reply {
        let (serial, digest) = (preview.hidden("serial"), preview.hidden("digest"));
        let mut fields: Vec<(&str, &str)> = fields
            .iter()
            .filter(|(name, _)| *name != "step")
            .copied()
            .collect();
        fields.extend([("step", "commit"), ("serial", &serial), ("digest", &digest)]);
        self.post(path, &fields)
    }

    pub fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let cookie = self.cookie.as_ref();
        let cookie = cookie.map_or(String::new(), |cookie| format!("Cookie: {cookie}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{cookie}{}Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.at,
            self.headers,
            body.len()
        );
        exchange(self.at, &(head + body))
    }
}

pub fn exchange(at: SocketAddr, request: &str) -> Reply {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(request.as_bytes());
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let text = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole reply");
    Reply {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let octets = text.bytes().map(|octet| {
        if octet.is_ascii_alphanumeric() {
            char::from(octet).to_string()
        } else {
            format!("%{octet:02X}")
        }
    });
    octets.collect()
}

/// A server with a zone file `files.test`, a state store, a database and the web administration.
pub fn start(mode: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let state = setup.dir().join("state");
    setup
        .config(&format!(
            "[server]\nstate_directory = \"{}\"\n",
            state.display()
        ))
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\nadmin = true\n"
        ))
        .config(&database.backend(mode))
        .zone("files.test", ZONE)
        .start()
}
