//! A web server on its own port, and a client that sees raw bytes.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nameward_control::web::{Settings, Web};
use nameward_stats::{
    Answered, Outcome, Received, Recorder, Ring, RingCapacities, Stamp, Stats, Transport,
};
use tokio::sync::oneshot;

/// Settings as an operator might choose them, with access from this machine only.
pub fn settings() -> Settings {
    let loopback = ["127.0.0.1/32", "::1/128"].map(|net| net.parse().expect("a network"));
    Settings::new(loopback.into(), 64 << 20)
}

/// A running web server; ends when dropped.
pub struct Server {
    pub address: SocketAddr,
    pub stats: Arc<Stats>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(settings())
    }

    pub fn with(settings: Settings) -> Server {
        let stats = Stats::new(RingCapacities::default());
        Server::over(stats, settings)
    }

    pub fn over(stats: Arc<Stats>, settings: Settings) -> Server {
        let web =
            Web::with_status(Arc::clone(&stats), settings, Arc::default).expect("usable settings");
        Server::run(stats, web)
    }

    pub fn run(stats: Arc<Stats>, web: Web) -> Server {
        let (shutdown, stopped) = oneshot::channel::<()>();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                web.serve(listener, async {
                    let _ = stopped.await;
                })
                .await;
            });
        });
        Server {
            address,
            stats,
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        stream
    }

    /// Sends these bytes and reads until the server closes the connection.
    pub fn raw(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request).expect("sent");
        Reply::read(&mut stream)
    }

    pub fn request(&self, method: &str, target: &str, headers: &str) -> Reply {
        self.raw(format!("{method} {target} HTTP/1.0\r\n{headers}\r\n").as_bytes())
    }

    pub fn get(&self, target: &str) -> Reply {
        self.request("GET", target, "")
    }

    /// The token of the forms, as the page shows it.
    pub fn token(&self) -> String {
        let page = self.get("/").text();
        let at = page.find("name=\"token\" value=\"").expect("a token") + 20;
        page[at..at + 32].to_owned()
    }

    /// The log messages, oldest first.
    pub fn messages(&self) -> Vec<String> {
        self.stats
            .snapshot()
            .ring(Ring::Logmessages)
            .entries(&|_| None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All bytes of a reply.
pub struct Reply {
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn read(stream: &mut TcpStream) -> Reply {
        let mut bytes = Vec::new();
        stream
            .read_to_end(&mut bytes)
            .expect("a reply until the end");
        Reply { bytes }
    }

    fn split(&self) -> (&str, &[u8]) {
        let at = self
            .bytes
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("a head");
        (
            std::str::from_utf8(&self.bytes[..at]).expect("an ASCII head"),
            &self.bytes[at + 4..],
        )
    }

    pub fn head(&self) -> &str {
        self.split().0
    }

    pub fn body(&self) -> &[u8] {
        self.split().1
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body().to_vec()).expect("UTF-8")
    }

    pub fn status_line(&self) -> &str {
        self.head().lines().next().expect("a status line")
    }

    pub fn status(&self) -> u16 {
        let line = self.status_line();
        assert!(line.starts_with("HTTP/1.0 "), "{line}");
        line[9..12].parse().expect("a status")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head().lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Records a query and its answer over UDP, without flushing.
pub fn ask(recorder: &mut Recorder, qname: &[u8], outcome: Outcome, client: IpAddr) {
    let rcode = match outcome {
        Outcome::NxDomain => 3,
        Outcome::Unauth => 5,
        Outcome::BackendFailure => 2,
        _ => 0,
    };
    recorder.received(&Received {
        transport: Transport::UDP4,
        client,
        qname,
        qtype: 1,
        rd: false,
        dnssec_ok: false,
        cookie: false,
    });
    recorder.answered(&Answered {
        transport: Transport::UDP4,
        client,
        qname,
        qtype: 1,
        bytes: 50,
        rcode,
        outcome,
    });
}

/// Like `ask`, visible at once.
pub fn ask_now(stats: &Arc<Stats>, qname: &[u8], outcome: Outcome, client: IpAddr) {
    let mut recorder = stats.recorder();
    ask(&mut recorder, qname, outcome, client);
    recorder.flush(Stamp::now(), None);
}

/// Returns a page as text: tags removed, white space collapsed, entities decoded.
pub fn plain(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        let close = rest[open..]
            .find('>')
            .map_or(rest.len(), |at| open + at + 1);
        // Cells and lines are separated, words inside a line are not.
        if ["<td", "</tr", "<dt", "</div", "<h", "<th"]
            .iter()
            .any(|tag| rest[open..].starts_with(tag))
        {
            out.push('\n');
        }
        rest = &rest[close..];
    }
    out.push_str(rest);
    let decoded = out
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#34;", "\"")
        .replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    let lines = decoded
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The rows of a section: cells as text.
pub fn rows(html: &str, section_id: &str) -> Vec<Vec<String>> {
    let from = html
        .find(&format!("id=\"{section_id}\""))
        .unwrap_or_else(|| panic!("no {section_id}"));
    let section = &html[from..from + html[from..].find("</section>").expect("an end")];
    let body = &section
        [section.find("<tbody>").expect("a body")..section.find("</tbody>").expect("its end")];
    body.split("<tr")
        .skip(1)
        .map(|row| {
            row.split("<td")
                .skip(1)
                .map(|cell| plain(&format!("<td{cell}")))
                .collect()
        })
        .collect()
}

/// The value of a variable on a page.
pub fn value(html: &str, name: &str) -> u64 {
    let from = html
        .find(&format!("id=\"var-{name}\""))
        .unwrap_or_else(|| panic!("no {name}"));
    let row = &html[from..from + html[from..].find("</tr>").expect("an end")];
    let cell = &row[row.find("class=\"count\">").expect("a value") + 14..];
    cell[..cell.find('<').expect("an end")]
        .parse()
        .expect("a number")
}
