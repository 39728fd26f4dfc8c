//! Owns the table of routes: a method at a path, its handler, and its description.

use crate::openapi::{
    self,
    DescribedReply::{self, Empty, Many, One, Text},
};
use crate::operator::{Api, Call};
use crate::request::{ApiMethod, ApiRequest};
use crate::resources::{
    actions, audit, autoprimaries, cache, changes, config, cryptokeys, events, history, metadata,
    operations, search, servers, statistics, tsigkeys, views, zones,
};
use crate::response::{ApiError, ApiResponse, ApiResult, ReplyRest};
use nameward_control::api_keys::ApiKey;
use std::sync::Arc;

/// Answers a request; gets the segments that match those in braces.
type Handler = fn(&Call<'_>, &[&str]) -> ApiResult;

/// A method at a path.
pub struct ApiRoute {
    pub method: ApiMethod,
    /// The path below `/api`; a segment in braces matches any text, and names the parameter.
    pub path: &'static str,
    handler: Handler,
    pub summary: &'static str,
    /// Query parameters.
    pub query: &'static [&'static str],
    /// The schema of the body.
    pub body: Option<&'static str>,
    pub reply: DescribedReply,
}

use ApiMethod::{Delete, Get, Patch, Post, Put};

macro_rules! routes {
    ($($method:ident $path:literal $handler:path, $summary:literal [$($query:literal),*] $body:expr => $reply:expr;)*) => {
        &[$(ApiRoute {
            method: $method,
            path: $path,
            handler: $handler,
            summary: $summary,
            query: &[$($query),*],
            body: $body,
            reply: $reply,
        }),*]
    };
}

const ZONE: Option<&str> = Some("Zone");

