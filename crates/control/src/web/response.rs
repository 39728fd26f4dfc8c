//! A reply and its bytes. Every reply has HTTP/1.0, its exact length and `Connection: close`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nameward_base::calendar::{UtcTime, weekday};

use super::request::Method;
use super::ring_text::RingText;

/// Only our own files, no inline scripts or styles, no frames, forms only to ourselves.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The body of a reply.
pub enum Body {
    /// Rendered as a whole.
    Whole(Vec<u8>),
    /// Rendered while it is sent, in a room shared with other clients.
    Ring(Arc<RingText>),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Body::Whole(bytes) => bytes.len(),
            Body::Ring(text) => text.len(),
        }
    }
}

/// A reply before it is turned into bytes.
pub struct Response {
    pub status: u16,
    content_type: &'static str,
    body: Body,
    cache_control: &'static str,
    /// Further header lines.
    extra: Vec<(&'static str, String)>,
}

/// A reply that is ready to be sent.
pub struct Parts {
    /// Octets of head and body.
    pub length: usize,
    /// Status line and header lines.
    pub head: Vec<u8>,
    /// The body after the head.
    pub body: Body,
}

/// Media types of replies.
pub mod media {
    #![allow(missing_docs)]
    pub const HTML: &str = "text/html; charset=utf-8";
    pub const TEXT: &str = "text/plain; charset=utf-8";
    pub const CSS: &str = "text/css; charset=utf-8";
    pub const SCRIPT: &str = "text/javascript; charset=utf-8";
    pub const SVG: &str = "image/svg+xml";
    pub const JSON: &str = "application/json";
    pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
}

impl Response {
    /// Creates a reply with a body.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Response {
            status,
            content_type,
            body: Body::Whole(body.into()),
            // Numbers are outdated at once, and the page contains a token.
            cache_control: "no-store",
            extra: Vec::new(),
        }
    }

    /// Creates a reply with the text form of a ring.
    pub fn ring(text: Arc<RingText>) -> Self {
        Response {
            body: Body::Ring(text),
            ..Response::new(200, media::TEXT, "")
        }
    }

    /// Creates an error whose body is its name.
    pub fn error(status: u16) -> Self {
        Response::new(status, media::TEXT, reason(status))
    }

    /// Creates an error for a program.
    pub fn json_error(status: u16) -> Self {
        let body = format!("{{\"error\": \"{}\"}}", reason(status));
        Response::new(status, media::JSON, body)
    }

    /// Replaces the status code.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header line.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.extra.push((name, value.into()));
        self
    }

    /// Allows the reply to be cached for some minutes, as a stylesheet or script.
    pub fn cached(mut self) -> Self {
        self.cache_control = "max-age=300";
        self
    }

    /// Returns the head of the reply and its body. A HEAD request gets the same head and no body (RFC 9110 section
    /// 9.3.2).
    pub fn into_parts(self, method: Method, now: SystemTime) -> Parts {
        let mut head = String::with_capacity(640);
        let _ = write!(
            head,
            "HTTP/1.0 {} {}\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.status,
            reason(self.status),
            http_date(now),
            self.content_type,
            self.body.len()
        );
        let _ = write!(
            head,
            "Cache-Control: {}\r\nContent-Security-Policy: {CONTENT_SECURITY_POLICY}\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n",
            self.cache_control
        );
        for (name, value) in &self.extra {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let body = match method {
            Method::Head => Body::Whole(Vec::new()),
            _ => self.body,
        };
        Parts {
            length: head.len() + body.len(),
            head: head.into_bytes(),
            body,
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        422 => "Unprocessable Content",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Formats an IMF-fixdate (RFC 9110 section 5.6.7).
fn http_date(now: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let time = UtcTime::from_unix(seconds);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[weekday(seconds)],
        time.day,
        MONTHS[time.month as usize - 1],
        time.year,
        time.hour,
        time.minute,
        time.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn date(seconds: u64) -> String {
        http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT"); // the example of RFC 9110
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(4_107_542_399), "Sun, 28 Feb 2100 23:59:59 GMT");
        assert_eq!(date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }

    #[test]
    fn a_head_reply_has_the_head_of_the_get_reply() {
        let bytes = |method| {
            let parts = Response::error(404).into_parts(method, UNIX_EPOCH);
            let Body::Whole(body) = parts.body else {
                panic!("a whole body");
            };
            assert_eq!(parts.length, parts.head.len() + body.len());
            [parts.head, body].concat()
        };
        let (get, head) = (bytes(Method::Get), bytes(Method::Head));
        assert!(get.starts_with(b"HTTP/1.0 404 Not Found\r\n"));
        assert_eq!(get, [head.as_slice(), b"Not Found"].concat());
    }
}
