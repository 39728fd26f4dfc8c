//! Parsing of one HTTP/1 request head (RFC 9112), strictly and without allocation beyond its own size.
//!
//! Ambiguous requests are refused: every connection carries one request, so nothing after it can be confused with it.
//! `find_head_end` and `parse` accept any bytes and are the target of the fuzzer.

use super::host::parse_authority;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// Any other.
    Other,
}

/// A parsed request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, for decisions.
    pub method: Method,
    /// The method as sent.
    pub method_text: String,
    /// The path, without the query string, as sent.
    pub path: String,
    /// The query string, empty when there is none.
    pub query: String,
    /// The declared length of the body.
    pub content_length: u64,
    /// The hosts in the target and the `Host` field, in lower case; empty if the client names none.
    pub hosts: Vec<String>,
    headers: Vec<(String, String)>,
}

/// Why a request could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedRequest {
    /// Not HTTP/1: TLS, HTTP/0.9, HTTP/2, bad characters.
    Syntax,
    /// More headers or longer than allowed.
    TooLarge,
}

/// Maximum number of header fields.
pub const MAX_FIELDS: usize = 64;

/// Returns the length of the head with its empty line, once it is complete. Lines may end in LF alone (RFC 9112
/// section 2.2).
pub fn find_head_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|b| *b == b'\n') {
        let end = from + at + 1;
        match bytes[end..] {
            [b'\n', ..] => return Some(end + 1),
            [b'\r', b'\n', ..] => return Some(end + 2),
            _ => from = end,
        }
    }
    None
}

/// Checks whether these first bytes can no longer become a request, so that waiting is pointless: TLS and other
/// binary protocols, or a first line without a version (HTTP/0.9).
pub fn cannot_be_request(bytes: &[u8]) -> bool {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => parse_request_line(trim_cr(&bytes[..end])).is_none(),
        None => {
            !bytes
                .iter()
                .all(|b| (0x20..0x7f).contains(b) || *b == b'\r')
                || !starts_as_method(bytes)
        }
    }
}

fn starts_as_method(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|b| is_token(*b))
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Parses a complete head.
pub fn parse(head: &[u8]) -> Result<HttpRequest, MalformedRequest> {
    let mut lines = head.split(|b| *b == b'\n').map(trim_cr);
    let first = lines.next().unwrap_or_default();
    let mut request = parse_request_line(first).ok_or(MalformedRequest::Syntax)?;
    for line in lines {
        if line.is_empty() {
            break;
        }
        if request.headers.len() == MAX_FIELDS {
            return Err(MalformedRequest::TooLarge);
        }
        let field = parse_field(line).ok_or(MalformedRequest::Syntax)?;
        request.headers.push(field);
    }
    request.content_length = body_length(&request).ok_or(MalformedRequest::Syntax)?;
    let host = host_field(&request).ok_or(MalformedRequest::Syntax)?;
    request.hosts.extend(host);
    Ok(request)
}

fn parse_request_line(line: &[u8]) -> Option<HttpRequest> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || method.is_empty() || method.len() > 32 {
        return None;
    }
    // Any HTTP/1 minor version is answered with HTTP/1.0; HTTP/2 starts with another preface.
    let minor = version.strip_prefix("HTTP/1.")?.as_bytes();
    if !method.bytes().all(is_token) || !matches!(minor, [b'0'..=b'9']) {
        return None;
    }
    let (authority, local) = split_authority(target)?;
    let (path, query) = split_local(local)?;
    let hosts = match authority {
        Some(authority) => vec![parse_authority(authority)?],
        None => Vec::new(),
    };
    Some(HttpRequest {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => Method::Other,
        },
        method_text: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        content_length: 0,
        hosts,
        headers: Vec::new(),
    })
}

