//! Owns a parsed request of the web administration: method, path, query, cookie, form, and whether it was sent by our own pages.

use std::net::IpAddr;

use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri, header};

use super::session::COOKIE;
use crate::request::{ApiMethod, pairs};
use nameward_control::web::request::decode;

/// Octets of path and query.
const TARGET_MAX: usize = 8 * 1024;
/// Fields of a form.
const FIELDS_MAX: usize = 20_000;

/// A request.
pub struct AdminRequest {
    /// GET (also for HEAD), POST or something else.
    pub method: ApiMethod,
    /// The path segments after `/admin`, decoded.
    pub path: Vec<String>,
    query: Vec<(String, String)>,
    /// Path and query as sent, to return to after the login.
    pub target: String,
    /// The form; empty until the body was read.
    pub form: Form,
    /// The session identifier that the client sent.
    pub session: Option<String>,
    /// It was sent by a page of this server, as far as its headers say.
    pub is_same_origin: bool,
    /// It reached a proxy over TLS.
    pub is_secure: bool,
    content_type: String,
    pub client: IpAddr,
}

impl AdminRequest {
    /// Reads a head; `None` if the path is not one of ours.
    pub fn read(method: &str, uri: &Uri, headers: &HeaderMap, client: IpAddr) -> Option<Self> {
        let target = uri.path_and_query()?.as_str();
        if target.len() > TARGET_MAX {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path.strip_prefix("/admin")?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let text = |name: header::HeaderName| {
            let value = headers.get(name);
            value
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let forwarded = text(header::HeaderName::from_static("x-forwarded-proto"));
        Some(AdminRequest {
            method: match method {
                "HEAD" => ApiMethod::Get,
                other => ApiMethod::from_text(other),
            },
            path: rest
                .split('/')
                .filter(|segment| !segment.is_empty())
                .map(|segment| decode(segment, false))
                .collect(),
            query: pairs(query).take(FIELDS_MAX).collect(),
            target: target.to_owned(),
            form: Form::default(),
            session: cookie(headers),
            is_same_origin: is_same_origin(headers, uri.authority().map(Authority::as_str)),
            is_secure: forwarded.eq_ignore_ascii_case("https"),
            content_type: text(header::CONTENT_TYPE).to_owned(),
            client,
        })
    }

    /// Whether the path is this.
    pub fn is_at(&self, path: &[&str]) -> bool {
        self.path == path
    }

    /// The value of a query parameter; empty if there is none.
    pub fn parameter(&self, name: &str) -> &str {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Takes the body; false if it is not a form.
    pub fn take_body(&mut self, body: &[u8]) -> bool {
        let form = match self.content_type.strip_prefix("multipart/form-data") {
            Some(parameters) => Form::from_multipart(parameters, body),
            None => Form::from_urlencoded(body),
        };
        match form {
            Some(form) => {
                self.form = form;
                true
            }
            None => false,
        }
    }
}

/// The fields of a form, in the order of the page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    fn from_urlencoded(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let form: Vec<_> = pairs(text).take(FIELDS_MAX + 1).collect();
        (form.len() <= FIELDS_MAX).then_some(Form(form))
    }

    /// Reads the parts of RFC 7578. A file is a field with its contents.
    fn from_multipart(parameters: &str, body: &[u8]) -> Option<Self> {
        let boundary = parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.trim().split_once('=')?;
            (name.eq_ignore_ascii_case("boundary")).then(|| value.trim_matches('"').to_owned())
        })?;
        if boundary.is_empty() || boundary.len() > 70 {
            return None;
        }
        let delimiter = format!("--{boundary}");
        let text = String::from_utf8_lossy(body);
        let mut fields = Vec::new();
        // Nothing precedes the first delimiter; two hyphens follow the last one.
        for part in text.split(delimiter.as_str()).skip(1) {
            if part.starts_with("--") {
                return Some(Form(fields));
            }
            let (head, value) = part.strip_prefix("\r\n")?.split_once("\r\n\r\n")?;
            let value = value.strip_suffix("\r\n")?;
            let name = head.lines().find_map(field_name)?;
            if fields.len() >= FIELDS_MAX {
                return None;
            }
            fields.push((name, value.to_owned()));
        }
        None
    }

    /// The value of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// All values of a field.
    pub fn fields<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }
}

/// The name in `Content-Disposition: form-data; name="x"`.
fn field_name(line: &str) -> Option<String> {
    let (header, value) = line.split_once(':')?;
    if !header.eq_ignore_ascii_case("content-disposition") {
        return None;
    }
    let (_, rest) = value.split_once(" name=\"")?;
    let (name, _) = rest.split_once('"')?;
    Some(name.to_owned())
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter();
    let lines = lines.filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE && value.len() <= 128).then(|| value.to_owned())
    })
}

/// Checks where a request comes from: Sec-Fetch-Site where the browser sends it, and Origin against Host. A request without either
/// was not sent by a form of another site in any current browser; it still needs the token. HTTP/2 has an authority instead of Host.
fn is_same_origin(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let text = |name: &'static str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return false;
    }
    let Some(origin) = text("origin") else {
        return true;
    };
    let Some((_, sender)) = origin.split_once("://") else {
        return false;
    };
    let ours = [text("host"), authority, text("x-forwarded-host")];
    ours.into_iter().flatten().any(|host| host == sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.insert(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn requests_from_other_sites_are_recognised() {
        let host = ("host", "ns1.example:8081");
        for (lines, expected) in [
            (vec![host], true),
            (vec![host, ("origin", "http://ns1.example:8081")], true),
            (vec![host, ("origin", "http://ns1.example")], false),
            (vec![host, ("origin", "http://evil.example:8081")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "none")], true),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
            (vec![host, ("sec-fetch-site", "same-site")], false),
        ] {
            assert_eq!(
                is_same_origin(&headers(&lines), None),
                expected,
                "{lines:?}"
            );
        }
        let over_http2 = headers(&[("origin", "https://ns1.example")]);
        assert!(is_same_origin(&over_http2, Some("ns1.example")));
        assert!(!is_same_origin(&over_http2, Some("ns2.example")));
    }

    #[test]
    fn forms_are_read_in_both_encodings() {
        let form = Form::from_urlencoded(b"a=1&a=2+%26&b=%0D%0A").unwrap();
        assert_eq!(form.fields("a").collect::<Vec<_>>(), ["1", "2 &"]);
        assert_eq!(form.field("b"), "\r\n");
        assert_eq!(form.field("c"), "");
        let body = b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"z\"\r\nContent-Type: text/plain\r\n\r\n\
            www A 192.0.2.1\r\n\r\n--x\r\ncontent-disposition: form-data; name=\"token\"\r\n\r\nt\r\n--x--\r\n";
        let form = Form::from_multipart("; boundary=x", body).unwrap();
        assert_eq!(form.field("f"), "www A 192.0.2.1\r\n");
        assert_eq!(form.field("token"), "t");
        for cut in [0, 10, 50, 120, body.len() - 6] {
            assert_eq!(
                Form::from_multipart("; boundary=x", &body[..cut]),
                None,
                "{cut}"
            );
        }
        assert_eq!(Form::from_multipart("", body), None);
    }

    #[test]
    fn the_session_is_the_cookie_of_this_name() {
        let map = headers(&[("cookie", "a=b; nameward-session=abc; nameward-sessionx=d")]);
        assert_eq!(cookie(&map).as_deref(), Some("abc"));
        assert_eq!(
            cookie(&headers(&[("cookie", "xnameward-session=abc")])),
            None
        );
    }
}