#[rustfmt::skip]
pub const ROUTES: &[ApiRoute] = routes! {
    Get "" servers::versions, "List the versions of the API" [] None => Many("Object");
    Get "/docs" openapi::show, "This description" [] None => One(200, "Object");
    Get "/docs.json" openapi::show, "This description" [] None => One(200, "Object");
    Get "/v1" servers::features, "Show the features of this version" [] None => One(200, "Object");
    Get "/v1/servers" servers::list, "List the servers: this one" [] None => Many("Server");
    Get "/v1/servers/localhost" servers::show, "Show the server" [] None => One(200, "Server");
    Get "/v1/servers/localhost/config" config::list, "List settings under their PowerDNS names" [] None => Many("Setting");
    Get "/v1/servers/localhost/config/{setting}" config::show, "Show a setting" [] None => One(200, "Setting");
    Get "/v1/servers/localhost/statistics" statistics::list, "List counters and rings" ["statistic", "includerings"] None => Many("Object");
    Get "/v1/servers/localhost/search-data" search::search, "Search zones, records and comments" ["q", "max", "object_type"] None => Many("Object");
    Get "/v1/servers/localhost/audit" audit::list, "List requested changes, newest first" ["zone", "key", "since", "before", "limit"] None => Many("AuditEntry");
    Get "/v1/servers/localhost/events" events::open, "Follow changes of zones as server-sent events; Last-Event-ID resumes" ["zone"] None => Text("text/event-stream");
    Post "/v1/servers/localhost/operations" operations::run, "Run an operation of the control socket" [] Some("Operation") => Text("application/x-ndjson");
    Put "/v1/servers/localhost/cache/flush" cache::flush, "Flush the caches at a name" ["domain"] None => One(200, "Object");
    Get "/v1/servers/localhost/autoprimaries" autoprimaries::list, "List autoprimaries" [] None => Many("Autoprimary");
    Post "/v1/servers/localhost/autoprimaries" autoprimaries::add, "Add an autoprimary" [] Some("Autoprimary") => Empty;
    Delete "/v1/servers/localhost/autoprimaries/{ip}/{nameserver}" autoprimaries::remove, "Remove an autoprimary" [] None => Empty;
    Get "/v1/servers/localhost/tsigkeys" tsigkeys::list, "List TSIG keys, without secrets" [] None => Many("TsigKey");
    Post "/v1/servers/localhost/tsigkeys" tsigkeys::create, "Create a TSIG key" [] Some("TsigKey") => One(201, "TsigKey");
    Get "/v1/servers/localhost/tsigkeys/{tsigkey_id}" tsigkeys::show, "Show a TSIG key with its secret" [] None => One(200, "TsigKey");
    Put "/v1/servers/localhost/tsigkeys/{tsigkey_id}" tsigkeys::change, "Change a TSIG key" [] Some("TsigKey") => One(200, "TsigKey");
    Delete "/v1/servers/localhost/tsigkeys/{tsigkey_id}" tsigkeys::delete, "Delete a TSIG key" [] None => Empty;
    Get "/v1/servers/localhost/views" views::list, "List views" [] None => One(200, "Object");
    Get "/v1/servers/localhost/views/{view}" views::show, "Show a view" [] None => One(200, "Object");
    Post "/v1/servers/localhost/views/{view}" views::add_zone, "Add a zone to a view" [] Some("Object") => Empty;
    Delete "/v1/servers/localhost/views/{view}/{zone_id}" views::remove_zone, "Remove a zone from a view" [] None => Empty;
    Get "/v1/servers/localhost/networks" views::list_networks, "List networks" [] None => One(200, "Object");
    Get "/v1/servers/localhost/networks/{ip}/{prefix}" views::show_network, "Show a network" [] None => One(200, "Object");
    Put "/v1/servers/localhost/networks/{ip}/{prefix}" views::set_network, "Set the view of a network" [] Some("Object") => Empty;
    Delete "/v1/servers/localhost/networks/{ip}/{prefix}" views::remove_network, "Remove a network" [] None => Empty;
    Get "/v1/servers/localhost/zones" zones::list, "List zones" ["zone", "dnssec", "limit", "offset", "after", "sort", "q"] None => Many("Zone");
    Post "/v1/servers/localhost/zones" zones::create, "Create a zone" ["rrsets"] ZONE => One(201, "Zone");
    Patch "/v1/servers/localhost/zones" changes::patch_many, "Change RRsets of several zones" ["check"] Some("ZonesChange") => One(200, "ZonesChanged");
    Get "/v1/servers/localhost/zones/{zone_id}" zones::show, "Show a zone with its RRsets"
        ["rrsets", "rrset_name", "rrset_type", "include_disabled", "limit", "offset", "after", "sort", "q"] None => One(200, "Zone");
    Put "/v1/servers/localhost/zones/{zone_id}" zones::change, "Change settings of a zone, or replace its RRsets" ["check"] ZONE => Empty;
    Patch "/v1/servers/localhost/zones/{zone_id}" zones::patch, "Change RRsets, all or none" ["check"] ZONE => Empty;
    Delete "/v1/servers/localhost/zones/{zone_id}" zones::delete, "Delete a zone" [] None => Empty;
    Put "/v1/servers/localhost/zones/{zone_id}/axfr-retrieve" actions::retrieve, "Transfer a secondary zone" [] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/notify" actions::notify, "Send NOTIFY to the secondaries" [] None => One(200, "Object");
    Get "/v1/servers/localhost/zones/{zone_id}/check" actions::check, "Report errors and warnings about a zone" [] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/rectify" actions::rectify, "Recompute derived columns" [] None => One(200, "Object");
    Get "/v1/servers/localhost/zones/{zone_id}/export" actions::export, "Export a zone as a zone file" [] None => Text("text/plain");
    Get "/v1/servers/localhost/zones/{zone_id}/history" history::list, "List the versions in the journal" [] None => Many("Version");
    Get "/v1/servers/localhost/zones/{zone_id}/difference" history::difference, "Compare two versions" ["from", "to"] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/rollback" history::rollback, "Restore a version" ["serial", "check"] None => One(200, "ZoneChanged");
    Get "/v1/servers/localhost/zones/{zone_id}/metadata" metadata::list, "List metadata" [] None => Many("Metadata");
    Post "/v1/servers/localhost/zones/{zone_id}/metadata" metadata::add, "Add metadata" [] Some("Metadata") => One(201, "Metadata");
    Get "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" metadata::show, "Show metadata of a kind" [] None => One(200, "Metadata");
    Put "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" metadata::set, "Replace metadata of a kind" [] Some("Metadata") => One(200, "Metadata");
    Delete "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" metadata::delete, "Delete metadata of a kind" [] None => Empty;
    Get "/v1/servers/localhost/zones/{zone_id}/cryptokeys" cryptokeys::list, "List DNSSEC keys" [] None => Many("Cryptokey");
    Post "/v1/servers/localhost/zones/{zone_id}/cryptokeys" cryptokeys::create, "Create or import a DNSSEC key" [] Some("Cryptokey") => One(201, "Cryptokey");
    Get "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" cryptokeys::show, "Show a DNSSEC key with its private key" [] None => One(200, "Cryptokey");
    Put "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" cryptokeys::change, "Activate, publish or withdraw a DNSSEC key" [] Some("Cryptokey") => Empty;
    Delete "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" cryptokeys::delete, "Delete a DNSSEC key" [] None => Empty;
};