/// Splits the authority off a target in absolute form (RFC 9112 section 3.2).
fn split_authority(target: &str) -> Option<(Option<&str>, &str)> {
    // Control characters are rejected here, so that none gets into a reply or the log.
    if target.is_empty() || !target.bytes().all(|b| (0x21..0x7f).contains(&b)) {
        return None;
    }
    let Some(rest) = target.strip_prefix("http://") else {
        return Some((None, target));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, local) = rest.split_at(end);
    Some((Some(authority), if local.is_empty() { "/" } else { local }))
}

/// Splits path and query of a target in origin form or `*`.
fn split_local(local: &str) -> Option<(&str, &str)> {
    if !local.starts_with('/') && local != "*" {
        return None;
    }
    let local = local.split('#').next().unwrap_or(local);
    Some(local.split_once('?').unwrap_or((local, "")))
}

/// Returns the host. RFC 9112 section 3.2: more than one `Host`, or an invalid one, is a bad request. An empty one
/// names no host.
fn host_field(request: &HttpRequest) -> Option<Option<String>> {
    let mut hosts = request.fields("host");
    let first = hosts.next().filter(|host| !host.is_empty());
    if hosts.next().is_some() {
        return None;
    }
    match first {
        Some(host) => parse_authority(host).map(Some),
        None => Some(None),
    }
}

fn parse_field(line: &[u8]) -> Option<(String, String)> {
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // RFC 9112 section 5.1: no space before the colon; section 5.2: no folded lines. Both are used in attacks.
    if name.is_empty() || !name.iter().all(|b| is_token(*b)) {
        return None;
    }
    let clean = |b: &u8| *b == b'\t' || (*b >= 0x20 && *b != 0x7f);
    if !value.iter().all(clean) {
        return None;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let value = String::from_utf8_lossy(value);
    Some((name, value.trim_matches([' ', '\t']).to_owned()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns the body length. RFC 9112 section 6.3: a repeated length, or one next to a transfer coding, is an attack
/// or a mistake.
fn body_length(request: &HttpRequest) -> Option<u64> {
    let mut lengths = request.fields("content-length");
    let Some(first) = lengths.next() else {
        return Some(0);
    };
    let twice = lengths.next().is_some() || request.header("transfer-encoding").is_some();
    if twice || first.is_empty() || !first.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A number that does not fit is still a length, only too large.
    Some(first.parse().unwrap_or(u64::MAX))
}

impl HttpRequest {
    fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.headers.iter().filter(move |field| field.0 == name);
        named.map(|field| field.1.as_str())
    }

    /// Returns the first header field of this name (in lower case).
    pub fn header<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.fields(name).next()
    }

    /// Returns the first parameter of this name, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true) == name).then(|| decode(value, true))
        })
    }

    /// Checks whether the client accepts this media type and none that includes HTML.
    pub fn accepts_only(&self, media_type: &str) -> bool {
        let mut is_accepted = false;
        for value in self.fields("accept") {
            for range in value.split(',') {
                let range = range.split(';').next().unwrap_or_default().trim();
                if range.eq_ignore_ascii_case(media_type) {
                    is_accepted = true;
                } else if matches!(range, "*/*" | "text/html" | "text/*") {
                    return false;
                }
            }
        }
        is_accepted
    }
}

