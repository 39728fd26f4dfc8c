//! Reads the status page as a person would: names, numbers and rows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use nameward_stats::{VARIABLES, VariableKind};

const RINGS: [&str; 10] = [
    "logmessages",
    "noerror-queries",
    "nxdomain-queries",
    "queries",
    "remotes",
    "remotes-corrupt",
    "remotes-limited",
    "remotes-unauth",
    "servfail-queries",
    "unauth-queries",
];

pub struct Page {
    html: String,
    /// All bytes of the reply, head and body.
    pub reply_bytes: usize,
}

impl Page {
    pub fn read(web: SocketAddr, target: &str) -> Page {
        let mut stream = TcpStream::connect(web).expect("a connection to the page");
        write!(stream, "GET {target} HTTP/1.0\r\n\r\n").expect("sent");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("a reply");
        let reply_bytes = reply.len();
        let text = String::from_utf8(reply).expect("UTF-8");
        assert!(text.starts_with("HTTP/1.0 200 "), "{text}");
        let (_, html) = text.split_once("\r\n\r\n").expect("a body");
        Page {
            html: html.to_owned(),
            reply_bytes,
        }
    }

    /// The text of the page.
    #[allow(dead_code, reason = "shared with the tests of the security poll")]
    pub fn html(&self) -> &str {
        &self.html
    }

    fn between(&self, start: &str, end: &str) -> &str {
        let from = self
            .html
            .find(start)
            .unwrap_or_else(|| panic!("{start} is missing"));
        let rest = &self.html[from + start.len()..];
        &rest[..rest.find(end).unwrap_or_else(|| panic!("{end} is missing"))]
    }

    /// A variable.
    pub fn value(&self, name: &str) -> u64 {
        let row = self.between(&format!("id=\"var-{name}\">"), "</tr>");
        let cell = row.split("<td class=\"count\">").nth(1).expect("a value");
        cell.split('<')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number")
    }

    /// The cells of every row of a ring's table, `Rest:` and `Total:` too.
    fn rows(&self, ring: &str) -> Vec<(String, u64)> {
        let table = self.between(&format!("id=\"rows-{ring}\""), "</table>");
        let rows = table.split("<td class=\"entry\"").skip(1).map(|row| {
            // The cell of a log message has more attributes: level and time by hover.
            let (_, row) = row.split_once('>').expect("the end of a tag");
            let entry = row.split("</td>").next().expect("an entry");
            let count = row.split("<td class=\"count\">").nth(1).expect("a count");
            let count = count.split('<').next().and_then(|n| n.parse().ok());
            let entry = entry.replace("&#34;", "\"").replace("&quot;", "\"");
            (entry, count.expect("a number"))
        });
        rows.collect()
    }

    /// The entries of a ring with their counts; the ring must be small enough to be listed whole.
    pub fn ring(&self, ring: &str) -> BTreeMap<String, u64> {
        let mut rows = self.rows(ring);
        let total = rows.pop().expect("a total");
        assert_eq!(total.0, "Total:");
        assert_eq!(total.1, self.value(&format!("ring-{ring}-size")), "{ring}");
        assert!(
            rows.iter().all(|row| row.0 != "Rest:"),
            "{ring} is not listed whole"
        );
        rows.into_iter().collect()
    }

    /// Everything that must hold on any page.
    pub fn assert_relations(&self) {
        for family in ["queries", "answers", "answers-bytes"] {
            for transport in ["udp", "tcp"] {
                let of = |version: &str| self.value(&format!("{transport}{version}-{family}"));
                assert_eq!(of(""), of("4") + of("6"), "{transport}-{family}");
            }
        }
        for ring in RINGS {
            let size = self.value(&format!("ring-{ring}-size"));
            assert!(
                size <= self.value(&format!("ring-{ring}-capacity")),
                "{ring}"
            );
            let mut rows = self.rows(ring);
            assert_eq!(rows.pop(), Some(("Total:".to_owned(), size)), "{ring}");
            assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), size, "{ring}");
        }
        let total = self.value("udp-queries");
        let header = self.between("<header>", "</header>");
        assert!(
            header.contains(&format!(">{total}</span>")),
            "Total queries"
        );
    }

    /// Counters only grow.
    pub fn assert_not_below(&self, before: &Page) {
        let counters = VARIABLES
            .iter()
            .filter(|row| row.kind == VariableKind::Counter);
        for name in counters.map(|row| row.name) {
            assert!(self.value(name) >= before.value(name), "{name} fell");
        }
    }
}