impl Api {
    /// Answers a request of a client that has shown this key. It may block.
    pub fn respond(&self, request: &ApiRequest, key: &Arc<ApiKey>) -> ApiResponse {
        match dispatch(&Call::new(self, request, key)) {
            Ok(response) => response,
            Err(error) => {
                if error.status() >= 500 {
                    tracing::error!("API request failed: {error:?}");
                }
                ApiResponse::from_error(&error, request.error_form)
            }
        }
    }

    /// Makes the next part of a long reply, and what follows it. It may block.
    pub fn continue_reply(
        &self,
        rest: ReplyRest,
        request: &ApiRequest,
        key: &Arc<ApiKey>,
    ) -> ApiResult<(Vec<u8>, Option<ReplyRest>)> {
        rest.make(&Call::new(self, request, key))
    }
}

fn dispatch(call: &Call<'_>) -> ApiResult {
    let path = &call.request.path;
    let at_path = ROUTES.iter();
    let at_path = at_path.filter_map(|route| Some((route, path_arguments(route.path, path)?)));
    let mut at_path = at_path.peekable();
    at_path.peek().ok_or(ApiError::NotFound)?;
    if call.request.method == ApiMethod::Options {
        return Ok(preflight());
    }
    let found = at_path.find(|(route, _)| route.method == call.request.method);
    let (route, arguments) = found.ok_or(ApiError::MethodNotAllowed)?;
    // A client that requests an unsupported dry run does not want a change.
    let is_read = route.method == Get || route.query.contains(&"check");
    if !is_read && call.request.flag("check", false)? {
        return Err(ApiError::invalid(
            "check=true is not supported here: it covers changes of RRsets and rollbacks; nothing was changed",
        ));
    }
    (route.handler)(call, &arguments)
}

/// The reply to a CORS preflight request; the actual requests still need the key.
pub fn preflight() -> ApiResponse {
    ApiResponse::text(200, "text/plain", "")
        .with("access-control-allow-headers", "Content-Type, X-API-Key")
        .with(
            "access-control-allow-methods",
            "GET, POST, PUT, PATCH, DELETE, OPTIONS",
        )
        .with("access-control-max-age", "3600")
}

/// Returns the segments of a path that match those in braces; `None` if the path does not match.
pub fn path_arguments<'p>(pattern: &str, path: &'p [String]) -> Option<Vec<&'p str>> {
    let mut segments = path.iter();
    let mut arguments = Vec::new();
    for expected in pattern.split('/').filter(|segment| !segment.is_empty()) {
        let segment = segments.next()?;
        if expected.starts_with('{') {
            arguments.push(segment.as_str());
        } else if expected != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_routes_match_one_path() {
        for route in ROUTES {
            let segments = route.path.split('/').skip(1);
            let path: Vec<String> = segments
                .map(|segment| {
                    let is_parameter = segment.starts_with('{');
                    let segment = if is_parameter {
                        "example.org."
                    } else {
                        segment
                    };
                    segment.to_owned()
                })
                .collect();
            let is_it = |other: &&ApiRoute| path_arguments(other.path, &path).is_some();
            let found: Vec<_> = ROUTES
                .iter()
                .filter(is_it)
                .map(|other| other.path)
                .collect();
            assert!(found.iter().all(|other| *other == route.path), "{path:?}");
            assert!(!found.is_empty(), "{path:?}");
            let is_same = |other: &&ApiRoute| is_it(other) && other.method == route.method;
            assert_eq!(ROUTES.iter().filter(is_same).count(), 1, "{path:?}");
        }
    }
}