/// Decodes percent signs, and the plus signs of a query or form. Invalid sequences are kept as they are; octets that are
/// not UTF-8 are replaced, so that they match nothing.
pub fn decode(text: &str, is_query: bool) -> String {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |octet: &u8| char::from(*octet).to_digit(16).unwrap_or(0) as u8;
                octets.push(digit(high) << 4 | digit(low));
                rest = after;
            }
            (b'+', _) if is_query => octets.push(b' '),
            (octet, _) => octets.push(*octet),
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(text: &str) -> HttpRequest {
        parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {text:?}"))
    }

    #[test]
    fn a_request_is_parsed_into_its_fields() {
        let request = ok("GET /a/b?x=1&y=%41+%zz HTTP/1.1\r\nHost: h\r\nX-API-Key:  k \r\n\r\n");
        assert_eq!(
            (request.method, request.path.as_str()),
            (Method::Get, "/a/b")
        );
        assert_eq!(request.parameter("x").as_deref(), Some("1"));
        assert_eq!(request.parameter("y").as_deref(), Some("A %zz"));
        assert_eq!(request.parameter("z"), None);
        assert_eq!(request.header("x-api-key"), Some("k"));
    }

    #[test]
    fn absolute_targets_and_bare_line_feeds_are_understood() {
        assert_eq!(ok("GET http://h:1/p?q HTTP/1.0\n\n").path, "/p");
        assert_eq!(ok("GET http://h HTTP/1.0\n\n").path, "/");
        assert_eq!(ok("OPTIONS * HTTP/1.1\r\n\r\n").path, "*");
        let both = ok("GET http://H:1/p HTTP/1.1\r\nHost: [::1]:2\r\n\r\n");
        assert_eq!(both.hosts, ["h", "::1"]);
        assert_eq!(ok("GET / HTTP/1.1\r\nHost:\r\n\r\n").hosts, [""; 0]);
    }

    #[test]
    fn anything_but_http_1_is_malformed() {
        for text in [
            "GET /\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / http/1.1\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET /\u{e4} HTTP/1.1\r\n\r\n",
            "GET /\t HTTP/1.1\r\n\r\n",
            "G(T / HTTP/1.1\r\n\r\n",
            " / HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nA b\r\n\r\n",
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(MalformedRequest::Syntax),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_length_beyond_the_number_range_is_a_very_large_one() {
        let request = ok("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n");
        assert_eq!(request.content_length, u64::MAX);
    }

    #[test]
    fn too_many_fields_are_too_large() {
        let fields = |n| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(n));
        assert!(parse(fields(MAX_FIELDS).as_bytes()).is_ok());
        assert_eq!(
            parse(fields(MAX_FIELDS + 1).as_bytes()),
            Err(MalformedRequest::TooLarge)
        );
    }

    #[test]
    fn invalid_starts_are_detected_before_the_head_is_complete() {
        assert!(cannot_be_request(b"\x16\x03\x01\x02\x00"));
        assert!(cannot_be_request(b"GET /\r\n"));
        assert!(cannot_be_request(b"PRI * HTTP/2.0\r\n"));
        assert!(!cannot_be_request(b""));
        assert!(!cannot_be_request(b"GE"));
        assert!(!cannot_be_request(b"GET / HTTP/1.1\r\nHost"));
    }

    #[test]
    fn the_end_of_the_head_is_found_with_any_line_ending() {
        assert_eq!(find_head_end(b"a\r\n\r\nrest"), Some(5));
        assert_eq!(find_head_end(b"a\n\nrest"), Some(3));
        assert_eq!(find_head_end(b"a\r\n\nrest"), Some(4));
        assert_eq!(find_head_end(b"a\r\nb\r\n"), None);
        assert_eq!(find_head_end(b"a\r\n\r"), None);
    }

    #[test]
    fn accept_is_only_json_when_nothing_else_would_do() {
        let accept = |value: &str| ok(&format!("GET / HTTP/1.1\r\nAccept: {value}\r\n\r\n"));
        assert!(accept("application/json").accepts_only("application/json"));
        assert!(accept("application/json;q=0.9").accepts_only("application/json"));
        assert!(!accept("application/json, */*").accepts_only("application/json"));
        assert!(!accept("text/html,application/json").accepts_only("application/json"));
        assert!(!ok("GET / HTTP/1.1\r\n\r\n").accepts_only("text/plain"));
    }

    use proptest::prelude::*;
    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = cannot_be_request(&bytes);
            let _ = find_head_end(&bytes);
            let _ = parse(&bytes);
        }

        #[test]
        fn whatever_parses_has_a_printable_path(text in "GET [ -~]{0,40} HTTP/1.1\r\n\r\n") {
            if let Ok(request) = parse(text.as_bytes()) {
                prop_assert!(request.path.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
