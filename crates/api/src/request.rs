//! A parsed API request: method, decoded path segments and query, accepted media types, and its body.

use std::net::IpAddr;

use nameward_control::web::request::decode;
use serde_json::Value;

use crate::response::{ApiError, ApiResult, ErrorForm, media};

/// Octets of path and query.
const TARGET_MAX: usize = 8 * 1024;

/// The methods of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// OPTIONS, sent by browsers before a cross-origin request.
    Options,
    /// Any other.
    Other,
}

impl ApiMethod {
    /// Its name in lower case.
    pub fn word(self) -> &'static str {
        match self {
            ApiMethod::Get => "get",
            ApiMethod::Post => "post",
            ApiMethod::Put => "put",
            ApiMethod::Patch => "patch",
            ApiMethod::Delete => "delete",
            ApiMethod::Options => "options",
            ApiMethod::Other => "other",
        }
    }

    /// Reads a method.
    pub fn from_text(text: &str) -> Self {
        match text {
            "GET" => ApiMethod::Get,
            "POST" => ApiMethod::Post,
            "PUT" => ApiMethod::Put,
            "PATCH" => ApiMethod::Patch,
            "DELETE" => ApiMethod::Delete,
            "OPTIONS" => ApiMethod::Options,
            _ => ApiMethod::Other,
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The method.
    pub method: ApiMethod,
    /// The path segments after `/api`, decoded.
    pub path: Vec<String>,
    query: Vec<(String, String)>,
    /// The client accepts JSON.
    pub accepts_json: bool,
    /// The form in which the client takes errors.
    pub error_form: ErrorForm,
    /// `If-Match`.
    pub if_match: Option<String>,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
    /// `Last-Event-ID`.
    pub last_event_id: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// The client, which is recorded as the author of changes.
    pub client: IpAddr,
}

/// A target that is not one of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadTarget {
    /// The path does not start with `/api`.
    NotApi,
    /// The target is too long.
    TooLong,
}

impl ApiRequest {
    /// Reads method, target and the Accept header.
    pub fn new(
        method: &str,
        target: &str,
        accept: Option<&str>,
        client: IpAddr,
    ) -> Result<Self, BadTarget> {
        if target.len() > TARGET_MAX {
            return Err(BadTarget::TooLong);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path.strip_prefix("/api").ok_or(BadTarget::NotApi)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(BadTarget::NotApi);
        }
        let path = rest.split('/').filter(|segment| !segment.is_empty());
        let accepted = accept.unwrap_or_default().to_ascii_lowercase();
        Ok(ApiRequest {
            method: ApiMethod::from_text(method),
            path: path.map(|segment| decode(segment, false)).collect(),
            query: pairs(query).collect(),
            accepts_json: accepted.contains(media::JSON),
            error_form: ErrorForm::from_accept(accept),
            if_match: None,
            if_none_match: None,
            last_event_id: None,
            body: Vec::new(),
            client,
        })
    }

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.iter();
        let found = pairs.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a query parameter; none if it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.parameter(name).filter(|text| !text.is_empty())
    }

    /// The value of a query parameter that is `what`: a number.
    pub fn number(&self, name: &str, what: &str) -> ApiResult<Option<u32>> {
        let number = self.text(name).map(|text| {
            text.parse().map_err(|_| {
                ApiError::invalid(format!(
                    "'{name}' query parameter is not a {what}: '{text}'"
                ))
            })
        });
        number.transpose()
    }

    /// A query parameter that is `true` or `false`.
    pub fn flag(&self, name: &str, default: bool) -> ApiResult<bool> {
        match self.parameter(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("") => Ok(default),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(ApiError::invalid(format!(
                "'{name}' query parameter value '{other}' is not supported: expected true or false"
            ))),
        }
    }

    /// The body as JSON. Nesting is bounded by the parser.
    pub fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(&self.body).map_err(|_| ApiError::BadRequest)
    }
}

/// Splits a query or a form into decoded names and values.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name, true), decode(value, true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str) -> Result<ApiRequest, BadTarget> {
        ApiRequest::new("GET", target, None, "192.0.2.1".parse().unwrap())
    }

    #[test]
    fn paths_and_queries_are_decoded() {
        let request = request("/api/v1/servers/localhost/zones/a%2Fb.?q=a%20b+c&rrsets=FALSE&x");
        let request = request.unwrap();
        assert_eq!(
            request.path,
            ["v1", "servers", "localhost", "zones", "a/b."]
        );
        assert_eq!(request.parameter("q"), Some("a b c"));
        assert_eq!(request.parameter("x"), Some(""));
        assert!(!request.flag("rrsets", true).unwrap());
        assert!(request.flag("q", true).is_err());
    }

    #[test]
    fn other_paths_are_not_ours() {
        assert_eq!(request("/").unwrap_err(), BadTarget::NotApi);
        assert_eq!(request("/apiary").unwrap_err(), BadTarget::NotApi);
        let long = format!("/api/{}", "x".repeat(TARGET_MAX));
        assert_eq!(request(&long).unwrap_err(), BadTarget::TooLong);
        assert!(request("/api").unwrap().path.is_empty());
    }
}
