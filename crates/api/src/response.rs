//! Owns responses: JSON as PowerDNS writes it, the headers of every reply, and errors in the form that the client accepts.

use std::io;

use nameward_control::operations::{ErrorKind, KeyScope, OperationError};
use nameward_wire::NameBuf;
use serde::Serialize;
use serde_json::Value;

/// Media types.
pub mod media {
    /// JSON, without a character set: clients compare the whole value.
    pub const JSON: &str = "application/json";
    /// Problem details (RFC 9457).
    pub const PROBLEM: &str = "application/problem+json";
    /// JSON objects, one for each line.
    pub const LINES: &str = "application/x-ndjson";
    /// Server-sent events.
    pub const EVENTS: &str = "text/event-stream";
    /// Plain text.
    pub const TEXT: &str = "text/plain; charset=utf-8";
    /// A zone file.
    pub const ZONE: &str = "text/plain; charset=us-ascii";
}

/// The headers of every reply.
pub const HEADERS: [(&str, &str); 6] = [
    ("access-control-allow-origin", "*"),
    (
        "content-security-policy",
        "default-src 'self'; style-src 'self' 'unsafe-inline'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "deny"),
    ("x-permitted-cross-domain-policies", "none"),
    ("x-xss-protection", "1; mode=block"),
];

/// Octets of the texts in one reply.
pub const REPLY_MAX: usize = 256 << 20;

/// The error of a zone that does not fit into a reply.
pub fn too_large() -> ApiError {
    ApiError::invalid(
        "the zone is too large for one reply: select RRsets with rrset_name, or transfer the zone",
    )
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The status code.
    pub status: u16,
    /// The media type; none for a reply without a body.
    pub media: Option<&'static str>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// The chunks after `body`; none except for large replies.
    pub pieces: Vec<Vec<u8>>,
    /// Headers besides [`HEADERS`].
    pub headers: Vec<(&'static str, String)>,
    /// The events that follow; none for other replies.
    pub events: Option<Box<EventSubscription>>,
    /// The rest of a long body, which is produced while the client reads; none for other replies.
    pub rest: Option<Box<ReplyRest>>,
}

/// The events that a client gets (`resources::events` writes them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSubscription {
    /// The number of the last event that it has.
    pub position: u64,
    /// Events before its position are not known.
    pub is_after_gap: bool,
    /// Only of this zone.
    pub zone: Option<NameBuf>,
    /// The rights of the client.
    pub scope: KeyScope,
}

/// The rest of the list of all zones. It is made page by page (`resources::zones`), so that a list of any length takes the memory of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyRest {
    /// The zone after which it starts; empty for the first.
    pub position: String,
    /// Show whether each zone is signed.
    pub with_dnssec: bool,
    /// Nothing is in the list so far.
    pub is_empty: bool,
}

/// The form of errors that a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorForm {
    /// `{"error": "..."}`, as PowerDNS writes it.
    Json,
    /// The reason phrase; errors with their own text are still JSON, as in PowerDNS.
    Text,
    /// Problem details (RFC 9457).
    Problem,
}

impl ErrorForm {
    /// Reads an Accept header.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or_default().to_ascii_lowercase();
        match (
            accept.contains(media::PROBLEM),
            accept.contains(media::JSON),
        ) {
            (true, _) => ErrorForm::Problem,
            (false, true) => ErrorForm::Json,
            (false, false) => ErrorForm::Text,
        }
    }
}

/// A result that is a reply or an error.
pub type ApiResult<T = ApiResponse> = Result<T, ApiError>;

/// An error, before it is written in the form that the client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// 400: the body is not JSON.
    BadRequest,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 409.
    Conflict,
    /// Any status, with a text that is always JSON.
    Status(u16, String),
}

impl ApiError {
    /// A request that is not valid: 422 with a text that names the field.
    pub fn invalid(text: impl Into<String>) -> Self {
        ApiError::Status(422, text.into())
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        match self {
            ApiError::BadRequest => 400,
            ApiError::NotFound => 404,
            ApiError::MethodNotAllowed => 405,
            ApiError::Conflict => 409,
            ApiError::Status(status, _) => *status,
        }
    }
}

/// The status code of an operation that failed.
pub fn status_of(kind: ErrorKind) -> u16 {
    match kind {
        ErrorKind::Forbidden => 403,
        ErrorKind::NotFound => 404,
        ErrorKind::Conflict => 409,
        ErrorKind::Invalid | ErrorKind::Refused => 422,
        ErrorKind::Backend | ErrorKind::NotRunning | ErrorKind::Internal => 500,
    }
}

impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> Self {
        match error.kind {
            ErrorKind::NotFound => ApiError::NotFound,
            kind => ApiError::Status(status_of(kind), error.message),
        }
    }
}

impl ApiResponse {
    /// A JSON reply.
    pub fn json(status: u16, value: &Value) -> Self {
        ApiResponse::text(status, media::JSON, to_json(value))
    }

    /// A JSON list.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Self {
        ApiResponse::json(200, &items.into_iter().collect())
    }

    /// A reply without a body.
    pub fn empty(status: u16) -> Self {
        ApiResponse {
            status,
            media: None,
            body: Vec::new(),
            pieces: Vec::new(),
            headers: Vec::new(),
            events: None,
            rest: None,
        }
    }

    /// A text reply.
    pub fn text(status: u16, media: &'static str, body: impl Into<Vec<u8>>) -> Self {
        ApiResponse {
            media: Some(media),
            body: body.into(),
            ..ApiResponse::empty(status)
        }
    }

    /// The plain error of a status: JSON for clients that accept it, else its reason phrase.
    pub fn error(status: u16, form: ErrorForm) -> Self {
        let reason = reason(status);
        match form {
            ErrorForm::Json => ApiResponse::json(status, &serde_json::json!({ "error": reason })),
            ErrorForm::Text => ApiResponse::text(status, media::TEXT, reason),
            ErrorForm::Problem => ApiResponse::problem(status, None),
        }
    }

    /// Problem details (RFC 9457). The type is `about:blank`: status and detail are sufficient.
    fn problem(status: u16, detail: Option<&str>) -> Self {
        let mut body =
            serde_json::json!({ "type": "about:blank", "title": reason(status), "status": status });
        if let Some(detail) = detail {
            body["detail"] = detail.into();
        }
        ApiResponse {
            media: Some(media::PROBLEM),
            ..ApiResponse::json(status, &body)
        }
    }

    /// The reply to a request that failed.
    pub fn from_error(error: &ApiError, form: ErrorForm) -> Self {
        match error {
            ApiError::Status(status, text) if form == ErrorForm::Problem => {
                ApiResponse::problem(*status, Some(text))
            }
            ApiError::Status(status, text) => {
                ApiResponse::json(*status, &serde_json::json!({ "error": text }))
            }
            other => ApiResponse::error(other.status(), form),
        }
    }

    /// Adds a header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        422 => "Unprocessable Content",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// A long text in pieces. Unlike a vector it is not copied while it grows, and a reply gives it back piece by piece as the client reads.
#[derive(Debug, Default)]
pub struct PiecedText(pub Vec<Vec<u8>>);

impl PiecedText {
    /// Octets of a chunk after which the next one starts.
    const PIECE: usize = 256 << 10;
    /// Room for the last item of a chunk, which may be longer.
    const ITEM: usize = 4 << 10;

    /// Returns where the next item is appended.
    pub fn end(&mut self) -> &mut Vec<u8> {
        if self.0.last().is_none_or(|last| last.len() >= Self::PIECE) {
            // Most zones are small.
            let room = if self.0.is_empty() {
                0
            } else {
                Self::PIECE + Self::ITEM
            };
            self.0.push(Vec::with_capacity(room));
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}

/// Writes JSON with a space after each comma and colon, as PowerDNS does: some scripts match on the text.
pub fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(value, &mut out);
    out
}

/// Appends JSON as [`to_json`] writes it.
pub fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(out, Spaced);
    // Writing to memory cannot fail, and all keys are strings.
    let _ = value.serialize(&mut serializer);
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_has_sorted_keys_and_spaces_as_powerdns_writes_it() {
        let value = json!({ "url": "/api/v1", "version": 1, "b": [1, {}], "a": null });
        assert_eq!(
            String::from_utf8(to_json(&value)).unwrap(),
            r#"{"a": null, "b": [1, {}], "url": "/api/v1", "version": 1}"#
        );
    }

    #[test]
    fn plain_errors_are_json_only_where_it_is_accepted() {
        let json = ApiResponse::from_error(&ApiError::NotFound, ErrorForm::Json);
        assert_eq!(json.media, Some(media::JSON));
        assert_eq!(json.body, br#"{"error": "Not Found"}"#);
        let text = ApiResponse::from_error(&ApiError::NotFound, ErrorForm::Text);
        assert_eq!(
            (text.media, &text.body[..]),
            (Some(media::TEXT), &b"Not Found"[..])
        );
        let told = ApiResponse::from_error(&ApiError::invalid("no"), ErrorForm::Text);
        assert_eq!((told.status, told.media), (422, Some(media::JSON)));
        let problem = ApiResponse::from_error(&ApiError::invalid("no"), ErrorForm::Problem);
        assert_eq!(problem.media, Some(media::PROBLEM));
        assert_eq!(
            String::from_utf8(problem.body).unwrap(),
            r#"{"detail": "no", "status": 422, "title": "Unprocessable Content", "type": "about:blank"}"#
        );
    }
}
